// SPDX-License-Identifier: Apache-2.0
// moved.h: where copied records lie now. Reclaim copies a segment's survivors in the order of their origins, so
// an entry for each 64 KiB of copies is enough: from its place on one reads forward until the origin is met.
// A log made by a conversion (store/convert.c) has copies out of several logs, whose origins may lie between each
// other: where a new run begins within an earlier one, the rest of that has an entry of its own (a tail).
// Sorted by origin. Memory: 24 bytes for each LIMIT_STORE_INDEX_STEP of copies, or of what they were copied from; up to
// twice that for a copy within another run. Pure; the owner's.
#ifndef SLUICE_STORE_MOVED_H
#define SLUICE_STORE_MOVED_H

#include "store/log.h"

typedef struct moved_entry {
    u64 origin; // of the first record of a run
    u64 to;     // where that lies now
} moved_entry;
_Static_assert(sizeof(moved_entry) == 16, "a table on disk");

typedef struct moved_table {
    moved_entry *entries;
    u64 *lasts;             // of each entry: the greatest origin that is known to be in its run
    u32 count, room;
    u32 lasts_known;        // at a start: entries whose last one has been read
    moved_entry run, last; // the entry of the present run, and the copy added last
    moved_entry rest;      // see moved_rest; origin 0 = none
} moved_table;

void moved_free(moved_table *t);
// A copy has been written (or is met at start), in the order of the log. new_segment: it is the first one in
// its segment; a run never goes from one segment into the next. foreign: out of another log. False: no memory, the
// record would not be found.
bool moved_add(moved_table *t, store_pos origin, store_pos to, bool new_segment, bool foreign);
// At a start: an entry of a checkpoint's table, in their order; and the next one's last origin, behind all of them.
bool moved_restore(moved_table *t, moved_entry e);
void moved_restore_last(moved_table *t, u64 last);
// What was copied is itself a copy, out of a segment that is not copied to its end yet: origins from `origin` on are
// still found from `place` on. Ends with the next moved_add.
void moved_rest(moved_table *t, store_pos origin, store_pos place);
// The entry with the greatest origin that is not above; NULL when there is none. Its run lies within
// [entry->to, entry->to + LIMIT_STORE_INDEX_STEP) and holds origins below that of the next entry.
const moved_entry *moved_find(const moved_table *t, store_pos origin);
// The first entry with an origin at or above; NULL at the end.
const moved_entry *moved_from(const moved_table *t, store_pos origin);
// Forgets the entries that point into [from, to): that segment is gone.
void moved_forget_places(moved_table *t, store_pos from, store_pos to);

#endif
