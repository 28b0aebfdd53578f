// SPDX-License-Identifier: Apache-2.0
// ctl_update.h: `sluice ctl update`: sends an update file in parts to an appliance, or tells it a URL, and follows
// what it does with it. The requests are those of appliance/init/update.h.
#ifndef SLUICE_OPS_CTL_UPDATE_H
#define SLUICE_OPS_CTL_UPDATE_H

#include "ops/ctl_client.h"

typedef struct ctl_update {
    const char *what; // a file, a URL, "confirm", "abort"; NULL: show the state
    bool allow_downgrade, no_restart, json;
} ctl_update;

// Returns a CTL_ status.
int ctl_update_run(const ctl_target *target, const ctl_update *u);

#endif
