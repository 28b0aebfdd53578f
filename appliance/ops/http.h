// SPDX-License-Identifier: Apache-2.0
// http.h: the admin protocol, one for the TCP port and for the unix socket of `sluice ctl`.
//
// A connection carries one exchange at a time: request in, answer out. A route's handler gets the
// exchange and either answers at once, or gives a source that makes the answer page by page as the
// client takes it, or waits for other workers and answers when they have replied. Requests that arrive
// meanwhile wait their turn in a bounded buffer.
//
// Everything here runs on the operations worker. A handler may keep an exchange pointer only inside the
// state it attached with http_set_state; state_free tells it that the exchange is over.
#ifndef SLUICE_OPS_HTTP_H
#define SLUICE_OPS_HTTP_H

#include "base/timer.h"
#include "conf/config.h"
#include "net/conn.h"
#include "ops/http_parse.h"
#include "ops/text.h"
#include "worker.h"

extern const proto proto_http;

// The configuration of an admin listener: name "admin" for the TCP port, "ctl" for the unix socket. The
// timeouts of packets are off: the protocol has its own. send_timeout cuts off a client that does
// not read.
void http_listener_config(listener_config *out, const char *name, const bind_address *bind);

typedef enum http_page {
    HTTP_PAGE_MORE, // page made; call again when there is room
    HTTP_PAGE_WAIT, // nothing (more) now: call again after LIMIT_OPS_POLL_MS or http_leave
    HTTP_PAGE_END,  // the answer is complete
} http_page;

typedef struct http_exchange http_exchange;

// Makes the next page: stops adding to out when it holds LIMIT_HTTP_PAGE_BYTES (out's own bound is twice
// that; when it overflows, or memory is short, the connection ends so that the client notices).
typedef http_page (*http_source)(http_exchange *x, text *out);

struct http_exchange {
    worker *worker;         // the operations worker
    conn *c;
    http_parser parser;
    void *state;            // the handler's
    void (*state_free)(void *state);
    void (*on_timeout)(http_exchange *x);

    // The rest is for http.c and http_answer.c.
    http_source source;
    timer_node timer;
    text page;
    u8 *pending;            // bytes of later requests
    u32 pending_len;
    u32 peer_uid;           // of a peer that is refused
    bool peer_refused;
    u8 phase;
    u8 depth;               // entries into http.c on the stack
    u8 fatal;               // close_reason to end with
    bool head_only, chunked, keep_alive, continued, follows, overrun, close_asked;
    u64 deadline_ns;        // of the phase; 0 = none
    u64 begun_ns;           // the request's first byte
};

static inline const http_request *http_req(const http_exchange *x) {
    return &x->parser.request;
}

// --- answers; exactly one of them for each exchange ---

// A complete answer. body may be NULL when len is 0. content_type is a static string.
void http_answer(http_exchange *x, int status, const char *content_type, const void *body, size_t len);
// {"error": "..."} with the given status.
void http_answer_error(http_exchange *x, int status, const char *format, ...) PRINTF_LIKE(3, 4);
// 405 with the Allow field; allowed: http_method bits.
void http_answer_not_allowed(http_exchange *x, u32 allowed);
// An answer made by source. follows: it has no end of its own; at most LIMIT_HTTP_FOLLOWERS of these
// are served at once, the next is refused with 503 (answered here).
void http_answer_pages(http_exchange *x, const char *content_type, http_source source, bool follows);
// Waits: an answer follows later, from ops_request replies or on_timeout (after ms).
void http_wait(http_exchange *x, u32 ms, void (*on_timeout)(http_exchange *x));
// Attaches the handler's state, freed when the exchange ends for any reason.
void http_set_state(http_exchange *x, void *state, void (*state_free)(void *state));

// For code that comes from outside the protocol (replies, timers): around everything it does with x.
// After http_leave x may be gone.
void http_enter(http_exchange *x);
void http_leave(http_exchange *x);

// The phases of a connection; changed in http.c and http_answer.c only.
//             bytes arrive     handler answers    handler gives pages   timer
// READING     parse, -> WAITING                                         408 or idle: close
// WAITING     keep             -> READING|CLOSING -> SENDING            on_timeout
// SENDING     keep                                (end) as answered     next page
// LINGERING   ignore                                                    -> CLOSING
// CLOSING     ignore
typedef enum http_phase {
    HTTP_READING,
    HTTP_WAITING,
    HTTP_SENDING,
    HTTP_LINGERING, // answered a request that was refused while its bytes still arrive
    HTTP_CLOSING,
} http_phase;

// http.c: the answer is complete.
void http_exchange_end(http_exchange *x);
// http_answer.c: sends x->page, and the end of the pages.
void http_answer_page(http_exchange *x);
void http_answer_pages_end(http_exchange *x);
// http_answer.c: gives back the follower's place that x may hold.
void http_answer_forget_follower(http_exchange *x);

#define HTTP_JSON "application/json"
#define HTTP_NDJSON "application/x-ndjson"
#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_METRICS "text/plain; version=0.0.4; charset=utf-8"

#endif
