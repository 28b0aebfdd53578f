// SPDX-License-Identifier: Apache-2.0
// test_mqtt_connect.c: CONNECT and CONNACK against the normative statements of MQTT 5.0 and 3.1.1
// (those of 3.1.1 are marked 3.1.1/...), and the text of 3.1.
#include "mqtt_rows.h"

#define U MQTT_UNKNOWN
#define V5(flags, rest) "10(s'MQTT' 05 " flags " 003c () " rest ")"
#define V4(flags, rest) "10(s'MQTT' 04 " flags " 003c " rest ")"
#define V3(flags, rest) "10(s'MQIsdp' 03 " flags " 003c " rest ")"

static void test_protocol(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.1.2-1", U, C, 0, "10(s'MQTT' 05 02 003c () s'a')"},
        {"MQTT-3.1.2-1", U, C, MQTT_FAULT_PROTOCOL_NAME, "10(s'mqtt' 05 02 003c () s'a')"},
        {"MQTT-3.1.2-1", U, C, MQTT_FAULT_PROTOCOL_NAME, "10(s'MQTTX' 05 02 003c () s'a')"},
        {"MQTT-3.1.2-1", U, C, MQTT_FAULT_PROTOCOL_NAME, "10(s'' 05 02 003c () s'a')"},
        {"MQTT-3.1.2-1", U, C, MQTT_FAULT_TRUNCATED, "10(00)"},
        {"MQTT-3.1.2-1", U, C, MQTT_FAULT_TRUNCATED, "10(0004 'MQ')"},
        {"MQTT-3.1.2-1", U, C, MQTT_FAULT_TRUNCATED, "10()"},
        {"MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQTT' 06 02 003c () s'a')"},
        {"MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQTT' 00 02 003c s'a')"},
        {"MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQTT' 03 02 003c s'a')"},
        {"a bridge, 3.1.1", U, C, 0, "10(s'MQTT' 84 02 003c s'a')"},
        {"a bridge, 3.1", U, C, 0, "10(s'MQIsdp' 83 02 003c s'a')"},
        {"MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQTT' 83 02 003c s'a')"},
        {"MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQTT' 85 02 003c () s'a')"},
        {"3.1.1/MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQIsdp' 84 02 003c s'a')"},
        {"3.1.1/MQTT-3.1.2-2", U, C, MQTT_FAULT_PROTOCOL_LEVEL, "10(s'MQIsdp' 04 02 003c s'a')"},
        {"3.1.1/MQTT-3.1.2-1", U, C, 0, V4("02", "s'a'")},
        {"3.1 section 3.1", U, C, 0, V3("02", "s'a'")},
        {"MQTT-3.1.0-1", U, C, MQTT_FAULT_NOT_CONNECT, "c0()"},
        {"MQTT-3.1.0-1", U, C, MQTT_FAULT_NOT_CONNECT, "30(s't')"},
        {"MQTT-3.1.0-1", U, C, MQTT_FAULT_NOT_CONNECT, "f0()"},
        {"MQTT-3.1.0-2", 5, C, MQTT_FAULT_SECOND_CONNECT, "10(s'MQTT' 05 02 003c () s'a')"},
        {"3.1.1/MQTT-3.1.0-2", 4, C, MQTT_FAULT_SECOND_CONNECT, V4("02", "s'a'")},
        {"MQTT-1.5.5-1", U, C, MQTT_FAULT_VARINT_NOT_MINIMAL,
         "10 8e00 s'MQTT' 05 02 003c 00 s'a'"},
        {"MQTT-1.5.5-1 (3.x does not ask it)", U, C, 0, "10 8d00 s'MQTT' 04 02 003c s'a'"},
        {"trailing", U, C, MQTT_FAULT_TRAILING, V5("02", "s'a' 00")},
        {"3.1.1 trailing", U, C, MQTT_FAULT_TRAILING, V4("02", "s'a' s'b'")},
    };
    ROWS_RUN(rows);
}

