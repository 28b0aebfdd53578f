// SPDX-License-Identifier: Apache-2.0
// lane.h: disk operations off the owner's thread. A lane is one helper thread with a ring in and a ring out
// (spsc.h); it touches the operation it was given and nothing else of the owner's. A log has two: one writes
// and syncs, one reads, so that a read never waits for a sync. Without a thread (simulated disk) lane_step runs
// the operations, one by one.
#ifndef SLUICE_STORE_LANE_H
#define SLUICE_STORE_LANE_H

#include "store/disk.h"

typedef struct lane lane;

typedef struct lane_op {
    // On the lane's thread: the blocking work; uses only what the operation carries.
    int (*run)(struct lane_op *op, disk *d);
    // On the owner's thread, from lane_take.
    void (*done)(struct lane_op *op, int result);
    int result;
    u64 started_ns, ended_ns; // CLOCK_MONOTONIC, of run
} lane_op;

enum {
    LANE_THREAD = 1u << 0, // without: see lane_step
    // Somebody waits for each operation, and it works for microseconds: the thread asks for a real-time priority.
    LANE_URGENT = 1u << 1,
};

// flags: LANE_*. name: of the thread, at most 15 characters.
// begin: first thing it does, NULL = none. wake: called on the lane's
// thread when something has ended. Returns 0, -ENOMEM or the error of pthread_create.
int lane_create(const char *name, disk *d, u32 ops_max, u32 flags, void (*begin)(void),
                void (*wake)(void *context), void *context, lane **out);
// Owner. At most ops_max may be outstanding (asserted).
void lane_submit(lane *l, lane_op *op);
// Owner: runs done of what has ended, in the order of submission. Returns how many.
u32 lane_take(lane *l);
u32 lane_outstanding(const lane *l);
// Without a thread: runs one operation, done follows with lane_take. False when there is none.
bool lane_step(lane *l);
// Waits for the operation under way and ends the thread; operations not begun end with -ECANCELED (done runs).
void lane_destroy(lane *l);

#endif
