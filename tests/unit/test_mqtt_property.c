// SPDX-License-Identifier: Apache-2.0
// test_mqtt_property.c: every property in every packet, of both senders, once and twice, with good
// and bad values, against a second table written from MQTT 5.0 table 2-4 and the property
// sections; reason codes the same against table 2-6 and the packets' own lists; builders.
#include "mqtt_rows.h"

// A packet that takes properties: what stands in front of and behind the list. %s is the list.
typedef struct place {
    char letter;
    u8 version, sender;
    const char *front, *back;
} place;

// Letters of the table below. Lower case: the same packet from the other side.
static const place places[] = {
    {'C', MQTT_UNKNOWN, C, "10(s'MQTT' 05 02 003c (", ") s'a')"},
    {'W', MQTT_UNKNOWN, C, "10(s'MQTT' 05 06 003c () s'a' (", ") s'w' s'')"},
    {'A', 5, S, "20(00 00 (", "))"},
    {'P', 5, C, "30(s't' (", "))"},
    {'p', 5, S, "30(s't' (", "))"},
    {'K', 5, C, "40(0001 00 (", "))"},
    {'K', 5, S, "50(0001 00 (", "))"},
    {'K', 5, C, "62(0001 00 (", "))"},
    {'K', 5, S, "70(0001 00 (", "))"},
    {'S', 5, C, "82(0001 (", ") s'a' 00)"},
    {'B', 5, S, "90(0001 (", ") 00)"},
    {'U', 5, C, "a2(0001 (", ") s'a')"},
    {'B', 5, S, "b0(0001 (", ") 00)"},
    {'D', 5, C, "e0(00 (", "))"},
    {'d', 5, S, "e0(00 (", "))"},
    {'X', 5, C, "f0(18 (15 s'm' ", "))"},
    {'X', 5, S, "f0(18 (15 s'm' ", "))"},
};

typedef struct expectation {
    u8 id;
    const char *allowed;  // places
    const char *wrong_side; // places where only the other side may send it
    const char *repeats;
    const char *good[3];  // values
    const char *bad[3];
    mqtt_fault bad_fault;
} expectation;

