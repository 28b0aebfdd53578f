// SPDX-License-Identifier: Apache-2.0
// mqtt_backlog.c: the chunks of a backlog. Origins grow from the oldest to the youngest. The counts of a
// chunk that is in the log only are known; the bytes of what was taken from it meanwhile (a replay counts
// only) come right when it is read.
#include "proto/mqtt_backlog.h"

#include <string.h>

#define CHUNKS_MIN 2u
#define FRONT_CHUNKS 8u // hold more than is ever kept in memory for a client (mqtt_durable_queue.c)
#define CHUNK_BYTES (BACKLOG_CHUNK * sizeof(backlog_ref))

static bool chunk_add(backlog *l, pool *memory, const backlog_chunk *like) {
    if (l->at + l->used == l->room) {
        u32 room = l->used * 2 > l->room || l->room == 0 ? MAX(l->room * 2, CHUNKS_MIN) : l->room;
        backlog_chunk *chunks = pool_alloc(memory, room * sizeof(*chunks));
        if (chunks == NULL) return false;
        if (l->used > 0) memcpy(chunks, l->chunks + l->at, l->used * sizeof(*chunks));
        pool_free(memory, l->chunks, l->room * sizeof(*chunks));
        l->chunks = chunks;
        l->room = room;
        l->at = 0;
    }
    l->chunks[l->at + l->used++] = *like;
    return true;
}

static void chunk_free(pool *memory, backlog_chunk *c) {
    pool_free(memory, c->refs, CHUNK_BYTES);
    c->refs = NULL;
}

static void first_remove(backlog *l, pool *memory) {
    chunk_free(memory, backlog_chunk_at(l, 0));
    l->at++;
    if (--l->used > 0) return;
    pool_free(memory, l->chunks, l->room * sizeof(*l->chunks));
    *l = (backlog){.count = l->count, .bytes = l->bytes};
}

bool backlog_push(backlog *l, pool *memory, const backlog_ref *ref) {
    backlog_chunk *c = l->used == 0 ? NULL : backlog_chunk_at(l, l->used - 1);
    if (c == NULL || c->refs == NULL || c->block != 0 || c->count == BACKLOG_CHUNK) {
        backlog_chunk fresh = {.refs = pool_alloc(memory, CHUNK_BYTES), .first = ref->origin};
        if (fresh.refs == NULL) return false;
        if (!chunk_add(l, memory, &fresh)) {
            chunk_free(memory, &fresh);
            return false;
        }
        c = backlog_chunk_at(l, l->used - 1);
    }
    c->refs[c->count++] = *ref;
    c->last = ref->origin;
    c->bytes += ref->bytes;
    l->count++;
    l->bytes += ref->bytes;
    return true;
}

void backlog_place(backlog *l, u64 origin, u32 part) {
    backlog_chunk *c = backlog_chunk_at(l, l->used - 1);
    backlog_ref *ref = &c->refs[c->count - 1];
    ref->origin = origin;
    ref->part = part;
    c->last = origin;
    if (c->count == 1) c->first = origin;
}

void backlog_unpush(backlog *l, pool *memory) {
    backlog_chunk *c = backlog_chunk_at(l, l->used - 1);
    const backlog_ref *ref = &c->refs[--c->count];
    c->bytes -= ref->bytes;
    l->bytes -= ref->bytes;
    l->count--;
    if (c->count > c->start) {
        c->last = c->refs[c->count - 1].origin;
        return;
    }
    chunk_free(memory, c);
    l->used--;
}

const backlog_ref *backlog_at(const backlog *l, u32 place, backlog_chunk **chunk) {
    for (u32 i = 0; i < l->used; i++) {
        backlog_chunk *c = backlog_chunk_at(l, i);
        u32 left = (u32)c->count - c->start;
        *chunk = c;
        if (place < left) return c->refs == NULL ? NULL : &c->refs[c->start + place];
        place -= left;
    }
    *chunk = NULL;
    return NULL;
}

bool backlog_pop(backlog *l, pool *memory, backlog_ref *ref, u64 *block, u32 *block_bytes) {
    *ref = (backlog_ref){0};
    *block = 0;
    *block_bytes = 0;
    if (l->used == 0) return false;
    backlog_chunk *c = backlog_chunk_at(l, 0);
    if (c->refs != NULL) *ref = c->refs[c->start];
    c->start++;
    c->bytes -= ref->bytes;
    l->bytes -= ref->bytes;
    l->count--;
    if (c->start < c->count) return true;
    l->bytes -= c->bytes; // of a chunk that was not in memory
    *block = c->block;
    *block_bytes = c->block_bytes;
    first_remove(l, memory);
    return true;
}

