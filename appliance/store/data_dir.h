// SPDX-License-Identifier: Apache-2.0
// data_dir.h: what belongs to the whole data_dir: the lock of its one instance, the record of how many logs
// there are and whose they are, and the conversion when the number of workers has changed. Main thread, before
// the workers run.
//
//   DATA_DIR/lock            locked while a gateway runs on it; holds its process id
//   DATA_DIR/log/layout.0/1  two slots; the valid one of the higher generation counts
//   DATA_DIR/log/NNNN/       one log for each worker; numbers are not used again until 4095 others were
#ifndef SLUICE_STORE_DATA_DIR_H
#define SLUICE_STORE_DATA_DIR_H

#include "store/log.h"

typedef struct data_dir {
    char path[300];
    disk *disk;
    u8 key[16];              // of the hash that says which worker owns a client id
    u32 workers, first_log;  // of the logs in use
    u32 old_workers, old_first; // != 0: these are to be converted into them
    u64 generation;
    u32 next_log;
} data_dir;

// Takes the lock; it is held until the process ends. 0; -EBUSY with a text that names the holder; or -errno
// with a text.
int data_dir_lock(const char *path, char *why, size_t why_bytes);
// For looking only: nobody changes it as long as the process lives. Needs no right to write; where there is no lock to
// take (nobody was ever there, or it can not be read) there is none. Results as above.
int data_dir_lock_reading(const char *path, char *why, size_t why_bytes);

// Reads the layout, makes one where there is none, makes the directories of the logs. A layout that can not be
// read is made anew from the directories that are there. 0 or -errno with a text.
int data_dir_open(data_dir *d, const char *path, disk *from, u32 workers, char *why, size_t why_bytes);
// Reads the layout and changes nothing. False: there is none that can be read.
bool data_dir_look(data_dir *d, const char *path, disk *from);
void data_dir_log_path(const data_dir *d, u32 log_number, char *out, size_t out_bytes);
// Converts: every record that is still needed goes to the logs of the workers that its keeper names (`owners`).
// The new logs count from one write of the layout on; a crash before it leaves the old ones as they were.
// keepers: STORE_KINDS of them. 0, or -errno with a text (no space: the old logs are untouched).
int data_dir_convert(data_dir *d, const store_keeper *keepers, u64 log_bytes, u32 segment_bytes, char *why,
                     size_t why_bytes);
// The logs that are to be converted, as they are before that: *out describes them and the workers they were made by.
// False: there are none, or whose they are is a guess.
bool data_dir_before(const data_dir *d, data_dir *out);
// The new logs are complete: they count from here on, the old ones are removed. 0 or -errno.
int data_dir_converted(data_dir *d);
// Removes logs that no layout names: of a conversion that was cut off, or done.
void data_dir_clean(const data_dir *d);

// Sizes one worker's log: from log_max of the process (0 = auto: half of what is free, at most 16 GiB).
typedef struct data_dir_sizes {
    u64 log_bytes;      // of one worker
    u32 segment_bytes;
    u32 files;          // descriptors that one log may need
} data_dir_sizes;
data_dir_sizes data_dir_size(const data_dir *d, u64 log_max);

#endif
