// SPDX-License-Identifier: Apache-2.0
// short.h: short connections: each is due at a time of the schedule, connects, sends one frame,
// reads its reply and closes. With hold set it is a storm: a given number of connections that stay
// open.
#ifndef SLUICE_BENCH_SHORT_H
#define SLUICE_BENCH_SHORT_H

#include "bench/load.h"

typedef struct short_flow short_flow;

typedef struct short_params {
    double rate;  // connections/s; 0 = as fast as the generator can (storm only)
    u32 size;     // bytes of the frame
    u32 total;    // storm: stop after so many; 0 = no end
    u32 open_max; // open at once
    bool hold;    // keep connections open after their reply
    const dial *dial;
} short_params;

short_flow *short_open(load *l, const short_params *p, char *why, size_t why_bytes);
void short_start(short_flow *s, u64 start_ns);
actor *short_start_actor(short_flow *s);
actor *short_expire_actor(short_flow *s); // fails what is older than --timeout
void short_stop(short_flow *s);
// Counts what is still open without its reply.
void short_finish(short_flow *s, u64 now_ns);
flow_stats *short_stats(short_flow *s);
// Storm: all have been started and have ended in a reply or an error; when the last reply came.
bool short_all_served(const short_flow *s);
u64 short_last_answer_ns(const short_flow *s);
u64 short_first_start_ns(const short_flow *s);
void short_free(short_flow *s);

#endif
