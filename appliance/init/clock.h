// SPDX-License-Identifier: Apache-2.0
// clock.h: the wall clock. At boot it is at least the latest of: what the kernel has, the hardware clock, the
// day of the build, and the time saved in the state record (so saved time counts only if it is ahead: a
// correct clock is never put back). Then time servers: several are asked, a majority must agree, the clock
// is stepped once and slewed from then on, and the hardware clock is written. Nothing waits for any of it.
#ifndef SLUICE_INIT_CLOCK_H
#define SLUICE_INIT_CLOCK_H

#include <yyjson.h>

#include "base/base.h"

typedef enum clock_source { CLOCK_KERNEL, CLOCK_RTC, CLOCK_BUILD, CLOCK_SAVED } clock_source;

// The floor of four times in seconds since 1970, 0 = unknown. A hardware clock or saved time more than
// LIMIT_CLOCK_AHEAD_S beyond the build is taken for damaged. *source: which one it was.
i64 clock_floor(i64 kernel_s, i64 rtc_s, i64 build_s, i64 saved_s, clock_source *source);
// "2026-11-30T14:00:00Z" to seconds; 0 when it is no such text.
i64 clock_parse(const char *text);
i64 clock_build_s(void);
// What is saved of a time since 1970: seconds, rounded up. Rounded down, the next boot would begin at a time that this
// one has had already, and one that lasted less than a second (after it began at the day of the build) would not count.
u64 clock_to_save_s(u64 now_ns);

// Sets the clock to its floor. Needs the state record.
void clock_floor_apply(void);
// Saves the time now and then (LIMIT_CLOCK_SAVE_MS), and asks servers once the network is up.
void clock_start(void);
void clock_network_up(void);
// Writes the time into the state record (not flushed), and the hardware clock when the time is right.
void clock_save_now(void);
void clock_describe(yyjson_mut_doc *doc, yyjson_mut_val *to);

// --- for sntp.c: what an agreement leads to ---

// offset_ns: what must be added to the clock. Steps or slews; error_ns: how wrong it may be, poll_s: when the next
// comes. server: named in the log. Returns whether it was applied.
bool clock_correct(i64 offset_ns, u64 error_ns, u32 poll_s, const char *server);
bool clock_is_synced(void);

#endif
