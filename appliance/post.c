// SPDX-License-Identifier: Apache-2.0
// post.c: messages between workers: one ring for each pair, an overflow list behind it, and the doorbell.
// A sender rings once per loop and receiver, and only when the receiver said that it is about to sleep.
//
// Order between two workers is kept: once a message waits in the overflow list, later ones queue behind.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/siphash.h"
#include "post.h"

u64 worker_place_hash(const char *id, size_t bytes) {
    return siphash24(siphash_process_key(), id, bytes);
}

u32 worker_of_client(const gateway *gw, const char *id, size_t bytes) {
    return (u32)(worker_place_hash(id, bytes) % gw->worker_count);
}

// The ring from one sender to one receiver lies in the receiver's inbox, indexed by the sender.
static spsc *ring_to(const worker *from, u32 to) {
    return &from->gw->workers[to].inbox[from->index];
}

int post_init(worker *w, u32 workers_all) {
    w->inbox = aligned_alloc(CACHE_LINE, sizeof(spsc) * (workers_all + 1));
    w->post = calloc(workers_all, sizeof(*w->post));
    if (w->inbox == NULL || w->post == NULL) return -ENOMEM;
    memset(w->inbox, 0, sizeof(spsc) * (workers_all + 1));
    w->inbox_count = workers_all + 1; // the last one is the control thread's
    for (u32 i = 0; i < w->inbox_count; i++) {
        int result = spsc_init(&w->inbox[i], i == workers_all ? 64 : LIMIT_RING_SLOTS);
        if (result < 0) return result;
    }
    return 0;
}

void post_fini(worker *w) {
    for (u32 i = 0; i < w->inbox_count; i++) spsc_free(&w->inbox[i]);
    free(w->inbox);
    for (u32 i = 0; w->post != NULL && i + 1 < w->inbox_count; i++) free(w->post[i].waiting);
    free(w->post);
    w->inbox = NULL;
    w->post = NULL;
    w->inbox_count = 0;
}

static bool overflow_push(worker *from, worker_post_queue *queue, const spsc_message *message) {
    if (queue->count == LIMIT_RING_OVERFLOW) return false;
    if (queue->waiting == NULL) {
        queue->waiting = malloc(sizeof(*message) * LIMIT_RING_OVERFLOW); // touched as it fills
        if (queue->waiting == NULL) return false;
    }
    queue->waiting[(queue->first + queue->count) & (LIMIT_RING_OVERFLOW - 1)] = *message;
    queue->count++;
    from->overflow_total++;
    counter_add(&from->metrics.post_overflows, 1);
    return true;
}
_Static_assert(IS_POWER_OF_TWO(LIMIT_RING_OVERFLOW), "overflow index is masked");

bool worker_post(worker *from, u32 to, const spsc_message *message) {
    worker_post_queue *queue = &from->post[to];
    if (queue->count > 0 || !spsc_push(ring_to(from, to), message)) {
        if (!overflow_push(from, queue, message)) return false;
    }
    counter_add(&from->metrics.posts, 1);
    from->posted_mask[to / 64] |= 1ull << (to % 64);
    return true;
}

bool worker_post_has_room(const worker *from, u32 to) {
    return from->post[to].count < LIMIT_RING_OVERFLOW;
}

bool worker_post_is_congested(const worker *w) {
    return w->overflow_total > 0;
}

// Moves what waits into the rings as far as there is room.
void post_overflow_run(worker *w) {
    if (w->overflow_total == 0) return;
    for (u32 to = 0; to + 1 < w->inbox_count; to++) {
        worker_post_queue *queue = &w->post[to];
        while (queue->count > 0 && spsc_push(ring_to(w, to), &queue->waiting[queue->first])) {
            queue->first = (queue->first + 1) & (LIMIT_RING_OVERFLOW - 1);
            queue->count--;
            w->overflow_total--;
            w->posted_mask[to / 64] |= 1ull << (to % 64);
        }
    }
}

// The receiver stores `sleeping` and then looks at its rings; we pushed and then look at `sleeping`.
// Sequential consistency makes one of the two see the other. The thread sanitizer does not know fences;
// for it a read-modify-write of the same word orders the two.
static inline void push_before_look(worker *target) {
#ifdef __SANITIZE_THREAD__
    __atomic_fetch_add(&target->sleeping, 0, __ATOMIC_SEQ_CST);
#else
    (void)target;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static bool ring_bell(worker *target) {
    push_before_look(target);
    if (__atomic_load_n(&target->sleeping, __ATOMIC_RELAXED) == 0) return false;
    if (__atomic_exchange_n(&target->sleeping, 0, __ATOMIC_SEQ_CST) == 0) return false;
    io_wake(target->engine);
    return true;
}

void post_bells(worker *w) {
    for (u32 word = 0; word < ARRAY_LEN(w->posted_mask); word++) {
        u64 mask = w->posted_mask[word];
        w->posted_mask[word] = 0;
        while (mask != 0) {
            u32 to = word * 64 + (u32)__builtin_ctzll(mask);
            mask &= mask - 1;
            if (ring_bell(&w->gw->workers[to])) counter_add(&w->metrics.wakes_sent, 1);
        }
    }
}

bool worker_post_control(gateway *gw, u32 to, const spsc_message *message) {
    worker *target = &gw->workers[to];
    if (!spsc_push(&target->inbox[target->inbox_count - 1], message)) return false;
    ring_bell(target);
    return true;
}

// Says that this worker is about to wait. Returns false when messages are there after all.
bool post_sleep(worker *w) {
    __atomic_store_n(&w->sleeping, 1, __ATOMIC_SEQ_CST);
    for (u32 i = 0; i < w->inbox_count; i++) {
        if (spsc_is_empty(&w->inbox[i])) continue;
        __atomic_store_n(&w->sleeping, 0, __ATOMIC_RELAXED);
        return false;
    }
    return true;
}

void post_awake(worker *w) {
    __atomic_store_n(&w->sleeping, 0, __ATOMIC_RELAXED);
}
