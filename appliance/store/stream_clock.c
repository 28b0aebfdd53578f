// SPDX-License-Identifier: Apache-2.0
// stream_clock.c: see stream_clock.h.
#include "store/stream_clock.h"

#include "limits.h"

static stream_clock_verdict set(stream_clock *c, u64 mono_ms, i64 step_ms) {
    c->rest_until_ms = mono_ms + LIMIT_STREAM_CLOCK_REST_MS;
    if (step_ms > (i64)LIMIT_STREAM_CLOCK_WRONG_MS) return CLOCK_FORWARD;
    return step_ms < -(i64)LIMIT_STREAM_CLOCK_WRONG_MS ? CLOCK_BACK : CLOCK_RESTS;
}

stream_clock_verdict stream_clock_look(stream_clock *c, u64 mono_ms, u64 wall_ms, u64 last_ms, i64 *step_ms) {
    i64 apart_ms = (i64)(wall_ms - mono_ms);
    i64 step = c->seen ? apart_ms - c->apart_ms : 0;
    i64 bound = (i64)LIMIT_STREAM_CLOCK_STEP_MS;
    if (!c->seen && last_ms != 0) {
        // It was off for a time that only the clock tells: believed unless that is very long.
        step = (i64)(wall_ms - last_ms);
        bound = (i64)LIMIT_STREAM_CLOCK_WRONG_MS;
    }
    c->apart_ms = apart_ms;
    c->seen = true;
    bool stepped = step > bound || step < -bound;
    *step_ms = stepped ? step : 0;
    if (stepped) return set(c, mono_ms, step);
    return mono_ms < c->rest_until_ms ? CLOCK_RESTS : CLOCK_STEADY;
}
