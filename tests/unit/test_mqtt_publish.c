// SPDX-License-Identifier: Apache-2.0
// test_mqtt_publish.c: PUBLISH and its acknowledgements against the normative statements of MQTT
// 5.0 and 3.1.1 (those of 3.1.1 are marked 3.1.1/...).
#include "broker/topic.h"
#include "mqtt_rows.h"
#include "proto/mqtt_text.h"
#include "random.h"

static void test_header(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.3.1-1", 5, C, 0, "3a(s't' 0001 () 'x')"},
        {"MQTT-3.3.1-2", 5, C, MQTT_FAULT_PUBLISH_DUP, "38(s't' () 'x')"},
        {"MQTT-3.3.1-2", 5, S, MQTT_FAULT_PUBLISH_DUP, "39(s't' () 'x')"},
        {"3.1.1/MQTT-3.3.1-2", 4, C, MQTT_FAULT_PUBLISH_DUP, "38(s't' 'x')"},
        {"3.1 does not forbid it", 3, C, 0, "38(s't' 'x')"},
        {"MQTT-3.3.1-4", 5, C, MQTT_FAULT_PUBLISH_QOS, "36(s't' 0001 () 'x')"},
        {"MQTT-3.3.1-4", 5, S, MQTT_FAULT_PUBLISH_QOS, "3e(s't' 0001 () 'x')"},
        {"3.1.1/MQTT-3.3.1-4", 4, C, MQTT_FAULT_PUBLISH_QOS, "36(s't' 0001 'x')"},
        {"3.1: QoS 3 is reserved", 3, C, MQTT_FAULT_PUBLISH_QOS, "36(s't' 0001 'x')"},
        {"MQTT-3.3.1-5", 5, C, 0, "31(s't' () 'x')"},
        {"MQTT-3.3.1-5", 4, C, 0, "35(s't' 0001 'x')"},
        {"MQTT-2.2.1-2", 5, C, 0, "30(s't' () 0001)"},
        {"MQTT-2.2.1-3", 5, C, MQTT_FAULT_PACKET_ID_ZERO, "32(s't' 0000 () 'x')"},
        {"MQTT-2.2.1-4", 5, S, MQTT_FAULT_PACKET_ID_ZERO, "34(s't' 0000 () 'x')"},
        {"3.1.1/MQTT-2.3.1-1", 4, C, MQTT_FAULT_PACKET_ID_ZERO, "32(s't' 0000 'x')"},
        {"packet identifier cut", 4, C, MQTT_FAULT_TRUNCATED, "32(s't' 00)"},
        {"largest identifier", 4, C, 0, "34(s't' ffff)"},
        {"payload may be empty", 5, C, 0, "30(s't' ())"},
        {"payload may be empty", 4, C, 0, "30(s't')"},
        {"properties are not optional", 5, C, MQTT_FAULT_TRUNCATED, "30(s't')"},
        {"property list longer than the packet", 5, C, MQTT_FAULT_TRUNCATED, "30(s't' 05 0101)"},
    };
    ROWS_RUN(rows);
}

