// SPDX-License-Identifier: Apache-2.0
// mqtt_packet.h: what is in a packet, and the parser: bytes of one whole packet in, one
// mqtt_packet out. The same structures are the input of mqtt_write.h.
//
// A parsed packet holds pointers into the caller's buffer and is valid as long as that is. Lists
// stay as they came (properties, filters, reason codes): checked whole during the parse, then
// walked in order with a cursor. Nothing here can fail after a parse without a fault.
//
// Checked here is all that one packet shows by itself. What needs a session's state is the
// broker's or uplink's: alias known and within the maximum, quotas, packet identifiers in use,
// number of codes in a SUBACK, features switched off, payload against its format indicator.
#ifndef SLUICE_PROTO_MQTT_PACKET_H
#define SLUICE_PROTO_MQTT_PACKET_H

#include "base/cursor.h"
#include "proto/mqtt.h"

// Bytes in the caller's memory, not terminated. data NULL: absent; an empty field that is there has
// data set and len 0.
typedef struct mqtt_bytes {
    const u8 *data;
    u32 len;
} mqtt_bytes;

// Encoded properties without their length. All zero: none.
typedef struct mqtt_properties {
    const u8 *data;
    u32 len;
    u64 present; // bit of each mqtt_property_id that occurs
} mqtt_properties;

// The topic filters of SUBSCRIBE and UNSUBSCRIBE, encoded. Walked with mqtt_filter_next.
typedef struct mqtt_filters {
    const u8 *data;
    u32 len;
    u32 count;
    bool options; // an options byte behind each (SUBSCRIBE)
} mqtt_filters;

typedef struct mqtt_connect {
    u8 version;
    bool clean_start; // 3.x: clean session
    bool bridge;      // 3.x: bit 7 of the protocol level, by which Mosquitto marks its bridges; not in the standard
    bool has_will;
    bool will_retain;
    u8 will_qos;
    u16 keep_alive_s;
    mqtt_properties props;
    mqtt_bytes client_id;
    mqtt_properties will_props;
    mqtt_bytes will_topic, will_payload;
    mqtt_bytes user_name, password;
} mqtt_connect;

typedef struct mqtt_connack {
    bool session_present; // always false in 3.1
    u8 code;              // 5.0: mqtt_reason; 3.x: return code
    mqtt_properties props;
} mqtt_connack;

typedef struct mqtt_publish {
    bool dup, retain;
    u8 qos;
    u16 packet_id;   // 0 with QoS 0
    u16 topic_alias; // as parsed, 0 = none; writing takes it from the properties
    mqtt_bytes topic; // may be empty with an alias
    mqtt_properties props;
    mqtt_properties more_props; // written behind props: what differs among receivers
    mqtt_bytes payload;
} mqtt_publish;

typedef struct mqtt_ack { // PUBACK, PUBREC, PUBREL, PUBCOMP
    u16 packet_id;
    u8 reason; // 3.x: 0
    mqtt_properties props;
} mqtt_ack;

typedef struct mqtt_subscribe { // and UNSUBSCRIBE
    u16 packet_id;
    mqtt_properties props;
    mqtt_filters filters;
} mqtt_subscribe;

typedef struct mqtt_suback { // and UNSUBACK
    u16 packet_id;
    mqtt_properties props;
    mqtt_bytes codes; // one byte a filter, in order; none in an UNSUBACK of 3.x
} mqtt_suback;

typedef struct mqtt_goodbye { // DISCONNECT and AUTH: a reason and properties
    u8 reason;
    mqtt_properties props;
} mqtt_goodbye;

typedef struct mqtt_packet {
    u8 type;
    u8 version;
    u32 fault_property; // after a fault in a property: its identifier; else 0
    union { // by type; PINGREQ and PINGRESP have nothing
        mqtt_connect connect;
        mqtt_connack connack;
        mqtt_publish publish;
        mqtt_ack ack;
        mqtt_subscribe subscribe;
        mqtt_suback suback;
        mqtt_goodbye goodbye;
    };
} mqtt_packet;

#define MQTT_REFUSE_CONTROLS 1u // codec flag: control and non-characters in strings are a fault

// How the bytes of one direction of a connection are to be understood. The caller sets version
// when it has taken a CONNECT.
typedef struct mqtt_codec {
    u8 version; // MQTT_UNKNOWN until CONNECT; the client side always knows it
    u8 sender;  // who sends these bytes
    u16 flags;
    u32 packet_bytes_max; // whole packet, fixed header included; at most MQTT_PACKET_BYTES_MAX
} mqtt_codec;

// How long is the packet that starts at head? *packet_bytes is 0 while len bytes do not tell, else
// its whole size. A fault is found as early as the bytes show it: a type, flags or direction that
// can not be are refused at the first byte, a packet over the maximum before its body is read.
mqtt_fault mqtt_packet_size(const mqtt_codec *codec, const u8 *head, u32 len, u32 *packet_bytes);

// Parses one whole packet of len bytes, as cut by mqtt_packet_size. After a fault only type,
// version and fault_property are set: version is the one an answer is to be written in,
// MQTT_UNKNOWN when a CONNECT did not get as far as telling it. Any thread; data must stay while
// *out is used.
mqtt_fault mqtt_parse(const mqtt_codec *codec, const u8 *data, u32 len, mqtt_packet *out);

// --- filters ---

typedef struct mqtt_filter {
    mqtt_bytes text;   // as it came
    mqtt_bytes share;  // name of the shared subscription; data NULL = not shared
    mqtt_bytes filter; // text without "$share/name/"
    u8 qos;
    bool no_local, retain_as_published;
    u8 retain_handling;
    bool too_deep; // more than LIMIT_TOPIC_LEVELS levels: to be answered 0x8F, in 3.x 0x80
} mqtt_filter;

static inline cursor mqtt_filters_begin(const mqtt_filters *filters) {
    return cursor_of(filters->data, filters->len);
}
// False at the end. The options are zero in UNSUBSCRIBE.
bool mqtt_filter_next(const mqtt_filters *filters, cursor *at, mqtt_filter *out);

#endif
