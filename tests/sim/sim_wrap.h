// SPDX-License-Identifier: Apache-2.0
// sim_wrap.h: the few functions between the gateway and the real world that are not behind io.h: clocks,
// the process's hash key, log lines, close(2). The linker puts these wrappers in front of them
// (--wrap), so that a simulated run depends on nothing but its seed.
#ifndef SLUICE_TESTS_SIM_WRAP_H
#define SLUICE_TESTS_SIM_WRAP_H

#include "base/base.h"
#include "base/log.h"

// Called with every log line, of every level. NULL: lines are dropped.
typedef void (*sim_log_hook)(void *context, log_level level, const char *line);
void sim_log_set(sim_log_hook hook, void *context);
// How far the wall clock is from what it would be; the monotonic one does not care.
void sim_wall_set(i64 ns);

#endif
