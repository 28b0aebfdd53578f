// SPDX-License-Identifier: Apache-2.0
// conn.c: a connection's life: opening, timeouts, closing. What happens to its bytes is in inflow.c and
// outflow.c, the hand-over in move.c.
//
// One timer a connection, re-armed lazily: it is set to the earliest deadline that applies and looks at
// the clocks when it fires; traffic never touches it.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "net/address_rate.h"
#include "net/conn_internal.h"
#include "net/listener.h"
#include "net/tls.h"
#include "net/websocket.h"

static void on_timer(timer_node *node, void *context);
static void on_closed(io_handle *h);

const io_callbacks conn_callbacks = {
    .on_recv = inflow_on_recv,
    .on_send = outflow_on_send,
    .on_closed = on_closed,
};

const char *conn_peer_text(const conn *c, char out[CONN_PEER_TEXT]) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (c->peer_family == AF_INET) {
        inet_ntop(AF_INET, c->peer_addr + 12, host, sizeof(host));
        snprintf(out, CONN_PEER_TEXT, "%s:%u", host, c->peer_port);
    } else if (c->peer_family == AF_INET6) {
        inet_ntop(AF_INET6, c->peer_addr, host, sizeof(host));
        snprintf(out, CONN_PEER_TEXT, "[%s]:%u", host, c->peer_port);
    } else {
        snprintf(out, CONN_PEER_TEXT, "%s", c->peer_family == AF_UNIX ? "unix" : "unknown");
    }
    return out;
}

static void peer_set(conn *c, const struct sockaddr_storage *peer) {
    if (peer == NULL) return;
    c->peer_family = (u8)peer->ss_family;
    if (peer->ss_family == AF_INET) {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)peer;
        c->peer_addr[10] = c->peer_addr[11] = 0xff;
        memcpy(c->peer_addr + 12, &in4->sin_addr, 4);
        c->peer_port = ntohs(in4->sin_port);
    } else if (peer->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)peer;
        memcpy(c->peer_addr, &in6->sin6_addr, 16);
        c->peer_port = ntohs(in6->sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) c->peer_family = AF_INET;
    }
}

// --- timeouts ---

static u64 deadline_after(u64 since_ns, u64 timeout_ms) {
    return timeout_ms == 0 ? UINT64_MAX : since_ns + timeout_ms * NS_PER_MS;
}

static u64 earliest_deadline(const conn *c, close_reason *reason) {
    const listener_config *conf = &c->origin->conf;
    if (c->flags & CONN_GOODBYE) {
        *reason = CLOSE_PEER;
        return c->received_ns + LIMIT_GOODBYE_MS * NS_PER_MS;
    }
    u64 idle_ms = c->proto->idle_timeout_ms != NULL ? c->proto->idle_timeout_ms(c) : conf->idle_timeout_ms;
    // Where the protocol counts packets, half a one is no sign of life.
    bool partial = c->proto->idle_timeout_ms != NULL && c->packet_started_ns != 0;
    u64 due = deadline_after(partial ? MIN(c->packet_started_ns, c->received_ns) : c->received_ns, idle_ms);
    *reason = CLOSE_IDLE;
    if (c->packet_started_ns != 0) {
        u64 at = deadline_after(c->packet_started_ns, conf->packet_timeout_ms);
        if (at < due) {
            due = at;
            *reason = CLOSE_FRAME_TIMEOUT;
        }
    }
    u64 heard_from_ns = c->opened_ns;
    bool unknown = c->proto->owner_by_id && c->proto_state == NULL;
    if (UNLIKELY(c->layer != NULL)) {
        close_reason why = CLOSE_NONE;
        u64 at = layers_deadline(c, &why);
        unknown = unknown && layers_ready(c); // before that the layer's own deadline counts
        heard_from_ns = MAX(heard_from_ns, layers_ready_ns(c));
        if (at < due) {
            due = at;
            *reason = why;
        }
    }
    if (unknown || (c->flags & CONN_PROXY_HEADER)) {
        u64 at = deadline_after(heard_from_ns, conf->hello_timeout_ms);
        if (at < due) {
            due = at;
            *reason = CLOSE_HELLO_TIMEOUT;
        }
    }
    if (c->flags & CONN_BLOCKED) due = UINT64_MAX; // our congestion, not the peer's silence
    if (c->out_bytes > 0 && (c->flags & (CONN_PAUSED_OUT | CONN_CLOSE_AFTER_FLUSH))) {
        u64 at = deadline_after(c->sent_ns, conf->send_timeout_ms);
        // While its output is stuck a peer can not be blamed for silence: reading is stopped.
        due = at;
        *reason = CLOSE_SLOW_CONSUMER;
    }
    return due;
}

