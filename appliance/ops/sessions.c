// SPDX-License-Identifier: Apache-2.0
// sessions.c: /api/sessions: MQTT sessions that match a filter, a window of them, in the order of the workers'
// tables. The workers are asked one after the other in bounded messages, as for /api/conns; the list is not a
// snapshot.
#include <stdlib.h>
#include <string.h>

#include "ops/conn_id.h"
#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"

#define LIMIT_DEFAULT 100u

typedef struct sessions_state {
    ops_request *request; // outstanding, NULL otherwise
    session_filter filter;
    u32 offset, limit;
    u64 matched;
    session_view *rows;
    u32 row_count, row_size;
    u32 next;             // row to send
    bool opened;          // the list's head was sent
} sessions_state;

static void state_free(void *state) {
    sessions_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    free(s->rows);
    free(s);
}

// Keeps a view that is in the window. False: out of memory.
static bool row_keep(sessions_state *s, const session_view *view) {
    u64 place = s->matched++;
    if (place < s->offset || s->row_count == s->limit) return true;
    if (s->row_count == s->row_size) {
        u32 size = MIN(MAX(s->row_size * 2, 64u), s->limit);
        session_view *rows = realloc(s->rows, size * sizeof(*rows));
        if (rows == NULL) return false;
        s->rows = rows;
        s->row_size = size;
    }
    s->rows[s->row_count++] = *view;
    return true;
}

static const char *version_name(u8 version) {
    return version == 5 ? "5.0" : version == 4 ? "3.1.1" : "3.1";
}

static const char *queue_policy_name(u8 policy) {
    static const char *const names[] = {
        [QUEUE_NEWEST] = "newest", [QUEUE_OLDEST] = "oldest",
        [QUEUE_DISCONNECT] = "disconnect", [QUEUE_REJECT] = "reject"};
    return policy < ARRAY_LEN(names) ? names[policy] : "";
}

static void row_put(json *j, const session_view *v) {
    char id[CONN_ID_TEXT];
    yyjson_mut_val *o = j->root;
    json_str(j, o, "client", v->client);
    json_str(j, o, "state", v->conn_id != 0 ? "online" : "away");
    json_u64(j, o, "worker", v->worker);
    json_str(j, o, "version", version_name(v->version));
    if (v->conn_id != 0) json_str(j, o, "conn", conn_id_print(v->conn_id, id));
    else json_null(j, o, "conn");
    json_u64(j, o, "keep_alive_seconds", v->keep_alive_s);
    if (v->expiry_s == UINT32_MAX) json_null(j, o, "expiry_seconds");
    else json_u64(j, o, "expiry_seconds", v->expiry_s);
    if (v->expires_in_ns == UINT64_MAX) json_null(j, o, "expires_in_seconds");
    else json_seconds(j, o, "expires_in_seconds", v->expires_in_ns);
    json_u64(j, o, "subscriptions", v->subscriptions);
    json_u64(j, o, "in_flight", v->in_flight);
    json_u64(j, o, "queued", v->queued);
    json_u64(j, o, "queued_bytes", v->queued_bytes);
    json_u64(j, o, "queued_log", v->queued_log);
    json_u64(j, o, "queued_log_bytes", v->queued_log_bytes);
    json_str(j, o, "queue_policy", queue_policy_name(v->queue_policy));
    json_bool(j, o, "rejects", v->rejects);
    json_bool(j, o, "durable", v->durable);
    json_u64(j, o, "open_qos_2", v->open_qos_2);
    json_bool(j, o, "will", v->has_will);
}

