// SPDX-License-Identifier: Apache-2.0
// conn_view.c: see conn_view.h. Runs on device workers in bounded pages, so it only reads the connection's own
// struct: no allocation, no lock, no system call.
#include "ops/conn_view.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/layer.h"
#include "net/listener.h"
#include "net/tls.h"
#include "ops/conn_id.h"

#define SLOW_AFTER_NS NS_PER_S

static const char *const state_names[CONN_STATES] = {
    [CONN_STATE_CLOSING] = "closing",   [CONN_STATE_FLUSHING] = "flushing",
    [CONN_STATE_MOVING] = "moving",     [CONN_STATE_BLOCKED] = "blocked",
    [CONN_STATE_PAUSED] = "paused",     [CONN_STATE_HALF_CLOSED] = "half_closed",
    [CONN_STATE_HELLO] = "hello",       [CONN_STATE_PARTIAL] = "partial",
    [CONN_STATE_SENDING] = "sending",   [CONN_STATE_OPEN] = "open",
};

static const char *const slow_names[CONN_SLOW_REASONS] = {
    [CONN_SLOW_NO] = "",
    [CONN_SLOW_UNARMED] = "unarmed",
    [CONN_SLOW_STARVED] = "starved",
    [CONN_SLOW_BLOCKED] = "blocked",
    [CONN_SLOW_OUTPUT] = "output",
    [CONN_SLOW_PARTIAL] = "partial",
};

// Index = bit.
static const char *const flag_names[] = {
    "paused_out", "blocked",     "dirty",     "closing",        "close_after_flush", "recv_eof", "moving",
    "single_shot", "in_dispatch", "send_lent", "listed_blocked", "address_counted",   "dead",
    "goodbye",    "proxy_header",
};
_Static_assert(CONN_DEAD == 1u << 12 && CONN_SEND_LENT == 1u << 9 && CONN_CLOSING == 1u << 3 &&
                   CONN_MOVING == 1u << 6 && CONN_PROXY_HEADER == 1u << 14,
               "flag_names follows the bits of conn.flags");

static const char *const armed_names[] = {"accept", "recv", "send", "connect", "starved"};
_Static_assert(IO_ARMED_STARVED == 1u << 4 && IO_ARMED_RECV == 1u << 1,
               "armed_names follows the bits of io_handle.armed");

const char *conn_state_name(u32 state) {
    return state < CONN_STATES ? state_names[state] : "unknown";
}

const char *conn_slow_name(u32 slow) {
    return slow < CONN_SLOW_REASONS ? slow_names[slow] : "unknown";
}

static const char *bit_next(const char *const *names, u32 count, u32 bits, u32 *bit) {
    while (*bit < count) {
        u32 b = (*bit)++;
        if ((bits & (1u << b)) != 0) return names[b];
    }
    return NULL;
}

const char *conn_flag_next(u32 flags, u32 *bit) {
    return bit_next(flag_names, ARRAY_LEN(flag_names), flags, bit);
}

const char *conn_armed_next(u32 armed, u32 *bit) {
    return bit_next(armed_names, ARRAY_LEN(armed_names), armed, bit);
}

// --- id ---

const char *conn_id_print(u64 id, char out[CONN_ID_TEXT]) {
    snprintf(out, CONN_ID_TEXT, "%llx", (unsigned long long)id);
    return out;
}

bool conn_id_parse(const char *text, u64 *id) {
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) text += 2;
    size_t len = strspn(text, "0123456789abcdefABCDEF");
    if (len == 0 || len > 16 || text[len] != '\0') return false;
    *id = strtoull(text, NULL, 16);
    return true;
}

// --- view ---

const char *conn_view_peer(const conn_view *v, char out[CONN_PEER_TEXT]) {
    conn c = {.peer_port = v->peer_port, .peer_family = v->peer_family};
    memcpy(c.peer_addr, v->peer_addr, sizeof(c.peer_addr));
    return conn_peer_text(&c, out);
}

