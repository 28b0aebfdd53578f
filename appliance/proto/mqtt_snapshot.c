// SPDX-License-Identifier: Apache-2.0
// mqtt_snapshot.c: a durable session as a whole, in bytes. What is parsed is checked once from end to end;
// its lists are read then as they are needed.
#include <string.h>

#include "broker/topic.h"
#include "proto/mqtt_record_parts.h"
#include "store/put.h"

#define FORMAT 1u
#define SIZE_MIN 512u
#define FLIGHT_BYTES 16u
#define CHUNK_BYTES 39u

static u64 cursor_u64(cursor *c) {
    u64 high = cursor_u32(c);
    return high << 32 | cursor_u32(c);
}

// --- writing ---

// Room for so many bytes more; NULL: no memory.
static u8 *room(mqtt_snapshot *s, u32 bytes) {
    if (s->failed) return NULL;
    if (s->size - s->used < bytes) {
        u64 size = MAX((u64)s->size * 2, MAX((u64)s->used + bytes, (u64)SIZE_MIN));
        u8 *data = size > UINT32_MAX ? NULL : pool_alloc(s->memory, size);
        if (data == NULL) {
            s->failed = true;
            return NULL;
        }
        if (s->used > 0) memcpy(data, s->data, s->used);
        pool_free(s->memory, s->data, s->size);
        s->data = data;
        s->size = (u32)size;
    }
    u8 *at = s->data + s->used;
    s->used += bytes;
    return at;
}

void mqtt_snapshot_free(mqtt_snapshot *s) {
    pool_free(s->memory, s->data, s->size);
    s->data = NULL;
}

static void write_will(mqtt_snapshot *out, const mqtt_will_record *w) {
    u8 *to = room(out, mqtt_will_record_bytes(w));
    if (to != NULL) (void)mqtt_will_record_write(to, w);
}

void mqtt_snapshot_session(mqtt_snapshot *out, const mqtt_session_record *r) {
    u8 *to = room(out, 32 + r->id_len);
    if (to == NULL) return;
    to = put_u8(put_u8(put_u8(put_u8(to, FORMAT), r->version), r->queue_policy), r->has_will);
    to = put_u32(put_u64(to, r->left_ms), r->expiry_s);
    to = put_u32(put_u32(to, r->queued_bytes_max), r->queued_messages_max);
    to = put_u16(put_u16(put_u16(to, r->window), r->last_id), 0);
    to = put_u16(to, (u16)r->id_len);
    if (r->id_len > 0) memcpy(to, r->id, r->id_len);
    if (r->has_will) write_will(out, &r->will);
}

void mqtt_snapshot_count(mqtt_snapshot *out, u32 count) {
    u8 *to = room(out, 4);
    if (to != NULL) put_u32(to, count);
}

void mqtt_snapshot_id(mqtt_snapshot *out, u16 id) {
    u8 *to = room(out, 2);
    if (to != NULL) put_u16(to, id);
}

void mqtt_snapshot_flight(mqtt_snapshot *out, const mqtt_flight_record *f) {
    u8 *to = room(out, FLIGHT_BYTES);
    if (to == NULL) return;
    (void)put_u8(put_u8(put_u16(put_u32(put_u64(to, f->origin), f->part), f->id), f->qos), f->state);
}

void mqtt_snapshot_chunk(mqtt_snapshot *out, const backlog_chunk *c) {
    bool in_log = c->block != 0;
    u32 refs = in_log ? 0 : c->count;
    u8 *to = room(out, CHUNK_BYTES + refs * (u32)sizeof(backlog_ref));
    if (to == NULL) return;
    to = put_u64(put_u64(put_u64(put_u64(to, c->block), c->first), c->last), c->bytes);
    to = put_u8(put_u8(put_u8(put_u32(to, c->block_bytes), c->start), c->count), in_log);
    for (u32 i = 0; i < refs; i++) {
        to = put_u32(put_u32(put_u64(to, c->refs[i].origin), c->refs[i].bytes), c->refs[i].part);
    }
}

void mqtt_snapshot_subscription(mqtt_snapshot *out, const mqtt_subscription_record *s) {
    u8 *to = room(out, mqtt_subscription_bytes(s));
    if (to != NULL) (void)mqtt_subscription_write(to, s);
}

// --- reading ---

