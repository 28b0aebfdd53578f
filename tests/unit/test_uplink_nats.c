// SPDX-License-Identifier: Apache-2.0
// test_uplink_nats.c: the NATS client protocol: what a server sends, cut at every byte, and what the client
// writes.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mqtt_property.h"
#include "uplink/nats_write.h"

#define PAYLOAD_MAX 1000u

// Parses all of it from memory of exactly that size; before the last byte nothing is taken and nothing is a
// fault.
static nats_op parse_whole(const char *text, u8 **memory) {
    u32 len = (u32)strlen(text), need;
    nats_op op;
    for (u32 cut = 0; cut < len; cut++) {
        u8 *part = malloc(MAX(cut, 1u));
        memcpy(part, text, cut);
        int result = nats_parse(part, cut, PAYLOAD_MAX, &op, &need);
        if (result != 0) fail_msg("%s cut at %u: %d", text, cut, result);
        assert_true(need > cut && need <= len);
        free(part);
    }
    *memory = malloc(len);
    memcpy(*memory, text, len);
    assert_int_equal(nats_parse(*memory, len, PAYLOAD_MAX, &op, &need), len);
    return op;
}

static void expect_text(nats_text t, const char *text) {
    assert_int_equal(t.len, strlen(text));
    assert_memory_equal(t.data, text, t.len);
}

static void test_operations(void **state) {
    (void)state;
    u8 *m;
    nats_op op = parse_whole("INFO {\"a\":1}\r\n", &m);
    assert_int_equal(op.verb, NATS_INFO);
    expect_text(op.text, "{\"a\":1}");
    free(m);
    op = parse_whole("ping\r\n", &m);
    assert_int_equal(op.verb, NATS_PING);
    free(m);
    op = parse_whole("PONG  \r\n", &m);
    assert_int_equal(op.verb, NATS_PONG);
    free(m);
    op = parse_whole("+OK\r\n", &m);
    assert_int_equal(op.verb, NATS_OK);
    free(m);
    op = parse_whole("-ERR 'Authorization Violation'\r\n", &m);
    assert_int_equal(op.verb, NATS_ERR);
    expect_text(op.text, "Authorization Violation");
    free(m);
}

static void test_messages(void **state) {
    (void)state;
    u8 *m;
    nats_op op = parse_whole("MSG a.b 7 5\r\nhello\r\n", &m);
    assert_int_equal(op.verb, NATS_MSG);
    expect_text(op.subject, "a.b");
    assert_null(op.reply.data);
    assert_int_equal(op.sid, 7);
    assert_int_equal(op.payload_len, 5);
    assert_memory_equal(op.payload, "hello", 5);
    free(m);
    op = parse_whole("MSG a\t7  _INBOX.1 0\r\n\r\n", &m);
    expect_text(op.reply, "_INBOX.1");
    assert_int_equal(op.payload_len, 0);
    free(m);
    op = parse_whole("HMSG a.b 9 r.r 21 24\r\nNATS/1.0\r\nA: b c \r\n\r\nxyz\r\n", &m);
    assert_int_equal(op.verb, NATS_HMSG);
    expect_text(op.reply, "r.r");
    assert_memory_equal(op.payload, "xyz", 3);
    assert_int_equal(nats_header_status(op.headers), 0);
    nats_text name, value;
    u32 at = 0;
    assert_true(nats_header_next(op.headers, &at, &name, &value));
    expect_text(name, "A");
    expect_text(value, "b c");
    assert_false(nats_header_next(op.headers, &at, &name, &value));
    free(m);
    op = parse_whole("HMSG _INBOX.x.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", &m);
    assert_int_equal(nats_header_status(op.headers), 503);
    assert_int_equal(op.payload_len, 0);
    free(m);
}

static void test_faults(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int fault;
    } rows[] = {
        {"HELLO\r\n", NATS_FAULT_VERB},       {"\r\n", NATS_FAULT_VERB},          {"PING\n", NATS_FAULT_LINE},
        {"\n", NATS_FAULT_LINE},              {"PING x\r\n", NATS_FAULT_FIELDS},   {"MSG a 1\r\n", NATS_FAULT_FIELDS},
        {"MSG a x 1\r\n", NATS_FAULT_FIELDS}, {"MSG a 1 -1\r\n", NATS_FAULT_FIELDS},
        {"MSG a 1 r 1 1\r\n", NATS_FAULT_FIELDS}, {"MSG a 1 1001\r\n", NATS_FAULT_TOO_LARGE},
        {"MSG a 1 99999999999999999999\r\n", NATS_FAULT_FIELDS}, {"HMSG a 1 5 4\r\n", NATS_FAULT_FIELDS},
        {"HMSG a 1 0 4\r\n", NATS_FAULT_FIELDS}, {"HMSG a 1 4\r\n", NATS_FAULT_FIELDS},
        {"HMSG a 1 b 3 4 5\r\n", NATS_FAULT_FIELDS}, {"MSG a 1 1\r\nxyz", NATS_FAULT_END},
    };
    nats_op op;
    u32 need;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int result = nats_parse((const u8 *)rows[i].text, (u32)strlen(rows[i].text), PAYLOAD_MAX, &op, &need);
        if (result != -rows[i].fault) fail_msg("%s: %d", rows[i].text, result);
        assert_string_not_equal(nats_fault_text(result), "unknown");
    }
    u8 *endless = malloc(NATS_LINE_BYTES_MAX);
    memset(endless, 'x', NATS_LINE_BYTES_MAX);
    assert_int_equal(nats_parse(endless, NATS_LINE_BYTES_MAX, PAYLOAD_MAX, &op, &need), -NATS_FAULT_LINE);
    free(endless);
}

