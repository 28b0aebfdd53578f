// SPDX-License-Identifier: Apache-2.0
// slow.h: readers that send as fast as the server takes it and never read, or read little: what
// does the server do about them? It may push back (stop reading, so that the sender's socket fills)
// or close.
#ifndef SLUICE_BENCH_SLOW_H
#define SLUICE_BENCH_SLOW_H

#include "bench/load.h"

typedef struct slow_flow slow_flow;

typedef struct slow_result {
    u32 count;
    u32 sending;       // still being served: the server buffers or drops without end
    u32 blocked;       // back-pressure: the socket has taken nothing for the last second or more
    u32 closed, reset; // by the server, with FIN or RST
    u64 bytes_min, bytes_max, bytes_sum; // taken from each slow reader
    u64 closed_first_ns, closed_last_ns; // after its first byte
} slow_result;

// Opens the connections at once. NULL with a sentence in why.
slow_flow *slow_open(load *l, const dial *d, u32 count, u64 read_rate, char *why, size_t why_bytes);
void slow_start(slow_flow *s, u64 start_ns);
actor *slow_actor(slow_flow *s);
void slow_stop(slow_flow *s);
void slow_report(const slow_flow *s, u64 now_ns, slow_result *out);
void slow_free(slow_flow *s);

#endif
