// SPDX-License-Identifier: Apache-2.0
// test_bench_schedule.c: arrival times: the rate is kept without drift, Poisson gaps have the right
// mean and spread, equal seeds give equal schedules, ticks only round up; and the numbers of the
// command line.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/options.h"
#include "bench/schedule.h"

static void test_uniform_has_no_drift(void **state) {
    (void)state;
    schedule s;
    schedule_start(&s, ARRIVAL_UNIFORM, 30000, 0, 1, 5000); // gap of 33,333.33 ns
    for (u32 i = 0; i < 3000000; i++) schedule_next(&s);
    u64 expected = 5000 + 100 * NS_PER_S;
    assert_true(s.due_ns + 10 > expected && s.due_ns < expected + 10);
}

static void test_poisson_mean_and_spread(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    schedule s;
    schedule_start(&s, ARRIVAL_POISSON, 10000, 0, 42, 0);
    double sum = 0, squares = 0;
    u64 last = 0;
    for (u32 i = 0; i < COUNT; i++) {
        assert_true(s.due_ns >= last);
        double gap = (double)(s.due_ns - last) / 1e9;
        last = s.due_ns;
        sum += gap;
        squares += gap * gap;
        schedule_next(&s);
    }
    double mean = sum / COUNT, deviation = sqrt(squares / COUNT - mean * mean);
    assert_true(fabs(mean - 1e-4) < 1e-6);
    assert_true(fabs(deviation - 1e-4) < 2e-6); // exponential: deviation equals mean
}

static void test_seed_decides(void **state) {
    (void)state;
    schedule a, b, c;
    bool differs = false;
    schedule_start(&a, ARRIVAL_POISSON, 1000, 0, 7, 100);
    schedule_start(&b, ARRIVAL_POISSON, 1000, 0, 7, 100);
    schedule_start(&c, ARRIVAL_POISSON, 1000, 0, 8, 100);
    for (u32 i = 0; i < 1000; i++) {
        assert_true(a.due_ns == b.due_ns);
        differs |= a.due_ns != c.due_ns;
        assert_int_equal(schedule_random_below(&a, 17), schedule_random_below(&b, 17));
        schedule_next(&a);
        schedule_next(&b);
        schedule_next(&c);
    }
    assert_true(differs);
}

static void test_tick_rounds_up(void **state) {
    (void)state;
    schedule exact, ticked;
    schedule_start(&exact, ARRIVAL_POISSON, 50000, 0, 3, 0);
    schedule_start(&ticked, ARRIVAL_POISSON, 50000, 20000, 3, 0);
    for (u32 i = 0; i < 10000; i++) {
        assert_int_equal(ticked.due_ns % 20000, 0);
        assert_true(ticked.due_ns >= exact.due_ns && ticked.due_ns < exact.due_ns + 20000);
        schedule_next(&exact);
        schedule_next(&ticked);
    }
}

static void test_no_rate_is_never_due(void **state) {
    (void)state;
    schedule s;
    schedule_start(&s, ARRIVAL_POISSON, 0, 0, 1, 0);
    assert_true(s.due_ns == UINT64_MAX);
    schedule_next(&s);
    assert_true(s.due_ns == UINT64_MAX);
}

static void test_random_below_covers(void **state) {
    (void)state;
    schedule s;
    u32 seen[5] = {0};
    schedule_start(&s, ARRIVAL_POISSON, 1, 0, 1, 0);
    for (u32 i = 0; i < 5000; i++) seen[schedule_random_below(&s, 5)]++;
    for (u32 i = 0; i < 5; i++) assert_in_range(seen[i], 800, 1200);
}

static void test_numbers_and_times(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } numbers[] = {{"0", 0}, {"50k", 50000}, {"1.5k", 1500}, {"2m", 2e6}, {"18000", 18000}};
    static const struct {
        const char *text;
        u64 ns;
    } times[] = {{"5ms", 5000000},
                 {"250us", 250000},
                 {"2", 2 * NS_PER_S},
                 {"1.5s", 1500 * NS_PER_MS},
                 {"1m", 60 * NS_PER_S},
                 {"1h", 3600 * NS_PER_S},
                 {"7ns", 7},
                 {"0", 0}};
    static const char *const bad[] = {"", "k", "5x", "-1", "1kk", "nan", "inf", "1e400", "5 k"};
    double value;
    u64 ns;
    for (u32 i = 0; i < ARRAY_LEN(numbers); i++) {
        assert_int_equal(bench_parse_number(numbers[i].text, &value), 0);
        assert_true(value == numbers[i].value);
    }
    for (u32 i = 0; i < ARRAY_LEN(times); i++) {
        assert_int_equal(bench_parse_time_ns(times[i].text, &ns), 0);
        assert_true(ns == times[i].ns);
    }
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(bench_parse_number(bad[i], &value) < 0);
        assert_true(bench_parse_time_ns(bad[i], &ns) < 0);
    }
}

static int parse(bench_options *o, bench_kind kind, const char *a, const char *b, const char *c,
                 const char *d) {
    const char *const words[] = {"kind", a, b, c, d};
    char *argv[6];
    int argc = 0;
    for (u32 i = 0; i < ARRAY_LEN(words) && words[i] != NULL; i++) argv[argc++] = strdup(words[i]);
    bench_options_default(o, kind);
    int rc = bench_options_parse(o, argc, argv);
    for (int i = 0; i < argc; i++) {
        if (argv[i] != NULL && o->to != argv[i]) free(argv[i]);
    }
    return rc;
}

static void test_options(void **state) {
    (void)state;
    bench_options o;
    assert_int_equal(parse(&o, BENCH_FRAME, "--conns", "3k", "--rate=50k", NULL), 0);
    assert_int_equal(o.conns, 3000);
    assert_int_equal(o.active, 3000);
    assert_true(o.rate == 50000);
    assert_int_equal(parse(&o, BENCH_CONN, "--close", "rst", "--engine", "epoll"), 0);
    assert_int_equal(o.close, CLOSE_RST);
    assert_int_equal(o.engine, CIO_EPOLL);
    assert_int_equal(parse(&o, BENCH_SLOW, "--read-rate", "1m", NULL, NULL), 0);
    assert_true(o.read_rate == 1000000);
    // Each of these is refused with a message, none is ignored or cut.
    assert_true(parse(&o, BENCH_FRAME, "--conns", "0", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--conns", "1.5", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--conns", NULL, NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--active", "2000", NULL, NULL) <
                0); // above the default --conns
    assert_true(parse(&o, BENCH_FRAME, "--mode", "ech", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--mode", "", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--slow", "3", NULL, NULL) < 0); // another mode's option
    assert_true(parse(&o, BENCH_FRAME, "--size", "15", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--json=yes", NULL, NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--nothing", NULL, NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "stray", NULL, NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_CONN, "--rate", "0", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_STORM, "--steady-rate", "5", NULL, NULL) < 0);
    assert_true(parse(&o, BENCH_FRAME, "--pid", "x", NULL, NULL) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform_has_no_drift), cmocka_unit_test(test_poisson_mean_and_spread),
        cmocka_unit_test(test_seed_decides),         cmocka_unit_test(test_tick_rounds_up),
        cmocka_unit_test(test_no_rate_is_never_due), cmocka_unit_test(test_random_below_covers),
        cmocka_unit_test(test_numbers_and_times),    cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
