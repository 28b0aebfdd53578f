// SPDX-License-Identifier: Apache-2.0
// message_record.c: the bytes of a message record. The entries of waiting sessions have one size, so that the
// one of a session is found by halving: a message may wait for many thousands of them.
#include "store/message_record.h"

#include <string.h>

#include "base/cursor.h"
#include "broker/topic.h"
#include "store/put.h"

#define FORMAT 1u
#define HAS_EXCHANGE 0x08u
#define HAS_SOURCE 0x10u
#define FLAGS_KNOWN 0x1fu
#define FIXED_BYTES 44u
#define EXCHANGE_BYTES 18u
#define SOURCE_BYTES 10u
#define STREAM_BYTES 10u
#define WAITING_BYTES 16u

static u64 cursor_u64(cursor *c) {
    u64 high = cursor_u32(c);
    return high << 32 | cursor_u32(c);
}

// --- reading ---

message_stream message_record_stream(const message_record *r, u32 at) {
    ASSERT(at < r->stream_count);
    cursor c = cursor_of(r->streams + (size_t)at * STREAM_BYTES, STREAM_BYTES);
    message_stream out = {.stream = cursor_u16(&c)};
    out.offset = cursor_u64(&c);
    return out;
}

static u32 ids_end(const message_record *r, u32 at) {
    cursor c = cursor_of(r->waiting + (size_t)at * WAITING_BYTES + 12, 4);
    return cursor_u32(&c);
}

message_waiting message_record_waiting(const message_record *r, u32 at) {
    ASSERT(at < r->waiting_count);
    cursor c = cursor_of(r->waiting + (size_t)at * WAITING_BYTES, WAITING_BYTES);
    message_waiting w = {.session = cursor_u64(&c)};
    w.packet_id = cursor_u16(&c);
    u8 options = cursor_u8(&c);
    w.qos = options & 3;
    w.retain = (options & 4) != 0;
    w.ids_at = at == 0 ? 0 : ids_end(r, at - 1);
    w.id_count = ids_end(r, at) - w.ids_at;
    return w;
}

bool message_record_find(const message_record *r, u64 session, message_waiting *out) {
    u32 low = 0, high = r->waiting_count;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        *out = message_record_waiting(r, middle);
        if (out->session == session) return true;
        if (out->session < session) low = middle + 1;
        else high = middle;
    }
    return false;
}

void message_record_ids(const message_record *r, const message_waiting *w, u32 *out) {
    cursor c = cursor_of(r->ids + (size_t)w->ids_at * 4, (size_t)w->id_count * 4);
    for (u32 i = 0; i < w->id_count; i++) out[i] = cursor_u32(&c);
}

// The entries are what message_record_find and message_record_ids rely on.
static bool waiting_is_good(const message_record *r) {
    u64 last = 0;
    u32 end = 0;
    for (u32 i = 0; i < r->waiting_count; i++) {
        cursor c = cursor_of(r->waiting + (size_t)i * WAITING_BYTES, WAITING_BYTES);
        u64 session = cursor_u64(&c);
        (void)cursor_u16(&c);
        u8 options = cursor_u8(&c), reserved = cursor_u8(&c);
        u32 next = cursor_u32(&c);
        bool good = session > last && options <= 7 && (options & 3) >= 1 && (options & 3) <= 2 &&
                    reserved == 0 && next >= end && next <= r->id_count;
        if (!good) return false;
        last = session;
        end = next;
    }
    return end == r->id_count;
}

static bool take_lists(cursor *c, message_record *out) {
    u64 bytes = (u64)out->stream_count * STREAM_BYTES + (u64)out->waiting_count * WAITING_BYTES +
                (u64)out->id_count * 4;
    if (c->overrun || bytes > cursor_left(c)) return false;
    out->streams = cursor_take(c, out->stream_count * STREAM_BYTES);
    out->waiting = cursor_take(c, out->waiting_count * WAITING_BYTES);
    out->ids = cursor_take(c, out->id_count * 4);
    return true;
}

