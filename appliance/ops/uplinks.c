// SPDX-License-Identifier: Apache-2.0
// uplinks.c: /api/uplinks: every uplink with its connection on each worker. All of it is read where it lies:
// counters, and texts that a change under way may mix.
#include "uplink/uplink.h"

#include <string.h>

#include "ops/json.h"
#include "ops/routes.h"

static u64 age_ns(u64 unix_ms) {
    u64 now_ms = clock_real_ns() / NS_PER_MS;
    return unix_ms != 0 && now_ms > unix_ms ? (now_ms - unix_ms) * NS_PER_MS : 0;
}

static void put_worker(json *j, yyjson_mut_val *list, const worker *w, const uplink *u) {
    const uplink_metrics *m = uplink_metrics_get(u);
    yyjson_mut_val *o = json_arr_obj(j, list);
    uplink_texts texts;
    uplink_texts_get(u, &texts);
    json_u64(j, o, "worker", w->index);
    json_str(j, o, "state", uplink_state_name((u32)counter_get(&m->state)));
    json_str(j, o, "remote", texts.remote);
    json_str(j, o, "error", uplink_error_name((u32)counter_get(&m->error)));
    json_str(j, o, "detail", counter_get(&m->error) == UPLINK_ERROR_NONE ? "" : texts.detail);
    json_u64(j, o, "connects", counter_get(&m->connects));
    json_u64(j, o, "retries", counter_get(&m->retries));
    json_u64(j, o, "sent", counter_get(&m->sent));
    json_u64(j, o, "resent", counter_get(&m->resent));
    json_u64(j, o, "acked", counter_get(&m->acked));
    json_u64(j, o, "duplicates", counter_get(&m->duplicates));
    json_u64(j, o, "received", counter_get(&m->received));
    json_u64(j, o, "in_flight", counter_get(&m->in_flight));
    json_u64(j, o, "lag_messages", counter_get(&m->lag_messages));
    json_u64(j, o, "lag_bytes", counter_get(&m->lag_bytes));
    json_seconds(j, o, "lag_seconds", age_ns(counter_get(&m->oldest_ms)));
    json_seconds(j, o, "ack_seconds", counter_get(&m->ack_ns));
    yyjson_mut_val *drops = json_obj(j, o, "dropped");
    for (u32 i = 0; i < UPLINK_DROP_COUNT; i++) {
        if (counter_get(&m->drops[i]) > 0) json_u64(j, drops, uplink_drop_name(i), counter_get(&m->drops[i]));
    }
}

static const uplink *find(const worker *w, const char *name) {
    for (u32 i = 0; i < uplinks_count(w); i++) {
        const uplink *u = uplinks_at(w, i);
        if (strcmp(uplink_name(u), name) == 0) return u;
    }
    return NULL;
}

void uplinks_handle(http_exchange *x, const char *rest) {
    (void)rest;
    const gateway *gw = x->worker->gw;
    json j;
    json_begin(&j);
    yyjson_mut_val *list = json_arr(&j, j.root, "uplinks");
    for (u32 i = 0; i < uplinks_count(&gw->workers[0]); i++) {
        const uplink *first = uplinks_at(&gw->workers[0], i);
        if (counter_get(&uplink_metrics_get(first)->configured) == 0) continue;
        yyjson_mut_val *o = json_arr_obj(&j, list);
        u64 lag_messages = 0, lag_bytes = 0, oldest_ms = 0, up = 0;
        json_str(&j, o, "name", uplink_name(first));
        yyjson_mut_val *workers = json_arr(&j, o, "workers");
        for (u32 k = 0; k < gw->worker_count; k++) {
            const uplink *u = find(&gw->workers[k], uplink_name(first));
            if (u == NULL) continue;
            const uplink_metrics *m = uplink_metrics_get(u);
            u64 oldest = counter_get(&m->oldest_ms);
            lag_messages += counter_get(&m->lag_messages);
            lag_bytes += counter_get(&m->lag_bytes);
            if (oldest != 0 && (oldest_ms == 0 || oldest < oldest_ms)) oldest_ms = oldest;
            up += counter_get(&m->state) == UPLINK_UP;
            put_worker(&j, workers, &gw->workers[k], u);
        }
        json_u64(&j, o, "workers_up", up);
        json_u64(&j, o, "lag_messages", lag_messages);
        json_u64(&j, o, "lag_bytes", lag_bytes);
        json_seconds(&j, o, "lag_seconds", age_ns(oldest_ms));
    }
    json_answer(&j, x, 200);
}
