// SPDX-License-Identifier: Apache-2.0
// report.h: a result as a table for people and as JSON for programs. The fields are described in
// docs/bench.md; both forms show the same figures.
#ifndef SLUICE_BENCH_REPORT_H
#define SLUICE_BENCH_REPORT_H

#include <stdio.h>

#include "bench/json_out.h"
#include "bench/run.h"

void report_table(FILE *f, const bench_options *o, const bench_result *r);
void report_json(FILE *f, const bench_options *o, const bench_result *r);
// The result as a member of a larger document (report_json_percentiles: microseconds).
void report_json_into(json_out *j, const char *key, const bench_options *o, const bench_result *r);
void report_json_percentiles(json_out *j, const char *key, const hist *h);

// Derived figures, used by both forms and by comparisons. 0 where there is nothing to divide by.
double report_cpu_us_per_exchange(const bench_result *r);
double report_switches_per_exchange(const bench_result *r);
double report_per_second(u64 count, u64 ns);

#endif
