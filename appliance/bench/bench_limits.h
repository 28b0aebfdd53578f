// SPDX-License-Identifier: Apache-2.0
// bench_limits.h: the bounds of the load generator, each named, with the relations between them.
// Where a bound can be met in a run, meeting it is a counted error or a refusal that says so.
#ifndef SLUICE_BENCH_LIMITS_H
#define SLUICE_BENCH_LIMITS_H

#include "base/base.h"

#define BENCH_CONNS_MAX 1000000u    // of one run; descriptors usually end it earlier
#define BENCH_DESCRIPTORS_SPARE 64u // kept for /proc, the ring, stdio, perf counters
#define BENCH_RATE_MAX 1e7          // messages or connections per second
#define BENCH_FRAME_BYTES_MIN 16u   // header, sequence number, connection id
#define BENCH_FRAME_BYTES_MAX (1u << 20)
#define BENCH_TX_CHUNK_BYTES 1024u      // frames of one connection joined in one send, if smaller
#define BENCH_TX_BYTES_MAX (4ull << 30) // address space of all send chunks (touched when used)
#define BENCH_OUTSTANDING_MAX 65536u    // messages of one connection without their reply
#define BENCH_STARTS_PER_TURN 32u       // sends between two looks for replies: bounds the loop gap
#define BENCH_CONNECTS_PER_TURN 8u  // the same for connects, which cost about five times as much
#define BENCH_LAG_NOTES 128u        // starts of all flows in one turn
#define BENCH_SHORT_OPEN_MAX 15000u // short connections open at once
#define BENCH_SLOW_MAX 4096u        // slow readers: each is visited every BENCH_SLOW_STEP_NS
#define BENCH_SLOW_STEP_NS (10 * NS_PER_MS)
#define BENCH_SLOW_STEP_BYTES 16384u // most that a slow reader sends in one step, in one call
#define BENCH_SLOW_SNDBUF_BYTES \
    65536u // of a slow reader: what it sent is then mostly the server's to hold
#define BENCH_TICK_SLEEP_NS 100000u // a timer for each message would cost more than the message
#define BENCH_CONNECT_WINDOW 64u    // connects started before the first is waited for
#define BENCH_PIDS_MAX 16u
#define BENCH_THREADS_MAX 512u // of all observed processes together
#define BENCH_RECV_BUFS 1024u  // provided buffers of the uring client
#define BENCH_RECV_BUF_BYTES_MIN 512u
#define BENCH_RECV_BUF_BYTES_MAX 16384u
#define BENCH_SOURCES_MAX 65536u // source addresses inside 127.0.0.0/8
#define BENCH_FIND_STEPS_MAX 12u
#define BENCH_DURATION_NS_MAX (24ull * 3600 * NS_PER_S)

// The generator's own lateness that is still called small: below it a run is never "saturated".
#define BENCH_LAG_SMALL_NS (250ull * 1000)
#define BENCH_BUSY_SHARE_MAX 0.97

_Static_assert(IS_POWER_OF_TWO(BENCH_OUTSTANDING_MAX), "ring index is masked");
_Static_assert(BENCH_LAG_NOTES >= 2 * (BENCH_STARTS_PER_TURN + BENCH_CONNECTS_PER_TURN),
               "all starts noted");
_Static_assert(IS_POWER_OF_TWO(BENCH_RECV_BUFS), "provided buffer ring");
_Static_assert(BENCH_RECV_BUFS <= 32768, "kernel's bound for one buffer ring");
_Static_assert(BENCH_FRAME_BYTES_MIN <= BENCH_TX_CHUNK_BYTES, "a chunk holds a frame");

#endif
