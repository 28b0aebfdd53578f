// SPDX-License-Identifier: Apache-2.0
// mqtt_net_read.c: bytes of the broker into packets, and packets into the role's calls. A packet
// that lies whole in the receive buffer is read there; only a part is copied, into rx, and completed
// from the next bytes.
//
// A role's call may close the connection: after each, c->state is looked at before anything else.
#include "bench/mqtt_net_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_property.h"

bool mq_publish_read(const u8 *packet, u32 len, bool has_properties, mq_message *out) {
    u32 at = 2;
    while (at < len && at < 5 && (packet[at - 1] & 0x80) != 0) at++;
    u8 qos = packet[0] >> 1 & 3;
    if (qos == 3 || len - at < 2) return false;
    at += 2u + ((u32)packet[at] << 8 | packet[at + 1]);
    u16 id = 0;
    if (qos > 0) {
        if (at > len || len - at < 2) return false;
        id = (u16)(packet[at] << 8 | packet[at + 1]);
        if (id == 0) return false;
        at += 2;
    }
    if (has_properties) {
        if (at >= len || packet[at] > 0x7f) return false;
        at += 1u + packet[at];
    }
    if (at > len) return false;
    *out = (mq_message){.payload = packet + at, .payload_len = len - at, .packet_id = id,
                        .qos = qos, .dup = (packet[0] & 8) != 0, .retain = (packet[0] & 1) != 0};
    return true;
}

static void refusal_note(mq_client *c, const char *packet, u32 code, bool v5) {
    static const char *const connack3[] = {"accepted", "bad_version", "bad_client_id",
                                           "unavailable", "bad_credentials", "not_authorized"};
    const char *word = v5                           ? mqtt_reason_name(code)
                       : strcmp(packet, "CONNACK") ? "failure"
                       : code < ARRAY_LEN(connack3) ? connack3[code]
                                                    : "unknown";
    if (c->net->first_refusal[0] != 0) return;
    snprintf(c->net->first_refusal, sizeof(c->net->first_refusal), "%s %s (0x%02x)", packet, word,
             code);
}

static void connack_take(mq_client *c, const mqtt_packet *p, u64 now_ns) {
    if (c->state != MQ_OPENING) {
        mq_client_fail(c, BENCH_ERROR_MALFORMED, now_ns);
        return;
    }
    if (p->connack.code != 0) {
        refusal_note(c, "CONNACK", p->connack.code, p->version == MQTT_5);
        mq_client_fail(c, BENCH_ERROR_REFUSED, now_ns);
        return;
    }
    if (mqtt_property_present(&p->connack.props, MQTT_RECEIVE_MAX)) {
        c->receive_max = (u16)mqtt_property_number(&p->connack.props, MQTT_RECEIVE_MAX, 65535);
    }
    c->state = MQ_READY;
    if (c->role->ready != NULL) c->role->ready(c, now_ns);
}

static void suback_take(mq_client *c, const mqtt_packet *p, u64 now_ns) {
    u32 code = p->suback.codes.len > 0 ? p->suback.codes.data[0] : 0x80;
    if (!c->sub_pending || code >= 0x80) {
        refusal_note(c, "SUBACK", code, p->version == MQTT_5);
        mq_client_fail(c, BENCH_ERROR_REFUSED, now_ns);
        return;
    }
    c->sub_pending = false;
    if (c->role->subscribed != NULL) c->role->subscribed(c, now_ns);
}

static void message_take(mq_client *c, const mq_message *m, u64 now_ns) {
    if (c->role->message == NULL || c->state != MQ_READY) {
        mq_client_fail(c, BENCH_ERROR_UNEXPECTED_FRAME, now_ns);
        return;
    }
    c->role->message(c, m, now_ns);
}

static void parsed_take(mq_client *c, const mqtt_packet *p, const u8 *data, u64 now_ns) {
    switch (p->type) {
    case MQTT_CONNACK: connack_take(c, p, now_ns); return;
    case MQTT_SUBACK: suback_take(c, p, now_ns); return;
    case MQTT_PUBLISH: {
        mq_message m = {.payload = p->publish.payload.data,
                        .payload_len = p->publish.payload.len,
                        .packet_id = p->publish.packet_id,
                        .qos = p->publish.qos,
                        .dup = p->publish.dup,
                        .retain = (data[0] & 1) != 0};
        message_take(c, &m, now_ns);
        return;
    }
    case MQTT_PUBREL:
        mq_client_ack(c, MQTT_PUBCOMP, p->ack.packet_id);
        if (c->role->ack != NULL) c->role->ack(c, p->type, &p->ack, now_ns);
        return;
    case MQTT_PUBACK:
    case MQTT_PUBREC:
    case MQTT_PUBCOMP:
        if (c->role->ack != NULL) c->role->ack(c, p->type, &p->ack, now_ns);
        return;
    case MQTT_PINGRESP:
        if (c->role->pong != NULL) c->role->pong(c, now_ns);
        return;
    case MQTT_DISCONNECT:
        refusal_note(c, "DISCONNECT", p->goodbye.reason, true);
        mq_client_fail(c, BENCH_ERROR_CLOSED_BY_SERVER, now_ns);
        return;
    default: return; // UNSUBACK, AUTH: nothing here asks for one
    }
}

