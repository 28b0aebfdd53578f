// SPDX-License-Identifier: Apache-2.0
// streams.c: /api/streams, /api/streams/NAME, and DELETE of /api/streams/NAME/consumers/CONSUMER. Sizes and
// offsets are the partitions' counters, read as they are; the named consumers are asked of each worker, one after
// the other.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"
#include "ops/stream_messages.h"
#include "store/stream_feed.h"

typedef struct stream_state {
    ops_request *request; // outstanding, NULL otherwise
    char name[LIMIT_NAME_BYTES];
    char consumer[STREAM_CONSUMER_BYTES + 1]; // DELETE; else ""
    u32 forgotten, busy;  // workers that have forgotten it, where it is in use
    stream_consumer_view *rows;
    u32 row_count;
} stream_state;

static void state_free(void *state) {
    stream_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    free(s->rows);
    free(s);
}

// --- one stream ---

static void put_settings(json *j, yyjson_mut_val *o, const config *conf, const char *name) {
    const stream_config *c = NULL;
    for (u32 i = 0; i < conf->stream_count; i++) {
        if (strcmp(conf->streams[i].name, name) == 0) c = &conf->streams[i];
    }
    json_bool(j, o, "configured", c != NULL);
    if (c == NULL) return;
    yyjson_mut_val *topics = json_arr(j, o, "topics");
    for (const char *line = c->topics; *line != '\0';) {
        char filter[CONFIG_FILTERS_BYTES];
        size_t len = strcspn(line, "\n");
        memcpy(filter, line, len);
        filter[len] = '\0';
        json_arr_str(j, topics, filter);
        line += len + 1;
    }
    if (c->max_bytes == 0) json_null(j, o, "max_bytes");
    else json_u64(j, o, "max_bytes", c->max_bytes);
    if (c->max_age_ms == 0) json_null(j, o, "max_age_seconds");
    else json_seconds(j, o, "max_age_seconds", c->max_age_ms * NS_PER_MS);
    json_str(j, o, "discard", c->discard == STREAM_DISCARD_OLD ? "old" : "new");
    json_str(j, o, "sync", c->sync == STREAM_SYNC_COMMIT ? "commit" : "interval");
}

static void put_time(json *j, yyjson_mut_val *o, const char *key, u64 ms) {
    char when[TEXT_TIME_BYTES];
    if (ms == 0) json_null(j, o, key);
    else json_str(j, o, key, text_time(ms * NS_PER_MS, when));
}

static void put_partition(json *j, yyjson_mut_val *list, const stream_partition *p) {
    yyjson_mut_val *o = json_arr_obj(j, list);
    json_u64(j, o, "partition", p->number >> STREAM_NUMBER_BITS);
    json_u64(j, o, "worker", p->host);
    json_u64(j, o, "first", p->first);
    json_u64(j, o, "next", p->next);
    json_u64(j, o, "messages", p->next - p->first);
    json_u64(j, o, "bytes", p->bytes);
    put_time(j, o, "oldest", p->first_ms);
    put_time(j, o, "newest", p->last_ms);
}

static bool put_stream(json *j, yyjson_mut_val *o, const worker *w, const char *name) {
    stream_partition parts[LIMIT_WORKERS_MAX];
    u32 count = stream_partitions(w, name, (u32)strlen(name), parts, ARRAY_LEN(parts));
    u64 messages = 0, bytes = 0, oldest = 0, newest = 0;
    for (u32 i = 0; i < count; i++) {
        messages += parts[i].next - parts[i].first;
        bytes += parts[i].bytes;
        if (parts[i].first_ms != 0 && (oldest == 0 || parts[i].first_ms < oldest)) oldest = parts[i].first_ms;
        newest = MAX(newest, parts[i].last_ms);
    }
    json_str(j, o, "name", name);
    put_settings(j, o, w->conf, name);
    json_u64(j, o, "messages", messages);
    json_u64(j, o, "bytes", bytes);
    put_time(j, o, "oldest", oldest);
    put_time(j, o, "newest", newest);
    yyjson_mut_val *list = json_arr(j, o, "partitions");
    for (u32 i = 0; i < count; i++) put_partition(j, list, &parts[i]);
    return count > 0;
}

void streams_handle(http_exchange *x, const char *rest) {
    (void)rest;
    static const char *const known[] = {NULL};
    char names[LIMIT_STREAMS_KEPT][LIMIT_NAME_BYTES];
    if (http_param_unknown(http_req(x), known) != NULL) {
        http_answer_error(x, 400, "no parameters here");
        return;
    }
    u32 count = stream_names(x->worker, names, ARRAY_LEN(names));
    json j;
    json_begin(&j);
    yyjson_mut_val *list = json_arr(&j, j.root, "streams");
    for (u32 i = 0; i < count; i++) (void)put_stream(&j, json_arr_obj(&j, list), x->worker, names[i]);
    json_answer(&j, x, 200);
}

// --- its consumers ---