static void test_topic(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.3.2-1", 5, C, MQTT_FAULT_TRUNCATED, "30()"},
        {"MQTT-3.3.2-1", 5, C, MQTT_FAULT_TRUNCATED, "30(0005 'abcd')"},
        {"MQTT-3.3.2-1", 5, C, MQTT_FAULT_UTF8, "30(0002 61ff () 'x')"},
        {"3.1.1/MQTT-3.3.2-1", 4, C, MQTT_FAULT_UTF8, "30(0002 61ff 'x')"},
        {"MQTT-1.5.4-1", 5, C, MQTT_FAULT_UTF8, "30(0003 eda080 ())"},
        {"MQTT-1.5.4-2, MQTT-4.7.3-2", 5, C, MQTT_FAULT_UTF8, "30(0003 610062 ())"},
        {"3.1.1/MQTT-4.7.3-2", 4, C, MQTT_FAULT_UTF8, "30(0003 610062)"},
        {"MQTT-1.5.4-3", 5, C, 0, "30(0003 efbbbf ())"},
        {"MQTT-3.3.2-2, MQTT-4.7.0-1", 5, C, MQTT_FAULT_TOPIC_WILDCARD, "30(s'a/+' ())"},
        {"MQTT-3.3.2-2", 5, C, MQTT_FAULT_TOPIC_WILDCARD, "30(s'#' ())"},
        {"MQTT-3.3.2-2", 5, C, MQTT_FAULT_TOPIC_WILDCARD, "30(s'a+b' ())"},
        {"MQTT-3.3.2-2", 5, S, MQTT_FAULT_TOPIC_WILDCARD, "30(s'a#' ())"},
        {"3.1.1/MQTT-3.3.2-2", 4, C, MQTT_FAULT_TOPIC_WILDCARD, "30(s'a/#')"},
        {"3.1.1/MQTT-4.7.1-1", 4, S, MQTT_FAULT_TOPIC_WILDCARD, "30(s'+/a')"},
        {"MQTT-4.7.3-1: no alias", 5, C, MQTT_FAULT_TOPIC_EMPTY, "30(s'' () 'x')"},
        {"MQTT-4.7.3-1: other property", 5, C, MQTT_FAULT_TOPIC_EMPTY, "30(s'' (01 00) 'x')"},
        {"section 3.3.2.3.4: alias", 5, C, 0, "30(s'' (23 0001) 'x')"},
        {"section 3.3.2.3.4: alias", 5, S, 0, "30(s'' (23 ffff) 'x')"},
        {"topic and alias", 5, C, 0, "30(s't' (23 0001) 'x')"},
        {"MQTT-3.3.2-8", 5, C, MQTT_FAULT_TOPIC_ALIAS_ZERO, "30(s't' (23 0000) 'x')"},
        {"MQTT-3.3.2-8", 5, C, MQTT_FAULT_TOPIC_ALIAS_ZERO, "30(s'' (23 0000) 'x')"},
        {"alias twice", 5, C, MQTT_FAULT_PROPERTY_REPEATED, "30(s't' (23 0001 23 0001) 'x')"},
        {"3.1.1/MQTT-4.7.3-1", 4, C, MQTT_FAULT_TOPIC_EMPTY, "30(s'' 'x')"},
        {"3.1.1/MQTT-4.7.3-3: longest", 4, C, 0, "30(ffff 61*65535)"},
        {"limit on levels: just below", 5, C, 0, "30(007f 2f*127 ())"},
        {"limit on levels", 5, C, MQTT_FAULT_TOPIC_LEVELS, "30(0080 2f*128 ())"},
        {"limit on levels", 4, C, MQTT_FAULT_TOPIC_LEVELS, "30(0080 2f*128)"},
        {"empty levels and spaces", 5, C, 0, "30(s'/ //a' ())"},
        {"a dollar is no wildcard", 5, C, 0, "30(s'$SYS/x' ())"},
    };
    ROWS_RUN(rows);
}

static void test_properties(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.3.2-13", 5, C, MQTT_FAULT_UTF8, "30(s't' (08 0001 ff))"},
        {"MQTT-3.3.2-14", 5, C, MQTT_FAULT_RESPONSE_TOPIC, "30(s't' (08 s'r/+'))"},
        {"MQTT-3.3.2-14", 5, C, MQTT_FAULT_RESPONSE_TOPIC, "30(s't' (08 s'#'))"},
        {"MQTT-4.7.3-1: response topic", 5, C, MQTT_FAULT_RESPONSE_TOPIC, "30(s't' (08 s''))"},
        {"MQTT-3.3.2-15", 5, C, 0, "30(s't' (08 s'r' 09 0003 00ff80))"},
        {"MQTT-3.3.2-19", 5, C, MQTT_FAULT_UTF8, "30(s't' (03 0001 80))"},
        {"MQTT-3.3.2-19", 5, C, 0, "30(s't' (03 s''))"},
        {"MQTT-3.3.2-18: order of user properties", 5, C, 0,
         "30(s't' (26 s'a' s'1' 26 s'b' s'2' 26 s'a' s'3'))"},
        {"MQTT-1.5.7-1", 5, C, MQTT_FAULT_UTF8, "30(s't' (26 0001 ff s'1'))"},
        {"MQTT-1.5.7-1", 5, C, MQTT_FAULT_UTF8, "30(s't' (26 s'1' 0001 00))"},
        {"MQTT-1.5.7-1: half a pair", 5, C, MQTT_FAULT_TRUNCATED, "30(s't' (26 s'1'))"},
        {"MQTT-3.3.4-6", 5, C, MQTT_FAULT_PROPERTY_DIRECTION, "30(s't' (0b 01))"},
        {"MQTT-3.3.4-5: several", 5, S, 0, "30(s't' (0b 01 0b 02 0b ffffff7f))"},
        {"subscription identifier 0", 5, S, MQTT_FAULT_PROPERTY_VALUE, "30(s't' (0b 00))"},
        {"MQTT-1.5.5-1", 5, S, MQTT_FAULT_VARINT_NOT_MINIMAL, "30(s't' (0b 8100))"},
        {"identifier of five bytes", 5, S, MQTT_FAULT_VARINT, "30(s't' (0b ffffffff7f))"},
        {"payload format", 5, C, MQTT_FAULT_PROPERTY_VALUE, "30(s't' (01 02))"},
        {"MQTT-2.2.2-1: a list of length 0", 5, C, 0, "30(s't' 00)"},
        {"length not minimal", 5, C, MQTT_FAULT_VARINT_NOT_MINIMAL, "30(s't' 8000)"},
        {"section 2.2.2.2: not of this packet", 5, C, MQTT_FAULT_PROPERTY_MISPLACED,
         "30(s't' (11 00000001))"},
        {"section 2.2.2.2: unknown", 5, C, MQTT_FAULT_PROPERTY_UNKNOWN, "30(s't' (04 00))"},
        {"identifier not minimal", 5, C, MQTT_FAULT_VARINT_NOT_MINIMAL, "30(s't' (8100 00))"},
        {"cut by the list's end", 5, C, MQTT_FAULT_TRUNCATED, "30(s't' (02 0000) 0000)"},
    };
    ROWS_RUN(rows);
}

