// SPDX-License-Identifier: Apache-2.0
// mqtt_parse_publish.c: PUBLISH (section 3.3 of all versions), the packet that counts: one pass
// over the topic, one over the properties when there are any, none over the payload.
#include "proto/mqtt_property.h"
#include "proto/mqtt_read.h"

void mqtt_read_publish(mqtt_reader *r, mqtt_packet *out) {
    mqtt_publish *publish = &out->publish;
    u8 qos = r->flags >> 1 & 3; // not 3: mqtt_head_check
    // Field by field: clearing the whole costs more than the rest of a small packet.
    publish->dup = (r->flags & 8) != 0 && qos > 0;
    publish->retain = (r->flags & 1) != 0;
    publish->qos = qos;
    publish->topic = mqtt_read_binary(r);
    bool empty = publish->topic.len == 0;
    if (!empty) mqtt_check_topic(r, publish->topic);
    publish->packet_id = qos > 0 ? mqtt_read_packet_id(r) : 0;
    publish->props = mqtt_read_properties(r, MQTT_PUBLISH);
    publish->topic_alias = (u16)mqtt_property_number(&publish->props, MQTT_TOPIC_ALIAS, 0);
    publish->more_props = (mqtt_properties){0};
    if (empty && publish->topic_alias == 0) mqtt_reader_fail(r, MQTT_FAULT_TOPIC_EMPTY);
    u32 left = cursor_left(&r->in);
    publish->payload = (mqtt_bytes){cursor_take(&r->in, left), left};
}
