// SPDX-License-Identifier: Apache-2.0
// scan.h: reads one segment's records in order, from the disk, and tells damage from the end. Blocks: for the
// start and for `sluice log`, not for the owner's loop. Memory: one block, whatever the segment's size.
//
// Where the end is known (the next segment's head names it), all before it was durable: what can not be read is
// damage, skipped up to the next good record. Where it is not (the last segment), a hole is damage only when a
// BATCH stands behind it, which is begun only when everything before it is on disk; else it is the torn end of
// a commit that nobody was told of.
#ifndef SLUICE_STORE_SCAN_H
#define SLUICE_STORE_SCAN_H

#include "store/disk.h"
#include "store/record.h"

typedef enum scan_what { SCANNED_RECORD, SCANNED_DAMAGE, SCANNED_END } scan_what;

typedef struct scan {
    disk *disk;
    int file;
    store_pos base;
    store_pos limit;      // the end if known, else the file's
    bool end_known;
    store_pos at;         // next place to look at
    store_pos batch_seen; // end not known: a BATCH stands at or after; 0 = not looked for
    // After SCANNED_DAMAGE: what was skipped. After SCANNED_END, end not known: from = the end, to = where the
    // last whole record of the torn commit ended (== from: nothing torn).
    store_pos from, to;
    u8 *block;
    u32 block_room, block_bytes;
    store_pos block_at;
} scan;

// bytes: of the file. Records from `at` on (base + SEGMENT_HEAD_BYTES for all). end: 0 = not known. 0 or -ENOMEM.
int scan_begin(scan *sc, disk *d, int file, store_pos base, u64 bytes, store_pos at, store_pos end);
// *view is valid until the next call.
scan_what scan_next(scan *sc, record_view *view);
void scan_end(scan *sc);

#endif
