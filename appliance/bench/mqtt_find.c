// SPDX-License-Identifier: Apache-2.0
// mqtt_find.c: doubling until a step fails, then bisection, in at most BENCH_FIND_STEPS_MAX steps;
// ends when the bracket is narrower than 4 %. A step holds when nothing was lost, duplicated,
// reordered or refused, all was sent, 99 % of the window's deliveries came within the window, and
// p99 is under the limit.
//
// The generator's own lateness is part of the latency, so a p99 under the limit holds however late
// it was; a step that failed while it was late is not blamed on the broker.
#include "bench/mqtt_find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/mqtt_report.h"
#include "bench/report.h"

#define BRACKET_RATIO 1.04

typedef enum step_end {
    STEP_HOLDS,
    STEP_P99,
    STEP_RATE,
    STEP_ERRORS,
    STEP_GENERATOR,
    STEP_FAILED
} step_end;

static const char *const step_words[] = {
    [STEP_HOLDS] = "holds",
    [STEP_P99] = "p99 over the limit",
    [STEP_RATE] = "not all delivered in time",
    [STEP_ERRORS] = "errors",
    [STEP_GENERATOR] = "generator saturated",
    [STEP_FAILED] = "not measured: ",
};

typedef struct search {
    const mq_options *o;
    mq_result *best, *step;
    double low, high; // highest that held; lowest that failed, 0 while none did
    u32 steps;
    step_end last;
} search;

static step_end step_judge(const mq_options *o, const mq_result *r) {
    if (r->failed) return STEP_FAILED;
    if (bench_errors_total(&r->errors) > 0) return r->valid ? STEP_ERRORS : STEP_GENERATOR;
    double expected = report_per_second(r->window_expected, r->window_ns);
    bool in_time = report_per_second(r->observed_delivered, r->observed_ns) >= 0.99 * expected;
    u64 p99 = hist_percentile(&r->latency, 99);
    if (in_time && r->window_unsent == 0 && p99 <= o->p99_limit_ns) return STEP_HOLDS;
    return !r->valid ? STEP_GENERATOR : !in_time ? STEP_RATE : STEP_P99;
}

static int step_run(search *s, double rate) {
    mq_options o = *s->o;
    o.rate = rate;
    o.find_max = false;
    int rc = mq_run(&o, s->step);
    s->steps++;
    if (rc != 0) return rc;
    const mq_result *r = s->step;
    s->last = step_judge(&o, r);
    fprintf(stderr,
            "step %2u: %9.0f/s published, %9.0f/s delivered  p99 %8.0f us  lag p99 %6.0f us  busy "
            "%3.0f %%  CPU %6.2f us each  %s%s\n",
            s->steps, rate, report_per_second(r->observed_delivered, r->observed_ns),
            (double)hist_percentile(&r->latency, 99) / 1e3,
            (double)hist_percentile(&r->lag, 99) / 1e3, 100 * r->busy_share,
            mq_report_cpu_us(&o, r), step_words[s->last],
            s->last == STEP_FAILED ? r->failure : "");
    return r->interrupted ? -EINTR : 0;
}

static double next_rate(const search *s) {
    if (s->high == 0) return s->low == 0 ? s->o->rate : s->low * 2;
    if (s->low == 0) return s->high / 2;
    return (s->low + s->high) / 2;
}

static void step_take(search *s, double rate) {
    if (s->last != STEP_HOLDS) {
        s->high = rate;
        return;
    }
    s->low = rate;
    s->step->valid = true; // as a bound for the broker, see the top
    mq_result *kept = s->best;
    s->best = s->step;
    s->step = kept;
}

int mq_find_max(const mq_options *o, mq_result *best, double *best_rate, const char **limited_by) {
    search s = {.o = o, .last = STEP_HOLDS};
    s.best = calloc(1, sizeof(*s.best));
    s.step = calloc(1, sizeof(*s.step));
    if (s.best == NULL || s.step == NULL) base_out_of_memory("a search", sizeof(*s.best));
    s.best->failed = true;
    snprintf(s.best->failure, sizeof(s.best->failure), "no rate held");
    step_end failed_by = STEP_HOLDS;
    int rc = 0;
    while (s.steps < BENCH_FIND_STEPS_MAX &&
           (s.high == 0 || s.low == 0 || s.high / s.low > BRACKET_RATIO)) {
        double rate = next_rate(&s);
        if (rate > BENCH_RATE_MAX || rate < 1) break;
        rc = step_run(&s, rate);
        // Once more: a stall of the machine must not decide.
        if (rc == 0 && s.last != STEP_HOLDS && s.last != STEP_FAILED &&
            s.steps < BENCH_FIND_STEPS_MAX) {
            rc = step_run(&s, rate);
        }
        if (rc != 0 || s.last == STEP_FAILED) break;
        if (s.last != STEP_HOLDS) failed_by = s.last;
        step_take(&s, rate);
    }
    if (s.last == STEP_FAILED && s.low == 0) {
        snprintf(s.best->failure, sizeof(s.best->failure), "%s", s.step->failure);
    }
    *best = *s.best;
    *best_rate = s.low;
    *limited_by = s.high == 0 ? "the end of the search, not by the broker" : step_words[failed_by];
    free(s.best);
    free(s.step);
    return rc;
}
