// SPDX-License-Identifier: Apache-2.0
// request.c: see request.h. The life of a request:
//   IDLE -> (send) SENT -> (run on the target) ANSWERED, posted back -> (arrived) IDLE -> freed or sent again
// If the ring back to the operations worker is full to its overflow limit, the target leaves the request in
// state UNPOSTED and goes on; the operations worker finds it when it next sends or waits.
//
// Invariant: `state` alone says who may touch the rest: SENT the target, all others the operations worker.
#include "ops/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "store/stream_feed.h"

enum { STATE_IDLE, STATE_SENT, STATE_ANSWERED, STATE_UNPOSTED };

#define FINDS_PER_MESSAGE (LIMIT_OPS_CONNS_PER_MESSAGE * 4u)  // one comparison each
#define SLOTS_PER_MESSAGE (LIMIT_OPS_CONNS_PER_MESSAGE * 16u) // empty places are cheap to step over

// Operations worker only. A process has one.
static ops_request *outstanding;
static u32 outstanding_count;

static u32 state_of(const ops_request *r) {
    return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
}

static void state_set(ops_request *r, u32 state) {
    __atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
}

static u32 views_max(ops_kind kind) {
    switch (kind) {
    case OPS_CONNS: return LIMIT_OPS_CONNS_PER_MESSAGE;
    case OPS_CONN: return 1;
    case OPS_PING:
    case OPS_KICK:
    case OPS_SUBS:
    case OPS_RETAINED:
    case OPS_SESSIONS:
    case OPS_PUBLISH:
    case OPS_CONSUMERS:
    case OPS_FORGET: break;
    }
    return 0;
}

ops_request *ops_request_new(ops_kind kind, http_exchange *waiter, ops_done done) {
    size_t bytes = sizeof(ops_request) + views_max(kind) * sizeof(conn_view);
    ops_request *r = malloc(bytes);
    if (r == NULL) return NULL;
    memset(r, 0, sizeof(*r));
    r->kind = kind;
    r->waiter = waiter;
    r->done = done;
    conn_filter_init(&r->filter);
    if (kind == OPS_SUBS || kind == OPS_RETAINED) {
        r->rows.size = INSPECT_ROW_BYTES_MAX + LIMIT_TOPIC_BYTES;
        r->rows.data = malloc(r->rows.size);
        if (r->rows.data != NULL) return r;
        free(r);
        return NULL;
    }
    if (kind == OPS_CONSUMERS) {
        r->consumers = malloc(LIMIT_STREAM_CONSUMERS * sizeof(*r->consumers));
        if (r->consumers != NULL) return r;
        free(r);
        return NULL;
    }
    if (kind != OPS_SESSIONS) return r;
    r->sessions = malloc(LIMIT_OPS_SESSIONS_PER_MESSAGE * sizeof(*r->sessions));
    if (r->sessions != NULL) return r;
    free(r);
    return NULL;
}

void ops_request_free(ops_request *r) {
    if (r == NULL) return;
    ASSERT(r->prev == NULL);
    free(r->topic);
    free(r->payload);
    free(r->sessions);
    free(r->consumers);
    free(r->rows.data);
    free(r);
}

u32 ops_requests_outstanding(void) {
    return outstanding_count;
}

static void outstanding_add(ops_request *r) {
    r->next = outstanding;
    r->prev = &outstanding;
    if (outstanding != NULL) outstanding->prev = &r->next;
    outstanding = r;
    outstanding_count++;
}

static void outstanding_remove(ops_request *r) {
    *r->prev = r->next;
    if (r->next != NULL) r->next->prev = r->prev;
    r->prev = NULL;
    r->next = NULL;
    outstanding_count--;
}

// Back on the operations worker: calls done unless the asker is gone, and frees what was not sent again.
static void deliver(ops_request *r, bool inside) {
    http_exchange *x = r->waiter;
    state_set(r, STATE_IDLE);
    if (x != NULL) {
        if (!inside) http_enter(x);
        r->in_done = true;
        r->done(r, x);
        r->in_done = false;
    }
    if (state_of(r) == STATE_IDLE && r->prev == NULL) ops_request_free(r);
    if (x != NULL && !inside) http_leave(x);
}

// Takes up the replies that could not be posted. Inside a handler, so only those of others that are
// abandoned are ended here at once; the waiting ones are delivered.
static void reap(void) {
    ops_request *next;
    for (ops_request *r = outstanding; r != NULL; r = next) {
        next = r->next;
        if (state_of(r) != STATE_UNPOSTED || r->waiter != NULL) continue;
        outstanding_remove(r);
        ops_request_free(r);
    }
}

