// SPDX-License-Identifier: Apache-2.0
// find_max.c: bracketing, then bisection, in at most BENCH_FIND_STEPS_MAX steps. Ends when the
// bracket is narrower than 4 %: two runs of the same rate differ by about as much.
#include "bench/find_max.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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
    [STEP_RATE] = "not all answered in time",
    [STEP_ERRORS] = "errors",
    [STEP_GENERATOR] = "generator saturated",
    [STEP_FAILED] = "not measured: ",
};

typedef struct search {
    const bench_options *o;
    bench_result *best, *step;
    double low, high; // highest that held; lowest that failed, 0 while none did
    u32 steps;
    step_end last;
} search;

static const flow_stats *flow_of(const bench_options *o, const bench_result *r) {
    return o->kind == BENCH_CONN ? &r->shorts : &r->steady;
}

// The generator's own lag is part of the latency, so a p99 under the limit holds however late the
// generator was; a p99 over it may be the generator's doing and is then not blamed on the server.
static step_end step_judge(const bench_options *o, const bench_result *r) {
    if (r->failed) return STEP_FAILED;
    if (bench_result_errors(r) > 0) return STEP_ERRORS;
    u64 observed = o->kind == BENCH_CONN ? r->observed_shorts : r->observed_messages;
    const flow_stats *f = flow_of(o, r);
    double due = report_per_second(f->window_due, r->window_ns);
    bool in_time = report_per_second(observed, r->observed_ns) >= 0.99 * due;
    if (in_time && f->window_unsent == 0 && hist_percentile(&f->latency, 99) <= o->p99_limit_ns) {
        return STEP_HOLDS;
    }
    return !r->valid ? STEP_GENERATOR : !in_time ? STEP_RATE : STEP_P99;
}

static int step_run(search *s, double rate) {
    bench_options o = *s->o;
    o.rate = rate;
    o.find_max = false;
    o.syscalls_ns = 0;
    int rc = bench_run(&o, s->step);
    s->steps++;
    if (rc != 0) return rc;
    s->last = step_judge(&o, s->step);
    const flow_stats *f = flow_of(&o, s->step);
    fprintf(stderr,
            "step %2u: %9.0f/s  p99 %8.0f us  p99.9 %8.0f us  lag p99 %6.0f us  CPU %6.2f us each  "
            "%s%s\n",
            s->steps, rate, (double)hist_percentile(&f->latency, 99) / 1e3,
            (double)hist_percentile(&f->latency, 99.9) / 1e3,
            (double)hist_percentile(&s->step->lag, 99) / 1e3, report_cpu_us_per_exchange(s->step),
            step_words[s->last], s->last == STEP_FAILED ? s->step->failure : "");
    return s->step->interrupted ? -EINTR : 0;
}

static double next_rate(const search *s) {
    if (s->high == 0) return s->low == 0 ? s->o->rate : s->low * 2;
    if (s->low == 0) return s->high / 2;
    return (s->low + s->high) / 2;
}

static void step_take(search *s, double rate) {
    if (s->last == STEP_HOLDS) {
        s->low = rate;
        s->step->valid = true; // as a bound for the server, see step_judge
        bench_result *kept = s->best; // swap: the step's buffer becomes the best
        s->best = s->step;
        s->step = kept;
    } else {
        s->high = rate;
    }
}

int find_max_run(const bench_options *o, bench_result *best, double *best_rate,
                 const char **limited_by) {
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
        bool again = s.last == STEP_P99 || s.last == STEP_GENERATOR;
        if (rc == 0 && again && s.steps < BENCH_FIND_STEPS_MAX) rc = step_run(&s, rate);
        if (rc != 0 || s.last == STEP_FAILED) break;
        if (s.last != STEP_HOLDS) failed_by = s.last;
        step_take(&s, rate);
    }
    if (s.last == STEP_FAILED && s.low == 0) {
        snprintf(s.best->failure, sizeof(s.best->failure), "%s", s.step->failure);
    }
    *best = *s.best;
    *best_rate = s.low;
    *limited_by = s.high == 0 ? "the end of the search, not by the server" : step_words[failed_by];
    free(s.best);
    free(s.step);
    return rc;
}
