// SPDX-License-Identifier: Apache-2.0
// boot_check.h: whether a system on trial does what it is for, beyond its gateway being ready: its admin port
// answers, and what the configuration names can be reached. Blocking, bounded; for a helper process.
#ifndef SLUICE_INIT_BOOT_CHECK_H
#define SLUICE_INIT_BOOT_CHECK_H

#include "conf/config.h"

// 0, or -errno with one sentence in why.
int boot_check_run(const config *c, char *why, size_t size);

#endif
