// SPDX-License-Identifier: Apache-2.0
// mqtt_record.c: the bytes of changes and blocks; a session as a whole is in mqtt_snapshot.c.
#include "proto/mqtt_record_parts.h"

#include <string.h>

#include "broker/topic.h"
#include "store/put.h"

#define NOT_SHARED 0xffffu

static u64 cursor_u64(cursor *c) {
    u64 high = cursor_u32(c);
    return high << 32 | cursor_u32(c);
}

// --- subscriptions ---

u32 mqtt_subscription_bytes(const mqtt_subscription_record *s) {
    return 9 + s->filter_len + (s->share == NULL ? 0 : s->share_len);
}

u8 *mqtt_subscription_write(u8 *to, const mqtt_subscription_record *s) {
    u32 share_len = s->share == NULL ? 0 : s->share_len;
    u32 options = s->qos | s->retain_handling << 2 | (u32)s->no_local << 4 | (u32)s->retain_as_published << 5;
    to = put_u8(put_u32(to, s->id), (u8)options);
    to = put_u16(to, s->share == NULL ? NOT_SHARED : (u16)share_len);
    to = put_u16(to, (u16)s->filter_len);
    if (share_len > 0) memcpy(to, s->share, share_len);
    memcpy(to + share_len, s->filter, s->filter_len);
    return to + share_len + s->filter_len;
}

bool mqtt_subscription_parse(cursor *at, mqtt_subscription_record *out) {
    u32 id = cursor_u32(at);
    u8 options = cursor_u8(at);
    u16 share_len = cursor_u16(at), filter_len = cursor_u16(at);
    bool shared = share_len != NOT_SHARED;
    const char *share = shared ? (const char *)cursor_take(at, share_len) : NULL;
    const char *filter = (const char *)cursor_take(at, filter_len);
    *out = (mqtt_subscription_record){
        .share = share, .share_len = shared ? share_len : 0, .filter = filter, .filter_len = filter_len, .id = id,
        .qos = options & 3, .retain_handling = options >> 2 & 3, .no_local = (options & 16) != 0,
        .retain_as_published = (options & 32) != 0};
    if (at->overrun || options > 63 || out->qos > 2 || out->retain_handling > 2) return false;
    if (shared && (share_len == 0 || !utf8_is_valid(share, share_len))) return false;
    return topic_filter_is_valid(filter, filter_len);
}

// --- wills ---

u32 mqtt_will_record_bytes(const mqtt_will_record *w) {
    return 29 + w->topic_len + w->props_len + w->payload_len;
}

u8 *mqtt_will_record_write(u8 *to, const mqtt_will_record *w) {
    u32 bytes = w->topic_len + w->props_len + w->payload_len;
    to = put_u32(put_u32(put_u8(to, (u8)(w->qos | (w->retain ? 4 : 0))), w->delay_s), w->expiry_s);
    to = put_u32(put_u32(put_u32(put_u64(to, w->props_present), w->topic_len), w->props_len), w->payload_len);
    if (bytes > 0) memcpy(to, w->bytes, bytes);
    return to + bytes;
}

bool mqtt_will_record_parse(cursor *at, mqtt_will_record *out) {
    u8 options = cursor_u8(at);
    *out = (mqtt_will_record){.qos = options & 3, .retain = (options & 4) != 0};
    out->delay_s = cursor_u32(at);
    out->expiry_s = cursor_u32(at);
    out->props_present = cursor_u64(at);
    out->topic_len = cursor_u32(at);
    out->props_len = cursor_u32(at);
    out->payload_len = cursor_u32(at);
    u64 bytes = (u64)out->topic_len + out->props_len + out->payload_len;
    if (at->overrun || options > 7 || out->qos > 2 || bytes > cursor_left(at)) return false;
    out->bytes = cursor_take(at, (u32)bytes);
    return topic_name_is_valid((const char *)out->bytes, out->topic_len);
}

// --- changes ---

enum {
    HAS_ORIGIN = 1, HAS_TIME = 2, HAS_NUMBER = 4, HAS_ID = 8, HAS_QOS = 16, HAS_FLAG = 32, HAS_SUBSCRIPTION = 64,
    HAS_WILL = 128
};

static const u8 fields[MQTT_CHANGE_KINDS] = {
    [MQTT_CHANGE_SENT] = HAS_ORIGIN | HAS_NUMBER | HAS_ID | HAS_QOS,
    [MQTT_CHANGE_DROPPED] = HAS_NUMBER,
    [MQTT_CHANGE_RELEASED] = HAS_ID,
    [MQTT_CHANGE_DONE] = HAS_ID,
    [MQTT_CHANGE_RECEIVED] = HAS_ID,
    [MQTT_CHANGE_COMPLETED] = HAS_ID,
    [MQTT_CHANGE_LEFT] = HAS_TIME | HAS_NUMBER | HAS_FLAG,
    [MQTT_CHANGE_SUBSCRIBED] = HAS_SUBSCRIPTION,
    [MQTT_CHANGE_UNSUBSCRIBED] = HAS_SUBSCRIPTION,
    [MQTT_CHANGE_CONFIRMED] = HAS_ORIGIN,
    [MQTT_CHANGE_SOURCE] = HAS_ORIGIN | HAS_NUMBER,
    [MQTT_CHANGE_KEPT] = HAS_ORIGIN | HAS_NUMBER,
    [MQTT_CHANGE_EXCHANGE] = HAS_ORIGIN | HAS_NUMBER | HAS_TIME,
    [MQTT_CHANGE_WILL_DUE] = HAS_ORIGIN | HAS_TIME | HAS_WILL,
    [MQTT_CHANGE_WILL_DONE] = HAS_ORIGIN,
    [MQTT_CHANGE_CLOCK] = HAS_ORIGIN | HAS_TIME | HAS_NUMBER | HAS_ID | HAS_FLAG,
};