static const expectation table[] = {
    {0x01, "PpW", "", "", {"00", "01"}, {"02", "ff"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x02, "PpW", "", "", {"00000000", "ffffffff"}, {0}, 0},
    {0x03, "PpW", "", "", {"s''", "s'text/plain'"}, {"0001ff"}, MQTT_FAULT_UTF8},
    {0x08, "PpW", "", "", {"s'a'", "s'/$x'"}, {"s''", "s'#'", "s'a/+'"}, MQTT_FAULT_RESPONSE_TOPIC},
    {0x09, "PpW", "", "", {"0000", "0003ff0080"}, {0}, 0},
    {0x0b, "pS", "P", "p", {"01", "ffffff7f"}, {"00"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x11, "CAD", "d", "", {"00000000", "ffffffff"}, {0}, 0},
    {0x12, "A", "", "", {"s'id'"}, {"000100"}, MQTT_FAULT_UTF8},
    {0x13, "A", "", "", {"0000", "ffff"}, {0}, 0},
    {0x15, "CAX", "", "", {"s'm'"}, {"0001c3"}, MQTT_FAULT_UTF8},
    {0x16, "CAX", "", "", {"000100"}, {0}, 0},
    {0x17, "C", "", "", {"00", "01"}, {"02", "ff"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x18, "W", "", "", {"00000000", "ffffffff"}, {0}, 0},
    {0x19, "C", "", "", {"00", "01"}, {"02", "ff"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x1a, "A", "", "", {"s'info'"}, {"0003eda080"}, MQTT_FAULT_UTF8},
    {0x1c, "Ad", "D", "", {"s'host:1883'"}, {"0001ff"}, MQTT_FAULT_UTF8},
    {0x1f, "AKBDdX", "", "", {"s'reason'"}, {"0001ff"}, MQTT_FAULT_UTF8},
    {0x21, "CA", "", "", {"0001", "ffff"}, {"0000"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x22, "CA", "", "", {"0000", "ffff"}, {0}, 0},
    {0x23, "Pp", "", "", {"0001", "ffff"}, {"0000"}, MQTT_FAULT_TOPIC_ALIAS_ZERO},
    {0x24, "A", "", "", {"00", "01"}, {"02", "03"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x25, "A", "", "", {"00", "01"}, {"02"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x26, "CWAPpKSBUDdX", "", "CWAPpKSBUDdX", {"s'' s''", "s'key' s'value'"},
     {"0001ff s''", "s'' 0001ff"}, MQTT_FAULT_UTF8},
    {0x27, "CA", "", "", {"00000001", "ffffffff"}, {"00000000"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x28, "A", "", "", {"00", "01"}, {"02"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x29, "A", "", "", {"00", "01"}, {"02"}, MQTT_FAULT_PROPERTY_VALUE},
    {0x2a, "A", "", "", {"00", "01"}, {"02"}, MQTT_FAULT_PROPERTY_VALUE},
};

static void place_run(const place *p, u32 id, const char *value, u32 times, mqtt_fault fault) {
    char list[256] = "", packet[512], ids[32];
    for (u32 i = 0; i < times; i++) {
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%02x %s ", id, value);
    }
    // Authentication data stands with its method; AUTH has one already.
    if (id == 0x16 && p->letter != 'X' && strchr("CA", p->letter)) strcat(list, "15 s'm'");
    snprintf(packet, sizeof(packet), "%s%s%s", p->front, list, p->back);
    snprintf(ids, sizeof(ids), "property %02x", id);
    row_run(&(mqtt_row){ids, p->version, p->sender, fault, packet});
}

static void expectation_run(const expectation *e, const place *p) {
    bool allowed = strchr(e->allowed, p->letter) != NULL;
    bool wrong_side = strchr(e->wrong_side, p->letter) != NULL;
    bool method = e->id == 0x15 && p->letter == 'X'; // there once already
    if (!allowed) {
        place_run(p, e->id, e->good[0], 1,
                  wrong_side ? MQTT_FAULT_PROPERTY_DIRECTION : MQTT_FAULT_PROPERTY_MISPLACED);
        return;
    }
    bool repeats = strchr(e->repeats, p->letter) != NULL;
    place_run(p, e->id, e->good[0], 2, repeats ? MQTT_FAULT_NONE : MQTT_FAULT_PROPERTY_REPEATED);
    for (u32 i = 0; i < 3 && e->good[i] != NULL; i++) {
        place_run(p, e->id, e->good[i], 1, method ? MQTT_FAULT_PROPERTY_REPEATED : 0);
    }
    for (u32 i = 0; i < 3 && e->bad[i] != NULL; i++) {
        place_run(p, e->id, e->bad[i], 1, method ? MQTT_FAULT_PROPERTY_REPEATED : e->bad_fault);
    }
}

static void test_places(void **state) {
    (void)state;
    u64 known = 0;
    for (size_t e = 0; e < ARRAY_LEN(table); e++) {
        known |= 1ull << table[e].id;
        for (size_t p = 0; p < ARRAY_LEN(places); p++) expectation_run(&table[e], &places[p]);
    }
    for (u32 id = 0; id < 0x80; id++) {
        bool exists = id < 64 && (known >> id & 1) != 0;
        assert_int_equal(mqtt_property_rule_of(id) != NULL, exists);
        if (exists) {
            assert_non_null(mqtt_property_rule_of(id)->name);
        } else {
            for (size_t p = 0; p < ARRAY_LEN(places); p++) {
                place_run(&places[p], id, "00", 1, MQTT_FAULT_PROPERTY_UNKNOWN);
            }
        }
    }
    assert_null(mqtt_property_rule_of(UINT32_MAX));
}

// A fault in a property names it.
static void test_named(void **state) {
    (void)state;
    static const struct { const char *packet; mqtt_fault fault; u32 id; } rows[] = {
        {"30(s't' (01 00 02 00000001))", MQTT_FAULT_NONE, 0},
        {"30(s't' (01 00 02 00000001 01 00))", MQTT_FAULT_PROPERTY_REPEATED, 0x01},
        {"30(s't' (01 00 11 00000001))", MQTT_FAULT_PROPERTY_MISPLACED, 0x11},
        {"30(s't' (01 00 23 0000))", MQTT_FAULT_TOPIC_ALIAS_ZERO, 0x23},
        {"30(s't' (01 00 ac02))", MQTT_FAULT_PROPERTY_UNKNOWN, 300},
        {"30(s't' (01 00 03 0001ff))", MQTT_FAULT_UTF8, 0x03},
        {"30(s't' (01 00 03 0005 'a'))", MQTT_FAULT_TRUNCATED, 0x03},
        {"30(s't#' (01 00))", MQTT_FAULT_TOPIC_WILDCARD, 0},
        {"36(s't' ())", MQTT_FAULT_PUBLISH_QOS, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        u8 bytes[128];
        const char *text = rows[i].packet;
        u32 len = row_assemble(&text, bytes);
        mqtt_codec codec = {MQTT_5, MQTT_FROM_CLIENT, 0, MQTT_PACKET_BYTES_MAX};
        mqtt_packet packet;
        memset(&packet, 0xa5, sizeof(packet));
        assert_int_equal(mqtt_parse(&codec, bytes, len, &packet), rows[i].fault);
        assert_int_equal(packet.fault_property, rows[i].id);
    }
}

// --- reason codes ---

typedef struct reason_row {
    u8 code;
    const char *client, *server; // A CONNACK, P PUBACK and PUBREC, R PUBREL and PUBCOMP, S, U, D, X
} reason_row;

static const reason_row reasons[] = {
    {0x00, "PRD", "APRSUDX"}, {0x01, "", "S"}, {0x02, "", "S"}, {0x04, "D", ""},
    {0x10, "", "P"}, {0x11, "", "U"}, {0x18, "X", "X"}, {0x19, "X", ""},
    {0x80, "PD", "APSUD"}, {0x81, "D", "AD"}, {0x82, "D", "AD"}, {0x83, "PD", "APSUD"},
    {0x84, "", "A"}, {0x85, "", "A"}, {0x86, "", "A"}, {0x87, "P", "APSUD"}, {0x88, "", "A"},
    {0x89, "", "AD"}, {0x8a, "", "A"}, {0x8b, "", "D"}, {0x8c, "", "AD"}, {0x8d, "", "D"},
    {0x8e, "", "D"}, {0x8f, "", "SUD"}, {0x90, "PD", "APD"}, {0x91, "P", "PSU"},
    {0x92, "R", "R"}, {0x93, "D", "D"}, {0x94, "D", "D"}, {0x95, "D", "AD"}, {0x96, "D", "D"},
    {0x97, "PD", "APSD"}, {0x98, "D", "D"}, {0x99, "PD", "APD"}, {0x9a, "", "AD"},
    {0x9b, "", "AD"}, {0x9c, "", "AD"}, {0x9d, "", "AD"}, {0x9e, "", "SD"}, {0x9f, "", "AD"},
    {0xa0, "", "D"}, {0xa1, "", "SD"}, {0xa2, "", "SD"},
};

static void test_reasons(void **state) {
    (void)state;
    static const char letters[16] = {
        [MQTT_CONNACK] = 'A', [MQTT_PUBACK] = 'P', [MQTT_PUBREC] = 'P', [MQTT_PUBREL] = 'R',
        [MQTT_PUBCOMP] = 'R', [MQTT_SUBACK] = 'S', [MQTT_UNSUBACK] = 'U',
        [MQTT_DISCONNECT] = 'D', [MQTT_AUTH] = 'X',
    };
    for (u32 code = 0; code < 256; code++) {
        const reason_row *row = NULL;
        for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
            if (reasons[i].code == code) row = &reasons[i];
        }
        bool named = strcmp(mqtt_reason_name(code), "unknown") != 0;
        assert_int_equal(named, row != NULL);
        for (u32 type = 0; type < 16; type++) {
            char letter = letters[type];
            bool client = row != NULL && letter != 0 && strchr(row->client, letter) != NULL;
            bool server = row != NULL && letter != 0 && strchr(row->server, letter) != NULL;
            assert_int_equal(mqtt_reason_allowed(code, type, MQTT_FROM_CLIENT), client);
            assert_int_equal(mqtt_reason_allowed(code, type, MQTT_FROM_SERVER), server);
        }
    }
    assert_false(mqtt_reason_allowed(1000, MQTT_DISCONNECT, MQTT_FROM_SERVER));
}

static void test_faults(void **state) {
    (void)state;
    for (u32 fault = 1; fault < MQTT_FAULTS_COUNT; fault++) {
        u8 reason = mqtt_fault_reason(fault);
        bool connect_only = reason == MQTT_REASON_UNSUPPORTED_VERSION ||
                            reason == MQTT_REASON_CLIENT_ID_INVALID;
        u32 type = connect_only ? MQTT_CONNACK : MQTT_DISCONNECT;
        assert_true(reason >= 0x80);
        assert_true(mqtt_reason_allowed(reason, type, MQTT_FROM_SERVER));
        assert_true(strlen(mqtt_fault_name(fault)) > 0 && strlen(mqtt_fault_text(fault)) > 0);
        for (u32 other = 0; other < fault; other++) {
            assert_string_not_equal(mqtt_fault_name(fault), mqtt_fault_name(other));
        }
    }
    assert_string_equal(mqtt_fault_name(MQTT_FAULTS_COUNT), "unknown");
    assert_int_equal(mqtt_fault_reason(1000), MQTT_REASON_UNSPECIFIED);
    assert_string_equal(mqtt_type_name(MQTT_AUTH), "AUTH");
    assert_string_equal(mqtt_type_name(0), "reserved");
    assert_string_equal(mqtt_type_name(16), "reserved");
}

static void test_connack_codes(void **state) {
    (void)state;
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_SUCCESS), 0);
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_UNSUPPORTED_VERSION), 1);
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_CLIENT_ID_INVALID), 2);
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_SERVER_BUSY), 3);
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_BAD_CREDENTIALS), 4);
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_BANNED), 5);
    assert_int_equal(mqtt_connack_code_of_reason(MQTT_REASON_MALFORMED), -1);
}

