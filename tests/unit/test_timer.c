// SPDX-License-Identifier: Apache-2.0
// test_timer.c: the timer wheel against a plain table of due times, under random operations with
// jumps from milliseconds to weeks, and the cases that have their own rule.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/timer.h"
#include "random.h"

#define HOUR_NS (3600 * NS_PER_S)
#define DAY_NS (24 * HOUR_NS)

// --- against a table ---

#define TIMERS 300u

typedef struct model_timer {
    timer_node node;
    u64 due_ns;
    bool armed;
    bool ready; // was due when it was armed: fires at the next run, not in this one
} model_timer;

typedef struct model {
    timer_wheel *wheel;
    model_timer timers[TIMERS];
    u64 now_ns, seed;
    u64 previous_tick; // of the timer fired before, within a run
    u64 early, unarmed, disorder, fired;
    bool in_run;
} model;

// Due times from the past, the same tick, and up to 2^bits ns ahead, all magnitudes alike.
static u64 random_due(model *m) {
    u64 span = 1ull << random_below(&m->seed, 53);
    u64 ahead = random_next(&m->seed) % span;
    if (random_below(&m->seed, 8) == 0) return m->now_ns - MIN(m->now_ns, ahead);
    if (random_below(&m->seed, 8) == 0) return (m->now_ns / TIMER_TICK_NS + 1) * TIMER_TICK_NS;
    return m->now_ns + ahead;
}

static void model_arm(model *m, u32 k) {
    u64 due = random_due(m);
    m->timers[k].due_ns = due;
    m->timers[k].armed = true;
    m->timers[k].ready = due <= m->now_ns;
    timer_arm(m->wheel, &m->timers[k].node, due);
}

static void model_cancel(model *m, u32 k) {
    m->timers[k].armed = false;
    timer_cancel(m->wheel, &m->timers[k].node);
}

static void model_fire(timer_node *node, void *context) {
    model *m = context;
    model_timer *t = CONTAINER_OF(node, model_timer, node);
    m->unarmed += !t->armed || timer_is_armed(node);
    m->early += t->due_ns > m->now_ns;
    u64 tick = t->ready ? 0 : (t->due_ns + TIMER_TICK_NS - 1) / TIMER_TICK_NS;
    m->disorder += tick < m->previous_tick;
    m->previous_tick = tick;
    t->armed = false;
    m->fired++;
    // Timers due in this run may be among those moved and cancelled here.
    if (random_below(&m->seed, 4) == 0) model_arm(m, (u32)(t - m->timers));
    if (random_below(&m->seed, 4) == 0) model_arm(m, random_below(&m->seed, TIMERS));
    if (random_below(&m->seed, 4) == 0) model_cancel(m, random_below(&m->seed, TIMERS));
}

// What must hold between runs.
static void model_check(model *m, bool after_run) {
    u64 next = timer_next_ns(m->wheel), earliest = UINT64_MAX;
    for (u32 k = 0; k < TIMERS; k++) {
        const model_timer *t = &m->timers[k];
        assert_int_equal(t->armed, timer_is_armed(&t->node));
        if (!t->armed) continue;
        earliest = MIN(earliest, t->due_ns);
        // Not fired although a whole tick late: only what was armed in the past by a callback may
        // wait.
        if (after_run && !t->ready) assert_true(t->due_ns + TIMER_TICK_NS > m->now_ns);
    }
    if (earliest == UINT64_MAX) {
        assert_true(next == UINT64_MAX);
    } else if (next != 0) {
        assert_true(next <= (earliest + TIMER_TICK_NS - 1) / TIMER_TICK_NS * TIMER_TICK_NS);
    }
}

static void test_random_operations(void **state) {
    (void)state;
    for (u64 round = 0; round < 6; round++) {
        model *m = calloc(1, sizeof(*m));
        assert_non_null(m);
        m->seed = round;
        m->now_ns = round == 0 ? 0 : random_next(&m->seed) >> 9;
        m->wheel = timer_wheel_create(m->now_ns, m);
        assert_non_null(m->wheel);
        for (u32 k = 0; k < TIMERS; k++) m->timers[k].node.callback = model_fire;
        for (u32 step = 0; step < 20000; step++) {
            u32 what = random_below(&m->seed, 8);
            if (what < 4) model_arm(m, random_below(&m->seed, TIMERS));
            else if (what < 6) model_cancel(m, random_below(&m->seed, TIMERS));
            else {
                m->now_ns += random_next(&m->seed) % (1ull << random_below(&m->seed, 50));
                u64 fired_before = m->fired;
                m->previous_tick = 0;
                u32 fired = timer_run(m->wheel, m->now_ns);
                assert_int_equal(fired, m->fired - fired_before);
                model_check(m, true);
            }
            if (step % 16 == 0) model_check(m, false);
        }
        assert_int_equal(m->early, 0);
        assert_int_equal(m->unarmed, 0);
        assert_int_equal(m->disorder, 0);
        assert_true(m->fired > 1000);
        timer_wheel_destroy(m->wheel);
        free(m);
    }
}

// --- single cases ---

typedef struct probe {
    timer_node node;
    u32 fired;
    timer_wheel *wheel;
    u64 rearm_ns;       // 0 = no
    timer_node *cancel; // NULL = none
} probe;

static void probe_fire(timer_node *node, void *context) {
    probe *p = CONTAINER_OF(node, probe, node);
    assert_ptr_equal(context, &probe_fire);
    p->fired++;
    if (p->rearm_ns != 0) timer_arm(p->wheel, node, p->rearm_ns);
    if (p->cancel != NULL) timer_cancel(p->wheel, p->cancel);
}

