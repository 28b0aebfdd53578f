// SPDX-License-Identifier: Apache-2.0
// run_parts.h: between run.c (loop and phases) and run_parts.c (which flows a run consists of).
#ifndef SLUICE_BENCH_RUN_PARTS_H
#define SLUICE_BENCH_RUN_PARTS_H

#include "bench/run.h"
#include "bench/short.h"
#include "bench/steady.h"

#define RUN_ACTORS_MAX 6u

typedef struct run {
    load load;
    bench_options options; // as given, with what was left to us decided
    dial dial, slow_dial, short_dial;
    bench_result *result;
    steady *steady;
    short_flow *shorts;
    slow_flow *slow;
    actor *actors[RUN_ACTORS_MAX];
    u32 actor_count;
    bool spin, measuring;
    u64 busy_ns;
    observe_sample *before, *after;
} run;

// Opens everything and connects. observe is called when the target is known and nothing is
// connected yet. 0, -EINTR, or another negative code with result->failure set. run_parts_free in
// any case.
int run_parts_open(run *r, void (*observe)(run *r));
void run_parts_start(run *r, u64 start_ns);
void run_parts_stop(run *r);
bool run_parts_done(const run *r); // nothing more will happen: a storm that is served
u64 run_parts_outstanding(run *r);
// Messages or connections due in the window are still to be started.
bool run_parts_behind(const run *r);
void run_parts_finish(run *r, u64 now_ns);
void run_parts_free(run *r);

#endif
