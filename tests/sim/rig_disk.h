// SPDX-License-Identifier: Apache-2.0
// rig_disk.h: between rig.c and rig_disk.c only.
#ifndef SLUICE_TESTS_RIG_DISK_H
#define SLUICE_TESTS_RIG_DISK_H

#include "rig.h"

// The directory of the logs, made or read. False: the power has gone meanwhile.
bool rig_data_open(rig *r);
// As gateway_settle.c does, where the logs are another number of workers'. False: as above.
bool rig_settle(rig *r);
// The logs are read back, and what was in them is in force. False: as above.
bool rig_logs_start(rig *r);
void rig_workers_make(rig *r);
// Tells all workers to stop and turns until they have. False: one did not, or something failed.
bool rig_stop(rig *r);
// in_order: with the last commit.
void rig_workers_free(rig *r, bool in_order);

#endif