u32 mqtt_change_bytes(const mqtt_change *c) {
    u8 has = fields[c->kind];
    return 9u + (has & HAS_ORIGIN ? 8u : 0u) + (has & HAS_TIME ? 8u : 0u) + (has & HAS_NUMBER ? 4u : 0u) +
           (has & HAS_ID ? 2u : 0u) + (has & HAS_QOS ? 1u : 0u) + (has & HAS_FLAG ? 1u : 0u) +
           (has & HAS_SUBSCRIPTION ? mqtt_subscription_bytes(&c->subscription) : 0u) +
           (has & HAS_WILL ? mqtt_will_record_bytes(&c->will) : 0u);
}

u8 *mqtt_change_write(u8 *to, const mqtt_change *c) {
    u8 has = fields[c->kind];
    to = put_u64(put_u8(to, c->kind), c->session);
    if (has & HAS_ORIGIN) to = put_u64(to, c->origin);
    if (has & HAS_TIME) to = put_u64(to, c->time_ms);
    if (has & HAS_NUMBER) to = put_u32(to, c->number);
    if (has & HAS_ID) to = put_u16(to, c->id);
    if (has & HAS_QOS) to = put_u8(to, c->qos);
    if (has & HAS_FLAG) to = put_u8(to, c->flag);
    if (has & HAS_SUBSCRIPTION) to = mqtt_subscription_write(to, &c->subscription);
    return has & HAS_WILL ? mqtt_will_record_write(to, &c->will) : to;
}

int mqtt_change_next(cursor *at, mqtt_change *out) {
    if (cursor_left(at) == 0) return at->overrun ? -1 : 0;
    *out = (mqtt_change){.kind = cursor_u8(at)};
    out->session = cursor_u64(at);
    if (out->kind == 0 || out->kind >= MQTT_CHANGE_KINDS) return -1;
    u8 has = fields[out->kind], flag = 0;
    if (has & HAS_ORIGIN) out->origin = cursor_u64(at);
    if (has & HAS_TIME) out->time_ms = cursor_u64(at);
    if (has & HAS_NUMBER) out->number = cursor_u32(at);
    if (has & HAS_ID) out->id = cursor_u16(at);
    if (has & HAS_QOS) out->qos = cursor_u8(at);
    if (has & HAS_FLAG) flag = cursor_u8(at);
    out->flag = flag != 0;
    bool good = !at->overrun && flag <= 1 && ((has & HAS_ID) == 0 || out->id != 0) &&
                ((has & HAS_QOS) == 0 || out->qos == 1 || out->qos == 2);
    if (good && (has & HAS_SUBSCRIPTION) != 0) good = mqtt_subscription_parse(at, &out->subscription);
    if (good && (has & HAS_WILL) != 0) good = mqtt_will_record_parse(at, &out->will);
    return good ? 1 : -1;
}

// --- parts and blocks ---

void mqtt_snapshot_head(u8 *to, u64 session, u32 bytes, u32 at) {
    (void)put_u32(put_u32(put_u64(put_u8(to, MQTT_RECORD_SNAPSHOT), session), bytes), at);
}

bool mqtt_snapshot_parse(cursor *at, mqtt_snapshot_part *out) {
    *out = (mqtt_snapshot_part){.session = cursor_u64(at)};
    out->bytes = cursor_u32(at);
    out->at = cursor_u32(at);
    out->len = cursor_left(at);
    out->data = cursor_take(at, out->len);
    return !at->overrun && out->len > 0 && out->at <= out->bytes && out->len <= out->bytes - out->at;
}

void mqtt_block_write(u8 *to, u64 session, const backlog_ref *refs) {
    to = put_u32(put_u64(put_u8(to, MQTT_RECORD_BLOCK), session), BACKLOG_CHUNK);
    for (u32 i = 0; i < BACKLOG_CHUNK; i++) {
        to = put_u32(put_u32(put_u64(to, refs[i].origin), refs[i].bytes), refs[i].part);
    }
}

void mqtt_ref_parse(cursor *at, backlog_ref *out) {
    out->origin = cursor_u64(at);
    out->bytes = cursor_u32(at);
    out->part = cursor_u32(at);
}

bool mqtt_block_parse(cursor *at, u64 *session, backlog_ref *refs) {
    *session = cursor_u64(at);
    if (cursor_u32(at) != BACKLOG_CHUNK || cursor_left(at) != BACKLOG_CHUNK * sizeof(backlog_ref)) return false;
    for (u32 i = 0; i < BACKLOG_CHUNK; i++) {
        mqtt_ref_parse(at, &refs[i]);
        if (refs[i].origin <= (i == 0 ? 0 : refs[i - 1].origin)) return false;
    }
    return true;
}