static void test_flags(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.1.2-3", U, C, MQTT_FAULT_CONNECT_FLAG, V5("03", "s'a'")},
        {"3.1.1/MQTT-3.1.2-3", U, C, MQTT_FAULT_CONNECT_FLAG, V4("03", "s'a'")},
        {"3.1: the bit is not used", U, C, 0, V3("03", "s'a'")},
        {"MQTT-3.1.2-9", U, C, 0, V5("06", "s'a' () s'w' s'p'")},
        {"MQTT-3.1.2-9", U, C, MQTT_FAULT_TRUNCATED, V5("06", "s'a' () s'w'")},
        {"MQTT-3.1.2-9", U, C, MQTT_FAULT_TRUNCATED, V5("06", "s'a'")},
        {"3.1.1/MQTT-3.1.2-9", U, C, 0, V4("06", "s'a' s'w' s''")},
        {"3.1 will", U, C, 0, V3("0e", "s'a' s'w' s'p'")},
        {"MQTT-3.1.2-11", U, C, MQTT_FAULT_WILL_FLAGS, V5("0a", "s'a'")},
        {"MQTT-3.1.2-11", U, C, MQTT_FAULT_WILL_FLAGS, V5("12", "s'a'")},
        {"MQTT-3.1.2-11", U, C, MQTT_FAULT_WILL_FLAGS, V5("1a", "s'a'")},
        {"3.1.1/MQTT-3.1.2-13", U, C, MQTT_FAULT_WILL_FLAGS, V4("0a", "s'a'")},
        {"MQTT-3.1.2-12", U, C, MQTT_FAULT_WILL_QOS, V5("1e", "s'a' () s'w' s'p'")},
        {"3.1.1/MQTT-3.1.2-14", U, C, MQTT_FAULT_WILL_QOS, V4("1e", "s'a' s'w' s'p'")},
        {"MQTT-3.1.2-13", U, C, MQTT_FAULT_WILL_FLAGS, V5("22", "s'a'")},
        {"3.1.1/MQTT-3.1.2-15", U, C, MQTT_FAULT_WILL_FLAGS, V4("22", "s'a'")},
        {"MQTT-3.1.2-14, -15", U, C, 0, V5("36", "s'a' () s'w' s'p'")},
        {"MQTT-3.1.2-16", U, C, MQTT_FAULT_TRAILING, V5("02", "s'a' s'user'")},
        {"MQTT-3.1.2-17", U, C, 0, V5("82", "s'a' s'user'")},
        {"MQTT-3.1.2-17", U, C, MQTT_FAULT_TRUNCATED, V5("82", "s'a'")},
        {"3.1.1/MQTT-3.1.2-19", U, C, MQTT_FAULT_TRUNCATED, V4("82", "s'a'")},
        {"3.1: remaining length goes before the flag", U, C, 0, V3("82", "s'a'")},
        {"3.1: remaining length goes before the flag", U, C, 0, V3("c2", "s'a' s'user'")},
        {"MQTT-3.1.2-18", U, C, MQTT_FAULT_TRAILING, V5("82", "s'a' s'user' s'pw'")},
        {"MQTT-3.1.2-19", U, C, 0, V5("c2", "s'a' s'user' s'pw'")},
        {"MQTT-3.1.2-19", U, C, MQTT_FAULT_TRUNCATED, V5("c2", "s'a' s'user'")},
        {"password alone is allowed in 5.0", U, C, 0, V5("42", "s'a' s'pw'")},
        {"3.1.1/MQTT-3.1.2-22", U, C, MQTT_FAULT_PASSWORD_ALONE, V4("42", "s'a' s'pw'")},
        {"3.1: no password without user name", U, C, MQTT_FAULT_PASSWORD_ALONE,
         V3("42", "s'a' s'pw'")},
        {"MQTT-3.1.3-1: order", U, C, 0, V5("f6", "s'a' (18 00000005) s'w' s'p' s'u' s'x'")},
    };
    ROWS_RUN(rows);
}

