// SPDX-License-Identifier: Apache-2.0
// http.c: a connection of the admin protocol: bytes -> http_parse.c -> routes.c -> answer, one exchange at
// a time. Sits behind net/conn.c as a stream protocol and drives paged answers by the room that the
// connection's output has, so that a client that reads slowly costs one page and not the whole answer.
//
// Invariants: code that can end the connection runs last, in leave(), when nothing above it on the stack
// uses the exchange any more; deeper code only notes x->fatal. The phase table is in http.h.
#include "ops/http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ops/peer.h"
#include "ops/routes.h"

#define LINGER_MS 500u // time for a client to read why its request was refused while it still sends

static u64 deadline_in_ms(const http_exchange *x, u32 ms) {
    return x->worker->now_ns + ms * NS_PER_MS;
}

static void state_drop(http_exchange *x) {
    if (x->state_free != NULL) x->state_free(x->state);
    x->state = NULL;
    x->state_free = NULL;
}

void http_set_state(http_exchange *x, void *state, void (*state_free)(void *state)) {
    state_drop(x);
    x->state = state;
    x->state_free = state_free;
}

void http_wait(http_exchange *x, u32 ms, void (*on_timeout)(http_exchange *x)) {
    ASSERT(x->phase == HTTP_WAITING);
    x->on_timeout = on_timeout;
    x->deadline_ns = deadline_in_ms(x, ms);
}

void http_exchange_end(http_exchange *x) {
    state_drop(x);
    http_answer_forget_follower(x);
    text_free(&x->page);
    x->source = NULL;
    x->on_timeout = NULL;
    x->continued = false;
    if (x->keep_alive && !x->overrun) {
        http_parser_next(&x->parser);
        x->phase = HTTP_READING;
        x->deadline_ns = deadline_in_ms(x, LIMIT_HTTP_IDLE_MS);
    } else {
        x->phase = HTTP_CLOSING;
        x->deadline_ns = 0;
    }
}

// Answers what could not become a request, and stays a little so that the client can read it: closing
// with bytes unread makes the kernel send a reset, which may destroy the answer on its way.
static void refuse(http_exchange *x, int status, const char *why) {
    x->phase = HTTP_WAITING;
    x->keep_alive = false;
    x->head_only = false;
    http_answer_error(x, status, "%s", why);
    x->phase = HTTP_LINGERING;
    x->deadline_ns = deadline_in_ms(x, LINGER_MS);
}

static void begin(http_exchange *x) {
    const http_request *r = http_req(x);
    x->phase = HTTP_WAITING;
    x->deadline_ns = 0;
    x->keep_alive = r->keep_alive;
    x->head_only = r->method == HTTP_METHOD_HEAD;
    routes_dispatch(x);
    ASSERT(x->phase != HTTP_WAITING || x->deadline_ns != 0);
}

// RFC 9110 section 10.1.1: the client waits for leave to send its body.
static void send_continue(http_exchange *x) {
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const http_request *r = http_req(x);
    if (!x->parser.headers_done || !r->expect_continue || x->continued || r->minor == 0) return;
    x->continued = true;
    if (r->body_len > 0) return; // it did not wait
    int reason = conn_send(x->c, line, sizeof(line) - 1);
    if (reason > 0) x->fatal = (u8)reason;
}

// Keeps bytes of later requests. Too many of them: this answer is the last on the connection.
static void keep(http_exchange *x, const u8 *data, u32 len) {
    if (x->overrun) return;
    u8 *grown = NULL;
    if (len <= LIMIT_HTTP_PIPELINE_BYTES - x->pending_len) grown = realloc(x->pending, x->pending_len + len);
    if (grown == NULL) {
        x->overrun = true;
        return;
    }
    memcpy(grown + x->pending_len, data, len);
    x->pending = grown;
    x->pending_len += len;
}

// A slow link is no attack: what has come of a body gives time for more of it, at LIMIT_HTTP_BODY_RATE at least.
static u64 request_deadline(const http_exchange *x) {
    return x->begun_ns + (LIMIT_HTTP_REQUEST_MS + (u64)http_req(x)->body_len * 1000 / LIMIT_HTTP_BODY_RATE) * NS_PER_MS;
}

static void feed(http_exchange *x, const u8 *data, u32 len) {
    while (len > 0 && x->phase == HTTP_READING && x->fatal == 0) {
        bool started = x->parser.started;
        u32 used;
        switch (http_parser_feed(&x->parser, data, len, &used)) {
        case HTTP_NEED_MORE:
            if (!started) x->begun_ns = x->worker->now_ns;
            if (x->parser.started) x->deadline_ns = request_deadline(x);
            send_continue(x);
            break;
        case HTTP_REFUSED:
            refuse(x, x->parser.status, x->parser.why);
            break;
        case HTTP_READY:
            begin(x);
            break;
        }
        data += used;
        len -= used;
    }
    if (len > 0 && (x->phase == HTTP_WAITING || x->phase == HTTP_SENDING)) keep(x, data, len);
}

// Makes pages while there is room for them.
static void pump(http_exchange *x) {
    while (x->phase == HTTP_SENDING && x->fatal == 0) {
        // conn.c calls writable when output has drained; the timer is for output that drained at once,
        // before it counted as high.
        x->deadline_ns = deadline_in_ms(x, LIMIT_OPS_POLL_MS);
        if (x->c->out_bytes > LIMIT_HTTP_OUT_HIGH_BYTES) return;
        x->page.max = 2 * LIMIT_HTTP_PAGE_BYTES;
        text_reset(&x->page);
        http_page result = x->source(x, &x->page);
        if (x->page.failed) {
            x->fatal = CLOSE_NO_MEMORY;
            return;
        }
        http_answer_page(x);
        if (result == HTTP_PAGE_WAIT) return;
        if (result == HTTP_PAGE_END) http_answer_pages_end(x);
    }
}

