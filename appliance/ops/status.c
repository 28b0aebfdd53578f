// SPDX-License-Identifier: Apache-2.0
// status.c: /api/status: one page about the whole gateway. Counters and histograms are read directly; what only a
// worker knows of itself is asked for, from all at once. A worker that does not answer in time appears with
// answered = false and the numbers that could be read, because that is when one looks at this page.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/listener.h"
#include "ops/json.h"
#include "ops/process.h"
#include "ops/request.h"
#include "ops/routes.h"
#include "version.h"

#define STATUS_REPLY_MS 1000u

typedef struct status_state {
    ops_request *requests[LIMIT_WORKERS_MAX + 1]; // outstanding
    ops_worker_status *answers[LIMIT_WORKERS_MAX + 1];
    u32 pending;
    hist scratch;
} status_state;

static void state_free(void *state) {
    status_state *s = state;
    for (u32 i = 0; i <= LIMIT_WORKERS_MAX; i++) {
        if (s->requests[i] != NULL) ops_request_abandon(s->requests[i]);
        free(s->answers[i]);
    }
    free(s);
}

static const char *protocol_name(u8 protocol) {
    return protocol == PROTOCOL_HTTP ? "http" : "frame";
}

static void put_slab(json *j, yyjson_mut_val *list, const slab *slab_ptr) {
    slab_usage u = slab_usage_get(slab_ptr);
    yyjson_mut_val *o = json_arr_obj(j, list);
    json_str(j, o, "name", u.name);
    json_u64(j, o, "used_bytes", u.used * u.object_bytes);
    json_u64(j, o, "mapped_bytes", u.mapped_bytes);
    json_u64(j, o, "budget_bytes", u.budget_bytes);
    json_u64(j, o, "refused", u.refused);
}

static void put_worker_answer(json *j, yyjson_mut_val *o, const ops_worker_status *a) {
    json_bool(j, o, "answered", a != NULL);
    if (a == NULL) return;
    if (a->cpu >= 0) json_int(j, o, "cpu", a->cpu);
    else json_null(j, o, "cpu");
    json_u64(j, o, "conns_max", a->conns_max);
    json_u64(j, o, "memory_budget_bytes", a->memory_budget_bytes);
}

static void put_worker(json *j, yyjson_mut_val *list, const worker *w, const ops_worker_status *a, hist *scratch) {
    const worker_metrics *m = &w->metrics;
    yyjson_mut_val *o = json_arr_obj(j, list);
    u64 now = clock_mono_ns(), last = counter_get(&m->heartbeat_ns);
    json_u64(j, o, "worker", w->index);
    json_str(j, o, "role", w->is_ops ? "operations" : "device");
    json_str(j, o, "engine", io_kind_name(io_engine_kind(w->engine)));
    put_worker_answer(j, o, a);
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
    yyjson_mut_val *slabs = json_arr(j, o, "slabs");
    put_slab(j, slabs, w->conn_slab);
    for (u32 i = 0; i < ARRAY_LEN(w->segment_slabs); i++) put_slab(j, slabs, w->segment_slabs[i]);
}

// The device listeners are the same on every worker: the first answer tells. The operations worker has its own.
static void put_listeners(json *j, const status_state *s, const gateway *gw) {
    yyjson_mut_val *list = json_arr(j, j->root, "listeners");
    const ops_worker_status *device = NULL;
    for (u32 i = 0; i < gw->worker_count && device == NULL; i++) device = s->answers[i];
    const ops_worker_status *answers[2] = {device, s->answers[gw->worker_count]};
    for (u32 k = 0; k < 2; k++) {
        for (u32 i = 0; answers[k] != NULL && i < answers[k]->listener_count; i++) {
            const ops_listener_status *l = &answers[k]->listeners[i];
            yyjson_mut_val *o = json_arr_obj(j, list);
            json_str(j, o, "name", l->name);
            json_str(j, o, "protocol", protocol_name(l->protocol));
            json_str(j, o, "bind", l->bind);
            json_u64(j, o, "conns", l->conns);
        }
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
    json_str(j, j->root, "engine", io_kind_name(gw->engine));
    json_str(j, j->root, "engine_why", gw->engine_why);
    json_str(j, j->root, "started", text_time(gw->started_real_ns, started));
    json_seconds(j, j->root, "uptime_seconds", clock_mono_ns() - gw->started_mono_ns);
    json_bool(j, j->root, "ready", __atomic_load_n(&gw->ready, __ATOMIC_ACQUIRE) != 0);
    json_bool(j, j->root, "draining", __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE) != 0);
    json_u64(j, j->root, "reloads", __atomic_load_n(&gw->reload_generation, __ATOMIC_ACQUIRE));
    json_str(j, j->root, "config", conf->source);
    json_u64(j, j->root, "conns_open", conns);
}

static void answer(http_exchange *x) {
    status_state *s = x->state;
    const gateway *gw = x->worker->gw;
    json j;
    json_begin(&j);
    put_gateway(&j, gw, x->worker->conf);
    yyjson_mut_val *workers = json_arr(&j, j.root, "workers");
    for (u32 i = 0; i <= gw->worker_count; i++) {
        put_worker(&j, workers, &gw->workers[i], s->answers[i], &s->scratch);
    }
    put_listeners(&j, s, gw);
    put_process(&j);
    put_log(&j);
    json_answer(&j, x, 200);
}

static void arrived(ops_request *r, http_exchange *x) {
    status_state *s = x->state;
    s->requests[r->target] = NULL;
    s->answers[r->target] = r->status;
    r->status = NULL;
    if (--s->pending == 0) answer(x);
}

void status_handle(http_exchange *x, const char *rest) {
    (void)rest;
    u32 count = x->worker->gw->worker_count + 1;
    status_state *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    http_set_state(x, s, state_free);
    http_wait(x, STATUS_REPLY_MS, answer);
    s->pending = count;
    // The own worker last: its answer comes at once and may be the one that completes the page.
    for (u32 i = 0; i < count; i++) {
        ops_request *r = ops_request_new(OPS_STATUS, x, arrived);
        bool own = i == x->worker->index;
        if (r != NULL) r->target = i;
        if (r != NULL && !own) s->requests[i] = r;
        if (r != NULL && ops_request_send(x->worker, r) == 0) continue;
        s->requests[i] = NULL;
        if (--s->pending == 0) answer(x);
    }
}
