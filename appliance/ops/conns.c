// SPDX-License-Identifier: Apache-2.0
// conns.c: /api/conns: connections that match a filter, sorted, a window of them. The workers are walked one
// after the other in bounded messages; of what matches only the first offset + limit in order are kept, in a
// heap whose root is the last of them. The list is not a snapshot: connections come and go during the walk, and
// one that moves between workers may be seen twice or not at all.
//
// Invariant: after the walk the rows are sorted and nothing is outstanding; then they are sent page by page.
#include <stdlib.h>
#include <string.h>

#include "ops/conn_json.h"
#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"

#define LIMIT_DEFAULT 100u

typedef enum sort_key {
    SORT_ID,
    SORT_BYTES,
    SORT_BYTES_IN,
    SORT_BYTES_OUT,
    SORT_AGE,
    SORT_IDLE,
    SORT_OUT_BYTES,
    SORT_PACKETS,
    SORT_KEYS
} sort_key;

static const char *const sort_names[SORT_KEYS] = {
    "id", "bytes", "bytes_in", "bytes_out", "age", "idle", "out_bytes", "packets",
};

typedef struct row {
    u64 key; // smaller comes first
    conn_view view;
} row;

typedef struct conns_state {
    ops_request *request; // outstanding, NULL otherwise
    conn_filter filter;
    bool admin;           // the operations worker's connections too
    sort_key sort;
    bool descending;
    u32 offset, limit;
    u64 matched;
    row *rows;
    u32 row_count, row_size;
    u32 next;             // row to send
    bool opened;          // the list's head was sent
} conns_state;

static void state_free(void *state) {
    conns_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    free(s->rows);
    free(s);
}

// --- the first offset + limit rows ---

static u64 key_of(const conns_state *s, const conn_view *v) {
    u64 key = v->id;
    switch (s->sort) {
    case SORT_BYTES: key = v->bytes_in + v->bytes_out; break;
    case SORT_BYTES_IN: key = v->bytes_in; break;
    case SORT_BYTES_OUT: key = v->bytes_out; break;
    case SORT_AGE: key = v->age_ns; break;
    case SORT_IDLE: key = v->idle_ns; break;
    case SORT_OUT_BYTES: key = v->out_bytes; break;
    case SORT_PACKETS: key = v->packets_in + v->packets_out; break;
    case SORT_ID:
    case SORT_KEYS: break;
    }
    return s->descending ? ~key : key;
}

static bool row_before(const row *a, const row *b) {
    return a->key != b->key ? a->key < b->key : a->view.id < b->view.id;
}

static int row_compare(const void *a, const void *b) {
    return row_before(a, b) ? -1 : row_before(b, a) ? 1 : 0;
}

static void row_swap(row *a, row *b) {
    row t = *a;
    *a = *b;
    *b = t;
}

static void heap_up(row *rows, u32 i) {
    while (i > 0 && row_before(&rows[(i - 1) / 2], &rows[i])) {
        row_swap(&rows[(i - 1) / 2], &rows[i]);
        i = (i - 1) / 2;
    }
}

static void heap_down(row *rows, u32 count) {
    u32 i = 0;
    for (;;) {
        u32 last = i;
        for (u32 child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
            if (row_before(&rows[last], &rows[child])) last = child;
        }
        if (last == i) return;
        row_swap(&rows[i], &rows[last]);
        i = last;
    }
}

// Keeps a view if it is among the first. False: out of memory.
static bool row_keep(conns_state *s, const conn_view *view) {
    u32 max = s->offset + s->limit;
    row candidate = {.key = key_of(s, view), .view = *view};
    s->matched++;
    if (s->row_count == max) {
        if (max == 0 || !row_before(&candidate, &s->rows[0])) return true;
        s->rows[0] = candidate;
        heap_down(s->rows, s->row_count);
        return true;
    }
    if (s->row_count == s->row_size) {
        u32 size = MIN(MAX(s->row_size * 2, 64u), max);
        row *rows = realloc(s->rows, size * sizeof(*rows));
        if (rows == NULL) return false;
        s->rows = rows;
        s->row_size = size;
    }
    s->rows[s->row_count] = candidate;
    heap_up(s->rows, s->row_count++);
    return true;
}

// --- the answer ---

// {"total":N,"offset":N,"conns":[ then rows, then ]}
static http_page conns_page(http_exchange *x, text *out) {
    conns_state *s = x->state;
    if (!s->opened) {
        text_printf(out, "{\"total\":%llu,\"offset\":%u,\"limit\":%u,\"sort\":\"%s\",\"conns\":[",
                    (unsigned long long)s->matched, s->offset, s->limit, sort_names[s->sort]);
        s->opened = true;
    }
    while (s->next < s->row_count) {
        if (out->len >= LIMIT_HTTP_PAGE_BYTES) return HTTP_PAGE_MORE;
        json j;
        json_begin(&j);
        conn_json_put(&j, j.root, &s->rows[s->next++].view);
        text_puts(out, s->next - 1 == s->offset ? "\n" : ",\n");
        json_append(&j, out);
        if (out->failed) return HTTP_PAGE_END;
        text_truncate(out, out->len - 1); // the newline comes with the next comma
    }
    text_puts(out, "\n]}\n");
    return HTTP_PAGE_END;
}

static void walk_finished(http_exchange *x) {
    conns_state *s = x->state;
    if (s->row_count > 1) qsort(s->rows, s->row_count, sizeof(row), row_compare);
    s->next = s->offset;
    http_answer_pages(x, HTTP_JSON, conns_page, false);
}

