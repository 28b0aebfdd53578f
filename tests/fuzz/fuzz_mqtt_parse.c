// SPDX-License-Identifier: Apache-2.0
// fuzz_mqtt_parse.c: the MQTT codec with bytes of either side, in every version. The first input
// byte chooses version, sender and strictness, and whether the rest is a stream, to be cut into
// packets as a connection would, or one packet whose remaining length is put in (so that mutations
// get past it).
//
// Checked: size and parse agree; a fault has a name and a reason code; what parses is written in
// exactly the size announced, in no less, and parses to the same again; lists rebuilt piece by
// piece are the lists that came.
#include <stdlib.h>
#include <string.h>

#include "../unit/mqtt_same.h"
#include "proto/mqtt_packet.h"
#include "proto/mqtt_write.h"

#define BODY_BYTES_MAX (64u << 10)
#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static void check_fault(mqtt_fault fault) {
    CHECK(fault > MQTT_FAULT_NONE && fault < MQTT_FAULTS_COUNT);
    CHECK(mqtt_fault_reason(fault) >= 0x80);
    CHECK(strcmp(mqtt_reason_name(mqtt_fault_reason(fault)), "unknown") != 0);
}

static void check_again(const mqtt_codec *codec, const mqtt_packet *packet) {
    int size = mqtt_write(packet, NULL, 0);
    CHECK(size >= 2);
    u8 *bytes = malloc((size_t)size);
    CHECK(bytes != NULL);
    CHECK(mqtt_write(packet, bytes, (u32)size - 1) == -ENOSPC);
    CHECK(mqtt_write(packet, bytes, (u32)size) == size);
    u32 cut;
    CHECK(mqtt_packet_size(codec, bytes, (u32)size, &cut) == MQTT_FAULT_NONE && cut == (u32)size);
    mqtt_packet second;
    CHECK(mqtt_parse(codec, bytes, cut, &second) == MQTT_FAULT_NONE);
    CHECK(mqtt_same(packet, &second));
    if (packet->type == MQTT_PUBLISH) {
        u32 payload_len = packet->publish.payload.len;
        u8 *head = malloc((size_t)size);
        CHECK(head != NULL);
        int head_len = mqtt_write_publish_head(packet->version, &packet->publish, head, (u32)size);
        CHECK(head_len == size - (int)payload_len && memcmp(head, bytes, (size_t)head_len) == 0);
        free(head);
    }
    free(bytes);
}

// One whole packet in memory of exactly its size.
static mqtt_fault run_packet(const mqtt_codec *codec, const u8 *data, u32 len, u8 *version) {
    u8 *exact = malloc(len > 0 ? len : 1);
    CHECK(exact != NULL);
    if (len > 0) memcpy(exact, data, len);
    mqtt_packet packet;
    memset(&packet, 0xa5, sizeof(packet));
    u32 size;
    mqtt_fault sized = mqtt_packet_size(codec, exact, len, &size);
    mqtt_fault fault = mqtt_parse(codec, exact, len, &packet);
    CHECK(sized == MQTT_FAULT_NONE || sized == fault);
    CHECK(fault != MQTT_FAULT_NONE || size == len);
    if (fault == MQTT_FAULT_NONE) {
        check_again(codec, &packet);
    } else {
        check_fault(fault);
    }
    *version = packet.version;
    free(exact);
    return fault;
}

static void run_stream(mqtt_codec *codec, const u8 *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        u32 left = (u32)(size - at), packet_bytes, early;
        mqtt_fault fault = mqtt_packet_size(codec, data + at, left, &packet_bytes);
        // What the first byte alone shows is not taken back by more bytes.
        mqtt_fault first = mqtt_packet_size(codec, data + at, 1, &early);
        CHECK(early == 0 && (first == MQTT_FAULT_NONE || first == fault));
        if (fault != MQTT_FAULT_NONE || packet_bytes == 0 || packet_bytes > left) {
            u8 version;
            CHECK(run_packet(codec, data + at, left, &version) != MQTT_FAULT_NONE);
            return;
        }
        u8 version;
        fault = run_packet(codec, data + at, packet_bytes, &version);
        if (fault != MQTT_FAULT_NONE) return;
        codec->version = version;
        at += packet_bytes;
    }
}

static void run_framed(const mqtt_codec *codec, const u8 *data, size_t size) {
    static u8 packet[BODY_BYTES_MAX + MQTT_HEAD_BYTES_MAX];
    if (size == 0 || size - 1 > BODY_BYTES_MAX) return;
    u32 used = 0;
    packet[used++] = data[0];
    u32 body = (u32)size - 1;
    for (u32 left = body;; left >>= 7) {
        packet[used++] = (u8)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        if (left <= 0x7f) break;
    }
    memcpy(packet + used, data + 1, body);
    u8 version;
    run_packet(codec, packet, used + body, &version);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static const u8 versions[] = {MQTT_UNKNOWN, MQTT_3_1, MQTT_3_1_1, MQTT_5};
    if (size == 0) return 0;
    u8 setup = data[0];
    mqtt_codec codec = {
        .version = versions[setup & 3],
        .sender = setup & 4 ? MQTT_FROM_SERVER : MQTT_FROM_CLIENT,
        .flags = setup & 8 ? MQTT_REFUSE_CONTROLS : 0,
        .packet_bytes_max = setup & 16 ? 64 : MQTT_PACKET_BYTES_MAX,
    };
    if (codec.version == MQTT_UNKNOWN) codec.sender = MQTT_FROM_CLIENT; // clients know theirs
    if (setup & 32) {
        run_framed(&codec, data + 1, size - 1);
    } else {
        run_stream(&codec, data + 1, size - 1);
    }
    return 0;
}
