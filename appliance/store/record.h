// SPDX-License-Identifier: Apache-2.0
// record.h: the log's bytes: the head of a record, the head of a segment, and how one is told from damage.
// Pure: bytes in, decision out. Integers are little-endian, as both architectures are. docs/log.md describes
// the format.
//
// A segment is a file: one block with its head, then batches. A batch is what one commit wrote: it starts at a
// sector boundary with a META record of type BATCH, its records follow at 8-byte boundaries, zeros fill its
// last sector. So a torn sector never holds anything that was on disk before. A batch is begun only when the
// one before it is on disk: a valid BATCH at P says that everything before P was durable.
#ifndef SLUICE_STORE_RECORD_H
#define SLUICE_STORE_RECORD_H

#include "store/log.h"

#define RECORD_ALIGN 8u
#define SECTOR_BYTES 512u
#define SEGMENT_HEAD_BYTES 4096u     // room of the head; records begin after it
#define SEGMENT_UNIT_BYTES (1u << 20) // sizes and bases of segments are multiples of it
#define LOG_NUMBER_SHIFT 52u
#define LOG_NUMBER_MAX 4095u

enum { RECORD_KEEP = 1u << 0, RECORD_MOVED = 1u << 1, RECORD_FLAGS = 3u };

typedef enum meta_type {
    META_NONE = 0,        // not META
    META_BATCH = 1,       // begins a batch; no payload
    META_CHECKPOINT = 2,  // begins a checkpoint; no payload
    META_SEGMENTS = 3,    // segment_entry[]: at the beginning of a checkpoint
    META_MOVED = 4,       // moved_entry[] (moved.h): the same
    META_COMPLETE = 5,    // u64: where the checkpoint begins that is complete now
    META_INDEX = 6,       // index_entry[] of the segment that it is the last record of
    META_END = 7,         // an orderly stop: nothing comes after it in this segment
    META_MOVED_LASTS = 8, // u64[]: of all entries of META_MOVED before it; in the checkpoint of a conversion
    META_TYPES
} meta_type;

typedef struct record_head {
    u32 crc; // CRC-32C of what follows it, payload included; 0 is stored as 0xffffffff, so that a zero is padding
    u32 len;      // payload bytes after the head, `moved` included
    u64 pos;
    u64 time_ms;
    u8 kind, flags;
    u16 type;     // meta_type
    u32 head_crc; // of bytes 4..27: the length may be trusted where the payload is damaged
} record_head;
_Static_assert(sizeof(record_head) == 32 && offsetof(record_head, head_crc) == 28, "record head on disk");

typedef struct record_moved { // at the beginning of the payload with RECORD_MOVED
    u64 origin;
    u64 from;     // where it was copied from; the copy counts when that place is gone
} record_moved;
_Static_assert(sizeof(record_moved) == 16, "copied record on disk");

#define RECORD_PAYLOAD_MAX (LIMIT_STORE_RECORD_BYTES + sizeof(record_moved))

typedef struct record_view {
    store_record record;  // data points into the bytes scanned
    store_pos from;       // 0: not a copy
    meta_type type;
    u32 size;             // on disk, with padding to RECORD_ALIGN
} record_view;

// Bytes that a record takes.
static inline u32 record_size(u32 payload) {
    return (u32)align_up_u64(sizeof(record_head) + (u64)payload, RECORD_ALIGN);
}
// Fills in the head of a record whose payload already stands behind it, and zeros behind that. Returns its size.
u32 record_seal(u8 *at, store_pos pos, u64 time_ms, store_kind kind, u32 flags, meta_type type, u32 payload);

typedef enum record_scan_result {
    SCAN_RECORD,   // *view is filled; advance by view->size
    SCAN_PADDING,  // advance by *bytes
    SCAN_MORE,     // *bytes are needed from here
    SCAN_DAMAGED,  // the head is good, the payload is not: advance by *bytes
    SCAN_INVALID,  // no record here
} record_scan_result;
// What lies at pos, of which `available` bytes are at `at`.
record_scan_result record_scan(const u8 *at, size_t available, store_pos pos, record_view *view, u32 *bytes);
// The next place at or after pos where a record's head may be: head and position fit. Returns the bytes to
// skip, `available` when there is none (the last 24 bytes are not looked at).
size_t record_resync(const u8 *at, size_t available, store_pos pos);

typedef enum segment_state { SEGMENT_FREE = 1, SEGMENT_LIVE = 2 } segment_state;

typedef struct segment_head {
    u64 magic;
    u32 version, state; // segment_state
    u32 log_number, worker, workers, reserved;
    u64 bytes;          // of the file, head included
    u64 base;           // position of the file's first byte
    u64 prev_base, prev_end; // the segment before, and where it ends: what stands behind that in it was never durable
    u64 prev_index;     // position of its META_INDEX, 0 = none
    u64 checkpoint;     // where the last complete checkpoint began when this segment was begun; 0 = none
    u64 created_ms;
    u8 unused[420];
    u32 crc;            // of everything before it
} segment_head;
_Static_assert(sizeof(segment_head) == SECTOR_BYTES, "a segment's head is one sector");

typedef enum segment_head_state {
    HEAD_LIVE,
    HEAD_FREE,
    HEAD_EMPTY,    // zeros: preallocated and never used
    HEAD_DAMAGED,
} segment_head_state;
void segment_head_seal(segment_head *h);
segment_head_state segment_head_check(const u8 *bytes, size_t available, segment_head *out);
// The base of a segment whose head is damaged, from the positions its records carry: 0 when none is found in
// the bytes.
store_pos segment_base_guess(const u8 *bytes, size_t available, u64 offset);

typedef struct segment_entry { // of META_SEGMENTS
    u64 base, end, live_bytes;
    u64 copied_upto; // reclaim has copied what lies before; UINT64_MAX: all of it
} segment_entry;
typedef struct index_entry {   // of META_INDEX: the first record at or after some multiples of LIMIT_STORE_INDEX_STEP
    u64 pos, time_ms;
} index_entry;
_Static_assert(sizeof(segment_entry) == 32 && sizeof(index_entry) == 16, "tables on disk");

#endif
