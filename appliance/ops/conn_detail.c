// SPDX-License-Identifier: Apache-2.0
// conn_detail.c: /api/conns/ID: one connection with its last events (GET), or its end (DELETE). The id tells which
// worker accepted it, so that one is asked first; it may have moved, so the others follow.
//
// The events are read from the worker's flight recorder, which any thread may do; slot and generation from the
// worker's answer say which of them are this connection's.
#include <stdlib.h>
#include <string.h>

#include "ops/conn_id.h"
#include "ops/conn_json.h"
#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"

typedef struct detail_state {
    ops_request *request;
    u32 asked;  // workers that were asked to the end
    u32 first;  // worker asked first
    char text[CONN_ID_TEXT];
} detail_state;

static void state_free(void *state) {
    detail_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    free(s);
}

// The last events of a slot, oldest first. Returns how many; out holds LIMIT_OPS_CONN_EVENTS.
static u32 last_events(const worker *w, const conn_view *v, recorder_record *out) {
    recorder_record *all = malloc(LIMIT_RECORDER_EVENTS * sizeof(*all));
    if (all == NULL) return 0;
    u64 next, lost;
    size_t count = recorder_read(&w->rec, 0, all, LIMIT_RECORDER_EVENTS, &next, &lost);
    u32 kept = 0;
    for (size_t i = count; i > 0 && kept < LIMIT_OPS_CONN_EVENTS; i--) {
        if (all[i - 1].slot == v->slot && all[i - 1].generation == v->generation) out[kept++] = all[i - 1];
    }
    for (u32 i = 0; i < kept / 2; i++) {
        recorder_record t = out[i];
        out[i] = out[kept - 1 - i];
        out[kept - 1 - i] = t;
    }
    free(all);
    return kept;
}

static void answer_view(http_exchange *x, const conn_view *v) {
    recorder_record events[LIMIT_OPS_CONN_EVENTS];
    u64 offset = clock_real_ns() - clock_mono_ns();
    json j;
    json_begin(&j);
    conn_json_put(&j, j.root, v);
    conn_json_put_detail(&j, j.root, v);
    u32 count = last_events(&x->worker->gw->workers[v->worker], v, events);
    yyjson_mut_val *list = json_arr(&j, j.root, "events");
    for (u32 i = 0; i < count; i++) conn_json_put_event(&j, json_arr_obj(&j, list), &events[i], offset);
    json_answer(&j, x, 200);
}

static void answer_kicked(http_exchange *x) {
    const detail_state *s = x->state;
    json j;
    json_begin(&j);
    json_str(&j, j.root, "kicked", s->text);
    json_answer(&j, x, 200);
}

static void on_timeout(http_exchange *x) {
    const detail_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms", s->request != NULL ? s->request->target : 0,
                      LIMIT_OPS_REPLY_MS);
}

static void ask(http_exchange *x, ops_request *r) {
    detail_state *s = x->state;
    u32 target = r->target;
    s->request = r;
    http_wait(x, LIMIT_OPS_REPLY_MS, on_timeout);
    if (ops_request_send(x->worker, r) == 0) return; // s may be gone now
    s->request = NULL;
    http_answer_error(x, 503, "worker %u can not be asked: too much is outstanding", target);
}

static void arrived(ops_request *r, http_exchange *x) {
    detail_state *s = x->state;
    u32 workers = x->worker->gw->worker_count + 1;
    s->request = NULL;
    if (r->found && r->kind == OPS_KICK) {
        answer_kicked(x);
    } else if (r->found) {
        answer_view(x, &r->views[0]);
    } else if (r->more) {
        ask(x, r);
    } else if (++s->asked < workers) {
        r->target = (s->first + s->asked) % workers;
        r->cursor = 0;
        ask(x, r);
    } else {
        http_answer_error(x, 404, "no connection %s; it may have ended", s->text);
    }
}

void conn_handle(http_exchange *x, const char *rest) {
    u64 id;
    if (!conn_id_parse(rest, &id)) {
        bool too_long = rest[strspn(rest, "0123456789abcdefABCDEF")] == '\0';
        if (too_long) http_answer_error(x, 404, "no connection has an id as long as this");
        else http_answer_error(x, 400, "a connection's id is hexadecimal, as in the list and in the log");
        return;
    }
    bool kick = http_req(x)->method == HTTP_METHOD_DELETE;
    if (kick && id == x->c->id) {
        http_answer_error(x, 409, "this is the connection that asks");
        return;
    }
    detail_state *s = calloc(1, sizeof(*s));
    ops_request *r = ops_request_new(kick ? OPS_KICK : OPS_CONN, x, arrived);
    if (s == NULL || r == NULL) {
        free(s);
        ops_request_free(r);
        http_answer_error(x, 503, "no memory");
        return;
    }
    http_set_state(x, s, state_free);
    conn_id_print(id, s->text);
    s->first = MIN((u32)(id >> 48), x->worker->gw->worker_count);
    r->id = id;
    r->target = s->first;
    ask(x, r);
}
