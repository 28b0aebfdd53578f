// SPDX-License-Identifier: Apache-2.0
// trace.c: /api/trace: the flight recorders read live, like strace: one line of JSON for an event, those of several
// workers merged by time. Reading costs the workers nothing; only the names of connections are asked for.
//
//   all       every event; names where known, at most one walk over a worker's connections a second
//   conn=ID   the events of one connection, until it has closed; also of one that has closed already, as long
//             as its first event is still there
//   peer=ADDR the events of connections whose peer matches: an event of an unknown slot is held back
//             until a walk has told whose it is. A connection that ended before the walk is not shown.
//
// The operations worker is left out unless worker=ops asks for it: a trace of it would feed itself.
// Invariants: at most one request is outstanding; an event is shown once or counted in a "lost" line.
#include "ops/trace_names.h"

#include <stdlib.h>
#include <string.h>

#include "ops/conn_id.h"
#include "ops/conn_json.h"
#include "ops/request.h"
#include "ops/routes.h"

#define READ_AHEAD 64u                      // records read from one worker at a time
#define WALK_AGAIN_NS (100 * NS_PER_MS)     // peer=: next walk over the same worker
#define WALK_AGAIN_ALL_NS NS_PER_S          // the same where names are only a convenience

typedef enum trace_mode { TRACE_ALL, TRACE_CONN, TRACE_PEER } trace_mode;

typedef struct trace_reader {
    bool wanted;
    u64 after;           // number of the last record read
    u64 stop;            // without follow: read up to this number
    u64 walked_ns;       // start of the last walk over this worker's connections, 0 = none
    u64 lost;            // to be reported
    u32 count, at;       // read ahead
    recorder_record records[READ_AHEAD];
} trace_reader;

typedef struct trace_state {
    trace_mode mode;
    bool follow;
    bool streaming;      // the answer has begun
    bool ended;          // conn=: it has closed
    u64 id;
    peer_filter peer;
    u32 workers;         // readers
    ops_request *request;
    u64 asked_ns;
    u32 asked_workers;   // conn=: workers asked in vain
    u64 real_offset_ns;
    trace_names names;
    trace_reader readers[];
} trace_state;

static void state_free(void *state) {
    trace_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    trace_names_free(&s->names);
    free(s);
}

// --- lines ---

static void put_event(text *out, const trace_state *s, u32 from, const recorder_record *r, const trace_name *name) {
    char time[TEXT_TIME_BYTES], id[CONN_ID_TEXT];
    const char *result_name = conn_event_result_name(r);
    text_printf(out, "{\"time\":\"%s\",\"worker\":%u,\"event\":\"%s\"", text_time(r->time_ns + s->real_offset_ns, time),
                from, recorder_event_name(r->event));
    if (name != NULL && name->known) {
        text_printf(out, ",\"conn\":\"%s\"", conn_id_print(name->id, id));
        if (name->peer[0] != '\0') text_printf(out, ",\"peer\":\"%s\"", name->peer);
    }
    if (r->slot != UINT32_MAX) text_printf(out, ",\"slot\":%u,\"generation\":%u", r->slot, r->generation);
    text_printf(out, ",\"result\":%d", r->result);
    if (result_name != NULL) text_printf(out, ",\"result_name\":\"%s\"", result_name);
    text_printf(out, ",\"flags\":%u}\n", r->flags);
}

static void put_lost(text *out, u32 from, trace_reader *reader) {
    if (reader->lost == 0) return;
    text_printf(out, "{\"worker\":%u,\"event\":\"lost\",\"result\":%llu}\n", from, (unsigned long long)reader->lost);
    reader->lost = 0;
}

// --- asking for names ---

static void arrived(ops_request *r, http_exchange *x);

static void on_timeout(http_exchange *x) {
    const trace_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms", s->request != NULL ? s->request->target : 0,
                      LIMIT_OPS_REPLY_MS);
}

// Takes r. False when it could not be sent.
static bool ask(http_exchange *x, ops_request *r, u32 target, u32 cursor) {
    trace_state *s = x->state;
    r->target = target;
    r->cursor = cursor;
    s->request = r;
    s->asked_ns = x->worker->now_ns;
    if (!s->streaming) http_wait(x, LIMIT_OPS_REPLY_MS, on_timeout);
    if (ops_request_send(x->worker, r) == 0) return true; // the exchange may be over now
    s->request = NULL;
    return false;
}