static void on_timeout(http_exchange *x) {
    const conns_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms", s->request != NULL ? s->request->target : 0,
                      LIMIT_OPS_REPLY_MS);
}

// Asks worker `target` from `cursor` on. Takes r.
static void ask(http_exchange *x, ops_request *r, u32 target, u32 cursor) {
    conns_state *s = x->state;
    r->target = target;
    r->cursor = cursor;
    s->request = r;
    http_wait(x, LIMIT_OPS_REPLY_MS, on_timeout);
    if (ops_request_send(x->worker, r) == 0) return; // s may be gone now
    s->request = NULL;
    http_answer_error(x, 503, "worker %u can not be asked: too much is outstanding", target);
}

static void arrived(ops_request *r, http_exchange *x) {
    conns_state *s = x->state;
    u32 workers = x->worker->gw->worker_count + (s->admin ? 1 : 0);
    s->request = NULL;
    for (u32 i = 0; i < r->view_count; i++) {
        if (row_keep(s, &r->views[i])) continue;
        http_answer_error(x, 503, "no memory for the list");
        return;
    }
    if (r->more) ask(x, r, r->target, r->cursor);
    else if (r->target + 1 < workers) ask(x, r, r->target + 1, 0);
    else walk_finished(x);
}

// --- the question ---

static bool name_find(const char *const *names, u32 count, const char *name, u32 *index) {
    for (u32 i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *index = i;
        return true;
    }
    return false;
}

static const char *parse_slow(const char *value, conn_filter *f) {
    if (strcmp(value, "any") == 0) {
        f->slow = CONN_SLOW_REASONS;
        return NULL;
    }
    for (u32 i = CONN_SLOW_NO + 1; i < CONN_SLOW_REASONS; i++) {
        if (strcmp(value, conn_slow_name(i)) != 0) continue;
        f->slow = i;
        return NULL;
    }
    return "slow: any, unarmed, starved, blocked, output or partial";
}

static const char *parse_state(const char *value, conn_filter *f) {
    for (u32 i = 0; i < CONN_STATES; i++) {
        if (strcmp(value, conn_state_name(i)) != 0) continue;
        f->state = i;
        return NULL;
    }
    return "state: closing, flushing, moving, blocked, paused, half_closed, hello, partial, sending or open";
}

static const char *parse_order(const http_request *r, conns_state *s) {
    const char *sort = http_param_get(r, "sort"), *order = http_param_get(r, "order");
    u32 key = SORT_ID;
    if (sort != NULL && !name_find(sort_names, SORT_KEYS, sort, &key)) {
        return "sort: id, bytes, bytes_in, bytes_out, age, idle, out_bytes or packets";
    }
    s->sort = (sort_key)key;
    s->descending = s->sort != SORT_ID; // the largest first, but ids as they were given
    if (order == NULL) return NULL;
    if (strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) return "order: asc or desc";
    s->descending = strcmp(order, "desc") == 0;
    return NULL;
}

// NULL, or what is wrong with the parameters.
static const char *parse(const http_request *r, conns_state *s) {
    static const char *const known[] = {"listener", "client", "peer",   "state", "slow", "sort",
                                        "order",    "limit",  "offset", "admin", NULL};
    const char *value, *error;
    u64 offset = 0, limit = LIMIT_DEFAULT;
    conn_filter_init(&s->filter);
    if (http_param_unknown(r, known) != NULL) {
        return "parameters: listener, client, peer, state, slow, sort, order, limit, offset, admin";
    }
    if ((value = http_param_get(r, "listener")) != NULL) {
        if (strlen(value) >= sizeof(s->filter.listener)) return "listener: the name is too long";
        memcpy(s->filter.listener, value, strlen(value) + 1);
    }
    if ((value = http_param_get(r, "client")) != NULL) {
        if (strlen(value) >= sizeof(s->filter.client)) return "client: at most 256 bytes";
        memcpy(s->filter.client, value, strlen(value) + 1);
    }
    if ((value = http_param_get(r, "peer")) != NULL && !peer_filter_parse(value, &s->filter.peer)) {
        return "peer: an address, address/bits, or the start of address:port";
    }
    if ((value = http_param_get(r, "state")) != NULL && (error = parse_state(value, &s->filter)) != NULL) return error;
    if ((value = http_param_get(r, "slow")) != NULL && (error = parse_slow(value, &s->filter)) != NULL) return error;
    if ((error = parse_order(r, s)) != NULL) return error;
    if (!http_param_u64(r, "offset", LIMIT_OPS_CONNS_ROWS, &offset) ||
        !http_param_u64(r, "limit", LIMIT_OPS_CONNS_ROWS, &limit) || offset + limit > LIMIT_OPS_CONNS_ROWS) {
        return "offset + limit: at most 10000";
    }
    if (!http_param_bool(r, "admin", &s->admin)) return "admin: 0 or 1";
    s->offset = (u32)offset;
    s->limit = (u32)limit;
    return NULL;
}
_Static_assert(LIMIT_OPS_CONNS_ROWS == 10000 && LIMIT_CLIENT_ID_BYTES == 256, "named in the messages above");

void conns_handle(http_exchange *x, const char *rest) {
    (void)rest;
    conns_state *s = calloc(1, sizeof(*s));
    ops_request *r = ops_request_new(OPS_CONNS, x, arrived);
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
    r->filter = s->filter;
    ask(x, r, 0, 0);
}