static void put_consumers(json *j, const stream_state *s) {
    char when[TEXT_TIME_BYTES];
    yyjson_mut_val *list = json_arr(j, j->root, "consumers");
    for (u32 i = 0; i < s->row_count; i++) {
        const stream_consumer_view *v = &s->rows[i];
        yyjson_mut_val *o = json_arr_obj(j, list);
        json_str(j, o, "name", v->name);
        json_u64(j, o, "partition", v->number >> STREAM_NUMBER_BITS);
        json_u64(j, o, "next", v->acked);
        json_u64(j, o, "lag", v->lag);
        json_u64(j, o, "members", v->members);
        if (v->changed_ms == 0) json_null(j, o, "acknowledged");
        else json_str(j, o, "acknowledged", text_time(v->changed_ms * NS_PER_MS, when));
    }
}

static void on_timeout(http_exchange *x) {
    const stream_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms", s->request != NULL ? s->request->target : 0,
                      LIMIT_OPS_REPLY_MS);
}

static void ask(http_exchange *x, ops_request *r, u32 target) {
    stream_state *s = x->state;
    r->target = target;
    s->request = r;
    http_wait(x, LIMIT_OPS_REPLY_MS, on_timeout);
    if (ops_request_send(x->worker, r) == 0) return; // s may be gone now
    s->request = NULL;
    http_answer_error(x, 503, "worker %u can not be asked: too much is outstanding", target);
}

static bool rows_keep(stream_state *s, const ops_request *r) {
    if (r->consumer_count == 0) return true;
    stream_consumer_view *rows = realloc(s->rows, (s->row_count + r->consumer_count) * sizeof(*rows));
    if (rows == NULL) return false;
    memcpy(rows + s->row_count, r->consumers, r->consumer_count * sizeof(*rows));
    s->rows = rows;
    s->row_count += r->consumer_count;
    return true;
}

static void consumers_arrived(ops_request *r, http_exchange *x) {
    stream_state *s = x->state;
    s->request = NULL;
    if (!rows_keep(s, r)) {
        http_answer_error(x, 503, "no memory for the list");
        return;
    }
    if (r->target + 1 < x->worker->gw->worker_count) {
        ask(x, r, r->target + 1);
        return;
    }
    json j;
    json_begin(&j);
    (void)put_stream(&j, j.root, x->worker, s->name);
    put_consumers(&j, s);
    json_answer(&j, x, 200);
}

static void forget_arrived(ops_request *r, http_exchange *x) {
    stream_state *s = x->state;
    s->request = NULL;
    if (r->result == 0) s->forgotten++;
    if (r->result == -EBUSY) s->busy++;
    if (r->target + 1 < x->worker->gw->worker_count) {
        ask(x, r, r->target + 1);
    } else if (s->busy > 0) {
        http_answer_error(x, 409, "a client reads with this consumer");
    } else if (s->forgotten == 0) {
        http_answer_error(x, 404, "no such consumer");
    } else {
        json j;
        json_begin(&j);
        json_str(&j, j.root, "forgotten", s->consumer);
        json_answer(&j, x, 200);
    }
}

static void consumers_ask(http_exchange *x, const stream_path *path) {
    bool forget = path->kind == STREAM_PATH_CONSUMER;
    stream_state *s = calloc(1, sizeof(*s));
    ops_request *r = forget ? ops_request_new(OPS_FORGET, x, forget_arrived)
                            : ops_request_new(OPS_CONSUMERS, x, consumers_arrived);
    if (s == NULL || r == NULL) {
        free(s);
        ops_request_free(r);
        http_answer_error(x, 503, "no memory");
        return;
    }
    memcpy(s->name, path->name, sizeof(s->name));
    memcpy(r->contains, path->name, sizeof(path->name));
    if (forget) {
        memcpy(s->consumer, path->consumer, strlen(path->consumer) + 1);
        memcpy(r->sessions_filter.client, path->consumer, strlen(path->consumer) + 1);
    }
    http_set_state(x, s, state_free);
    ask(x, r, 0);
}

void stream_handle(http_exchange *x, const char *rest) {
    stream_partition parts[1];
    stream_path path = stream_path_parse(rest);
    bool deletes = http_req(x)->method == HTTP_METHOD_DELETE, consumer = path.kind == STREAM_PATH_CONSUMER;
    if (path.kind == STREAM_PATH_WRONG || (consumer && strlen(path.consumer) > STREAM_CONSUMER_BYTES)) {
        http_answer_error(x, 404, "no such resource");
    } else if (deletes != consumer) {
        http_answer_not_allowed(x, consumer ? HTTP_METHOD_DELETE : HTTP_METHOD_GET | HTTP_METHOD_HEAD);
    } else if (stream_partitions(x->worker, path.name, (u32)strlen(path.name), parts, 1) == 0) {
        http_answer_error(x, 404, "no such stream");
    } else if (path.kind == STREAM_PATH_MESSAGES) {
        stream_messages_answer(x, path.name);
    } else {
        consumers_ask(x, &path);
    }
}
