// SPDX-License-Identifier: Apache-2.0
// tls.c: a TLS connection from its first byte to the open state, and its end. Handshake records are not worked on
// when they arrive but when the worker has time (tls_admission.c); while they wait, nothing more is received.
#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "net/conn_internal.h"
#include "net/listener.h"
#include "net/tls_kernel.h"
#include "net/tls_layer.h"

#define FAILURES_LOGGED_PER_S 20u
#define HELD_BYTES_MIN 512u // a client's first message, as a rule

static u32 kernel_state; // atomic: 0 = not known yet, else enum
enum { KERNEL_UNKNOWN, KERNEL_HAS_TLS, KERNEL_HAS_NONE };

// --- held bytes ---

static u32 held_len(const tls_layer *t) {
    return t->held_used - t->held_start;
}

void tls_layer_held_free(tls_layer *t) {
    if (t->held != NULL) worker_buf_free(t->base.c->owner, t->held, t->held_size);
    t->held = NULL;
    t->held_start = t->held_used = t->held_size = 0;
}

int tls_layer_hold_bytes(tls_layer *t, const u8 *data, u32 len, u32 room) {
    u32 have = held_len(t);
    if (t->held == NULL || t->held_size - t->held_used < len) {
        u32 size;
        u8 *grown = worker_buf_alloc(t->base.c->owner, MAX(have + len, room), &size);
        if (grown == NULL) return CLOSE_NO_MEMORY;
        if (have > 0) memcpy(grown, t->held + t->held_start, have);
        tls_layer_held_free(t);
        t->held = grown;
        t->held_size = size;
        t->held_used = have;
    }
    memcpy(t->held + t->held_used, data, len);
    t->held_used += len;
    counter_add(&t->base.c->owner->metrics.copied_in_bytes, len);
    return 0;
}

bool tls_layer_has_record(const tls_layer *t) {
    u8 type;
    if (held_len(t) < TLS_HEADER_BYTES) return false;
    u32 bytes = tls_record_bytes(t->held + t->held_start, &type);
    return bytes == 0 || bytes <= held_len(t); // what is no record has to be looked at too
}

// --- failure ---

static void failure_log(const tls_layer *t, tls_failure failure, u8 alert) {
    // A flood of failures is counted in full and logged in part.
    static _Thread_local u64 second;
    static _Thread_local u32 logged, unlogged;
    const conn *c = t->base.c;
    u64 now_s = c->owner->now_ns / NS_PER_S;
    if (now_s != second) {
        if (unlogged > 0) log_warn("tls: %u more handshakes failed", unlogged);
        second = now_s;
        logged = unlogged = 0;
    }
    if (logged++ >= FAILURES_LOGGED_PER_S) {
        unlogged++;
        return;
    }
    char text[CONN_PEER_TEXT];
    log_warn("conn %llx: %s on listener %s: TLS handshake failed: %s%s%s", (unsigned long long)c->id,
             conn_peer_text(c, text), c->origin->conf.name, tls_failure_name(failure),
             failure == TLS_FAIL_PEER_ALERT ? ": " : "", failure == TLS_FAIL_PEER_ALERT ? tls_alert_name(alert) : "");
}

static void failure_count(tls_layer *t, tls_failure failure, u8 alert) {
    if (t->counted) return;
    t->counted = true;
    counter_add(&t->base.c->owner->metrics.tls_failures[failure], 1);
    failure_log(t, failure, alert);
}

static void alert_queue(tls_layer *t, tls_failure failure) {
    u8 alert = tls_alert_of(failure), record[TLS_ALERT_BYTES];
    if (t->hs == NULL || alert == 0 || tls_handshake_told(t->hs)) return;
    const struct iovec piece = {record, tls_handshake_alert(t->hs, alert, record)};
    (void)layer_down(&t->base, &piece, 1); // no memory: then it ends without
}

void tls_layer_fail(tls_layer *t, tls_failure failure, u8 peer_alert) {
    conn *c = t->base.c;
    if (t->failed) return;
    t->failed = true;
    t->failure = (u8)failure;
    t->peer_alert = peer_alert;
    failure_count(t, failure, peer_alert);
    alert_queue(t, failure);
    t->phase = TLS_ENDED;
    tls_admission_leave(t);
    tls_layer_held_free(t);
    if (failure == TLS_FAIL_NO_MEMORY) conn_close(c, CLOSE_NO_MEMORY);
    else conn_close_after_flush(c, failure == TLS_FAIL_TIMEOUT ? CLOSE_TLS_TIMEOUT : CLOSE_TLS_HANDSHAKE);
}

