// SPDX-License-Identifier: Apache-2.0
// routing.c: /api/subs and /api/retained: subscriptions and retained messages that match, a window of them,
// in the order of the workers' tables. The workers are asked one after the other in bounded messages, as for
// /api/conns; the lists are not snapshots.
#include <stdlib.h>
#include <string.h>

#include "broker/inspect.h"
#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"

#define LIMIT_DEFAULT 100u

typedef struct routing_state {
    ops_request *request; // outstanding, NULL otherwise
    bool retained;        // which list
    u32 offset, limit;
    u64 matched;
    u8 *rows;             // of the window, each behind the number of its worker
    u32 rows_used, rows_size;
    u32 next;             // byte of the row to send
    u32 count;
    bool opened;          // the list's head was sent
    char *string;         // room for one text
} routing_state;

static void state_free(void *state) {
    routing_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    free(s->rows);
    free(s->string);
    free(s);
}

static bool rows_append(routing_state *s, const void *data, u32 bytes) {
    if (s->rows_size - s->rows_used < bytes) {
        u32 size = MAX(s->rows_size * 2, s->rows_used + bytes + 4096);
        u8 *rows = realloc(s->rows, size);
        if (rows == NULL) return false;
        s->rows = rows;
        s->rows_size = size;
    }
    memcpy(s->rows + s->rows_used, data, bytes);
    s->rows_used += bytes;
    return true;
}

// Keeps what is in the window. Returns NULL, or what is wrong.
static const char *rows_keep(routing_state *s, const inspect_rows *from, u32 worker_index) {
    for (u32 at = 0; at < from->used;) {
        inspect_row row;
        memcpy(&row, from->data + at, sizeof(row));
        u64 place = s->matched++;
        if (place >= s->offset && s->count < s->limit) {
            if (s->rows_used + row.bytes > LIMIT_INSPECT_BYTES) return "the list is too long: ask for fewer";
            bool kept = rows_append(s, &worker_index, sizeof(worker_index)) &&
                        rows_append(s, from->data + at, row.bytes);
            if (!kept) return "no memory for the list";
            s->count++;
        }
        at += row.bytes;
    }
    return NULL;
}

// A text as a terminated string.
static const char *string_of(routing_state *s, const u8 *from, u32 len) {
    memcpy(s->string, from, len);
    s->string[len] = '\0';
    return s->string;
}

static void row_put(routing_state *s, json *j, const u8 *at, u32 worker_index) {
    inspect_row row;
    memcpy(&row, at, sizeof(row));
    const u8 *topic = at + sizeof(row), *share = topic + row.topic_len, *client = share + row.share_len;
    yyjson_mut_val *o = j->root;
    json_u64(j, o, "worker", worker_index);
    if (s->retained) {
        json_str(j, o, "topic", string_of(s, topic, row.topic_len));
        json_u64(j, o, "qos", row.qos);
        json_u64(j, o, "payload_bytes", row.payload_len);
        json_u64(j, o, "property_bytes", row.props_len);
        json_seconds(j, o, "age_seconds", row.age_ns);
        if (row.expires_in_ns == UINT64_MAX) json_null(j, o, "expires_in_seconds");
        else json_seconds(j, o, "expires_in_seconds", row.expires_in_ns);
        return;
    }
    json_str(j, o, "client", string_of(s, client, row.client_len));
    json_str(j, o, "filter", string_of(s, topic, row.topic_len));
    if (row.share_len > 0) json_str(j, o, "share", string_of(s, share, row.share_len));
    else json_null(j, o, "share");
    json_u64(j, o, "qos", row.qos);
    if (row.subscription_id != 0) json_u64(j, o, "id", row.subscription_id);
    else json_null(j, o, "id");
    json_bool(j, o, "no_local", row.no_local);
    json_bool(j, o, "retain_as_published", row.retain_as_published);
    json_u64(j, o, "retain_handling", row.retain_handling);
    json_bool(j, o, "in_force", row.in_force);
}

