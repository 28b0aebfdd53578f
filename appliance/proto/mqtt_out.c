// SPDX-License-Identifier: Apache-2.0
// mqtt_out.c: encoding of the common data types (5.0 section 1.5) and the frame of every packet:
// count the body, check the bounds, write the fixed header, write the body.
//
// Nothing is written of a packet that does not fit.
#include "proto/mqtt_out.h"

void mqtt_out_varint(mqtt_out *out, u64 value) {
    if (value > MQTT_VARINT_MAX) {
        if (out->error == 0) out->error = -EMSGSIZE;
        return;
    }
    do {
        u8 low = value & 0x7f;
        value >>= 7;
        mqtt_out_u8(out, value > 0 ? low | 0x80 : low);
    } while (value > 0);
}

void mqtt_out_bytes(mqtt_out *out, mqtt_bytes bytes) {
    if (bytes.len > MQTT_STRING_BYTES_MAX) {
        if (out->error == 0) out->error = -EINVAL;
        return;
    }
    mqtt_out_u16(out, (u16)bytes.len);
    mqtt_out_raw(out, bytes.data, bytes.len);
}

void mqtt_out_properties(mqtt_out *out, mqtt_version version, const mqtt_properties *props) {
    if (version != MQTT_5) return;
    mqtt_out_varint(out, props->len);
    mqtt_out_raw(out, props->data, props->len);
}

int mqtt_out_packet(mqtt_version version, mqtt_type type, u8 flags, mqtt_body *body,
                    const void *packet, u32 payload_len, u8 *buf, u32 capacity) {
    mqtt_out count = {0};
    if (body != NULL) body(&count, version, type, packet);
    if (count.error != 0) return count.error;
    u64 remaining = count.used + payload_len;
    if (remaining > MQTT_REMAINING_LENGTH_MAX) return -EMSGSIZE;
    u64 size = 1 + mqtt_varint_bytes((u32)remaining) + count.used;
    if (buf == NULL) return (int)size;
    if (size > capacity) return -ENOSPC;
    mqtt_out out = {.data = buf, .capacity = capacity};
    mqtt_out_u8(&out, (u8)(type << 4 | flags));
    mqtt_out_varint(&out, remaining);
    if (body != NULL) body(&out, version, type, packet);
    ASSERT(out.error == 0 && out.used == size);
    return (int)size;
}
