// SPDX-License-Identifier: Apache-2.0
// slab.h: fixed-size objects of one worker, without a lock and without musl's malloc on the data path.
//
// A slab grows by chunks (mmap, so untouched memory costs nothing) up to its budget and keeps freed
// objects in a list; whole chunks that fall empty are given back to the kernel (madvise) when more than
// a quarter of the slab lies free. Owner thread only.
#ifndef SLUICE_BASE_SLAB_H
#define SLUICE_BASE_SLAB_H

#include "base/base.h"

typedef struct slab slab;

typedef struct slab_usage {
    const char *name;
    u64 object_bytes;
    u64 used;        // objects handed out
    u64 used_max;    // highest since start
    u64 mapped_bytes;
    u64 budget_bytes;
    u64 refused;     // allocations refused: over budget, or no memory
} slab_usage;

// name: static string. budget_bytes bounds mapped memory. Returns NULL when out of memory.
slab *slab_create(const char *name, size_t object_bytes, u64 budget_bytes);
void slab_destroy(slab *s);
// Returns uninitialised memory aligned to 16 bytes (64 when object_bytes is a multiple of 64), or NULL
// when the budget or memory is used up (counted in usage.refused).
void *slab_alloc(slab *s);
void slab_free(slab *s, void *object);
// Any thread may call it: the fields are single-writer counters.
slab_usage slab_usage_get(const slab *s);

#endif
