// SPDX-License-Identifier: Apache-2.0
// table.h: an intrusive hash table that grows and shrinks one bucket at a time (linear hashing,
// Litwin 1980): a table of a million entries never stops the loop to rehash itself. Owner thread
// only.
//
// The caller computes a keyed hash (base/siphash.h; peers choose the keys) and compares the entries
// that table_first and table_next hand out. Inserting can not fail: without memory for more buckets
// the chains become longer.
#ifndef SLUICE_BROKER_TABLE_H
#define SLUICE_BROKER_TABLE_H

#include "base/base.h"
#include "broker/pool.h"

#define TABLE_SEGMENTS 26u // 64 << 25 buckets: two thousand million

typedef struct table_link {
    struct table_link *next;
    u64 hash;
} table_link;

typedef struct table {
    pool *memory;                          // buckets come from here
    table_link **segments[TABLE_SEGMENTS]; // 64 buckets in the first, each further doubles the sum
    u64 buckets;                           // in use
    u64 count;                             // entries
} table;

// Returns 0 or -ENOMEM. memory outlives the table.
int table_init(table *t, pool *memory);
// Frees the buckets; entries are the caller's.
void table_free(table *t);
// hash decides the bucket and is kept in the link.
void table_insert(table *t, table_link *link, u64 hash);
// link must be in the table.
void table_remove(table *t, table_link *link);
// Entries with exactly this hash, in no particular order; NULL after the last.
table_link *table_first(const table *t, u64 hash);
table_link *table_next(const table_link *link);
// The chain of a bucket below t->buckets, linked by next: to walk the whole table in parts. What is inserted
// or removed between the parts may move: an entry may then be seen twice or not at all.
table_link *table_bucket(const table *t, u64 bucket);

#endif