// Its client id, cut to what a view holds (it never is: LIMIT_CLIENT_ID_BYTES bounds ids).
static const char *client_of(const conn *c, u32 *len) {
    *len = 0;
    const char *id = c->proto->client_id != NULL ? c->proto->client_id(c, len) : NULL;
    *len = id == NULL ? 0 : MIN(*len, LIMIT_CLIENT_ID_BYTES);
    return id;
}

static conn_state state_of(const conn *c) {
    if ((c->flags & (CONN_CLOSING | CONN_GOODBYE)) != 0) return CONN_STATE_CLOSING;
    if ((c->flags & CONN_CLOSE_AFTER_FLUSH) != 0) return CONN_STATE_FLUSHING;
    if ((c->flags & CONN_MOVING) != 0) return CONN_STATE_MOVING;
    if ((c->flags & CONN_BLOCKED) != 0) return CONN_STATE_BLOCKED;
    if ((c->flags & CONN_PAUSED_OUT) != 0) return CONN_STATE_PAUSED;
    if ((c->flags & CONN_RECV_EOF) != 0) return CONN_STATE_HALF_CLOSED;
    if ((c->flags & CONN_SINGLE_SHOT) != 0) return CONN_STATE_HELLO;
    if (c->head_len > 0 || c->tail_used > 0) return CONN_STATE_PARTIAL;
    if (c->out_bytes > 0) return CONN_STATE_SENDING;
    return CONN_STATE_OPEN;
}

static conn_slow slow_of(const conn *c, const conn_view *v) {
    const u32 ending = CONN_CLOSING | CONN_MOVING;
    bool held = layers_have(c->layer, LAYER_HOLD); // its handshake waits for its turn
    if (c->io.armed == 0 && !held && (c->flags & (ending | CONN_DIRTY | CONN_IN_DISPATCH | CONN_BLOCKED)) == 0) {
        return CONN_SLOW_UNARMED;
    }
    if ((c->io.armed & IO_ARMED_STARVED) != 0) return CONN_SLOW_STARVED;
    if ((c->flags & CONN_BLOCKED) != 0) return CONN_SLOW_BLOCKED;
    if (v->output_stalled_ns >= SLOW_AFTER_NS) return CONN_SLOW_OUTPUT;
    if (v->partial_ns >= SLOW_AFTER_NS) return CONN_SLOW_PARTIAL;
    return CONN_SLOW_NO;
}

