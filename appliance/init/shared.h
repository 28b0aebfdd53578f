// SPDX-License-Identifier: Apache-2.0
// shared.h: the page that `sluice init` and the gateway share. Init makes it (a sealed memfd), passes it as
// an open descriptor whose number stands in the environment variable SLUICE_INIT_FD, and reads; the
// gateway maps it and writes. Without the variable the gateway is an ordinary process and nothing here
// has an effect.
//
// Heartbeats are monotonic nanoseconds (the same clock in both processes) of the last time a thread went
// round its loop. Idle threads turn once a second (INIT_SHARED_BEAT_MS), so
// that a heartbeat that stands still means a thread that does not run.
// All fields are single-writer atomics; init distrusts them: it bounds worker_count and never follows them.
#ifndef SLUICE_INIT_SHARED_H
#define SLUICE_INIT_SHARED_H

#include "base/base.h"
#include "limits.h"

#define INIT_SHARED_ENV "SLUICE_INIT_FD"
#define INIT_SHARED_MAGIC 0x534c4331u // "SLC1"
#define INIT_SHARED_BEAT_MS 1000u
#define INIT_SHARED_BYTES 4096u

typedef struct init_shared {
    u32 magic;
    u32 worker_count;                     // workers that beat, the operations worker included; 0 = not started
    u32 ready;                            // listeners open, workers running
    u32 draining;
    u32 reloads_applied, reloads_refused; // of configurations, since this process started
    u32 conns;                            // open device connections
    u32 pid;
    u64 main_ns;                          // heartbeat of the main thread
    u64 worker_ns[LIMIT_WORKERS_MAX + 1];
} init_shared;
_Static_assert(sizeof(init_shared) <= INIT_SHARED_BYTES, "one page");

// --- the gateway's side ---

// Maps the page named by the environment and removes the variable. NULL when there is none, or it is
// not what it should be (said on stderr).
init_shared *init_shared_attach(void);

// --- init's side ---

// Makes the page: returns the mapping and its descriptor (close-on-exec), or NULL with -errno in *fd.
init_shared *init_shared_create(int *fd);
// Empties it, before a new gateway starts.
void init_shared_reset(init_shared *s);

typedef enum beat_verdict {
    BEAT_STARTING,  // no worker has announced itself yet
    BEAT_ALIVE,
    BEAT_STALE,     // somebody's heartbeat is older than the bound
} beat_verdict;
// *who: -1 main, else the worker, when stale.
beat_verdict init_shared_check(const init_shared *s, u64 now_ns, u64 bound_ns, int *who);

#endif
