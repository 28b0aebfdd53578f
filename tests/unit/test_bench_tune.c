// SPDX-License-Identifier: Apache-2.0
// test_bench_tune.c: the recommendation, from made-up figures: clear winner, tie, trade of CPU for
// latency, noise, engines that are missing; and whether a run counts at all.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/tune_report.h"
#include "bench/verdict.h"

static const char *const names[TUNE_ENGINES] = {"uring", "epoll-et", "epoll-lt", "poll", "select"};

// Three rounds with the given CPU per message and p99; wobble moves all engines of a round
// together.
static void fill(tune_figures *t, const double cpu[TUNE_ENGINES], const double p99[TUNE_ENGINES],
                 double wobble) {
    memset(t, 0, sizeof(*t));
    t->rounds = 3;
    t->cpus = 2;
    for (u32 i = 0; i < TUNE_ENGINES; i++) {
        t->engines[i].name = names[i];
        for (u32 r = 0; r < t->rounds; r++) {
            double f = 1 + wobble * r;
            t->engines[i].rounds[r] = (tune_point){.ok = true,
                                                   .cpu_us = cpu[i] * f,
                                                   .cpu_share = 0.4,
                                                   .p99_us = p99[i] * f,
                                                   .syscalls = -1};
        }
    }
}

static tune_advice conclude(const tune_figures *t) {
    tune_advice a;
    tune_conclude(t, &a);
    return a;
}

static const double even_p99[TUNE_ENGINES] = {100, 100, 100, 100, 100};

static void test_clear_winner(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){7, 10, 10.5, 20, 30}, even_p99, 0.02);
    tune_advice a = conclude(&t);
    assert_int_equal(a.kind, TUNE_CLEAR);
    assert_int_equal(a.engine, 0);
    assert_non_null(strstr(a.text, "0.70"));
}

static void test_tie(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){9.7, 10, 10, 10, 10}, even_p99, 0);
    tune_advice a = conclude(&t);
    assert_int_equal(a.kind, TUNE_TIE);
    assert_non_null(strstr(a.text, "tie"));
    assert_non_null(strstr(a.text, "auto"));
}

// The machine drifts by 40 % over the rounds: 12 % between engines is then not told apart from
// noise.
static void test_noise_makes_a_tie(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){8.8, 10, 10, 10, 10}, even_p99, 0.2);
    tune_advice a = conclude(&t);
    assert_true(a.noise > 0.15);
    assert_int_equal(a.kind, TUNE_TIE);
    assert_non_null(strstr(a.text, "not quiet"));
}

static void test_cpu_against_latency(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){7, 10, 10, 10, 10}, (double[]){200, 100, 100, 100, 100}, 0);
    tune_advice a = conclude(&t);
    assert_int_equal(a.kind, TUNE_TRADE);
    assert_non_null(strstr(a.text, "2.00"));
}

static void test_disturbed_latencies_decide_nothing(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){7, 10, 10, 50, 10}, (double[]){200, 100, 100, 100, 100}, 0);
    t.engines[0].rounds[2].disturbed = true;
    tune_advice a = conclude(&t);
    assert_int_equal(a.kind, TUNE_CLEAR);
    assert_non_null(strstr(a.text, "disturbed"));
    assert_non_null(strstr(a.text, "poll needs 5.00"));
}

static void test_idle_says_elsewhere(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){10, 10, 10, 10, 10}, even_p99, 0);
    for (u32 r = 0; r < 3; r++) t.engines[TUNE_BASELINE].rounds[r].cpu_share = 0.01;
    assert_non_null(strstr(conclude(&t).text, "elsewhere"));
}

static void test_missing_engines(void **state) {
    (void)state;
    tune_figures t;
    fill(&t, (double[]){5, 10, 10, 10, 4}, even_p99, 0);
    strcpy(t.engines[0].why_not, "EPERM");
    t.engines[4].rounds[1].ok = false; // a round of it failed: never recommended
    assert_int_equal(conclude(&t).kind, TUNE_TIE);
    for (u32 i = 2; i < TUNE_ENGINES; i++) strcpy(t.engines[i].why_not, "not asked for");
    assert_int_equal(conclude(&t).kind, TUNE_ONLY); // nothing but epoll-et
    assert_int_equal(conclude(&t).engine, TUNE_BASELINE);
    t.engines[2].why_not[0] = 0;
    strcpy(t.engines[TUNE_BASELINE].why_not, "gone");
    assert_int_equal(conclude(&t).kind, TUNE_ONLY);
    for (u32 i = 0; i < TUNE_ENGINES; i++) strcpy(t.engines[i].why_not, "gone");
    assert_int_equal(conclude(&t).kind, TUNE_NOTHING);
}

static void test_verdict(void **state) {
    (void)state;
    bench_result *r = calloc(1, sizeof(*r));
    bench_options o;
    assert_non_null(r);
    bench_options_default(&o, BENCH_FRAME);
    hist_reset(&r->lag);
    hist_reset(&r->steady.latency);
    hist_reset(&r->shorts.latency);
    r->has_steady = true;
    r->window_ns = NS_PER_S;
    for (u32 i = 0; i < 1000; i++) {
        hist_record(&r->steady.latency, 100000);
        hist_record(&r->lag, 20000);
    }
    bench_verdict(r, &o);
    assert_true(r->valid);
    for (u32 i = 0; i < 100; i++) hist_record(&r->lag, 2 * NS_PER_MS); // late itself
    bench_verdict(r, &o);
    assert_false(r->valid);
    assert_non_null(strstr(r->verdict, "generator saturated"));
    for (u32 i = 0; i < 1000; i++)
        hist_record(&r->steady.latency, 50 * NS_PER_MS); // but the server is far slower
    bench_verdict(r, &o);
    assert_true(r->valid);
    o.lag_limit_ns = NS_PER_MS;
    bench_verdict(r, &o);
    assert_false(r->valid);
    o.lag_limit_ns = 0;
    r->busy_share = 0.99;
    bench_verdict(r, &o);
    assert_false(r->valid);
    r->busy_share = 0.5;
    r->steady.window_unsent = 1;
    bench_verdict(r, &o);
    assert_false(r->valid);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear_winner),
        cmocka_unit_test(test_tie),
        cmocka_unit_test(test_noise_makes_a_tie),
        cmocka_unit_test(test_cpu_against_latency),
        cmocka_unit_test(test_idle_says_elsewhere),
        cmocka_unit_test(test_missing_engines),
        cmocka_unit_test(test_disturbed_latencies_decide_nothing),
        cmocka_unit_test(test_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
