// SPDX-License-Identifier: Apache-2.0
// mqtt_property.h: the properties of 5.0: the table that says which may stand where, walking
// through a parsed list, looking one up, and building a list to be written.
#ifndef SLUICE_PROTO_MQTT_PROPERTY_H
#define SLUICE_PROTO_MQTT_PROPERTY_H

#include "proto/mqtt_packet.h"

typedef enum mqtt_property_type { // 5.0 section 1.5
    MQTT_PROPERTY_NONE,
    MQTT_PROPERTY_BYTE,
    MQTT_PROPERTY_U16,
    MQTT_PROPERTY_U32,
    MQTT_PROPERTY_VARINT,
    MQTT_PROPERTY_STRING,
    MQTT_PROPERTY_BINARY,
    MQTT_PROPERTY_PAIR,
} mqtt_property_type;

typedef enum mqtt_property_check {
    MQTT_CHECK_NONE,
    MQTT_CHECK_BOOL,     // 0 or 1
    MQTT_CHECK_NOT_ZERO,
    MQTT_CHECK_ALIAS,    // not 0, with a fault of its own
    MQTT_CHECK_TOPIC,    // a topic name
} mqtt_property_check;

typedef struct mqtt_property_rule {
    const char *name;
    u8 type;         // MQTT_PROPERTY_NONE: no such property
    u8 check;
    u16 places;      // packet types (MQTT_BIT) that may hold it; MQTT_WILL is the will of a CONNECT
    u16 client_only; // of these: only when a client sends the packet
    u16 server_only;
    u16 repeats;     // places where it may stand more than once
} mqtt_property_rule;

// The rule of an identifier, NULL when 5.0 has no such property.
const mqtt_property_rule *mqtt_property_rule_of(u32 id);

typedef struct mqtt_property {
    u8 id;
    u8 type;          // mqtt_property_type
    u32 number;       // BYTE, U16, U32, VARINT
    mqtt_bytes key;   // PAIR
    mqtt_bytes value; // STRING, BINARY, PAIR
} mqtt_property;

static inline cursor mqtt_properties_begin(const mqtt_properties *props) {
    return cursor_of(props->data, props->len);
}
// The next one of a list that was parsed or built, in order. False at the end.
bool mqtt_property_next(cursor *at, mqtt_property *out);

static inline bool mqtt_property_present(const mqtt_properties *props, mqtt_property_id id) {
    return (props->present >> id & 1) != 0;
}
// First occurrence; the fallback, or bytes with data NULL, when it is absent.
u32 mqtt_property_number(const mqtt_properties *props, mqtt_property_id id, u32 fallback);
mqtt_bytes mqtt_property_bytes(const mqtt_properties *props, mqtt_property_id id);

// Builds a list in the caller's memory. Each put is 0, -ENOSPC (no room) or -EINVAL (over 65,535
// bytes or out of the type's range); after an error the list is as before and may go on. That the
// id has the type is asserted; where it may stand is the caller's duty.
typedef struct mqtt_property_list {
    u8 *data;
    u32 capacity;
    u32 len;
    u64 present;
} mqtt_property_list;

int mqtt_property_put_number(mqtt_property_list *list, mqtt_property_id id, u32 number);
int mqtt_property_put_bytes(mqtt_property_list *list, mqtt_property_id id, mqtt_bytes value);
int mqtt_property_put_pair(mqtt_property_list *list, mqtt_bytes key, mqtt_bytes value);
// One that came out of mqtt_property_next.
int mqtt_property_put(mqtt_property_list *list, const mqtt_property *property);

static inline mqtt_properties mqtt_property_list_end(const mqtt_property_list *list) {
    return (mqtt_properties){list->data, list->len, list->present};
}

#endif
