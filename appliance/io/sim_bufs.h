// SPDX-License-Identifier: Apache-2.0
// sim_bufs.h: receive buffers of a simulated engine that show who keeps a pointer too long: a buffer
// that is not lent is filled with a pattern, and under the address sanitizer any touch of it (or of
// the part behind the bytes received) ends the program at the guilty line.
#ifndef SLUICE_IO_SIM_BUFS_H
#define SLUICE_IO_SIM_BUFS_H

#include "base/base.h"

#define SIM_POISON_BYTE 0xdb

typedef struct sim_bufs {
    u8 **memory;      // count buffers, each allocated for itself
    u32 *bytes;       // their sizes
    u32 *open_bytes;  // lent: accessible from the start on
    bool *busy;
    u32 count, free_count;
    u32 next;         // where the search for a free one begins: all are used in turn
} sim_bufs;

// count buffers of bytes each, and one more of scratch_bytes at index `count`, which is not in the pool.
void sim_bufs_init(sim_bufs *b, u32 count, u32 bytes, u32 scratch_bytes);
void sim_bufs_fini(sim_bufs *b);
// Takes a free buffer of the pool, or -1. The caller opens the part it fills.
int sim_bufs_take(sim_bufs *b);
// Makes the first len bytes accessible.
void sim_bufs_open(sim_bufs *b, u32 index, u32 len);
// Overwrites what was open and closes it; a pool buffer is then free again.
void sim_bufs_give(sim_bufs *b, u32 index);

#endif
