// SPDX-License-Identifier: Apache-2.0
// supervise_table.h: what is decided about the gateway child, without processes or clocks: one table
// state x event. supervise.c feeds it events and does what it orders.
//
// A crash is an end that nobody asked for. The pause before the next start grows with crashes in a row.
// More than LIMIT_CRASHES_MAX crashes within LIMIT_CRASH_WINDOW_MS are a crash loop: the machine
// restarts (a fresh kernel and disk, or the other slot when an update is on trial). After LIMIT_CRASH_REBOOTS
// such boots in a row restarting has not helped: status mode, in which the machine stays up, reachable by
// console and network, and the gateway is tried again every LIMIT_STATUS_RETRY_MS.
// An end with status 2 is a wrong configuration: a reboot can not help, so it never leads to one.
#ifndef SLUICE_INIT_SUPERVISE_TABLE_H
#define SLUICE_INIT_SUPERVISE_TABLE_H

#include "base/base.h"
#include "limits.h"

typedef enum sv_state {
    SV_WAITING,  // no configuration yet, or the data partition is not decided
    SV_STARTING, // runs, not ready
    SV_SERVING,  // ready
    SV_PAUSING,  // ended; the next start is due when the timer fires
    SV_KILLING,  // stuck; was told to abort, is killed when the timer fires
    SV_STOPPING, // shutdown: was told to drain
    SV_STOPPED,  // shutdown: gone
    SV_STATES
} sv_state;

typedef enum sv_event {
    SV_GO,     // configuration and data are there
    SV_READY,  // the gateway says it serves
    SV_EXIT,   // the child has ended; sv->end says how
    SV_TIMER,
    SV_HANG,   // a heartbeat stands still, or the start takes too long
    SV_STOP,   // shutdown
    SV_NOW,    // shutdown, second request: at once
    SV_EVENTS
} sv_event;

typedef enum sv_end { SV_END_CLEAN, SV_END_CONFIG, SV_END_CRASH } sv_end;

typedef enum sv_action {
    SV_DO_NOTHING,
    SV_DO_START,
    SV_DO_ABORT,  // SIGABRT: the crash handler leaves the flight recorders
    SV_DO_TERM,   // SIGTERM: drain
    SV_DO_KILL,
    SV_DO_REBOOT, // crash loop
    SV_DO_STATUS, // crash loop once too often: status mode begins
    SV_DO_DONE,   // the child is gone for good
} sv_action;

typedef struct supervise {
    sv_state state;
    sv_end end;               // set by the caller before SV_EXIT
    bool status_mode;
    u32 reboots;              // boots before this one that ended in a crash loop, in a row
    u32 in_a_row;             // crashes without LIMIT_SETTLED_MS of service between them
    u32 restarts;             // since boot
    u64 ready_ns;             // when it became ready; 0 = is not
    u64 crash_ns[LIMIT_CRASHES_MAX]; // the last ones, a ring
    u32 crashes;
    u64 timer_ms;             // out: with the action, when not 0: arm the timer
} supervise;

// Applies the event; returns what to do. sv->timer_ms is 0 or the time to SV_TIMER.
sv_action supervise_event(supervise *sv, sv_event event, u64 now_ns);
// May the hardware watchdog be fed? beats: every heartbeat is younger than LIMIT_FEED_BEAT_MS.
bool supervise_may_feed(const supervise *sv, bool beats);
// The pause before the next start after so many crashes in a row.
u64 supervise_backoff_ms(u32 in_a_row);
const char *supervise_state_name(sv_state state);

#endif
