// SPDX-License-Identifier: Apache-2.0
// test_mqtt_packets.c: the fixed header, packet sizes, DISCONNECT, AUTH and pings against the
// normative statements of MQTT 5.0 and 3.1.1 (marked 3.1.1/...); and the bounded cursor beneath.
#include "mqtt_rows.h"

static void test_cursor(void **state) {
    (void)state;
    static const u8 data[] = {1, 2, 3, 4, 5, 6, 7, 8};
    cursor c = cursor_of(data, sizeof(data));
    assert_int_equal(cursor_u8(&c), 1);
    assert_int_equal(cursor_u16(&c), 0x0203);
    assert_int_equal(cursor_u32(&c), 0x04050607);
    assert_int_equal(cursor_left(&c), 1);
    assert_false(c.overrun);
    assert_int_equal(cursor_u16(&c), 0);
    assert_true(c.overrun);
    assert_int_equal(cursor_left(&c), 0);
    assert_null(cursor_take(&c, 0));
    assert_int_equal(cursor_u8(&c), 0);
    cursor empty = cursor_of(NULL, 0);
    assert_null(cursor_take(&empty, 0));
    assert_false(empty.overrun);
    assert_int_equal(cursor_u32(&empty), 0);
    assert_true(empty.overrun);
    c = cursor_of(data, sizeof(data));
    cursor part = cursor_part(&c, 3);
    assert_int_equal(cursor_left(&part), 3);
    assert_int_equal(cursor_left(&c), 5);
    assert_int_equal(cursor_u32(&part), 0);
    assert_true(part.overrun && !c.overrun);
    part = cursor_part(&c, 6);
    assert_true(part.overrun && c.overrun);
    assert_int_equal(cursor_left(&part), 0);
}