static void test_strings(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.1.3-3", U, C, MQTT_FAULT_TRUNCATED, V5("02", "")},
        {"MQTT-3.1.3-4", U, C, MQTT_FAULT_UTF8, V5("02", "0002 c328")},
        {"3.1.1/MQTT-3.1.3-4", U, C, MQTT_FAULT_UTF8, V4("02", "0002 c328")},
        {"MQTT-1.5.4-1", U, C, MQTT_FAULT_UTF8, V5("02", "0003 eda080")},
        {"MQTT-1.5.4-1", U, C, MQTT_FAULT_UTF8, V5("02", "0003 edbfbf")},
        {"MQTT-1.5.4-1", U, C, MQTT_FAULT_UTF8, V5("02", "0004 f4908080")},
        {"MQTT-1.5.4-1", U, C, MQTT_FAULT_UTF8, V5("02", "0002 c080")},
        {"MQTT-1.5.4-2", U, C, MQTT_FAULT_UTF8, V5("02", "0003 610062")},
        {"3.1.1/MQTT-1.5.3-2", U, C, MQTT_FAULT_UTF8, V4("02", "0003 610062")},
        {"MQTT-1.5.4-3", U, C, 0, V5("02", "0004 efbbbf61")},
        {"control characters are accepted", U, C, 0, V5("02", "0005 01 7f c280 1f")},
        {"MQTT-3.1.3-5", U, C, 0, V5("02", "s'0123456789abcdefghijklm'")},
        {"longer ids are allowed", U, C, 0, V5("02", "0100 61*256")},
        {"longer ids are allowed", U, C, 0, V3("02", "0100 61*256")},
        {"longest string", U, C, 0, V5("02", "ffff 61*65535")},
        {"string cut short", U, C, MQTT_FAULT_TRUNCATED, V5("02", "ffff 61*65534")},
        {"MQTT-3.1.3-6", U, C, 0, V5("02", "s''")},
        {"MQTT-3.1.3-6 (session kept too)", U, C, 0, V5("00", "s''")},
        {"3.1.1/MQTT-3.1.3-7", U, C, 0, V4("02", "s''")},
        {"3.1.1/MQTT-3.1.3-8", U, C, MQTT_FAULT_CLIENT_ID_EMPTY, V4("00", "s''")},
        {"3.1: 1 to 23 characters", U, C, MQTT_FAULT_CLIENT_ID_EMPTY, V3("02", "s''")},
        {"MQTT-3.1.3-11", U, C, MQTT_FAULT_UTF8, V5("06", "s'a' () 0001 ff s'p'")},
        {"3.1.1/MQTT-3.1.3-10", U, C, MQTT_FAULT_UTF8, V4("06", "s'a' 0001 ff s'p'")},
        {"MQTT-4.7.3-1: will topic", U, C, MQTT_FAULT_TOPIC_EMPTY, V5("06", "s'a' () s'' s'p'")},
        {"MQTT-4.7.0-1: will topic", U, C, MQTT_FAULT_TOPIC_WILDCARD,
         V5("06", "s'a' () s'w/#' s''")},
        {"3.1.1/MQTT-4.7.1-1", U, C, MQTT_FAULT_TOPIC_WILDCARD, V4("06", "s'a' s'+' s''")},
        {"limit on levels", U, C, MQTT_FAULT_TOPIC_LEVELS, V5("06", "s'a' () 0080 2f*128 s''")},
        {"MQTT-3.1.3-12", U, C, MQTT_FAULT_UTF8, V5("82", "s'a' 0002 c3c3")},
        {"3.1.1/MQTT-3.1.3-11", U, C, MQTT_FAULT_UTF8, V4("82", "s'a' 0002 c3c3")},
        {"password is binary", U, C, 0, V5("c2", "s'a' s'u' 0003 00ffc3")},
        {"will payload is binary", U, C, 0, V5("06", "s'a' () s'w' 0003 00ffc3")},
        {"no fields may be left empty but present", U, C, 0, V5("c2", "s'a' s'' s''")},
    };
    ROWS_RUN(rows);
}

