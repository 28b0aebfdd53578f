// SPDX-License-Identifier: Apache-2.0
// listener.c: accepting on one worker: limits, throttling, and what happens when descriptors or memory
// run out: no spin, a pause of LIMIT_ACCEPT_BACKOFF_MS, and the reserve descriptor to tell waiting peers
// at once instead of leaving them in the backlog.
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/policy.h"
#include "base/log.h"
#include "net/conn_internal.h"
#include "net/shared_rate.h"
#include "net/tls_context.h"
#include "ops/http.h"
#include "proto/frame.h"
#include "proto/mqtt_conn.h"

static const proto *proto_of(const listener_config *conf) {
    if (conf->protocol == PROTOCOL_HTTP) return &proto_http;
    if (conf->protocol == PROTOCOL_MQTT) return &proto_mqtt;
    switch (conf->mode) {
    case FRAME_ECHO:
        return &proto_frame_echo;
    case FRAME_ACK:
        return &proto_frame_ack;
    case FRAME_PUBLISH:
        break;
    }
    return &proto_frame_publish;
}

void listener_refused(listener *l, close_reason reason) {
    worker *w = l->owner;
    counter_add(&w->metrics.refused, 1);
    counter_add(&w->metrics.closes[reason], 1);
    l->refused_unlogged++;
    if (w->now_ns - l->refused_logged_ns < NS_PER_S) return;
    l->refused_logged_ns = w->now_ns;
    log_warn("listener %s: refused %llu connection(s), last reason: %s", l->conf.name,
             (unsigned long long)l->refused_unlogged, close_reason_name(reason));
    l->refused_unlogged = 0;
}

// --- pauses ---

static void accept_pause(listener *l, u64 until_ns) {
    io_accept_stop(l->owner->engine, &l->io);
    l->paused = true;
    timer_arm(l->owner->wheel, &l->timer, until_ns);
}

// Under accept_rate one by one: a burst beyond the rate stays in the backlog, whatever the engine.
static void accept_on(listener *l) {
    if (l->conf.accept_rate == 0) io_accept_start(l->owner->engine, &l->io);
    else io_accept_start_single(l->owner->engine, &l->io);
}

// accept_rate holds for all workers together. A throttled listener leaves peers in the backlog. A worker that was told
// to accept takes one even if another has just used up what there was; that is paid for afterwards.
static bool throttle(listener *l) {
    rate_pair limit = {.messages_per_s = l->conf.accept_rate};
    if (limit.messages_per_s == 0 || l->paused) return false;
    u64 due = shared_rate_due(l->shared->accepts, l->owner->index, limit, 0, true, l->owner->now_ns);
    if (due == 0) return false;
    counter_add(&l->owner->metrics.accept_pauses, 1);
    accept_pause(l, due);
    return true;
}

static void on_pause_end(timer_node *node, void *context) {
    (void)context;
    listener *l = CONTAINER_OF(node, listener, timer);
    l->paused = false;
    if (!l->removed && !throttle(l)) accept_on(l);
}

// --- out of descriptors or memory ---

static int reserve_open(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void shed(listener *l, int fd) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)); // a reset tells more than an end
    close(fd);
    listener_refused(l, CLOSE_NO_DESCRIPTORS);
}

// Closes the reserve, accepts one waiting peer and closes it at once, until none waits or the turns are
// used up. Real sockets only: the simulator has no descriptors to run out of. Another thread may take
// the place before the reserve is opened again: on_accept() wins it back.
static void shed_waiting(listener *l) {
    worker *w = l->owner;
    if (w->reserve_fd >= 0) close(w->reserve_fd);
    for (u32 turn = 0; turn < LIMIT_ACCEPT_TURNS; turn++) {
        int flags = fcntl(l->io.fd, F_GETFL);
        if (flags < 0) break;
        if (!(flags & O_NONBLOCK)) fcntl(l->io.fd, F_SETFL, flags | O_NONBLOCK);
        int fd = accept4(l->io.fd, NULL, NULL, SOCK_CLOEXEC);
        if (!(flags & O_NONBLOCK)) fcntl(l->io.fd, F_SETFL, flags);
        if (fd < 0) break;
        shed(l, fd);
    }
    w->reserve_fd = reserve_open();
}

static void accept_failed(listener *l, int error) {
    worker *w = l->owner;
    counter_add(&w->metrics.accept_errors, 1);
    bool descriptors = error == -EMFILE || error == -ENFILE;
    if (descriptors && io_engine_kind(w->engine) != IO_SIM) shed_waiting(l);
    if (w->now_ns - l->refused_logged_ns >= NS_PER_S) {
        l->refused_logged_ns = w->now_ns;
        log_warn("listener %s: accept: %s%s", l->conf.name, errno_name(error),
                 descriptors ? ": descriptors are used up (RLIMIT_NOFILE); waiting peers are reset" : "");
    }
    accept_pause(l, w->now_ns + LIMIT_ACCEPT_BACKOFF_MS * NS_PER_MS);
}

// --- accepting ---

void listener_uncount(worker *w, listener_shared *shared) {
    __atomic_fetch_sub(&shared->conns, 1, __ATOMIC_RELAXED);
    if (!w->is_ops) __atomic_fetch_sub(&w->gw->conns, 1, __ATOMIC_RELAXED);
}

