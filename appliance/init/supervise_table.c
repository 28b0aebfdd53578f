// SPDX-License-Identifier: Apache-2.0
// supervise_table.c: see supervise_table.h. Every change of sv->state is in this file.
#include "init/supervise_table.h"

typedef sv_action (*sv_step)(supervise *sv, u64 now_ns);

static const char *const state_names[SV_STATES] = {
    [SV_WAITING] = "waiting", [SV_STARTING] = "starting", [SV_SERVING] = "serving", [SV_PAUSING] = "pausing",
    [SV_KILLING] = "killing", [SV_STOPPING] = "stopping", [SV_STOPPED] = "stopped",
};

// Nothing, a moment, then doubling.
u64 supervise_backoff_ms(u32 in_a_row) {
    static const u32 first[] = {0, 100, 1000};
    if (in_a_row < ARRAY_LEN(first)) return first[in_a_row];
    u32 doublings = MIN(in_a_row - (u32)ARRAY_LEN(first) + 1, 16u);
    return MIN(1000ull << doublings, (u64)LIMIT_CRASH_BACKOFF_MS);
}

static sv_action step_start(supervise *sv, u64 now_ns) {
    (void)now_ns;
    sv->state = SV_STARTING;
    return SV_DO_START;
}

// Status mode from the start (the kernel died again and again): the first try waits too, so that there is a
// minute in which the machine can be reached.
static sv_action step_go(supervise *sv, u64 now_ns) {
    if (!sv->status_mode) return step_start(sv, now_ns);
    sv->state = SV_PAUSING;
    sv->timer_ms = LIMIT_STATUS_RETRY_MS;
    return SV_DO_NOTHING;
}

static sv_action step_ready(supervise *sv, u64 now_ns) {
    sv->state = SV_SERVING;
    sv->ready_ns = now_ns;
    return SV_DO_NOTHING;
}

static sv_action pause_ms(supervise *sv, u64 ms) {
    sv->state = SV_PAUSING;
    if (ms == 0) {
        sv->state = SV_STARTING;
        return SV_DO_START;
    }
    sv->timer_ms = ms;
    return SV_DO_NOTHING;
}

// Remembers a crash; true when there were too many in the window.
static bool crash_counts(supervise *sv, u64 now_ns) {
    u64 *oldest = &sv->crash_ns[sv->crashes % LIMIT_CRASHES_MAX];
    bool full = sv->crashes >= LIMIT_CRASHES_MAX;
    bool loop = full && now_ns - *oldest < LIMIT_CRASH_WINDOW_MS * NS_PER_MS;
    *oldest = now_ns;
    sv->crashes++;
    return loop;
}

static sv_action crash_loop(supervise *sv) {
    if (sv->reboots < LIMIT_CRASH_REBOOTS) {
        sv->state = SV_STOPPED;
        return SV_DO_REBOOT;
    }
    sv->status_mode = true;
    pause_ms(sv, LIMIT_STATUS_RETRY_MS);
    return SV_DO_STATUS;
}

static sv_action step_exit(supervise *sv, u64 now_ns) {
    bool settled = sv->ready_ns != 0 && now_ns - sv->ready_ns >= LIMIT_SETTLED_MS * NS_PER_MS;
    if (settled) sv->in_a_row = 0;
    sv->ready_ns = 0;
    sv->restarts++;
    u64 wait_ms = supervise_backoff_ms(sv->in_a_row++);
    if (sv->end == SV_END_CONFIG) return pause_ms(sv, LIMIT_CRASH_BACKOFF_MS);
    bool loop = crash_counts(sv, now_ns);
    if (sv->status_mode && !settled) return pause_ms(sv, LIMIT_STATUS_RETRY_MS);
    return loop ? crash_loop(sv) : pause_ms(sv, wait_ms);
}

static sv_action step_hang(supervise *sv, u64 now_ns) {
    (void)now_ns;
    sv->state = SV_KILLING;
    sv->end = SV_END_CRASH;
    sv->timer_ms = LIMIT_ABORT_MS;
    return SV_DO_ABORT;
}

static sv_action step_kill(supervise *sv, u64 now_ns) {
    (void)now_ns;
    (void)sv;
    return SV_DO_KILL;
}

static sv_action step_drain(supervise *sv, u64 now_ns) {
    (void)now_ns;
    sv->state = SV_STOPPING;
    sv->ready_ns = 0;
    sv->timer_ms = LIMIT_DRAIN_MS;
    return SV_DO_TERM;
}

static sv_action step_stop_now(supervise *sv, u64 now_ns) {
    (void)now_ns;
    sv->state = SV_STOPPING;
    return SV_DO_KILL;
}

static sv_action step_done(supervise *sv, u64 now_ns) {
    (void)now_ns;
    sv->state = SV_STOPPED;
    return SV_DO_DONE;
}

// An event without a step changes nothing.
static const sv_step table[SV_STATES][SV_EVENTS] = {
    [SV_WAITING] = {[SV_GO] = step_go, [SV_STOP] = step_done, [SV_NOW] = step_done},
    [SV_STARTING] = {[SV_READY] = step_ready, [SV_EXIT] = step_exit, [SV_HANG] = step_hang, [SV_STOP] = step_drain,
                     [SV_NOW] = step_stop_now},
    [SV_SERVING] = {[SV_EXIT] = step_exit, [SV_HANG] = step_hang, [SV_STOP] = step_drain, [SV_NOW] = step_stop_now},
    [SV_PAUSING] = {[SV_TIMER] = step_start, [SV_GO] = step_start, [SV_STOP] = step_done, [SV_NOW] = step_done},
    [SV_KILLING] = {[SV_TIMER] = step_kill, [SV_EXIT] = step_exit, [SV_STOP] = step_stop_now, [SV_NOW] = step_stop_now},
    [SV_STOPPING] = {[SV_TIMER] = step_kill, [SV_EXIT] = step_done, [SV_NOW] = step_kill},
    [SV_STOPPED] = {[SV_STOP] = step_done, [SV_NOW] = step_done},
};

sv_action supervise_event(supervise *sv, sv_event event, u64 now_ns) {
    ASSERT(sv->state < SV_STATES && event < SV_EVENTS);
    sv->timer_ms = 0;
    sv_step step = table[sv->state][event];
    return step == NULL ? SV_DO_NOTHING : step(sv, now_ns);
}

// Starting and pausing are bounded by the start limit and the crash loop, waiting is not the gateway's
// fault; a stuck gateway that could not be killed, or a shutdown that hangs, ends by the watchdog.
bool supervise_may_feed(const supervise *sv, bool beats) {
    switch (sv->state) {
    case SV_SERVING: return beats;
    case SV_WAITING:
    case SV_STARTING:
    case SV_PAUSING: return true;
    default: return false;
    }
}

const char *supervise_state_name(sv_state state) {
    ASSERT(state < SV_STATES);
    return state_names[state];
}
