// SPDX-License-Identifier: Apache-2.0
// test_ops_view.c: the small parts of the admin side: bounded text, ids, peer filters, states and reasons to be
// slow, the names a trace remembers, and the bytes and times that people read.
#include "test_ops_fake.h"

#include "ops/conn_id.h"
#include "ops/conn_view.h"
#include "ops/ctl_table.h"
#include "ops/text.h"
#include "ops/trace_names.h"

static void test_text_is_bounded(void **state) {
    (void)state;
    for (size_t max = 0; max < 3000; max += 61) {
        text t = text_make(max);
        size_t expected = 0;
        for (u32 i = 0; i < 100 && !t.failed; i++) {
            text_printf(&t, "%05u ", i * 7);
            if (!t.failed) expected += 6;
            assert_int_equal(t.len, expected);
            if (t.data != NULL) assert_int_equal(strlen(t.data), t.len); // also after a failure
        }
        assert_true(t.len <= max);
        assert_int_equal(t.failed, max < 600);
        size_t len = t.len;
        text_puts(&t, "");
        text_append(&t, "x", t.failed ? 1 : 0);
        assert_int_equal(t.len, len);
        text_reset(&t);
        assert_false(t.failed);
        assert_int_equal(t.len, 0);
        text_free(&t);
    }
}

static void test_time(void **state) {
    (void)state;
    char out[TEXT_TIME_BYTES];
    assert_string_equal(text_time(0, out), "1970-01-01T00:00:00.000000Z");
    assert_string_equal(text_time(1772366400ull * NS_PER_S + 1999, out), "2026-03-01T12:00:00.000001Z");
}

static void test_ids(void **state) {
    (void)state;
    static const char *const bad[] = {"", "x", "0x", "-1", "1 ", " 1", "1.2", "11112222333344445"};
    char out[CONN_ID_TEXT];
    u64 id;
    for (u64 v = 1; v != 0; v <<= 3) {
        assert_true(conn_id_parse(conn_id_print(v, out), &id) && id == v);
    }
    assert_true(conn_id_parse("FFFFffffFFFFffff", &id) && id == UINT64_MAX);
    assert_true(conn_id_parse("0x2a", &id) && id == 42);
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) assert_false(conn_id_parse(bad[i], &id));
}

static conn *v6_conn(void) {
    static conn c;
    static const u8 addr[16] = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x42};
    memset(&c, 0, sizeof(c));
    memcpy(c.peer_addr, addr, sizeof(addr));
    c.peer_family = AF_INET6;
    return &c;
}

static void test_peer_filters(void **state) {
    (void)state;
    static const char *const bad[] = {"", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "::/129", "name/8",
                                      "10.0.0.0/1000"};
    static const struct {
        const char *filter;
        bool v4, v6; // matches 10.0.0.9:1001 and 2001:db8::42
    } rows[] = {
        {"10.0.0.9", true, false},      {"10.0.0.8/31", true, false}, {"10.0.0.10/31", false, false},
        {"10.0.0.0/29", false, false},  {"0.0.0.0/0", true, false},   {"10.0.0.9:1001", true, false},
        {"10.0.0.", true, false},       {"10.0.1.", false, false},    {"2001:db8::/32", false, true},
        {"2001:db8::42", false, true},  {"::/0", true, true},         {"2001:db8::40/127", false, false},
        {"::ffff:10.0.0.9", true, false},
    };
    fake_device(0, 0, 1, 9);
    peer_filter f;
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) assert_false(peer_filter_parse(bad[i], &f));
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(peer_filter_parse(rows[i].filter, &f));
        bool v4 = peer_filter_matches(&f, fake_conn_table[0][0]), v6 = peer_filter_matches(&f, v6_conn());
        if (v4 != rows[i].v4 || v6 != rows[i].v6) fail_msg("%s: %d %d", rows[i].filter, v4, v6);
    }
    conn local = {.peer_family = AF_UNIX};
    assert_true(peer_filter_parse("::/0", &f) && !peer_filter_matches(&f, &local));
    assert_true(peer_filter_parse("unix", &f) && peer_filter_matches(&f, &local));
    fake_devices_free();
}

static void test_tls(void **state) {
    (void)state;
    conn *c = fake_device(0, 0, 1, 9);
    conn_view v;
    conn_view_take(&v, c, fake_workers[0].now_ns);
    assert_null(v.tls_suite);
    fake_tls_conn = c;
    fake_tls = (tls_view){.suite = "ECDHE-ECDSA-AES128-GCM", .identity = "device-7 and more", .identity_len = 8,
                          .resumed = true, .kernel_send = true};
    conn_view_take(&v, c, fake_workers[0].now_ns);
    fake_tls_conn = NULL;
    assert_string_equal(v.tls_suite, "ECDHE-ECDSA-AES128-GCM");
    assert_string_equal(v.tls_identity, "device-7");
    assert_true(v.tls_resumed && v.tls_kernel_send && !v.tls_kernel_receive);
    fake_devices_free();
}

