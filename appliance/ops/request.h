// SPDX-License-Identifier: Apache-2.0
// request.h: how the operations worker learns what only another worker may look at. It posts a request;
// the worker walks a bounded part of its connections and posts it back; the operations worker goes on with the
// cursor it got. A worker never waits, and never looks at more than LIMIT_OPS_CONNS_PER_MESSAGE connections
// for one message.
//
// Ownership: a request belongs to request.c from ops_request_send until its `done` returns. The asker may go
// meanwhile: it calls ops_request_abandon, and the reply is dropped when it comes.
// Counters, histograms and flight recorders are read directly and need no request.
#ifndef SLUICE_OPS_REQUEST_H
#define SLUICE_OPS_REQUEST_H

#include "broker/inspect.h"
#include "ops/conn_view.h"
#include "ops/http.h"
#include "worker.h"

typedef enum ops_kind {
    OPS_PING,  // does the worker run its loop?
    OPS_CONNS, // views of the connections that match the filter, from cursor on
    OPS_CONN,  // the view of connection `id`
    OPS_KICK,  // ends connection `id`, reason kicked
    OPS_SUBS, OPS_RETAINED, // rows of subscriptions and retained messages, from rows.cursor on
    OPS_SESSIONS, // views of the MQTT sessions that match, from session_cursor on
    OPS_PUBLISH, // publishes topic and payload there
    OPS_CONSUMERS, // views of the named consumers of stream `contains`
    OPS_FORGET, // forgets consumer sessions_filter.client of stream `contains`; result
} ops_kind;

typedef struct ops_request ops_request;
// The worker has answered; runs on the operations worker inside http_enter(x). It may send the request
// again (for the next page); otherwise the request is freed when it returns.
typedef void (*ops_done)(ops_request *r, http_exchange *x);

struct ops_request {
    ops_kind kind;
    u32 target;             // worker that is asked
    ops_done done;
    http_exchange *waiter;  // NULL: abandoned. Operations worker only
    // Parameters.
    conn_filter filter;
    u64 id;
    char *topic;            // OPS_PUBLISH; malloc'd, the request's
    u8 *payload;            // malloc'd, the request's; NULL when empty
    u32 payload_len;
    session_filter sessions_filter;
    char contains[LIMIT_HTTP_URL_BYTES + 1]; // OPS_SUBS, OPS_RETAINED; OPS_CONSUMERS, OPS_FORGET: the stream
    // Answer. found: OPS_CONN and OPS_KICK met the connection.
    u32 cursor;             // next place of the connection table; 0 to start
    bool more;              // the table goes on
    u64 session_cursor;     // OPS_SESSIONS: 0 to start
    session_view *sessions; // malloc'd, the request's: LIMIT_OPS_SESSIONS_PER_MESSAGE
    u32 session_count;
    struct stream_consumer_view *consumers; // OPS_CONSUMERS; malloc'd, the request's: LIMIT_STREAM_CONSUMERS
    u32 consumer_count;
    inspect_rows rows;      // OPS_SUBS, OPS_RETAINED; data malloc'd, the request's
    bool found;
    int result;             // OPS_PUBLISH: as broker_publish; OPS_FORGET: as stream_consumer_forget
    u32 view_count;
    // request.c's own.
    u32 state;              // atomic, see request.c
    bool in_done;
    ops_request *next, **prev;
    conn_view views[];      // LIMIT_OPS_CONNS_PER_MESSAGE for OPS_CONNS, 1 for OPS_CONN
};

// Returns NULL when out of memory (then topic and payload stay the caller's). waiter: the exchange that asks.
ops_request *ops_request_new(ops_kind kind, http_exchange *waiter, ops_done done);
// Asks worker r->target. Takes r in any case. Returns 0; -EAGAIN when too much is outstanding or the
// way to that worker is congested (done is not called). When the target is the operations worker itself,
// done runs before this returns, and the asker's state may be gone.
int ops_request_send(worker *ops, ops_request *r);
// The asker goes. Only while r is outstanding.
void ops_request_abandon(ops_request *r);
// Frees a request that was never sent.
void ops_request_free(ops_request *r);

// For worker.c: WM_REQUEST on the worker that is asked.
void ops_request_run(worker *w, ops_request *r);
// For worker.c: WM_REPLY on the operations worker.
void ops_reply_arrived(worker *ops, ops_request *r);

// Requests outstanding now (operations worker).
u32 ops_requests_outstanding(void);

#endif
