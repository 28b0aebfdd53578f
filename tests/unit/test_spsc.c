// SPDX-License-Identifier: Apache-2.0
// test_spsc.c: the worker ring on one thread: order, both ends, wrap.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/spsc.h"
#include "random.h"

static void test_empty_and_full(void **state) {
    (void)state;
    spsc ring;
    spsc_message m = {0};
    assert_int_equal(spsc_init(&ring, 4), 0);
    assert_true(spsc_is_empty(&ring));
    assert_false(spsc_pop(&ring, &m));
    for (u32 i = 0; i < 4; i++) assert_true(spsc_push(&ring, &(spsc_message){.arg = i}));
    assert_false(spsc_push(&ring, &(spsc_message){.arg = 9}));
    assert_int_equal(spsc_count(&ring), 4);
    assert_false(spsc_is_empty(&ring));
    for (u32 i = 0; i < 4; i++) {
        assert_true(spsc_pop(&ring, &m));
        assert_int_equal(m.arg, i);
    }
    assert_false(spsc_pop(&ring, &m));
    assert_true(spsc_is_empty(&ring));
    spsc_free(&ring);
    spsc_free(&ring); // harmless
}

static void test_one_slot(void **state) {
    (void)state;
    spsc ring;
    spsc_message m;
    assert_int_equal(spsc_init(&ring, 1), 0);
    for (u32 i = 0; i < 10; i++) {
        assert_true(spsc_push(&ring, &(spsc_message){.kind = i, .ptr = &ring, .extra = 7}));
        assert_false(spsc_push(&ring, &(spsc_message){.kind = 99}));
        assert_true(spsc_pop(&ring, &m));
        assert_int_equal(m.kind, i);
        assert_ptr_equal(m.ptr, &ring);
        assert_int_equal(m.extra, 7);
    }
    spsc_free(&ring);
}

static void test_random_against_counters(void **state) {
    (void)state;
    spsc ring;
    u64 seed = 11, pushed = 0, popped = 0;
    assert_int_equal(spsc_init(&ring, 64), 0);
    for (u32 step = 0; step < 200000; step++) {
        spsc_message m = {.extra = pushed};
        if (random_below(&seed, 2) == 0) {
            bool taken = spsc_push(&ring, &m);
            assert_int_equal(taken, pushed - popped < 64);
            pushed += taken;
        } else {
            bool got = spsc_pop(&ring, &m);
            assert_int_equal(got, pushed > popped);
            if (got) assert_int_equal(m.extra, popped);
            popped += got;
        }
        assert_int_equal(spsc_count(&ring), pushed - popped);
        assert_int_equal(spsc_is_empty(&ring), pushed == popped);
    }
    spsc_free(&ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_and_full),
        cmocka_unit_test(test_one_slot),
        cmocka_unit_test(test_random_against_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