static void expect_denied(const char *error, nats_denial denial, const char *subject) {
    char out[16];
    u32 len = 0, bytes = (u32)strlen(error);
    char *exact = malloc(bytes);
    memcpy(exact, error, bytes);
    assert_int_equal(nats_denied((nats_text){exact, bytes}, out, sizeof(out), &len), denial);
    if (denial != NATS_DENIED_NOTHING) expect_text((nats_text){out, len}, subject);
    free(exact);
}

static void test_denials(void **state) {
    (void)state;
    static const char publish[] = "Permissions Violation for Publish to ", subscribe[] =
        "Permissions Violation for Subscription to ";
    static const struct {
        const char *quoted, *subject; // NULL: can not be read
    } cases[] = {{"\"a.b\"", "a.b"}, {"\"a\\\"b\\\\\"", "a\"b\\"},
                 {"\"\\u200b.\\U0001F600\"", "\xe2\x80\x8b.\xf0\x9f\x98\x80"},
                 {"\"\\u00e9\\xff\\t\"", "\xc3\xa9\xff\t"}, {"\"0123456789abcdef\"", "0123456789abcdef"},
                 {"\"0123456789abcdefg\"", NULL}, {"\"a", NULL}, {"\"", NULL}, {"", NULL}, {"a", NULL}, {"\"\"", NULL},
                 {"\"\\", NULL}, {"\"\\q\"", NULL}, {"\"\\u12", NULL}, {"\"\\u12g4\"", NULL},
                 {"\"\\UFFFFFFFF\"", NULL}};
    for (u32 i = 0; i < ARRAY_LEN(cases); i++) {
        char text[128];
        bool read = cases[i].subject != NULL;
        snprintf(text, sizeof(text), "%s%s", publish, cases[i].quoted);
        expect_denied(text, read ? NATS_DENIED_PUBLISH : NATS_DENIED_NOTHING, cases[i].subject);
        snprintf(text, sizeof(text), "%s%s using queue \"q\"", subscribe, cases[i].quoted);
        if (read) expect_denied(text, NATS_DENIED_SUBSCRIBE, cases[i].subject);
    }
    expect_denied("permissions violation for publish to \"a\"", NATS_DENIED_PUBLISH, "a");
    expect_denied("Authorization Violation", NATS_DENIED_NOTHING, NULL);
    expect_denied("", NATS_DENIED_NOTHING, NULL);
}

static void test_json(void **state) {
    (void)state;
    static const char text[] = "{\"server_name\":\"n1\",\"max_payload\":1048576,\"headers\":true,"
                               "\"jetstream\":true,\"ldm\":true}";
    nats_info info;
    nats_puback ack;
    assert_int_equal(nats_info_parse((nats_text){text, sizeof(text) - 1}, &info), 0);
    assert_string_equal(info.server, "n1");
    assert_int_equal(info.max_payload, 1048576);
    assert_true(info.headers && info.jetstream && info.lame_duck && !info.tls_required);
    assert_int_equal(nats_info_parse((nats_text){"[]", 2}, &info), -EINVAL);
    assert_int_equal(nats_info_parse((nats_text){"{", 1}, &info), -EINVAL);
    assert_int_equal(nats_info_parse((nats_text){"{}", 2}, &info), 0);
#define ACK(literal) nats_puback_parse((const u8 *)(literal), sizeof(literal) - 1, &ack)
    assert_int_equal(ACK("{\"stream\":\"S\",\"seq\":3,\"duplicate\":true}"), 0);
    assert_true(ack.stored && ack.duplicate);
    assert_int_equal(ACK("{\"error\":{\"code\":503,\"err_code\":10077,"
                         "\"description\":\"maximum messages exceeded\"}}"), 0);
    assert_false(ack.stored);
    assert_int_equal(ack.err_code, 10077);
    assert_string_equal(ack.text, "maximum messages exceeded");
    assert_int_equal(ACK("{}"), -EINVAL);
    assert_int_equal(ACK(""), -EINVAL);
    assert_int_equal(ACK("ok"), -EINVAL);
}