static timer_wheel *wheel_new(u64 now_ns) {
    timer_wheel *wheel = timer_wheel_create(now_ns, (void *)&probe_fire);
    assert_non_null(wheel);
    return wheel;
}

// Running at the times that timer_next_ns names fires each timer in its own tick, with few
// wake-ups.
static void test_next_leads_to_the_due_time(void **state) {
    (void)state;
    static const u64 delays[] = {
        1,           NS_PER_MS,     TIMER_TICK_NS, 17 * NS_PER_MS, NS_PER_S,
        16 * NS_PER_S, 60 * NS_PER_S, 1023 * TIMER_TICK_NS, HOUR_NS, 18 * HOUR_NS,
        2 * DAY_NS,  3 * DAY_NS,    4 * DAY_NS,    30 * DAY_NS,    400 * DAY_NS,
    };
    for (size_t i = 0; i < ARRAY_LEN(delays); i++) {
        u64 now = 987654321987654321ull;
        timer_wheel *wheel = wheel_new(now);
        probe p = {.node.callback = probe_fire, .wheel = wheel};
        u64 due = now + delays[i];
        timer_arm(wheel, &p.node, due);
        u32 wakes = 0;
        while (p.fired == 0) {
            u64 next = timer_next_ns(wheel);
            assert_true(next > now && next < due + TIMER_TICK_NS);
            now = next;
            timer_run(wheel, now);
            wakes++;
        }
        assert_true(now >= due);
        assert_true(wakes <= 4 + delays[i] / (3 * DAY_NS));
        assert_true(timer_next_ns(wheel) == UINT64_MAX);
        timer_wheel_destroy(wheel);
    }
}

static void test_jump_of_hours(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    u64 now = 5 * DAY_NS;
    timer_wheel *wheel = wheel_new(now);
    probe *p = calloc(COUNT, sizeof(*p));
    assert_non_null(p);
    for (u32 i = 0; i < COUNT; i++) {
        p[i] = (probe){.node.callback = probe_fire, .wheel = wheel};
        timer_arm(wheel, &p[i].node, now + i * (10 * HOUR_NS / COUNT));
    }
    assert_int_equal(timer_run(wheel, now + 10 * HOUR_NS), COUNT);
    assert_int_equal(timer_run(wheel, now + 10 * HOUR_NS), 0);
    for (u32 i = 0; i < COUNT; i++) assert_int_equal(p[i].fired, 1);
    timer_wheel_destroy(wheel);
    free(p);
}

static void test_past_fires_at_the_next_run(void **state) {
    (void)state;
    u64 now = DAY_NS + 5;
    timer_wheel *wheel = wheel_new(now);
    probe p = {.node.callback = probe_fire, .wheel = wheel, .rearm_ns = 1};
    timer_arm(wheel, &p.node, 0);
    assert_int_equal(timer_next_ns(wheel), 0);
    // Re-arms itself in the past at each call: once a run, not for ever.
    for (u32 run = 1; run <= 5; run++) {
        assert_int_equal(timer_run(wheel, now), 1);
        assert_int_equal(p.fired, run);
    }
    p.rearm_ns = 0;
    assert_int_equal(timer_run(wheel, now), 1);
    assert_int_equal(timer_run(wheel, now), 0);
    assert_true(timer_next_ns(wheel) == UINT64_MAX);
    timer_wheel_destroy(wheel);
}

static void test_cancel_in_the_same_slot(void **state) {
    (void)state;
    u64 now = DAY_NS;
    timer_wheel *wheel = wheel_new(now);
    probe second = {.node.callback = probe_fire, .wheel = wheel};
    probe first = {.node.callback = probe_fire, .wheel = wheel, .cancel = &second.node};
    probe third = {.node.callback = probe_fire, .wheel = wheel};
    timer_arm(wheel, &first.node, now + NS_PER_S);
    timer_arm(wheel, &second.node, now + NS_PER_S);
    timer_arm(wheel, &third.node, now + NS_PER_S);
    assert_int_equal(timer_run(wheel, now + 2 * NS_PER_S), 2);
    assert_int_equal(first.fired, 1);
    assert_int_equal(second.fired, 0);
    assert_int_equal(third.fired, 1);
    timer_cancel(wheel, &second.node); // harmless
    assert_false(timer_is_armed(&second.node));
    timer_wheel_destroy(wheel);
}

static void test_moving(void **state) {
    (void)state;
    u64 now = DAY_NS;
    timer_wheel *wheel = wheel_new(now);
    probe p = {.node.callback = probe_fire, .wheel = wheel};
    for (u32 i = 0; i < 1000; i++) timer_arm(wheel, &p.node, now + (i + 1) * NS_PER_S);
    assert_int_equal(timer_run(wheel, now + 999 * NS_PER_S), 0);
    timer_arm(wheel, &p.node, now + HOUR_NS);
    timer_arm(wheel, &p.node, UINT64_MAX);
    assert_true(timer_next_ns(wheel) > now);
    assert_int_equal(timer_run(wheel, now + 100 * DAY_NS), 0);
    assert_true(timer_is_armed(&p.node));
    timer_arm(wheel, &p.node, now + 100 * DAY_NS + 1);
    assert_int_equal(timer_run(wheel, now + 100 * DAY_NS + TIMER_TICK_NS), 1);
    timer_wheel_destroy(wheel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_next_leads_to_the_due_time),
        cmocka_unit_test(test_jump_of_hours),
        cmocka_unit_test(test_past_fires_at_the_next_run),
        cmocka_unit_test(test_cancel_in_the_same_slot),
        cmocka_unit_test(test_moving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
