// SPDX-License-Identifier: Apache-2.0
// update_fat.h: where the bytes of a file on a FAT16 file system lie. Only reads: an update overwrites the
// sectors of files that are there already, at their full size, and touches neither the FAT nor a
// directory, so that no power cut can damage the file system. The layout is Microsoft's FAT specification of
// 2000; the image (toolchain/lib/image.sh) makes FAT16 whatever its size.
//
// What is read comes from a disk that others may have written: every number is checked, loops end.
#ifndef SLUICE_INIT_UPDATE_FAT_H
#define SLUICE_INIT_UPDATE_FAT_H

#include "base/base.h"
#include "limits.h"

typedef struct fat_extent {
    u64 offset; // in bytes, from the file system's beginning
    u64 bytes;
} fat_extent;

typedef struct fat_file {
    u64 size;   // as the directory has it; the extents cover at least this
    u32 extent_count;
    fat_extent extents[LIMIT_UPDATE_EXTENTS];
} fat_file;

// Fills out with len bytes at offset, all of them; 0 or -errno.
typedef int (*fat_read)(void *context, u64 offset, void *out, size_t len);

typedef struct fat_volume {
    fat_read read;
    void *context;
    u32 sector_bytes, cluster_bytes, cluster_count;
    u64 fat_offset, root_offset, data_offset;
    u32 root_entries;
} fat_volume;

// 0; -EINVAL: no FAT16 file system; or what read returned.
int fat_open(fat_volume *v, fat_read read, void *context);
// Finds directory/name; both as 11 bytes of a directory entry ("BOOTENV    "). 0; -ENOENT; -EUCLEAN: the file
// system contradicts itself; -EFBIG: more than LIMIT_UPDATE_EXTENTS pieces; or what read returned.
int fat_find(const fat_volume *v, const char *directory, const char *name, fat_file *out);

#endif
