// SPDX-License-Identifier: Apache-2.0
// tune_report.h: what tune measured, and what it concludes. The conclusion is a pure function of
// the figures, so that it can be tested with made-up ones.
#ifndef SLUICE_BENCH_TUNE_REPORT_H
#define SLUICE_BENCH_TUNE_REPORT_H

#include <stdio.h>

#include "base/base.h"

#define TUNE_ENGINES 5u
#define TUNE_ROUNDS_MAX 15u
#define TUNE_BASELINE 1u // index of epoll-et: what the others are compared with

typedef struct tune_point {
    bool ok;        // measured, no errors
    bool disturbed; // the generator was held up in it: CPU figures count, latencies do not
    double cpu_us;    // CPU per message or short connection
    double cpu_share; // of one core
    double p50_us, p99_us, p999_us, max_us;
    double switches, syscalls; // per message; syscalls below 0: not available
} tune_point;

typedef struct tune_engine {
    const char *name;
    tune_point rounds[TUNE_ROUNDS_MAX];
    char why_not[256]; // why it is out, empty while it is in
} tune_engine;

typedef struct tune_figures {
    tune_engine engines[TUNE_ENGINES];
    u32 rounds; // completed
    u32 cpus;
    u32 conns, active, size;
    double rate, short_rate;
} tune_figures;

typedef struct tune_summary {
    bool usable;    // ok in every round
    u32 disturbed;  // rounds
    tune_point median;
    // CPU and p99 relative to epoll-et of the same round: median, lowest, highest
    double cpu_ratio, cpu_ratio_low, cpu_ratio_high;
    double p99_ratio, p99_ratio_low, p99_ratio_high;
} tune_summary;

typedef enum tune_kind { TUNE_NOTHING, TUNE_TIE, TUNE_CLEAR, TUNE_TRADE, TUNE_ONLY } tune_kind;

typedef struct tune_advice {
    tune_kind kind;
    u32 engine;      // recommended; for TUNE_TIE the caller says "auto"
    double noise;    // differences up to it are not told apart: 0.05 or more
    char text[1024]; // the reasons, in sentences
} tune_advice;

void tune_summarize(const tune_figures *t, tune_summary out[TUNE_ENGINES]);
void tune_conclude(const tune_figures *t, tune_advice *out);
void tune_print(FILE *f, const tune_figures *t);
void tune_print_json(FILE *f, const tune_figures *t);

#endif