// --- handshake ---

static bool sink(void *to, const u8 *data, u32 len) {
    tls_layer *t = to;
    const struct iovec piece = {(void *)(uintptr_t)data, len};
    return layer_down(&t->base, &piece, 1) == 0;
}

bool tls_layer_begin(tls_layer *t) {
    t->phase = TLS_IN_HANDSHAKE;
    bool begun = t->is_client ? tls_handshake_client(t->hs, t->client, t->server_name, NULL)
                              : tls_handshake_server(t->hs, t->context);
    if (begun) return true;
    tls_layer_fail(t, TLS_FAIL_INTERNAL, 0);
    return false;
}

static void handshake_done(tls_layer *t) {
    conn *c = t->base.c;
    tls_handshake_ciphers(t->hs, &t->in, &t->out);
    t->suite = t->hs->ssl.engine.session.cipher_suite;
    t->resumed = !t->is_client && tls_handshake_resumed(t->hs);
    t->identity_len = t->is_client ? 0 : (u8)tls_handshake_identity(t->hs, t->identity);
    counter_add(t->resumed ? &c->owner->metrics.tls_resumed : &c->owner->metrics.tls_full, 1);
    t->phase = TLS_HANDOVER;
    outflow_mark_dirty(c); // drained() follows when the socket has all of the handshake
}

void tls_layer_step(tls_layer *t) {
    u8 type = 0, alert = 0, *record = t->held + t->held_start;
    u32 bytes = held_len(t) > 0 ? tls_record_bytes(record, &type) : 0; // a client speaks first
    if (bytes == 0 && held_len(t) > 0) {
        bool first = t->hs->ssl.engine.record_type_in == 0;
        tls_layer_fail(t, first ? TLS_FAIL_NOT_TLS : TLS_FAIL_TOO_LARGE, 0);
        return;
    }
    tls_step step = tls_handshake_feed(t->hs, record, bytes, sink, t);
    t->held_start += bytes;
    if (step == TLS_STEP_NO_MEMORY) {
        tls_layer_fail(t, TLS_FAIL_NO_MEMORY, 0);
    } else if (step == TLS_STEP_FAILED) {
        tls_failure failure = tls_handshake_failure(t->hs, &alert);
        tls_layer_fail(t, failure, alert);
    } else if (step == TLS_STEP_DONE) {
        handshake_done(t);
    } else if (tls_layer_has_record(t)) {
        tls_admission_enqueue(t);
    } else {
        if (held_len(t) == 0) tls_layer_held_free(t);
        layer_hold(&t->base, false);
        layer_settle(&t->base);
    }
}

static int handshake_input(tls_layer *t, const u8 *data, u32 len) {
    if (held_len(t) + (u64)len > LIMIT_TLS_FLIGHT_BYTES) {
        tls_layer_fail(t, TLS_FAIL_TOO_LARGE, 0);
        return 0;
    }
    int reason = tls_layer_hold_bytes(t, data, len, HELD_BYTES_MIN);
    if (reason != 0) return reason;
    if (t->phase == TLS_HANDOVER || !tls_layer_has_record(t)) return 0;
    layer_hold(&t->base, true);
    tls_admission_enqueue(t);
    return 0;
}

// --- to the kernel ---

// Whole records among the held bytes; false: a part of another one lies behind them.
static bool held_whole(const tls_layer *t, u64 *records) {
    u32 at = t->held_start;
    for (*records = 0; at + TLS_HEADER_BYTES <= t->held_used; (*records)++) {
        u8 type;
        u32 bytes = tls_record_bytes(t->held + at, &type);
        if (bytes == 0 || bytes > t->held_used - at) return false;
        at += bytes;
    }
    return at == t->held_used;
}

static bool kernel_attached(const conn *c) {
    if (io_engine_kind(c->owner->engine) == IO_SIM || c->peer_family == AF_UNIX) return false;
    if (__atomic_load_n(&kernel_state, __ATOMIC_RELAXED) == KERNEL_HAS_NONE) return false;
    int result = tls_kernel_attach(c->io.fd);
    u32 state = result == 0 ? KERNEL_HAS_TLS : KERNEL_HAS_NONE;
    bool news = result == 0 || result == -ENOENT || result == -ENOPROTOOPT;
    if (news && __atomic_exchange_n(&kernel_state, state, __ATOMIC_RELAXED) == KERNEL_UNKNOWN) {
        tls_profile_kernel_crypto(result == 0);
        log_info("tls: kernel TLS is %s%s%s", result == 0 ? "there" : "not there: ",
                 result == 0 ? "" : errno_name(result), result == 0 ? "" : "; records are done in user space");
    }
    return result == 0;
}

