// SPDX-License-Identifier: Apache-2.0
// mqtt_write.c: all packets but PUBLISH and CONNECT: acknowledgements, SUBSCRIBE, SUBACK and their
// opposites, DISCONNECT, AUTH, pings.
//
// Optional parts are left out whenever the standard lets them: fewer bytes, and old clients know
// them.
#include "proto/mqtt_write.h"

#include "proto/mqtt_out.h"

// Fixed header flags of 5.0 section 2.1.3.
static u8 type_flags(mqtt_type type) {
    return type == MQTT_PUBREL || type == MQTT_SUBSCRIBE || type == MQTT_UNSUBSCRIBE ? 2 : 0;
}

static void ack_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet) {
    (void)type;
    const mqtt_ack *ack = packet;
    mqtt_out_u16(out, ack->packet_id);
    if (version != MQTT_5 || (ack->reason == 0 && ack->props.len == 0)) return;
    mqtt_out_u8(out, ack->reason);
    if (ack->props.len > 0) mqtt_out_properties(out, version, &ack->props);
}

int mqtt_write_ack(mqtt_version version, mqtt_type type, const mqtt_ack *ack, u8 *buf,
                   u32 capacity) {
    ASSERT(type >= MQTT_PUBACK && type <= MQTT_PUBCOMP);
    return mqtt_out_packet(version, type, type_flags(type), ack_body, ack, 0, buf, capacity);
}

static void subscribe_body(mqtt_out *out, mqtt_version version, mqtt_type type,
                           const void *packet) {
    (void)type;
    const mqtt_subscribe *subscribe = packet;
    mqtt_out_u16(out, subscribe->packet_id);
    mqtt_out_properties(out, version, &subscribe->props);
    mqtt_out_raw(out, subscribe->filters.data, subscribe->filters.len);
}

int mqtt_write_subscribe(mqtt_version version, mqtt_type type, const mqtt_subscribe *subscribe,
                         u8 *buf, u32 capacity) {
    ASSERT(type == MQTT_SUBSCRIBE || type == MQTT_UNSUBSCRIBE);
    ASSERT(subscribe->filters.options == (type == MQTT_SUBSCRIBE));
    return mqtt_out_packet(version, type, type_flags(type), subscribe_body, subscribe, 0, buf,
                           capacity);
}

int mqtt_filter_put(mqtt_filters *list, u8 *data, u32 capacity, const mqtt_filter *filter) {
    ASSERT(data != NULL);
    ASSERT(list->len == 0 || list->data == data);
    if (filter->qos > 2 || filter->retain_handling > 2) return -EINVAL;
    mqtt_out out = {.data = data, .capacity = capacity, .used = list->len};
    mqtt_out_bytes(&out, filter->text);
    if (list->options) {
        mqtt_out_u8(&out, (u8)(filter->qos | filter->no_local << 2 |
                               filter->retain_as_published << 3 | filter->retain_handling << 4));
    }
    if (out.error != 0) return out.error;
    list->data = data;
    list->len = (u32)out.used;
    list->count++;
    return 0;
}

static void suback_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet) {
    const mqtt_suback *suback = packet;
    mqtt_out_u16(out, suback->packet_id);
    mqtt_out_properties(out, version, &suback->props);
    if (type == MQTT_UNSUBACK && version != MQTT_5) return;
    mqtt_out_raw(out, suback->codes.data, suback->codes.len);
}

int mqtt_write_suback(mqtt_version version, mqtt_type type, const mqtt_suback *suback,
                      u8 *buf, u32 capacity) {
    ASSERT(type == MQTT_SUBACK || type == MQTT_UNSUBACK);
    return mqtt_out_packet(version, type, 0, suback_body, suback, 0, buf, capacity);
}

static void goodbye_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet) {
    const mqtt_goodbye *goodbye = packet;
    if (version != MQTT_5 || (goodbye->reason == 0 && goodbye->props.len == 0)) return;
    mqtt_out_u8(out, goodbye->reason);
    // An AUTH may not end here (5.0 section 3.15.2.1).
    if (type == MQTT_DISCONNECT && goodbye->props.len == 0) return;
    mqtt_out_properties(out, version, &goodbye->props);
}

int mqtt_write_goodbye(mqtt_version version, mqtt_type type, const mqtt_goodbye *goodbye,
                       u8 *buf, u32 capacity) {
    ASSERT(type == MQTT_DISCONNECT || type == MQTT_AUTH);
    if (type == MQTT_AUTH && version != MQTT_5) return -EINVAL;
    return mqtt_out_packet(version, type, 0, goodbye_body, goodbye, 0, buf, capacity);
}

int mqtt_write_ping(mqtt_type type, u8 *buf, u32 capacity) {
    ASSERT(type == MQTT_PINGREQ || type == MQTT_PINGRESP);
    return mqtt_out_packet(MQTT_UNKNOWN, type, 0, NULL, NULL, 0, buf, capacity);
}

int mqtt_write(const mqtt_packet *packet, u8 *buf, u32 capacity) {
    mqtt_type type = packet->type;
    mqtt_version version = packet->version;
    switch (type) {
        case MQTT_CONNECT: return mqtt_write_connect(&packet->connect, buf, capacity);
        case MQTT_CONNACK: return mqtt_write_connack(version, &packet->connack, buf, capacity);
        case MQTT_PUBLISH: return mqtt_write_publish(version, &packet->publish, buf, capacity);
        case MQTT_PUBACK:
        case MQTT_PUBREC:
        case MQTT_PUBREL:
        case MQTT_PUBCOMP: return mqtt_write_ack(version, type, &packet->ack, buf, capacity);
        case MQTT_SUBSCRIBE:
        case MQTT_UNSUBSCRIBE:
            return mqtt_write_subscribe(version, type, &packet->subscribe, buf, capacity);
        case MQTT_SUBACK:
        case MQTT_UNSUBACK: return mqtt_write_suback(version, type, &packet->suback, buf, capacity);
        case MQTT_PINGREQ:
        case MQTT_PINGRESP: return mqtt_write_ping(type, buf, capacity);
        case MQTT_DISCONNECT:
        case MQTT_AUTH: return mqtt_write_goodbye(version, type, &packet->goodbye, buf, capacity);
        default: return -EINVAL;
    }
}
