// SPDX-License-Identifier: Apache-2.0
// slab.h: fixed-size objects of one worker, without a lock and without musl's malloc on the data
// path.
//
// A slab grows by chunks (mmap, so untouched memory costs nothing) up to its budget and keeps freed
// objects in a list. Chunks that fall empty are unmapped when more than a quarter of the slab lies
// free: at once, unless the slab grew within the last second (a load that swings must not map and
// unmap all the time); what that rule held back goes with slab_trim. One empty chunk always stays.
// Owner thread only.
#ifndef SLUICE_BASE_SLAB_H
#define SLUICE_BASE_SLAB_H

#include "base/base.h"

#define SLAB_OBJECT_BYTES_MAX (64u << 10)

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

// name: static string. object_bytes at most SLAB_OBJECT_BYTES_MAX. budget_bytes bounds mapped
// memory, which grows by chunks of 64 to 256 KiB (smaller ones under a smaller budget). Returns
// NULL when out of memory.
slab *slab_create(const char *name, size_t object_bytes, u64 budget_bytes);
// Objects still handed out go with it. NULL is allowed.
void slab_destroy(slab *s);
// Returns uninitialised memory aligned to 16 bytes (64 when object_bytes is a multiple of 64), or
// NULL when the budget or memory is used up (counted in usage.refused).
void *slab_alloc(slab *s);
void slab_free(slab *s, void *object);
// Gives back what slab_free held back because the slab had grown shortly before. The owner calls it
// about once a second; costs a comparison when there is nothing to do.
void slab_trim(slab *s);
// Any thread may call it: the fields are single-writer counters.
slab_usage slab_usage_get(const slab *s);

#endif