static void on_accept(io_handle *h, int result, const struct sockaddr_storage *peer) {
    listener *l = CONTAINER_OF(h, listener, io);
    worker *w = l->owner;
    if (result < 0) {
        if (!l->removed) accept_failed(l, result);
        return;
    }
    if (UNLIKELY(w->reserve_fd < 0) && (w->reserve_fd = reserve_open()) < 0) {
        shed(l, result); // the last descriptor of all is worth more as the reserve
        w->reserve_fd = reserve_open();
        return;
    }
    __atomic_fetch_add(&l->shared->conns, 1, __ATOMIC_RELAXED);
    if (!w->is_ops) __atomic_fetch_add(&w->gw->conns, 1, __ATOMIC_RELAXED);
    conn *c = conn_open(w, l, result, peer);
    if (c == NULL) listener_uncount(w, l->shared);
    if (l->conf.accept_rate == 0) return;
    shared_rate_charge(l->shared->accepts, w->index, (rate_pair){.messages_per_s = l->conf.accept_rate}, 0);
    throttle(l);
}

static void on_listener_closed(io_handle *h) {
    listener *l = CONTAINER_OF(h, listener, io);
    l->closed = true;
}

static const io_callbacks listener_callbacks = {
    .on_accept = on_accept,
    .on_closed = on_listener_closed,
};

// --- life ---

listener_shared *listener_shared_create(u32 workers) {
    listener_shared *shared = calloc(1, sizeof(*shared));
    if (shared == NULL) return NULL;
    shared->rate = shared_rate_create(workers);
    shared->accepts = shared_rate_create(workers);
    if (shared->rate != NULL && shared->accepts != NULL) return shared;
    listener_shared_free(shared);
    return NULL;
}

void listener_shared_free(listener_shared *shared) {
    if (shared == NULL) return;
    shared_rate_free(shared->rate);
    shared_rate_free(shared->accepts);
    free(shared);
}

static void listener_free(listener *l) {
    tls_context_drop(l->tls);
    auth_policy_unref(l->conf.auth);
    free(l);
}

int listener_add(worker *w, const listener_config *conf, listener_shared *shared, int fd) {
    if (w->listener_count == LIMIT_LISTENERS_MAX) return -ENOSPC;
    listener *l = calloc(1, sizeof(*l));
    if (l == NULL) return -ENOMEM;
    l->owner = w;
    l->conf = *conf;
    (void)auth_policy_ref(conf->auth);
    l->proto = proto_of(conf);
    l->shared = shared;
    l->timer.callback = on_pause_end;
    int result = io_attach(w->engine, &l->io, fd, &listener_callbacks);
    if (result < 0) {
        listener_free(l);
        return result;
    }
    w->listeners[w->listener_count++] = l;
    return 0;
}

void listener_accept_all(worker *w) {
    for (u32 i = 0; i < w->listener_count; i++) {
        listener *l = w->listeners[i];
        if (l->started) continue;
        l->started = true;
        accept_on(l);
    }
}

void listener_configure(listener *l, const listener_config *conf) {
    bool accept_anew = (l->conf.accept_rate == 0) != (conf->accept_rate == 0) && l->started && !l->paused;
    auth_policy *was = l->conf.auth;
    l->conf = *conf;
    (void)auth_policy_ref(conf->auth);
    auth_policy_unref(was);
    l->proto = proto_of(conf);
    if (!accept_anew || l->removed) return;
    io_accept_stop(l->owner->engine, &l->io);
    accept_on(l);
}

void listener_set_tls(listener *l, tls_context *context) {
    tls_context *before = l->tls;
    l->tls = tls_context_hold(context);
    tls_context_drop(before);
}

void listener_remove(listener *l) {
    worker *w = l->owner;
    if (l->removed) return;
    l->removed = true;
    timer_cancel(w->wheel, &l->timer);
    io_close(w->engine, &l->io, false);
    for (u32 i = 0; i < w->listener_count; i++) {
        if (w->listeners[i] != l) continue;
        w->listeners[i] = w->listeners[--w->listener_count];
        break;
    }
    l->graveyard_next = w->graveyard;
    w->graveyard = l;
}

void listener_stop_all(worker *w) {
    while (w->listener_count > 0) listener_remove(w->listeners[w->listener_count - 1]);
}

void listener_sweep(worker *w) {
    listener **link = &w->graveyard;
    while (*link != NULL) {
        listener *l = *link;
        if (!l->closed || l->conns > 0) {
            link = &l->graveyard_next;
            continue;
        }
        *link = l->graveyard_next;
        listener_free(l);
    }
}

void listener_conn_gone(listener *l, bool ended) {
    l->conns--;
    if (ended) listener_uncount(l->owner, l->shared);
}

listener *listener_find(worker *w, const listener_shared *shared) {
    for (u32 i = 0; i < w->listener_count; i++) {
        if (w->listeners[i]->shared == shared) return w->listeners[i];
    }
    for (listener *l = w->graveyard; l != NULL; l = l->graveyard_next) {
        if (l->shared == shared) return l;
    }
    return NULL;
}
