// SPDX-License-Identifier: Apache-2.0
// schedule.c: arrival times from a seed. The running time is kept as a double of nanoseconds since
// the start: exact to a nanosecond for 100 days, and free of the drift that adding rounded gaps
// would give.
#include "bench/schedule.h"

#include <math.h>

// splitmix64 (Steele, Lea, Flood 2014): one addition and two multiplications, passes the usual
// tests.
u64 random_next(u64 *state) {
    *state += 0x9e3779b97f4a7c15ull;
    u64 z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void due_set(schedule *s) {
    u64 at = (u64)s->at_ns;
    if (s->tick_ns > 1) at = (at + s->tick_ns - 1) / s->tick_ns * s->tick_ns;
    s->due_ns = s->start_ns + at;
}

void schedule_next(schedule *s) {
    if (s->due_ns == UINT64_MAX) return;
    double gap = s->gap_ns;
    if (s->kind == ARRIVAL_POISSON) {
        // 53 random bits in (0, 1]: the logarithm is finite.
        double u = (double)((random_next(&s->random) >> 11) + 1) * 0x1p-53;
        gap *= -log(u);
    }
    s->at_ns += gap;
    due_set(s);
}

void schedule_start(schedule *s, arrival kind, double rate, u64 tick_ns, u64 seed, u64 start_ns) {
    *s = (schedule){.kind = kind,
                    .tick_ns = tick_ns,
                    .random = seed,
                    .start_ns = start_ns,
                    .due_ns = UINT64_MAX};
    if (rate <= 0) return;
    s->gap_ns = 1e9 / rate;
    due_set(s);
    if (kind == ARRIVAL_POISSON) schedule_next(s); // the first gap is random too
}

u32 schedule_random_below(schedule *s, u32 bound) {
    ASSERT(bound > 0);
    return (u32)(((random_next(&s->random) >> 32) * bound) >> 32);
}
