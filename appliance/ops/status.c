// SPDX-License-Identifier: Apache-2.0
// status.c: /api/status: one page about the whole gateway. Everything on it is a counter, a histogram or fixed since
// the start, so it is made without asking the workers: it also answers when one of them is stalled, which is
// when one looks at it.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/listener.h"
#include "ops/json.h"
#include "ops/process.h"
#include "ops/routes.h"
#include "sandbox/sandbox.h"
#include "version.h"

static void put_slab(json *j, yyjson_mut_val *list, const slab *slab_ptr) {
    slab_usage u = slab_usage_get(slab_ptr);
    yyjson_mut_val *o = json_arr_obj(j, list);
    json_str(j, o, "name", u.name);
    json_u64(j, o, "used_bytes", u.used * u.object_bytes);
    json_u64(j, o, "mapped_bytes", u.mapped_bytes);
    json_u64(j, o, "budget_bytes", u.budget_bytes);
    json_u64(j, o, "refused", u.refused);
}

static void put_store(json *j, yyjson_mut_val *o, const store *s, hist *scratch) {
    const store_metrics *m = store_metrics_get(s);
    yyjson_mut_val *l = json_obj(j, o, "store");
    json_str(j, l, "state", store_state_name((store_state)counter_get(&m->state)));
    json_str(j, l, "why", store_state_why(s));
    json_u64(j, l, "records", counter_get(&m->appended));
    json_u64(j, l, "accepted_bytes", counter_get(&m->appended_bytes));
    json_u64(j, l, "written_bytes", counter_get(&m->written_bytes));
    json_u64(j, l, "commits", counter_get(&m->commits));
    json_u64(j, l, "commit_failures", counter_get(&m->commit_failures));
    hist_snapshot(&m->commit, scratch);
    json_ms(j, l, "commit_p50_ms", hist_percentile(scratch, 50));
    json_ms(j, l, "commit_p99_ms", hist_percentile(scratch, 99));
    json_u64(j, l, "segments", counter_get(&m->segments));
    json_u64(j, l, "segments_max", counter_get(&m->segments_max));
    json_u64(j, l, "disk_bytes", counter_get(&m->disk_bytes));
    json_u64(j, l, "live_bytes", counter_get(&m->live_bytes));
    json_u64(j, l, "refused", counter_get(&m->refused_full) + counter_get(&m->refused_failed));
    json_u64(j, l, "damaged", counter_get(&m->damaged));
    json_u64(j, l, "quarantined", counter_get(&m->quarantined));
}

static void put_worker(json *j, yyjson_mut_val *o, const worker *w, hist *scratch) {
    const worker_metrics *m = &w->metrics;
    u64 now = clock_mono_ns(), last = counter_get(&m->heartbeat_ns);
    json_u64(j, o, "worker", w->index);
    json_str(j, o, "engine", io_kind_name(io_engine_kind(w->engine)));
    int cpu = __atomic_load_n(&w->cpu, __ATOMIC_RELAXED);
    if (cpu >= 0) json_int(j, o, "cpu", cpu);
    else json_null(j, o, "cpu");
    json_u64(j, o, "conns_max", w->conns_max);
    json_u64(j, o, "memory_budget_bytes", w->memory_budget_bytes);
    json_seconds(j, o, "cpu_seconds", counter_get(&m->cpu_ns));
    json_u64(j, o, "memory_used_bytes", counter_get(&m->memory_used));
    json_u64(j, o, "conns_open", counter_get(&m->conns_open));
    json_u64(j, o, "conns_opened", counter_get(&m->conns_opened));
    json_u64(j, o, "received_bytes", counter_get(&m->bytes_in));
    json_u64(j, o, "sent_bytes", counter_get(&m->bytes_out));
    json_u64(j, o, "frames_received", counter_get(&m->packets_in));
    json_u64(j, o, "frames_sent", counter_get(&m->packets_out));
    json_u64(j, o, "loops", counter_get(&m->loops));
    json_seconds(j, o, "busy_seconds", counter_get(&m->loop_busy_ns));
    json_seconds(j, o, "heartbeat_age_seconds", last != 0 && now > last ? now - last : 0);
    hist_snapshot(&m->loop_lag, scratch);
    json_ms(j, o, "loop_lag_p50_ms", hist_percentile(scratch, 50));
    json_ms(j, o, "loop_lag_p99_ms", hist_percentile(scratch, 99));
    json_ms(j, o, "loop_lag_max_ms", hist_max(scratch));
    hist_snapshot(&m->reply, scratch);
    json_ms(j, o, "reply_p99_ms", hist_percentile(scratch, 99));
    json_u64(j, o, "stale_completions", counter_get(&io_engine_stats(w->engine)->stale));
    if (w->store != NULL) put_store(j, o, w->store, scratch);
    yyjson_mut_val *slabs = json_arr(j, o, "slabs");
    put_slab(j, slabs, w->conn_slab);
    for (u32 i = 0; i < ARRAY_LEN(w->segment_slabs); i++) put_slab(j, slabs, w->segment_slabs[i]);
}