static void test_fixed_header(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"section 2.1.2: type 0", 5, C, MQTT_FAULT_TYPE_RESERVED, "00()"},
        {"section 2.1.2: type 0", 5, S, MQTT_FAULT_TYPE_RESERVED, "0f()"},
        {"section 2.1.2: type 0", 4, C, MQTT_FAULT_TYPE_RESERVED, "00()"},
        {"3.1.1 section 2.2.1: type 15", 4, C, MQTT_FAULT_TYPE_RESERVED, "f0()"},
        {"3.1: type 15", 3, S, MQTT_FAULT_TYPE_RESERVED, "f0()"},
        {"MQTT-2.1.3-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "41(0001)"},
        {"MQTT-2.1.3-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "52(0001)"},
        {"MQTT-2.1.3-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "74(0001)"},
        {"MQTT-2.1.3-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "c1()"},
        {"MQTT-2.1.3-1", 5, S, MQTT_FAULT_FLAGS_RESERVED, "d8()"},
        {"MQTT-2.1.3-1", 5, S, MQTT_FAULT_FLAGS_RESERVED, "21(0000())"},
        {"MQTT-2.1.3-1", 5, S, MQTT_FAULT_FLAGS_RESERVED, "92(0001()00)"},
        {"MQTT-2.1.3-1", 5, S, MQTT_FAULT_FLAGS_RESERVED, "b2(0001()00)"},
        {"MQTT-2.1.3-1", MQTT_UNKNOWN, C, MQTT_FAULT_FLAGS_RESERVED,
         "11(s'MQTT' 05 02 003c () s'a')"},
        {"3.1.1/MQTT-2.2.2-2", 4, C, MQTT_FAULT_FLAGS_RESERVED, "c1()"},
        {"3.1.1/MQTT-2.2.2-2", 4, S, MQTT_FAULT_FLAGS_RESERVED, "42(0001)"},
        {"3.1", 3, C, MQTT_FAULT_FLAGS_RESERVED, "c8()"},
        {"section 2.1.2: direction", 5, C, MQTT_FAULT_DIRECTION, "d0()"},
        {"section 2.1.2: direction", 5, S, MQTT_FAULT_DIRECTION, "c0()"},
        {"section 2.1.2: direction", 5, S, MQTT_FAULT_DIRECTION, "a2(0001 () s'a')"},
        {"section 2.1.2: direction", 5, C, MQTT_FAULT_DIRECTION, "b0(0001 () 00)"},
        {"section 2.1.2: direction", 5, S, MQTT_FAULT_DIRECTION, "10(s'MQTT' 05 02 003c () s'a')"},
        {"3.1.1 section 3.14: only a client says DISCONNECT", 4, S, MQTT_FAULT_DIRECTION, "e0()"},
        {"MQTT-3.12.4-1", 5, C, 0, "c0()"},
        {"MQTT-3.12.4-1", 4, C, 0, "c0()"},
        {"PINGREQ has nothing else", 5, C, MQTT_FAULT_TRAILING, "c0(00)"},
        {"PINGRESP", 5, S, 0, "d0()"},
        {"PINGRESP", 3, S, 0, "d0()"},
        {"PINGRESP has nothing else", 4, S, MQTT_FAULT_TRAILING, "d0(00)"},
        {"MQTT-1.5.5-1", 5, C, MQTT_FAULT_VARINT_NOT_MINIMAL, "c0 8000"},
        {"MQTT-1.5.5-1", 5, S, MQTT_FAULT_VARINT_NOT_MINIMAL, "d0 80808000"},
        {"not asked by 3.1.1", 4, C, 0, "c0 8000"},
        {"not asked by 3.1", 3, C, 0, "c0 80808000"},
        {"section 1.5.5: five bytes", 5, C, MQTT_FAULT_VARINT, "c0 8080808000"},
        {"section 1.5.5: five bytes", 4, C, MQTT_FAULT_VARINT, "c0 ffffffff01"},
        {"section 1.5.5: five bytes", MQTT_UNKNOWN, C, MQTT_FAULT_VARINT, "10 ffffffff"},
    };
    ROWS_RUN(rows);
}

static void size_check(const mqtt_codec *codec, const u8 *head, u32 len, mqtt_fault fault,
                       u32 size) {
    u32 found = 12345;
    assert_int_equal(mqtt_packet_size(codec, head, len, &found), fault);
    assert_int_equal(found, size);
}

static void test_sizes(void **state) {
    (void)state;
    mqtt_codec codec = {MQTT_5, MQTT_FROM_CLIENT, 0, MQTT_PACKET_BYTES_MAX};
    static const struct { u8 head[5]; u32 len, size; } rows[] = {
        {{0x30, 0}, 2, 2},
        {{0x30, 0x7f}, 2, 129},
        {{0x30, 0x80, 0x01}, 3, 3 + 128},
        {{0x30, 0xff, 0x7f}, 3, 3 + 16383},
        {{0x30, 0x80, 0x80, 0x01}, 4, 4 + 16384},
        {{0x30, 0xff, 0xff, 0x7f}, 4, 4 + 2097151},
        {{0x30, 0x80, 0x80, 0x80, 0x01}, 5, 5 + 2097152},
        {{0x30, 0xff, 0xff, 0xff, 0x7f}, 5, 5 + 268435455},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (u32 have = 0; have < rows[i].len; have++) {
            size_check(&codec, rows[i].head, have, MQTT_FAULT_NONE, 0);
        }
        size_check(&codec, rows[i].head, rows[i].len, MQTT_FAULT_NONE, rows[i].size);
        // MQTT-3.1.2-24: the maximum counts the whole packet.
        codec.packet_bytes_max = rows[i].size - 1;
        size_check(&codec, rows[i].head, rows[i].len, MQTT_FAULT_TOO_LARGE, 0);
        codec.packet_bytes_max = rows[i].size;
        size_check(&codec, rows[i].head, rows[i].len, MQTT_FAULT_NONE, rows[i].size);
        codec.packet_bytes_max = MQTT_PACKET_BYTES_MAX;
    }
    static const u8 publish[] = {0x30, 4, 0, 1, 't', 0};
    mqtt_packet packet;
    codec.packet_bytes_max = sizeof(publish) - 1;
    assert_int_equal(mqtt_parse(&codec, publish, sizeof(publish), &packet), MQTT_FAULT_TOO_LARGE);
    assert_int_equal(mqtt_fault_reason(MQTT_FAULT_TOO_LARGE), MQTT_REASON_PACKET_TOO_LARGE);
    codec.packet_bytes_max = sizeof(publish);
    assert_int_equal(mqtt_parse(&codec, publish, sizeof(publish), &packet), MQTT_FAULT_NONE);
    // Cut wrongly: never more than the length given is looked at.
    assert_int_equal(mqtt_parse(&codec, publish, 5, &packet), MQTT_FAULT_TRUNCATED);
    assert_int_equal(mqtt_parse(&codec, publish, 1, &packet), MQTT_FAULT_TRUNCATED);
    assert_int_equal(mqtt_parse(&codec, NULL, 0, &packet), MQTT_FAULT_TRUNCATED);
    static const u8 two_more[] = {0x30, 4, 0, 1, 't', 0, 'x', 'y'};
    codec.packet_bytes_max = MQTT_PACKET_BYTES_MAX;
    assert_int_equal(mqtt_parse(&codec, two_more, 7, &packet), MQTT_FAULT_TRAILING);
    assert_int_equal(mqtt_parse(&codec, two_more, 8, &packet), MQTT_FAULT_TRAILING);
    // The first byte is enough to refuse a packet.
    static const u8 bad[] = {0x36};
    size_check(&codec, bad, 1, MQTT_FAULT_PUBLISH_QOS, 0);
    codec.version = MQTT_UNKNOWN;
    size_check(&codec, publish, 1, MQTT_FAULT_NOT_CONNECT, 0);
}

static void test_goodbyes(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.14.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "e1()"},
        {"3.1.1/MQTT-3.14.1-1", 4, C, MQTT_FAULT_FLAGS_RESERVED, "e2()"},
        {"section 3.14.2.1", 5, C, 0, "e0()"},
        {"section 3.14.2.1", 5, C, 0, "e0(00)"},
        {"section 3.14.2.2.1", 5, C, 0, "e0(04)"},
        {"MQTT-3.14.2-1", 5, C, 0, "e0(93 ())"},
        {"MQTT-3.14.2-1", 5, C, MQTT_FAULT_REASON, "e0(01)"},
        {"MQTT-3.14.2-1: not of a client", 5, C, MQTT_FAULT_REASON, "e0(8b)"},
        {"MQTT-3.14.2-1", 5, S, 0, "e0(8b)"},
        {"MQTT-3.14.2-1: not of a server", 5, S, MQTT_FAULT_REASON, "e0(04)"},
        {"MQTT-3.14.2-1", 5, S, MQTT_FAULT_REASON, "e0(84)"},
        {"3.14.2.2.2", 5, C, 0, "e0(00 (11 00000000))"},
        {"MQTT-3.14.2-2", 5, S, MQTT_FAULT_PROPERTY_DIRECTION, "e0(8e (11 00000000))"},
        {"section 3.14.2.2.5: server reference", 5, S, 0, "e0(9c (1c s'other:1883'))"},
        {"section 3.14.2.2.5: server reference", 5, C, MQTT_FAULT_PROPERTY_DIRECTION,
         "e0(00 (1c s'other'))"},
        {"MQTT-3.14.2-3", 5, S, 0, "e0(89 (1f s'busy' 26 s'k' s'v'))"},
        {"session expiry twice", 5, C, MQTT_FAULT_PROPERTY_REPEATED,
         "e0(00 (11 00000001 11 00000001))"},
        {"behind the properties", 5, C, MQTT_FAULT_TRAILING, "e0(00 () 00)"},
        {"3.1.1 section 3.14: empty", 4, C, 0, "e0()"},
        {"3.1.1 section 3.14: empty", 4, C, MQTT_FAULT_TRAILING, "e0(00)"},
        {"MQTT-3.15.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "f1(18 (15 s'm'))"},
        {"MQTT-3.15.2-1", 5, C, 0, "f0(18 (15 s'm' 16 s'data'))"},
        {"MQTT-3.15.2-1", 5, C, 0, "f0(19 (15 s'm'))"},
        {"MQTT-3.15.2-1: not of a client", 5, C, MQTT_FAULT_REASON, "f0(00 (15 s'm'))"},
        {"MQTT-3.15.2-1", 5, S, 0, "f0(00 (15 s'm' 1f s'r' 26 s'k' s'v'))"},
        {"MQTT-3.15.2-1: not of a server", 5, S, MQTT_FAULT_REASON, "f0(19 (15 s'm'))"},
        {"MQTT-3.15.2-1", 5, S, MQTT_FAULT_REASON, "f0(87 (15 s'm'))"},
        {"section 3.15.2.1: success may be empty", 5, S, 0, "f0()"},
        {"section 3.15.2.1: a client does not say success", 5, C, MQTT_FAULT_REASON, "f0()"},
        {"section 3.15.2.1: reason alone", 5, S, MQTT_FAULT_TRUNCATED, "f0(18)"},
        {"section 3.15.2.2.2: method", 5, S, MQTT_FAULT_AUTH_METHOD_MISSING, "f0(18 ())"},
        {"section 3.15.2.2.3: data without method", 5, S, MQTT_FAULT_AUTH_DATA_ALONE,
         "f0(18 (16 s'd'))"},
        {"method twice", 5, S, MQTT_FAULT_PROPERTY_REPEATED, "f0(18 (15 s'a' 15 s'b'))"},
        {"data twice", 5, S, MQTT_FAULT_PROPERTY_REPEATED, "f0(18 (15 s'a' 16 s'1' 16 s'2'))"},
        {"section 3.1.2.11.10: data without method", MQTT_UNKNOWN, C, MQTT_FAULT_AUTH_DATA_ALONE,
         "10(s'MQTT' 05 02 003c (16 s'd') s'a')"},
        {"section 3.1.2.11.9", MQTT_UNKNOWN, C, 0,
         "10(s'MQTT' 05 02 003c (16 s'd' 15 s'm') s'a')"},
    };
    ROWS_RUN(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cursor), cmocka_unit_test(test_fixed_header),
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_goodbyes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
