// SPDX-License-Identifier: Apache-2.0
// files.h: the segments of a directory as a start, or `sluice log`, finds them: heads read, sorted by base,
// ends put in where the head of the next one names them. Reads only; what to do about spares and damage is the
// caller's.
#ifndef SLUICE_STORE_FILES_H
#define SLUICE_STORE_FILES_H

#include "store/disk.h"
#include "store/record.h"

typedef struct segment_file {
    u32 number;
    int file;                  // open; the caller's to close
    u64 bytes;                 // of the file
    segment_head_state state;
    segment_head head;         // valid for HEAD_LIVE and HEAD_FREE
    store_pos base;            // HEAD_LIVE; HEAD_DAMAGED: guessed from its records, 0 = none found
    store_pos end;             // 0 = not known
    store_pos index_pos;       // 0 = none, or not known
    bool abandoned;            // a write to it failed before anything in it was durable
    int error;                 // it could not be opened or read
} segment_file;

typedef struct segment_files {
    segment_file *list;        // those with a base first, in order; then the others
    u32 count, with_base;
    u32 number_max;
} segment_files;

// 0 or -errno (the directory can not be read, no memory).
int segment_files_read(disk *d, const char *dir, segment_files *out);
void segment_files_free(segment_files *files); // does not close
// The newest complete checkpoint that the heads name; 0 = none.
store_pos segment_files_checkpoint(const segment_files *files, u32 *from_index);

#endif
