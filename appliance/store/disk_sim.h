// SPDX-License-Identifier: Apache-2.0
// disk_sim.h: a disk in memory, from a seed, for tests. What is written is only in its cache until a sync; a
// power cut keeps, loses or tears each sector that was not synced, on its own; names that were not synced with
// their directory may be there or not. Writes and syncs can fail; after a failed sync what was dirty is called
// clean, as the kernel does, whether it reached the disk or not.
#ifndef SLUICE_STORE_DISK_SIM_H
#define SLUICE_STORE_DISK_SIM_H

#include "store/disk.h"

typedef struct disk_sim disk_sim;

typedef struct disk_sim_config {
    u64 seed;
    u64 bytes_max;          // ENOSPC beyond; 0 = no limit
    u32 write_error_per_mille, sync_error_per_mille, read_error_per_mille, make_error_per_mille;
    int open_error;         // what opening a file that is there says; 0 = it opens
    u32 torn_per_mille;     // of the sectors that a power cut meets: neither old nor new
} disk_sim_config;

disk_sim *disk_sim_create(const disk_sim_config *config);
void disk_sim_destroy(disk_sim *d);
disk *disk_sim_disk(disk_sim *d);
void disk_sim_configure(disk_sim *d, const disk_sim_config *config); // rates and limits; the seed stays
// The power goes at the n-th operation from now that changes something: that one is half done, everything fails
// after it.
void disk_sim_cut_after(disk_sim *d, u64 operations);
bool disk_sim_is_cut(const disk_sim *d);
// What a machine finds that starts after the cut; all files are closed.
void disk_sim_restart(disk_sim *d);
// Flips a bit of what is on the disk, at a random place among written sectors of files whose name ends so.
// False: none.
bool disk_sim_flip(disk_sim *d, const char *suffix, char *path, size_t path_bytes, u64 *offset);
u64 disk_sim_operations(const disk_sim *d);
u64 disk_sim_random(disk_sim *d);

#endif
