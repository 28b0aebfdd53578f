// SPDX-License-Identifier: Apache-2.0
// reload.c: a worker applies a new configuration: changed settings of listeners that stay (open
// connections follow them, options of their sockets excepted), new listeners, removed ones.
#include "reload.h"

#include <unistd.h>

#include "auth/attempt.h"
#include "base/log.h"
#include "net/listener.h"
#include "store/streams.h"
#include "uplink/uplink.h"

static const reload_listener *job_find(const reload_job *job, const listener_shared *shared) {
    for (u32 i = 0; i < job->count; i++) {
        if (job->listeners[i].shared == shared) return &job->listeners[i];
    }
    return NULL;
}

void reload_apply(worker *w, reload_job *job) {
    for (u32 i = w->listener_count; i > 0; i--) {
        listener *l = w->listeners[i - 1];
        const reload_listener *row = job_find(job, l->shared);
        if (row == NULL) {
            listener_remove(l);
        } else {
            listener_configure(l, row->conf);
            listener_set_tls(l, row->tls);
        }
    }
    for (u32 i = 0; i < job->count; i++) {
        const reload_listener *row = &job->listeners[i];
        int fd = row->fds[w->index];
        if (row->ops != w->is_ops || fd < 0) continue;
        int result = w->draining ? -1 : listener_add(w, row->conf, row->shared, fd);
        if (result == 0) {
            listener_set_tls(w->listeners[w->listener_count - 1], row->tls);
            continue;
        }
        close(fd);
        if (!w->draining) {
            log_error("worker %u: listener %s: not opened: %s", w->index, row->conf->name,
                      errno_name(result));
        }
    }
    w->conf = job->conf;
    auth_recheck_all(w);
    streams_configure(w->streams, job->conf);
    if (w->sessions != NULL && !mqtt_sessions_restored(w->sessions)) {
        w->restoring_job = job;
        return;
    }
    if (!w->draining) uplinks_configure(w);
    __atomic_fetch_sub(&job->pending, 1, __ATOMIC_ACQ_REL);
}

void reload_restored(worker *w) {
    reload_job *job = w->restoring_job;
    w->restoring_job = NULL;
    // What uplinks bring may be for sessions that were only just restored.
    if (job != NULL && !w->draining) uplinks_configure(w);
    if (job != NULL) __atomic_fetch_sub(&job->pending, 1, __ATOMIC_ACQ_REL);
}