u32 mqtt_session_count(cursor *lists) {
    return cursor_u32(lists);
}

u16 mqtt_session_id(cursor *lists) {
    return cursor_u16(lists);
}

void mqtt_session_flight(cursor *lists, mqtt_flight_record *out) {
    out->origin = cursor_u64(lists);
    out->part = cursor_u32(lists);
    out->id = cursor_u16(lists);
    out->qos = cursor_u8(lists);
    out->state = cursor_u8(lists);
}

bool mqtt_session_chunk(cursor *lists, backlog_chunk *out, backlog_ref *refs) {
    *out = (backlog_chunk){.block = cursor_u64(lists)};
    out->first = cursor_u64(lists);
    out->last = cursor_u64(lists);
    out->bytes = cursor_u64(lists);
    out->block_bytes = cursor_u32(lists);
    out->start = cursor_u8(lists);
    out->count = cursor_u8(lists);
    if (cursor_u8(lists) != 0) return false;
    for (u32 i = 0; i < out->count && i < BACKLOG_CHUNK; i++) mqtt_ref_parse(lists, &refs[i]);
    return true;
}

void mqtt_session_subscription(cursor *lists, mqtt_subscription_record *out) {
    (void)mqtt_subscription_parse(lists, out);
}

static bool flight_is_good(const mqtt_flight_record *f) {
    return f->id != 0 && (f->qos == 1 || f->qos == 2) && f->state >= 1 && f->state <= 2;
}

static bool chunk_is_good(cursor *c) {
    backlog_chunk chunk;
    backlog_ref refs[BACKLOG_CHUNK];
    bool in_memory = mqtt_session_chunk(c, &chunk, refs);
    bool good = !c->overrun && chunk.start < chunk.count && chunk.count <= BACKLOG_CHUNK && chunk.first != 0 &&
                chunk.first <= chunk.last && in_memory == (chunk.block == 0);
    if (!good || !in_memory) return good && (in_memory || chunk.count == BACKLOG_CHUNK);
    u64 bytes = 0;
    for (u32 i = 0; i < chunk.count; i++) {
        if (refs[i].origin <= (i == 0 ? 0 : refs[i - 1].origin)) return false;
        if (i >= chunk.start) bytes += refs[i].bytes;
    }
    return bytes == chunk.bytes;
}

static bool lists_are_good(cursor c) {
    for (u32 n = mqtt_session_count(&c); n > 0; n--) {
        if (mqtt_session_id(&c) == 0) return false;
    }
    for (u32 n = mqtt_session_count(&c); n > 0; n--) {
        mqtt_flight_record f;
        mqtt_session_flight(&c, &f);
        if (c.overrun || !flight_is_good(&f)) return false;
    }
    for (u32 n = mqtt_session_count(&c); n > 0; n--) {
        if (!chunk_is_good(&c)) return false;
    }
    for (u32 n = mqtt_session_count(&c); n > 0; n--) {
        mqtt_subscription_record s;
        if (!mqtt_subscription_parse(&c, &s)) return false;
    }
    return !c.overrun && cursor_left(&c) == 0;
}

bool mqtt_session_parse(const u8 *data, u32 len, mqtt_session_record *out) {
    cursor c = cursor_of(data, len);
    u8 format = cursor_u8(&c);
    *out = (mqtt_session_record){.version = cursor_u8(&c)};
    out->queue_policy = cursor_u8(&c);
    u8 has_will = cursor_u8(&c);
    out->has_will = has_will != 0;
    out->left_ms = cursor_u64(&c);
    out->expiry_s = cursor_u32(&c);
    out->queued_bytes_max = cursor_u32(&c);
    out->queued_messages_max = cursor_u32(&c);
    out->window = cursor_u16(&c);
    out->last_id = cursor_u16(&c);
    u16 reserved = cursor_u16(&c);
    out->id_len = cursor_u16(&c);
    out->id = (const char *)cursor_take(&c, out->id_len);
    if (c.overrun || format != FORMAT || has_will > 1 || reserved != 0) return false;
    if (out->id_len > LIMIT_CLIENT_ID_BYTES) return false;
    if (out->version < 3 || out->version > 5 || out->queue_policy > 3 || out->window == 0) return false;
    if (out->has_will && !mqtt_will_record_parse(&c, &out->will)) return false;
    out->lists = c;
    return lists_are_good(c);
}
