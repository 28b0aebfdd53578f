// SPDX-License-Identifier: Apache-2.0
// config_collect.h: where the appliance's configuration comes from. Sources, each above the ones before
// it: baked default (CONFIG_BAKED_PATH) < sluice.conf on the ESP < NoCloud volume < cloud metadata <
// kernel command line (sluice.conf.KEY=VALUE). They are merged key by key, checked as a whole as
// `sluice check` would, and written to CONFIG_RUN_PATH for the gateway. A set of sources that does not
// pass changes nothing: the last good configuration stays (in the state record, or on the data partition
// when it is larger than CONFIG_GOOD_STATE_BYTES), and the request "config" says which file and line is
// wrong. Init's loop only.
#ifndef SLUICE_INIT_CONFIG_COLLECT_H
#define SLUICE_INIT_CONFIG_COLLECT_H

#include "base/base.h"

#define CONFIG_BAKED_PATH "/etc/sluice/sluice.conf" // in the initramfs
#define CONFIG_RUN_PATH "/run/sluice/sluice.conf"
#define CONFIG_GOOD_FILE "last-good.conf" // in the data partition's directory
#define CONFIG_GOOD_STATE_BYTES 3072u     // a last good one up to this size lives in the state record

// Reads every source that is there, writes the file, configures the network (init_net_configure) and
// calls init_config_ready(false). Cloud metadata follows when the network is up and calls
// init_config_ready(true) if it changes anything. Takes at most CONFIG_WAIT_MS for disks that are slow to
// appear. Registers the request "config". Returns 0, or -errno when not even the built-in default could be
// written.
int init_config_collect(void);
// The same for tests: no disk is read, baked (may be NULL) and run stand for the paths, cloud (may be NULL)
// for what the firmware says.
int init_config_collect_in(const char *baked, const char *run, const char *cloud);
// The data partition is mounted (or will not be): a last good configuration that lives there can be used.
void init_config_data_mounted(void);
// The network is up: metadata may be asked for. Called by the network part.
void init_config_network_up(void);
// A gateway that was given this configuration did not accept it: go back to the last good one. why is
// logged and shown.
void init_config_rejected(const char *why);
// The gateway has been ready with it: it is the last good one from now on.
void init_config_accepted(void);

#endif
