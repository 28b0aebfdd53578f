// SPDX-License-Identifier: Apache-2.0
// test_ws_handshake.c: the WebSocket handshake: RFC 6455's own example, requests split at every byte, and each
// refusal with its status.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ws_handshake.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define HEAD "GET /mqtt HTTP/1.1\r\nHost: broker.example:8083\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define WS "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
#define GOOD HEAD UPGRADE WS "\r\n"

static const ws_policy plain = {.path = "/mqtt", .origins = ""};

static ws_handshake h;

static ws_progress feed_by(const ws_policy *policy, const char *text, size_t len, size_t step, size_t *left) {
    ws_progress progress = WS_NEED_MORE;
    ws_handshake_init(&h, policy);
    for (size_t at = 0; at < len && progress == WS_NEED_MORE;) {
        u32 used, take = (u32)MIN(step, len - at);
        u8 *copy = malloc(take);
        assert_non_null(copy);
        memcpy(copy, text + at, take);
        progress = ws_handshake_feed(&h, copy, take, &used);
        free(copy);
        at += used;
        if (left != NULL) *left = len - at;
    }
    return progress;
}

static void expect_ready(const ws_policy *policy, const char *text) {
    for (size_t step = 1; step <= strlen(text); step++) {
        if (feed_by(policy, text, strlen(text), step, NULL) != WS_READY) {
            fail_msg("step %zu: %d %s for: %s", step, h.status, h.why, text);
        }
    }
}

static void expect_refused(const ws_policy *policy, const char *text, int status) {
    for (size_t step = 1; step <= strlen(text); step += 3) {
        ws_progress progress = feed_by(policy, text, strlen(text), step, NULL);
        if (progress != WS_REFUSED || h.status != status) {
            fail_msg("step %zu: %d (%s), expected %d, for: %.300s", step, h.status, h.why, status, text);
        }
    }
    char out[WS_ANSWER_BYTES], line[32];
    u32 len = ws_handshake_answer(&h, out);
    assert_true(len < sizeof(out));
    snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
    assert_memory_equal(out, line, strlen(line));
}

static void test_the_standards_example(void **state) {
    (void)state;
    char accept[WS_ACCEPT_BYTES + 1] = "";
    ws_accept_make(KEY, strlen(KEY), accept);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    expect_ready(&plain, GOOD);
    char out[WS_ANSWER_BYTES];
    u32 len = ws_handshake_answer(&h, out);
    static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                 "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                                 "Sec-WebSocket-Protocol: mqtt\r\n\r\n";
    assert_int_equal(len, strlen(answer));
    assert_memory_equal(out, answer, len);
}

static void test_bytes_behind_it_are_left(void **state) {
    (void)state;
    static const char text[] = GOOD "\x82\x80....";
    size_t len = sizeof(text) - 1, request = strlen(GOOD);
    for (size_t step = 1; step <= len; step++) {
        size_t left;
        assert_int_equal(feed_by(&plain, text, len, step, &left), WS_READY);
        assert_int_equal(len - left, request);
    }
}

static void test_other_good_requests(void **state) {
    (void)state;
    expect_ready(&plain, "GET /mqtt?token=a/b HTTP/1.1\r\nHost: h\r\n" UPGRADE WS "\r\n");
    static const ws_policy any_path = {.path = "*", .origins = ""};
    expect_ready(&any_path, "GET /whatever HTTP/1.1\r\nHost: h\r\n" UPGRADE WS "\r\n");
    expect_ready(&plain, HEAD "upgrade: h2c, WebSocket\r\nconnection: keep-alive, upgrade\r\n" WS "\r\n");
    expect_ready(&plain, HEAD "Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" WS "\r\n");
    expect_ready(&plain, HEAD UPGRADE "Sec-WebSocket-Extensions: permessage-deflate\r\n" WS "\r\n");
    expect_ready(&plain, HEAD UPGRADE WS "Cookie: a=b\r\nX-Very-Long-Name-Of-A-Header-Field: x\r\n\r\n");
    expect_ready(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Protocol: mqttv3.1\r\nSec-WebSocket-Protocol: other, mqtt\r\n\r\n");
    assert_string_equal(h.subprotocol, "mqtt");
    expect_ready(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Protocol: mqttv3.1\r\n\r\n");
    assert_string_equal(h.subprotocol, "mqttv3.1");
}

static void test_refusals(void **state) {
    (void)state;
    expect_refused(&plain, "GET / HTTP/1.1\r\nHost: h\r\n" UPGRADE WS "\r\n", 404);
    expect_refused(&plain, "GET /mqtt/ HTTP/1.1\r\nHost: h\r\n" UPGRADE WS "\r\n", 404);
    expect_refused(&plain, "POST /mqtt HTTP/1.1\r\nHost: h\r\n" UPGRADE WS "\r\n", 405);
    expect_refused(&plain, "GET /mqtt HTTP/1.0\r\nHost: h\r\n" UPGRADE WS "\r\n", 505);
    expect_refused(&plain, "GET /mqtt HTTP/1.1\r\n" UPGRADE WS "\r\n", 400);
    expect_refused(&plain, HEAD "\r\n", 426);
    expect_refused(&plain, HEAD "Upgrade: websocket\r\n" WS "\r\n", 426);
    expect_refused(&plain, HEAD "Connection: upgrade\r\nUpgrade: h2c\r\n" WS "\r\n", 426);
    expect_refused(&plain, HEAD "Connection: upgrades\r\nUpgrade: websocket\r\n" WS "\r\n", 426);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 8\r\n\r\n", 426);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n", 426);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: short\r\n\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSE=!\r\n\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\n" WS "\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Protocol: chat\r\n\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE WS "Content-Length: 5\r\n\r\n", 400);
    expect_refused(&plain, HEAD UPGRADE WS "Transfer-Encoding: chunked\r\n\r\n", 400);
    expect_refused(&plain, "\x10\x13\x00\x04MQTT", 400); // MQTT without WebSocket
    expect_refused(&plain, "GET /mqtt HTTP/1.1\nHost h\n\n", 400);
}

