// SPDX-License-Identifier: Apache-2.0
// readiness.c: completions emulated on readiness: the one loop of the engines epoll-et, epoll-lt, poll
// and select. The poller says what may be done; this file does it and reports it as completions.
//
// - Reading goes into one scratch buffer per engine, lent to on_recv; so an idle connection owns none.
// - Edge-triggered: readiness is remembered in handle.ready until a call says EAGAIN (or a read came back
//   short while the peer has not hung up, which means the same); a handle that used up its turns is put
//   into the work list and goes on in the next round, it is never forgotten.
// - A send is tried at once; interest in writability exists only after EAGAIN and ends when drained.
// - Closing is deferred to the work list, so that no callback runs inside the call that started it.
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/poller.h"

enum { // io_handle.flags
    H_LISTED = 1u << 0,    // in the work list
    H_CLOSING = 1u << 1,
    H_ONE_SHOT = 1u << 2,  // receive ends after one completion
    H_WATCHED = 1u << 3,   // known to the poller
    H_WANT_OUT = 1u << 4,  // interest in writability registered
    H_WANT_IN = 1u << 5,   // interest in reading registered (level-triggered pollers)
};

typedef struct readiness_engine {
    io_engine base;
    poller *poller;
    io_handle doorbell;    // eventfd; not in the slot table
    u32 work_head, work_tail; // by slot
    u32 work_count;
    u8 *scratch;
    poller_event events[POLLER_EVENTS_MAX];
} readiness_engine;

static readiness_engine *readiness_of(io_engine *e) {
    return (readiness_engine *)e;
}

static void work_add(readiness_engine *re, io_handle *h) {
    if (h->flags & H_LISTED) return;
    h->flags |= H_LISTED;
    h->link_next = IO_SLOT_NONE;
    if (re->work_tail == IO_SLOT_NONE) {
        re->work_head = h->slot;
    } else {
        re->base.slots[re->work_tail].handle->link_next = h->slot;
    }
    re->work_tail = h->slot;
    re->work_count++;
}

static void work_remove(readiness_engine *re, io_handle *h) {
    if (!(h->flags & H_LISTED)) return;
    u32 *link = &re->work_head;
    u32 previous = IO_SLOT_NONE;
    while (*link != h->slot) {
        previous = *link;
        link = &re->base.slots[*link].handle->link_next;
    }
    *link = h->link_next;
    if (re->work_tail == h->slot) re->work_tail = previous;
    h->flags &= (u8)~H_LISTED;
    re->work_count--;
}

// Brings the poller's interest in line. in: whether reading is watched. Reading is watched from the
// start and, under edge triggering, for ever: what comes while nothing is armed is remembered. A
// level-triggered poller would tell it again and again, so there interest is dropped when an event comes
// that nobody waits for (not at io_recv_stop: most stops are short and so cost no system call).
static void interest_update(readiness_engine *re, io_handle *h, bool in) {
    bool out = (h->armed & (IO_ARMED_SEND | IO_ARMED_CONNECT)) != 0;
    u8 flags = (u8)((in ? H_WANT_IN : 0) | (out ? H_WANT_OUT : 0));
    if ((h->flags & (H_WANT_IN | H_WANT_OUT)) == flags) return;
    h->flags = (u8)((h->flags & ~(H_WANT_IN | H_WANT_OUT)) | flags);
    re->poller->ops->change(re->poller, h, (in ? POLLER_IN : 0) | (out ? POLLER_OUT : 0));
}

static bool reading_is_watched(const io_handle *h) {
    return (h->flags & H_WANT_IN) != 0;
}

static int readiness_attach(io_engine *e, io_handle *h) {
    readiness_engine *re = readiness_of(e);
    int result = re->poller->ops->add(re->poller, h, POLLER_IN);
    if (result < 0) return result;
    h->flags |= H_WATCHED | H_WANT_IN;
    return 0;
}

static void readiness_detach(io_engine *e, io_handle *h) {
    readiness_engine *re = readiness_of(e);
    work_remove(re, h);
    if (h->flags & H_WATCHED) re->poller->ops->remove(re->poller, h);
}

static void readiness_accept_start(io_engine *e, io_handle *h, bool multishot) {
    (void)multishot; // a stop takes effect at once in any case
    h->armed |= IO_ARMED_ACCEPT;
    interest_update(readiness_of(e), h, true);
    if (readiness_of(e)->poller->ops->edge_triggered) work_add(readiness_of(e), h);
}

static void readiness_accept_stop(io_engine *e, io_handle *h) {
    (void)e; // interest is dropped when an event comes that nobody waits for
    h->armed &= (u8)~IO_ARMED_ACCEPT;
}