// Goes on as far as possible, then sets the timer. Returns the reason to close with, 0 to go on. When
// it asked for the close itself, x may be gone.
static int leave(http_exchange *x) {
    ASSERT(x->depth > 0);
    if (x->depth > 1) {
        x->depth--;
        return 0;
    }
    pump(x);
    while (x->fatal == 0 && x->phase == HTTP_READING && x->pending_len > 0) {
        u8 *data = x->pending;
        u32 len = x->pending_len;
        x->pending = NULL;
        x->pending_len = 0;
        feed(x, data, len);
        free(data);
        pump(x);
    }
    x->depth = 0;
    if (x->fatal != 0) return x->fatal;
    timer_wheel *wheel = x->worker->wheel;
    if (x->deadline_ns != 0) timer_arm(wheel, &x->timer, x->deadline_ns);
    else timer_cancel(wheel, &x->timer);
    if (x->phase == HTTP_CLOSING && !x->close_asked) {
        x->close_asked = true;
        conn_close_after_flush(x->c, CLOSE_HTTP_DONE);
    }
    return 0;
}

void http_enter(http_exchange *x) {
    x->depth++;
}

void http_leave(http_exchange *x) {
    conn *c = x->c;
    int reason = leave(x);
    if (reason > 0) conn_close(c, (close_reason)reason);
}

static void on_timer(timer_node *node, void *context) {
    (void)context;
    http_exchange *x = CONTAINER_OF(node, http_exchange, timer);
    http_enter(x);
    x->deadline_ns = 0;
    switch ((http_phase)x->phase) {
    case HTTP_READING:
        if (x->parser.started) refuse(x, 408, "the request was not complete in time");
        else x->fatal = CLOSE_IDLE;
        break;
    case HTTP_WAITING:
        ASSERT(x->on_timeout != NULL);
        x->on_timeout(x);
        break;
    case HTTP_LINGERING:
        x->phase = HTTP_CLOSING;
        break;
    case HTTP_SENDING: // leave() makes the next page
    case HTTP_CLOSING:
        break;
    }
    http_leave(x);
}

// --- proto ---

// Who connects to a unix socket is told by the kernel. One that may not is answered, so that it learns why.
static void peer_check(http_exchange *x) {
    peer who;
    if (x->c->peer_family != AF_UNIX) return;
    int result = peer_of(x->c, &who);
    x->peer_uid = result == 0 ? who.uid : UINT32_MAX;
    x->peer_refused = result != 0 || !peer_is_allowed(x->worker->conf->ctl_allow, geteuid(), &who);
}

static int http_open(conn *c, bool moved) {
    ASSERT(!moved);
    http_exchange *x = calloc(1, sizeof(*x));
    if (x == NULL) return CLOSE_NO_MEMORY;
    x->c = c;
    x->worker = c->owner;
    x->timer.callback = on_timer;
    x->page = text_make(2 * LIMIT_HTTP_PAGE_BYTES);
    http_parser_init(&x->parser);
    c->proto_state = x;
    peer_check(x);
    x->phase = HTTP_READING;
    x->deadline_ns = deadline_in_ms(x, LIMIT_HTTP_IDLE_MS);
    timer_arm(x->worker->wheel, &x->timer, x->deadline_ns);
    return 0;
}

static int http_stream(conn *c, u8 *data, u32 len) {
    http_exchange *x = c->proto_state;
    http_enter(x);
    if (x->phase == HTTP_READING) feed(x, data, len);
    else if (x->phase == HTTP_WAITING || x->phase == HTTP_SENDING) keep(x, data, len);
    return leave(x);
}

static void http_writable(conn *c) {
    http_exchange *x = c->proto_state;
    http_enter(x);
    http_leave(x);
}

static void http_closed(conn *c) {
    http_exchange *x = c->proto_state;
    if (x == NULL) return;
    ASSERT(x->depth == 0);
    c->proto_state = NULL;
    timer_cancel(x->worker->wheel, &x->timer);
    state_drop(x);
    http_answer_forget_follower(x);
    http_parser_free(&x->parser);
    text_free(&x->page);
    free(x->pending);
    free(x);
}

const proto proto_http = {
    .name = "http",
    .open = http_open,
    .stream = http_stream,
    .writable = http_writable,
    .closed = http_closed,
};

void http_listener_config(listener_config *out, const char *name, const bind_address *bind) {
    memset(out, 0, sizeof(*out));
    size_t len = strnlen(name, sizeof(out->name) - 1);
    memcpy(out->name, name, len);
    out->protocol = PROTOCOL_HTTP;
    out->bind = *bind;
    out->send_timeout_ms = LIMIT_HTTP_SEND_MS;
    out->keepalive_s = 60;
    out->user_timeout_ms = 60000;
    out->backlog = LIMIT_HTTP_CONNS;
    out->max_conns = LIMIT_HTTP_CONNS;
    out->out_bytes_max = LIMIT_HTTP_OUT_BYTES;
    out->out_bytes_high = LIMIT_HTTP_OUT_HIGH_BYTES;
}
