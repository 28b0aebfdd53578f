// SPDX-License-Identifier: Apache-2.0
// kept_order.h: the kept records of several logs (STORE_KEEP, from before and behind their checkpoints), in the
// order of their origins whatever log they are in; for a conversion. A record that several logs have comes once for
// each, one directly after the other. So the new log has its copies in that order too: few entries in its table of
// moves, and its readers go straight on.
//
// A log is in order but for what reclaim has copied behind the rest. It is looked through once for runs that are in
// order, then these are merged. Memory: a few words for each run, of which a log has some for each segment, and a
// block (scan.h) for each run that is open: those whose origins overlap.
//
// Blocks: for the start. Main thread.
#ifndef SLUICE_STORE_KEPT_ORDER_H
#define SLUICE_STORE_KEPT_ORDER_H

#include "store/internal.h"
#include "store/scan.h"

typedef struct kept_run {
    store *log;
    u32 worker;         // whose log it is
    bool copies;        // of copies; else of what lies where it was appended
    store_pos origin;   // of its next record
    store_pos from, to; // places of the first and the last record
    segment *seg;       // that is read; NULL: not opened yet
    scan sc;
    record_view view;   // the next record
} kept_run;

typedef struct kept_order {
    kept_run **runs; // [next] and behind: not opened, by origin; before: open or at their end
    u32 count, room;
    u32 open;        // runs[0 .. open) are open
    u32 next;
    bool given;      // runs[given_at] gave its record last
    u32 given_at;
} kept_order;

// Adds what a recovered log holds; it has to stay until kept_order_end. 0 or -ENOMEM.
int kept_order_add(kept_order *o, store *log, u32 worker);
// The next record: *r is valid until the next call, *worker is whose log has it. 1, 0 at the end, or -ENOMEM.
int kept_order_next(kept_order *o, const store_record **r, u32 *worker);
void kept_order_end(kept_order *o);

#endif