void conn_timer_update(conn *c) {
    close_reason reason;
    u64 due = earliest_deadline(c, &reason);
    if (due == UINT64_MAX) return; // one that is armed already only looks and stops
    if (timer_is_armed(&c->timer) && c->timer.due_ns <= due) return;
    timer_arm(c->owner->wheel, &c->timer, due);
}

static void on_timer(timer_node *node, void *context) {
    (void)context;
    conn *c = CONTAINER_OF(node, conn, timer);
    close_reason reason;
    u64 due = earliest_deadline(c, &reason);
    io_handle *h = &c->io;
    recorder_add(&c->owner->rec, REC_TIMER, h->slot, h->generation, due <= c->owner->now_ns, 0);
    if (due <= c->owner->now_ns) {
        // One that takes no output can not be told anything.
        if (reason == CLOSE_SLOW_CONSUMER || c->proto->farewell == NULL) conn_close(c, reason);
        else conn_end(c, reason);
        return;
    }
    if (due != UINT64_MAX) timer_arm(c->owner->wheel, &c->timer, due);
}

// --- opening ---

conn *conn_make(worker *w, listener *l, int fd) {
    if (w->conn_free_count == 0) return NULL;
    conn *c = slab_alloc(w->conn_slab);
    if (c == NULL) return NULL;
    memset(c, 0, sizeof(*c));
    c->owner = w;
    c->origin = l;
    c->proto = l->proto;
    c->timer.callback = on_timer;
    if (io_attach(w->engine, &c->io, fd, &conn_callbacks) < 0) {
        slab_free(w->conn_slab, c);
        return NULL;
    }
    c->table_slot = w->conn_free[--w->conn_free_count];
    w->conns[c->table_slot] = c;
    w->conns_used++;
    if (c->table_slot >= w->conns_touched) w->conns_touched = c->table_slot + 1;
    c->id = (u64)w->index << 48 | ++w->conn_number;
    c->opened_ns = c->received_ns = c->sent_ns = w->now_ns;
    if (c->proto->owner_by_id && w->gw->worker_count > 1) c->flags |= CONN_SINGLE_SHOT;
    l->conns++;
    counter_add(&w->metrics.conns_open, 1);
    recorder_add(&w->rec, REC_ADOPT, c->io.slot, c->io.generation, fd, (u32)c->id);
    return c;
}

int conn_start(conn *c, bool moved) {
    int reason = c->proto->open != NULL ? c->proto->open(c, moved) : 0;
    if (reason > 0) {
        conn_close(c, (close_reason)reason);
        return reason;
    }
    if (c->flags & CONN_CLOSING) return c->reason;
    conn_timer_update(c);
    return 0;
}

// The limits of an address that a connection comes from. *counted: it holds a place in the address table.
static close_reason address_take(const listener_config *conf, const conn *who, u64 now_ns, bool *counted) {
    if (who->peer_family != AF_INET && who->peer_family != AF_INET6) return CLOSE_NONE;
    u32 rate = conf->connect_rate_per_address;
    if (rate > 0 && !address_rate_connect(who->peer_addr, rate, now_ns)) return CLOSE_CONNECT_RATE;
    if (conf->max_conns_per_address == 0) return CLOSE_NONE;
    int result = address_limit_take(who->peer_addr, conf->max_conns_per_address);
    *counted = result == 0;
    return result == ADDRESS_REFUSED ? CLOSE_ADDRESS_LIMIT : CLOSE_NONE;
}

// The limits of a new connection; on refusal its reason. *counted: it holds a place in the address table.
static close_reason admission(const listener *l, const struct sockaddr_storage *peer, bool *counted) {
    *counted = false;
    const listener_config *conf = &l->conf;
    u32 open_now = __atomic_load_n(&l->shared->conns, __ATOMIC_RELAXED); // this one included
    if (conf->max_conns > 0 && open_now > conf->max_conns) return CLOSE_CONN_LIMIT;
    const worker *w = l->owner;
    if (!w->is_ops && __atomic_load_n(&w->gw->conns, __ATOMIC_RELAXED) > w->conns_max) return CLOSE_CONN_LIMIT;
    if (w->conn_free_count == 0) return CLOSE_CONN_LIMIT;
    bool counts = (conf->max_conns_per_address | conf->connect_rate_per_address) != 0;
    if ((!counts && !conf->proxy_protocol) || peer == NULL) return CLOSE_NONE;
    conn who = {0};
    peer_set(&who, peer);
    if (conf->proxy_protocol) return proxy_admit(conf, &who); // the client's address is counted when it is known
    return address_take(conf, &who, w->now_ns, counted);
}

