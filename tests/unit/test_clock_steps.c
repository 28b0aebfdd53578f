// SPDX-License-Identifier: Apache-2.0
// test_clock_steps.c: the time of a record after the clock was set, once or several times, in one log and in several.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "broker/clock_steps.h"

#define DAY_MS (86400ll * 1000)
#define T (20000 * DAY_MS)

static u64 at(u32 log, u64 offset) {
    return (u64)log << 52 | offset;
}

static void add(clock_steps *s, u64 pos, u32 worker, u64 until_ms, i64 step_ms) {
    clock_steps_add(s, (clock_step){.pos = pos, .worker = worker, .until_ms = until_ms, .step_ms = step_ms});
}

static void test_forward(void **state) {
    (void)state;
    clock_steps s = {0};
    add(&s, at(1, 1000), 0, T, 400 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 999), T - 5000), T - 5000 + 400 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 1000), T - 5000), T - 5000);
    // Before it was seen, and after it was made.
    assert_int_equal(clock_steps_time(&s, at(1, 999), T + 400 * DAY_MS - 800), T + 400 * DAY_MS - 800);
}

static void test_back(void **state) {
    (void)state;
    clock_steps s = {0};
    add(&s, at(1, 1000), 0, T, -400 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 10), T - 5000), T - 5000 - 400 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 1001), T - 5000), T - 5000);
    assert_int_equal(clock_steps_time(&s, at(1, 999), T - 400 * DAY_MS + 700), T - 400 * DAY_MS + 700);
    // Never more than it is.
    assert_int_equal(clock_steps_time(&s, at(1, 10), T - 500 * DAY_MS), T - 500 * DAY_MS);
    clock_steps none = {0};
    add(&none, at(1, 1000), 0, DAY_MS, -2 * DAY_MS);
    assert_int_equal(clock_steps_time(&none, at(1, 10), DAY_MS), 0);
}

static void test_one_after_the_other(void **state) {
    (void)state;
    clock_steps s = {0};
    add(&s, at(1, 1000), 0, T, 3650 * DAY_MS);
    add(&s, at(1, 2000), 0, T + 3651 * DAY_MS, -3000 * DAY_MS);
    add(&s, at(1, 3000), 0, T + 652 * DAY_MS, 100 * DAY_MS);
    add(&s, at(1, 2000), 0, T + 3651 * DAY_MS, -3000 * DAY_MS); // told again by a checkpoint
    assert_int_equal(s.count, 3);
    assert_int_equal(clock_steps_time(&s, at(1, 1), T), T + 750 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 1500), T + 3650 * DAY_MS), T + 750 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 2500), T + 651 * DAY_MS), T + 751 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 3500), T + 752 * DAY_MS), T + 752 * DAY_MS);
}

static void test_several_logs(void **state) {
    (void)state;
    clock_steps s = {0};
    // Two workers see one step; then there are three, with logs 3, 4 and 5, and the second of them sees another.
    add(&s, at(1, 1000), 0, T, 40 * DAY_MS);
    add(&s, at(2, 500), 1, T, 40 * DAY_MS);
    add(&s, at(4, 700), 1, T + 60 * DAY_MS, 50 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(1, 999), T - 200 * DAY_MS), T - 110 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(2, 600), T + 41 * DAY_MS), T + 91 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(3, 1), T + 45 * DAY_MS), T + 45 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(4, 699), T + 45 * DAY_MS), T + 95 * DAY_MS);
    assert_int_equal(clock_steps_time(&s, at(5, 1), T + 45 * DAY_MS), T + 45 * DAY_MS);
    // Numbers begin anew after 4095.
    clock_steps far = {0};
    add(&far, at(2, 10), 1, T, 40 * DAY_MS);
    assert_int_equal(clock_steps_time(&far, at(4095, 1ull << 40), T), T + 40 * DAY_MS);
    assert_int_equal(clock_steps_time(&far, at(3, 1), T), T);
}

static void test_the_oldest_goes(void **state) {
    (void)state;
    clock_steps s = {0};
    for (u32 i = 1; i <= CLOCK_STEPS_MAX + 5; i++) add(&s, at(1, i * 10), 0, T + i * 1000, DAY_MS);
    assert_int_equal(s.count, CLOCK_STEPS_MAX);
    assert_int_equal(s.at[0].pos, at(1, 60));
    // A log may say anything.
    add(&s, UINT64_MAX, UINT32_MAX, UINT64_MAX, INT64_MIN + 1);
    (void)clock_steps_time(&s, 0, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward), cmocka_unit_test(test_back), cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_several_logs), cmocka_unit_test(test_the_oldest_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
