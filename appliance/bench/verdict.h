// SPDX-License-Identifier: Apache-2.0
// verdict.h: decides whether a run's figures are the server's or the generator's own.
#ifndef SLUICE_BENCH_VERDICT_H
#define SLUICE_BENCH_VERDICT_H

#include "bench/run.h"

// Sets r->valid and r->verdict from the lag, the busy share and the rates. A run is not valid when
// the generator was late itself ("generator saturated"): its latencies would be blamed on the
// server.
void bench_verdict(bench_result *r, const bench_options *o);

#endif
