// SPDX-License-Identifier: Apache-2.0
// init.h: `sluice init`, the appliance's PID 1, and `poweroff`, which asks it to shut down.
#ifndef SLUICE_INIT_INIT_H
#define SLUICE_INIT_INIT_H

#include "base/base.h"

// PID 1 of the appliance; the kernel starts it as /init. With --container it supervises the gateway in a
// container: no mounts, no network, no clock, no watchdog, log to stderr. Returns only with --container,
// or with a usage error.
int init_main(int argc, char **argv);
// /sbin/poweroff and /sbin/reboot, as the kernel and hypervisors' services call them: signals PID 1. Returns 0.
int init_poweroff_main(int argc, char **argv);

#endif
