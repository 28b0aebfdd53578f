// SPDX-License-Identifier: Apache-2.0
// init_log.h: the log of `sluice init` and of what it supervises. Every line goes to all consoles of
// /proc/consoles (the kernel sends PID 1's output to the last console= only), and into a ring of the last
// LIMIT_INIT_LOG_BYTES, which the request "log" returns. Consoles are non-blocking: a serial port that
// does not drain loses lines (counted, and said when it drains again), it never holds up init.
//
// When init is not PID 1 (tests, other commands) lines go to stderr.
#ifndef SLUICE_INIT_INIT_LOG_H
#define SLUICE_INIT_INIT_LOG_H

#include "base/base.h"
#include "base/log.h"

// One line, without newline; control characters are escaped. Longer than LIMIT_LOG_LINE_BYTES is cut.
// Keeps errno.
void init_log(log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
#define init_error(...) init_log(LOG_ERROR, __VA_ARGS__)
#define init_warn(...) init_log(LOG_WARN, __VA_ARGS__)
#define init_info(...) init_log(LOG_INFO, __VA_ARGS__)

// Text of a child as it came (whole lines are passed on as they are; name prefixes them when not NULL).
void init_log_child_text(const char *name, const char *text, size_t len);

// Opens the consoles; stderr only with consoles = false. Returns how many could be opened.
int init_log_open(bool consoles);
// Waits until the consoles took what was written, at most ms. At the end of a shutdown.
void init_log_drain(u32 ms);
// The newest complete lines, at most size bytes, oldest first. Returns bytes.
size_t init_log_tail(char *out, size_t size);
// Lines that a console did not take.
u64 init_log_lost(void);
int init_log_console_count(void);

#endif
