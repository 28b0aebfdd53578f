// SPDX-License-Identifier: Apache-2.0
// mqtt_write.h: packets into bytes. The structures are those of mqtt_packet.h, so that what was
// parsed can be written again, in the same or in another version.
//
// All writers: capacity bytes at buf; returned is the packet's size, or
//   -ENOSPC   it does not fit; nothing was written
//   -EINVAL   a string or binary over 65,535 bytes, or something this version can not say
//   -EMSGSIZE the remaining length would exceed MQTT_REMAINING_LENGTH_MAX
// With buf NULL nothing is written and the size is returned, whatever the capacity.
//
// In 3.x properties are left out and reason codes of acknowledgements, UNSUBACK and DISCONNECT
// too; codes of CONNACK and SUBACK are written as given (mqtt_connack_code_of_reason,
// MQTT_SUBACK_FAILURE). That a packet makes sense (packet identifier, allowed reason, placed
// properties, valid topics) is the caller's duty: the writers do not judge it. Strings are not
// checked again.
//
// Pure functions, any thread. buf may not overlap what the packet points to.
#ifndef SLUICE_PROTO_MQTT_WRITE_H
#define SLUICE_PROTO_MQTT_WRITE_H

#include "proto/mqtt_packet.h"

// The version is the packet's own.
int mqtt_write_connect(const mqtt_connect *connect, u8 *buf, u32 capacity);
int mqtt_write_connack(mqtt_version version, const mqtt_connack *connack, u8 *buf, u32 capacity);

// The whole packet: props, then more_props, in one list. topic_alias is not looked at: an alias is
// written as a property. dup counts only with QoS 1 and 2, packet_id too.
int mqtt_write_publish(mqtt_version version, const mqtt_publish *publish, u8 *buf, u32 capacity);
// All in front of the payload, with the payload counted in the remaining length: the caller sends
// publish->payload.len bytes behind it, which need not be in memory now. Returns the bytes written.
int mqtt_write_publish_head(mqtt_version version, const mqtt_publish *publish, u8 *buf,
                            u32 capacity);

// type: MQTT_PUBACK, MQTT_PUBREC, MQTT_PUBREL or MQTT_PUBCOMP. A reason of 0 without properties
// takes the short form of four bytes.
#define MQTT_ACK_SHORT_BYTES 4
int mqtt_write_ack(mqtt_version version, mqtt_type type, const mqtt_ack *ack, u8 *buf,
                   u32 capacity);

// type: MQTT_SUBSCRIBE or MQTT_UNSUBSCRIBE; filters.options must match it.
int mqtt_write_subscribe(mqtt_version version, mqtt_type type, const mqtt_subscribe *subscribe,
                         u8 *buf, u32 capacity);
// type: MQTT_SUBACK or MQTT_UNSUBACK.
int mqtt_write_suback(mqtt_version version, mqtt_type type, const mqtt_suback *suback,
                      u8 *buf, u32 capacity);

// type: MQTT_PINGREQ or MQTT_PINGRESP.
#define MQTT_PING_BYTES 2
int mqtt_write_ping(mqtt_type type, u8 *buf, u32 capacity);

// type: MQTT_DISCONNECT or, in 5.0 only, MQTT_AUTH.
int mqtt_write_goodbye(mqtt_version version, mqtt_type type, const mqtt_goodbye *goodbye,
                       u8 *buf, u32 capacity);

// Any of them, by packet->type and packet->version (connect.version for CONNECT).
int mqtt_write(const mqtt_packet *packet, u8 *buf, u32 capacity);

// Adds a filter (filter->text and, when list->options, its options) to a list that is being built
// at list->data, with room for capacity bytes in all. 0, -ENOSPC or -EINVAL; the list is then as
// before. The 5.0 options are left zero for a list that is sent in 3.x.
int mqtt_filter_put(mqtt_filters *list, u8 *data, u32 capacity, const mqtt_filter *filter);

#endif
