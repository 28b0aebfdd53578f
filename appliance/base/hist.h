// SPDX-License-Identifier: Apache-2.0
// hist.h: log-linear histogram of u64 values, by convention nanoseconds. Used for every latency of
// the load generator and, one per worker, for the metrics of the gateway.
//
// Shape: values below 128 have a bucket each; above, every power of two is split into 64 equal
// buckets, so a bucket is never wider than 1/64 of its lowest value. The table has a fixed size (18
// KiB) and covers 0 to 2^41 - 1 ns (2,199 s); larger values are counted in the last bucket, and max
// stays exact. Why 1/64: p99.99 of a 2 ms tail is then known to 32 us, and the table still fits in
// the L1 cache.
//
// Threads: one writer. record and reset use relaxed atomic stores, which compile to plain moves, so
// another thread may take a copy with hist_snapshot at any time: each bucket of the copy is a value
// that the bucket had, and the copy's count is the sum of its own buckets. All other functions
// belong to the owner of the histogram that they are given.
#ifndef SLUICE_BASE_HIST_H
#define SLUICE_BASE_HIST_H

#include "base/base.h"

#define HIST_SUB_BITS 6u    // 64 buckets a power of two
#define HIST_VALUE_BITS 41u // 2^41 ns = 2,199 s
#define HIST_VALUE_MAX ((1ull << HIST_VALUE_BITS) - 1)
#define HIST_BUCKETS ((HIST_VALUE_BITS - HIST_SUB_BITS + 1) << HIST_SUB_BITS)

_Static_assert(HIST_VALUE_MAX > 1000ull * NS_PER_S, "must cover more than 1,000 s");
_Static_assert(HIST_BUCKETS == 2304, "the documented size: 2,304 buckets of 8 bytes");

typedef struct hist {
    u64 sum; // of the values as recorded, before clamping; wraps after 584 years of nanoseconds
    u64 min; // UINT64_MAX while empty
    u64 max; // 0 while empty
    u64 buckets[HIST_BUCKETS];
} hist;

typedef struct hist_bucket {
    u64 low, high; // values low..high inclusive are counted here
    u64 count;
} hist_bucket;

// Bucket of a value: branch-free but for the clamp, which is a conditional move.
static inline u32 hist_bucket_index(u64 value) {
    u64 v = MIN(value, HIST_VALUE_MAX);
    // The lowest 6 bits are forced so that values below 128 give shift 0 without a test.
    u32 top = 63u - (u32)__builtin_clzll(v | (1u << HIST_SUB_BITS));
    u32 shift = top - HIST_SUB_BITS;
    return (shift << HIST_SUB_BITS) + (u32)(v >> shift);
}

// Empties the histogram; also how one is made. Writer only.
void hist_reset(hist *h);

// Counts one value. Writer only.
static inline void hist_record(hist *h, u64 value) {
    u64 *slot = &h->buckets[hist_bucket_index(value)];
    u64 low = __atomic_load_n(&h->min, __ATOMIC_RELAXED);
    u64 high = __atomic_load_n(&h->max, __ATOMIC_RELAXED);
    __atomic_store_n(slot, __atomic_load_n(slot, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&h->sum, __atomic_load_n(&h->sum, __ATOMIC_RELAXED) + value, __ATOMIC_RELAXED);
    __atomic_store_n(&h->min, MIN(low, value), __ATOMIC_RELAXED);
    __atomic_store_n(&h->max, MAX(high, value), __ATOMIC_RELAXED);
}

// Copies a histogram that another thread may be writing. The copy belongs to the caller.
void hist_snapshot(const hist *live, hist *out);

// Adds all of from into into. from may be live on another thread; into belongs to the caller.
void hist_merge(hist *into, const hist *from);

u64 hist_count(const hist *h);
// Smallest and largest value as recorded (exact), and the mean of all; 0 when empty.
u64 hist_min(const hist *h);
u64 hist_max(const hist *h);
double hist_mean(const hist *h);

// Value that percent (0..100) of the recorded values do not exceed: the upper edge of the bucket
// that holds that rank, so never too low, at most 1/64 too high, and never above hist_max. 0 when
// empty.
u64 hist_percentile(const hist *h, double percent);

// For cumulative export: out[i] = number of values in buckets that end at or below bounds[i]
// (ascending, count bound_count). A bucket that straddles a bound is not counted for it, so out[i]
// never counts a value above the bound and misses none at or below 63/64 of it.
void hist_cumulative(const hist *h, const u64 *bounds, size_t bound_count, u64 *out);

// Visits the buckets that are not empty, in ascending order: start with *cursor = 0; false at the
// end.
bool hist_next(const hist *h, u32 *cursor, hist_bucket *out);

#endif
