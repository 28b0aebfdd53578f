// SPDX-License-Identifier: Apache-2.0
// gpt.h: lets the last partition of a GPT disk (UEFI specification, section 5.3) reach to the disk's end: the
// image that was flashed is smaller than the disk. Bytes in, bytes out, no I/O.
//
// A power cut at any point leaves a table that the kernel accepts. The kernel looks at the backup only when
// told to on its command line, so the primary must never be half new: the new table of entries is written
// to another place (between the old one and the first partition), and the header's single block switches over.
#ifndef SLUICE_INIT_GPT_H
#define SLUICE_INIT_GPT_H

#include "base/base.h"

#define GPT_ENTRIES_BYTES_MAX 16384u // 128 entries of 128 bytes, as everybody makes them

typedef enum gpt_verdict {
    GPT_GROW,      // the plan is filled in
    GPT_FULL,      // nothing to gain
    GPT_DAMAGED,   // the primary header or its entries do not check
    GPT_NOT_LAST,  // another partition lies behind it
    GPT_UNUSUAL,   // a layout this code does not edit (large entries, no such partition)
    GPT_NO_ROOM,   // no place for the second table before the first partition
} gpt_verdict;

// What to write, in this order, with a flush of the disk before the primary header and at the end.
typedef struct gpt_plan {
    u64 backup_entries_lba, backup_header_lba, primary_entries_lba;
    u64 first_lba, last_lba;             // of the grown partition, both included
    u32 entries_bytes;
    u8 entries[GPT_ENTRIES_BYTES_MAX];   // for both places
    u8 primary_header[512], backup_header[512]; // the rest of a larger block is zeros
} gpt_plan;

// header: the block at LBA 1. entries: what the header's entry LBA points to, entries_bytes of it (ask
// gpt_entries). disk_blocks: size of the disk in its logical blocks of block_bytes. number: from 1.
gpt_verdict gpt_grow_plan(const u8 *header, const u8 *entries, u32 entries_bytes, u64 disk_blocks, u32 block_bytes,
                          u32 number, gpt_plan *out);
// Where the entries of this header lie; false when the header is not one to be read.
bool gpt_entries(const u8 *header, u64 *lba, u32 *bytes);
const char *gpt_verdict_name(gpt_verdict v);

#endif
