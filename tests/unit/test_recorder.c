// SPDX-License-Identifier: Apache-2.0
// test_recorder.c: what is read back from the flight recorder, and what counts as lost.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/recorder.h"

static recorder_record out[2 * LIMIT_RECORDER_EVENTS];

static void test_fields(void **state) {
    (void)state;
    recorder rec;
    u64 now = 123456789, next = 0, lost = 9;
    assert_int_equal(recorder_init(&rec, &now), 0);
    assert_int_equal(recorder_read(&rec, 0, out, 10, &next, &lost), 0);
    assert_int_equal(next, 0);
    assert_int_equal(lost, 0);
    recorder_add(&rec, REC_RECV, 7, 0xfedcba98u, -104, 3);
    now++;
    recorder_add(&rec, REC_CLOSE, UINT32_MAX, 0, INT32_MIN, UINT32_MAX);
    assert_int_equal(recorder_read(&rec, 0, out, 10, &next, &lost), 2);
    assert_int_equal(next, 2);
    assert_int_equal(lost, 0);
    assert_int_equal(out[0].time_ns, 123456789);
    assert_int_equal(out[0].event, REC_RECV);
    assert_int_equal(out[0].slot, 7);
    assert_int_equal(out[0].generation, 0xfedcba98u);
    assert_int_equal(out[0].result, -104);
    assert_int_equal(out[0].flags, 3);
    assert_int_equal(out[0].sequence, 1);
    assert_int_equal(out[1].time_ns, 123456790);
    assert_int_equal(out[1].slot, UINT32_MAX);
    assert_int_equal(out[1].result, INT32_MIN);
    assert_int_equal(out[1].flags, UINT32_MAX);
    assert_int_equal(out[1].sequence, 2);
    recorder_free(&rec);
}

static void test_following(void **state) {
    (void)state;
    recorder rec;
    u64 now = 1, next = 0, lost = 0, seen = 0;
    assert_int_equal(recorder_init(&rec, &now), 0);
    for (u32 i = 0; i < 10000; i++) {
        recorder_add(&rec, REC_SEND, i, 0, (i32)i, 0);
        if (i % 7 != 0) continue;
        size_t n;
        while ((n = recorder_read(&rec, next, out, 3, &next, &lost)) > 0) {
            for (size_t k = 0; k < n; k++) assert_int_equal(out[k].slot, seen + k);
            seen += n;
            assert_int_equal(lost, 0);
        }
    }
    assert_true(seen > 9990);
    recorder_free(&rec);
}

static void test_wrapped(void **state) {
    (void)state;
    recorder rec;
    u64 now = 1, next = 0, lost = 0;
    const u64 written = 3 * LIMIT_RECORDER_EVENTS + 5;
    assert_int_equal(recorder_init(&rec, &now), 0);
    for (u64 i = 1; i <= written; i++) recorder_add(&rec, REC_SEND, (u32)i, 0, 0, 0);
    size_t n = recorder_read(&rec, 0, out, ARRAY_LEN(out), &next, &lost);
    assert_true(n >= LIMIT_RECORDER_EVENTS * 15 / 16);
    assert_int_equal(n + lost, written);
    assert_int_equal(next, written);
    for (size_t k = 0; k < n; k++) assert_int_equal(out[k].slot, written - n + 1 + k);
    // Read in pieces from far behind: the first piece tells the loss.
    u64 after = 10;
    n = recorder_read(&rec, after, out, 2, &next, &lost);
    assert_int_equal(n, 2);
    assert_int_equal(next, out[1].sequence);
    assert_int_equal(after + lost + n, next);
    // A number of another life starts over.
    n = recorder_read(&rec, written + 100, out, ARRAY_LEN(out), &next, &lost);
    assert_int_equal(n + lost, written);
    recorder_free(&rec);
    recorder_free(&rec); // harmless
}

static void test_names(void **state) {
    (void)state;
    for (u32 event = 0; event < REC_EVENTS; event++) {
        assert_string_not_equal(recorder_event_name(event), "unknown");
        for (u32 other = 0; other < event; other++) {
            assert_string_not_equal(recorder_event_name(event), recorder_event_name(other));
        }
    }
    assert_string_equal(recorder_event_name(REC_SEND_WAIT), "send_wait");
    assert_string_equal(recorder_event_name(REC_EVENTS), "unknown");
    assert_string_equal(recorder_event_name(UINT32_MAX), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_following),
        cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