// The pass over eight bytes at a time says what the plain check of every byte says.
static void test_plain_topics(void **state) {
    (void)state;
    static const char letters[] = "ab/Z09 ~$_-";
    u64 seed = 7;
    for (u32 round = 0; round < 100000; round++) {
        u8 text[48];
        u32 len = random_below(&seed, sizeof(text));
        for (u32 i = 0; i < len; i++) {
            text[i] = (u8)letters[random_below(&seed, sizeof(letters) - 1)];
        }
        // In three of four, one byte that may be anything.
        if (len > 0 && round % 4 != 0) text[random_below(&seed, len)] = (u8)random_next(&seed);
        bool ascii = true;
        for (u32 i = 0; i < len; i++) ascii = ascii && text[i] < 0x80;
        bool valid = topic_name_is_valid((const char *)text, len);
        assert_int_equal(mqtt_topic_is_plain((mqtt_bytes){text, len}), ascii && valid);
    }
    u8 slashes[LIMIT_TOPIC_LEVELS];
    memset(slashes, '/', sizeof(slashes));
    assert_true(mqtt_topic_is_plain((mqtt_bytes){slashes, LIMIT_TOPIC_LEVELS - 1}));
    assert_false(mqtt_topic_is_plain((mqtt_bytes){slashes, LIMIT_TOPIC_LEVELS}));
}

static void test_fields(void **state) {
    (void)state;
    u8 bytes[4096];
    mqtt_packet p = row_parse(5, S,
                              "3d(s'a/b' 1234 (23 0007 0b 05 26 s'k' s'1' 02 00000009 26 s'k' "
                              "s'2' 0b 06) 'payload')",
                              bytes);
    const mqtt_publish *m = &p.publish;
    assert_true(m->dup && m->retain);
    assert_int_equal(m->qos, 2);
    assert_int_equal(m->packet_id, 0x1234);
    assert_int_equal(m->topic_alias, 7);
    assert_bytes(m->topic, "a/b");
    assert_bytes(m->payload, "payload");
    assert_int_equal(mqtt_property_number(&m->props, MQTT_MESSAGE_EXPIRY, 0), 9);
    assert_null(mqtt_property_bytes(&m->props, MQTT_CONTENT_TYPE).data);
    static const u8 order[] = {MQTT_TOPIC_ALIAS, MQTT_SUBSCRIPTION_ID, MQTT_USER_PROPERTY,
                               MQTT_MESSAGE_EXPIRY, MQTT_USER_PROPERTY, MQTT_SUBSCRIPTION_ID};
    cursor at = mqtt_properties_begin(&m->props);
    mqtt_property property;
    for (u32 i = 0; i < sizeof(order); i++) {
        assert_true(mqtt_property_next(&at, &property));
        assert_int_equal(property.id, order[i]);
        if (i == 2) assert_bytes(property.value, "1");
        if (i == 4) assert_bytes(property.value, "2");
        if (property.id == MQTT_USER_PROPERTY) assert_bytes(property.key, "k");
    }
    assert_false(mqtt_property_next(&at, &property));
    p = row_parse(4, C, "30(s't')", bytes);
    assert_int_equal(p.publish.packet_id, 0);
    assert_int_equal(p.publish.payload.len, 0);
    assert_int_equal(p.publish.props.len, 0);
    // 3.1: DUP with QoS 0 means nothing and is not passed on.
    p = row_parse(3, C, "38(s't')", bytes);
    assert_false(p.publish.dup);
}