// Begins to look for connection s->id (conn=) or to walk over one worker. False when that can not be done now.
static bool ask_new(http_exchange *x, u32 target) {
    trace_state *s = x->state;
    ops_request *r = ops_request_new(s->mode == TRACE_CONN ? OPS_CONN : OPS_CONNS, x, arrived);
    if (r == NULL) return false;
    r->id = s->id;
    if (s->mode == TRACE_PEER) r->filter.peer = s->peer;
    s->readers[target].walked_ns = x->worker->now_ns;
    return ask(x, r, target, 0);
}

static bool waits_for_names(http_exchange *x) {
    trace_state *s = x->state;
    if (s->request == NULL) return false;
    if (x->worker->now_ns - s->asked_ns < LIMIT_OPS_REPLY_MS * NS_PER_MS) return true;
    ops_request_abandon(s->request); // a stalled worker: its events go on without names
    s->request = NULL;
    return false;
}

// --- reading ---

static bool reader_fill(trace_reader *reader, const worker *w, bool follow) {
    if (!reader->wanted) return false;
    if (reader->at < reader->count) return true;
    u64 lost, room = follow ? READ_AHEAD : MIN((u64)READ_AHEAD, reader->stop - MIN(reader->after, reader->stop));
    reader->at = reader->count = 0;
    if (room == 0) return false;
    reader->count = (u32)recorder_read(&w->rec, reader->after, reader->records, room, &reader->after, &lost);
    reader->lost += lost;
    return reader->count > 0;
}

// The worker whose next event is the oldest, UINT32_MAX when there is none.
static u32 oldest(trace_state *s, const gateway *gw) {
    u32 best = UINT32_MAX;
    for (u32 i = 0; i < s->workers; i++) {
        trace_reader *reader = &s->readers[i];
        if (!reader_fill(reader, &gw->workers[i], s->follow)) continue;
        if (best == UINT32_MAX || reader->records[reader->at].time_ns <
                                      s->readers[best].records[s->readers[best].at].time_ns) {
            best = i;
        }
    }
    return best;
}

typedef enum verdict { SHOW, SKIP, HOLD } verdict;

// The id in a connection's first event on a worker: the record has its low half, the rest is that of the
// connection counted last, which is at most 2^31 away.
static bool id_of_first_event(const gateway *gw, u32 from, const recorder_record *r, u64 *id) {
    if (r->event != REC_ADOPT && r->event != REC_MOVE_IN) return false;
    u32 accepted_by = r->event == REC_ADOPT ? from : (u32)r->result;
    if (accepted_by > gw->worker_count) return false;
    const worker_metrics *m = &gw->workers[accepted_by].metrics;
    u64 last = counter_get(&m->conns_opened) + counter_get(&m->moved_in);
    u64 number = (last & ~0xffffffffull) | r->flags;
    if (number > last + (1ull << 31) && number >= (1ull << 32)) number -= 1ull << 32;
    *id = (u64)accepted_by << 48 | number;
    return true;
}

// conn=: only its own events; the last one ends the trace, and a move opens another worker's recorder.
static verdict judge_conn(trace_state *s, const gateway *gw, u32 from, const recorder_record *r,
                          const trace_name **name) {
    u64 id;
    if (id_of_first_event(gw, from, r, &id) && id == s->id && *name == NULL) {
        trace_names_put(&s->names, from, r->slot, r->generation, id, "");
        *name = trace_names_find(&s->names, from, r->slot, r->generation);
    }
    if (*name == NULL || !(*name)->known) return SKIP;
    if (r->event == REC_CLOSED) s->ended = true;
    if (r->event == REC_MOVE_OUT && r->result >= 0 && (u32)r->result < s->workers) {
        s->readers[r->result].wanted = true;
    }
    return SHOW;
}

