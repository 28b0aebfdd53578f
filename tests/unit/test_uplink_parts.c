// SPDX-License-Identifier: Apache-2.0
// test_uplink_parts.c: what decides in an uplink, without I/O: the machine, the back-off, URLs, the window of
// messages on their way, and the ranges of the log that are still to be sent.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "uplink/backoff.h"
#include "uplink/endpoint.h"
#include "uplink/error.h"
#include "uplink/machine.h"
#include "uplink/ranges.h"
#include "uplink/resolve.h"
#include "uplink/window.h"

// --- the machine ---

static void test_machine_way_up(void **state) {
    static const struct {
        uplink_event event;
        uplink_state state;
        uplink_action action;
    } way[] = {
        {UPLINK_EV_START, UPLINK_RESOLVING, UPLINK_DO_RESOLVE}, {UPLINK_EV_RESOLVED, UPLINK_CONNECTING, UPLINK_DO_DIAL},
        {UPLINK_EV_CONNECTED, UPLINK_GREETING, UPLINK_DO_GREET}, {UPLINK_EV_GREETED, UPLINK_UP, UPLINK_DO_OPEN},
        {UPLINK_EV_DUE, UPLINK_UP, UPLINK_DO_CHECK},             {UPLINK_EV_FAILED, UPLINK_CLOSING, UPLINK_DO_CLOSE},
        {UPLINK_EV_CLOSED, UPLINK_WAITING, UPLINK_DO_CHOOSE},    {UPLINK_EV_DUE, UPLINK_RESOLVING, UPLINK_DO_RESOLVE},
        {UPLINK_EV_STOP, UPLINK_STOPPED, UPLINK_DO_GIVE_UP},
    };
    (void)state;
    uplink_state s = UPLINK_STOPPED;
    for (size_t i = 0; i < ARRAY_LEN(way); i++) {
        uplink_step step = uplink_machine(s, way[i].event);
        assert_int_equal(step.state, way[i].state);
        assert_int_equal(step.action, way[i].action);
        s = step.state;
    }
}

static bool is_open(u32 s) {
    return s == UPLINK_CONNECTING || s == UPLINK_GREETING || s == UPLINK_UP;
}

// Whatever happens in whatever order: no socket is left open, and each state is left by what must leave it.
static void test_machine_every_pair(void **state) {
    (void)state;
    for (u32 s = 0; s < UPLINK_STATE_COUNT; s++) {
        for (u32 e = 0; e < UPLINK_EV_COUNT; e++) {
            uplink_step step = uplink_machine(s, e);
            bool open = is_open(s), stays_open = is_open(step.state);
            assert_true(step.state < UPLINK_STATE_COUNT);
            // An open connection is left through a close only.
            if (open && !stays_open) assert_true(step.action == UPLINK_DO_CLOSE || step.action == UPLINK_DO_LEAVE);
            if (open && !stays_open) assert_true(step.state == UPLINK_CLOSING || step.state == UPLINK_STOPPING);
            // Only the socket's end leaves a closing state, but for being stopped meanwhile.
            if (s == UPLINK_STOPPING && e != UPLINK_EV_CLOSED) assert_int_equal(step.state, UPLINK_STOPPING);
            if (s == UPLINK_CLOSING && e != UPLINK_EV_CLOSED) {
                assert_true(step.state == UPLINK_CLOSING || step.state == UPLINK_STOPPING);
            }
            // A stop is never lost.
            if (e == UPLINK_EV_STOP) assert_true(step.state == UPLINK_STOPPED || step.state == UPLINK_STOPPING);
            // An error that a deadline stands for is named.
            if (step.error != 0) assert_int_equal(e, UPLINK_EV_DUE);
        }
        assert_string_not_equal(uplink_state_name(s), "unknown");
    }
    assert_int_equal(uplink_machine(UPLINK_CONNECTING, UPLINK_EV_DUE).error, UPLINK_ERROR_CONNECT_TIMEOUT);
    assert_int_equal(uplink_machine(UPLINK_GREETING, UPLINK_EV_DUE).error, UPLINK_ERROR_HELLO_TIMEOUT);
    assert_int_equal(uplink_machine(UPLINK_RESOLVING, UPLINK_EV_DUE).error, UPLINK_ERROR_RESOLVE_TIMEOUT);
    assert_string_equal(uplink_error_name(UPLINK_ERROR_ACK_TIMEOUT), "ack_timeout");
    assert_string_equal(uplink_error_name(999), "unknown");
}

// --- back-off ---

