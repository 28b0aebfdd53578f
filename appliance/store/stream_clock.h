// SPDX-License-Identifier: Apache-2.0
// stream_clock.h: how far the wall clock may be trusted to judge the age of messages. It may be wrong by decades: a
// machine without a battery starts in the past and is set right later, a broken one starts in the future. The
// monotonic clock shows when it is set; at a start the last time in the log shows it.
//
// Pure: both times are the caller's.
#ifndef SLUICE_STORE_STREAM_CLOCK_H
#define SLUICE_STORE_STREAM_CLOCK_H

#include "base/base.h"

typedef struct stream_clock {
    i64 apart_ms;      // wall minus monotonic at the last look
    u64 rest_until_ms; // monotonic
    bool seen;         // there was one
} stream_clock;

typedef enum stream_clock_verdict {
    CLOCK_STEADY,  // ages can be judged
    CLOCK_RESTS,   // not now: it was set not long ago
    CLOCK_FORWARD, // it has been set ahead by more than anybody can vouch for: ages are counted from now on
    CLOCK_BACK,    // the same backwards: times to come are now
} stream_clock_verdict;

// Looks at the clocks. last_ms: at the first look what the wall clock said last, before the restart, 0 = nothing
// known. *step_ms: by how much the clock has been set; 0 unless it has.
stream_clock_verdict stream_clock_look(stream_clock *c, u64 mono_ms, u64 wall_ms, u64 last_ms, i64 *step_ms);

#endif