static http_page routing_page(http_exchange *x, text *out) {
    routing_state *s = x->state;
    if (!s->opened) {
        text_printf(out, "{\"total\":%llu,\"offset\":%u,\"limit\":%u,\"%s\":[",
                    (unsigned long long)s->matched, s->offset, s->limit, s->retained ? "retained" : "subs");
        s->opened = true;
    }
    while (s->next < s->rows_used) {
        if (out->len >= LIMIT_HTTP_PAGE_BYTES) return HTTP_PAGE_MORE;
        u32 worker_index;
        inspect_row row;
        memcpy(&worker_index, s->rows + s->next, sizeof(worker_index));
        const u8 *at = s->rows + s->next + sizeof(worker_index);
        memcpy(&row, at, sizeof(row));
        json j;
        json_begin(&j);
        row_put(s, &j, at, worker_index);
        text_puts(out, s->next == 0 ? "\n" : ",\n");
        s->next += (u32)sizeof(worker_index) + row.bytes;
        json_append(&j, out);
        if (out->failed) return HTTP_PAGE_END;
        text_truncate(out, out->len - 1); // the newline comes with the next comma
    }
    text_puts(out, "\n]}\n");
    return HTTP_PAGE_END;
}

static void on_timeout(http_exchange *x) {
    const routing_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms", s->request != NULL ? s->request->target : 0,
                      LIMIT_OPS_REPLY_MS);
}

// Asks worker `target` from the cursor on. Takes r.
static void ask(http_exchange *x, ops_request *r, u32 target, u64 cursor) {
    routing_state *s = x->state;
    r->target = target;
    r->rows.cursor = cursor;
    r->rows.used = r->rows.count = 0;
    s->request = r;
    http_wait(x, LIMIT_OPS_REPLY_MS, on_timeout);
    if (ops_request_send(x->worker, r) == 0) return; // s may be gone now
    s->request = NULL;
    http_answer_error(x, 503, "worker %u can not be asked: too much is outstanding", target);
}

static void arrived(ops_request *r, http_exchange *x) {
    routing_state *s = x->state;
    s->request = NULL;
    const char *error = rows_keep(s, &r->rows, r->target);
    if (error != NULL) http_answer_error(x, 503, "%s", error);
    else if (r->rows.more) ask(x, r, r->target, r->rows.cursor);
    else if (r->target + 1 < x->worker->gw->worker_count) ask(x, r, r->target + 1, 0);
    else http_answer_pages(x, HTTP_JSON, routing_page, false);
}

// NULL, or what is wrong with the parameters.
static const char *parse(const http_request *request, routing_state *s, ops_request *r) {
    static const char *const subs[] = {"filter", "client", "limit", "offset", NULL};
    static const char *const retained[] = {"topic", "limit", "offset", NULL};
    const char *value;
    u64 offset = 0, limit = LIMIT_DEFAULT;
    if (http_param_unknown(request, s->retained ? retained : subs) != NULL) {
        return s->retained ? "parameters: topic, limit, offset" : "parameters: filter, client, limit, offset";
    }
    if ((value = http_param_get(request, s->retained ? "topic" : "filter")) != NULL) {
        if (strlen(value) >= sizeof(r->contains)) return "filter, topic: at most 2048 bytes";
        memcpy(r->contains, value, strlen(value) + 1);
    }
    if (!s->retained && (value = http_param_get(request, "client")) != NULL) {
        if (strlen(value) >= sizeof(r->sessions_filter.client)) return "client: at most 256 bytes";
        memcpy(r->sessions_filter.client, value, strlen(value) + 1);
    }
    if (!http_param_u64(request, "offset", UINT32_MAX, &offset) ||
        !http_param_u64(request, "limit", LIMIT_OPS_CONNS_ROWS, &limit)) {
        return "limit: at most 10000";
    }
    s->offset = (u32)offset;
    s->limit = (u32)limit;
    return NULL;
}
_Static_assert(LIMIT_OPS_CONNS_ROWS == 10000 && LIMIT_CLIENT_ID_BYTES == 256 && LIMIT_HTTP_URL_BYTES == 2048,
               "named in the messages above");

static void handle(http_exchange *x, bool retained) {
    routing_state *s = calloc(1, sizeof(*s));
    ops_request *r = ops_request_new(retained ? OPS_RETAINED : OPS_SUBS, x, arrived);
    if (s != NULL) s->string = malloc(LIMIT_TOPIC_BYTES + 1u);
    if (s == NULL || r == NULL || s->string == NULL) {
        if (s != NULL) state_free(s);
        ops_request_free(r);
        http_answer_error(x, 503, "no memory");
        return;
    }
    s->retained = retained;
    http_set_state(x, s, state_free);
    const char *error = parse(http_req(x), s, r);
    if (error != NULL) {
        ops_request_free(r);
        http_answer_error(x, 400, "%s", error);
        return;
    }
    ask(x, r, 0, 0);
}

void subs_handle(http_exchange *x, const char *rest) {
    (void)rest;
    handle(x, false);
}

void retained_handle(http_exchange *x, const char *rest) {
    (void)rest;
    handle(x, true);
}
