// SPDX-License-Identifier: Apache-2.0
// mqtt_write_connect.c: CONNECT (the uplink's first packet) and CONNACK (the broker's), sections
// 3.1 and 3.2 of all versions.
#include "proto/mqtt_out.h"
#include "proto/mqtt_write.h"

static u8 connect_flags(const mqtt_connect *connect) {
    u32 flags = connect->clean_start ? 0x02u : 0;
    if (connect->has_will) {
        flags |= 0x04u | (u32)connect->will_qos << 3 | (connect->will_retain ? 0x20u : 0);
    }
    if (connect->password.data != NULL) flags |= 0x40;
    if (connect->user_name.data != NULL) flags |= 0x80;
    return (u8)flags;
}

static void connect_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet) {
    (void)type;
    const mqtt_connect *connect = packet;
    const char *name = version == MQTT_3_1 ? "MQIsdp" : "MQTT";
    mqtt_out_bytes(out, (mqtt_bytes){(const u8 *)name, (u32)strlen(name)});
    mqtt_out_u8(out, (u8)(version | (connect->bridge ? 0x80 : 0)));
    mqtt_out_u8(out, connect_flags(connect));
    mqtt_out_u16(out, connect->keep_alive_s);
    mqtt_out_properties(out, version, &connect->props);
    mqtt_out_bytes(out, connect->client_id);
    if (connect->has_will) {
        mqtt_out_properties(out, version, &connect->will_props);
        mqtt_out_bytes(out, connect->will_topic);
        mqtt_out_bytes(out, connect->will_payload);
    }
    if (connect->user_name.data != NULL) mqtt_out_bytes(out, connect->user_name);
    if (connect->password.data != NULL) mqtt_out_bytes(out, connect->password);
}

int mqtt_write_connect(const mqtt_connect *connect, u8 *buf, u32 capacity) {
    mqtt_version version = connect->version;
    if (version < MQTT_3_1 || version > MQTT_5) return -EINVAL;
    if (connect->has_will && connect->will_qos > 2) return -EINVAL;
    bool password_alone = connect->password.data != NULL && connect->user_name.data == NULL;
    if (password_alone && version != MQTT_5) return -EINVAL;
    if (connect->bridge && version == MQTT_5) return -EINVAL;
    return mqtt_out_packet(version, MQTT_CONNECT, 0, connect_body, connect, 0, buf, capacity);
}

static void connack_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet) {
    (void)type;
    const mqtt_connack *connack = packet;
    mqtt_out_u8(out, connack->session_present && version != MQTT_3_1);
    mqtt_out_u8(out, connack->code);
    mqtt_out_properties(out, version, &connack->props);
}

int mqtt_write_connack(mqtt_version version, const mqtt_connack *connack, u8 *buf, u32 capacity) {
    if (version != MQTT_5 && connack->code >= MQTT_CONNACK_CODES) return -EINVAL;
    return mqtt_out_packet(version, MQTT_CONNACK, 0, connack_body, connack, 0, buf, capacity);
}
