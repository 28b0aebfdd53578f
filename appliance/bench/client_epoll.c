// SPDX-License-Identifier: Apache-2.0
// client_epoll.c: the generator's fallback engine: epoll, edge-triggered, one registration a
// connection for its whole life (readable, writable, peer closed), so that there is one epoll_ctl
// each.
//
// A read that returns less than the buffer holds has emptied the socket: what comes later is a new
// edge, so the second read that would only say EAGAIN is not made.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench/client_io_impl.h"

#define EPOLL_EVENTS_MAX 256
#define EPOLL_READS_MAX 16 // of one connection in a row before the others get a turn

typedef struct epoll_client {
    int fd;
    u8 *buffer;
    struct epoll_event events[EPOLL_EVENTS_MAX];
    u64 *unfinished; // tags of connections that may hold more bytes than one turn's reads
    u32 unfinished_count;
    bool no_pwait2; // kernel before 5.11: millisecond waits
} epoll_client;

static int epoll_attach(cio *io, cio_conn *c) {
    epoll_client *e = io->engine;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                             .data.u64 = cio_tag(CIO_OP_RECV, c)};
    return epoll_ctl(e->fd, EPOLL_CTL_ADD, c->fd, &ev) == 0 ? 0 : -errno;
}

static void epoll_detach(cio *io, cio_conn *c) {
    (void)io; // closing the only descriptor of a file removes it from the set
    (void)c;
}

// 1 all taken, 0 the rest waits for EPOLLOUT, or a negative errno.
static int send_some(cio_conn *c) {
    while (c->tx_left > 0) {
        ssize_t n = send(c->fd, c->tx, c->tx_left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN ? 0 : -errno;
        c->tx += n;
        c->tx_left -= (u32)n;
    }
    return 1;
}

static int epoll_send(cio *io, cio_conn *c) {
    (void)io;
    return send_some(c);
}

static void read_ready(cio *io, epoll_client *e, u64 tag, cio_conn *c, u64 now_ns) {
    u32 generation = c->generation;
    for (u32 i = 0; i < EPOLL_READS_MAX; i++) {
        ssize_t n = recv(c->fd, e->buffer, io->buf_bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            cio_end(c, n == 0 ? 0 : -errno);
            return;
        }
        c->events->data(c->events->ctx, c, e->buffer, (size_t)n, now_ns);
        if (c->generation != generation || !c->open || c->ended) return;
        if ((size_t)n < io->buf_bytes) return;
    }
    if (c->armed) return; // already listed
    c->armed = true;
    e->unfinished[e->unfinished_count++] = tag;
}

static void event_handle(cio *io, epoll_client *e, const struct epoll_event *ev, u64 now_ns) {
    cio_conn *c = cio_tag_conn(io, ev->data.u64);
    if (c == NULL || c->ended) return;
    if ((ev->events & EPOLLOUT) != 0 && c->sending) {
        int rc = send_some(c);
        if (rc < 0) {
            cio_end(c, rc);
            return;
        }
        if (rc == 1) {
            c->sending = false;
            c->events->sent(c->events->ctx, c);
        }
        if (cio_tag_conn(io, ev->data.u64) != c || c->ended) return;
    }
    if ((ev->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0) return;
    read_ready(io, e, ev->data.u64, c, now_ns);
    c = cio_tag_conn(io, ev->data.u64);
    // The FIN's edge may be this one, and a short read hides it: ask once more.
    if (c != NULL && !c->ended && (ev->events & EPOLLRDHUP) != 0) {
        read_ready(io, e, ev->data.u64, c, now_ns);
    }
}

static int events_wait(epoll_client *e, bool wait, u64 until_ns) {
    u64 now_ns = wait ? clock_mono_ns() : 0;
    u64 left = wait && until_ns > now_ns && e->unfinished_count == 0 ? until_ns - now_ns : 0;
    if (left > 0 && !e->no_pwait2) {
        struct timespec ts = {.tv_sec = (time_t)(left / NS_PER_S),
                              .tv_nsec = (long)(left % NS_PER_S)};
        long n = syscall(SYS_epoll_pwait2, e->fd, e->events, EPOLL_EVENTS_MAX, &ts, NULL,
                         (size_t)0);
        if (n >= 0 || errno == EINTR) return n < 0 ? 0 : (int)n;
        e->no_pwait2 = true;
    }
    int n = epoll_wait(e->fd, e->events, EPOLL_EVENTS_MAX, (int)MIN(left / NS_PER_MS, 1000));
    return n < 0 ? 0 : n; // EINTR only: the others are programmer's errors
}

static u32 epoll_turn(cio *io, bool wait, u64 until_ns) {
    epoll_client *e = io->engine;
    int n = events_wait(e, wait, until_ns);
    u32 again = e->unfinished_count;
    if (n == 0 && again == 0) return 0;
    u64 now_ns = clock_mono_ns();
    e->unfinished_count = 0;
    for (u32 i = 0; i < again; i++) {
        // At most one entry is written for each one read, and behind the reader.
        u64 tag = e->unfinished[i];
        cio_conn *c = cio_tag_conn(io, tag);
        if (c == NULL) continue;
        c->armed = false;
        if (!c->ended) read_ready(io, e, tag, c, now_ns);
    }
    for (int i = 0; i < n; i++) event_handle(io, e, &e->events[i], now_ns);
    return (u32)n + again;
}

static void epoll_free(cio *io) {
    epoll_client *e = io->engine;
    close(e->fd);
    free(e->buffer);
    free(e->unfinished);
    free(e);
}

static const cio_vtable epoll_vtable = {
    .name = "epoll",
    .free = epoll_free,
    .attach = epoll_attach,
    .detach = epoll_detach,
    .send = epoll_send,
    .turn = epoll_turn,
};

int cio_epoll_open(cio *io) {
    epoll_client *e = calloc(1, sizeof(*e));
    if (e == NULL) return -ENOMEM;
    // Listed at most once each (armed), but a closed one stays listed until the next turn: twice
    // the slots.
    e->unfinished = malloc((size_t)io->slots * 2 * sizeof(*e->unfinished));
    e->buffer = malloc(io->buf_bytes);
    e->fd = epoll_create1(EPOLL_CLOEXEC);
    if (e->fd < 0 || e->buffer == NULL || e->unfinished == NULL) {
        int rc = e->fd < 0 ? -errno : -ENOMEM;
        if (e->fd >= 0) close(e->fd);
        free(e->buffer);
        free(e->unfinished);
        free(e);
        return rc;
    }
    io->engine = e;
    io->v = &epoll_vtable;
    return 0;
}
