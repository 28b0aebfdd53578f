// SPDX-License-Identifier: Apache-2.0
// mqtt_rows.h: tables of packets for the codec's tests. A row names the normative statements it
// shows, the version and sender, the fault expected, and the packet in a small notation:
//
//   1f 00c8     bytes in hexadecimal        'text'    the bytes of a text
//   s'text'     a string: two bytes of length, the text
//   ( ... )     a variable byte integer with the length of what is inside, then that
//   8c*300      a byte repeated
//
// Each row goes through mqtt_packet_size byte by byte and through mqtt_parse in a buffer of
// exactly its size, so that the address sanitizer sees a read beyond it. What is accepted is
// written again, must parse to the same, and every shorter form of it must be read without harm.
#ifndef SLUICE_TESTS_MQTT_ROWS_H
#define SLUICE_TESTS_MQTT_ROWS_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mqtt_same.h"
#include "proto/mqtt_packet.h"
#include "proto/mqtt_write.h"

#define ROW_BYTES_MAX 140000u

typedef struct mqtt_row {
    const char *ids;
    u8 version;
    u8 sender;
    mqtt_fault fault;
    const char *packet;
} mqtt_row;

#define C MQTT_FROM_CLIENT
#define S MQTT_FROM_SERVER

static inline u32 row_hex(const char **text, u8 *out) {
    u32 used = 0;
    while (isxdigit((u8)(*text)[0]) && isxdigit((u8)(*text)[1])) {
        char pair[3] = {(*text)[0], (*text)[1], 0};
        out[used++] = (u8)strtoul(pair, NULL, 16);
        *text += 2;
    }
    if (used > 0 && **text == '*') {
        char *end;
        u32 count = (u32)strtoul(*text + 1, &end, 10);
        *text = end;
        memset(out + used, out[used - 1], count - 1);
        used += count - 1;
    }
    return used;
}

// Translates up to the end or the closing bracket; returns the bytes written.
static inline u32 row_assemble(const char **text, u8 *out) {
    u32 used = 0;
    while (**text != 0 && **text != ')') {
        bool string = **text == 's';
        if (isspace((u8)**text)) {
            ++*text;
        } else if (string || **text == '\'') {
            *text += string ? 2 : 1;
            const char *end = strchr(*text, '\'');
            assert_non_null(end);
            u32 len = (u32)(end - *text);
            if (string) {
                out[used++] = (u8)(len >> 8);
                out[used++] = (u8)len;
            }
            memcpy(out + used, *text, len);
            used += len;
            *text = end + 1;
        } else if (**text == '(') {
            u8 *inner = malloc(ROW_BYTES_MAX);
            ++*text;
            u32 len = row_assemble(text, inner);
            assert_int_equal(**text, ')');
            ++*text;
            for (u32 left = len;; left >>= 7) {
                out[used++] = (u8)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
                if (left <= 0x7f) break;
            }
            memcpy(out + used, inner, len);
            used += len;
            free(inner);
        } else {
            u32 len = row_hex(text, out + used);
            assert_true(len > 0);
            used += len;
        }
    }
    return used;
}

static inline mqtt_codec row_codec(const mqtt_row *row) {
    mqtt_codec codec = {row->version, row->sender, 0, MQTT_PACKET_BYTES_MAX};
    return codec;
}

// What size and parse say together, in a buffer of exactly len bytes, which is returned.
static inline mqtt_fault row_read(const mqtt_codec *codec, const u8 *bytes, u32 len, u8 **exact,
                                  mqtt_packet *packet) {
    *exact = malloc(len > 0 ? len : 1);
    assert_non_null(*exact);
    memcpy(*exact, bytes, len);
    memset(packet, 0xa5, sizeof(*packet));
    mqtt_fault sized = MQTT_FAULT_NONE;
    u32 size = 0;
    for (u32 have = 0; have <= len && size == 0 && sized == MQTT_FAULT_NONE; have++) {
        sized = mqtt_packet_size(codec, *exact, have, &size);
    }
    mqtt_fault parsed = mqtt_parse(codec, *exact, len, packet);
    if (sized != MQTT_FAULT_NONE) assert_int_equal(sized, parsed);
    return parsed;
}

// A correct packet cut shorter, with the remaining length to match: any result, no harm.
static inline void row_cut(const mqtt_codec *codec, const u8 *bytes, u32 len) {
    if (len > 128) return; // one byte of remaining length
    u8 copy[128];
    memcpy(copy, bytes, len);
    for (u32 cut = 2; cut < len; cut++) {
        u8 *exact;
        mqtt_packet packet;
        copy[1] = (u8)(cut - 2);
        row_read(codec, copy, cut, &exact, &packet);
        free(exact);
    }
}

static inline void row_write_again(const mqtt_codec *codec, const mqtt_packet *packet) {
    int size = mqtt_write(packet, NULL, 0);
    assert_true(size >= 2);
    u8 *again = malloc((size_t)size);
    assert_non_null(again);
    assert_int_equal(mqtt_write(packet, again, (u32)size - 1), -ENOSPC);
    assert_int_equal(mqtt_write(packet, again, (u32)size), size);
    mqtt_packet second;
    u8 *exact;
    assert_int_equal(row_read(codec, again, (u32)size, &exact, &second), MQTT_FAULT_NONE);
    assert_true(mqtt_same(packet, &second));
    free(exact);
    free(again);
}

static inline void row_run(const mqtt_row *row) {
    u8 *bytes = malloc(ROW_BYTES_MAX);
    assert_non_null(bytes);
    const char *text = row->packet;
    u32 len = row_assemble(&text, bytes);
    assert_int_equal(*text, 0);
    mqtt_codec codec = row_codec(row);
    mqtt_packet packet;
    u8 *exact;
    mqtt_fault fault = row_read(&codec, bytes, len, &exact, &packet);
    if (fault != row->fault) {
        fail_msg("%s: version %u, %s: %s expected, %s found", row->ids, row->version, row->packet,
                 mqtt_fault_name(row->fault), mqtt_fault_name(fault));
    }
    if (fault == MQTT_FAULT_NONE) {
        row_write_again(&codec, &packet);
        row_cut(&codec, bytes, len);
    }
    free(exact);
    free(bytes);
}

#define ROWS_RUN(rows) \
    do { \
        for (size_t row_index = 0; row_index < ARRAY_LEN(rows); row_index++) { \
            row_run(&(rows)[row_index]); \
        } \
    } while (0)

// Parses one packet in the notation for a closer look; bytes must stay, at most 4 KiB.
static inline mqtt_packet row_parse(u8 version, u8 sender, const char *text, u8 bytes[4096]) {
    mqtt_row row = {"", version, sender, MQTT_FAULT_NONE, text};
    mqtt_codec codec = row_codec(&row);
    u32 len = row_assemble(&text, bytes);
    mqtt_packet packet;
    assert_int_equal(mqtt_parse(&codec, bytes, len, &packet), MQTT_FAULT_NONE);
    return packet;
}

static inline void assert_bytes(mqtt_bytes bytes, const char *text) {
    assert_int_equal(bytes.len, strlen(text));
    assert_non_null(bytes.data);
    assert_memory_equal(bytes.data, text, bytes.len);
}

#endif
