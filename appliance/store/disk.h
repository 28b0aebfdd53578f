// SPDX-License-Identifier: Apache-2.0
// disk.h: what the log asks of a disk: a directory of files, as a table of operations. disk_real.c does them
// with system calls, disk_sim.c from a seed, with faults. They block; the log calls them at start, and later
// only on its lanes (lane.h), never on the owner's thread. Results: >= 0, or -errno.
//
// Paths are relative to nothing: the caller gives whole ones. A disk has no state of its own that is not its
// implementation's.
#ifndef SLUICE_STORE_DISK_H
#define SLUICE_STORE_DISK_H

#include "base/base.h"

typedef struct disk disk;

typedef struct disk_operations {
    // Names of the entries of a directory but "." and "..", in no order. Stops when visit returns false.
    int (*list)(disk *d, const char *dir, bool (*visit)(void *context, const char *name), void *context);
    int (*make_dir)(disk *d, const char *dir);      // -EEXIST is told
    int (*sync_dir)(disk *d, const char *dir);      // makes creations, renames and removals in it durable
    int (*open)(disk *d, const char *path, bool create); // read and write; a handle >= 0
    int (*close)(disk *d, int file);
    i64 (*size)(disk *d, int file);
    // Gives the file blocks up to bytes, and that size. Content is zeros where nothing was written.
    int (*reserve)(disk *d, int file, u64 bytes);
    int (*truncate)(disk *d, int file, u64 bytes);
    // All of it, or an error; a short write is continued inside.
    int (*write)(disk *d, int file, const void *data, size_t bytes, u64 offset);
    i64 (*read)(disk *d, int file, void *data, size_t bytes, u64 offset); // fewer bytes only at the end
    int (*sync)(disk *d, int file);                 // data and size
    int (*rename)(disk *d, const char *from, const char *to);
    int (*unlink)(disk *d, const char *path);
    i64 (*free_bytes)(disk *d, const char *dir);    // for those without privileges
} disk_operations;

struct disk {
    const disk_operations *ops;
};

// The machine's disk; one for all.
disk *disk_real(void);
// The same for looking only: opens nothing for writing, creates nothing. Main thread.
disk *disk_real_reading(void);

#endif
