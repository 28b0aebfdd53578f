// SPDX-License-Identifier: Apache-2.0
// test_ops_http_parse.c: the request parser: whole, split at every byte, and beyond each of its bounds.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/http_parse.h"

// Feeds all bytes, `step` at a time; returns the last progress.
static http_progress feed_by(http_parser *p, const char *text, size_t len, size_t step, u32 *left) {
    http_progress progress = HTTP_NEED_MORE;
    for (size_t at = 0; at < len;) {
        u32 used, take = (u32)MIN(step, len - at);
        u8 *copy = malloc(take);
        memcpy(copy, text + at, take);
        progress = http_parser_feed(p, copy, take, &used);
        free(copy);
        at += used;
        *left = (u32)(len - at);
        if (progress != HTTP_NEED_MORE) return progress;
    }
    return progress;
}

static http_progress feed(http_parser *p, const char *text) {
    u32 left;
    return feed_by(p, text, strlen(text), strlen(text), &left);
}

static void expect_refused(const char *text, int status) {
    for (size_t step = 1; step <= strlen(text); step += 7) {
        http_parser p;
        u32 left;
        http_parser_init(&p);
        if (feed_by(&p, text, strlen(text), step, &left) != HTTP_REFUSED || p.status != status) {
            fail_msg("expected %d, got %d (%s) for: %.200s", status, p.status, p.why, text);
        }
        http_parser_free(&p);
    }
}

static void test_get_split_at_every_byte(void **state) {
    (void)state;
    static const char text[] = "GET /api/conns?peer=10.0.0.1%2F8&sort=bytes&x HTTP/1.1\r\nHost: localhost:9600 \r\n"
                               "X-Sluice-Admin: 1\r\nUser-Agent: test\r\n\r\nGET /next";
    for (size_t step = 1; step < sizeof(text); step++) {
        http_parser p;
        u32 left;
        http_parser_init(&p);
        assert_int_equal(feed_by(&p, text, sizeof(text) - 1, step, &left), HTTP_READY);
        const http_request *r = &p.request;
        assert_int_equal(r->method, HTTP_METHOD_GET);
        assert_int_equal(r->minor, 1);
        assert_true(r->keep_alive && r->has_host && r->admin_header);
        assert_string_equal(r->host, "localhost:9600");
        assert_string_equal(r->path, "/api/conns");
        assert_string_equal(http_param_get(r, "peer"), "10.0.0.1/8");
        assert_string_equal(http_param_get(r, "sort"), "bytes");
        assert_string_equal(http_param_get(r, "x"), "");
        assert_null(http_param_get(r, "y"));
        assert_int_equal(left, strlen("GET /next"));
        http_parser_free(&p);
    }
}

static void test_body_by_length_and_in_chunks(void **state) {
    (void)state;
    static const char *const texts[] = {
        "POST /api/publish?topic=a%20b+c HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world",
        "POST /api/publish?topic=a%20b+c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n",
    };
    for (u32 i = 0; i < ARRAY_LEN(texts); i++) {
        for (size_t step = 1; step <= strlen(texts[i]); step++) {
            http_parser p;
            u32 left;
            http_parser_init(&p);
            assert_int_equal(feed_by(&p, texts[i], strlen(texts[i]), step, &left), HTTP_READY);
            assert_int_equal(p.request.body_len, 11);
            assert_memory_equal(p.request.body, "hello world", 11);
            assert_string_equal(http_param_get(&p.request, "topic"), "a b c");
            assert_int_equal(left, 0);
            http_parser_free(&p);
        }
    }
}

