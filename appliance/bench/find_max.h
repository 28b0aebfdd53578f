// SPDX-License-Identifier: Apache-2.0
// find_max.h: searches the highest rate that a server sustains with p99 under a limit.
#ifndef SLUICE_BENCH_FIND_MAX_H
#define SLUICE_BENCH_FIND_MAX_H

#include "bench/run.h"

// Doubles the rate from --rate until a step fails, then bisects; each step is a run of its own with
// fresh connections. A step holds when it has no errors, sent everything, answered at least 99 % of
// what was due within the window, and p99 is under the limit. A step that fails on p99, or because
// the generator was late, is repeated once: a single disturbance must not end the search. Prints
// each step to stderr. *best holds the result of the highest rate that held (failed is set if none
// did); *limited_by says what ended it. 0 or -EINTR.
int find_max_run(const bench_options *o, bench_result *best, double *best_rate,
                 const char **limited_by);

#endif