static void packet_take(mq_client *c, const u8 *data, u32 len, u64 now_ns) {
    mq_message m;
    if (data[0] >> 4 == MQTT_PUBLISH &&
        mq_publish_read(data, len, c->net->codec.version == MQTT_5, &m)) {
        message_take(c, &m, now_ns);
        return;
    }
    mqtt_packet packet;
    mqtt_fault fault = mqtt_parse(&c->net->codec, data, len, &packet);
    if (fault != MQTT_FAULT_NONE) {
        if (c->net->first_refusal[0] == 0) {
            snprintf(c->net->first_refusal, sizeof(c->net->first_refusal), "malformed %s: %s",
                     mqtt_type_name(data[0] >> 4), mqtt_fault_name(fault));
        }
        mq_client_fail(c, BENCH_ERROR_MALFORMED, now_ns);
        return;
    }
    parsed_take(c, &packet, data, now_ns);
}

// Bytes of the packet at data; 0 while they do not tell. UINT32_MAX after a fault (the connection
// has ended then).
static u32 packet_bytes_of(mq_client *c, const u8 *data, u32 len, u64 now_ns) {
    if (LIKELY(len >= 2 && data[0] >> 4 == MQTT_PUBLISH && data[1] < 0x80)) return 2u + data[1];
    u32 bytes;
    if (mqtt_packet_size(&c->net->codec, data, len, &bytes) == MQTT_FAULT_NONE) return bytes;
    mq_client_fail(c, BENCH_ERROR_MALFORMED, now_ns);
    return UINT32_MAX;
}

static bool rx_append(mq_client *c, const u8 *bytes, u32 len, u64 now_ns) {
    mq_buf *b = &c->rx;
    if (b->capacity - b->used < len) {
        u32 capacity = MAX(b->capacity, 256u);
        while (capacity < b->used + len) capacity *= 2;
        u8 *data = realloc(b->data, capacity);
        if (data == NULL) {
            mq_client_fail(c, BENCH_ERROR_NO_MEMORY, now_ns);
            return false;
        }
        b->data = data;
        b->capacity = capacity;
    }
    memcpy(b->data + b->used, bytes, len);
    b->used += len;
    return true;
}

static bool has_ended(const mq_client *c) {
    return c->state == MQ_ENDED || c->state == MQ_CLOSED;
}

// Completes the packet in rx. Returns the bytes used.
static u32 rx_complete(mq_client *c, const u8 *bytes, u32 len, u64 now_ns) {
    u32 used = 0;
    while (used < len) {
        u32 size = packet_bytes_of(c, c->rx.data, c->rx.used, now_ns);
        if (size == UINT32_MAX) return len;
        u32 want = size == 0 ? 1 : MIN(size - c->rx.used, len - used);
        if (!rx_append(c, bytes + used, want, now_ns)) return len;
        used += want;
        size = packet_bytes_of(c, c->rx.data, c->rx.used, now_ns);
        if (size == UINT32_MAX) return len;
        if (size == 0 || c->rx.used < size) continue;
        c->rx.used = 0;
        packet_take(c, c->rx.data, size, now_ns);
        return used;
    }
    return used;
}

void mq_client_read(mq_client *c, const u8 *bytes, u32 len, u64 now_ns) {
    if (c->rx.used > 0) {
        u32 used = rx_complete(c, bytes, len, now_ns);
        bytes += used;
        len -= used;
    }
    while (len > 0 && !has_ended(c)) {
        u32 size = packet_bytes_of(c, bytes, len, now_ns);
        if (size == UINT32_MAX) return;
        if (size == 0 || size > len) {
            (void)rx_append(c, bytes, len, now_ns);
            return;
        }
        packet_take(c, bytes, size, now_ns);
        bytes += size;
        len -= size;
    }
}