static void test_controls_refused(void **state) {
    (void)state;
    static const struct { const char *text; mqtt_fault fault; } rows[] = {
        {"a b", MQTT_FAULT_NONE}, {"\xc2\xa0", MQTT_FAULT_NONE}, {"\xef\xbb\xbf", MQTT_FAULT_NONE},
        {"\xf0\x9f\x98\x80", MQTT_FAULT_NONE}, {"\xef\xbf\xbd", MQTT_FAULT_NONE},
        {"a\x01", MQTT_FAULT_CONTROL}, {"\x1f", MQTT_FAULT_CONTROL}, {"\x7f", MQTT_FAULT_CONTROL},
        {"\xc2\x80", MQTT_FAULT_CONTROL}, {"\xc2\x9f", MQTT_FAULT_CONTROL},
        {"\xef\xb7\x90", MQTT_FAULT_CONTROL}, {"\xef\xb7\xaf", MQTT_FAULT_CONTROL},
        {"\xef\xbf\xbe", MQTT_FAULT_CONTROL}, {"\xf0\x9f\xbf\xbf", MQTT_FAULT_CONTROL},
        {"\xf4\x8f\xbf\xbe", MQTT_FAULT_CONTROL}, {"\xff", MQTT_FAULT_UTF8},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        mqtt_codec codec = {MQTT_5, MQTT_FROM_CLIENT, MQTT_REFUSE_CONTROLS, MQTT_PACKET_BYTES_MAX};
        u8 bytes[64] = {0x30, (u8)(3 + strlen(rows[i].text)), 0, (u8)strlen(rows[i].text)};
        memcpy(bytes + 4, rows[i].text, strlen(rows[i].text));
        mqtt_packet packet;
        assert_int_equal(mqtt_parse(&codec, bytes, 2u + bytes[1], &packet), rows[i].fault);
        codec.flags = 0;
        mqtt_fault without = rows[i].fault == MQTT_FAULT_CONTROL ? 0 : rows[i].fault;
        assert_int_equal(mqtt_parse(&codec, bytes, 2u + bytes[1], &packet), without);
    }
}

static void test_fields(void **state) {
    (void)state;
    u8 bytes[4096];
    mqtt_packet p = row_parse(U, C,
                              "10(s'MQTT' 05 f4 1234 (11 00000e10 21 0014 26 s'k' s'v') s'id' "
                              "(18 00000005 08 s'r/t') s'w/t' s'gone' s'user' s'secret')",
                              bytes);
    const mqtt_connect *c = &p.connect;
    assert_int_equal(p.type, MQTT_CONNECT);
    assert_int_equal(p.version, MQTT_5);
    assert_int_equal(c->version, MQTT_5);
    assert_false(c->clean_start);
    assert_true(c->has_will && c->will_retain);
    assert_int_equal(c->will_qos, 2);
    assert_int_equal(c->keep_alive_s, 0x1234);
    assert_int_equal(mqtt_property_number(&c->props, MQTT_SESSION_EXPIRY, 0), 3600);
    assert_int_equal(mqtt_property_number(&c->props, MQTT_RECEIVE_MAX, 65535), 20);
    assert_int_equal(mqtt_property_number(&c->props, MQTT_TOPIC_ALIAS_MAX, 7), 7);
    assert_int_equal(mqtt_property_number(&c->will_props, MQTT_WILL_DELAY, 0), 5);
    assert_bytes(mqtt_property_bytes(&c->will_props, MQTT_RESPONSE_TOPIC), "r/t");
    assert_bytes(c->client_id, "id");
    assert_bytes(c->will_topic, "w/t");
    assert_bytes(c->will_payload, "gone");
    assert_bytes(c->user_name, "user");
    assert_bytes(c->password, "secret");
    assert_false(c->bridge);
    p = row_parse(U, C, "10(s'MQTT' 84 02 003c s'id')", bytes);
    assert_int_equal(p.version, MQTT_3_1_1);
    assert_true(p.connect.bridge);
    p = row_parse(U, C, V3("02", "s'id'"), bytes);
    assert_int_equal(p.version, MQTT_3_1);
    assert_false(p.connect.bridge);
    assert_null(p.connect.user_name.data);
    assert_null(p.connect.password.data);
    assert_null(p.connect.will_topic.data);
}

