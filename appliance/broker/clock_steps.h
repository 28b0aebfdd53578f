// SPDX-License-Identifier: Apache-2.0
// clock_steps.h: when and by how much the wall clock was set. A record's time is that of the clock as it was: after
// the clock of a machine without a battery is set right, all that waits would seem to be as old as the step. A step is
// known by its place in a log, and what lies before that place is from before it. In doubt a record is taken for a
// younger one.
//
// Pure; the owner's.
#ifndef SLUICE_BROKER_CLOCK_STEPS_H
#define SLUICE_BROKER_CLOCK_STEPS_H

#include "base/base.h"

#define CLOCK_STEPS_MAX 64u // known at once; the oldest goes

typedef struct clock_step {
    u64 pos;       // store_pos: what has a lower one in the same log is from before
    u32 worker;    // whose log it was: its number less that is the first of the logs that were made with it
    u64 until_ms;  // UNIX time of the clock as it was then
    i64 step_ms;   // by which it was set: at least a second, forward or back
} clock_step;

typedef struct clock_steps {
    clock_step at[CLOCK_STEPS_MAX]; // in the order in which they were told: that of a log
    u32 count;
} clock_steps;

// One more; one that is known already (pos) is none.
void clock_steps_add(clock_steps *s, clock_step step);
// UNIX time in ms that the record of that origin (store_pos) carries, in the time of the clock as it is now. May be a
// time to come.
u64 clock_steps_time(const clock_steps *s, u64 origin, u64 time_ms);

#endif