static void test_backoff(void **state) {
    (void)state;
    backoff a = {.random = 1}, b = {.random = 2};
    u64 limit = 500;
    u32 same = 0;
    for (u32 i = 0; i < 20; i++) {
        u64 wait = backoff_next_ms(&a, 500, 60000);
        assert_in_range(wait, limit / 2, limit);
        same += wait == backoff_next_ms(&b, 500, 60000);
        limit = MIN(limit * 2, 60000);
    }
    assert_true(same < 5); // two gateways do not go in step
    backoff_reset(&a);
    assert_in_range(backoff_next_ms(&a, 500, 60000), 250, 500);
    backoff far = {.failures = UINT32_MAX};
    assert_in_range(backoff_next_ms(&far, 1, 86400000), 43200000, 86400000);
    assert_int_equal(far.failures, UINT32_MAX);
}

// --- URLs ---

static void expect_url(const char *text, const char *host, u16 port, bool tls, uplink_kind kind) {
    endpoint e;
    assert_null(endpoint_parse(text, strlen(text), &e));
    assert_string_equal(e.host, host);
    assert_int_equal(e.port, port);
    assert_int_equal(e.tls, tls);
    assert_int_equal(e.kind, kind);
}

static void test_endpoint(void **state) {
    (void)state;
    expect_url("mqtt://broker.example", "broker.example", 1883, false, UPLINK_MQTT);
    expect_url("mqtt://broker.example:1884/", "broker.example", 1884, false, UPLINK_MQTT);
    expect_url("mqtts://10.0.0.1", "10.0.0.1", 8883, true, UPLINK_MQTT);
    expect_url("nats://[2001:db8::1]:4333", "2001:db8::1", 4333, false, UPLINK_NATS);
    expect_url("nats://[::1]", "::1", 4222, false, UPLINK_NATS);
    expect_url("tls://a-b_c.d", "a-b_c.d", 4222, true, UPLINK_NATS);
    static const char *const wrong[] = {
        "", "mqtt://", "mqtt:///", "mqtt://:1883", "http://a", "a", "mqtt://a:0", "mqtt://a:65536", "mqtt://a:1x",
        "mqtt://user@a", "mqtt://user:secret@a", "mqtt://a b", "mqtt://2001:db8::1", "mqtt://[::1", "mqtt://[::1]x",
        "mqtt://a/topic", "nats://a:123456",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        if (endpoint_check(wrong[i]) == NULL) fail_msg("%s was taken", wrong[i]);
    }
    char longest[ENDPOINT_HOST_BYTES + 16] = "mqtt://";
    memset(longest + 7, 'a', ENDPOINT_HOST_BYTES);
    assert_non_null(endpoint_check(longest));
    longest[7 + ENDPOINT_HOST_BYTES - 1] = '\0';
    assert_null(endpoint_check(longest));
}

static void test_literal_addresses(void **state) {
    (void)state;
    resolve_address a;
    assert_true(resolve_literal("192.0.2.1", 1883, &a));
    assert_int_equal(a.addr.ss_family, AF_INET);
    assert_true(resolve_literal("2001:db8::1", 1883, &a));
    assert_int_equal(a.addr.ss_family, AF_INET6);
    assert_false(resolve_literal("broker.example", 1883, &a));
    assert_false(resolve_literal("192.0.2", 1883, &a));
}

// --- the window ---

static void test_window_hands_out_rows_only(void **state) {
    (void)state;
    window w;
    window_entry e;
    assert_int_equal(window_init(&w, 4), 0);
    assert_null(window_oldest(&w));
    for (u64 i = 1; i <= 4; i++) window_push(&w, &(window_entry){.pos = i * 10});
    assert_true(window_is_full(&w));
    assert_true(window_ack(&w, 2));
    assert_true(window_ack(&w, 1));
    assert_false(window_pop(&w, &e)); // the oldest is missing
    assert_false(window_ack(&w, 1));  // twice
    assert_true(window_ack(&w, 0));
    for (u64 i = 1; i <= 3; i++) {
        assert_true(window_pop(&w, &e));
        assert_int_equal(e.pos, i * 10);
    }
    assert_false(window_pop(&w, &e));
    assert_int_equal(window_oldest(&w)->pos, 40);
    assert_false(window_ack(&w, 0)); // free
    assert_false(window_ack(&w, 4)); // no such place
    assert_int_equal(window_next_place(&w), 0);
    window_push(&w, &(window_entry){.pos = 50, .subject = 7});
    u32 place = 9;
    assert_true(window_find_subject(&w, 7, &place));
    assert_int_equal(place, 0);
    assert_false(window_find_subject(&w, 8, &place));
    assert_true(window_ack(&w, 0));
    assert_false(window_find_subject(&w, 7, &place)); // acknowledged
    assert_true(window_ack(&w, 3));
    assert_true(window_pop(&w, &e) && window_pop(&w, &e));
    assert_int_equal(e.pos, 50);
    window_clear(&w);
    window_free(&w);
}

