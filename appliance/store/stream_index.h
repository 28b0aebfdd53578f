// SPDX-License-Identifier: Apache-2.0
// stream_index.h: where the messages of one partition lie: a sparse list of marks, each the place of one
// message. From a mark on the log is read in order. The list is bounded: when it is full, every second mark
// goes and new ones are set half as often, so that memory does not follow the log's size; when retention has
// taken most of them, they are set more often again.
//
// Also the arithmetic of retention: which marks the bounds of bytes and age leave. What is given up ends at
// a mark, so it is exact to the distance of two marks, a 2048th of the partition at most when it is large.
//
// Pure: no clock, no I/O; the owner's memory (a growing array of at most LIMIT_STREAM_MARKS).
#ifndef SLUICE_STORE_STREAM_INDEX_H
#define SLUICE_STORE_STREAM_INDEX_H

#include "base/base.h"
#include "limits.h"

#define STREAM_SPARSE_MAX 40u

typedef struct stream_mark {
    u64 offset;
    u64 pos;          // of the record in the log
    u64 time_ms;      // UNIX time it was appended at
    u64 bytes_before; // of the partition's records before this one, since it began
} stream_mark;

typedef struct stream_index {
    stream_mark *marks; // ascending; the first is at or before the oldest message
    u32 count, size;
    u32 sparse;         // marks are set 2^sparse times less often than at first
    u64 last_offset, last_pos, last_time_ms; // of the newest record; offset 0: none yet
    u64 last_bytes_end; // bytes of all records up to its end, since the partition began
} stream_index;

void stream_index_free(stream_index *x);
// A message has been appended. False: no memory for the mark; it is found from the one before.
bool stream_index_append(stream_index *x, const stream_mark *m, u32 record_bytes);
// Room for `count` marks, at most LIMIT_STREAM_MARKS, that the caller fills in as they were written, as it does
// with sparse and last_*. NULL: no memory, and the index is empty; not for count 0.
stream_mark *stream_index_restore(stream_index *x, u32 count);

// The last mark at or before an offset; NULL: none.
const stream_mark *stream_index_find(const stream_index *x, u64 offset);
// The mark from which on a message of this time or later is found: the one before the first mark that is not
// older. The clock may have gone back in between: from there on all are looked at. NULL: no mark.
const stream_mark *stream_index_find_time(const stream_index *x, u64 time_ms);
// The last mark whose record lies at or before a place in the log; NULL: none.
const stream_mark *stream_index_find_pos(const stream_index *x, u64 pos);
// The mark behind an offset; NULL: none. Whoever has read all before it may go on there.
const stream_mark *stream_index_next(const stream_index *x, u64 offset);

// The offset that the partition may begin with. max_bytes, max_age_ms: 0 = no bound. now_ms 0: no judgement by
// age. Returns 0 when all may stay.
u64 stream_index_retain(const stream_index *x, u64 max_bytes, u64 max_age_ms, u64 now_ms);
// Where the partition has to begin to hold at most so many bytes (0: nothing): a mark's offset, or the one behind the
// newest message where no mark does.
u64 stream_index_holding(const stream_index *x, u64 bytes);
// The age of all there is counts from now_ms: forward: of all that seems older; else: of all that seems to come yet.
void stream_index_ages_anew(stream_index *x, u64 now_ms, bool forward);
// Messages below the offset are gone; it is a mark's, or behind the newest message.
void stream_index_trim(stream_index *x, u64 offset);

#endif
