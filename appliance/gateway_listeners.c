// SPDX-License-Identifier: Apache-2.0
// gateway_listeners.c: from a configuration to open sockets. The same job structure serves the start
// (everything is new) and a reload (what is open already keeps its sockets).
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "gateway.h"
#include "net/listener.h"
#include "net/tls_context.h"
#include "net/tls_sessions.h"
#include "ops/http.h"
#include "reload.h"

static listener_shared *shared_find(const gateway *gw, const listener_config *conf) {
    for (u32 i = 0; i < gw->listener_count; i++) {
        listener_shared *s = gw->listeners[i];
        if (strcmp(s->name, conf->name) == 0 && strcmp(s->configured, conf->bind.text) == 0) return s;
    }
    return NULL;
}

static int row_add(gateway *gw, reload_job *job, const listener_config *conf, bool ops, char *why,
                   size_t why_bytes) {
    reload_listener *row = &job->listeners[job->count];
    *row = (reload_listener){.conf = conf, .ops = ops, .shared = shared_find(gw, conf)};
    for (u32 i = 0; i < ARRAY_LEN(row->fds); i++) row->fds[i] = -1;
    job->count++;
    int result = conf->tls.cert[0] != '\0' ? tls_sessions_init() : 0;
    if (result == 0 && conf->tls.cert[0] != '\0') result = tls_context_load(conf, true, &row->tls, why, why_bytes);
    if (result < 0 || row->shared != NULL) return result;
    row->shared = listener_shared_create(gw->worker_count);
    if (row->shared == NULL) {
        snprintf(why, why_bytes, "out of memory");
        return -ENOMEM;
    }
    snprintf(row->shared->name, sizeof(row->shared->name), "%s", conf->name);
    snprintf(row->shared->configured, sizeof(row->shared->configured), "%s", conf->bind.text);
    u32 first = ops ? gw->worker_count : 0;
    u32 count = ops ? 1 : gw->worker_count;
    int cpus[LIMIT_WORKERS_MAX];
    for (u32 i = 0; i < count; i++) cpus[i] = gw->workers[first + i].cpu;
    bool nonblock = ops || io_kind_wants_nonblock(gw->engine);
    result = listener_sockets_open(conf, count, cpus, &row->fds[first], nonblock,
                                       &row->shared->bound, why, why_bytes);
    if (result < 0) {
        listener_shared_free(row->shared);
        row->shared = NULL;
        return result;
    }
    row->fresh = true;
    row->shared->next_all = gw->listeners_all;
    gw->listeners_all = row->shared;
    return 0;
}

int gateway_job_make(gateway *gw, const config *conf, reload_job **out, char *why, size_t why_bytes) {
    reload_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        snprintf(why, why_bytes, "out of memory");
        return -ENOMEM;
    }
    job->conf = conf;
    int result = 0;
    for (u32 i = 0; i < conf->listener_count && result == 0; i++) {
        result = row_add(gw, job, &conf->listeners[i], false, why, why_bytes);
    }
    bind_address ctl;
    char path[128];
    snprintf(path, sizeof(path), "unix:%s", conf->ctl_socket);
    if (result == 0) {
        result = config_parse_bind(path, &ctl);
        if (result < 0) snprintf(why, why_bytes, "ctl_socket %s: not a usable path", conf->ctl_socket);
    }
    if (result == 0) {
        http_listener_config(&job->ctl_conf, "ctl", &ctl);
        job->ctl_conf.bind_everybody = conf->ctl_allow[0] != '\0';
        result = row_add(gw, job, &job->ctl_conf, true, why, why_bytes);
    }
    if (result == 0 && conf->admin_enabled) {
        http_listener_config(&job->admin_conf, "admin", &conf->admin_bind);
        result = row_add(gw, job, &job->admin_conf, true, why, why_bytes);
    }
    if (result < 0) {
        gateway_job_free(job, true);
        return result;
    }
    *out = job;
    return 0;
}

void gateway_job_free(reload_job *job, bool failed) {
    for (u32 i = 0; i < job->count; i++) tls_context_drop(job->listeners[i].tls);
    for (u32 i = 0; failed && i < job->count; i++) {
        reload_listener *row = &job->listeners[i];
        if (!row->fresh) continue;
        for (u32 k = 0; k < ARRAY_LEN(row->fds); k++) {
            if (row->fds[k] >= 0) close(row->fds[k]);
        }
    }
    free(job);
}

void gateway_listeners_free(gateway *gw) {
    while (gw->listeners_all != NULL) {
        listener_shared *next = gw->listeners_all->next_all;
        tls_context_publish(&gw->listeners_all->tls, NULL);
        listener_shared_free(gw->listeners_all);
        gw->listeners_all = next;
    }
}

static bool is_listed(const reload_job *job, const listener_shared *l) {
    for (u32 i = 0; i < job->count; i++) {
        if (job->listeners[i].shared == l) return true;
    }
    return false;
}

void gateway_listeners_publish(gateway *gw, const reload_job *job) {
    // Entries that are replaced stay allocated until the end: the operations worker may be reading them,
    // and connections of a removed listener still count on them. A reload is rare, an entry is small.
    for (u32 i = 0; i < job->count; i++) {
        const reload_listener *row = &job->listeners[i];
        tls_context_publish(&row->shared->tls, row->tls);
        __atomic_store_n(&gw->listeners[i], row->shared, __ATOMIC_RELEASE);
        if (!row->fresh) continue;
        log_info("listener %s on %s (%s)", row->shared->name, row->shared->bound.text,
                 row->ops ? "admin" : "devices");
    }
    __atomic_store_n(&gw->listener_count, job->count, __ATOMIC_RELEASE);
    // The keys of a listener that is no more go as soon as its handshakes are over.
    for (listener_shared *l = gw->listeners_all; l != NULL; l = l->next_all) {
        if (!is_listed(job, l)) tls_context_publish(&l->tls, NULL);
    }
    gw->tls_checked_s = (i64)(clock_real_ns() / NS_PER_S); // loading them has warned
}

void gateway_listeners_check_expiry(gateway *gw) {
    if (!tls_expiry_check_is_due(&gw->tls_checked_s, (i64)(clock_real_ns() / NS_PER_S))) return;
    for (u32 i = 0; i < gw->listener_count; i++) {
        tls_context *context = tls_context_at(&gw->listeners[i]->tls);
        if (context != NULL) tls_context_warn_expiry(context);
        tls_context_drop(context);
    }
}
