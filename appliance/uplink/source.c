// SPDX-License-Identifier: Apache-2.0
// source.c: an uplink's view of the log: which streams are its, and what a record says.
#include <string.h>

#include "broker/durable.h"
#include "store/message_record.h"
#include "store/streams.h"
#include "uplink/uplink_internal.h"

// Walks the partitions of its streams on this worker. False at the end.
typedef struct walk {
    const char *name;
    u32 nth;
} walk;

static bool walk_next(const uplink *u, walk *at, stream_info *out) {
    char name[LIMIT_NAME_BYTES];
    for (; *at->name != '\0'; at->name = strchr(at->name, '\n') + 1, at->nth = 0) {
        size_t len = (size_t)(strchr(at->name, '\n') - at->name);
        ASSERT(len < sizeof(name));
        memcpy(name, at->name, len);
        name[len] = '\0';
        if (streams_find(u->owner->streams, name, at->nth, out)) {
            at->nth++;
            return true;
        }
    }
    return false;
}

void source_bind(uplink *u) {
    stream_info info;
    u->stream_count = 0;
    for (walk at = {u->conf.streams, 0}; walk_next(u, &at, &info);) {
        // No log has more; a list that names a stream twice could.
        if (u->stream_count < ARRAY_LEN(u->streams)) u->streams[u->stream_count++] = info.number;
    }
}

u64 source_count(const uplink *u, bool gone) {
    stream_info info;
    u64 count = 0;
    for (walk at = {u->conf.streams, 0}; walk_next(u, &at, &info);) count += (gone ? info.first : info.next) - 1;
    return count;
}

u64 source_time_behind(const uplink *u, u64 pos) {
    u64 oldest_ms = 0, newest_ms = 0;
    for (u32 i = 0; i < u->stream_count; i++) {
        u64 last_ms, ms = streams_time_behind(u->owner->streams, u->streams[i], pos, &last_ms);
        if (ms != 0 && (oldest_ms == 0 || ms < oldest_ms)) oldest_ms = ms;
        newest_ms = MAX(newest_ms, last_ms);
    }
    u64 found_ms = oldest_ms != 0 ? oldest_ms : newest_ms;
    return found_ms == 0 ? 0 : durable_time(u->owner->broker, pos, found_ms);
}

static u64 expires_ms(const uplink *u, const store_record *r, const message_record *m) {
    if (m->expiry_s == MESSAGE_EXPIRY_NEVER) return 0;
    return durable_time(u->owner->broker, r->origin, m->published_ms) + m->expiry_s * 1000ull;
}

bool source_message(const uplink *u, const store_record *r, uplink_message *out) {
    message_record m;
    if (r->kind != STORE_MESSAGE || !message_record_parse(r->data, r->len, &m)) return false;
    u32 count = 0, held = 0;
    for (u32 i = 0; i < m.stream_count; i++) {
        message_stream ref = message_record_stream(&m, i);
        for (u32 k = 0; k < u->stream_count; k++) {
            if (u->streams[k] != ref.stream) continue;
            count++;
            held += ref.offset >= streams_first(u->owner->streams, ref.stream);
        }
    }
    if (count == 0) return false;
    *out = (uplink_message){
        .topic = m.topic,
        .topic_len = m.topic_len,
        .props = m.props,
        .props_len = m.props_len,
        .props_present = m.props_present,
        .payload = m.payload,
        .payload_len = m.payload_len,
        .pos = r->origin,
        .time_ms = r->time_ms,
        .expires_ms = expires_ms(u, r, &m),
        .streams = count,
        .qos = m.qos,
        .retain = m.retain,
        .given_up = held == 0,
    };
    return true;
}
