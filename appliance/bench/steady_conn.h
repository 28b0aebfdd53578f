// SPDX-License-Identifier: Apache-2.0
// steady_conn.h: inside of the flow of long connections, shared by steady.c (traffic) and
// steady_connect.c (set-up) only.
#ifndef SLUICE_BENCH_STEADY_CONN_H
#define SLUICE_BENCH_STEADY_CONN_H

#include "bench/steady.h"

#define STEADY_TIMES_FIRST 8u // due times of one cache line; most connections never need more

typedef struct steady_conn {
    cio_conn io;
    u64 due, sent, done; // message numbers, see steady.c
    u64 gaps;            // numbers that were skipped by replies and counted as lost
    u64 *times;
    u32 times_mask;
    u32 id, chunk;
    u64 heartbeat_due_ns; // of the one that is unanswered; 0 = none
    bool heartbeat_pending, hello_pending, ready;
    wire_rx rx;
} steady_conn;

struct steady {
    load *load;
    steady_params params;
    cio_events events;
    wire_mode mode;
    u32 size, conns, active, alive, ready_count;
    bench_error last_error;
    steady_conn *conn;
    u8 *chunks; // send buffers, chunk_bytes each, one a connection
    u32 chunk_bytes, chunk_free_count;
    u32 *chunk_free;
    schedule messages, beats;
    u32 turn, beat_turn;
    actor send_actor, heartbeat_actor;
    flow_stats stats;
    hist heartbeats;
    u64 heartbeats_sent, heartbeats_answered, publications;
    u32 heartbeats_outstanding; // on connections that are alive
};

void steady_conn_send(steady *s, steady_conn *c);
void steady_conn_heartbeat(steady *s, steady_conn *c, u64 due_ns);

#endif