static const char *listener_protocol_name(const config *conf, const char *name) {
    for (u32 i = 0; i < conf->listener_count; i++) {
        if (strcmp(conf->listeners[i].name, name) != 0) continue;
        return conf->listeners[i].protocol == PROTOCOL_MQTT ? "mqtt" : "frame";
    }
    return "http";
}

static bool listener_is_websocket(const config *conf, const char *name) {
    for (u32 i = 0; i < conf->listener_count; i++) {
        if (strcmp(conf->listeners[i].name, name) == 0) return conf->listeners[i].transport == TRANSPORT_WEBSOCKET;
    }
    return false;
}

static void put_listeners(json *j, const gateway *gw, const config *conf) {
    yyjson_mut_val *list = json_arr(j, j->root, "listeners");
    u32 count = __atomic_load_n(&gw->listener_count, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < count; i++) {
        const listener_shared *l = __atomic_load_n(&gw->listeners[i], __ATOMIC_ACQUIRE);
        yyjson_mut_val *o = json_arr_obj(j, list);
        json_str(j, o, "name", l->name);
        json_str(j, o, "protocol", listener_protocol_name(conf, l->name));
        json_str(j, o, "transport", listener_is_websocket(conf, l->name) ? "websocket" : "tcp");
        json_str(j, o, "bind", l->bound.text);
        json_u64(j, o, "conns", __atomic_load_n(&l->conns, __ATOMIC_RELAXED));
    }
}

static void put_process(json *j) {
    process_usage u = process_usage_get();
    yyjson_mut_val *o = json_obj(j, j->root, "process");
    json_u64(j, o, "resident_bytes", u.resident_bytes);
    json_u64(j, o, "virtual_bytes", u.virtual_bytes);
    json_seconds(j, o, "cpu_user_seconds", u.user_ns);
    json_seconds(j, o, "cpu_system_seconds", u.system_ns);
    json_u64(j, o, "fds_open", u.fds_open);
    json_u64(j, o, "fds_max", u.fds_max);
}

static void put_sandbox(json *j) {
    const sandbox_state *s = sandbox_state_get();
    yyjson_mut_val *o = json_obj(j, j->root, "sandbox");
    json_str(j, o, "mode", s->mode);
    json_str(j, o, "user", s->user);
    json_str(j, o, "capabilities", s->capabilities);
    json_str(j, o, "landlock", s->landlock);
    json_str(j, o, "seccomp", s->seccomp);
}

static void put_log(json *j) {
    log_stats l = log_stats_get();
    yyjson_mut_val *o = json_obj(j, j->root, "log");
    json_u64(j, o, "lines", l.lines);
    json_u64(j, o, "dropped", l.dropped);
    json_u64(j, o, "sink_errors", l.sink_errors);
    json_u64(j, o, "ring_bytes", l.ring_bytes);
    json_u64(j, o, "ring_used_max_bytes", l.ring_used_max);
}

static void put_gateway(json *j, const gateway *gw, const config *conf) {
    char started[TEXT_TIME_BYTES];
    u64 conns = 0;
    for (u32 i = 0; i < gw->worker_count; i++) conns += counter_get(&gw->workers[i].metrics.conns_open);
    json_str(j, j->root, "version", SLUICE_VERSION);
    json_str(j, j->root, "commit", SLUICE_COMMIT);
    json_int(j, j->root, "pid", getpid());
    json_str(j, j->root, "engine", io_kind_name(gw->engine));
    json_str(j, j->root, "engine_why", gw->engine_why);
    json_str(j, j->root, "started", text_time(gw->started_real_ns, started));
    json_seconds(j, j->root, "uptime_seconds", clock_mono_ns() - gw->started_mono_ns);
    json_bool(j, j->root, "ready", __atomic_load_n(&gw->ready, __ATOMIC_ACQUIRE) != 0);
    json_bool(j, j->root, "draining", __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE) != 0);
    json_u64(j, j->root, "reloads", __atomic_load_n(&gw->reloads_applied, __ATOMIC_ACQUIRE));
    json_u64(j, j->root, "reloads_refused", __atomic_load_n(&gw->reloads_refused, __ATOMIC_ACQUIRE));
    json_str(j, j->root, "config", conf->source);
    json_u64(j, j->root, "conns_open", conns);
}

void status_handle(http_exchange *x, const char *rest) {
    (void)rest;
    const gateway *gw = x->worker->gw;
    const config *conf = x->worker->conf;
    hist *scratch = malloc(sizeof(*scratch));
    if (scratch == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    json j;
    json_begin(&j);
    put_gateway(&j, gw, conf);
    yyjson_mut_val *workers = json_arr(&j, j.root, "workers");
    for (u32 i = 0; i < gw->worker_count; i++) put_worker(&j, json_arr_obj(&j, workers), &gw->workers[i], scratch);
    put_worker(&j, json_obj(&j, j.root, "operations"), x->worker, scratch);
    free(scratch);
    put_listeners(&j, gw, conf);
    put_process(&j);
    put_sandbox(&j);
    put_log(&j);
    json_answer(&j, x, 200);
}
