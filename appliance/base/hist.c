// SPDX-License-Identifier: Apache-2.0
// hist.c: reading side of the log-linear histogram: edges of a bucket, percentiles, copies and
// sums.
//
// Recording is inline in hist.h. Everything here walks the 2,304 buckets and is meant for a report
// or a scrape, not for the data path. Loads of a histogram that may be live are relaxed atomics.
#include "base/hist.h"

#include <math.h>

static u64 bucket_load(const hist *h, u32 index) {
    return __atomic_load_n(&h->buckets[index], __ATOMIC_RELAXED);
}

// Inverse of hist_bucket_index: buckets 0..127 hold one value each (the first two rows of 64); row
// r above them holds values whose width is 2^(r-1).
static u64 bucket_low(u32 index) {
    u32 row = index >> HIST_SUB_BITS;
    u32 shift = row == 0 ? 0 : row - 1;
    return ((u64)index - ((u64)shift << HIST_SUB_BITS)) << shift;
}

static u64 bucket_high(u32 index) {
    return index + 1 == HIST_BUCKETS ? HIST_VALUE_MAX : bucket_low(index + 1) - 1;
}

void hist_reset(hist *h) {
    for (u32 i = 0; i < HIST_BUCKETS; i++) __atomic_store_n(&h->buckets[i], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&h->sum, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&h->min, UINT64_MAX, __ATOMIC_RELAXED);
    __atomic_store_n(&h->max, 0, __ATOMIC_RELAXED);
}

void hist_snapshot(const hist *live, hist *out) {
    hist_reset(out);
    hist_merge(out, live);
}

void hist_merge(hist *into, const hist *from) {
    for (u32 i = 0; i < HIST_BUCKETS; i++) into->buckets[i] += bucket_load(from, i);
    u64 low = __atomic_load_n(&from->min, __ATOMIC_RELAXED);
    u64 high = __atomic_load_n(&from->max, __ATOMIC_RELAXED);
    into->sum += __atomic_load_n(&from->sum, __ATOMIC_RELAXED);
    into->min = MIN(into->min, low);
    into->max = MAX(into->max, high);
}

u64 hist_count(const hist *h) {
    u64 total = 0;
    for (u32 i = 0; i < HIST_BUCKETS; i++) total += bucket_load(h, i);
    return total;
}

u64 hist_min(const hist *h) {
    return h->min == UINT64_MAX ? 0 : h->min;
}

u64 hist_max(const hist *h) {
    return h->max;
}

double hist_mean(const hist *h) {
    u64 count = hist_count(h);
    return count == 0 ? 0.0 : (double)h->sum / (double)count;
}

u64 hist_percentile(const hist *h, double percent) {
    u64 count = hist_count(h);
    if (count == 0) return 0;
    double share = MIN(MAX(percent, 0.0), 100.0) / 100.0;
    // The 1e-9 keeps 99.9 % of 1,000 at rank 999 although 0.999 has no exact binary form.
    u64 rank = (u64)ceil(share * (double)count - 1e-9 * (double)count);
    rank = MIN(MAX(rank, 1), count);
    u64 seen = 0;
    for (u32 i = 0; i < HIST_BUCKETS; i++) {
        seen += bucket_load(h, i);
        // The last bucket also holds what was clamped: only max tells how large that was.
        if (seen >= rank) return i + 1 == HIST_BUCKETS ? h->max : MIN(bucket_high(i), h->max);
    }
    return h->max;
}

void hist_cumulative(const hist *h, const u64 *bounds, size_t bound_count, u64 *out) {
    u64 seen = 0;
    u32 index = 0;
    for (size_t b = 0; b < bound_count; b++) {
        ASSERT(b == 0 || bounds[b] >= bounds[b - 1]);
        // The last bucket is open upwards, so no finite bound covers it.
        while (index + 1 < HIST_BUCKETS && bucket_high(index) <= bounds[b]) {
            seen += bucket_load(h, index++);
        }
        out[b] = seen;
    }
}

bool hist_next(const hist *h, u32 *cursor, hist_bucket *out) {
    for (u32 i = *cursor; i < HIST_BUCKETS; i++) {
        u64 count = bucket_load(h, i);
        if (count == 0) continue;
        *out = (hist_bucket){.low = bucket_low(i), .high = bucket_high(i), .count = count};
        *cursor = i + 1;
        return true;
    }
    *cursor = HIST_BUCKETS;
    return false;
}