static bool is_whole(const backlog_chunk *c) {
    return c->refs != NULL && c->block == 0 && c->start == 0 && c->count == BACKLOG_CHUNK;
}

// Asked for each message: a long backlog is not walked. Chunks are written as they fill, so that those still to be
// written are the last ones, or were kept at the front once.
backlog_chunk *backlog_spillable(const backlog *l, u32 keep) {
    if (l->used < 3) return NULL;
    u32 first = 0, last = l->used - 2;
    for (u32 place = 0; first <= last && (first == 0 || place < keep); first++) {
        const backlog_chunk *c = backlog_chunk_at(l, first);
        place += (u32)c->count - c->start;
    }
    u32 front = MIN(first + FRONT_CHUNKS, last + 1);
    for (u32 i = first; i < front; i++) {
        if (is_whole(backlog_chunk_at(l, i))) return backlog_chunk_at(l, i);
    }
    backlog_chunk *found = NULL;
    for (u32 i = last + 1; i > front && backlog_chunk_at(l, i - 1)->block == 0; i--) {
        if (is_whole(backlog_chunk_at(l, i - 1))) found = backlog_chunk_at(l, i - 1);
    }
    return found;
}

void backlog_spilled(backlog_chunk *c, pool *memory, u64 block, u32 block_bytes) {
    c->block = block;
    c->block_bytes = block_bytes;
    chunk_free(memory, c);
}

bool backlog_load(backlog *l, backlog_chunk *c, pool *memory, const backlog_ref *refs) {
    ASSERT(c->refs == NULL);
    c->refs = pool_alloc(memory, CHUNK_BYTES);
    if (c->refs == NULL) return false;
    memcpy(c->refs, refs, CHUNK_BYTES);
    u64 bytes = 0;
    for (u32 i = c->start; i < c->count; i++) bytes += refs[i].bytes;
    l->bytes = l->bytes - c->bytes + bytes;
    c->bytes = bytes;
    return true;
}

u32 backlog_lose(backlog *l, backlog_chunk *c, pool *memory) {
    u32 i = (u32)(c - backlog_chunk_at(l, 0)), lost = (u32)c->count - c->start;
    l->count -= lost;
    l->bytes -= c->bytes;
    chunk_free(memory, c);
    memmove(c, c + 1, (l->used - i - 1) * sizeof(*c));
    if (--l->used > 0) return lost;
    pool_free(memory, l->chunks, l->room * sizeof(*l->chunks));
    *l = (backlog){.count = l->count, .bytes = l->bytes};
    return lost;
}

bool backlog_restore(backlog *l, pool *memory, const backlog_chunk *like, const backlog_ref *refs) {
    backlog_chunk c = *like;
    c.refs = NULL;
    if (refs != NULL) {
        c.refs = pool_alloc(memory, CHUNK_BYTES);
        if (c.refs == NULL) return false;
        memcpy(c.refs, refs, c.count * sizeof(*refs));
    }
    if (!chunk_add(l, memory, &c)) {
        chunk_free(memory, &c);
        return false;
    }
    l->count += (u32)c.count - c.start;
    l->bytes += c.bytes;
    return true;
}

backlog_chunk *backlog_find(const backlog *l, u64 first) {
    for (u32 i = 0; i < l->used; i++) {
        backlog_chunk *c = backlog_chunk_at(l, i);
        if (c->first == first && c->refs != NULL && c->block == 0) return c;
    }
    return NULL;
}

bool backlog_needs(const backlog *l, u64 origin) {
    if (l->used == 0) return false;
    const backlog_chunk *c = backlog_chunk_at(l, 0);
    u64 oldest = c->refs != NULL ? c->refs[c->start].origin : c->first;
    return origin >= oldest && origin <= backlog_chunk_at(l, l->used - 1)->last;
}

bool backlog_has_block(const backlog *l, u64 block) {
    for (u32 i = 0; i < l->used; i++) {
        if (backlog_chunk_at(l, i)->block == block) return true;
    }
    return false;
}

void backlog_free(backlog *l, pool *memory) {
    for (u32 i = 0; i < l->used; i++) chunk_free(memory, backlog_chunk_at(l, i));
    pool_free(memory, l->chunks, l->room * sizeof(*l->chunks));
    *l = (backlog){0};
}
