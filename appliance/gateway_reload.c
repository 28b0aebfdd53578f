// SPDX-License-Identifier: Apache-2.0
// gateway_reload.c: SIGHUP and POST /api/reload. The new file is read and checked as a whole first; a
// mistake leaves everything as it was and is told with file and line. SIGUSR1: the log alone is opened anew.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth/policy.h"
#include "base/log.h"
#include "gateway.h"
#include "reload.h"

int gateway_config_read(const run_options *options, config **out, config_error *error) {
    config *conf = calloc(1, sizeof(*conf));
    if (conf == NULL) base_out_of_memory("configuration", sizeof(*conf));
    int result = 0;
    if (options->path != NULL) {
        result = config_load(options->path, conf, error);
    } else {
        config_defaults(conf);
    }
    if (result == 0) result = auth_policies_load(conf, error);
    if (result < 0) {
        free(conf);
        return result;
    }
    if (options->has_engine) {
        conf->engine_auto = options->engine_auto;
        conf->engine = options->engine;
    }
    if (options->workers != 0) conf->workers = options->workers;
    *out = conf;
    return 0;
}

// What only a restart changes; named, so that nobody waits for an effect that does not come.
static void log_restart_needed(const config *was, const config *now) {
    const struct {
        const char *key;
        bool differs;
    } rows[] = {
        {"workers", was->workers != now->workers},
        {"engine", was->engine_auto != now->engine_auto || was->engine != now->engine},
        {"pin", was->pin != now->pin},
        {"recv_bufs", was->recv_bufs != now->recv_bufs},
        {"min_wait_us", was->min_wait_us != now->min_wait_us},
        {"max_conns", was->max_conns != now->max_conns},
        {"memory_max", was->memory_max != now->memory_max},
        {"data_dir", strcmp(was->data_dir, now->data_dir) != 0},
        {"user", strcmp(was->user, now->user) != 0},
        {"sandbox", was->sandbox != now->sandbox},
        {"log.ring", was->log.ring_bytes != now->log.ring_bytes},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].differs) log_warn("reload: %s changed: takes effect at the next start", rows[i].key);
    }
}

static bool workers_running(const gateway *gw) {
    for (u32 i = 0; i <= gw->worker_count; i++) {
        if (__atomic_load_n(&gw->workers[i].ended, __ATOMIC_ACQUIRE) != 0) return false;
    }
    return __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE) == 0;
}

// False when a worker ended meanwhile: then the process is about to stop and the job stays allocated.
static bool wait_applied(const gateway *gw, const reload_job *job) {
    while (__atomic_load_n(&job->pending, __ATOMIC_ACQUIRE) > 0) {
        if (!workers_running(gw)) return false;
        struct timespec pause = {.tv_nsec = 2 * (long)NS_PER_MS};
        nanosleep(&pause, NULL);
    }
    return true;
}

static void result_set(gateway *gw, const char *text) {
    snprintf(gw->reload_result, sizeof(gw->reload_result), "%.*s", (int)sizeof(gw->reload_result) - 1, text);
    __atomic_fetch_add(text[0] == '\0' ? &gw->reloads_applied : &gw->reloads_refused, 1, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&gw->reload_generation, 1, __ATOMIC_ACQ_REL);
}

void gateway_log_open(const config *conf) {
    const char *step = "";
    char why[1024];
    log_config log_settings = gateway_log_config(conf);
    int result = log_reload(&log_settings, &step);
    if (result >= 0) return;
    gateway_log_failure(conf, step, result, why, sizeof(why));
    log_error("reload: %s", why);
}

void gateway_reload(gateway *gw, const run_options *options) {
    if (!workers_running(gw)) return;
    config_error error = {{0}};
    config *conf = NULL;
    char why[1024];
    if (gateway_config_read(options, &conf, &error) < 0) {
        log_error("reload: refused, the running configuration stays: %s", error.text);
        result_set(gw, error.text);
        return;
    }
    reload_job *job = NULL;
    if (gateway_job_make(gw, conf, &job, why, sizeof(why)) < 0) {
        log_error("reload: refused, the running configuration stays: %s", why);
        result_set(gw, why);
        auth_policies_release(conf);
        free(conf);
        return;
    }
    const config *was = gw->conf;
    log_restart_needed(was, conf);
    gateway_log_open(conf);
    gateway_listeners_publish(gw, job);
    __atomic_store_n(&gw->conf, conf, __ATOMIC_RELEASE);
    job->pending = gw->worker_count + 1;
    for (u32 i = 0; i <= gw->worker_count; i++) {
        spsc_message message = {.kind = WM_RELOAD, .ptr = job};
        bool posted = worker_post_control(gw, i, &message);
        ASSERT(posted); // the control ring holds many more than one reload at a time
    }
    if (!wait_applied(gw, job)) return;
    gateway_accept(gw);
    gateway_job_free(job, false);
    config *gone = (config *)(uintptr_t)was;
    auth_policies_release(gone);
    free(gone);
    log_info("reload: applied %s", conf->source);
    result_set(gw, "");
}