static void test_acks(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.4.2-1", 5, C, 0, "40(0001)"},
        {"MQTT-3.4.2-1", 5, C, 0, "40(0001 00)"},
        {"MQTT-3.4.2-1", 5, C, 0, "40(0001 87 ())"},
        {"MQTT-3.4.2-1", 5, C, 0, "40(0001 00 (1f s'why' 26 s'a' s'b' 26 s'a' s'b'))"},
        {"MQTT-3.4.2-1", 5, S, 0, "40(0001 10)"},
        {"MQTT-3.4.2-1: only a server sends it", 5, C, MQTT_FAULT_REASON, "40(0001 10)"},
        {"MQTT-3.4.2-1", 5, C, MQTT_FAULT_REASON, "40(0001 92)"},
        {"MQTT-3.5.2-1", 5, C, 0, "50(0001 97)"},
        {"MQTT-3.5.2-1", 5, C, MQTT_FAULT_REASON, "50(0001 01)"},
        {"MQTT-3.6.1-1", 5, C, 0, "62(0001)"},
        {"MQTT-3.6.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "60(0001)"},
        {"MQTT-3.6.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "6a(0001)"},
        {"3.1.1/MQTT-3.6.1-1", 4, C, MQTT_FAULT_FLAGS_RESERVED, "60(0001)"},
        {"3.1.1/MQTT-3.6.1-1", 4, S, MQTT_FAULT_FLAGS_RESERVED, "6a(0001)"},
        {"3.1 sends a PUBREL again with DUP", 3, C, 0, "6a(0001)"},
        {"3.1", 3, C, MQTT_FAULT_FLAGS_RESERVED, "63(0001)"},
        {"MQTT-3.6.2-1", 5, C, 0, "62(0001 92 ())"},
        {"MQTT-3.6.2-1", 5, C, MQTT_FAULT_REASON, "62(0001 80)"},
        {"MQTT-3.7.2-1", 5, S, 0, "70(0001 92)"},
        {"MQTT-3.7.2-1", 5, S, MQTT_FAULT_REASON, "70(0001 10)"},
        {"MQTT-2.2.1-3", 5, C, MQTT_FAULT_PACKET_ID_ZERO, "40(0000)"},
        {"MQTT-2.2.1-3", 5, C, MQTT_FAULT_PACKET_ID_ZERO, "50(0000)"},
        {"MQTT-2.2.1-3", 5, C, MQTT_FAULT_PACKET_ID_ZERO, "62(0000)"},
        {"3.1.1/MQTT-2.3.1-1", 4, C, MQTT_FAULT_PACKET_ID_ZERO, "70(0000)"},
        {"cut", 5, C, MQTT_FAULT_TRUNCATED, "40(00)"},
        {"cut", 4, C, MQTT_FAULT_TRUNCATED, "40()"},
        {"3.1.1 has no reason code", 4, C, MQTT_FAULT_TRAILING, "40(0001 00)"},
        {"3.1.1", 4, C, 0, "40(0001)"},
        {"3.1.1", 4, S, 0, "50(0001)"},
        {"3.1.1", 4, C, 0, "62(0001)"},
        {"3.1.1", 4, S, 0, "70(ffff)"},
        {"MQTT-3.4.2-2: reason string twice", 5, C, MQTT_FAULT_PROPERTY_REPEATED,
         "40(0001 00 (1f s'a' 1f s'b'))"},
        {"property of another packet", 5, C, MQTT_FAULT_PROPERTY_MISPLACED,
         "40(0001 00 (23 0001))"},
        {"bytes behind the properties", 5, C, MQTT_FAULT_TRAILING, "40(0001 00 () 00)"},
    };
    ROWS_RUN(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header), cmocka_unit_test(test_topic),
        cmocka_unit_test(test_properties), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_acks),   cmocka_unit_test(test_plain_topics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