int ops_request_send(worker *ops, ops_request *r) {
    ASSERT(ops->is_ops && state_of(r) == STATE_IDLE);
    r->view_count = r->session_count = 0;
    r->more = false;
    r->found = false;
    if (r->target == ops->index) {
        ops_request_run(ops, r);
        if (!r->in_done) deliver(r, true);
        else r->done(r, r->waiter);
        return 0;
    }
    reap();
    state_set(r, STATE_SENT);
    spsc_message message = {.kind = WM_REQUEST, .arg = ops->index, .ptr = r};
    if (outstanding_count >= LIMIT_OPS_REQUESTS || !worker_post(ops, r->target, &message)) {
        state_set(r, STATE_IDLE);
        if (!r->in_done) ops_request_free(r);
        return -EAGAIN;
    }
    outstanding_add(r);
    return 0;
}

void ops_request_abandon(ops_request *r) {
    r->waiter = NULL;
}

void ops_reply_arrived(worker *ops, ops_request *r) {
    ASSERT(ops->is_ops && state_of(r) == STATE_ANSWERED);
    outstanding_remove(r);
    deliver(r, false);
}

// --- on the worker that is asked ---

// Looks for connection r->id from the cursor on. Identifiers carry the worker that accepted, not the place, so
// this is a walk too, and bounded like one.
static conn *find(const worker *w, ops_request *r) {
    u32 end = MIN(w->conns_touched, r->cursor + FINDS_PER_MESSAGE);
    for (; r->cursor < end; r->cursor++) {
        conn *c = w->conns[r->cursor];
        if (c != NULL && c->id == r->id) return c;
    }
    r->more = r->cursor < w->conns_touched;
    return NULL;
}

static void walk(worker *w, ops_request *r) {
    u32 i = r->cursor, looked = 0, end = MIN(w->conns_touched, r->cursor + SLOTS_PER_MESSAGE);
    for (; i < end && looked < LIMIT_OPS_CONNS_PER_MESSAGE; i++) {
        const conn *c = w->conns[i];
        if (c == NULL) continue;
        looked++;
        if (conn_filter_view(&r->filter, c, w->now_ns, &r->views[r->view_count])) r->view_count++;
    }
    r->cursor = i;
    r->more = i < w->conns_touched;
}

void ops_request_run(worker *w, ops_request *r) {
    conn *c;
    switch (r->kind) {
    case OPS_PING:
        break;
    case OPS_CONNS:
        walk(w, r);
        break;
    case OPS_CONN:
        c = find(w, r);
        r->found = c != NULL;
        if (c != NULL) conn_view_take(&r->views[r->view_count++], c, w->now_ns);
        break;
    case OPS_KICK:
        c = find(w, r);
        r->found = c != NULL;
        // Told why if it can be told at once.
        if (c != NULL && c->out_bytes == 0) conn_end(c, CLOSE_KICKED);
        else if (c != NULL) conn_close(c, CLOSE_KICKED);
        break;
    case OPS_SUBS:
        inspect_subscriptions(w->broker, r->contains, r->sessions_filter.client, &r->rows);
        break;
    case OPS_RETAINED:
        inspect_retained(w->broker, r->contains, &r->rows);
        break;
    case OPS_SESSIONS:
        r->session_count = mqtt_sessions_view(w, &r->sessions_filter, &r->session_cursor, r->sessions,
                                              LIMIT_OPS_SESSIONS_PER_MESSAGE, &r->more);
        break;
    case OPS_PUBLISH:
        r->result = broker_publish(w->broker,
                                   &(publication){.topic = r->topic, .topic_len = (u32)strlen(r->topic),
                                                  .payload = r->payload, .payload_len = r->payload_len},
                                   NULL);
        break;
    case OPS_CONSUMERS:
        r->consumer_count = MIN(stream_consumers_view(w->streams, r->contains, r->consumers, LIMIT_STREAM_CONSUMERS),
                                LIMIT_STREAM_CONSUMERS);
        break;
    case OPS_FORGET:
        r->result = stream_consumer_forget(w->streams, r->contains, r->sessions_filter.client);
        break;
    }
    if (w->is_ops) return;
    u32 back = w->gw->worker_count;
    spsc_message message = {.kind = WM_REPLY, .arg = w->index, .ptr = r};
    // Set before posting: once posted, the request is the operations worker's.
    state_set(r, STATE_ANSWERED);
    if (!worker_post(w, back, &message)) state_set(r, STATE_UNPOSTED);
}
