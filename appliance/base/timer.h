// SPDX-License-Identifier: Apache-2.0
// timer.h: one worker's timer wheel on CLOCK_MONOTONIC. Hashed and hierarchical: 16 ms ticks, four
// levels of 64 slots, so the range is 3 days; longer timers are parked in the last slot and
// re-placed. Adding and cancelling are O(1); a timer never fires early and at most one tick late.
//
// Users re-arm lazily: an idle timeout is not moved at each byte, it looks at the last activity
// when it fires. Owner thread only.
#ifndef SLUICE_BASE_TIMER_H
#define SLUICE_BASE_TIMER_H

#include "base/base.h"

#define TIMER_TICK_NS (16 * NS_PER_MS)

typedef struct timer_node timer_node;
typedef void (*timer_callback)(timer_node *node, void *context);

struct timer_node {
    timer_node *next, *prev; // NULL when not armed
    u64 due_ns;
    timer_callback callback;
};

typedef struct timer_wheel timer_wheel;

// context is passed to every callback (the worker). Returns NULL when out of memory.
timer_wheel *timer_wheel_create(u64 now_ns, void *context);
void timer_wheel_destroy(timer_wheel *wheel);
// Arms (or moves) a timer; due_ns in the past fires at the next timer_run. node->callback must be
// set.
void timer_arm(timer_wheel *wheel, timer_node *node, u64 due_ns);
// Harmless when not armed.
void timer_cancel(timer_wheel *wheel, timer_node *node);
static inline bool timer_is_armed(const timer_node *node) {
    return node->next != NULL;
}
// Fires what is due. Callbacks may arm and cancel any timer. Returns how many fired.
u32 timer_run(timer_wheel *wheel, u64 now_ns);
// When timer_run should be called next: at or before the earliest due time, 0 when a timer was
// already due when it was armed, UINT64_MAX when there is none.
u64 timer_next_ns(const timer_wheel *wheel);

#endif
