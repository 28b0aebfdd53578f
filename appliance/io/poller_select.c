// SPDX-License-Identifier: Apache-2.0
// poller_select.c: select(2) for io/readiness.c, with bitmaps of our own: the kernel takes as many bits
// as nfds says and is not bound to FD_SETSIZE (1024), which is only the size of libc's fd_set.
// Level-triggered. Good for few, busy connections.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>

#include "io/poller.h"

#define WORD_BITS 64u

typedef struct poller_select {
    poller base;
    u64 *want_in, *want_out; // interest, one bit a descriptor
    u64 *in, *out;           // what select returned
    io_handle **handles;     // by descriptor
    u32 words;               // of each bitmap
    u32 fds_max;             // words * WORD_BITS: highest descriptor that may ever be held + 1
    int fd_top;              // highest watched descriptor
    u32 scan_from;           // word where the last full batch ended
} poller_select;

static void select_interest(poller_select *ps, int fd, u32 interest) {
    u64 bit = 1ull << ((u32)fd % WORD_BITS);
    u32 word = (u32)fd / WORD_BITS;
    ps->want_in[word] = interest & POLLER_IN ? ps->want_in[word] | bit : ps->want_in[word] & ~bit;
    ps->want_out[word] = interest & POLLER_OUT ? ps->want_out[word] | bit : ps->want_out[word] & ~bit;
}

static int select_add(poller *p, io_handle *h, u32 interest) {
    poller_select *ps = (poller_select *)p;
    if ((u32)h->fd >= ps->fds_max) return -ENOSPC;
    ps->handles[h->fd] = h;
    select_interest(ps, h->fd, interest);
    if (h->fd > ps->fd_top) ps->fd_top = h->fd;
    return 0;
}

static void select_change(poller *p, io_handle *h, u32 interest) {
    poller_select *ps = (poller_select *)p;
    ASSERT(ps->handles[h->fd] == h);
    select_interest(ps, h->fd, interest);
}

static void select_remove(poller *p, io_handle *h) {
    poller_select *ps = (poller_select *)p;
    ASSERT(ps->handles[h->fd] == h);
    select_interest(ps, h->fd, 0);
    ps->handles[h->fd] = NULL;
    while (ps->fd_top >= 0 && ps->handles[ps->fd_top] == NULL) ps->fd_top--;
}

static int select_wait_events(poller *p, int timeout_ms, poller_event *events) {
    poller_select *ps = (poller_select *)p;
    u32 words = ps->fd_top < 0 ? 0 : (u32)ps->fd_top / WORD_BITS + 1;
    memcpy(ps->in, ps->want_in, words * sizeof(u64));
    memcpy(ps->out, ps->want_out, words * sizeof(u64));
    struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    counter_add(p->syscalls, 1);
    int left = select(ps->fd_top + 1, (fd_set *)(void *)ps->in, (fd_set *)(void *)ps->out, NULL,
                      timeout_ms < 0 ? NULL : &tv);
    if (left < 0) return errno == EINTR ? 0 : -errno;
    int count = 0;
    u32 at = ps->scan_from < words ? ps->scan_from : 0;
    for (u32 seen = 0; left > 0 && seen < words; seen++) {
        u32 word = at;
        u64 bits = ps->in[word] | ps->out[word];
        if (count + (int)WORD_BITS > (int)POLLER_EVENTS_MAX) break;
        at = at + 1 == words ? 0 : at + 1;
        while (bits != 0) {
            u32 bit = (u32)__builtin_ctzll(bits);
            bits &= bits - 1;
            const io_handle *h = ps->handles[word * WORD_BITS + bit];
            u32 ready = (ps->in[word] >> bit & 1 ? POLLER_IN : 0) |
                        (ps->out[word] >> bit & 1 ? POLLER_OUT : 0);
            left -= (int)(ps->in[word] >> bit & 1) + (int)(ps->out[word] >> bit & 1);
            events[count++] = (poller_event){h->slot, h->generation, ready};
        }
    }
    ps->scan_from = at;
    return count;
}

static void select_destroy(poller *p) {
    poller_select *ps = (poller_select *)p;
    free(ps->want_in);
    free(ps->want_out);
    free(ps->in);
    free(ps->out);
    free(ps->handles);
    free(ps);
}

static const poller_ops select_ops = {
    .edge_triggered = false, .add = select_add, .change = select_change, .remove = select_remove,
    .wait = select_wait_events, .destroy = select_destroy,
};

poller *poller_select_create(u32 handles_max, int *error) {
    poller_select *ps = calloc(1, sizeof(*ps));
    if (ps == NULL) {
        *error = -ENOMEM;
        return NULL;
    }
    ps->base.ops = &select_ops;
    ps->fd_top = -1;
    // Descriptor numbers are shared by the whole process: room for whatever the limit allows.
    struct rlimit limit;
    u64 top = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : handles_max;
    top = MAX(MIN(top, (u64)LIMIT_CONNS_PER_WORKER), 1024);
    ps->words = (u32)((top + WORD_BITS - 1) / WORD_BITS);
    ps->fds_max = ps->words * WORD_BITS;
    ps->want_in = calloc(ps->words, sizeof(u64));
    ps->want_out = calloc(ps->words, sizeof(u64));
    ps->in = calloc(ps->words, sizeof(u64));
    ps->out = calloc(ps->words, sizeof(u64));
    ps->handles = calloc(ps->fds_max, sizeof(*ps->handles));
    if (ps->want_in && ps->want_out && ps->in && ps->out && ps->handles) return &ps->base;
    select_destroy(&ps->base);
    *error = -ENOMEM;
    return NULL;
}
