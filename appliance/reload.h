// SPDX-License-Identifier: Apache-2.0
// reload.h: a new configuration on its way to the workers. Main reads and checks it, opens the sockets of
// new listeners, and posts one job to every worker; each applies it between two turns of its loop. No
// connection is dropped: those of a removed listener stay until they end.
#ifndef SLUICE_RELOAD_H
#define SLUICE_RELOAD_H

#include "worker.h"

typedef struct reload_listener {
    const listener_config *conf;
    listener_shared *shared;      // existing or new
    int fds[LIMIT_WORKERS_MAX + 1]; // new listener: one for each worker that gets it; -1 = existing
    struct tls_context *tls;      // NULL: without TLS; a reference of the job's
    bool ops;                     // belongs to the operations worker
    bool fresh;                   // sockets and shared were made for this job
} reload_listener;

typedef struct reload_job {
    const config *conf;
    u32 pending;                  // atomic: workers that have not applied it
    u32 count;
    listener_config ctl_conf, admin_conf; // derived
    reload_listener listeners[LIMIT_LISTENERS_MAX + 2];
} reload_job;

// On a worker: applies the job to its listeners, then counts down.
void reload_apply(worker *w, reload_job *job);
// The worker's durable sessions have been restored, and their subscriptions are in force everywhere: a job
// that waits for it counts down, so that no listener accepts before.
void reload_restored(worker *w);

#endif