static void test_connect(void **state) {
    (void)state;
    char out[1024];
    nats_login login = {"n", "us\"er", "pa\\ss", "", "", "", "", false};
    int len = nats_write_connect(&login, out, sizeof(out));
    assert_true(len > 0 && len == (int)strlen(out));
    assert_non_null(strstr(out, "\"user\":\"us\\\"er\",\"pass\":\"pa\\\\ss\""));
    assert_null(strstr(out, "auth_token"));
    assert_string_equal(out + len - 2, "\r\n");
    assert_int_equal(nats_write_connect(&login, out, 20), -ENOSPC);
    login = (nats_login){"n", "", "", "tok", "", "", "", false};
    assert_true(nats_write_connect(&login, out, sizeof(out)) > 0);
    assert_non_null(strstr(out, "\"auth_token\":\"tok\""));
    login = (nats_login){"n", "", "", "", "UKEY", "", "SIG", true};
    assert_true(nats_write_connect(&login, out, sizeof(out)) > 0);
    assert_non_null(strstr(out, "\"nkey\":\"UKEY\",\"sig\":\"SIG\""));
    assert_non_null(strstr(out, "\"tls_required\":true"));
    login.jwt = "a.b.c"; // in place of the key
    assert_true(nats_write_connect(&login, out, sizeof(out)) > 0);
    assert_non_null(strstr(out, "\"jwt\":\"a.b.c\",\"sig\":\"SIG\""));
    assert_null(strstr(out, "UKEY"));
}

// What is written is read back by the parser as the server would send it on: the sizes agree.
static void test_publish(void **state) {
    (void)state;
    u8 room[256];
    char head[1024], text[2048];
    mqtt_property_list props = {.data = room, .capacity = sizeof(room)};
#define BYTES(literal) ((mqtt_bytes){(const u8 *)(literal), sizeof(literal) - 1})
    mqtt_property_put_bytes(&props, MQTT_CONTENT_TYPE, BYTES("text/plain"));
    mqtt_property_put_bytes(&props, MQTT_CORRELATION_DATA, BYTES("\x01\x02\x03"));
    mqtt_property_put_pair(&props, BYTES("unit"), BYTES("C"));
    mqtt_property_put_pair(&props, BYTES("Nats-Rollup"), BYTES("all"));
    mqtt_property_put_pair(&props, BYTES("bad name"), BYTES("x"));
    mqtt_property_put_pair(&props, BYTES("split"), BYTES("a\r\nNats-Rollup: all"));
    mqtt_properties list = mqtt_property_list_end(&props);
    uplink_message m = {.props = list.data, .props_len = list.len, .props_present = list.present,
                        .payload = (const u8 *)"hello", .payload_len = 5, .retain = true};
    int len = nats_write_publish_head(&m, "a.b", 3, "_INBOX.1.7", "id-1", "gw", head, sizeof(head));
    assert_true(len > 0);
    assert_memory_equal(head, "HPUB a.b _INBOX.1.7 ", 20);
    snprintf(text, sizeof(text), "HMSG a.b 1 _INBOX.1.7%.*shello\r\n", len - 19, head + 19);
    u32 need;
    nats_op op;
    assert_int_equal(nats_parse((const u8 *)text, (u32)strlen(text), PAYLOAD_MAX, &op, &need), strlen(text));
    assert_memory_equal(op.payload, "hello", 5);
    assert_int_equal(op.payload_len, 5);
    static const char *const expected[][2] = {
        {"Nats-Msg-Id", "id-1"}, {UPLINK_VIA, "gw"}, {"Mqtt-Retain", "1"}, {"Mqtt-Content-Type", "text/plain"},
        {"Mqtt-Correlation-Data", "AQID"}, {"Mqtt-User-unit", "C"}, {"Mqtt-User-Nats-Rollup", "all"},
    };
    nats_text name, value;
    u32 at = 0;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        assert_true(nats_header_next(op.headers, &at, &name, &value));
        expect_text(name, expected[i][0]);
        expect_text(value, expected[i][1]);
    }
    assert_false(nats_header_next(op.headers, &at, &name, &value)); // nothing of the others got through
    for (u32 short_room = 0; short_room < (u32)len; short_room++) {
        assert_int_equal(nats_write_publish_head(&m, "a.b", 3, "_INBOX.1.7", "id-1", "gw", head, short_room), -ENOSPC);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_messages), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_denials),
        cmocka_unit_test(test_json),       cmocka_unit_test(test_connect),  cmocka_unit_test(test_publish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