// Whose event it is decides whether it is shown; an unknown slot may first need a walk.
static verdict judge(http_exchange *x, u32 from, const recorder_record *r, const trace_name **name) {
    trace_state *s = x->state;
    trace_reader *reader = &s->readers[from];
    *name = r->slot == UINT32_MAX ? NULL : trace_names_find(&s->names, from, r->slot, r->generation);
    if (s->mode == TRACE_CONN) return judge_conn(s, x->worker->gw, from, r, name);
    u64 id;
    if (s->mode == TRACE_ALL && *name == NULL && id_of_first_event(x->worker->gw, from, r, &id)) {
        trace_names_put(&s->names, from, r->slot, r->generation, id, "");
        *name = trace_names_find(&s->names, from, r->slot, r->generation);
    }
    if (r->slot == UINT32_MAX) return s->mode == TRACE_ALL ? SHOW : SKIP;
    if (*name != NULL) return s->mode == TRACE_ALL || (*name)->known ? SHOW : SKIP;
    // Seen by the last walk it would have a name; one more walk later than the event decides.
    if (reader->walked_ns > r->time_ns) {
        trace_names_put_unknown(&s->names, from, r->slot, r->generation);
        return s->mode == TRACE_ALL ? SHOW : SKIP;
    }
    u64 again_ns = s->mode == TRACE_ALL ? WALK_AGAIN_ALL_NS : WALK_AGAIN_NS;
    bool may_walk = x->worker->now_ns - reader->walked_ns >= again_ns;
    if (s->mode == TRACE_ALL && !(may_walk && ask_new(x, from))) return SHOW;
    if (s->mode == TRACE_PEER && may_walk) ask_new(x, from);
    return HOLD;
}

static http_page trace_page(http_exchange *x, text *out) {
    trace_state *s = x->state;
    while (!s->ended) {
        if (out->len >= LIMIT_HTTP_PAGE_BYTES) return HTTP_PAGE_MORE;
        if (waits_for_names(x)) return HTTP_PAGE_WAIT;
        u32 from = oldest(s, x->worker->gw);
        for (u32 i = 0; i < s->workers; i++) put_lost(out, i, &s->readers[i]);
        if (from == UINT32_MAX) return s->follow ? HTTP_PAGE_WAIT : HTTP_PAGE_END;
        trace_reader *reader = &s->readers[from];
        const recorder_record *r = &reader->records[reader->at];
        const trace_name *name;
        verdict v = judge(x, from, r, &name);
        if (v == HOLD) {
            if (s->request == NULL) return HTTP_PAGE_WAIT;
            continue;
        }
        if (v == SHOW) put_event(out, s, from, r, name);
        reader->at++;
    }
    return HTTP_PAGE_END;
}

// --- the beginning ---

static void begin_stream(http_exchange *x) {
    trace_state *s = x->state;
    if (s->streaming) return; // http_leave goes on with the page
    s->streaming = true;
    http_answer_pages(x, HTTP_NDJSON, trace_page, s->follow);
}

// conn=: no worker has it. What is left of one that has closed can still be shown.
static void not_found(http_exchange *x) {
    trace_state *s = x->state;
    if (s->names.count > 0) {
        s->follow = false;
        begin_stream(x);
        return;
    }
    char id[CONN_ID_TEXT];
    http_answer_error(x, 404, "no connection %s; it may have ended long ago", conn_id_print(s->id, id));
}

static void cannot_ask(http_exchange *x, u32 target) {
    trace_state *s = x->state;
    if (s->streaming) return; // names stay unknown until the next walk
    http_answer_error(x, 503, "worker %u can not be asked: too much is outstanding", target);
}

// The next worker that has not been walked; UINT32_MAX when all have.
static u32 next_unwalked(const trace_state *s) {
    for (u32 i = 0; i < s->workers; i++) {
        if (s->readers[i].wanted && s->readers[i].walked_ns == 0) return i;
    }
    return UINT32_MAX;
}

static void conn_arrived(ops_request *r, http_exchange *x) {
    trace_state *s = x->state;
    u32 workers = x->worker->gw->worker_count + 1, next = (r->target + 1) % workers;
    if (r->found) begin_stream(x);
    else if (r->more && ask(x, r, r->target, r->cursor)) return;
    else if (++s->asked_workers >= workers) not_found(x);
    else if (!ask(x, r, next, 0)) cannot_ask(x, next);
}

static void arrived(ops_request *r, http_exchange *x) {
    trace_state *s = x->state;
    s->request = NULL;
    for (u32 i = 0; i < r->view_count; i++) {
        const conn_view *v = &r->views[i];
        char peer[CONN_PEER_TEXT];
        bool put = trace_names_put(&s->names, v->worker, v->slot, v->generation, v->id, conn_view_peer(v, peer));
        if (!put) break; // shown without a name
        if (s->mode == TRACE_CONN) s->readers[v->worker].wanted = true;
    }
    if (r->kind == OPS_CONN) {
        conn_arrived(r, x);
        return;
    }
    if (r->more) {
        if (!ask(x, r, r->target, r->cursor)) cannot_ask(x, r->target);
        return;
    }
    u32 next = s->streaming ? UINT32_MAX : next_unwalked(s);
    if (next == UINT32_MAX) begin_stream(x);
    else if (!ask_new(x, next)) cannot_ask(x, next);
}