// Against a simple model: any order of acknowledgements, many times around the ring.
static void test_window_random(void **state) {
    (void)state;
    window w;
    u64 random = 12345, pushed = 0, popped = 0;
    assert_int_equal(window_init(&w, 7), 0);
    while (popped < 20000) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        u32 place = (u32)(random >> 33) % 7;
        if ((random >> 60) % 2 == 0 && !window_is_full(&w)) window_push(&w, &(window_entry){.pos = ++pushed});
        else (void)window_ack(&w, place);
        for (window_entry e; window_pop(&w, &e);) assert_int_equal(e.pos, ++popped);
        assert_int_equal(w.count, pushed - popped);
    }
    window_free(&w);
}

// --- ranges ---

static void same_after_encoding(const uplink_ranges *r) {
    u8 bytes[RANGES_BYTES_MAX];
    uplink_ranges read;
    u32 len = ranges_encode(r, bytes);
    assert_int_equal(ranges_decode(&read, bytes, len), 0);
    assert_int_equal(read.count, r->count);
    for (u32 i = 0; i < r->count; i++) {
        assert_int_equal(read.at[i].after, r->at[i].after);
        assert_int_equal(read.at[i].to, r->at[i].to);
    }
    for (u32 cut = 0; cut < len; cut++) assert_int_not_equal(ranges_decode(&read, bytes, cut), 0);
}

static void test_ranges_oldest(void **state) {
    (void)state;
    uplink_ranges r;
    ranges_init(&r, 100);
    assert_null(ranges_find(&r, 100));
    assert_ptr_equal(ranges_find(&r, 101), &r.at[0]);
    ranges_sent(&r, 120);
    ranges_sent(&r, 130);
    assert_int_equal(ranges_low(&r), 100);
    ranges_done(&r, 120);
    assert_int_equal(ranges_low(&r), 120);
    ranges_rewind(&r); // 130 is sent again
    assert_int_equal(ranges_low(&r), 120);
    assert_non_null(ranges_find(&r, 130));
    same_after_encoding(&r);
}

static void test_ranges_newest(void **state) {
    (void)state;
    uplink_ranges r;
    ranges_init(&r, 100);
    assert_false(ranges_cut(&r, 101)); // nothing before it
    assert_true(ranges_cut(&r, 500));
    assert_true(ranges_cut(&r, 900));
    assert_int_equal(r.count, 3);
    assert_ptr_equal(ranges_backlog(&r), &r.at[1]);
    assert_int_equal(r.at[1].after, 499);
    assert_int_equal(r.at[1].to, 900);
    same_after_encoding(&r);
    ranges_sent(&r, 950); // new
    ranges_sent(&r, 500); // of the newest slice
    ranges_read(&r, &r.at[1]);
    assert_int_equal(r.count, 3); // something of it is on its way
    assert_ptr_equal(ranges_backlog(&r), &r.at[0]);
    ranges_done(&r, 950);
    ranges_done(&r, 500);
    assert_int_equal(r.count, 2);
    assert_int_equal(r.at[0].to, 500);
    assert_int_equal(ranges_open(&r)->after, 950);
    assert_null(ranges_find(&r, 700)); // done for good
    ranges_read(&r, &r.at[0]);
    assert_int_equal(r.count, 1);
    assert_null(ranges_backlog(&r));
    same_after_encoding(&r);
    for (u64 i = 0; i < RANGES_MAX - 1; i++) assert_true(ranges_cut(&r, 2000 + i * 10));
    assert_false(ranges_cut(&r, 5000)); // no room: left as it is
    same_after_encoding(&r);
}

static void test_ranges_refuses(void **state) {
    (void)state;
    uplink_ranges r;
    u8 bytes[RANGES_BYTES_MAX];
    ranges_init(&r, 5);
    u32 len = ranges_encode(&r, bytes);
    bytes[0] = 0;
    assert_int_not_equal(ranges_decode(&r, bytes, len), 0);
    bytes[0] = RANGES_MAX + 1;
    assert_int_not_equal(ranges_decode(&r, bytes, len), 0);
    bytes[0] = 1;
    bytes[16] = 0; // not open
    assert_int_not_equal(ranges_decode(&r, bytes, len), 0);
    assert_int_not_equal(ranges_decode(&r, NULL, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_way_up),
        cmocka_unit_test(test_machine_every_pair),
        cmocka_unit_test(test_backoff),
        cmocka_unit_test(test_endpoint),
        cmocka_unit_test(test_literal_addresses),
        cmocka_unit_test(test_window_hands_out_rows_only),
        cmocka_unit_test(test_window_random),
        cmocka_unit_test(test_ranges_oldest),
        cmocka_unit_test(test_ranges_newest),
        cmocka_unit_test(test_ranges_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
