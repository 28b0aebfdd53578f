// SPDX-License-Identifier: Apache-2.0
// schedule.h: when messages are due. The whole schedule follows from rate, arrival, tick and seed:
// it is fixed before the first message and nothing the server does moves it. That is what makes the
// load open loop; latency counts from these times.
#ifndef SLUICE_BENCH_SCHEDULE_H
#define SLUICE_BENCH_SCHEDULE_H

#include "base/base.h"

typedef enum arrival { ARRIVAL_POISSON, ARRIVAL_UNIFORM } arrival;

typedef struct schedule {
    arrival kind;
    double gap_ns; // mean distance of two messages
    double at_ns;  // of the next one, since start_ns, before rounding to the tick
    u64 start_ns;  // CLOCK_MONOTONIC
    u64 tick_ns;   // due times are rounded up to multiples of it from start_ns; 0 = not rounded
    u64 random;    // state of the generator
    u64 due_ns;    // the next due time, CLOCK_MONOTONIC; UINT64_MAX when rate is 0
} schedule;

// rate: messages per second, 0 for none. Poisson arrivals have exponential gaps.
void schedule_start(schedule *s, arrival kind, double rate, u64 tick_ns, u64 seed, u64 start_ns);
// Moves on to the message after the one at due_ns.
void schedule_next(schedule *s);
// A random number below bound, from the same seed (which connection a message goes to).
u32 schedule_random_below(schedule *s, u32 bound);
// The generator itself, for other uses of a seed.
u64 random_next(u64 *state);

#endif
