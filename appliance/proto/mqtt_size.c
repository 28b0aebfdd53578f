// SPDX-License-Identifier: Apache-2.0
// mqtt_size.c: the fixed header (5.0 section 2.1): what the first byte shows, and how long the
// packet is. First in the path: net/inflow.c cuts packets by mqtt_packet_size, mqtt_parse.c takes
// them.
//
// Everything that can be refused before a body is collected is refused here, so that memory is
// only spent on packets that may be valid.
#include "proto/mqtt_read.h"

#define FLAGS_ANY 0xffu // PUBLISH: checked by itself
#define CLIENT MQTT_BIT(MQTT_FROM_CLIENT)
#define SERVER MQTT_BIT(MQTT_FROM_SERVER)

typedef struct head_rule {
    u8 senders; // 0: reserved type
    u8 flags;   // required (5.0 section 2.1.3)
} head_rule;

static const head_rule rules[16] = {
    [MQTT_CONNECT] = {CLIENT, 0},
    [MQTT_CONNACK] = {SERVER, 0},
    [MQTT_PUBLISH] = {CLIENT | SERVER, FLAGS_ANY},
    [MQTT_PUBACK] = {CLIENT | SERVER, 0},
    [MQTT_PUBREC] = {CLIENT | SERVER, 0},
    [MQTT_PUBREL] = {CLIENT | SERVER, 2},
    [MQTT_PUBCOMP] = {CLIENT | SERVER, 0},
    [MQTT_SUBSCRIBE] = {CLIENT, 2},
    [MQTT_SUBACK] = {SERVER, 0},
    [MQTT_UNSUBSCRIBE] = {CLIENT, 2},
    [MQTT_UNSUBACK] = {SERVER, 0},
    [MQTT_PINGREQ] = {CLIENT, 0},
    [MQTT_PINGRESP] = {SERVER, 0},
    [MQTT_DISCONNECT] = {CLIENT | SERVER, 0},
    [MQTT_AUTH] = {CLIENT | SERVER, 0},
};

static mqtt_fault publish_flags_check(u8 version, u8 flags) {
    u8 qos = flags >> 1 & 3;
    if (qos == 3) return MQTT_FAULT_PUBLISH_QOS;
    // 3.1 says nothing about DUP with QoS 0; there the flag is ignored.
    if ((flags & 8) != 0 && qos == 0 && version != MQTT_3_1) return MQTT_FAULT_PUBLISH_DUP;
    return MQTT_FAULT_NONE;
}

mqtt_fault mqtt_head_check(const mqtt_codec *codec, u8 first) {
    u8 type = first >> 4, flags = first & 15;
    const head_rule *rule = &rules[type];
    bool before_5 = codec->version == MQTT_3_1 || codec->version == MQTT_3_1_1;
    if (rule->senders == 0 || (before_5 && type == MQTT_AUTH)) return MQTT_FAULT_TYPE_RESERVED;
    u8 senders = rule->senders;
    if (before_5 && type == MQTT_DISCONNECT) senders = CLIENT; // 3.1.1 section 3.14
    if ((senders & MQTT_BIT(codec->sender)) == 0) return MQTT_FAULT_DIRECTION;
    bool connected = codec->version != MQTT_UNKNOWN;
    if (type == MQTT_CONNECT && connected) return MQTT_FAULT_SECOND_CONNECT;
    if (type != MQTT_CONNECT && !connected) return MQTT_FAULT_NOT_CONNECT;
    if (rule->flags == FLAGS_ANY) return publish_flags_check(codec->version, flags);
    // 3.1 sets DUP on a PUBREL, SUBSCRIBE or UNSUBSCRIBE that is sent again.
    if (codec->version == MQTT_3_1 && rule->flags == 2) flags &= 7;
    return flags == rule->flags ? MQTT_FAULT_NONE : MQTT_FAULT_FLAGS_RESERVED;
}

mqtt_fault mqtt_varint_read(cursor *in, u32 *value) {
    *value = 0;
    for (u32 shift = 0; shift < 28; shift += 7) {
        u8 byte = cursor_u8(in);
        if (in->overrun) return MQTT_FAULT_TRUNCATED;
        *value |= (u32)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return byte == 0 && shift > 0 ? MQTT_FAULT_VARINT_NOT_MINIMAL : MQTT_FAULT_NONE;
        }
    }
    return MQTT_FAULT_VARINT;
}

mqtt_fault mqtt_packet_size(const mqtt_codec *codec, const u8 *head, u32 len, u32 *packet_bytes) {
    ASSERT(codec->version != MQTT_UNKNOWN || codec->sender == MQTT_FROM_CLIENT);
    *packet_bytes = 0;
    cursor in = cursor_of(head, MIN(len, MQTT_HEAD_BYTES_MAX));
    u8 first = cursor_u8(&in);
    if (in.overrun) return MQTT_FAULT_NONE;
    mqtt_fault fault = mqtt_head_check(codec, first);
    if (fault != MQTT_FAULT_NONE) return fault;
    u32 remaining;
    fault = mqtt_varint_read(&in, &remaining);
    if (fault == MQTT_FAULT_TRUNCATED) return MQTT_FAULT_NONE; // its rest has not come yet
    if (fault == MQTT_FAULT_VARINT) return fault;
    if (fault == MQTT_FAULT_VARINT_NOT_MINIMAL && codec->version == MQTT_5) return fault;
    u32 size = (u32)(in.at - head) + remaining;
    if (size > codec->packet_bytes_max) return MQTT_FAULT_TOO_LARGE;
    *packet_bytes = size;
    return MQTT_FAULT_NONE;
}