static void kernel_take_over(tls_layer *t) {
    conn *c = t->base.c;
    worker_metrics *m = &c->owner->metrics;
    const br_ssl_engine_context *engine = &t->hs->ssl.engine;
    tls_kernel_keys send, receive;
    u64 records;
    if (!kernel_attached(c)) return;
    if (!tls_kernel_keys_derive(&engine->session, engine->client_random, engine->server_random, t->is_client, &send,
                                &receive)) {
        return;
    }
    tls_kernel_keys_sequence(&send, tls_cipher_sequence(&t->out));
    int result = tls_kernel_set_keys(c->io.fd, true, &send);
    if (result == 0) {
        io_send_simply(c->owner->engine, &c->io);
        t->base.flags |= LAYER_PASS_OUT;
        counter_add(&m->tls_kernel_send, 1);
        bool whole = held_whole(t, &records);
        tls_kernel_keys_sequence(&receive, tls_cipher_sequence(&t->in) + records);
        if (whole) result = tls_kernel_set_keys(c->io.fd, false, &receive);
        if (whole && result == 0) {
            t->base.flags |= LAYER_PASS_IN;
            counter_add(&m->tls_kernel_receive, 1);
        }
    }
    if (result != 0) {
        counter_add(&m->tls_kernel_refused, 1);
        log_debug("conn %llx: kernel TLS refused the keys: %s", (unsigned long long)c->id, errno_name(result));
    }
    explicit_bzero(&send, sizeof(send));
    explicit_bzero(&receive, sizeof(receive));
}

static void log_open(const tls_layer *t) {
    const conn *c = t->base.c;
    log_level level = c->owner->conf->log.connections ? LOG_INFO : LOG_DEBUG;
    if (!log_enabled(level)) return;
    log_write(level, "conn %llx: TLS 1.2 %s%s%s%.*s%s", (unsigned long long)c->id, tls_suite_name(t->suite),
              t->resumed ? ", resumed" : "", t->identity_len > 0 ? ", certificate of " : "", (int)t->identity_len,
              t->identity, t->base.flags & LAYER_PASS_OUT ? ", records by the kernel" : "");
}

// The handshake is done and its last bytes have left.
static bool drained(layer *l) {
    tls_layer *t = tls_of(l);
    if (t->phase != TLS_HANDOVER) return false;
    u8 fragment = t->is_client ? 0 : t->hs->ssl.engine.peer_log_max_frag_len;
    t->out_max = fragment != 0 && fragment < 14 ? (u16)(1u << fragment) : TLS_PLAIN_BYTES_MAX;
    // The kernel makes records of any size up to the largest.
    if (t->out_max == TLS_PLAIN_BYTES_MAX) kernel_take_over(t);
    t->phase = TLS_OPEN;
    tls_admission_leave(t);
    tls_context_drop(t->context);
    t->context = NULL;
    log_open(t);
    l->flags &= (u8)~LAYER_ALONE;
    layer_hold(l, false);
    layer_set_ready(l);
    // What the peer sent right behind its handshake.
    u8 *held = t->held;
    u32 start = t->held_start, used = t->held_used, size = t->held_size;
    t->held = NULL;
    t->held_start = t->held_used = t->held_size = 0;
    int reason = used > start ? tls_open_input(t, held + start, used - start) : 0;
    if (held != NULL) worker_buf_free(l->c->owner, held, size);
    if (l->flags & LAYER_PASS_IN) explicit_bzero(&t->in, sizeof(t->in));
    if (l->flags & LAYER_PASS_OUT) explicit_bzero(&t->out, sizeof(t->out));
    if (reason != 0) inflow_end_for(l->c, reason);
    return true;
}

// --- the layer ---

static int input(layer *l, u8 *data, u32 len) {
    tls_layer *t = tls_of(l);
    if (t->phase == TLS_OPEN) return tls_open_input(t, data, len);
    if (t->phase == TLS_PLAIN) {
        layer_up(l, data, len);
        return 0;
    }
    return t->phase == TLS_ENDED ? 0 : handshake_input(t, data, len);
}

static void closing(layer *l, close_reason reason) {
    (void)reason;
    if (tls_of(l)->phase == TLS_OPEN) tls_open_closing(l);
}

static u32 held(const layer *l, const u8 **data) {
    const tls_layer *t = (const tls_layer *)(const void *)l; // base is its first member
    *data = t->held + t->held_start;
    return held_len(t);
}

