// SPDX-License-Identifier: Apache-2.0
// mqtt_parse_connect.c: CONNECT and CONNACK (5.0 sections 3.1 and 3.2, 3.1.1 the same, 3.1
// sections 3.1 and 3.2): the only packets whose version is in themselves, or whose codes differ by
// version.
//
// The version is told to the caller as soon as it is read, so that a CONNECT that fails behind it
// can be answered in its own language.
#include <string.h>

#include "proto/mqtt_property.h"
#include "proto/mqtt_read.h"

enum { // CONNECT flags (5.0 section 3.1.2.3)
    FLAG_RESERVED = 0x01,
    FLAG_CLEAN = 0x02,
    FLAG_WILL = 0x04,
    FLAG_WILL_QOS = 0x18,
    FLAG_WILL_RETAIN = 0x20,
    FLAG_PASSWORD = 0x40,
    FLAG_USER_NAME = 0x80,
};

#define LEVEL_BRIDGE 0x80u

static bool bytes_equal(mqtt_bytes bytes, const char *text) {
    return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

// Protocol name and level. The version is known behind here, or there is a fault.
static void read_protocol(mqtt_reader *r, mqtt_packet *out) {
    mqtt_bytes name = mqtt_read_binary(r);
    bool named_3_1_1 = bytes_equal(name, "MQTT"), named_3_1 = bytes_equal(name, "MQIsdp");
    if (!named_3_1 && !named_3_1_1) {
        mqtt_reader_fail(r, MQTT_FAULT_PROTOCOL_NAME);
        return;
    }
    u8 level = cursor_u8(&r->in);
    if (r->in.overrun) return;
    u8 plain = level & (u8)~LEVEL_BRIDGE;
    out->connect.bridge = plain != level && plain == (named_3_1 ? MQTT_3_1 : MQTT_3_1_1);
    if (out->connect.bridge) level = plain;
    bool known = named_3_1 ? level == MQTT_3_1 : level == MQTT_3_1_1 || level == MQTT_5;
    if (!known) {
        // A client newer than 5.0 understands the form of 5.0 (section 3.1.2.2).
        out->version = named_3_1_1 && level > MQTT_5 ? MQTT_5 : MQTT_3_1_1;
        mqtt_reader_fail(r, MQTT_FAULT_PROTOCOL_LEVEL);
        return;
    }
    out->version = r->version = level;
    if (level == MQTT_5 && r->length_not_minimal) {
        mqtt_reader_fail(r, MQTT_FAULT_VARINT_NOT_MINIMAL);
    }
}

static u8 read_flags(mqtt_reader *r, mqtt_connect *connect) {
    u8 flags = cursor_u8(&r->in);
    connect->clean_start = (flags & FLAG_CLEAN) != 0;
    connect->has_will = (flags & FLAG_WILL) != 0;
    connect->will_qos = (flags & FLAG_WILL_QOS) >> 3;
    connect->will_retain = (flags & FLAG_WILL_RETAIN) != 0;
    // 3.1 says of the bit that it is not used, not that it is zero.
    if ((flags & FLAG_RESERVED) != 0 && r->version != MQTT_3_1) {
        mqtt_reader_fail(r, MQTT_FAULT_CONNECT_FLAG);
    }
    if (!connect->has_will && (connect->will_qos != 0 || connect->will_retain)) {
        mqtt_reader_fail(r, MQTT_FAULT_WILL_FLAGS);
    }
    if (connect->will_qos == 3) mqtt_reader_fail(r, MQTT_FAULT_WILL_QOS);
    if (r->version != MQTT_5 && (flags & FLAG_PASSWORD) != 0 && (flags & FLAG_USER_NAME) == 0) {
        mqtt_reader_fail(r, MQTT_FAULT_PASSWORD_ALONE);
    }
    return flags;
}

static void check_client_id(mqtt_reader *r, const mqtt_connect *connect) {
    if (connect->client_id.len > 0 || r->version == MQTT_5) return;
    // 3.1.1 section 3.1.3.1; 3.1 section 3.1 has no assigned ids at all.
    if (r->version == MQTT_3_1 || !connect->clean_start) {
        mqtt_reader_fail(r, MQTT_FAULT_CLIENT_ID_EMPTY);
    }
}

static void read_will(mqtt_reader *r, mqtt_connect *connect) {
    connect->will_props = mqtt_read_properties(r, MQTT_WILL);
    connect->will_topic = mqtt_read_binary(r);
    mqtt_check_topic(r, connect->will_topic);
    connect->will_payload = mqtt_read_binary(r);
}

// A field whose flag is set. In 3.1 the remaining length goes before the flag: a packet that ends
// here has no such field.
static bool field_follows(const mqtt_reader *r, u8 flags, u8 flag) {
    return (flags & flag) != 0 && (r->version != MQTT_3_1 || cursor_left(&r->in) > 0);
}

void mqtt_read_connect(mqtt_reader *r, mqtt_packet *out) {
    mqtt_connect *connect = &out->connect;
    memset(connect, 0, sizeof(*connect));
    read_protocol(r, out);
    if (r->fault != MQTT_FAULT_NONE || r->in.overrun) return;
    connect->version = r->version;
    u8 flags = read_flags(r, connect);
    connect->keep_alive_s = cursor_u16(&r->in);
    connect->props = mqtt_read_properties(r, MQTT_CONNECT);
    connect->client_id = mqtt_read_string(r);
    check_client_id(r, connect);
    if (connect->has_will) read_will(r, connect);
    if (field_follows(r, flags, FLAG_USER_NAME)) connect->user_name = mqtt_read_string(r);
    if (field_follows(r, flags, FLAG_PASSWORD)) connect->password = mqtt_read_binary(r);
}

void mqtt_read_connack(mqtt_reader *r, mqtt_packet *out) {
    mqtt_connack *connack = &out->connack;
    memset(connack, 0, sizeof(*connack));
    u8 flags = cursor_u8(&r->in);
    connack->code = cursor_u8(&r->in);
    if (r->version != MQTT_3_1) { // in 3.1 the first byte is not used
        if ((flags & 0xfe) != 0) mqtt_reader_fail(r, MQTT_FAULT_CONNACK_FLAGS);
        connack->session_present = (flags & 1) != 0;
    }
    bool known = r->version == MQTT_5
                     ? mqtt_reason_allowed(connack->code, MQTT_CONNACK, MQTT_FROM_SERVER)
                     : connack->code < MQTT_CONNACK_CODES;
    if (!known) mqtt_reader_fail(r, MQTT_FAULT_REASON);
    if (connack->session_present && connack->code != 0) {
        mqtt_reader_fail(r, MQTT_FAULT_SESSION_PRESENT);
    }
    connack->props = mqtt_read_properties(r, MQTT_CONNACK);
}