// --- building ---

static mqtt_bytes text_of(const char *text) {
    return (mqtt_bytes){(const u8 *)text, (u32)strlen(text)};
}

static void test_builder(void **state) {
    (void)state;
    u8 memory[64];
    mqtt_property_list list = {memory, sizeof(memory), 0, 0};
    assert_int_equal(mqtt_property_put_number(&list, MQTT_RETAIN_AVAILABLE, 1), 0);
    assert_int_equal(mqtt_property_put_number(&list, MQTT_RECEIVE_MAX, 0x1234), 0);
    assert_int_equal(mqtt_property_put_number(&list, MQTT_SESSION_EXPIRY, 0x01020304), 0);
    assert_int_equal(mqtt_property_put_number(&list, MQTT_SUBSCRIPTION_ID, 300), 0);
    assert_int_equal(mqtt_property_put_bytes(&list, MQTT_REASON_STRING, text_of("why")), 0);
    assert_int_equal(mqtt_property_put_pair(&list, text_of("k"), text_of("")), 0);
    static const u8 expected[] = {0x25, 1, 0x21, 0x12, 0x34, 0x11, 1, 2, 3, 4, 0x0b, 0xac, 2,
                                  0x1f, 0, 3, 'w', 'h', 'y', 0x26, 0, 1, 'k', 0, 0};
    mqtt_properties props = mqtt_property_list_end(&list);
    assert_int_equal(props.len, sizeof(expected));
    assert_memory_equal(props.data, expected, sizeof(expected));
    assert_true(mqtt_property_present(&props, MQTT_USER_PROPERTY));
    assert_false(mqtt_property_present(&props, MQTT_TOPIC_ALIAS));
    assert_int_equal(mqtt_property_number(&props, MQTT_SUBSCRIPTION_ID, 0), 300);
    // Errors leave the list as it was.
    u32 len = list.len;
    assert_int_equal(mqtt_property_put_number(&list, MQTT_QOS_MAX, 256), -EINVAL);
    assert_int_equal(mqtt_property_put_number(&list, MQTT_TOPIC_ALIAS, 65536), -EINVAL);
    assert_int_equal(mqtt_property_put_number(&list, MQTT_SUBSCRIPTION_ID, MQTT_VARINT_MAX + 1),
                     -EINVAL);
    mqtt_bytes longest = {memory, MQTT_STRING_BYTES_MAX + 1};
    assert_int_equal(mqtt_property_put_bytes(&list, MQTT_AUTH_DATA, longest), -EINVAL);
    assert_int_equal(mqtt_property_put_pair(&list, longest, longest), -EINVAL);
    list.capacity = list.len + 4;
    assert_int_equal(mqtt_property_put_number(&list, MQTT_SESSION_EXPIRY, 1), -ENOSPC);
    assert_int_equal(mqtt_property_put_bytes(&list, MQTT_REASON_STRING, text_of("ab")), -ENOSPC);
    assert_int_equal(list.len, len);
    assert_true(list.present == props.present);
    assert_int_equal(mqtt_property_put_bytes(&list, MQTT_REASON_STRING, text_of("a")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_faults),        cmocka_unit_test(test_connack_codes),
        cmocka_unit_test(test_builder),       cmocka_unit_test(test_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
