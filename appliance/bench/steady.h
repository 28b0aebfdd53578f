// SPDX-License-Identifier: Apache-2.0
// steady.h: long connections: opened once, confirmed, then numbered frames on a fixed schedule over
// the active ones and heartbeats over all. Every reply is matched by number and checked.
#ifndef SLUICE_BENCH_STEADY_H
#define SLUICE_BENCH_STEADY_H

#include "bench/load.h"

typedef struct steady steady;

typedef struct steady_params {
    u32 conns, active, size;
    double rate;      // messages/s; 0 = none
    u64 heartbeat_ns; // 0 = none
    const dial *dial;
} steady_params;

// NULL with a sentence in why when the memory cannot be had.
steady *steady_open(load *l, const steady_params *p, char *why, size_t why_bytes);
// Opens all connections at --connect-rate and waits until the server has answered on each (a
// heartbeat, or the hello in publish mode). 0; -1 with *error and *reached (connections so far) on
// the first failure; -EINTR when the run was stopped.
int steady_connect(steady *s, bench_error *error, u32 *reached);
// Starts the schedules at start_ns; what is due comes through the two actors.
void steady_start(steady *s, u64 start_ns);
actor *steady_send_actor(steady *s);
actor *steady_heartbeat_actor(steady *s);
// No further message or heartbeat.
void steady_stop(steady *s);
// Counts what is still unanswered. Call after the drain.
void steady_finish(steady *s, u64 now_ns);
flow_stats *steady_stats(steady *s);
// Latency of heartbeats due in the window, and how many were sent and answered in all.
const hist *steady_heartbeats(const steady *s, u64 *sent, u64 *answered);
// Messages and heartbeats whose reply is still to come.
u64 steady_outstanding(const steady *s);
u32 steady_alive(const steady *s);
// Frames that were neither reply nor heartbeat: publications to the devices, in publish mode.
u64 steady_publications(const steady *s);
// Before cio_free of the loop's connections; closes nothing itself.
void steady_free(steady *s);

#endif
