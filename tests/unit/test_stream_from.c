// SPDX-License-Identifier: Apache-2.0
// test_stream_from.c: every form of `from`, and what is near one and is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/stream_query.h"
#include "store/stream_from.h"

#define NOW_MS 1767225600000ull // 2026-01-01T00:00:00Z

static stream_from_all parsed;

static bool parse(const char *text) {
    return stream_from_parse(text, (u32)strlen(text), NOW_MS, &parsed);
}

static void is(const char *text, stream_from_kind kind, u64 value) {
    if (!parse(text)) fail_msg("%s was refused", text);
    stream_from from = stream_from_of(&parsed, 0);
    if (from.kind != kind || from.value != value) {
        fail_msg("%s: kind %d value %llu", text, from.kind, (unsigned long long)from.value);
    }
}

static void test_forms(void **state) {
    (void)state;
    is("earliest", FROM_EARLIEST, 0);
    is("latest", FROM_LATEST, 0);
    is("1", FROM_OFFSET, 1);
    is("999999999999999999", FROM_OFFSET, 999999999999999999ull);
    is("-1h", FROM_TIME, NOW_MS - 3600000);
    is("-250ms", FROM_TIME, NOW_MS - 250);
    is("-36500d", FROM_TIME, 0); // before 1970
    is("@1767225600", FROM_TIME, NOW_MS);
    is("@1767225600.25", FROM_TIME, NOW_MS + 250);
    is("2026-01-01T00:00:00Z", FROM_TIME, NOW_MS);
    is("2026-01-01t00:00:00.5z", FROM_TIME, NOW_MS + 500);
    is("2026-01-01 02:00:00.123456789+02:00", FROM_TIME, NOW_MS + 123);
    is("2025-12-31T20:30:00-03:30", FROM_TIME, NOW_MS);
    is("1970-01-01T00:00:00Z", FROM_TIME, 0);
    is("2024-02-29T00:00:00Z", FROM_TIME, 1709164800000ull);
    is("2000-03-01T00:00:00Z", FROM_TIME, 951868800000ull);
    is("9999-12-31T23:59:59Z", FROM_TIME, 253402300799000ull);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "", "0", "00", "-", "-1", "-1y", "1h", "+1h", "--1h", "earliest ", " latest", "EARLIEST", "1.5", "1e3",
        "1000000000000000000", "@", "@-1", "@1.", "@1.2345", "@1x", "2026-01-01", "2026-01-01T00:00Z",
        "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00Zx", "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00", "26-01-01T00:00:00Z", "0:", ":1", "0:0", "64:1", "0:1,", "0:1,0:2", "0:1 ,1:2",
        "0:1,1", "a:1",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        if (parse(wrong[i])) fail_msg("'%s' was taken", wrong[i]);
    }
    assert_false(stream_from_parse("-1h\0", 4, NOW_MS, &parsed));
    char *longest = malloc(LIMIT_STREAM_FROM_BYTES + 2);
    assert_non_null(longest);
    memset(longest, '1', LIMIT_STREAM_FROM_BYTES + 1);
    assert_false(stream_from_parse(longest, LIMIT_STREAM_FROM_BYTES + 1, NOW_MS, &parsed));
    free(longest);
}

static void test_places(void **state) {
    (void)state;
    assert_true(parse("0:1234,7:88,63:1"));
    stream_from from = stream_from_of(&parsed, 0);
    assert_int_equal(from.kind, FROM_OFFSET);
    assert_int_equal(from.value, 1234);
    assert_int_equal(stream_from_of(&parsed, 7).value, 88);
    assert_int_equal(stream_from_of(&parsed, 63).value, 1);
    assert_int_equal(stream_from_of(&parsed, 1).kind, FROM_LATEST);
}

// --- the rest of a request ---

static http_request request_of(const http_param *params, u32 count) {
    http_request r;
    memset(&r, 0, sizeof(r));
    if (count > 0) memcpy(r.params, params, count * sizeof(*params));
    r.param_count = count;
    return r;
}

static void test_query(void **state) {
    (void)state;
    stream_query q;
    http_request r = request_of(NULL, 0);
    assert_null(stream_query_parse(&r, NOW_MS, &q));
    assert_int_equal(q.from.all.kind, FROM_EARLIEST);
    assert_int_equal(q.limit, 100);
    assert_int_equal(q.partition, -1);
    assert_false(q.follow);
    const http_param all[] = {{"from", "-1h"}, {"limit", "10000"}, {"wait", "5m"}, {"follow", "1"},
                              {"partition", "63"}};
    r = request_of(all, ARRAY_LEN(all));
    assert_null(stream_query_parse(&r, NOW_MS, &q));
    assert_int_equal(q.from.all.value, NOW_MS - 3600000);
    assert_int_equal(q.limit, 10000);
    assert_int_equal(q.wait_ms, 300000);
    assert_true(q.follow);
    assert_int_equal(q.partition, 63);
    const http_param wrong[] = {{"from", "soon"}, {"limit", "0"}, {"limit", "10001"}, {"wait", "5"}, {"wait", "301s"},
                                {"follow", "2"}, {"partition", "64"}, {"what", "1"}};
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) {
        r = request_of(&wrong[i], 1);
        if (stream_query_parse(&r, NOW_MS, &q) == NULL) fail_msg("%s=%s was taken", wrong[i].name, wrong[i].value);
    }
}

static void test_path(void **state) {
    (void)state;
    assert_int_equal(stream_path_parse("a").kind, STREAM_PATH_STREAM);
    stream_path path = stream_path_parse("a.b/messages");
    assert_int_equal(path.kind, STREAM_PATH_MESSAGES);
    assert_string_equal(path.name, "a.b");
    path = stream_path_parse("a/consumers/x y");
    assert_int_equal(path.kind, STREAM_PATH_CONSUMER);
    assert_string_equal(path.consumer, "x y");
    static const char *const wrong[] = {"/messages", "a/", "a/message", "a/messages/", "a/consumers", "a/consumers/",
                                        "a/consumers/x/y"};
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) assert_int_equal(stream_path_parse(wrong[i]).kind, STREAM_PATH_WRONG);
    char name[LIMIT_NAME_BYTES + 1];
    memset(name, 'n', LIMIT_NAME_BYTES);
    name[LIMIT_NAME_BYTES] = '\0';
    assert_int_equal(stream_path_parse(name).kind, STREAM_PATH_WRONG);
    assert_int_equal(stream_path_parse(name + 1).kind, STREAM_PATH_STREAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms), cmocka_unit_test(test_refused), cmocka_unit_test(test_places),
        cmocka_unit_test(test_query), cmocka_unit_test(test_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
