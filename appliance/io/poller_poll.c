// SPDX-License-Identifier: Apache-2.0
// poller_poll.c: poll(2) for io/readiness.c. A dense array of pollfd, grown by doubling; a removed entry
// is filled by the last one. The kernel copies and scans the whole array at every call: this is the
// engine for a few hundred busy connections, and the yardstick for the others.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "io/poller.h"

typedef struct poller_poll {
    poller base;
    struct pollfd *fds;
    io_handle **handles; // the handle of fds[i]
    u32 used, size, size_max;
    u32 scan_from;       // where the last full batch ended, so that nobody starves
} poller_poll;

static short poll_bits(u32 interest) {
    return (short)((interest & POLLER_IN ? POLLIN | POLLRDHUP : 0) |
                   (interest & POLLER_OUT ? POLLOUT : 0));
}

static int poll_grow(poller_poll *pp) {
    u32 size = pp->size == 0 ? 64 : pp->size * 2;
    if (size > pp->size_max) size = pp->size_max;
    if (size <= pp->used) return -ENOSPC;
    struct pollfd *fds = realloc(pp->fds, size * sizeof(*fds));
    if (fds == NULL) return -ENOMEM;
    pp->fds = fds;
    io_handle **handles = realloc(pp->handles, size * sizeof(*handles));
    if (handles == NULL) return -ENOMEM;
    pp->handles = handles;
    pp->size = size;
    return 0;
}

static int poll_add(poller *p, io_handle *h, u32 interest) {
    poller_poll *pp = (poller_poll *)p;
    if (pp->used == pp->size) {
        int result = poll_grow(pp);
        if (result < 0) return result;
    }
    h->poll_index = pp->used++;
    pp->fds[h->poll_index] = (struct pollfd){.fd = h->fd, .events = poll_bits(interest)};
    pp->handles[h->poll_index] = h;
    return 0;
}

static void poll_change(poller *p, io_handle *h, u32 interest) {
    poller_poll *pp = (poller_poll *)p;
    ASSERT(pp->handles[h->poll_index] == h);
    // Without interest the descriptor is hidden: poll would report POLLHUP of it for ever.
    pp->fds[h->poll_index].fd = interest == 0 ? -1 : h->fd;
    pp->fds[h->poll_index].events = poll_bits(interest);
}

static void poll_remove(poller *p, io_handle *h) {
    poller_poll *pp = (poller_poll *)p;
    ASSERT(pp->handles[h->poll_index] == h);
    u32 last = --pp->used;
    if (h->poll_index == last) return;
    pp->fds[h->poll_index] = pp->fds[last];
    pp->handles[h->poll_index] = pp->handles[last];
    pp->handles[h->poll_index]->poll_index = h->poll_index;
}

// poll(2) refuses more entries than the descriptor limit allows (EINVAL, which it has no other use for), which somebody
// may lower below what is open. Then it is asked about one stretch after the other. The limit may change again at any
// time, also before it is read here: what a stretch can not be asked about is looked at in the next turn. Returns as
// poll(2) does, or -errno.
static int poll_in_stretches(poller_poll *pp) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -errno;
    u32 stretch = limit.rlim_cur < pp->used ? (u32)limit.rlim_cur : pp->used;
    for (u32 i = 0; i < pp->used; i++) pp->fds[i].revents = 0;
    if (stretch == 0) return poll(NULL, 0, 1) < 0 ? -errno : 0; // nothing at all may be asked about
    int found = 0;
    for (u32 at = 0; at < pp->used; at += stretch) {
        int ready = poll(pp->fds + at, MIN(pp->used - at, stretch), found == 0 ? 1 : 0); // 1 ms: no spin meanwhile
        if (ready < 0) return errno == EINTR || errno == EINVAL ? found : -errno;
        found += ready;
    }
    return found;
}

static int poll_wait_events(poller *p, int timeout_ms, poller_event *events) {
    poller_poll *pp = (poller_poll *)p;
    counter_add(p->syscalls, 1);
    int left = poll(pp->fds, pp->used, timeout_ms);
    if (left < 0) left = errno == EINVAL ? poll_in_stretches(pp) : -errno;
    if (left < 0) return left == -EINTR ? 0 : left;
    int count = 0;
    u32 at = pp->scan_from < pp->used ? pp->scan_from : 0;
    for (u32 seen = 0; seen < pp->used && left > 0 && count < (int)POLLER_EVENTS_MAX; seen++) {
        u32 i = at;
        at = at + 1 == pp->used ? 0 : at + 1;
        short bits = pp->fds[i].revents;
        if (bits == 0) continue;
        left--;
        u32 ready = 0;
        if (bits & POLLIN) ready |= POLLER_IN;
        if (bits & POLLOUT) ready |= POLLER_OUT;
        if (bits & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) ready |= POLLER_HANGUP;
        const io_handle *h = pp->handles[i];
        events[count++] = (poller_event){h->slot, h->generation, ready};
    }
    pp->scan_from = at;
    return count;
}

static void poll_destroy(poller *p) {
    poller_poll *pp = (poller_poll *)p;
    free(pp->fds);
    free(pp->handles);
    free(pp);
}

static const poller_ops poll_ops = {
    .edge_triggered = false, .add = poll_add, .change = poll_change, .remove = poll_remove,
    .wait = poll_wait_events, .destroy = poll_destroy,
};

poller *poller_poll_create(u32 handles_max, int *error) {
    poller_poll *pp = calloc(1, sizeof(*pp));
    if (pp == NULL) {
        *error = -ENOMEM;
        return NULL;
    }
    pp->base.ops = &poll_ops;
    pp->size_max = handles_max + 1; // and the doorbell
    return &pp->base;
}
