// SPDX-License-Identifier: Apache-2.0
// mqtt_out.h: the bounded output of the writers. Private to proto/mqtt_*write*.c.
//
// Without memory an output only counts. Each writer runs its body once to count and once to write,
// so that a size and the bytes can not disagree. The first error stays and nothing is stored after
// it.
#ifndef SLUICE_PROTO_MQTT_OUT_H
#define SLUICE_PROTO_MQTT_OUT_H

#include <errno.h>
#include <string.h>

#include "proto/mqtt_packet.h"

typedef struct mqtt_out {
    u8 *data; // NULL: count only
    u64 capacity;
    u64 used;
    int error;
} mqtt_out;

// Room for len bytes; NULL when only counting or after an error.
static inline u8 *mqtt_out_room(mqtt_out *out, u32 len) {
    u64 at = out->used;
    if (out->error != 0) return NULL;
    if (out->data == NULL) {
        out->used += len;
        return NULL;
    }
    if (out->capacity - at < len) {
        out->error = -ENOSPC;
        return NULL;
    }
    out->used += len;
    return out->data + at;
}

static inline void mqtt_out_u8(mqtt_out *out, u8 value) {
    u8 *to = mqtt_out_room(out, 1);
    if (to != NULL) to[0] = value;
}

static inline void mqtt_out_u16(mqtt_out *out, u16 value) {
    u8 *to = mqtt_out_room(out, 2);
    if (to == NULL) return;
    to[0] = (u8)(value >> 8);
    to[1] = (u8)value;
}

static inline void mqtt_out_u32(mqtt_out *out, u32 value) {
    mqtt_out_u16(out, (u16)(value >> 16));
    mqtt_out_u16(out, (u16)value);
}

static inline u32 mqtt_varint_bytes(u32 value) {
    return value < 1u << 7 ? 1 : value < 1u << 14 ? 2 : value < 1u << 21 ? 3 : 4;
}

static inline void mqtt_out_raw(mqtt_out *out, const u8 *data, u32 len) {
    u8 *to = mqtt_out_room(out, len);
    if (to != NULL && len > 0) memcpy(to, data, len);
}

// At most four bytes; -EMSGSIZE over MQTT_VARINT_MAX.
void mqtt_out_varint(mqtt_out *out, u64 value);
// Two bytes of length and the bytes; -EINVAL over MQTT_STRING_BYTES_MAX.
void mqtt_out_bytes(mqtt_out *out, mqtt_bytes bytes);
// Length and properties; nothing in 3.x.
void mqtt_out_properties(mqtt_out *out, mqtt_version version, const mqtt_properties *props);

// The body of a packet, run twice.
typedef void mqtt_body(mqtt_out *out, mqtt_version version, mqtt_type type, const void *packet);
// Fixed header and body; payload_len more bytes are counted in the remaining length and not
// written.
int mqtt_out_packet(mqtt_version version, mqtt_type type, u8 flags, mqtt_body *body,
                    const void *packet, u32 payload_len, u8 *buf, u32 capacity);

#endif
