// SPDX-License-Identifier: Apache-2.0
// rate.c: see rate.h.
#include "auth/rate.h"

#include <sys/socket.h>

#include "base/log.h"
#include "net/address_share.h"
#include "net/listener.h"
#include "worker.h"

static grant_rates of_client(const listener_config *conf) {
    return (grant_rates){conf->message_rate, conf->byte_rate};
}

static rate_pair of_address(const listener_config *conf) {
    return (rate_pair){conf->message_rate_per_address, conf->byte_rate_per_address};
}

static rate_pair of_listener(const listener_config *conf) {
    return (rate_pair){conf->message_rate_all, conf->byte_rate_all};
}

static bool is_set(rate_pair limit) {
    return (limit.messages_per_s | limit.bytes_per_s) != 0;
}

bool rate_is_limited(const listener_config *conf) {
    return (conf->message_rate | conf->byte_rate) != 0 || is_set(of_address(conf)) || is_set(of_listener(conf));
}

void rate_attach(conn *c, auth_grant *g) {
    bool has_address = c->peer_family == AF_INET || c->peer_family == AF_INET6;
    if (g->turn_ns != 0) timer_arm(c->owner->wheel, &g->timer, 0); // it waits: asks again
    g->turn_ns = 0;
    if (!has_address || !is_set(of_address(listener_settings(c->origin)))) {
        rate_detach(g);
    } else if (g->address == NULL) {
        const worker *w = c->owner;
        g->address = address_share_take(c->peer_addr, c->origin->shared, w->gw->worker_count, w->now_ns);
        g->address_worker = w->index;
    }
}

void rate_detach(auth_grant *g) {
    if (g->address != NULL) address_share_give(g->address, g->address_worker);
    g->address = NULL;
}

static void log_wait(conn *c, rate_scope scope) {
    listener *l = c->origin;
    worker *w = c->owner;
    if (scope == RATE_OF_CLIENT || w->now_ns - l->rate_logged_ns[scope] < LIMIT_RATE_LOG_S * NS_PER_S) return;
    l->rate_logged_ns[scope] = w->now_ns;
    char peer[CONN_PEER_TEXT];
    log_warn("listener %s: %s: more messages than the %s's rate allows: they wait", l->conf.name,
             conn_peer_text(c, peer), rate_scope_name(scope));
}

// Where each limit stands; 0: all have room.
static u64 due_of(conn *c, auth_grant *g, u32 bytes, rate_scope *scope) {
    worker *w = c->owner;
    const listener_config *conf = listener_settings(c->origin);
    bool in_turn = g->turn_ns != 0;
    u64 due = grant_rate_due(g, of_client(conf), bytes, w->now_ns);
    *scope = RATE_OF_CLIENT;
    if (due != 0) return due; // it does not stand in the others' line meanwhile
    rate_pair address = of_address(conf), all = of_listener(conf);
    if (g->address != NULL && is_set(address)) {
        *scope = RATE_OF_ADDRESS;
        due = shared_rate_due(address_share_rate(g->address), w->index, address, bytes, in_turn, w->now_ns);
        if (due != 0) return due;
    }
    if (!is_set(all)) return 0;
    *scope = RATE_OF_LISTENER;
    return shared_rate_due(c->origin->shared->rate, w->index, all, bytes, in_turn, w->now_ns);
}

int rate_check(conn *c, auth_grant *g, u32 bytes) {
    worker *w = c->owner;
    rate_scope scope = RATE_OF_CLIENT;
    u64 due = g->turn_ns > w->now_ns ? g->turn_ns : due_of(c, g, bytes, &scope);
    if (due == 0) return 0;
    if (due != g->turn_ns) {
        if (g->turn_ns == 0) counter_add(&w->metrics.rate_pauses[scope], 1); // else it waits on
        log_wait(c, scope);
        if (scope == RATE_OF_CLIENT && listener_settings(c->origin)->rate_policy == RATE_DISCONNECT) {
            return CLOSE_MESSAGE_RATE;
        }
        g->turn_ns = scope == RATE_OF_CLIENT ? 0 : due;
    }
    u64 expires_ns = g->who.expires_ns;
    timer_arm(w->wheel, &g->timer, expires_ns == 0 ? due : MIN(due, expires_ns));
    return PROTO_WAITING;
}

void rate_charge(conn *c, auth_grant *g, u32 bytes) {
    worker *w = c->owner;
    const listener_config *conf = listener_settings(c->origin);
    g->turn_ns = 0;
    grant_rate_charge(g, of_client(conf), bytes);
    rate_pair address = of_address(conf), all = of_listener(conf);
    if (g->address != NULL && is_set(address)) {
        shared_rate_charge(address_share_rate(g->address), w->index, address, bytes);
    }
    if (is_set(all)) shared_rate_charge(c->origin->shared->rate, w->index, all, bytes);
}