static void test_next_request_on_the_same_connection(void **state) {
    (void)state;
    static const char text[] = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                               "\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    http_parser p;
    u32 used, total;
    http_parser_init(&p);
    assert_int_equal(http_parser_feed(&p, (const u8 *)text, sizeof(text) - 1, &used), HTTP_READY);
    assert_string_equal(p.request.path, "/a");
    http_parser_next(&p);
    assert_null(p.request.body);
    assert_false(p.started);
    total = used;
    assert_int_equal(http_parser_feed(&p, (const u8 *)text + total, sizeof(text) - 1 - total, &used), HTTP_READY);
    assert_string_equal(p.request.path, "/b");
    assert_int_equal(total + used, sizeof(text) - 1);
    http_parser_free(&p);
}

static void test_versions_and_keep_alive(void **state) {
    (void)state;
    static const struct {
        const char *text;
        u8 minor;
        bool keep;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1, true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 1, false},
        {"GET / HTTP/1.0\r\n\r\n", 0, false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 0, true},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        http_parser p;
        http_parser_init(&p);
        assert_int_equal(feed(&p, rows[i].text), HTTP_READY);
        assert_int_equal(p.request.minor, rows[i].minor);
        assert_int_equal(p.request.keep_alive, rows[i].keep);
        http_parser_free(&p);
    }
    expect_refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    expect_refused("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505);
    expect_refused("GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505);
}

static void test_upgrade_is_ignored(void **state) {
    (void)state;
    http_parser p;
    http_parser_init(&p);
    assert_int_equal(feed(&p, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
                     HTTP_READY);
    http_parser_free(&p);
    expect_refused("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

static void test_malformed(void **state) {
    (void)state;
    expect_refused("garbage\r\n\r\n", 400);
    expect_refused("GET\r\n\r\n", 400);
    expect_refused("GET / metrics HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect_refused("GET / HTTP/1.1\r\n\r\n", 400);                      // no Host
    expect_refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400); // two
    expect_refused("GET / HTTP/1.1\r\nHo st: a\r\n\r\n", 400);
    expect_refused("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400);
    expect_refused("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400);
    expect_refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n", 400);
    expect_refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400);
    expect_refused("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect_refused("GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect_refused("GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect_refused("GET /?a=%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect_refused("GET /?a=1&a=2 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect_refused("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

static void test_absolute_form(void **state) {
    (void)state;
    static const struct {
        const char *target, *host, *path;
    } rows[] = {
        {"http://10.0.0.1:9600/metrics?x=1", "10.0.0.1:9600", "/metrics"},
        {"http://10.0.0.1", "10.0.0.1", "/"},
        {"http://evil.example?x=1", "evil.example", "/"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        char text[256];
        http_parser p;
        http_parser_init(&p);
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", rows[i].target);
        assert_int_equal(feed(&p, text), HTTP_READY);
        assert_string_equal(p.request.host, rows[i].host);
        assert_string_equal(p.request.path, rows[i].path);
        http_parser_free(&p);
    }
}

// Each bound: exactly at it the request passes, one byte more is refused with its status.
static char *with_target(size_t target_len) {
    char *text = malloc(target_len + 64), *at = text;
    at += sprintf(at, "GET /");
    memset(at, 'a', target_len - 1);
    strcpy(at + target_len - 1, " HTTP/1.1\r\nHost: a\r\n\r\n");
    return text;
}

static char *with_headers(size_t bytes) {
    // "Host" + "a" and one long field.
    char *text = malloc(bytes + 128), *at = text;
    at += sprintf(at, "GET / HTTP/1.1\r\nHost: a\r\nX-Y: ");
    size_t value = bytes - strlen("Hosta") - strlen("X-Y");
    memset(at, 'v', value);
    strcpy(at + value, "\r\n\r\n");
    return text;
}

static void test_bounds(void **state) {
    (void)state;
    http_parser p;
    char *text = with_target(LIMIT_HTTP_URL_BYTES);
    http_parser_init(&p);
    assert_int_equal(feed(&p, text), HTTP_READY);
    http_parser_free(&p);
    free(text);
    text = with_target(LIMIT_HTTP_URL_BYTES + 1);
    expect_refused(text, 414);
    free(text);

    text = with_headers(LIMIT_HTTP_HEADER_BYTES);
    http_parser_init(&p);
    assert_int_equal(feed(&p, text), HTTP_READY);
    http_parser_free(&p);
    free(text);
    text = with_headers(LIMIT_HTTP_HEADER_BYTES + 1);
    http_parser_init(&p);
    assert_int_equal(feed(&p, text), HTTP_REFUSED);
    assert_int_equal(p.status, 431);
    http_parser_free(&p);
    free(text);
}

static void test_header_count(void **state) {
    (void)state;
    for (u32 count = LIMIT_HTTP_HEADERS; count <= LIMIT_HTTP_HEADERS + 1; count++) {
        char text[4096], *at = text;
        at += sprintf(at, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (u32 i = 1; i < count; i++) at += sprintf(at, "X: y\r\n");
        sprintf(at, "\r\n");
        http_parser p;
        http_parser_init(&p);
        bool fits = count <= LIMIT_HTTP_HEADERS;
        assert_int_equal(feed(&p, text), fits ? HTTP_READY : HTTP_REFUSED);
        if (!fits) assert_int_equal(p.status, 431);
        http_parser_free(&p);
    }
}

static void test_body_bound(void **state) {
    (void)state;
    char head[128];
    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %u\r\n\r\n", LIMIT_HTTP_BODY_BYTES + 1);
    expect_refused(head, 413);
    // In chunks the length is not announced: the bytes are counted.
    http_parser p;
    u32 used;
    char chunk[4096 + 8];
    memset(chunk, 'b', sizeof(chunk));
    memcpy(chunk, "1000\r\n", 6);
    memcpy(chunk + 6 + 4096, "\r\n", 2);
    http_parser_init(&p);
    assert_int_equal(feed(&p, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), HTTP_NEED_MORE);
    for (u32 i = 0; i < LIMIT_HTTP_BODY_BYTES / 4096; i++) {
        assert_int_equal(http_parser_feed(&p, (const u8 *)chunk, 6 + 4096 + 2, &used), HTTP_NEED_MORE);
    }
    assert_int_equal(p.request.body_len, LIMIT_HTTP_BODY_BYTES);
    assert_int_equal(http_parser_feed(&p, (const u8 *)chunk, 6 + 4096 + 2, &used), HTTP_REFUSED);
    assert_int_equal(p.status, 413);
    http_parser_free(&p);
}

static void test_parameters(void **state) {
    (void)state;
    static const char *const known[] = {"a", "b", "c", "d", "e", NULL};
    http_parser p;
    u64 n = 7;
    bool yes = false;
    http_parser_init(&p);
    assert_int_equal(feed(&p, "GET /?a=12&b=-1&c&d=no&e=18446744073709551616&%66=1 HTTP/1.1\r\nHost: x\r\n\r\n"),
                     HTTP_READY);
    const http_request *r = &p.request;
    assert_true(http_param_u64(r, "a", 100, &n) && n == 12);
    assert_false(http_param_u64(r, "a", 11, &n));
    assert_false(http_param_u64(r, "b", 100, &n));
    assert_false(http_param_u64(r, "c", 100, &n));
    assert_false(http_param_u64(r, "e", UINT64_MAX, &n));
    assert_true(http_param_u64(r, "absent", 1, &n) && n == 12);
    assert_true(http_param_bool(r, "c", &yes) && yes);
    assert_false(http_param_bool(r, "d", &yes));
    assert_string_equal(http_param_unknown(r, known), "f");
    http_parser_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_split_at_every_byte),
        cmocka_unit_test(test_body_by_length_and_in_chunks),
        cmocka_unit_test(test_next_request_on_the_same_connection),
        cmocka_unit_test(test_versions_and_keep_alive),
        cmocka_unit_test(test_upgrade_is_ignored),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_absolute_form),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_header_count),
        cmocka_unit_test(test_body_bound),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
