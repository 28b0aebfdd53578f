// SPDX-License-Identifier: Apache-2.0
// test_mqtt_subscribe.c: SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, topic filters and shared
// subscriptions against the normative statements of MQTT 5.0 and 3.1.1 (marked 3.1.1/...).
#include "mqtt_rows.h"
#include "proto/mqtt_text.h"

static void test_subscribe(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.8.1-1", 5, C, 0, "82(0001 () s'a' 00)"},
        {"MQTT-3.8.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "80(0001 () s'a' 00)"},
        {"MQTT-3.8.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "83(0001 () s'a' 00)"},
        {"3.1.1/MQTT-3.8.1-1", 4, C, MQTT_FAULT_FLAGS_RESERVED, "8a(0001 s'a' 00)"},
        {"3.1 sends a SUBSCRIBE again with DUP", 3, C, 0, "8a(0001 s'a' 00)"},
        {"from a server", 5, S, MQTT_FAULT_DIRECTION, "82(0001 () s'a' 00)"},
        {"MQTT-2.2.1-3", 5, C, MQTT_FAULT_PACKET_ID_ZERO, "82(0000 () s'a' 00)"},
        {"3.1.1/MQTT-2.3.1-1", 4, C, MQTT_FAULT_PACKET_ID_ZERO, "82(0000 s'a' 00)"},
        {"MQTT-3.8.3-1", 5, C, MQTT_FAULT_UTF8, "82(0001 () 0001 ff 00)"},
        {"3.1.1/MQTT-3.8.3-1", 4, C, MQTT_FAULT_UTF8, "82(0001 0001 ff 00)"},
        {"MQTT-4.7.3-2", 5, C, MQTT_FAULT_UTF8, "82(0001 () 0002 6100 00)"},
        {"MQTT-3.8.3-2", 5, C, MQTT_FAULT_NO_FILTERS, "82(0001 ())"},
        {"3.1.1/MQTT-3.8.3-3", 4, C, MQTT_FAULT_NO_FILTERS, "82(0001)"},
        {"3.1", 3, C, MQTT_FAULT_NO_FILTERS, "82(0001)"},
        {"section 3.8.3.1: QoS 3", 5, C, MQTT_FAULT_SUBSCRIBE_QOS, "82(0001 () s'a' 03)"},
        {"3.1.1/MQTT-3-8.3-4", 4, C, MQTT_FAULT_SUBSCRIBE_QOS, "82(0001 s'a' 03)"},
        {"3.1.1/MQTT-3-8.3-4", 4, C, MQTT_FAULT_OPTIONS_RESERVED, "82(0001 s'a' 04)"},
        {"3.1.1/MQTT-3-8.3-4", 4, C, MQTT_FAULT_OPTIONS_RESERVED, "82(0001 s'a' 81)"},
        {"MQTT-3.8.3-3", 5, C, 0, "82(0001 () s'a' 05)"},
        {"MQTT-3.8.3-4", 5, C, MQTT_FAULT_NO_LOCAL_SHARED, "82(0001 () s'$share/g/a' 04)"},
        {"MQTT-3.8.3-4", 5, C, MQTT_FAULT_NO_LOCAL_SHARED, "82(0001 () s'a' 00 s'$share/g/a' 06)"},
        {"MQTT-3.8.3-5", 5, C, MQTT_FAULT_OPTIONS_RESERVED, "82(0001 () s'a' 40)"},
        {"MQTT-3.8.3-5", 5, C, MQTT_FAULT_OPTIONS_RESERVED, "82(0001 () s'a' 80)"},
        {"section 3.8.3.1: retain handling 3", 5, C, MQTT_FAULT_RETAIN_HANDLING,
         "82(0001 () s'a' 30)"},
        {"section 3.8.3.1", 5, C, 0, "82(0001 () s'a' 10 s'b' 2e s'a' 00)"},
        {"options cut", 5, C, MQTT_FAULT_TRUNCATED, "82(0001 () s'a')"},
        {"filter cut", 4, C, MQTT_FAULT_TRUNCATED, "82(0001 s'a' 01 0003 'bc')"},
        {"one byte of a filter", 4, C, MQTT_FAULT_TRUNCATED, "82(0001 s'a' 01 00)"},
        {"subscription identifier", 5, C, 0, "82(0001 (0b 01) s'a' 00)"},
        {"subscription identifier 0", 5, C, MQTT_FAULT_PROPERTY_VALUE, "82(0001 (0b 00) s'a' 00)"},
        {"subscription identifier twice", 5, C, MQTT_FAULT_PROPERTY_REPEATED,
         "82(0001 (0b 01 0b 02) s'a' 00)"},
        {"largest identifier", 5, C, 0, "82(0001 (0b ffffff7f 26 s'k' s'v') s'a' 00)"},
        {"more levels than the limit are marked, no fault", 5, C, 0, "82(0001 () 0080 2f*128 00)"},
    };
    ROWS_RUN(rows);
}

static void test_filters(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-4.7.3-1", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'' 00)"},
        {"3.1.1/MQTT-4.7.3-1", 4, C, MQTT_FAULT_FILTER, "82(0001 s'' 00)"},
        {"MQTT-4.7.1-1", 5, C, 0, "82(0001 () s'#' 00 s'a/#' 00 s'/#' 00)"},
        {"MQTT-4.7.1-1", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'a#' 00)"},
        {"MQTT-4.7.1-1", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'a/#/b' 00)"},
        {"MQTT-4.7.1-1", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'#/' 00)"},
        {"3.1.1/MQTT-4.7.1-2", 4, C, MQTT_FAULT_FILTER, "82(0001 s'a/b#' 00)"},
        {"MQTT-4.7.1-2", 5, C, 0, "82(0001 () s'+' 00 s'+/a/+' 00 s'/+' 00 s'+/#' 00)"},
        {"MQTT-4.7.1-2", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'a+' 00)"},
        {"MQTT-4.7.1-2", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'+a' 00)"},
        {"MQTT-4.7.1-2", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'a/b+/c' 00)"},
        {"MQTT-4.7.1-2", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'++' 00)"},
        {"3.1.1/MQTT-4.7.1-3", 4, C, MQTT_FAULT_FILTER, "82(0001 s'a+/b' 00)"},
        {"one bad filter among good ones", 5, C, MQTT_FAULT_FILTER, "82(0001 () s'a' 00 s'b+' 00)"},
        {"MQTT-4.8.2-1", 5, C, 0, "82(0001 () s'$share/g/a/+/#' 01)"},
        {"MQTT-4.8.2-1", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share//a' 00)"},
        {"MQTT-4.8.2-2", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share/g+/a' 00)"},
        {"MQTT-4.8.2-2", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share/#/a' 00)"},
        {"MQTT-4.8.2-2", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share/g' 00)"},
        {"MQTT-4.8.2-2", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share/g/' 00)"},
        {"MQTT-4.8.2-2", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share/' 00)"},
        {"MQTT-4.8.2-2", 5, C, MQTT_FAULT_SHARE, "82(0001 () s'$share/g/a+' 00)"},
        {"not shared: no second slash in the prefix", 5, C, 0, "82(0001 () s'$share' 04)"},
        {"3.1.1: an ordinary filter", 4, C, 0, "82(0001 s'$share//a' 00 s'$share/g' 00)"},
        {"3.1.1: an ordinary filter, and a bad one", 4, C, MQTT_FAULT_FILTER,
         "82(0001 s'$share/g/a+' 00)"},
        {"MQTT-3.10.1-1", 5, C, 0, "a2(0001 () s'a' s'b/#')"},
        {"MQTT-3.10.1-1", 5, C, MQTT_FAULT_FLAGS_RESERVED, "a0(0001 () s'a')"},
        {"3.1.1/MQTT-3.10.1-1", 4, C, MQTT_FAULT_FLAGS_RESERVED, "a0(0001 s'a')"},
        {"3.1", 3, C, 0, "aa(0001 s'a')"},
        {"MQTT-3.10.3-1", 5, C, MQTT_FAULT_UTF8, "a2(0001 () 0001 c3)"},
        {"MQTT-3.10.3-2", 5, C, MQTT_FAULT_NO_FILTERS, "a2(0001 ())"},
        {"3.1.1/MQTT-3.10.3-2", 4, C, MQTT_FAULT_NO_FILTERS, "a2(0001)"},
        {"MQTT-2.2.1-3", 5, C, MQTT_FAULT_PACKET_ID_ZERO, "a2(0000 () s'a')"},
        {"UNSUBSCRIBE has no identifier", 5, C, MQTT_FAULT_PROPERTY_MISPLACED,
         "a2(0001 (0b 01) s'a')"},
        {"UNSUBSCRIBE of a malformed filter", 5, C, MQTT_FAULT_FILTER, "a2(0001 () s'a#')"},
        {"UNSUBSCRIBE of a shared filter", 5, C, 0, "a2(0001 (26 s'k' s'v') s'$share/g/a')"},
    };
    ROWS_RUN(rows);
}

static void test_answers(void **state) {
    (void)state;
    static const mqtt_row rows[] = {
        {"MQTT-3.9.3-2", 5, S, 0, "90(0001 () 00 01 02 80 9e a2)"},
        {"MQTT-3.9.3-2", 5, S, MQTT_FAULT_REASON, "90(0001 () 00 03)"},
        {"MQTT-3.9.3-2", 5, S, MQTT_FAULT_REASON, "90(0001 () 11)"},
        {"3.1.1/MQTT-3.9.3-2", 4, S, 0, "90(0001 00 01 02 80)"},
        {"3.1.1/MQTT-3.9.3-2", 4, S, MQTT_FAULT_REASON, "90(0001 87)"},
        {"3.1.1/MQTT-3.9.3-2", 4, S, MQTT_FAULT_REASON, "90(0001 03)"},
        {"no code", 5, S, MQTT_FAULT_NO_REASONS, "90(0001 ())"},
        {"no code", 4, S, MQTT_FAULT_NO_REASONS, "90(0001)"},
        {"properties", 5, S, 0, "90(0001 (1f s'why' 26 s'a' s'b') 87)"},
        {"from a client", 5, C, MQTT_FAULT_DIRECTION, "90(0001 () 00)"},
        {"packet identifier", 5, S, MQTT_FAULT_PACKET_ID_ZERO, "90(0000 () 00)"},
        {"MQTT-3.11.3-2", 5, S, 0, "b0(0001 () 00 11 80 8f)"},
        {"MQTT-3.11.3-2", 5, S, MQTT_FAULT_REASON, "b0(0001 () 01)"},
        {"no code", 5, S, MQTT_FAULT_NO_REASONS, "b0(0001 ())"},
        {"3.1.1 section 3.11: no payload", 4, S, 0, "b0(0001)"},
        {"3.1.1 section 3.11: no payload", 4, S, MQTT_FAULT_TRAILING, "b0(0001 00)"},
    };
    ROWS_RUN(rows);
}

static void test_walk(void **state) {
    (void)state;
    u8 bytes[4096];
    mqtt_packet p = row_parse(
        5, C, "82(0102 (0b 81 01) s'a/b' 00 s'$share/grp/+/x' 2a s'/' 1e 0081 2f*129 01)", bytes);
    const mqtt_filters *filters = &p.subscribe.filters;
    assert_int_equal(p.subscribe.packet_id, 0x0102);
    assert_int_equal(mqtt_property_number(&p.subscribe.props, MQTT_SUBSCRIPTION_ID, 0), 129);
    assert_int_equal(filters->count, 4);
    cursor at = mqtt_filters_begin(filters);
    mqtt_filter f;
    assert_true(mqtt_filter_next(filters, &at, &f));
    assert_bytes(f.text, "a/b");
    assert_bytes(f.filter, "a/b");
    assert_null(f.share.data);
    assert_false(f.no_local || f.retain_as_published || f.too_deep);
    assert_true(mqtt_filter_next(filters, &at, &f));
    assert_bytes(f.text, "$share/grp/+/x");
    assert_bytes(f.share, "grp");
    assert_bytes(f.filter, "+/x");
    assert_int_equal(f.qos, 2);
    assert_true(!f.no_local && f.retain_as_published);
    assert_int_equal(f.retain_handling, 2);
    assert_true(mqtt_filter_next(filters, &at, &f));
    assert_bytes(f.filter, "/");
    assert_true(f.no_local && f.retain_as_published);
    assert_int_equal(f.retain_handling, 1);
    assert_true(mqtt_filter_next(filters, &at, &f));
    assert_true(f.too_deep);
    assert_false(mqtt_filter_next(filters, &at, &f));
    p = row_parse(4, C, "a2(0001 s'$share/g/a' s'$share/g')", bytes);
    at = mqtt_filters_begin(&p.subscribe.filters);
    assert_true(mqtt_filter_next(&p.subscribe.filters, &at, &f));
    assert_bytes(f.share, "g");
    assert_true(mqtt_filter_next(&p.subscribe.filters, &at, &f));
    assert_null(f.share.data);
    assert_bytes(f.filter, "$share/g");
    assert_int_equal(f.qos, 0);
}

// Every filter of up to six characters over four letters against the rules said differently: split
// at the slashes, a level with a wildcard is that wildcard alone, '#' is the last.
static void test_syntax_exhaustive(void **state) {
    (void)state;
    static const char letters[] = "a/+#";
    char text[7];
    for (u32 len = 1; len <= 6; len++) {
        for (u32 number = 0; number < 1u << (2 * len); number++) {
            for (u32 i = 0; i < len; i++) text[i] = letters[number >> (2 * i) & 3];
            text[len] = 0;
            bool expect = true, ended = false;
            for (const char *level = text; level != NULL && expect;) {
                const char *slash = strchr(level, '/');
                u32 level_len = slash == NULL ? (u32)strlen(level) : (u32)(slash - level);
                bool wild = memchr(level, '+', level_len) || memchr(level, '#', level_len);
                if (ended || (wild && level_len != 1)) expect = false;
                if (level_len > 0 && level[0] == '#') ended = true;
                level = slash == NULL ? NULL : slash + 1;
            }
            mqtt_bytes filter = {(const u8 *)text, len};
            if (mqtt_filter_syntax_is_valid(filter) != expect) fail_msg("filter '%s'", text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subscribe), cmocka_unit_test(test_filters),
        cmocka_unit_test(test_answers),   cmocka_unit_test(test_walk),
        cmocka_unit_test(test_syntax_exhaustive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
