// SPDX-License-Identifier: Apache-2.0
// pool.h: objects of many sizes under one byte budget: size classes of slabs up to 4 KiB, the
// system allocator beyond. The broker's subscriptions, messages in transit and device sessions live
// here, so that one number bounds them all. Owner thread only, except pool_used_bytes.
//
// An object is charged with the size of its class; what a slab keeps mapped beyond that for reuse
// is bounded by the slab itself.
#ifndef SLUICE_BROKER_POOL_H
#define SLUICE_BROKER_POOL_H

#include "base/base.h"

typedef struct pool pool;

// Returns NULL when out of memory.
pool *pool_create(u64 budget_bytes);
// Frees everything allocated from it.
void pool_destroy(pool *p);
// Returns uninitialised memory aligned to 16 bytes; NULL over budget or out of memory.
void *pool_alloc(pool *p, size_t bytes);
// bytes as in the allocation; object may be NULL.
void pool_free(pool *p, void *object, size_t bytes);
// Gives memory back that was kept for reuse; about once a second.
void pool_trim(pool *p);
u64 pool_used_bytes(const pool *p); // any thread

#endif
