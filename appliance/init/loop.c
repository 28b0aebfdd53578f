// SPDX-License-Identifier: Apache-2.0
// loop.c: see loop.h. Watches are in a table of slots; an event carries slot and generation, so that one
// the kernel reported for a watch removed in the same turn is recognised and dropped. Timers are a list
// sorted by deadline: init has about a dozen.
#include "init/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "init/init_log.h"
#include "limits.h"

static struct {
    int epoll_fd;
    bool stopping;
    u64 now_ns;
    u32 generation;
    init_watch *watches[LIMIT_INIT_WATCHES];
    init_timer *timers;
} loop = {.epoll_fd = -1};

int init_loop_open(void) {
    ASSERT(loop.epoll_fd < 0);
    loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop.epoll_fd < 0) return -errno;
    loop.stopping = false;
    loop.now_ns = clock_mono_ns();
    return 0;
}

void init_loop_close(void) {
    if (loop.epoll_fd >= 0) close(loop.epoll_fd);
    loop.epoll_fd = -1;
    memset(loop.watches, 0, sizeof(loop.watches));
    loop.timers = NULL;
}

u64 init_loop_now_ns(void) {
    return loop.now_ns;
}

void init_loop_stop(void) {
    loop.stopping = true;
}

// --- descriptors ---

static u64 watch_key(const init_watch *w) {
    return (u64)w->generation << 32 | w->slot;
}

static int slot_find(void) {
    for (u32 i = 0; i < LIMIT_INIT_WATCHES; i++) {
        if (loop.watches[i] == NULL) return (int)i;
    }
    return -ENOSPC;
}

int init_loop_watch(init_watch *w, u32 events) {
    ASSERT(w->generation == 0 && w->on_ready != NULL && w->name != NULL);
    int slot = slot_find();
    if (slot < 0) return slot;
    w->slot = (u32)slot;
    w->generation = ++loop.generation == 0 ? ++loop.generation : loop.generation;
    struct epoll_event event = {.events = events, .data.u64 = watch_key(w)};
    if (epoll_ctl(loop.epoll_fd, EPOLL_CTL_ADD, w->fd, &event) < 0) {
        w->generation = 0;
        return -errno;
    }
    loop.watches[slot] = w;
    return 0;
}

int init_loop_watch_events(init_watch *w, u32 events) {
    ASSERT(w->generation != 0);
    struct epoll_event event = {.events = events, .data.u64 = watch_key(w)};
    return epoll_ctl(loop.epoll_fd, EPOLL_CTL_MOD, w->fd, &event) < 0 ? -errno : 0;
}

void init_loop_unwatch(init_watch *w) {
    if (w->generation == 0) return;
    ASSERT(loop.watches[w->slot] == w);
    epoll_ctl(loop.epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    loop.watches[w->slot] = NULL;
    w->generation = 0;
}

// --- timers ---

void init_timer_clear(init_timer *t) {
    if (!t->armed) return;
    init_timer **link = &loop.timers;
    while (*link != t) {
        ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = t->next;
    t->next = NULL;
    t->armed = false;
}

void init_timer_set(init_timer *t, u64 ms) {
    ASSERT(t->on_fire != NULL && t->name != NULL);
    init_timer_clear(t);
    t->deadline_ns = clock_mono_ns() + ms * NS_PER_MS;
    t->armed = true;
    init_timer **link = &loop.timers;
    while (*link != NULL && (*link)->deadline_ns <= t->deadline_ns) link = &(*link)->next;
    t->next = *link;
    *link = t;
}

// --- turns ---

// Milliseconds to the next timer, rounded up so that no turn comes just too early.
static int wait_bound_ms(int wait_ms) {
    if (loop.timers == NULL) return wait_ms;
    u64 now = clock_mono_ns();
    u64 deadline = loop.timers->deadline_ns;
    u64 ms = deadline <= now ? 0 : (deadline - now + NS_PER_MS - 1) / NS_PER_MS;
    u64 bound = MIN(ms, (u64)INT32_MAX);
    return wait_ms < 0 || bound < (u64)wait_ms ? (int)bound : wait_ms;
}

static void tell_slow(const char *name, u64 from_ns) {
    u64 took_ms = (clock_mono_ns() - from_ns) / NS_PER_MS;
    if (took_ms > LIMIT_INIT_TURN_MS) init_warn("%s held up init for %llu ms", name, (unsigned long long)took_ms);
}

// Only those due at the start of the turn: a timer that sets itself to 0 can not starve the descriptors.
static void timers_run(void) {
    u64 due_ns = clock_mono_ns();
    while (loop.timers != NULL && loop.timers->deadline_ns <= due_ns) {
        init_timer *t = loop.timers;
        const char *name = t->name;
        init_timer_clear(t);
        u64 from_ns = clock_mono_ns();
        t->on_fire(t);
        tell_slow(name, from_ns);
    }
}

int init_loop_turn(int wait_ms) {
    struct epoll_event events[16];
    int count = epoll_wait(loop.epoll_fd, events, (int)ARRAY_LEN(events), wait_bound_ms(wait_ms));
    int failed = errno;
    loop.now_ns = clock_mono_ns();
    if (count < 0 && failed != EINTR) return -failed;
    for (int i = 0; i < count; i++) {
        u32 slot = (u32)events[i].data.u64;
        init_watch *w = loop.watches[slot];
        if (w == NULL || w->generation != (u32)(events[i].data.u64 >> 32)) continue;
        const char *name = w->name;
        u64 from_ns = clock_mono_ns();
        w->on_ready(w, events[i].events);
        tell_slow(name, from_ns);
    }
    timers_run();
    return 0;
}

int init_loop_run(void) {
    while (!loop.stopping) {
        int result = init_loop_turn(-1);
        if (result < 0) return result;
    }
    return 0;
}
