// SPDX-License-Identifier: Apache-2.0
// health.c: /healthz (is the process alive?) and /readyz (should it get traffic?).
//
// Alive means that every worker turns its loop. A worker that turned lately is alive; an idle one may
// sleep for long, so it is asked: a message through its ring, its doorbell and its loop has to come back. That
// finds what a heartbeat alone can not: a worker that sleeps while its completions pile up.
#include <stdlib.h>

#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"

#define HEALTH_REPLY_MS 2000u

typedef struct health_state {
    ops_request *requests[LIMIT_WORKERS_MAX]; // outstanding pings, NULL = answered or not asked
    u32 pending;
} health_state;

static void state_free(void *state) {
    health_state *s = state;
    for (u32 i = 0; i < LIMIT_WORKERS_MAX; i++) {
        if (s->requests[i] != NULL) ops_request_abandon(s->requests[i]);
    }
    free(s);
}

static void answer_ok(http_exchange *x) {
    json j;
    json_begin(&j);
    json_str(&j, j.root, "status", "ok");
    json_answer(&j, x, 200);
}

static void answer_stalled(http_exchange *x) {
    const health_state *s = x->state;
    u64 now = clock_mono_ns();
    json j;
    json_begin(&j);
    json_str(&j, j.root, "status", "stalled");
    yyjson_mut_val *list = json_arr(&j, j.root, "stalled");
    for (u32 i = 0; i < LIMIT_WORKERS_MAX; i++) {
        if (s->requests[i] == NULL) continue;
        u64 last = counter_get(&x->worker->gw->workers[i].metrics.heartbeat_ns);
        yyjson_mut_val *o = json_arr_obj(&j, list);
        json_u64(&j, o, "worker", i);
        json_seconds(&j, o, "heartbeat_age_seconds", now > last ? now - last : 0);
    }
    json_answer(&j, x, 503);
}

static void pong(ops_request *r, http_exchange *x) {
    health_state *s = x->state;
    s->requests[r->target] = NULL;
    if (--s->pending == 0) answer_ok(x);
}

static bool heard_lately(const worker *w, u64 now_ns) {
    u64 last = counter_get(&w->metrics.heartbeat_ns);
    return last != 0 && (last > now_ns || now_ns - last < LIMIT_OPS_HEARTBEAT_MS * NS_PER_MS);
}

void healthz_handle(http_exchange *x, const char *rest) {
    (void)rest;
    const gateway *gw = x->worker->gw;
    u64 now_ns = clock_mono_ns();
    health_state *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    http_set_state(x, s, state_free);
    for (u32 i = 0; i < gw->worker_count; i++) {
        if (heard_lately(&gw->workers[i], now_ns)) continue;
        ops_request *r = ops_request_new(OPS_PING, x, pong);
        if (r == NULL) {
            http_answer_error(x, 503, "no memory");
            return;
        }
        r->target = i;
        if (ops_request_send(x->worker, r) != 0) {
            http_answer_error(x, 503, "worker %u can not be asked: its ring is full", i);
            return;
        }
        s->requests[i] = r;
        s->pending++;
    }
    if (s->pending == 0) answer_ok(x);
    else http_wait(x, HEALTH_REPLY_MS, answer_stalled);
}

void readyz_handle(http_exchange *x, const char *rest) {
    (void)rest;
    const gateway *gw = x->worker->gw;
    bool ready = __atomic_load_n(&gw->ready, __ATOMIC_ACQUIRE) != 0;
    bool draining = __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE) != 0;
    json j;
    json_begin(&j);
    json_str(&j, j.root, "status", draining ? "draining" : ready ? "ready" : "starting");
    json_answer(&j, x, ready && !draining ? 200 : 503);
}
