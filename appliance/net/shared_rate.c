// SPDX-License-Identifier: Apache-2.0
// shared_rate.c: see shared_rate.h. A bucket is kept as the time up to which it is used (as in auth/grant.c): a base,
// and what all workers let through since, at the rate. The base moves only when somebody looks and finds more than a
// second saved up. Each worker has a base of its own; that of the one that looked most often is the highest, and right.
// Who counts on a lower one errs towards more, never towards less, and nothing passes but by what its worker saw.
#include "net/shared_rate.h"

#include <stdlib.h>

#define LOOK_NS NS_PER_MS

typedef struct bucket {
    counter passed;  // by this worker: messages, or bytes
    counter base;    // nanoseconds, signed; of the rate below
    counter per_s;   // 0: the base says nothing
    u64 used_ns;     // as this worker knows it
} bucket;

typedef struct rate_cell {
    _Alignas(64) bucket messages; // cache lines of its own: no worker writes into another's
    bucket bytes;
    u64 looked_ns;
    u64 line_ns;     // end of the line of those that wait on this worker
} rate_cell;
_Static_assert(sizeof(rate_cell) == 128, "an address costs so much for each worker");

struct shared_rate {
    u32 workers;
    rate_cell cells[];
};

shared_rate *shared_rate_create(u32 workers) {
    size_t bytes = sizeof(shared_rate) + workers * sizeof(rate_cell);
    shared_rate *r = aligned_alloc(_Alignof(shared_rate), bytes);
    if (r == NULL) return NULL;
    for (u32 i = 0; i < workers; i++) r->cells[i] = (rate_cell){0};
    r->workers = workers;
    return r;
}

void shared_rate_free(shared_rate *r) {
    free(r);
}

static bucket *bucket_at(shared_rate *r, u32 worker, size_t which) {
    return (bucket *)(void *)((u8 *)&r->cells[worker] + which);
}

static u64 cost_ns(u64 per_s, u64 count) {
    return per_s == 0 ? 0 : (u64)((double)count * (double)NS_PER_S / (double)per_s);
}

// The base that another worker has for this rate; false while it has none, or is changing it.
static bool base_of(const bucket *other, u64 per_s, i64 *base) {
    if (__atomic_load_n(&other->per_s.value, __ATOMIC_ACQUIRE) != per_s) return false;
    *base = (i64)__atomic_load_n(&other->base.value, __ATOMIC_ACQUIRE);
    return counter_get(&other->per_s) == per_s;
}

static void base_set(bucket *mine, u64 per_s, i64 base) {
    if (counter_get(&mine->per_s) == per_s && (i64)counter_get(&mine->base) == base) return;
    __atomic_store_n(&mine->per_s.value, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&mine->base.value, (u64)base, __ATOMIC_RELEASE);
    __atomic_store_n(&mine->per_s.value, per_s, __ATOMIC_RELEASE);
}

static void bucket_look(shared_rate *r, u32 worker, size_t which, u64 per_s, u64 now_ns) {
    bucket *mine = bucket_at(r, worker, which);
    u64 passed = 0;
    if (per_s == 0) return;
    for (u32 i = 0; i < r->workers; i++) passed += counter_get(&bucket_at(r, i, which)->passed);
    i64 used = (i64)cost_ns(per_s, passed), base;
    i64 best = (i64)mine->used_ns - used;
    for (u32 i = 0; i < r->workers; i++) {
        if (base_of(bucket_at(r, i, which), per_s, &base)) best = MAX(best, base);
    }
    best = MAX(best, (i64)now_ns - (i64)NS_PER_S - used);
    mine->used_ns = (u64)(best + used);
    base_set(mine, per_s, best);
}

// The time at which a message may pass, in the past if there is something left.
static u64 bucket_due(const bucket *b, u64 per_s, u64 count) {
    return per_s == 0 ? 0 : b->used_ns + MIN(cost_ns(per_s, count), NS_PER_S);
}

u64 shared_rate_due(shared_rate *r, u32 worker, rate_pair limit, u32 bytes, bool in_turn, u64 now_ns) {
    rate_cell *mine = &r->cells[worker];
    if (now_ns - mine->looked_ns >= LOOK_NS) {
        bucket_look(r, worker, offsetof(rate_cell, messages), limit.messages_per_s, now_ns);
        bucket_look(r, worker, offsetof(rate_cell, bytes), limit.bytes_per_s, now_ns);
        mine->looked_ns = now_ns;
    }
    u64 due = MAX(bucket_due(&mine->messages, limit.messages_per_s, 1),
                  bucket_due(&mine->bytes, limit.bytes_per_s, bytes));
    if (due <= now_ns && (in_turn || mine->line_ns <= now_ns)) return 0;
    u64 first = MAX(due, now_ns + LOOK_NS);
    u64 place = MAX(first, mine->line_ns);
    if (place > first + NS_PER_S) place = first; // the line is a second long: another one beside it
    u64 step = MAX(cost_ns(limit.messages_per_s, 1), cost_ns(limit.bytes_per_s, bytes));
    mine->line_ns = place + MIN(step, NS_PER_S);
    return place;
}

void shared_rate_charge(shared_rate *r, u32 worker, rate_pair limit, u32 bytes) {
    rate_cell *mine = &r->cells[worker];
    counter_add(&mine->messages.passed, 1);
    counter_add(&mine->bytes.passed, bytes);
    mine->messages.used_ns += cost_ns(limit.messages_per_s, 1);
    mine->bytes.used_ns += cost_ns(limit.bytes_per_s, bytes);
}

u64 shared_rate_full_ns(const shared_rate *r, u32 worker) {
    const rate_cell *mine = &r->cells[worker];
    return MAX(mine->messages.used_ns, mine->bytes.used_ns) + NS_PER_S;
}