static void test_bounds(void **state) {
    (void)state;
    static char text[2 * LIMIT_WS_REQUEST_BYTES];
    int at = sprintf(text, HEAD);
    for (u32 i = 0; i <= LIMIT_WS_HEADERS; i++) at += sprintf(text + at, "X: y\r\n");
    expect_refused(&plain, text, 431);
    at = sprintf(text, HEAD "X: ");
    memset(text + at, 'x', LIMIT_WS_REQUEST_BYTES);
    text[at + (int)LIMIT_WS_REQUEST_BYTES] = '\0';
    assert_int_equal(feed_by(&plain, text, strlen(text), 1000, NULL), WS_REFUSED);
    assert_int_equal(h.status, 431);
    at = sprintf(text, "GET /");
    memset(text + at, 'x', 300);
    strcpy(text + at + 300, " HTTP/1.1\r\n");
    expect_refused(&plain, text, 414);
    at = sprintf(text, HEAD "Origin: http://");
    memset(text + at, 'x', 300);
    strcpy(text + at + 300, "\r\n");
    expect_refused(&plain, text, 431);
}

static void test_origins(void **state) {
    (void)state;
    static const ws_policy list = {.path = "/mqtt", .origins = "https://app.example\nhttp://[::1]:3000\n"};
    static const ws_policy any = {.path = "/mqtt", .origins = "*\n"};
    static const ws_policy local = {.path = "/mqtt", .origins = "", .local = true};
    static const struct {
        const ws_policy *policy;
        const char *origin, *host;
        bool allowed;
    } rows[] = {
        {&plain, "https://broker.example", "broker.example:8083", true},
        {&plain, "https://BROKER.example:444", "broker.example", true},
        {&plain, "https://evil.example", "broker.example", false},
        {&plain, "https://broker.example.evil", "broker.example", false},
        {&plain, "null", "broker.example", false},
        {&plain, "", "", false},
        {&plain, "http://[2001:db8::1]:80", "[2001:db8::1]:8083", true},
        {&plain, "http://[2001:db8::1]", "[2001:db8::2]", false},
        {&list, "https://app.example", "broker.example", true},
        {&list, "HTTPS://app.EXAMPLE", "broker.example", true},
        {&list, "http://[::1]:3000", "x", true},
        {&list, "https://app.example:444", "broker.example", false},
        {&list, "https://broker.example", "broker.example", false},
        {&any, "https://evil.example", "broker.example", true},
        {&any, "null", "", true},
        {&local, "http://localhost:3000", "localhost:8083", true},
        {&local, "http://127.0.0.1", "127.0.0.1:8083", true},
        {&local, "http://[::1]:3", "[::1]:8083", true},
        {&local, "http://rebound.example", "rebound.example:8083", false},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        if (ws_origin_is_allowed(rows[i].policy, rows[i].origin, rows[i].host) != rows[i].allowed) {
            fail_msg("row %u: %s to %s", i, rows[i].origin, rows[i].host);
        }
    }
    expect_ready(&plain, HEAD UPGRADE WS "Origin: https://broker.example\r\n\r\n");
    expect_refused(&plain, HEAD UPGRADE WS "Origin: https://evil.example\r\n\r\n", 403);
    expect_refused(&plain, HEAD UPGRADE WS "Origin: null\r\n\r\n", 403);
}

static void test_a_copy_goes_on(void **state) {
    (void)state;
    u32 used;
    for (size_t cut = 1; cut < strlen(GOOD); cut++) {
        ws_handshake_init(&h, &plain);
        assert_int_equal(ws_handshake_feed(&h, (const u8 *)GOOD, (u32)cut, &used), WS_NEED_MORE);
        ws_handshake *copy = malloc(sizeof(*copy));
        assert_non_null(copy);
        *copy = h;
        memset(&h, 0xaa, sizeof(h));
        ws_handshake_moved(copy, &plain);
        assert_int_equal(ws_handshake_feed(copy, (const u8 *)GOOD + cut, (u32)(strlen(GOOD) - cut), &used), WS_READY);
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_standards_example),
        cmocka_unit_test(test_bytes_behind_it_are_left),
        cmocka_unit_test(test_other_good_requests),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_a_copy_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
