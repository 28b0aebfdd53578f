// SPDX-License-Identifier: Apache-2.0
// partition.h: the part of partition.c that tests use: the directory is an argument. Others call
// init_partition_find (control.h).
#ifndef SLUICE_INIT_PARTITION_H
#define SLUICE_INIT_PARTITION_H

#include "base/base.h"

int init_partition_find_in(const char *sysfs, const char *partname, char *out, size_t size);

#endif
