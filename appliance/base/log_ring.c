// SPDX-License-Identifier: Apache-2.0
// log_ring.c: multi-producer single-consumer byte ring of log records.
//
// A record is a 16-byte header and the text, rounded up to 16 bytes, never split at the ring's end:
// a reservation that would cross the end also takes the rest of the lap, which becomes a padding
// record. The header's first word is 0 until the record is committed; that is the commit mark. It
// works because the consumer leaves only zeroes behind: memory is cleaned before it is released to
// producers.
//
// Cleaning is done by blocks of 64 KiB, not by record, for one reason: a block can be given back to
// the kernel (MADV_DONTNEED) in place of being overwritten, and comes back as zeroes. While the
// consumer keeps up that is what happens, so that a ring of 8 MiB costs a gateway that logs a line
// a second two blocks of memory, not eight megabytes. Behind a backlog the block is overwritten,
// which is cheaper for the producers than page faults.
//
// Invariants: released <= position <= tail <= released + bytes; all bytes of
// [tail, released + bytes) are zero.
#include "base/log_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORD_ALIGN 16u
#define BLOCK_BYTES_MAX (64u << 10)
#define BLOCKS_MIN 8u // of a ring: at most an eighth of it waits to be cleaned

// Header word: bit 63 committed, bit 62 padding, 24..55 record bytes, 16..23 level, 0..15 text
// length.
#define HEAD_COMMITTED (1ull << 63)
#define HEAD_PADDING (1ull << 62)
#define HEAD_BYTES_SHIFT 24
#define HEAD_LEVEL_SHIFT 16

typedef struct record_head {
    u64 word;
    u64 time_ns;
} record_head;
_Static_assert(sizeof(record_head) == RECORD_ALIGN, "a header fits wherever a record may start");
_Static_assert(LIMIT_LOG_LINE_BYTES <= UINT16_MAX, "length of a text in 16 bits");
_Static_assert(LIMIT_LOG_RING_BYTES_MIN >= BLOCKS_MIN * (LIMIT_LOG_LINE_BYTES + RECORD_ALIGN),
               "the smallest ring holds some of the longest lines");
_Static_assert(IS_POWER_OF_TWO(LIMIT_LOG_RING_BYTES_MIN), "ring sizes are masked");
_Static_assert(IS_POWER_OF_TWO(LIMIT_LOG_RING_BYTES_MAX), "ring sizes are masked");

int log_ring_init(log_ring *ring, u64 bytes) {
    ASSERT(IS_POWER_OF_TWO(bytes));
    ASSERT(bytes >= LIMIT_LOG_RING_BYTES_MIN && bytes <= LIMIT_LOG_RING_BYTES_MAX);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    u64 block = MIN(BLOCK_BYTES_MAX, bytes / BLOCKS_MIN);
    long page = sysconf(_SC_PAGESIZE);
    *ring = (log_ring){
        .memory = memory,
        .bytes = bytes,
        .block_bytes = block,
        // A kernel with larger pages would round a block up and take its neighbours along.
        .blocks_droppable = page > 0 && block % (u64)page == 0,
    };
    return 0;
}

void log_ring_free(log_ring *ring) {
    if (ring->memory != NULL) munmap(ring->memory, ring->bytes);
    *ring = (log_ring){0};
}

static record_head *head_at(const log_ring *ring, u64 position) {
    return (record_head *)(void *)(ring->memory + (position & (ring->bytes - 1)));
}

static u64 head_word(u64 record_bytes, u32 level, u32 len) {
    return HEAD_COMMITTED | record_bytes << HEAD_BYTES_SHIFT | (u64)level << HEAD_LEVEL_SHIFT | len;
}

bool log_ring_push(log_ring *ring, u32 level, u64 time_ns, const char *text, u32 len) {
    ASSERT(len <= LIMIT_LOG_LINE_BYTES);
    u64 need = align_up_u64(sizeof(record_head) + len, RECORD_ALIGN);
    u64 tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
    u64 padding;
    do {
        u64 lap_left = ring->bytes - (tail & (ring->bytes - 1));
        padding = lap_left < need ? lap_left : 0;
        // Acquire: the consumer's cleaning comes before what is written here.
        u64 released = __atomic_load_n(&ring->released, __ATOMIC_ACQUIRE);
        // `tail` may be stale and then lie before released; the exchange fails and tells the new
        // one.
        if (tail >= released && tail + padding + need - released > ring->bytes) return false;
    } while (!__atomic_compare_exchange_n(&ring->tail, &tail, tail + padding + need, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (padding > 0) {
        __atomic_store_n(&head_at(ring, tail)->word, head_word(padding, 0, 0) | HEAD_PADDING,
                         __ATOMIC_RELEASE);
        tail += padding;
    }
    record_head *head = head_at(ring, tail);
    head->time_ns = time_ns;
    memcpy(head + 1, text, len);
    __atomic_store_n(&head->word, head_word(need, level, len), __ATOMIC_SEQ_CST);
    return true;
}

// Cleans and releases the blocks that lie wholly before position.
static void ring_release(log_ring *ring) {
    u64 from = ring->released; // only the consumer writes it
    u64 to = ring->position & ~(ring->block_bytes - 1);
    if (to == from) return;
    u64 backlog = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED) - ring->position;
    for (u64 at = from; at < to; at += ring->block_bytes) {
        u8 *block = ring->memory + (at & (ring->bytes - 1));
        bool dropped = ring->blocks_droppable && backlog < ring->block_bytes &&
                       madvise(block, ring->block_bytes, MADV_DONTNEED) == 0;
        if (!dropped) memset(block, 0, ring->block_bytes);
    }
    __atomic_store_n(&ring->released, to, __ATOMIC_RELEASE);
}

static void ring_skip(log_ring *ring, u64 bytes) {
    ring->position += bytes;
    ring_release(ring);
}

log_ring_state log_ring_peek(log_ring *ring, log_record *record) {
    for (;;) {
        u64 tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
        u64 used = tail - ring->released;
        if (used > __atomic_load_n(&ring->used_max, __ATOMIC_RELAXED)) {
            __atomic_store_n(&ring->used_max, used, __ATOMIC_RELAXED);
        }
        // Read even when tail says empty: the order against a producer's view of the consumer's
        // "sleeping" flag hangs on this load, not on that of tail. Beyond tail lie zeroes.
        record_head *head = head_at(ring, ring->position);
        u64 word = __atomic_load_n(&head->word, __ATOMIC_SEQ_CST);
        if (word == 0) return tail == ring->position ? LOG_RING_EMPTY : LOG_RING_BUSY;
        u64 bytes = word >> HEAD_BYTES_SHIFT & UINT32_MAX;
        if ((word & HEAD_PADDING) != 0) {
            ring_skip(ring, bytes);
            continue;
        }
        *record = (log_record){
            .time_ns = head->time_ns,
            .text = (const char *)(head + 1),
            .len = (u32)(word & 0xffff),
            .level = (u32)(word >> HEAD_LEVEL_SHIFT & 0xff),
            .record_bytes = (u32)bytes,
        };
        return LOG_RING_RECORD;
    }
}

void log_ring_consume(log_ring *ring, const log_record *record) {
    ring_skip(ring, record->record_bytes);
}

u64 log_ring_used(const log_ring *ring) {
    u64 released = __atomic_load_n(&ring->released, __ATOMIC_ACQUIRE);
    u64 tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
    return tail - released;
}