int conn_address_take(conn *c) {
    bool counted = false;
    close_reason refusal = address_take(&c->origin->conf, c, c->owner->now_ns, &counted);
    if (counted) c->flags |= CONN_ADDRESS_COUNTED;
    return (int)refusal;
}

void conn_log_open(const conn *c, const char *through) {
    log_level level = c->owner->conf->log.connections ? LOG_INFO : LOG_DEBUG;
    if (!log_enabled(level)) return;
    char text[CONN_PEER_TEXT];
    log_write(level, "conn %llx: %s connected to listener %s%s%s", (unsigned long long)c->id,
              conn_peer_text(c, text), c->origin->conf.name, through != NULL ? " through " : "",
              through != NULL ? through : "");
}

conn *conn_open(worker *w, listener *l, int fd, const struct sockaddr_storage *peer) {
    bool counted;
    close_reason refusal = admission(l, peer, &counted);
    conn *c = refusal == CLOSE_NONE ? conn_make(w, l, fd) : NULL;
    if (c == NULL) {
        if (counted) {
            conn who = {0};
            peer_set(&who, peer);
            address_limit_give(who.peer_addr);
        }
        close(fd);
        listener_refused(l, refusal == CLOSE_NONE ? CLOSE_NO_MEMORY : refusal);
        return NULL;
    }
    peer_set(c, peer);
    if (counted) c->flags |= CONN_ADDRESS_COUNTED;
    counter_add(&w->metrics.conns_opened, 1);
    if (l->conf.proxy_protocol) c->flags |= CONN_PROXY_HEADER;
    else conn_log_open(c, NULL);
    int reason = l->tls != NULL ? tls_start_server(c, l->tls) : 0;
    if (reason == 0 && l->conf.transport == TRANSPORT_WEBSOCKET) reason = websocket_push(c);
    if (reason != 0) conn_close(c, (close_reason)reason);
    else if (conn_start(c, false) == 0) conn_read_on(c);
    return c;
}

conn *conn_open_outgoing(worker *w, listener *l, int fd, const struct sockaddr_storage *peer, void *state) {
    conn *c = conn_make(w, l, fd);
    if (c == NULL) {
        close(fd);
        return NULL;
    }
    // Counted like an accepted one: it takes a slot as well.
    __atomic_fetch_add(&l->shared->conns, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&w->gw->conns, 1, __ATOMIC_RELAXED);
    counter_add(&w->metrics.conns_opened, 1);
    peer_set(c, peer);
    if (conn_start(c, false) != 0) return NULL;
    c->proto_state = state;
    conn_read_on(c);
    return c;
}

void conn_read_on(conn *c) {
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH | CONN_RECV_EOF)) return;
    if (conn_reading_stopped(c) || layers_have(c->layer, LAYER_HOLD)) {
        io_recv_stop(c->owner->engine, &c->io);
        return;
    }
    if (c->flags & CONN_SINGLE_SHOT && c->proto_state != NULL) c->flags &= (u16)~CONN_SINGLE_SHOT;
    if (io_recv_is_armed(&c->io)) return;
    bool alone = (c->flags & CONN_SINGLE_SHOT) || layers_have(c->layer, LAYER_ALONE);
    io_recv_start(c->owner->engine, &c->io, !alone);
}

void conn_reading_resumed(conn *c) {
    c->received_ns = c->owner->now_ns;
    if (c->packet_started_ns != 0) c->packet_started_ns = c->owner->now_ns;
    conn_timer_update(c);
}

void conn_blocked(conn *c) {
    c->flags |= CONN_BLOCKED;
    // One that was unblocked for a try has a deadline that may have passed while it waited. Left in the wheel it would
    // be due at once, in every turn in which another try is made.
    if (!timer_is_armed(&c->timer) || c->timer.due_ns > c->owner->now_ns) return;
    timer_cancel(c->owner->wheel, &c->timer);
    conn_timer_update(c);
}

void conn_unblock(conn *c) {
    if (!(c->flags & CONN_BLOCKED) || (c->flags & CONN_CLOSING)) return;
    c->flags &= (u16)~CONN_BLOCKED;
    conn_reading_resumed(c);
    inflow_resume(c);
}

