// SPDX-License-Identifier: Apache-2.0
// ctl_appliance.h: `sluice ctl appliance` and `sluice ctl net`: the appliance's own answers as people read them.
// what: NULL or "clock", "log", "pstore", "net", ... (a request of init's), "restart", "poweroff".
#ifndef SLUICE_OPS_CTL_APPLIANCE_H
#define SLUICE_OPS_CTL_APPLIANCE_H

#include "ops/ctl_client.h"

// Asks and prints; returns the exit status (CTL_*).
int ctl_appliance_run(const ctl_target *target, const char *what, bool json);

#endif