// --- the question ---

// worker=N or worker=ops; all device workers without. False when there is no such worker.
static bool choose_workers(trace_state *s, const http_request *r, const gateway *gw) {
    const char *value = http_param_get(r, "worker");
    u64 only = UINT64_MAX;
    if (value != NULL && strcmp(value, "ops") == 0) only = gw->worker_count;
    else if (value != NULL && (!http_param_u64(r, "worker", gw->worker_count - 1u, &only))) return false;
    for (u32 i = 0; i < s->workers; i++) {
        trace_reader *reader = &s->readers[i];
        u64 written = __atomic_load_n(&gw->workers[i].rec.written, __ATOMIC_ACQUIRE);
        reader->stop = written;
        // What happened before is of use too: the ring holds the last seconds.
        if (s->mode == TRACE_CONN) continue; // wanted is decided by where it is found, from the ring's start
        reader->after = written > LIMIT_RECORDER_EVENTS / 2 ? written - LIMIT_RECORDER_EVENTS / 2 : 0;
        reader->wanted = only == UINT64_MAX ? i < gw->worker_count : i == only;
    }
    return true;
}

// NULL, or what is wrong with the parameters.
static const char *parse(trace_state *s, const http_request *r, const gateway *gw) {
    static const char *const known[] = {"conn", "peer", "worker", "follow", NULL};
    const char *conn_text = http_param_get(r, "conn"), *peer = http_param_get(r, "peer");
    if (http_param_unknown(r, known) != NULL) return "parameters: conn, peer, worker, follow";
    if ((conn_text != NULL) + (peer != NULL) + (http_param_get(r, "worker") != NULL) > 1) {
        return "only one of conn, peer and worker";
    }
    if (conn_text != NULL) {
        s->mode = TRACE_CONN;
        if (!conn_id_parse(conn_text, &s->id)) return "conn: an id as in the list of connections";
    }
    if (peer != NULL) {
        s->mode = TRACE_PEER;
        if (!peer_filter_parse(peer, &s->peer)) return "peer: an address, address/bits, or the start of address:port";
    }
    if (!http_param_bool(r, "follow", &s->follow)) return "follow: 0 or 1";
    if (!choose_workers(s, r, gw)) return "worker: the number of a device worker, or ops";
    return NULL;
}

// conn=: its first events may be in the recorders; this also finds one that has closed.
static bool find_first_events(trace_state *s, const gateway *gw) {
    recorder_record *all = malloc(LIMIT_RECORDER_EVENTS * sizeof(*all));
    if (all == NULL) return false;
    for (u32 i = 0; i < s->workers; i++) {
        u64 next, lost, id;
        size_t count = recorder_read(&gw->workers[i].rec, 0, all, LIMIT_RECORDER_EVENTS, &next, &lost);
        for (size_t k = 0; k < count; k++) {
            if (!id_of_first_event(gw, i, &all[k], &id) || id != s->id) continue;
            trace_names_put(&s->names, i, all[k].slot, all[k].generation, id, "");
            s->readers[i].wanted = true;
        }
    }
    free(all);
    return true;
}

void trace_handle(http_exchange *x, const char *rest) {
    (void)rest;
    const gateway *gw = x->worker->gw;
    u32 workers = gw->worker_count + 1;
    trace_state *s = calloc(1, sizeof(*s) + workers * sizeof(trace_reader));
    if (s == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    s->workers = workers;
    s->real_offset_ns = clock_real_ns() - clock_mono_ns();
    http_set_state(x, s, state_free);
    const char *error = parse(s, http_req(x), gw);
    if (error != NULL) {
        http_answer_error(x, 400, "%s", error);
        return;
    }
    if (s->mode == TRACE_CONN && !find_first_events(s, gw)) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    u32 first = s->mode == TRACE_CONN ? MIN((u32)(s->id >> 48), gw->worker_count) : next_unwalked(s);
    if (!ask_new(x, first)) cannot_ask(x, first);
}
