// SPDX-License-Identifier: Apache-2.0
// options.h: the command line of `sluice bench`, parsed and checked. One table in options.c gives
// every option its argument, bounds, the modes it belongs to and its text; the help is printed from
// it.
#ifndef SLUICE_BENCH_OPTIONS_H
#define SLUICE_BENCH_OPTIONS_H

#include "bench/bench_limits.h"
#include "bench/client_io.h"
#include "bench/schedule.h"
#include "bench/wire.h"

typedef enum bench_kind {
    BENCH_FRAME,
    BENCH_CONN,
    BENCH_STORM,
    BENCH_SLOW,
    BENCH_IDLE,
    BENCH_KINDS
} bench_kind;
typedef enum bench_wait { WAIT_AUTO, WAIT_SPIN, WAIT_SLEEP } bench_wait;
typedef enum bench_close { CLOSE_FIN, CLOSE_RST } bench_close;

#define BENCH_TICK_AUTO UINT64_MAX // 0 when spinning, BENCH_TICK_SLEEP_NS when sleeping

typedef struct bench_options {
    bench_kind kind;
    const char *to;
    u32 mode;           // wire_mode
    u32 size;           // bytes of a frame on the wire, header included
    u32 conns, active;  // long connections, and how many of them send
    double rate;        // messages/s (frame, slow), connections/s (conn, storm; 0 = no pause)
    double short_rate;  // frame: short connections/s beside the long ones
    double steady_rate; // storm: messages/s on steady_conns beside the storm
    u32 steady_conns;
    u32 slow;      // slow readers
    u64 read_rate; // bytes/s that each of them reads; 0 = never
    u32 arrival;   // enum arrival
    u32 close;     // bench_close
    u32 engine;    // cio_engine
    u32 wait;      // bench_wait
    u64 duration_ns, warmup_ns, heartbeat_ns, drain_ns, timeout_ns, tick_ns;
    double connect_rate; // long connections opened per second during set-up
    u32 src_addrs;       // 0 = as many as needed
    u32 rcvbuf;
    const char *id_prefix, *token;
    u64 seed;
    i32 pin_cpu; // -1 = not pinned
    u32 pids[BENCH_PIDS_MAX];
    u32 pid_count;
    bool pid_none;
    u64 syscalls_ns; // length of the extra window in which system calls are counted; 0 = no
    bool find_max;
    u64 p99_limit_ns;
    u64 lag_limit_ns; // 0 = the built-in rule
    bool json, verbose;
    const char *out; // JSON file
} bench_options;

void bench_options_default(bench_options *o, bench_kind kind);
// Parses argv[1..] of `bench KIND`. 0; 1 when help was asked for and printed; -EINVAL after a
// message to stderr that names the option, what is wrong and what is allowed.
int bench_options_parse(bench_options *o, int argc, char **argv);
void bench_options_help(bench_kind kind);
const char *bench_kind_name(bench_kind kind);
const char *bench_mode_name(u32 mode);

// The same parsers for other command lines: "50k", "1.5m"; "250us", "5ms", "2s", "1m", "1h" (a bare
// number is seconds). 0 or -EINVAL.
int bench_parse_number(const char *text, double *out);
int bench_parse_time_ns(const char *text, u64 *out);

#endif
