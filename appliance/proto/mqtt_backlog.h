// SPDX-License-Identifier: Apache-2.0
// mqtt_backlog.h: what waits for a durable session, as references to message records in the log, oldest
// first. They lie in chunks; of a long backlog only the first and the last chunk are in memory, those between
// are blocks of references in the log and cost 48 bytes each. No I/O here: who has the log writes and reads
// the blocks.
#ifndef SLUICE_PROTO_MQTT_BACKLOG_H
#define SLUICE_PROTO_MQTT_BACKLOG_H

#include "broker/pool.h"

#define BACKLOG_CHUNK 64u

typedef struct backlog_ref {
    u64 origin; // of the record
    u32 bytes;  // the session's queue is charged with
    u32 part;   // of the record, to be given back
} backlog_ref;
_Static_assert(sizeof(backlog_ref) == 16, "a chunk is 1 KiB");

typedef struct backlog_chunk {
    backlog_ref *refs; // BACKLOG_CHUNK of them; NULL: in the log only
    u64 block;         // where its block lies; 0 = not written
    u64 first, last;   // origins of its first and last reference, ever
    u64 bytes;         // of what is left in it
    u32 block_bytes;   // of the record
    u8 start, count;   // left are [start, count)
} backlog_chunk;
_Static_assert(sizeof(backlog_chunk) == 48, "as the text above says");

typedef struct backlog {
    backlog_chunk *chunks; // [at, at + used) of room
    u32 at, used, room;
    u32 count;             // references
    u64 bytes;
} backlog;

// Adds the youngest. False: no memory.
bool backlog_push(backlog *l, pool *memory, const backlog_ref *ref);
// What the youngest, just added, lies at.
void backlog_place(backlog *l, u64 origin, u32 part);
// Takes the youngest away again, which has just been added.
void backlog_unpush(backlog *l, pool *memory);
// The reference at a place, 0 = the oldest. NULL: it is in a block (*chunk says which), or there is none
// (*chunk NULL).
const backlog_ref *backlog_at(const backlog *l, u32 place, backlog_chunk **chunk);
// Removes the oldest. *ref: what it was, zero when only the log knows. *block, *block_bytes: a block that is
// needed no more, 0 = none. False: there is none.
bool backlog_pop(backlog *l, pool *memory, backlog_ref *ref, u64 *block, u32 *block_bytes);
// A full chunk that may go to the log: neither the first nor the last, nor one with places below `keep`.
// NULL: none.
backlog_chunk *backlog_spillable(const backlog *l, u32 keep);
// Its block has been written: the references leave the memory.
void backlog_spilled(backlog_chunk *c, pool *memory, u64 block, u32 block_bytes);
// A block has been read: refs are its BACKLOG_CHUNK references. False: no memory.
bool backlog_load(backlog *l, backlog_chunk *c, pool *memory, const backlog_ref *refs);
// A block could not be read, ever: what is left of it is given up. Returns how many.
u32 backlog_lose(backlog *l, backlog_chunk *c, pool *memory);
// Adds a chunk as a checkpoint has it. refs NULL: a block. False: no memory.
bool backlog_restore(backlog *l, pool *memory, const backlog_chunk *like, const backlog_ref *refs);
// The chunk whose first reference is that, in memory and not written; NULL: none.
backlog_chunk *backlog_find(const backlog *l, u64 first);
// Whether it may hold a reference to that record, or to that block.
bool backlog_needs(const backlog *l, u64 origin);
bool backlog_has_block(const backlog *l, u64 block);
static inline backlog_chunk *backlog_chunk_at(const backlog *l, u32 i) {
    return &l->chunks[l->at + i];
}
void backlog_free(backlog *l, pool *memory);

#endif