bool message_record_parse(const u8 *data, u32 len, message_record *out) {
    cursor c = cursor_of(data, len);
    u8 format = cursor_u8(&c), flags = cursor_u8(&c);
    *out = (message_record){.qos = flags & 3, .retain = (flags & 4) != 0};
    out->topic_len = cursor_u16(&c);
    out->props_len = cursor_u32(&c);
    out->payload_len = cursor_u32(&c);
    out->expiry_s = cursor_u32(&c);
    out->published_ms = cursor_u64(&c);
    out->props_present = cursor_u64(&c);
    u32 reserved = cursor_u8(&c);
    out->stream_count = cursor_u8(&c);
    reserved |= cursor_u16(&c);
    out->waiting_count = cursor_u32(&c);
    out->id_count = cursor_u32(&c);
    if ((flags & HAS_EXCHANGE) != 0) {
        out->exchange_session = cursor_u64(&c);
        out->exchange_id = cursor_u16(&c);
        out->targets = cursor_u64(&c);
        if (out->exchange_session == 0 || out->exchange_id == 0) return false;
    }
    if ((flags & HAS_SOURCE) != 0) {
        out->source_worker = cursor_u16(&c);
        out->source_pos = cursor_u64(&c);
        if (out->source_pos == 0) return false;
    }
    if (c.overrun || format != FORMAT || (flags & ~FLAGS_KNOWN) != 0 || out->qos > 2 || reserved != 0) return false;
    if (!take_lists(&c, out)) return false;
    out->topic = (const char *)cursor_take(&c, out->topic_len);
    out->props = cursor_take(&c, out->props_len);
    out->payload = cursor_take(&c, out->payload_len);
    if (c.overrun || cursor_left(&c) > 0) return false;
    return topic_name_is_valid(out->topic, out->topic_len) && waiting_is_good(out);
}

// --- writing ---

u32 message_record_head_bytes(const message_record *r) {
    u64 bytes = FIXED_BYTES + (u64)r->stream_count * STREAM_BYTES + (u64)r->waiting_count * WAITING_BYTES +
                (u64)r->id_count * 4;
    if (r->exchange_session != 0) bytes += EXCHANGE_BYTES;
    if (r->source_pos != 0) bytes += SOURCE_BYTES;
    bool fits = r->stream_count <= MESSAGE_RECORD_STREAMS_MAX && bytes <= UINT32_MAX;
    return fits ? (u32)bytes : 0;
}

static u8 *write_waiting(u8 *to, const message_record *r, const message_waiting *waiting) {
    u32 end = 0;
    for (u32 i = 0; i < r->waiting_count; i++) {
        const message_waiting *w = &waiting[i];
        end += w->id_count;
        to = put_u64(to, w->session);
        to = put_u16(to, w->packet_id);
        to = put_u8(to, (u8)(w->qos | (w->retain ? 4 : 0)));
        to = put_u8(to, 0);
        to = put_u32(to, end);
    }
    ASSERT(end == r->id_count);
    for (u32 i = 0; i < r->waiting_count; i++) {
        for (u32 k = 0; k < waiting[i].id_count; k++) to = put_u32(to, waiting[i].ids[k]);
    }
    return to;
}

void message_record_write(const message_record *r, const message_stream *streams,
                          const message_waiting *waiting, u8 *head, struct iovec parts[4]) {
    u8 flags = (u8)(r->qos | (r->retain ? 4 : 0));
    if (r->exchange_session != 0) flags |= HAS_EXCHANGE;
    if (r->source_pos != 0) flags |= HAS_SOURCE;
    u8 *to = put_u8(put_u8(head, FORMAT), flags);
    to = put_u16(to, (u16)r->topic_len);
    to = put_u32(to, r->props_len);
    to = put_u32(to, r->payload_len);
    to = put_u32(to, r->expiry_s);
    to = put_u64(to, r->published_ms);
    to = put_u64(to, r->props_present);
    to = put_u16(put_u8(put_u8(to, 0), (u8)r->stream_count), 0);
    to = put_u32(to, r->waiting_count);
    to = put_u32(to, r->id_count);
    if (r->exchange_session != 0) {
        to = put_u64(put_u16(put_u64(to, r->exchange_session), r->exchange_id), r->targets);
    }
    if (r->source_pos != 0) to = put_u64(put_u16(to, r->source_worker), r->source_pos);
    for (u32 i = 0; i < r->stream_count; i++) {
        to = put_u64(put_u16(to, streams[i].stream), streams[i].offset);
    }
    to = write_waiting(to, r, waiting);
    parts[0] = (struct iovec){head, (size_t)(to - head)};
    parts[1] = (struct iovec){(void *)(uintptr_t)r->topic, r->topic_len};
    parts[2] = (struct iovec){(void *)(uintptr_t)r->props, r->props_len};
    parts[3] = (struct iovec){(void *)(uintptr_t)r->payload, r->payload_len};
}
