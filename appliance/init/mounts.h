// SPDX-License-Identifier: Apache-2.0
// mounts.h: the file systems that PID 1 makes for itself, and their end.
#ifndef SLUICE_INIT_MOUNTS_H
#define SLUICE_INIT_MOUNTS_H

#include "base/base.h"

// devtmpfs, proc, sysfs, tmpfs on /run, pstore; and what a process expects of PID 1: umask, limits,
// standard descriptors. Failures are logged by mounts_report (nothing can be logged before /dev is there);
// only /dev and /proc are indispensable. Returns 0 or -errno of these.
int mounts_make(void);
void mounts_report(void);
// At the end: unmounts what holds data, makes the rest read-only. 0, or -errno of the first that failed.
int mounts_end(void);

#endif
