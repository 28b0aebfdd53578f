// SPDX-License-Identifier: Apache-2.0
// What init decides about its gateway child: the table state x event, driven with a clock of the test's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "init/shared.h"
#include "init/supervise_table.h"

#define MS(n) ((u64)(n) * NS_PER_MS)

static supervise sv;
static u64 now_ns;

static int fresh(void **state) {
    (void)state;
    memset(&sv, 0, sizeof(sv));
    now_ns = MS(1000);
    return 0;
}

static sv_action event(sv_event e) {
    return supervise_event(&sv, e, now_ns);
}

static sv_action crash(void) {
    sv.end = SV_END_CRASH;
    return event(SV_EXIT);
}

// Starts again, letting the pause that was asked for go by.
static void start_again(sv_action action) {
    if (action == SV_DO_START) return;
    assert_int_equal(sv.state, SV_PAUSING);
    assert_true(sv.timer_ms > 0);
    now_ns += MS(sv.timer_ms);
    assert_int_equal(event(SV_TIMER), SV_DO_START);
}

static void test_life(void **state) {
    (void)state;
    assert_int_equal(event(SV_READY), SV_DO_NOTHING);
    assert_int_equal(sv.state, SV_WAITING);
    assert_int_equal(event(SV_GO), SV_DO_START);
    assert_int_equal(event(SV_GO), SV_DO_NOTHING);
    assert_int_equal(event(SV_READY), SV_DO_NOTHING);
    assert_int_equal(sv.state, SV_SERVING);
    assert_int_equal(event(SV_STOP), SV_DO_TERM);
    assert_int_equal(sv.timer_ms, LIMIT_DRAIN_MS);
    assert_int_equal(event(SV_TIMER), SV_DO_KILL);
    assert_int_equal(crash(), SV_DO_DONE); // an end that was asked for is no crash
    assert_int_equal(sv.restarts, 0);
    assert_int_equal(sv.state, SV_STOPPED);
}

static void test_backoff(void **state) {
    static const u64 pauses[] = {0, 100, 1000, 2000, 4000, 8000, 8000, 8000};
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(pauses); i++) assert_int_equal(supervise_backoff_ms(i), pauses[i]);
    assert_int_equal(supervise_backoff_ms(UINT32_MAX), LIMIT_CRASH_BACKOFF_MS);
    event(SV_GO);
    event(SV_READY);
    assert_int_equal(crash(), SV_DO_START); // the first restart is immediate
    event(SV_READY);
    now_ns += MS(LIMIT_SETTLED_MS);
    assert_int_equal(crash(), SV_DO_START); // it had served: not in a row
    assert_int_equal(crash(), SV_DO_NOTHING);
    assert_int_equal(sv.timer_ms, 100);
    assert_int_equal(sv.restarts, 3);
}

static void test_crash_loop_restarts_the_machine(void **state) {
    (void)state;
    event(SV_GO);
    for (u32 i = 0; i < LIMIT_CRASHES_MAX; i++) start_again(crash());
    assert_int_equal(crash(), SV_DO_REBOOT);
    assert_int_equal(sv.state, SV_STOPPED);
    assert_int_equal(event(SV_STOP), SV_DO_DONE);
}

static void test_slow_crashes_are_no_loop(void **state) {
    (void)state;
    event(SV_GO);
    for (u32 i = 0; i < 50; i++) {
        now_ns += MS(LIMIT_CRASH_WINDOW_MS / LIMIT_CRASHES_MAX);
        start_again(crash());
    }
}

static void test_status_mode(void **state) {
    (void)state;
    sv.reboots = LIMIT_CRASH_REBOOTS;
    event(SV_GO);
    for (u32 i = 0; i < LIMIT_CRASHES_MAX; i++) start_again(crash());
    assert_int_equal(crash(), SV_DO_STATUS);
    assert_true(sv.status_mode);
    assert_int_equal(sv.timer_ms, LIMIT_STATUS_RETRY_MS);
    for (u32 i = 0; i < 20; i++) { // it stays up, whatever the gateway does
        now_ns += MS(sv.timer_ms);
        assert_int_equal(event(SV_TIMER), SV_DO_START);
        assert_true(supervise_may_feed(&sv, false));
        assert_int_equal(crash(), SV_DO_NOTHING);
        assert_int_equal(sv.timer_ms, LIMIT_STATUS_RETRY_MS);
    }
    assert_int_equal(event(SV_GO), SV_DO_START); // a new configuration is tried at once
}

static void test_status_mode_from_the_start(void **state) {
    (void)state;
    sv.status_mode = true; // the kernel died at the end of the last boots
    assert_int_equal(event(SV_GO), SV_DO_NOTHING);
    assert_int_equal(sv.timer_ms, LIMIT_STATUS_RETRY_MS);
    assert_true(supervise_may_feed(&sv, false));
    assert_int_equal(event(SV_TIMER), SV_DO_START);
}