void conn_answered(conn *c) {
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH)) return;
    if (c->flags & CONN_BLOCKED) conn_unblock(c);
    else if (c->flags & CONN_RECV_EOF) inflow_settle(c);
}

// --- closing ---

static bool closes_with_reset(close_reason reason) {
    // What waits in the kernel's send queue would linger there for a peer that does not take it.
    return reason == CLOSE_SLOW_CONSUMER || reason == CLOSE_NO_MEMORY || reason == CLOSE_TIMED_OUT;
}

static void log_close(const conn *c) {
    bool expected = c->reason == CLOSE_PEER || c->reason == CLOSE_HTTP_DONE ||
                    c->reason == CLOSE_DRAIN || c->reason == CLOSE_PEER_RESET || c->reason == CLOSE_UPLINK;
    log_level level = expected && !c->owner->conf->log.connections ? LOG_DEBUG : LOG_INFO;
    if (!log_enabled(level)) return;
    char text[CONN_PEER_TEXT];
    log_write(level, "conn %llx: %s on listener %s closed: %s, %llu bytes in, %llu out",
              (unsigned long long)c->id, conn_peer_text(c, text), c->origin->conf.name,
              close_reason_name(c->reason), (unsigned long long)c->bytes_in,
              (unsigned long long)c->bytes_out);
}

void conn_close(conn *c, close_reason reason) {
    if (c->flags & CONN_CLOSING) return;
    ASSERT(reason > CLOSE_NONE && reason < CLOSE_REASONS);
    worker *w = c->owner;
    c->flags |= CONN_CLOSING;
    if (c->reason == CLOSE_NONE) c->reason = (u8)reason;
    c->lent_len = c->flags & CONN_SEND_LENT ? c->lent_len : 0;
    timer_cancel(w->wheel, &c->timer);
    counter_add(&w->metrics.closes[c->reason], 1);
    recorder_add(&w->rec, REC_CLOSE, c->io.slot, c->io.generation, c->reason, 0);
    log_close(c);
    if (c->proto->closed != NULL) c->proto->closed(c);
    c->proto_state = NULL;
    outflow_outcome_wanted(c);
    io_close(w->engine, &c->io, closes_with_reset(c->reason));
}

void conn_close_after_flush(conn *c, close_reason reason) {
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH)) return;
    if (c->out_bytes == 0 && (c->layer == NULL || !layers_bye(c, reason))) {
        conn_close(c, reason);
        return;
    }
    c->reason = (u8)reason;
    c->flags |= CONN_CLOSE_AFTER_FLUSH;
    outflow_outcome_wanted(c);
    c->sent_ns = c->owner->now_ns;
    io_recv_stop(c->owner->engine, &c->io);
    conn_timer_update(c);
}

void conn_await_peer(conn *c) {
    ASSERT(c->proto_state == NULL);
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH)) return;
    // Who speaks WebSocket waits for the close frame before it closes.
    if (c->out_bytes > 0 || websocket_is_on(c) || (c->flags & CONN_RECV_EOF)) {
        conn_close_after_flush(c, CLOSE_PEER);
        return;
    }
    c->flags |= CONN_GOODBYE;
    conn_timer_update(c);
}

void conn_end(conn *c, close_reason reason) {
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH)) return;
    if (c->proto->farewell != NULL) c->proto->farewell(c, reason);
    conn_close_after_flush(c, reason);
}

void conn_forget(conn *c) {
    worker *w = c->owner;
    inflow_free(c);
    outflow_free(c);
    layers_free(c);
    w->conns[c->table_slot] = NULL;
    w->conn_free[w->conn_free_count++] = c->table_slot;
    w->conns_used--;
    counter_sub(&w->metrics.conns_open, 1);
    c->flags |= CONN_DEAD;
}

void conn_free_if_unlisted(conn *c) {
    if (!(c->flags & CONN_DEAD)) return;
    if (c->flags & (CONN_DIRTY | CONN_LISTED_BLOCKED)) return;
    slab_free(c->owner->conn_slab, c);
}

static void on_closed(io_handle *h) {
    conn *c = conn_of(h);
    listener *l = c->origin;
    if (c->flags & CONN_ADDRESS_COUNTED) address_limit_give(c->peer_addr);
    conn_forget(c);
    conn_free_if_unlisted(c);
    listener_conn_gone(l, true);
}
