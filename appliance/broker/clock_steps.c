// SPDX-License-Identifier: Apache-2.0
// clock_steps.c: see clock_steps.h.
#include "broker/clock_steps.h"

#include <string.h>

#include "store/log.h"

#define SEEN_MS 2000u // the clock is looked at every second

void clock_steps_add(clock_steps *s, clock_step step) {
    for (u32 i = 0; i < s->count; i++) {
        if (s->at[i].pos == step.pos) return;
    }
    step.until_ms = MIN(step.until_ms, (u64)INT64_MAX / 2);
    if (s->count == CLOCK_STEPS_MAX) memmove(&s->at[0], &s->at[1], --s->count * sizeof(s->at[0]));
    s->at[s->count++] = step;
}

// Logs that were made at one time run side by side: a step is seen in each of them. All of these come after all that
// were there before, whose numbers are lower; numbers begin anew after the last (data_dir.h).
static bool is_before(u64 origin, const clock_step *step) {
    u32 log = store_log_number(origin), own = store_log_number(step->pos);
    if (log == own) return origin < step->pos;
    u32 first = (own - step->worker) % STORE_LOG_NUMBERS;
    return (log - first) % STORE_LOG_NUMBERS >= STORE_LOG_NUMBERS / 2;
}

// A step is seen up to a second after it was made. What was written in between has a place before it and a time from
// after it. So forward only what is not from later than the step is moved, and back only what would be from a time to
// come: a message from long before that then stays younger than it is.
static bool moves(const clock_step *step, u64 time_ms) {
    if (step->step_ms > 0) return time_ms <= step->until_ms + SEEN_MS / 2;
    return (i64)time_ms > (i64)step->until_ms + step->step_ms + (i64)SEEN_MS;
}

u64 clock_steps_time(const clock_steps *s, u64 origin, u64 time_ms) {
    i64 at = (i64)MIN(time_ms, (u64)INT64_MAX / 2);
    for (u32 i = 0; i < s->count; i++) {
        const clock_step *step = &s->at[i];
        if (is_before(origin, step) && moves(step, (u64)at)) at = MAX(at + step->step_ms, 0);
    }
    return (u64)at;
}