static void readiness_recv_start(io_engine *e, io_handle *h, bool multishot) {
    h->armed |= IO_ARMED_RECV;
    h->flags = (u8)(multishot ? h->flags & ~H_ONE_SHOT : h->flags | H_ONE_SHOT);
    interest_update(readiness_of(e), h, true);
    if (h->ready & (POLLER_IN | POLLER_HANGUP)) work_add(readiness_of(e), h);
}

static void readiness_recv_stop(io_engine *e, io_handle *h) {
    (void)e; // interest is dropped when an event comes that nobody waits for
    h->armed &= (u8)~IO_ARMED_RECV;
}

// One send or sendmsg. Returns bytes or -errno.
static int send_now(readiness_engine *re, io_handle *h, const struct iovec *iov, u32 iovs) {
    counter_add(&re->base.stats.syscalls, 1);
    ssize_t sent;
    if (iovs == 1) {
        sent = send(h->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
        struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (int)iovs};
        sent = sendmsg(h->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    int result = sent < 0 ? -errno : (int)sent;
    counter_add(&re->base.stats.sends, 1);
    if (result > 0) counter_add(&re->base.stats.sent_bytes, (u64)result);
    io_record(&re->base, result == -EAGAIN ? REC_SEND_WAIT : REC_SENT, h, result, 0);
    return result;
}

static int readiness_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs) {
    readiness_engine *re = readiness_of(e);
    io_record(e, REC_SEND, h, (int)iov[0].iov_len, iovs > 1 ? 2 : 0);
    int result = send_now(re, h, iov, iovs);
    if (result != -EAGAIN && result != -ENOBUFS) return result;
    counter_add(&e->stats.send_waits, 1);
    h->armed |= IO_ARMED_SEND;
    h->send_iov = iov;
    h->send_iovs = iovs;
    interest_update(re, h, reading_is_watched(h));
    return IO_PENDING;
}

static int readiness_send_lent(io_engine *e, io_handle *h, const struct iovec *iov) {
    return send_now(readiness_of(e), h, iov, 1);
}

static void readiness_connect(io_engine *e, io_handle *h, const struct sockaddr *addr,
                              socklen_t addr_len) {
    readiness_engine *re = readiness_of(e);
    counter_add(&e->stats.syscalls, 1);
    int result = connect(h->fd, addr, addr_len) == 0 ? 0 : -errno;
    // An immediate result (loopback, or refused) is told by the work list like any other completion.
    h->armed |= IO_ARMED_CONNECT;
    h->send_iovs = (u32)-result;
    if (result != -EINPROGRESS) {
        h->ready |= POLLER_OUT;
        work_add(re, h);
    } else {
        h->send_iovs = 0;
    }
    interest_update(re, h, reading_is_watched(h));
}

static void readiness_close(io_engine *e, io_handle *h, bool reset) {
    readiness_engine *re = readiness_of(e);
    if (h->flags & H_CLOSING) return;
    if (reset) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(h->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    h->flags |= H_CLOSING;
    h->armed = 0;
    if (h->flags & H_WATCHED) re->poller->ops->remove(re->poller, h);
    h->flags &= (u8)~H_WATCHED;
    work_add(re, h);
}

static void close_finish(readiness_engine *re, io_handle *h) {
    io_record(&re->base, REC_CLOSED, h, 0, 0);
    counter_add(&re->base.stats.syscalls, 1);
    close(h->fd);
    io_slot_release(&re->base, h);
    if (h->callbacks->on_closed != NULL) h->callbacks->on_closed(h);
}

// Whether the handle is still the same after a callback (it may have moved to another worker).
static bool still_here(readiness_engine *re, io_handle *h, u32 slot, u32 generation) {
    return io_slot_find(&re->base, slot, generation) == h && !(h->flags & H_CLOSING);
}

static void do_accept(readiness_engine *re, io_handle *h) {
    u32 slot = h->slot, generation = h->generation;
    for (u32 turn = 0; turn < LIMIT_ACCEPT_TURNS; turn++) {
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof(peer);
        peer.ss_family = AF_UNSPEC;
        counter_add(&re->base.stats.syscalls, 1);
        int fd = accept4(h->fd, (struct sockaddr *)&peer, &peer_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int result = fd < 0 ? -errno : fd;
        if (result == -EAGAIN) {
            h->ready &= ~(u32)POLLER_IN;
            return;
        }
        if (result == -EINTR || result == -ECONNABORTED) continue;
        io_record(&re->base, REC_ACCEPT, h, result, 0);
        counter_add(&re->base.stats.completions, 1);
        if (result < 0) h->armed &= (u8)~IO_ARMED_ACCEPT;
        else counter_add(&re->base.stats.accepts, 1);
        h->callbacks->on_accept(h, result, &peer);
        if (!still_here(re, h, slot, generation) || !(h->armed & IO_ARMED_ACCEPT)) return;
    }
    if (re->poller->ops->edge_triggered) work_add(re, h);
}

static void do_recv(readiness_engine *re, io_handle *h) {
    u32 slot = h->slot, generation = h->generation;
    for (u32 bytes = 0; bytes < LIMIT_RECV_TURN_BYTES;) {
        counter_add(&re->base.stats.syscalls, 1);
        ssize_t got = recv(h->fd, re->scratch, LIMIT_RECV_SCRATCH_BYTES, MSG_DONTWAIT);
        int result = got < 0 ? -errno : (int)got;
        if (result == -EAGAIN || result == -EINTR) {
            h->ready &= ~(u32)(POLLER_IN | POLLER_HANGUP);
            return;
        }
        io_record(&re->base, REC_RECV, h, result, 0);
        counter_add(&re->base.stats.completions, 1);
        bool drained = result > 0 && (u32)result < LIMIT_RECV_SCRATCH_BYTES &&
                       !(h->ready & POLLER_HANGUP);
        if (drained) h->ready &= ~(u32)POLLER_IN;
        if (result > 0) {
            counter_add(&re->base.stats.recvs, 1);
            counter_add(&re->base.stats.recv_bytes, (u64)result);
            bytes += (u32)result;
        }
        if (result <= 0 || (h->flags & H_ONE_SHOT)) {
            h->armed &= (u8)~IO_ARMED_RECV;
        }
        h->callbacks->on_recv(h, result, re->scratch);
        if (!still_here(re, h, slot, generation) || drained || !(h->armed & IO_ARMED_RECV)) return;
    }
    if (re->poller->ops->edge_triggered) work_add(re, h);
}

static void do_send(readiness_engine *re, io_handle *h) {
    int result = send_now(re, h, h->send_iov, h->send_iovs);
    if (result == -EAGAIN || result == -ENOBUFS) {
        h->ready &= ~(u32)POLLER_OUT;
        return;
    }
    h->armed &= (u8)~IO_ARMED_SEND;
    counter_add(&re->base.stats.completions, 1);
    h->callbacks->on_send(h, result);
}

static void do_connect(readiness_engine *re, io_handle *h) {
    int error = (int)h->send_iovs; // what connect(2) said at once, if it did
    socklen_t len = sizeof(error);
    if (error == 0) {
        counter_add(&re->base.stats.syscalls, 1);
        if (getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) error = errno;
    }
    h->armed &= (u8)~IO_ARMED_CONNECT;
    h->send_iovs = 0;
    interest_update(re, h, reading_is_watched(h));
    io_record(&re->base, REC_CONNECT, h, -error, 0);
    counter_add(&re->base.stats.completions, 1);
    h->callbacks->on_connect(h, -error);
}

// Does what is both armed and ready. Sends first: they free memory.
static void handle_progress(readiness_engine *re, io_handle *h) {
    u32 slot = h->slot, generation = h->generation;
    u32 can_send = POLLER_OUT | POLLER_HANGUP;
    if ((h->armed & IO_ARMED_CONNECT) && (h->ready & can_send)) {
        do_connect(re, h);
        if (!still_here(re, h, slot, generation)) return;
    }
    if ((h->armed & IO_ARMED_SEND) && (h->ready & can_send)) {
        do_send(re, h);
        if (!still_here(re, h, slot, generation)) return;
        // A further send that had to wait is armed again by now.
        interest_update(re, h, reading_is_watched(h));
    }
    if (h->armed & IO_ARMED_ACCEPT) {
        do_accept(re, h);
    } else if (h->ready & (POLLER_IN | POLLER_HANGUP)) {
        if (h->armed & IO_ARMED_RECV) {
            do_recv(re, h);
        } else if (!re->poller->ops->edge_triggered) {
            interest_update(re, h, false);
        }
    }
}

// Handles what is in the list now; what is added meanwhile belongs to the next round.
static u32 work_run(readiness_engine *re) {
    u32 done = 0;
    for (u32 left = re->work_count; left > 0 && re->work_head != IO_SLOT_NONE; left--) {
        io_handle *h = re->base.slots[re->work_head].handle;
        work_remove(re, h);
        done++;
        if (h->flags & H_CLOSING) {
            close_finish(re, h);
        } else {
            handle_progress(re, h);
        }
    }
    return done;
}

static int timeout_ms_until(const readiness_engine *re, u64 deadline_ns) {
    if (deadline_ns == UINT64_MAX) return -1;
    u64 now = clock_mono_ns();
    *re->base.now_ns = now;
    if (deadline_ns <= now) return 0;
    u64 ms = (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

static int readiness_run(io_engine *e, u64 deadline_ns) {
    readiness_engine *re = readiness_of(e);
    u32 done = re->work_head != IO_SLOT_NONE ? work_run(re) : 0;
    bool poll_only = done > 0 || re->work_head != IO_SLOT_NONE || deadline_ns == 0;
    int timeout_ms = poll_only ? 0 : timeout_ms_until(re, deadline_ns);
    counter_add(&e->stats.waits, 1);
    int count = re->poller->ops->wait(re->poller, timeout_ms, re->events);
    if (count < 0) return count;
    *e->now_ns = clock_mono_ns();
    for (int i = 0; i < count; i++) {
        const poller_event *event = &re->events[i];
        if (event->slot == POLLER_SLOT_WAKE) {
            u64 ignored;
            counter_add(&e->stats.syscalls, 1);
            (void)!read(re->doorbell.fd, &ignored, sizeof(ignored));
            counter_add(&e->stats.wakes_received, 1);
            done++;
            continue;
        }
        // An event of a handle closed earlier in this batch is no fault here: the kernel told us before.
        io_handle *h = io_slot_find(e, event->slot, event->generation);
        if (h == NULL || (h->flags & H_CLOSING)) continue;
        if (event->ready & POLLER_HANGUP) h->ready |= POLLER_HANGUP;
        h->ready |= event->ready & (POLLER_IN | POLLER_OUT);
        done++;
        handle_progress(re, h);
    }
    if (done > 0) hist_record(&e->stats.batch, done);
    return (int)done;
}

static void readiness_wake(io_engine *e) {
    u64 one = 1;
    (void)!write(readiness_of(e)->doorbell.fd, &one, sizeof(one));
}

static int readiness_enable(io_engine *e) {
    (void)e; // nothing is bound to the thread
    return 0;
}

static void readiness_destroy(io_engine *e) {
    readiness_engine *re = readiness_of(e);
    if (re->doorbell.fd >= 0) close(re->doorbell.fd);
    if (re->poller != NULL) re->poller->ops->destroy(re->poller);
    free(re->scratch);
    io_engine_fini(e);
    free(re);
}

static const io_ops readiness_ops = {
    .enable = readiness_enable,
    .destroy = readiness_destroy,
    .attach = readiness_attach,
    .detach = readiness_detach,
    .accept_start = readiness_accept_start,
    .accept_stop = readiness_accept_stop,
    .recv_start = readiness_recv_start,
    .recv_stop = readiness_recv_stop,
    .send = readiness_send,
    .send_lent = readiness_send_lent,
    .connect = readiness_connect,
    .close = readiness_close,
    .run = readiness_run,
    .wake = readiness_wake,
};

static poller *poller_create(const io_config *config, int *error) {
    switch (config->kind) {
    case IO_EPOLL_ET:
        return poller_epoll_create(true, error);
    case IO_EPOLL_LT:
        return poller_epoll_create(false, error);
    case IO_POLL:
        return poller_poll_create(config->handles_max, error);
    default:
        ASSERT(config->kind == IO_SELECT);
        return poller_select_create(config->handles_max, error);
    }
}

int io_readiness_create(const io_config *config, io_engine **out, const char **step) {
    readiness_engine *re = calloc(1, sizeof(*re));
    *step = "allocate engine";
    if (re == NULL) return -ENOMEM;
    re->doorbell.fd = -1;
    re->work_head = re->work_tail = IO_SLOT_NONE;
    int result = io_engine_init(&re->base, &readiness_ops, config);
    if (result < 0) goto fail;
    result = -ENOMEM;
    re->scratch = malloc(LIMIT_RECV_SCRATCH_BYTES);
    if (re->scratch == NULL) goto fail;
    *step = "create poller";
    re->poller = poller_create(config, &result);
    if (re->poller == NULL) goto fail;
    re->poller->syscalls = &re->base.stats.syscalls;
    *step = "eventfd";
    re->doorbell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    result = -errno;
    if (re->doorbell.fd < 0) goto fail;
    *step = "watch eventfd";
    re->doorbell.slot = POLLER_SLOT_WAKE;
    result = re->poller->ops->add(re->poller, &re->doorbell, POLLER_IN);
    if (result < 0) goto fail;
    *out = &re->base;
    return 0;
fail:
    readiness_destroy(&re->base);
    return result;
}
