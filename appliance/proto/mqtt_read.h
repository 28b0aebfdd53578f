// SPDX-License-Identifier: Apache-2.0
// mqtt_read.h: what the parsers of the packet families share: a cursor with the first fault, and
// readers for the data types of 5.0 section 1.5. Private to proto/mqtt_*.c.
//
// The first fault stays. A value judged after the packet has run out is a zero that nobody sent,
// so the fault is then TRUNCATED whatever the judge says. Parsers therefore read on without a test
// after each field; only loops look at the fault.
#ifndef SLUICE_PROTO_MQTT_READ_H
#define SLUICE_PROTO_MQTT_READ_H

#include "proto/mqtt_packet.h"

typedef struct mqtt_reader {
    cursor in;
    const mqtt_codec *codec;
    u8 version;
    u8 flags;                 // low four bits of the fixed header
    bool length_not_minimal;  // of the remaining length; a fault once the version is 5.0
    mqtt_fault fault;
    u32 fault_property;
} mqtt_reader;

static inline void mqtt_reader_fail(mqtt_reader *r, mqtt_fault fault) {
    if (r->fault == MQTT_FAULT_NONE) r->fault = r->in.overrun ? MQTT_FAULT_TRUNCATED : fault;
}

// NONE, VARINT_NOT_MINIMAL (with the value), VARINT, or TRUNCATED.
mqtt_fault mqtt_varint_read(cursor *in, u32 *value);

// What the first byte shows: reserved type or flags, direction, place in the connection.
mqtt_fault mqtt_head_check(const mqtt_codec *codec, u8 first);

u32 mqtt_read_varint(mqtt_reader *r);
mqtt_bytes mqtt_read_binary(mqtt_reader *r);
mqtt_bytes mqtt_read_string(mqtt_reader *r);
u16 mqtt_read_packet_id(mqtt_reader *r);
// A string that is well-formed UTF-8 already known to be there: the checks alone.
void mqtt_check_string(mqtt_reader *r, mqtt_bytes text);
// A topic name that is not empty: UTF-8, no wildcard, levels.
void mqtt_check_topic(mqtt_reader *r, mqtt_bytes topic);
// Property length and properties of a packet type (or MQTT_WILL). Empty after a fault, and in 3.x,
// where nothing is read.
mqtt_properties mqtt_read_properties(mqtt_reader *r, u32 place);

// The families. Each sets all of its part of *out.
void mqtt_read_connect(mqtt_reader *r, mqtt_packet *out);
void mqtt_read_connack(mqtt_reader *r, mqtt_packet *out);
void mqtt_read_publish(mqtt_reader *r, mqtt_packet *out);
void mqtt_read_ack(mqtt_reader *r, mqtt_packet *out);
void mqtt_read_subscribe(mqtt_reader *r, mqtt_packet *out);
void mqtt_read_suback(mqtt_reader *r, mqtt_packet *out);
void mqtt_read_goodbye(mqtt_reader *r, mqtt_packet *out);

#endif
