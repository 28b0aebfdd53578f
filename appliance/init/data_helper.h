// SPDX-License-Identifier: Apache-2.0
// data_helper.h: the steps of data.h that may block; they run in the helper process (loop.h), one after
// another, and log as they go.
#ifndef SLUICE_INIT_DATA_HELPER_H
#define SLUICE_INIT_DATA_HELPER_H

#include "init/data.h"

// Grows the partition to the disk's end (partition table and the kernel's view of it; the file system is grown
// after mounting). 0 when grown or nothing to grow, else -errno. Never leaves the table unreadable.
int data_partition_grow(const char *partition);
// Checks, repairs or makes the file system, mounts it on dir and grows it. Returns the outcome.
data_outcome data_mount(const char *partition, const char *dir);
// For tests: the table of the disk (a file), partition `number`; whether it was grown: 1, 0, or -errno.
int data_table_grow(const char *disk, u32 number, u64 *first_lba, u64 *blocks, u32 *block_bytes);

#endif
