// SPDX-License-Identifier: Apache-2.0
// test_ops_http.c: the admin protocol on a connection that the test plays: answers, keep-alive, pipelining,
// back-pressure, timeouts, refusals, and who may ask.
#include "test_ops_fake.h"

static void test_answer_and_keep_alive(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    for (u32 i = 0; i < 3; i++) {
        fake_forget(f);
        assert_true(fake_say(f, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_int_equal(fake_status(f), 200);
        assert_non_null(strstr(f->out, "\r\nContent-Length: 19\r\n"));
        assert_non_null(strstr(f->out, "\r\nContent-Type: application/json\r\n"));
        assert_non_null(strstr(f->out, "\r\nConnection: keep-alive\r\n"));
        assert_non_null(strstr(f->out, "\r\nDate: "));
        assert_null(strstr(f->out, "Access-Control"));
        assert_string_equal(fake_body(f), "{\"status\":\"ready\"}\n");
    }
    assert_int_equal(f->closed, 0);
    fake_free(f);
}

static void test_close_when_asked(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    assert_false(fake_say(f, "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /ignored"));
    assert_int_equal(fake_status(f), 200);
    assert_non_null(strstr(f->out, "\r\nConnection: close\r\n"));
    assert_int_equal(f->closed, CLOSE_HTTP_DONE);
    fake_free(f);
}

static void test_head_has_no_body(void **state) {
    (void)state;
    static const char *const paths[] = {"/readyz", "/metrics", "/api/status", "/api/trace?follow=1", "/nope"};
    for (u32 i = 0; i < ARRAY_LEN(paths); i++) {
        fake_conn *f = fake_open(AF_UNIX);
        char request[128];
        snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        assert_true(fake_say(f, request));
        fake_deliver();
        assert_int_equal(fake_status(f), i == 4 ? 404 : 200);
        assert_string_equal(fake_body(f), "");
        fake_forget(f);
        assert_true(fake_say(f, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_int_equal(fake_status(f), 200);
        fake_free(f);
    }
}

static void test_not_found_and_not_allowed(void **state) {
    (void)state;
    static const struct {
        const char *method, *path;
        int status;
        const char *allow;
    } rows[] = {
        {"GET", "/nope", 404, NULL},
        {"GET", "/", 404, NULL},
        {"GET", "/api/conns/1/2", 404, NULL},
        {"GET", "/metrics/", 404, NULL},
        {"POST", "/metrics", 405, "Allow: GET, HEAD\r\n"},
        {"GET", "/api/reload", 405, "Allow: POST\r\n"},
        {"POST", "/api/conns/1", 405, "Allow: GET, HEAD, DELETE\r\n"},
        {"PUT", "/api/status", 405, "Allow: GET, HEAD\r\n"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        fake_conn *f = fake_open(AF_UNIX);
        char request[128];
        snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", rows[i].method,
                 rows[i].path);
        assert_true(fake_say(f, request));
        assert_int_equal(fake_status(f), rows[i].status);
        if (rows[i].allow != NULL) assert_non_null(strstr(f->out, rows[i].allow));
        fake_free(f);
    }
}

// Who may ask: over TCP a change needs the header, and everything but health and metrics a Host of ours.
static void test_guard(void **state) {
    (void)state;
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {"GET /api/status HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
        {"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 403},
        {"GET /api/status HTTP/1.1\r\nHost: \r\n\r\n", 403},
        {"GET /api/status HTTP/1.1\r\nHost: [::1\r\n\r\n", 403},
        {"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1:x\r\n\r\n", 403},
        {"GET http://evil.example/api/status HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
        {"GET /api/status HTTP/1.1\r\nHost: 10.1.2.3:9600\r\n\r\n", 200},
        {"GET /api/status HTTP/1.1\r\nHost: LocalHost\r\n\r\n", 200},
        {"GET /api/status HTTP/1.1\r\nHost: [2001:db8::1]:9600\r\n\r\n", 200},
        {"GET /api/status HTTP/1.1\r\nHost: gateway.lan:9600\r\n\r\n", 200},
        {"GET /api/status HTTP/1.0\r\n\r\n", 200},
        {"GET /readyz HTTP/1.1\r\nHost: any.example\r\n\r\n", 200},
        {"POST /api/publish?topic=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 403},
        {"POST /api/publish?topic=a HTTP/1.1\r\nHost: localhost\r\nX-Sluice-Admin: 0\r\nContent-Length: 0\r\n\r\n",
         403},
        {"POST /api/publish?topic=a HTTP/1.1\r\nHost: evil.example\r\nX-Sluice-Admin: 1\r\nContent-Length: 0\r\n\r\n",
         403},
        {"DELETE /api/conns/1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
        {"DELETE /api/conns/1 HTTP/1.1\r\nHost: localhost\r\nX-Sluice-Admin: 1\r\n\r\n", 404},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        fake_conn *f = fake_open(AF_INET);
        fake_say(f, rows[i].request);
        fake_deliver();
        if (fake_status(f) != rows[i].status) fail_msg("%s: %d", rows[i].request, fake_status(f));
        fake_free(f);
    }
    // The unix socket's permissions are its guard.
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "DELETE /api/conns/1 HTTP/1.1\r\nHost: whatever\r\n\r\n");
    fake_deliver();
    assert_int_equal(fake_status(f), 404);
    fake_free(f);
}

static u32 count_of(const char *text, const char *what) {
    u32 n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what)) n++;
    return n;
}

static void test_pipelined(void **state) {
    (void)state;
    static const char one[] = "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n";
    char all[sizeof(one) * 5 + 64] = "";
    for (u32 i = 0; i < 5; i++) strcat(all, one);
    for (size_t step = 1; step <= strlen(all); step++) {
        fake_conn *f = fake_open(AF_UNIX);
        for (size_t at = 0; at < strlen(all); at += step) fake_recv(f, all + at, MIN(step, strlen(all) - at));
        assert_int_equal(count_of(f->out, "HTTP/1.1 200 OK"), 5);
        fake_free(f);
    }
}

// Requests behind one that waits for a worker are kept and answered in their order.
static void test_pipelined_behind_a_wait(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "GET /api/conns HTTP/1.1\r\nHost: a\r\n\r\nGET /nope HTTP/1.1\r\nHost: a\r\n\r\nGET /rea");
    fake_say(f, "dyz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_string_equal(f->out, "");
    fake_deliver();
    const char *conns = strstr(f->out, "\"total\":0"), *nope = strstr(f->out, " 404 ");
    const char *ready = strstr(f->out, "ready");
    assert_true(conns != NULL && nope != NULL && ready != NULL && conns < nope && nope < ready);
    fake_free(f);
}

static void test_too_much_behind_a_wait(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "GET /api/conns HTTP/1.1\r\nHost: a\r\n\r\n");
    char junk[1000];
    memset(junk, 'x', sizeof(junk));
    for (u32 i = 0; i < 2 * LIMIT_HTTP_PIPELINE_BYTES / sizeof(junk); i++) {
        assert_true(fake_recv(f, junk, sizeof(junk)));
    }
    fake_deliver();
    assert_int_equal(fake_status(f), 200); // the one that was asked is answered
    assert_int_equal(f->closed, CLOSE_HTTP_DONE);
    fake_free(f);
}

static void test_continue(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "POST /api/publish?topic=a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(f->out, "HTTP/1.1 100 Continue\r\n\r\n");
    fake_forget(f);
    fake_say(f, "hi");
    fake_deliver();
    assert_int_equal(fake_status(f), 200);
    assert_string_equal(fake_published, "a=hi");
    fake_free(f);
}

static void test_refused_lingers(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    assert_true(fake_say(f, "garbage\r\n\r\n"));
    assert_int_equal(fake_status(f), 400);
    assert_non_null(strstr(f->out, "\r\nConnection: close\r\n"));
    size_t len = f->out_len;
    assert_true(fake_say(f, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")); // ignored
    assert_int_equal(f->out_len, len);
    fake_pass_ms(1000);
    assert_int_equal(f->closed, CLOSE_HTTP_DONE);
    fake_free(f);
}

static void test_slow_request(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_pass_ms(LIMIT_HTTP_IDLE_MS - 1000); // silence is allowed longer than a request may take
    assert_int_equal(f->closed, 0);
    assert_true(fake_say(f, "GET /readyz HTTP/1.1\r\n"));
    for (u32 i = 0; i < 8; i++) {
        fake_pass_ms(1000);
        assert_true(fake_say(f, "X: y\r\n")); // a byte now and then does not help
    }
    assert_string_equal(f->out, "");
    fake_pass_ms(2500);
    assert_int_equal(fake_status(f), 408);
    fake_pass_ms(1000);
    assert_int_equal(f->closed, CLOSE_HTTP_DONE);
    fake_free(f);
}

// A body may take as long as it needs while it comes at LIMIT_HTTP_BODY_RATE; headers may not, nor one that stops.
static void test_slow_body(void **state) {
    (void)state;
    char piece[LIMIT_HTTP_BODY_RATE + 1];
    memset(piece, 'x', LIMIT_HTTP_BODY_RATE);
    piece[LIMIT_HTTP_BODY_RATE] = '\0';
    for (u32 seconds = 15; seconds <= 60; seconds += 45) {
        fake_conn *f = fake_open(AF_UNIX);
        assert_true(fake_say(f, "POST /api/log HTTP/1.1\r\nHost: a\r\nContent-Length: 18000\r\n\r\n")); // 60 pieces
        for (u32 i = 0; i < seconds; i++) {
            fake_pass_ms(1000);
            assert_string_equal(f->out, "");
            assert_true(fake_say(f, piece));
        }
        if (seconds < 60) fake_pass_ms(LIMIT_HTTP_REQUEST_MS + 500);
        assert_true(seconds < 60 ? fake_status(f) == 408 : fake_status(f) != 408 && f->out_len > 0);
        fake_free(f);
    }
}

static void test_idle(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_pass_ms(LIMIT_HTTP_IDLE_MS / 2);
    fake_say(f, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_pass_ms(LIMIT_HTTP_IDLE_MS - 1000);
    assert_int_equal(f->closed, 0);
    fake_pass_ms(2000);
    assert_int_equal(f->closed, CLOSE_IDLE);
    fake_free(f);
}

// A client that reads slowly gets the answer page by page; never more than the high-water mark and a page wait.
static void test_pages_follow_the_reader(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    f->drains = false;
    for (u32 i = 0; i < 900; i++) fake_device(0, i, i + 1, (u8)i);
    fake_say(f, "GET /api/conns?limit=1000 HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_deliver();
    u32 rounds = 0;
    bool complete = false;
    while (!complete && rounds++ < 100) {
        assert_true(f->c.out_bytes < LIMIT_HTTP_OUT_HIGH_BYTES + 2 * LIMIT_HTTP_PAGE_BYTES);
        f->c.out_bytes = 0;
        proto_http.writable(&f->c);
        char *body = fake_unchunk(f, &complete);
        if (complete) {
            yyjson_doc *doc = yyjson_read(body, strlen(body), 0);
            assert_non_null(doc);
            assert_int_equal(yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "conns")), 900);
            yyjson_doc_free(doc);
        }
        free(body);
    }
    assert_true(complete && rounds >= 2);
    fake_devices_free();
    fake_free(f);
}

// Output that drained without a call of writable: the timer goes on.
static void test_pages_without_writable(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    f->drains = false;
    for (u32 i = 0; i < 900; i++) fake_device(0, i, i + 1, (u8)i);
    fake_say(f, "GET /api/conns?limit=1000 HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_deliver();
    bool complete = false;
    for (u32 i = 0; i < 50 && !complete; i++) {
        f->c.out_bytes = 0;
        fake_pass_ms(100);
        free(fake_unchunk(f, &complete));
    }
    assert_true(complete);
    fake_devices_free();
    fake_free(f);
}

static void test_send_refused_ends_it(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    f->drains = false;
    f->room = 1000;
    fake_say(f, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(f->closed, CLOSE_SLOW_CONSUMER);
    fake_free(f);
}

static void test_http_1_0_gets_no_chunks(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    assert_false(fake_say(f, "GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    assert_null(strstr(f->out, "Transfer-Encoding"));
    assert_non_null(strstr(f->out, "\r\nConnection: close\r\n"));
    assert_memory_equal(fake_body(f), "# HELP ", 7);
    assert_int_equal(f->closed, CLOSE_HTTP_DONE);
    fake_free(f);
}

static void test_followers_are_bounded(void **state) {
    (void)state;
    fake_conn *all[LIMIT_HTTP_FOLLOWERS + 1];
    for (u32 i = 0; i <= LIMIT_HTTP_FOLLOWERS; i++) {
        all[i] = fake_open(AF_UNIX);
        fake_say(all[i], "GET /api/log?follow=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_int_equal(fake_status(all[i]), i < LIMIT_HTTP_FOLLOWERS ? 200 : 503);
    }
    fake_free(all[0]); // a place is free again
    fake_forget(all[LIMIT_HTTP_FOLLOWERS]);
    fake_say(all[LIMIT_HTTP_FOLLOWERS], "GET /api/log?follow=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(fake_status(all[LIMIT_HTTP_FOLLOWERS]), 200);
    for (u32 i = 1; i <= LIMIT_HTTP_FOLLOWERS; i++) fake_free(all[i]);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(test_answer_and_keep_alive),   T(test_close_when_asked),
        T(test_head_has_no_body),        T(test_not_found_and_not_allowed),
        T(test_guard),                   T(test_pipelined),
        T(test_pipelined_behind_a_wait), T(test_too_much_behind_a_wait),
        T(test_continue),                T(test_refused_lingers),
        T(test_slow_request),            T(test_slow_body),
        T(test_idle),
        T(test_pages_follow_the_reader), T(test_pages_without_writable),
        T(test_send_refused_ends_it),    T(test_http_1_0_gets_no_chunks),
        T(test_followers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
