// SPDX-License-Identifier: Apache-2.0
// table.c: linear hashing. With 2^k <= buckets < 2^(k+1), an entry is in bucket hash mod 2^(k+1),
// or, when that bucket does not exist yet, in hash mod 2^k. Growing by one splits one bucket in
// two; shrinking by one joins them again. Bucket arrays are segments that double in size and are
// never moved.
//
// Invariant: growth at one entry per bucket and shrinking below a quarter leave a wide gap between,
// so a table at a boundary does not allocate and free in turn. An insertion splits one bucket, a
// removal joins up to four: so the table keeps up with both.
#include "broker/table.h"

#include <errno.h>
#include <string.h>

#define SEGMENT_BITS 6u
#define SEGMENT_BUCKETS (1ull << SEGMENT_BITS)

static u32 segment_of(u64 bucket) {
    return bucket < SEGMENT_BUCKETS ? 0 : 64u - SEGMENT_BITS - (u32)__builtin_clzll(bucket);
}

static u64 segment_first(u32 segment) {
    return segment == 0 ? 0 : SEGMENT_BUCKETS << (segment - 1);
}

static size_t segment_bytes(u32 segment) {
    u64 buckets = segment == 0 ? SEGMENT_BUCKETS : SEGMENT_BUCKETS << (segment - 1);
    return buckets * sizeof(table_link *);
}

static table_link **bucket_at(const table *t, u64 bucket) {
    u32 segment = segment_of(bucket);
    return &t->segments[segment][bucket - segment_first(segment)];
}

static table_link **bucket_of(const table *t, u64 hash) {
    u64 half = 1ull << (63 - __builtin_clzll(t->buckets)); // 2^k
    u64 bucket = hash & (2 * half - 1);
    return bucket_at(t, bucket < t->buckets ? bucket : hash & (half - 1));
}

static bool segment_alloc(table *t, u32 segment) {
    if (segment >= TABLE_SEGMENTS) return false;
    t->segments[segment] = pool_alloc(t->memory, segment_bytes(segment));
    if (t->segments[segment] == NULL) return false;
    memset(t->segments[segment], 0, segment_bytes(segment));
    return true;
}

static void segment_free(table *t, u32 segment) {
    pool_free(t->memory, t->segments[segment], segment_bytes(segment));
    t->segments[segment] = NULL;
}

int table_init(table *t, pool *memory) {
    memset(t, 0, sizeof(*t));
    t->memory = memory;
    if (!segment_alloc(t, 0)) return -ENOMEM;
    t->buckets = SEGMENT_BUCKETS;
    return 0;
}

void table_free(table *t) {
    for (u32 i = 0; i < TABLE_SEGMENTS; i++) {
        if (t->segments[i] != NULL) segment_free(t, i);
    }
}

// The bucket that is split to make bucket number `bucket`, and joined with it again.
static u64 partner_of(u64 bucket) {
    return bucket & ((1ull << (63 - __builtin_clzll(bucket))) - 1);
}

static void table_grow(table *t) {
    u64 fresh = t->buckets;
    u32 segment = segment_of(fresh);
    if (fresh == segment_first(segment) && !segment_alloc(t, segment)) return;
    t->buckets++;
    table_link **from = bucket_at(t, partner_of(fresh));
    table_link **to = bucket_at(t, fresh);
    while (*from != NULL) {
        table_link *link = *from;
        if (bucket_of(t, link->hash) == to) {
            *from = link->next;
            link->next = *to;
            *to = link;
        } else {
            from = &link->next;
        }
    }
}

static void table_shrink(table *t) {
    u64 gone = t->buckets - 1;
    u32 segment = segment_of(gone);
    table_link **to = bucket_at(t, partner_of(gone));
    while (*to != NULL) to = &(*to)->next;
    *to = *bucket_at(t, gone);
    *bucket_at(t, gone) = NULL;
    t->buckets--;
    if (gone == segment_first(segment)) segment_free(t, segment);
}

void table_insert(table *t, table_link *link, u64 hash) {
    table_link **bucket = bucket_of(t, hash);
    link->hash = hash;
    link->next = *bucket;
    *bucket = link;
    t->count++;
    if (t->count > t->buckets) table_grow(t);
}

void table_remove(table *t, table_link *link) {
    table_link **at = bucket_of(t, link->hash);
    while (*at != link) {
        ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = link->next;
    link->next = NULL;
    t->count--;
    for (u32 i = 0; i < 4; i++) {
        if (t->count * 4 >= t->buckets || t->buckets <= SEGMENT_BUCKETS) return;
        table_shrink(t);
    }
}

table_link *table_next(const table_link *link) {
    table_link *next = link->next;
    while (next != NULL && next->hash != link->hash) next = next->next;
    return next;
}

table_link *table_first(const table *t, u64 hash) {
    table_link *link = *bucket_of(t, hash);
    while (link != NULL && link->hash != hash) link = link->next;
    return link;
}

table_link *table_bucket(const table *t, u64 bucket) {
    ASSERT(bucket < t->buckets);
    return *bucket_at(t, bucket);
}
