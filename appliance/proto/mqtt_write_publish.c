// SPDX-License-Identifier: Apache-2.0
// mqtt_write_publish.c: PUBLISH (section 3.3 of all versions), whole, or without its payload so
// that one payload serves many receivers.
//
// Properties come in two lists: the message's own, the same for every receiver, and those of one
// delivery (subscription identifiers, topic alias, what is left of the expiry).
#include "proto/mqtt_out.h"
#include "proto/mqtt_write.h"

static void head_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet) {
    (void)type;
    const mqtt_publish *publish = packet;
    mqtt_out_bytes(out, publish->topic);
    if (publish->qos > 0) mqtt_out_u16(out, publish->packet_id);
    if (version != MQTT_5) return;
    mqtt_out_varint(out, (u64)publish->props.len + publish->more_props.len);
    mqtt_out_raw(out, publish->props.data, publish->props.len);
    mqtt_out_raw(out, publish->more_props.data, publish->more_props.len);
}

int mqtt_write_publish_head(mqtt_version version, const mqtt_publish *publish, u8 *buf,
                            u32 capacity) {
    if (publish->qos > 2) return -EINVAL;
    if (version != MQTT_5 && publish->topic.len == 0) return -EINVAL; // no alias stands for it
    u8 flags = (u8)((publish->dup && publish->qos > 0) << 3 | publish->qos << 1 | publish->retain);
    return mqtt_out_packet(version, MQTT_PUBLISH, flags, head_body, publish, publish->payload.len,
                           buf, capacity);
}

int mqtt_write_publish(mqtt_version version, const mqtt_publish *publish, u8 *buf, u32 capacity) {
    u32 payload_len = publish->payload.len;
    int head = mqtt_write_publish_head(version, publish, NULL, 0);
    if (head < 0) return head;
    if (buf == NULL) return head + (int)payload_len; // at most MQTT_PACKET_BYTES_MAX
    if ((u64)head + payload_len > capacity) return -ENOSPC;
    mqtt_out out = {.data = buf, .capacity = capacity};
    out.used = (u64)mqtt_write_publish_head(version, publish, buf, capacity);
    mqtt_out_raw(&out, publish->payload.data, payload_len);
    return (int)out.used;
}