// Which CONNACK goes before the close, and in which version.
static void test_answers(void **state) {
    (void)state;
    static const struct { const char *packet; u8 version, connack; } rows[] = {
        {"10(s'HTTP' 05 02 003c () s'a')", MQTT_UNKNOWN, 0},
        {"10(s'MQTT' 06 02 003c () s'a')", MQTT_5, 0x84},
        {"10(s'MQTT' 02 02 003c s'a')", MQTT_3_1_1, 1},
        {"10(s'MQIsdp' 84 02 003c s'a')", MQTT_3_1_1, 1},
        {V4("00", "s''"), MQTT_3_1_1, 2},
        {V3("02", "s''"), MQTT_3_1, 2},
        {V4("03", "s'a'"), MQTT_3_1_1, 0},
        {V5("03", "s'a'"), MQTT_5, 0x81},
        {"10(s'MQTT' 05 02 003c (21 0000) s'a')", MQTT_5, 0x82},
        {V5("06", "s'a' () s'#' s''"), MQTT_5, 0x90},
        {"c0()", MQTT_UNKNOWN, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        u8 bytes[4096];
        const char *text = rows[i].packet;
        u32 len = row_assemble(&text, bytes);
        mqtt_codec codec = {MQTT_UNKNOWN, MQTT_FROM_CLIENT, 0, MQTT_PACKET_BYTES_MAX};
        mqtt_packet packet;
        mqtt_fault fault = mqtt_parse(&codec, bytes, len, &packet);
        assert_int_not_equal(fault, MQTT_FAULT_NONE);
        assert_int_equal(packet.version, rows[i].version);
        assert_int_equal(mqtt_fault_connack(fault, packet.version), rows[i].connack);
    }
}

static void test_connack(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.2.2-1", 5, S, 0, "20(00 00 ())"},
        {"MQTT-3.2.2-1", 5, S, MQTT_FAULT_CONNACK_FLAGS, "20(02 00 ())"},
        {"MQTT-3.2.2-1", 5, S, MQTT_FAULT_CONNACK_FLAGS, "20(81 00 ())"},
        {"MQTT-3.2.2-2, -3", 5, S, 0, "20(01 00 ())"},
        {"MQTT-3.2.2-6", 5, S, MQTT_FAULT_SESSION_PRESENT, "20(01 87 ())"},
        {"3.1.1/MQTT-3.2.2-4", 4, S, MQTT_FAULT_SESSION_PRESENT, "20(01 05)"},
        {"3.1.1 section 3.2.2.1", 4, S, MQTT_FAULT_CONNACK_FLAGS, "20(02 00)"},
        {"MQTT-3.2.2-8", 5, S, 0, "20(00 9f ())"},
        {"MQTT-3.2.2-8", 5, S, MQTT_FAULT_REASON, "20(00 01 ())"},
        {"MQTT-3.2.2-8", 5, S, MQTT_FAULT_REASON, "20(00 8e ())"},
        {"MQTT-3.2.2-8", 5, S, MQTT_FAULT_REASON, "20(00 ff ())"},
        {"3.1.1/MQTT-3.2.2-6", 4, S, 0, "20(00 05)"},
        {"3.1.1/MQTT-3.2.2-6", 4, S, MQTT_FAULT_REASON, "20(00 06)"},
        {"3.1: the first byte is not used", 3, S, 0, "20(01 05)"},
        {"properties are not optional", 5, S, MQTT_FAULT_TRUNCATED, "20(00 00)"},
        {"no properties in 3.1.1", 4, S, MQTT_FAULT_TRAILING, "20(00 00 00)"},
        {"cut", 4, S, MQTT_FAULT_TRUNCATED, "20(00)"},
        {"from a client", 5, C, MQTT_FAULT_DIRECTION, "20(00 00 ())"},
        {"all its properties", 5, S, 0,
         "20(01 00 (11 00000001 12 s'id' 13 0005 15 s'm' 16 s'd' 1a s'i' 1c s'r' 1f s's' 21 0001 "
         "22 0000 24 01 25 00 26 s'a' s'b' 26 s'a' s'c' 27 00000001 28 00 29 01 2a 00))"},
    };
    ROWS_RUN(rows);
    u8 bytes[4096];
    mqtt_packet p = row_parse(3, S, "20(01 00)", bytes);
    assert_false(p.connack.session_present);
    p = row_parse(4, S, "20(01 00)", bytes);
    assert_true(p.connack.session_present);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_protocol), cmocka_unit_test(test_flags),
        cmocka_unit_test(test_strings),  cmocka_unit_test(test_controls_refused),
        cmocka_unit_test(test_fields),   cmocka_unit_test(test_answers),
        cmocka_unit_test(test_connack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
