// SPDX-License-Identifier: Apache-2.0
// run.h: one measured run: set-up, warm-up, window, the extra window for system calls, drain; and
// its result, complete enough to print, to write as JSON, and to compare with other runs.
#ifndef SLUICE_BENCH_RUN_H
#define SLUICE_BENCH_RUN_H

#include "bench/load.h"
#include "bench/observe.h"
#include "bench/slow.h"

typedef struct bench_result {
    // how
    char target[96], engine[16], engine_note[160];
    bool spinning;
    u64 tick_ns;
    u32 sources;
    // windows
    u64 window_ns; // as measured: shorter than asked for after Ctrl-C
    bool interrupted;
    // long connections
    bool has_steady;
    u32 conns, active, alive;
    double steady_rate;
    flow_stats steady;
    hist heartbeats;
    u64 heartbeats_sent, heartbeats_answered, publications;
    // short connections or storm
    bool has_short;
    double short_rate;
    flow_stats shorts;
    bool has_storm;
    u32 storm_conns;
    u64 storm_ns; // first start to last reply
    // slow readers
    bool has_slow;
    slow_result slow;
    // the server
    char observe_note[160]; // why it was not observed
    u32 pids[BENCH_PIDS_MAX], pid_count;
    observe_delta server;
    u64 observed_ns; // between the two samples; what was answered between them:
    u64 observed_messages, observed_heartbeats, observed_shorts;
    bool syscalls_available;
    char syscalls_note[160];
    u64 syscalls, syscalls_exchanges; // in the extra window; see bench_result_exchanges
    u64 rss_before, rss_after, private_before, private_after, tcp_before, tcp_after; // idle
    // the generator
    hist lag;          // from the due time until the kernel had taken the message
    hist turns;        // length of a turn that did something: bounds the delay it adds
    double busy_share; // of the window spent in such turns
    u64 self_run_ns, self_wait_ns;
    double steal_share; // of all CPUs' time in the window: taken by the hypervisor
    bool valid;
    char verdict[320]; // why not valid, or a remark
    // set-up failure: nothing below was measured
    bool failed;
    char failure[320];
} bench_result;

// Runs it. Progress goes to stderr. 0 when there is a result (look at failed and valid), -EINTR
// when it was stopped before anything was measured. out is large: allocate it.
int bench_run(const bench_options *o, bench_result *out);
// Handlers for SIGINT and SIGTERM that set bench_stop; SIGPIPE ignored.
void bench_signals_install(void);
// Errors of all flows together.
u64 bench_result_errors(const bench_result *r);
// What the server's cost is divided by: messages, heartbeats and short connections answered between
// the two samples.
u64 bench_result_exchanges(const bench_result *r);
// CPUs this process may use.
u32 bench_cpu_count(void);

#endif