static u64 since(u64 now_ns, u64 then_ns) {
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

static void tls_take(conn_view *out, const conn *c) {
    tls_view tls;
    if (!tls_view_of(c, &tls)) return;
    out->tls_suite = tls.suite;
    out->tls_resumed = tls.resumed;
    out->tls_kernel_send = tls.kernel_send;
    out->tls_kernel_receive = tls.kernel_receive;
    if (tls.identity_len > 0) memcpy(out->tls_identity, tls.identity, tls.identity_len);
}

void conn_view_take(conn_view *out, const conn *c, u64 now_ns) {
    *out = (conn_view){
        .id = c->id,
        .worker = c->owner->index,
        .slot = c->io.slot,
        .generation = c->io.generation,
        .state = (u8)state_of(c),
        .armed = c->io.armed,
        .reason = c->reason,
        .peer_family = c->peer_family,
        .moved_from = c->moved_from,
        .flags = c->flags,
        .protocol = c->proto->name,
        .bytes_in = c->bytes_in,
        .bytes_out = c->bytes_out,
        .packets_in = c->packets_in,
        .packets_out = c->packets_out,
        .opened_ns = c->opened_ns,
        .age_ns = since(now_ns, c->opened_ns),
        .idle_ns = since(now_ns, MAX(c->received_ns, c->opened_ns)),
        .partial_ns = c->packet_started_ns != 0 ? since(now_ns, c->packet_started_ns) : 0,
        .output_stalled_ns = c->out_bytes > 0 ? since(now_ns, MAX(c->sent_ns, c->opened_ns)) : 0,
        .timer_in_ns = timer_is_armed(&c->timer) ? since(c->timer.due_ns, now_ns) : UINT64_MAX,
        .out_bytes = c->out_bytes,
        .lent_bytes = c->lent_len,
        .head_bytes = c->head_len,
        .tail_bytes = c->tail_used,
        .tail_size = c->tail_size,
        .stash_bytes = c->stash_used - c->stash_start,
        .stash_size = c->stash_size,
    };
    out->slow = (u8)slow_of(c, out);
    out->peer_port = c->peer_port;
    memcpy(out->peer_addr, c->peer_addr, sizeof(out->peer_addr));
    memcpy(out->listener, c->origin->shared->name, sizeof(out->listener));
    u32 len;
    const char *id = client_of(c, &len);
    if (len > 0) memcpy(out->client, id, len);
    tls_take(out, c);
}

// --- filter ---

static bool address_parse(const char *text, u8 out[16], u32 *bits) {
    static const u8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (inet_pton(AF_INET, text, out + 12) == 1) {
        memcpy(out, mapped, sizeof(mapped));
        *bits = 32;
        return true;
    }
    *bits = 128;
    return inet_pton(AF_INET6, text, out) == 1;
}

bool peer_filter_parse(const char *text, peer_filter *out) {
    memset(out, 0, sizeof(*out));
    size_t len = strlen(text);
    if (len == 0 || len >= sizeof(out->text)) return false;
    memcpy(out->text, text, len + 1);
    char *slash = strchr(out->text, '/');
    u64 bits = UINT64_MAX;
    u32 whole;
    if (slash != NULL) {
        size_t digits = strspn(slash + 1, "0123456789");
        if (digits == 0 || digits > 3 || slash[1 + digits] != '\0') return false;
        bits = strtoull(slash + 1, NULL, 10);
        *slash = '\0';
    }
    if (address_parse(out->text, out->addr, &whole)) {
        if (bits != UINT64_MAX && bits > whole) return false;
        out->kind = PEER_NETWORK;
        out->bits = 128 - whole + (bits == UINT64_MAX ? whole : (u32)bits);
        return true;
    }
    out->kind = PEER_TEXT;
    return slash == NULL;
}

bool peer_filter_matches(const peer_filter *f, const conn *c) {
    if (f->kind == PEER_ANY) return true;
    if (f->kind == PEER_TEXT) {
        char peer[CONN_PEER_TEXT];
        conn_peer_text(c, peer);
        return strncmp(peer, f->text, strlen(f->text)) == 0;
    }
    if (c->peer_family != AF_INET && c->peer_family != AF_INET6) return false;
    u32 bytes = f->bits / 8, rest = f->bits % 8;
    if (memcmp(f->addr, c->peer_addr, bytes) != 0) return false;
    if (rest == 0) return true;
    u8 mask = (u8)(0xff << (8 - rest));
    return ((f->addr[bytes] ^ c->peer_addr[bytes]) & mask) == 0;
}

void conn_filter_init(conn_filter *f) {
    memset(f, 0, sizeof(*f));
    f->state = CONN_STATES;
}

bool conn_filter_view(const conn_filter *f, const conn *c, u64 now_ns, conn_view *out) {
    if (f->listener[0] != '\0' && strcmp(f->listener, c->origin->shared->name) != 0) return false;
    if (f->state != CONN_STATES && f->state != (u32)state_of(c)) return false;
    if (!peer_filter_matches(&f->peer, c)) return false;
    if (f->client[0] != '\0') {
        u32 len;
        const char *id = client_of(c, &len);
        size_t wanted = strlen(f->client);
        if (len < wanted || memcmp(id, f->client, wanted) != 0) return false;
    }
    conn_view_take(out, c, now_ns);
    if (f->slow == CONN_SLOW_NO) return true;
    return f->slow == CONN_SLOW_REASONS ? out->slow != CONN_SLOW_NO : out->slow == f->slow;
}