static void moved(layer *l) {
    tls_layer *t = tls_of(l);
    ASSERT(t->phase == TLS_OPEN || t->phase == TLS_ENDED);
    t->held = NULL; // given to input() again
    t->held_start = t->held_used = t->held_size = 0;
    if (l->flags & LAYER_PASS_OUT) io_send_simply(l->c->owner->engine, &l->c->io);
}

static void free_layer(layer *l) {
    tls_layer *t = tls_of(l);
    bool before_open = t->phase == TLS_WAITING || t->phase == TLS_IN_HANDSHAKE;
    u8 reason = l->c->reason;
    if (before_open && reason == CLOSE_TLS_TIMEOUT) failure_count(t, TLS_FAIL_TIMEOUT, 0);
    if (before_open && (reason == CLOSE_PEER || reason == CLOSE_PEER_RESET)) {
        // A connection that came and went without a word is no handshake: load balancers look that way.
        if (l->c->bytes_in > 0) failure_count(t, TLS_FAIL_PEER_CLOSED, 0);
    }
    tls_admission_leave(t);
    tls_layer_held_free(t);
    tls_context_drop(t->context);
    t->context = NULL;
}

const layer_ops tls_layer_ops = {
    .name = "tls",
    .input = input,
    .output = tls_open_output,
    .error = tls_open_error,
    .drained = drained,
    .closing = closing,
    .held = held,
    .moved = moved,
    .free = free_layer,
};

// --- beginning ---

int tls_start_server(conn *c, tls_context *context) {
    layer *l = layer_push(c, &tls_layer_ops, sizeof(tls_layer));
    if (l == NULL) return CLOSE_NO_MEMORY;
    tls_layer *t = tls_of(l);
    t->phase = TLS_WAITING;
    t->context = tls_context_hold(context);
    l->flags |= LAYER_ALONE;
    l->deadline_ns = c->owner->now_ns + context->handshake_timeout_ms * NS_PER_MS;
    l->deadline_reason = CLOSE_TLS_TIMEOUT;
    return 0;
}

int tls_start_client_later(conn *c, const tls_client *client, const char *name) {
    layer *l = layer_push(c, &tls_layer_ops, sizeof(tls_layer));
    if (l == NULL) return CLOSE_NO_MEMORY;
    tls_layer *t = tls_of(l);
    t->phase = TLS_PLAIN;
    t->is_client = true;
    t->client = client;
    t->server_name = name;
    l->flags |= LAYER_ALONE;
    return 0;
}

void tls_begin_client(conn *c) {
    layer *l = layer_find(c, &tls_layer_ops);
    tls_layer *t = tls_of(l);
    ASSERT(t->is_client && t->phase == TLS_PLAIN);
    t->phase = TLS_WAITING;
    l->flags |= LAYER_HOLD;
    l->deadline_ns = c->owner->now_ns + LIMIT_TLS_CLIENT_MS * NS_PER_MS;
    l->deadline_reason = CLOSE_TLS_TIMEOUT;
    tls_admission_enqueue(t);
    conn_timer_update(c);
}

int tls_start_client(conn *c, const tls_client *client, const char *name) {
    int reason = tls_start_client_later(c, client, name);
    if (reason == 0) tls_begin_client(c);
    return reason;
}

const char *tls_why(const conn *c, char text[TLS_WHY_BYTES]) {
    layer *l = layer_find(c, &tls_layer_ops);
    const tls_layer *t = l == NULL ? NULL : tls_of(l);
    if (t == NULL || !t->failed) return NULL;
    bool alert = t->failure == TLS_FAIL_PEER_ALERT;
    snprintf(text, TLS_WHY_BYTES, "%s%s%s", tls_failure_name((tls_failure)t->failure), alert ? ": " : "",
             alert ? tls_alert_name(t->peer_alert) : "");
    return text;
}

bool tls_view_of(const conn *c, tls_view *out) {
    layer *l = layer_find(c, &tls_layer_ops);
    *out = (tls_view){.suite = ""};
    if (l == NULL || tls_of(l)->suite == 0) return false;
    const tls_layer *t = tls_of(l);
    *out = (tls_view){
        .suite = tls_suite_name(t->suite),
        .identity = t->identity,
        .identity_len = t->identity_len,
        .resumed = t->resumed,
        .kernel_send = (l->flags & LAYER_PASS_OUT) != 0,
        .kernel_receive = (l->flags & LAYER_PASS_IN) != 0,
    };
    return true;
}

const char *tls_peer_identity(const conn *c, u32 *len) {
    tls_view view;
    *len = 0;
    if (!tls_view_of(c, &view) || view.identity_len == 0) return NULL;
    *len = view.identity_len;
    return view.identity;
}