static http_page sessions_page(http_exchange *x, text *out) {
    sessions_state *s = x->state;
    if (!s->opened) {
        text_printf(out, "{\"total\":%llu,\"offset\":%u,\"limit\":%u,\"sessions\":[",
                    (unsigned long long)s->matched, s->offset, s->limit);
        s->opened = true;
    }
    while (s->next < s->row_count) {
        if (out->len >= LIMIT_HTTP_PAGE_BYTES) return HTTP_PAGE_MORE;
        json j;
        json_begin(&j);
        row_put(&j, &s->rows[s->next++]);
        text_puts(out, s->next == 1 ? "\n" : ",\n");
        json_append(&j, out);
        if (out->failed) return HTTP_PAGE_END;
        text_truncate(out, out->len - 1); // the newline comes with the next comma
    }
    text_puts(out, "\n]}\n");
    return HTTP_PAGE_END;
}

static void on_timeout(http_exchange *x) {
    const sessions_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms", s->request != NULL ? s->request->target : 0,
                      LIMIT_OPS_REPLY_MS);
}

// Asks worker `target` from the cursor on. Takes r.
static void ask(http_exchange *x, ops_request *r, u32 target, u64 cursor) {
    sessions_state *s = x->state;
    r->target = target;
    r->session_cursor = cursor;
    s->request = r;
    http_wait(x, LIMIT_OPS_REPLY_MS, on_timeout);
    if (ops_request_send(x->worker, r) == 0) return; // s may be gone now
    s->request = NULL;
    http_answer_error(x, 503, "worker %u can not be asked: too much is outstanding", target);
}

static void arrived(ops_request *r, http_exchange *x) {
    sessions_state *s = x->state;
    s->request = NULL;
    for (u32 i = 0; i < r->session_count; i++) {
        if (row_keep(s, &r->sessions[i])) continue;
        http_answer_error(x, 503, "no memory for the list");
        return;
    }
    if (r->more) ask(x, r, r->target, r->session_cursor);
    else if (r->target + 1 < x->worker->gw->worker_count) ask(x, r, r->target + 1, 0);
    else http_answer_pages(x, HTTP_JSON, sessions_page, false);
}

// NULL, or what is wrong with the parameters.
static const char *parse(const http_request *r, sessions_state *s) {
    static const char *const known[] = {"client", "state", "limit", "offset", NULL};
    const char *value;
    u64 offset = 0, limit = LIMIT_DEFAULT;
    if (http_param_unknown(r, known) != NULL) return "parameters: client, state, limit, offset";
    if ((value = http_param_get(r, "client")) != NULL) {
        if (strlen(value) >= sizeof(s->filter.client)) return "client: at most 256 bytes";
        memcpy(s->filter.client, value, strlen(value) + 1);
    }
    if ((value = http_param_get(r, "state")) != NULL) {
        s->filter.online = strcmp(value, "online") == 0;
        s->filter.away = strcmp(value, "away") == 0;
        if (!s->filter.online && !s->filter.away) return "state: online or away";
    }
    if (!http_param_u64(r, "offset", LIMIT_OPS_CONNS_ROWS, &offset) ||
        !http_param_u64(r, "limit", LIMIT_OPS_CONNS_ROWS, &limit)) {
        return "offset, limit: at most 10000";
    }
    s->offset = (u32)offset;
    s->limit = (u32)limit;
    return NULL;
}
_Static_assert(LIMIT_OPS_CONNS_ROWS == 10000 && LIMIT_CLIENT_ID_BYTES == 256, "named in the messages above");

void sessions_handle(http_exchange *x, const char *rest) {
    (void)rest;
    sessions_state *s = calloc(1, sizeof(*s));
    ops_request *r = ops_request_new(OPS_SESSIONS, x, arrived);
    if (s == NULL || r == NULL) {
        free(s);
        ops_request_free(r);
        http_answer_error(x, 503, "no memory");
        return;
    }
    http_set_state(x, s, state_free);
    const char *error = parse(http_req(x), s);
    if (error != NULL) {
        ops_request_free(r);
        http_answer_error(x, 400, "%s", error);
        return;
    }
    r->sessions_filter = s->filter;
    ask(x, r, 0, 0);
}
