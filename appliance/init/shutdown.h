// SPDX-License-Identifier: Apache-2.0
// shutdown.h: the ordered end: gateway drained, time and seed saved, other processes ended, data unmounted,
// consoles drained, reboot(2). All of it within LIMIT_SHUTDOWN_MS, which the hardware watchdog enforces.
// init_shutdown (control.h) starts it.
#ifndef SLUICE_INIT_SHUTDOWN_H
#define SLUICE_INIT_SHUTDOWN_H

#include "base/base.h"

// real: ends in reboot(2); else the loop is stopped and init_main returns.
void shutdown_setup(bool real);
// Called once, when the gateway is gone, before the state record is flushed; at most 8.
void shutdown_hook(void (*hook)(void));
bool shutdown_is_under_way(void);

#endif
