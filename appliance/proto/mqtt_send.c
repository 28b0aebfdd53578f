// SPDX-License-Identifier: Apache-2.0
// mqtt_send.c: one PUBLISH into a connection's output. Topic, properties and payload are copied once,
// from where they lie (the publisher's packet, or the stored message) to the output segment; a large
// payload of a stored message is sent from where it is. What differs among receivers (packet identifier,
// what is left of the expiry, alias, subscription identifiers) is written on the stack.
#include <string.h>

#include "proto/mqtt_session.h"

#define OWN_BYTES 512u       // on the stack: enough for 99 subscription identifiers
#define SHARED_HEAD_BYTES 1024u
#define ID_BYTES_MAX 5u      // a subscription identifier: property and up to four bytes
#define OWN_FIXED_BYTES 16u  // packet identifier, property length, expiry, alias

typedef struct publish_parts {
    u8 head[8];  // fixed header and length of the topic
    u32 head_len;
    u32 topic_len; // 0 when an alias stands for it
    u8 *own;       // packet identifier, length of the properties, properties of this delivery
    u32 own_len;
    u16 alias;
    bool alias_known;
} publish_parts;

static u8 *put_varint(u8 *to, u32 value) {
    do {
        *to++ = (u8)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value > 0);
    return to;
}

static u32 varint_bytes(u32 value) {
    return value < 1u << 7 ? 1 : value < 1u << 14 ? 2 : value < 1u << 21 ? 3 : 4;
}

static u8 *put_u16(u8 *to, u32 value) {
    to[0] = (u8)(value >> 8);
    to[1] = (u8)value;
    return to + 2;
}

// The properties of this delivery and the length of all, as 5.0 wants them.
static u8 *put_properties(u8 *to, const mqtt_outgoing *out, const publish_parts *parts, u64 now_ns) {
    u32 len = out->props_len;
    if (out->expires_ns != 0) len += 5;
    if (parts->alias != 0) len += 3;
    for (u32 i = 0; i < out->id_count; i++) len += 1 + varint_bytes(out->ids[i]);
    to = put_varint(to, len);
    if (out->expires_ns != 0) {
        u64 left_s = (out->expires_ns - now_ns) / NS_PER_S;
        *to++ = MQTT_MESSAGE_EXPIRY;
        to = put_u16(to, (u32)(left_s >> 16));
        to = put_u16(to, (u32)left_s & 0xffff);
    }
    if (parts->alias != 0) {
        *to++ = MQTT_TOPIC_ALIAS;
        to = put_u16(to, parts->alias);
    }
    for (u32 i = 0; i < out->id_count; i++) {
        *to++ = MQTT_SUBSCRIPTION_ID;
        to = put_varint(to, out->ids[i]);
    }
    return to;
}

// Fills parts; own has room. Returns the size of the packet.
static u64 parts_make(mqtt_session *s, const mqtt_outgoing *out, publish_parts *parts) {
    u8 *to = parts->own;
    bool v5 = s->version == MQTT_5;
    parts->topic_len = parts->alias_known ? 0 : out->topic_len;
    if (out->qos > 0) to = put_u16(to, out->packet_id);
    if (v5) to = put_properties(to, out, parts, s->owner->now_ns);
    parts->own_len = (u32)(to - parts->own);
    u64 remaining = 2ull + parts->topic_len + parts->own_len + (v5 ? out->props_len : 0) + out->payload_len;
    if (remaining > MQTT_REMAINING_LENGTH_MAX) return UINT64_MAX;
    u8 *head = parts->head;
    *head++ = (u8)(MQTT_PUBLISH << 4 | (out->dup && out->qos > 0) << 3 | out->qos << 1 | out->retain);
    head = put_varint(head, (u32)remaining);
    head = put_u16(head, parts->topic_len);
    parts->head_len = (u32)(head - parts->head);
    return parts->head_len - 2 + remaining;
}


static int parts_send(mqtt_session *s, const mqtt_outgoing *out, const publish_parts *parts, message *m) {
    u32 props_len = s->version == MQTT_5 ? out->props_len : 0;
    const struct iovec pieces[] = {
        {(void *)(uintptr_t)parts->head, parts->head_len},
        {(void *)(uintptr_t)out->topic, parts->topic_len},
        {(void *)(uintptr_t)parts->own, parts->own_len},
        {(void *)(uintptr_t)out->props, props_len},
        {(void *)(uintptr_t)out->payload, out->payload_len},
    };
    u32 head_len = parts->head_len + parts->topic_len + parts->own_len + props_len;
    if (m == NULL || out->payload_len < LIMIT_OUT_SHARED_MIN_BYTES || head_len > SHARED_HEAD_BYTES) {
        return conn_send_pieces(s->conn, pieces, ARRAY_LEN(pieces));
    }
    u8 head[SHARED_HEAD_BYTES];
    u32 used = 0;
    for (u32 i = 0; i + 1 < ARRAY_LEN(pieces); i++) {
        if (pieces[i].iov_len > 0) memcpy(head + used, pieces[i].iov_base, pieces[i].iov_len);
        used += (u32)pieces[i].iov_len;
    }
    ASSERT(m->payload_len == out->payload_len);
    message_ref(m); // what the publisher sent is gone by then
    int result = conn_send_shared(s->conn, head, used, message_payload(m), m->payload_len, message_release, m);
    if (result != 0) message_unref(m);
    return result;
}

static int send_with(mqtt_session *s, const mqtt_outgoing *out, message *m, u8 *own) {
    publish_parts parts = {.own = own};
    if (s->alias_max > 0) {
        parts.alias = mqtt_alias_find(s, out->topic, out->topic_len, &parts.alias_known);
    }
    u64 bytes = parts_make(s, out, &parts);
    if (bytes > s->packet_bytes_max) return MQTT_SEND_TOO_LARGE;
    // One that can never go out: larger than what fits above the mark at which reading pauses.
    const listener_config *conf = mqtt_conf(s->conn);
    if (bytes > conf->out_bytes_max - conf->out_bytes_high) return MQTT_SEND_TOO_LARGE;
    int result = parts_send(s, out, &parts, m);
    if (result != 0) return result;
    if (parts.alias != 0 && !parts.alias_known) {
        mqtt_alias_told(s, parts.alias, out->topic, out->topic_len);
    }
    worker_metrics *metrics = mqtt_metrics(s);
    counter_add(&metrics->mqtt_publish_out[out->qos], 1);
    counter_add(&metrics->mqtt_publish_bytes_out, out->payload_len);
    counter_add(&metrics->mqtt_packets_out[MQTT_PUBLISH], 1);
    return 0;
}

int mqtt_publish_send(mqtt_session *s, const mqtt_outgoing *out, message *m) {
    ASSERT(mqtt_session_online(s));
    // It was allowed when it came; since then the client may have come back as somebody else, or with other rights.
    if (!mqtt_may(s, ACL_READ, out->topic, out->topic_len)) return MQTT_SEND_DENIED;
    if (out->expires_ns != 0 && out->expires_ns <= s->owner->now_ns) return MQTT_SEND_EXPIRED;
    u8 room[OWN_BYTES];
    u64 need = (u64)out->id_count * ID_BYTES_MAX + OWN_FIXED_BYTES;
    if (need <= sizeof(room)) return send_with(s, out, m, room);
    u32 size;
    u8 *own = need > UINT32_MAX ? NULL : worker_buf_alloc(s->owner, (u32)need, &size);
    if (own == NULL) return CLOSE_NO_MEMORY;
    int result = send_with(s, out, m, own);
    worker_buf_free(s->owner, own, size);
    return result;
}