static void test_states_and_slowness(void **state) {
    (void)state;
    conn *c = fake_device(0, 0, 1, 9);
    u64 now = fake_workers[0].now_ns;
    conn_view v;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_state_name(v.state), "open");
    assert_string_equal(conn_slow_name(v.slow), "");
    assert_true(v.timer_in_ns == UINT64_MAX);
    c->tail_used = 3;
    c->packet_started_ns = now - NS_PER_S / 2;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_state_name(v.state), "partial");
    assert_string_equal(conn_slow_name(v.slow), ""); // not yet
    c->packet_started_ns = now - 2 * NS_PER_S;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_slow_name(v.slow), "partial");
    c->io.armed = IO_ARMED_STARVED;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_slow_name(v.slow), "starved");
    c->io.armed = 0;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_slow_name(v.slow), "unarmed");
    c->flags = CONN_BLOCKED;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_state_name(v.state), "blocked");
    assert_string_equal(conn_slow_name(v.slow), "blocked");
    c->flags = CONN_CLOSING | CONN_BLOCKED;
    conn_view_take(&v, c, now);
    assert_string_equal(conn_state_name(v.state), "closing");
    // Every flag has a name, and only those that are set are told.
    u32 bit = 0, names = 0;
    while (conn_flag_next(0xffff, &bit) != NULL) names++;
    assert_int_equal(names, 15);
    bit = 0;
    assert_string_equal(conn_flag_next(CONN_DEAD, &bit), "dead");
    assert_null(conn_flag_next(CONN_DEAD, &bit));
    bit = 0;
    assert_string_equal(conn_flag_next(CONN_PROXY_HEADER, &bit), "proxy_header");
    fake_devices_free();
}

static void test_trace_names(void **state) {
    (void)state;
    trace_names t = {0};
    assert_null(trace_names_find(&t, 0, 1, 2));
    for (u32 i = 0; i < 20000; i++) assert_true(trace_names_put(&t, i % 3, i, i + 1, i, "peer"));
    assert_int_equal(t.count, 20000);
    for (u32 i = 0; i < 20000; i++) {
        const trace_name *n = trace_names_find(&t, i % 3, i, i + 1);
        assert_true(n != NULL && n->known && n->id == i);
        assert_null(trace_names_find(&t, (i + 1) % 3, i, i + 1));
        assert_null(trace_names_find(&t, i % 3, i, i));
    }
    assert_true(trace_names_put_unknown(&t, 0, 0, 1));
    assert_false(trace_names_find(&t, 0, 0, 1)->known);
    assert_int_equal(t.count, 20000); // replaced
    // Full: it starts over, and what was put last is there.
    for (u32 i = 0; i <= LIMIT_OPS_TRACE_CONNS; i++) assert_true(trace_names_put(&t, 9, i, 0, i, ""));
    assert_true(t.count <= LIMIT_OPS_TRACE_CONNS);
    assert_non_null(trace_names_find(&t, 9, LIMIT_OPS_TRACE_CONNS, 0));
    trace_names_free(&t);
}

static void test_units(void **state) {
    (void)state;
    static const struct {
        u64 bytes;
        const char *text;
    } sizes[] = {{0, "0"}, {1023, "1023"}, {1024, "1.0k"}, {10240, "10k"}, {1u << 20, "1.0M"}, {5ull << 40, "5.0T"}};
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "0us"},     {0.00025, "250us"}, {0.25, "250ms"},  {2.5, "2.5s"},
                 {61, "1m01s"},  {3720, "1h02m"},    {90000, "1d01h"}};
    char out[CTL_UNIT_BYTES];
    for (u32 i = 0; i < ARRAY_LEN(sizes); i++) assert_string_equal(ctl_bytes(sizes[i].bytes, out), sizes[i].text);
    for (u32 i = 0; i < ARRAY_LEN(times); i++) assert_string_equal(ctl_duration(times[i].seconds, out), times[i].text);
    char hostile[] = "a\033[2J\nb\x7f";
    ctl_clean(hostile);
    assert_string_equal(hostile, "a?[2J?b?");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(test_text_is_bounded), T(test_time),
        T(test_ids),             T(test_peer_filters),
        T(test_tls), T(test_states_and_slowness), T(test_trace_names),
        T(test_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