static void test_wrong_configuration_never_restarts_the_machine(void **state) {
    (void)state;
    event(SV_GO);
    for (u32 i = 0; i < 30; i++) {
        sv.end = SV_END_CONFIG;
        assert_int_equal(event(SV_EXIT), SV_DO_NOTHING);
        assert_int_equal(sv.timer_ms, LIMIT_CRASH_BACKOFF_MS);
        now_ns += MS(sv.timer_ms);
        assert_int_equal(event(SV_TIMER), SV_DO_START);
    }
}

static void test_hang(void **state) {
    (void)state;
    event(SV_GO);
    event(SV_READY);
    assert_true(supervise_may_feed(&sv, true));
    assert_false(supervise_may_feed(&sv, false));
    assert_int_equal(event(SV_HANG), SV_DO_ABORT);
    assert_int_equal(sv.timer_ms, LIMIT_ABORT_MS);
    assert_false(supervise_may_feed(&sv, true)); // until a new one lives: if it can not be killed, the watchdog bites
    assert_int_equal(event(SV_HANG), SV_DO_NOTHING);
    assert_int_equal(event(SV_TIMER), SV_DO_KILL);
    assert_int_equal(event(SV_TIMER), SV_DO_KILL);
    assert_int_equal(event(SV_EXIT), SV_DO_START);
    assert_int_equal(sv.restarts, 1);
}

static void test_second_press(void **state) {
    (void)state;
    event(SV_GO);
    event(SV_READY);
    event(SV_STOP);
    assert_int_equal(event(SV_NOW), SV_DO_KILL);
    assert_int_equal(event(SV_EXIT), SV_DO_DONE);
    fresh(NULL);
    assert_int_equal(event(SV_STOP), SV_DO_DONE); // before there is a gateway
    fresh(NULL);
    event(SV_GO);
    event(SV_READY);
    event(SV_HANG);
    assert_int_equal(event(SV_STOP), SV_DO_KILL); // a stuck one does not drain
}

// Whatever comes in whatever order: the states stay what they are for.
static void test_all_events_in_all_states(void **state) {
    (void)state;
    for (u32 s = 0; s < SV_STATES; s++) {
        for (u32 e = 0; e < SV_EVENTS; e++) {
            fresh(NULL);
            sv.state = (sv_state)s;
            sv.end = SV_END_CRASH;
            sv_action action = event((sv_event)e);
            assert_true(sv.state < SV_STATES);
            if (action == SV_DO_START) assert_int_equal(sv.state, SV_STARTING);
            if (sv.state == SV_PAUSING && s != SV_PAUSING) assert_true(sv.timer_ms > 0);
            if (s == SV_STOPPED) assert_int_equal(sv.state, SV_STOPPED);
            assert_non_null(supervise_state_name(sv.state));
        }
    }
}

static void test_heartbeats(void **state) {
    init_shared s = {.magic = INIT_SHARED_MAGIC};
    int who;
    (void)state;
    assert_int_equal(init_shared_check(&s, MS(100), MS(10), &who), BEAT_STARTING);
    s.worker_count = 3;
    s.main_ns = s.worker_ns[0] = s.worker_ns[1] = s.worker_ns[2] = MS(95);
    assert_int_equal(init_shared_check(&s, MS(100), MS(10), &who), BEAT_ALIVE);
    s.worker_ns[2] = MS(89);
    assert_int_equal(init_shared_check(&s, MS(100), MS(10), &who), BEAT_STALE);
    assert_int_equal(who, 2);
    s.main_ns = 1;
    assert_int_equal(init_shared_check(&s, MS(100), MS(10), &who), BEAT_STALE);
    assert_int_equal(who, -1);
    s.worker_count = UINT32_MAX; // a gateway gone wild
    s.main_ns = MS(95);
    assert_int_equal(init_shared_check(&s, MS(100), MS(10), &who), BEAT_STALE);
    for (u32 i = 0; i < ARRAY_LEN(s.worker_ns); i++) s.worker_ns[i] = MS(200); // ahead of our reading: alive
    assert_int_equal(init_shared_check(&s, MS(100), MS(10), &who), BEAT_ALIVE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_life, fresh),
        cmocka_unit_test_setup(test_backoff, fresh),
        cmocka_unit_test_setup(test_crash_loop_restarts_the_machine, fresh),
        cmocka_unit_test_setup(test_slow_crashes_are_no_loop, fresh),
        cmocka_unit_test_setup(test_status_mode, fresh),
        cmocka_unit_test_setup(test_status_mode_from_the_start, fresh),
        cmocka_unit_test_setup(test_wrong_configuration_never_restarts_the_machine, fresh),
        cmocka_unit_test_setup(test_hang, fresh),
        cmocka_unit_test_setup(test_second_press, fresh),
        cmocka_unit_test_setup(test_all_events_in_all_states, fresh),
        cmocka_unit_test(test_heartbeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
