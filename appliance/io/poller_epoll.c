// SPDX-License-Identifier: Apache-2.0
// poller_epoll.c: epoll(7), edge- or level-triggered, for io/readiness.c. Works from kernel 2.6.28 on:
// epoll_pwait2 (5.11) is not needed, since the timer wheel's tick is far above a millisecond.
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/poller.h"

typedef struct poller_epoll {
    poller base;
    int fd;
    struct epoll_event events[POLLER_EVENTS_MAX];
} poller_epoll;

static u32 epoll_bits(const poller *p, u32 interest) {
    // EPOLLHUP and EPOLLERR are always told: without interest only once, or a level-triggered loop spins.
    u32 bits = p->ops->edge_triggered || interest == 0 ? (u32)EPOLLET : 0;
    if (interest & POLLER_IN) bits |= EPOLLIN | EPOLLRDHUP;
    if (interest & POLLER_OUT) bits |= EPOLLOUT;
    return bits;
}

static int epoll_control(poller *p, int op, io_handle *h, u32 interest) {
    poller_epoll *pe = (poller_epoll *)p;
    struct epoll_event event = {
        .events = epoll_bits(p, interest),
        .data.u64 = (u64)h->generation << 32 | h->slot,
    };
    counter_add(p->syscalls, 1);
    return epoll_ctl(pe->fd, op, h->fd, &event) == 0 ? 0 : -errno;
}

static int epoll_add(poller *p, io_handle *h, u32 interest) {
    return epoll_control(p, EPOLL_CTL_ADD, h, interest);
}

static void epoll_change(poller *p, io_handle *h, u32 interest) {
    int result = epoll_control(p, EPOLL_CTL_MOD, h, interest);
    ASSERT(result == 0 || result == -ENOMEM); // the descriptor is ours and was added
}

static void epoll_remove(poller *p, io_handle *h) {
    // close(2) removes it too, but only when no other reference (a hand-over) keeps the file open.
    int result = epoll_control(p, EPOLL_CTL_DEL, h, 0);
    ASSERT(result == 0);
}

static int epoll_wait_events(poller *p, int timeout_ms, poller_event *events) {
    poller_epoll *pe = (poller_epoll *)p;
    counter_add(p->syscalls, 1);
    int count = epoll_wait(pe->fd, pe->events, (int)POLLER_EVENTS_MAX, timeout_ms);
    if (count < 0) return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < count; i++) {
        u32 bits = pe->events[i].events;
        u32 ready = 0;
        if (bits & EPOLLIN) ready |= POLLER_IN;
        if (bits & EPOLLOUT) ready |= POLLER_OUT;
        if (bits & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= POLLER_HANGUP;
        events[i] = (poller_event){
            .slot = (u32)pe->events[i].data.u64,
            .generation = (u32)(pe->events[i].data.u64 >> 32),
            .ready = ready,
        };
    }
    return count;
}

static void epoll_destroy(poller *p) {
    poller_epoll *pe = (poller_epoll *)p;
    close(pe->fd);
    free(pe);
}

#define EPOLL_OPS(edge) \
    { \
        .edge_triggered = (edge), .add = epoll_add, .change = epoll_change, .remove = epoll_remove, \
        .wait = epoll_wait_events, .destroy = epoll_destroy, \
    }
static const poller_ops epoll_et_ops = EPOLL_OPS(true);
static const poller_ops epoll_lt_ops = EPOLL_OPS(false);

poller *poller_epoll_create(bool edge_triggered, int *error) {
    poller_epoll *pe = calloc(1, sizeof(*pe));
    if (pe == NULL) {
        *error = -ENOMEM;
        return NULL;
    }
    pe->base.ops = edge_triggered ? &epoll_et_ops : &epoll_lt_ops;
    pe->fd = epoll_create1(EPOLL_CLOEXEC);
    if (pe->fd < 0) {
        *error = -errno;
        free(pe);
        return NULL;
    }
    return &pe->base;
}
