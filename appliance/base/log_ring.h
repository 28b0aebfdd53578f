// SPDX-License-Identifier: Apache-2.0
// log_ring.h: the byte ring between those who log (any number of threads) and the log writer.
// Producers reserve by one compare-and-swap, copy, and commit their own record; none ever waits for
// another. The consumer stops at the first record that is reserved but not committed yet. Private
// to base/log*.c and its tests.
#ifndef SLUICE_BASE_LOG_RING_H
#define SLUICE_BASE_LOG_RING_H

#include "base/base.h"
#include "limits.h"

typedef struct log_ring {
    _Alignas(CACHE_LINE) u64 tail;     // next byte to reserve (atomic, all producers)
    _Alignas(CACHE_LINE) u64 released; // bytes before are free again (atomic, consumer writes)
    _Alignas(CACHE_LINE) u64 position; // consumer only: next record to read
    u64 used_max;                      // single-writer counter of the consumer
    _Alignas(CACHE_LINE) u8 *memory;   // from here on constant
    u64 bytes;
    u64 block_bytes;                   // memory is cleaned and released in such blocks
    bool blocks_droppable;             // whole pages: can be given back to the kernel
} log_ring;

typedef struct log_record {
    u64 time_ns;      // CLOCK_REALTIME
    const char *text; // in the ring, valid until log_ring_consume; not terminated
    u32 len;
    u32 level;
    u32 record_bytes; // in the ring
} log_record;

typedef enum log_ring_state { LOG_RING_RECORD, LOG_RING_EMPTY, LOG_RING_BUSY } log_ring_state;

// bytes: power of two from LIMIT_LOG_RING_BYTES_MIN to LIMIT_LOG_RING_BYTES_MAX. 0 or -ENOMEM.
int log_ring_init(log_ring *ring, u64 bytes);
void log_ring_free(log_ring *ring);

// Any thread. len at most LIMIT_LOG_LINE_BYTES. False when there is no room: nothing was written.
// The commit is a sequentially consistent store, so that a flag of the consumer that says it is
// about to sleep can be read after it (log.c).
bool log_ring_push(log_ring *ring, u32 level, u64 time_ns, const char *text, u32 len);

// Consumer. BUSY: the next record is reserved, its producer has not finished copying.
log_ring_state log_ring_peek(log_ring *ring, log_record *record);
void log_ring_consume(log_ring *ring, const log_record *record);
// Any thread: bytes that are not free.
u64 log_ring_used(const log_ring *ring);

#endif
