// SPDX-License-Identifier: Apache-2.0
// uplink.c: the connection's life: machine.h's actions, the dialling, the one timer of a state, and the choice
// of the next address, URL or wait. The connection itself is a conn like any other, with a protocol of ours and
// a listener that never listens; so TLS, limits, traces and back-pressure are those of connections.
//
// Which URL: the first, and the others in turn while attempts fail; when all have failed, a jittered wait and
// the first again. A connection that has proved itself (something was acknowledged, or it lasted) begins at the
// first again; one that has not counts as a failed attempt, so that a broker which accepts and never
// acknowledges is left for the next.
#include <errno.h>
#include <linux/tcp.h> // its tcp_info is the longer one
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/tls.h"
#include "uplink/uplink_internal.h"

#define RESOLVE_LOOK_NS (20 * NS_PER_MS) // how often a look-up under way is asked for
#define SOON_NS (50 * NS_PER_MS)         // before the next address or URL
#define CLOSE_MS 2000u                   // a goodbye that is not taken

static void dial_connected(io_handle *h, int result);
static void dial_closed(io_handle *h);
static const io_callbacks dial_callbacks = {.on_connect = dial_connected, .on_closed = dial_closed};

void uplink_text_set(char *to, const char *text) {
    bool end = false;
    for (u32 i = 0; i < UPLINK_TEXT_BYTES; i++) {
        end = end || text[i] == '\0' || i == UPLINK_TEXT_BYTES - 1;
        __atomic_store_n(&to[i], end ? '\0' : text[i], __ATOMIC_RELAXED);
    }
}

void uplink_detail(uplink *u, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(u->detail, sizeof(u->detail), format, args);
    va_end(args);
}

void uplink_dropped(uplink *u, uplink_drop reason, u64 count, const char *what, u32 what_len) {
    u64 before = counter_get(&u->metrics.drops[reason]), now = before + count;
    counter_add(&u->metrics.drops[reason], count);
    bool doubled = before == 0 || (count > 0 && 63 - __builtin_clzll(before) != 63 - __builtin_clzll(now));
    if (uplink_drop_text(reason) == NULL || !doubled) return;
    log_warn("worker %u: uplink %s: %s: %s%s%.*s%s; %llu so far", u->owner->index, u->conf.name,
             uplink_drop_name(reason), uplink_drop_text(reason), what_len > 0 ? " (" : "", (int)MIN(what_len, 120u),
             what_len > 0 ? what : "", what_len > 0 ? ")" : "", (unsigned long long)now);
}

static void timer_set(uplink *u, u64 after_ns) {
    u->deadline_ns = u->owner->now_ns + after_ns;
    u64 due = u->deadline_ns;
    if (u->state == UPLINK_RESOLVING) due = MIN(due, u->owner->now_ns + RESOLVE_LOOK_NS);
    timer_arm(u->owner->wheel, &u->timer, due);
}

void uplink_fail(uplink *u, uplink_error error, const char *detail) {
    if (u->error == UPLINK_ERROR_NONE) {
        u->error = (u8)error;
        if (detail != NULL) uplink_detail(u, "%s", detail);
    }
    uplink_event_run(u, UPLINK_EV_FAILED);
}

// --- actions; each returns the event that follows at once, or UPLINK_EV_COUNT ---

static const endpoint *endpoint_now(const uplink *u) {
    return &u->urls[u->url_index];
}

static uplink_event failed(uplink *u, uplink_error error) {
    u->error = (u8)error;
    return UPLINK_EV_FAILED;
}

static resolve_job **resolve_now(uplink *u) {
    return &u->resolve[u->url_index];
}

static void resolve_forget(uplink *u) {
    resolve_drop(*resolve_now(u));
    *resolve_now(u) = NULL;
}

static uplink_event do_resolve(uplink *u) {
    const endpoint *e = endpoint_now(u);
    char url[UPLINK_TEXT_BYTES];
    bool v6 = strchr(e->host, ':') != NULL;
    static const char *const schemes[][2] = {{"mqtt", "mqtts"}, {"nats", "tls"}};
    const char *scheme = schemes[e->kind == UPLINK_NATS][e->tls];
    snprintf(url, sizeof(url), "%s://%s%.120s%s:%u", scheme, v6 ? "[" : "", e->host, v6 ? "]" : "", e->port);
    uplink_text_set(u->texts.remote, url);
    u->error = UPLINK_ERROR_NONE;
    uplink_files_renew(u);
    timer_set(u, u->conf.connect_timeout_ms * NS_PER_MS);
    if (u->address_next < u->address_count) return UPLINK_EV_RESOLVED;
    u->address_next = u->address_count = 0;
    if (resolve_literal(e->host, e->port, &u->addresses[0])) {
        u->address_count = 1;
        return UPLINK_EV_RESOLVED;
    }
    resolve_job **job = resolve_now(u);
    // One that hangs yet is waited for. What has been answered meanwhile is looked up anew if it was a no.
    bool hangs = *job != NULL && resolve_is_of(*job, e->host, e->port) && !resolve_is_done(*job);
    if (!hangs) resolve_forget(u);
    int result = hangs ? 0 : resolve_start(e->host, e->port, job);
    if (result == 0) return UPLINK_EV_COUNT;
    return failed(u, result == -EAGAIN ? UPLINK_ERROR_RESOLVE_BUSY : UPLINK_ERROR_NO_MEMORY);
}

static void resolve_look(uplink *u) {
    const resolve_address *found;
    const char *why;
    if (!resolve_is_done(*resolve_now(u))) {
        timer_arm(u->owner->wheel, &u->timer, MIN(u->deadline_ns, u->owner->now_ns + RESOLVE_LOOK_NS));
        return;
    }
    int count = resolve_result(*resolve_now(u), &found, &why);
    if (count > 0) {
        memcpy(u->addresses, found, (size_t)count * sizeof(*found));
        u->address_count = (u32)count;
    } else {
        uplink_detail(u, "%s: %s", endpoint_now(u)->host, why);
        u->error = count == -ETIMEDOUT ? UPLINK_ERROR_RESOLVE_TIMEOUT : UPLINK_ERROR_RESOLVE_FAILED;
    }
    resolve_forget(u);
    uplink_event_run(u, count > 0 ? UPLINK_EV_RESOLVED : UPLINK_EV_FAILED);
}

static int socket_make(const uplink *u, int family) {
    bool nonblock = io_kind_wants_nonblock(io_engine_kind(u->owner->engine));
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0), on = 1;
    if (fd < 0) return -errno;
    // Sent bytes that nobody acknowledges end the connection about when an unanswered ping would.
    u32 silent_ms = u->conf.keepalive_s * 1000 + (u32)u->conf.ping_timeout_ms;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
    return fd;
}

static uplink_event do_dial(uplink *u) {
    const resolve_address *to = &u->addresses[u->address_next++];
    timer_set(u, u->conf.connect_timeout_ms * NS_PER_MS);
    int fd = socket_make(u, to->addr.ss_family);
    int result = fd < 0 ? fd : io_attach(u->owner->engine, &u->dial, fd, &dial_callbacks);
    if (result < 0) {
        if (fd >= 0) close(fd);
        uplink_detail(u, "socket: %s", errno_name(result));
        return failed(u, uplink_error_of_connect(result));
    }
    io_connect(u->owner->engine, &u->dial, (const struct sockaddr *)&to->addr, to->len);
    return UPLINK_EV_COUNT;
}

static void dial_connected(io_handle *h, int result) {
    uplink *u = CONTAINER_OF(h, uplink, dial);
    if (result == 0) {
        uplink_event_run(u, UPLINK_EV_CONNECTED);
        return;
    }
    uplink_detail(u, "connect: %s", errno_name(result));
    u->error = (u8)uplink_error_of_connect(result);
    uplink_event_run(u, UPLINK_EV_FAILED);
}

static void dial_closed(io_handle *h) {
    uplink_event_run(CONTAINER_OF(h, uplink, dial), UPLINK_EV_CLOSED);
}

static uplink_event do_greet(uplink *u) {
    const resolve_address *to = &u->addresses[u->address_next - 1];
    int fd = io_detach(u->owner->engine, &u->dial);
    timer_set(u, u->conf.connect_timeout_ms * NS_PER_MS);
    u->address_count = u->address_next = 0; // there is somebody: what goes wrong now is not the address's fault
    conn *c = conn_open_outgoing(u->owner, &u->origin, fd, &to->addr, u);
    if (c == NULL) return failed(u, endpoint_now(u)->tls ? UPLINK_ERROR_TLS : UPLINK_ERROR_NO_MEMORY);
    u->conn = c;
    u->keepalive_s = u->conf.keepalive_s;
    u->tcp_acked = 0;
    uplink_error error = u->remote->greet(u);
    return error == UPLINK_ERROR_NONE ? UPLINK_EV_COUNT : failed(u, error);
}

static void check_later(uplink *u) {
    u64 period_ms = MIN(u->conf.keepalive_s * 1000ull, u->conf.ack_timeout_ms) / 4;
    timer_set(u, MAX(MIN(period_ms, 1000), 50) * NS_PER_MS);
}

static uplink_event do_open(uplink *u) {
    u->up_ns = u->owner->now_ns;
    u->ping_ns = 0;
    u->detail[0] = '\0'; // of files that this URL does not need
    u->progress_ns = u->acked_ns = u->owner->now_ns;
    u->taken_pos = u->taken_ns = 0;
    u->acked_before = counter_get(&u->metrics.acked);
    counter_add(&u->metrics.connects, 1);
    log_info("worker %u: uplink %s: connected to %s", u->owner->index, u->conf.name, u->texts.remote);
    check_later(u);
    down_status(u, true);
    drain_open(u);
    return UPLINK_EV_COUNT;
}

// Whether the peer has taken bytes since the last look: over a thin line a large message, or the queue before a ping,
// takes longer than any timeout, and is no reason to begin anew. Once it has taken the oldest message whole, what it
// takes later (pings, newer messages) says nothing of that one.
static void look_at_tcp(uplink *u) {
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(u->conn->io.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0) return;
    if (info.tcpi_bytes_acked > u->tcp_acked) u->progress_ns = u->owner->now_ns;
    u->tcp_acked = info.tcpi_bytes_acked;
    const window_entry *oldest = window_oldest(&u->window);
    if (oldest == NULL || oldest->pos == u->taken_pos || info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0) return;
    u->taken_pos = oldest->pos;
    u->taken_ns = u->owner->now_ns;
}

// Something received counts as life; our own keepalive is owed when nothing was sent for so long.
static uplink_event do_check(uplink *u) {
    u64 now = u->owner->now_ns, keepalive_ns = u->keepalive_s * NS_PER_S;
    check_later(u);
    drain_lag(u);
    look_at_tcp(u);
    if (drain_is_overdue(u)) return failed(u, UPLINK_ERROR_ACK_TIMEOUT);
    uplink_error wrong = u->remote->check == NULL ? UPLINK_ERROR_NONE : u->remote->check(u);
    if (wrong != UPLINK_ERROR_NONE) return failed(u, wrong);
    if (u->ping_ns != 0 && u->conn->received_ns > u->ping_ns) u->ping_ns = 0;
    if (u->ping_ns != 0) {
        bool late = now > MAX(u->ping_ns, u->progress_ns) + u->conf.ping_timeout_ms * NS_PER_MS;
        return late ? failed(u, UPLINK_ERROR_SILENT) : UPLINK_EV_COUNT;
    }
    if (now < MIN(u->conn->received_ns, u->conn->sent_ns) + keepalive_ns) return UPLINK_EV_COUNT;
    u->ping_ns = now;
    u->remote->ping(u);
    return UPLINK_EV_COUNT;
}

static bool dial_is_open(const uplink *u) {
    return u->dial.slot != UINT32_MAX;
}

// Why a conn has ended by itself.
static uplink_error error_of_reason(u32 reason) {
    switch (reason) {
    case CLOSE_PEER:
    case CLOSE_PEER_IN_FRAME: return UPLINK_ERROR_CLOSED;
    case CLOSE_TIMED_OUT:
    case CLOSE_FRAME_TIMEOUT: return UPLINK_ERROR_SILENT;
    case CLOSE_NO_MEMORY: return UPLINK_ERROR_NO_MEMORY;
    case CLOSE_PROTOCOL_ERROR: return UPLINK_ERROR_PROTOCOL;
    case CLOSE_DRAIN: return UPLINK_ERROR_STOPPED;
    case CLOSE_TLS_HANDSHAKE:
    case CLOSE_TLS_TIMEOUT:
    case CLOSE_TLS_RECORD:
    case CLOSE_TLS_RENEGOTIATION:
    case CLOSE_TLS_ALERT: return UPLINK_ERROR_TLS;
    default: return UPLINK_ERROR_RESET;
    }
}

static void error_of_conn(uplink *u, const conn *c) {
    char why[TLS_WHY_BYTES];
    u->error = (u8)error_of_reason(c->reason);
    if (u->error == UPLINK_ERROR_TLS && tls_why(c, why) != NULL) uplink_detail(u, "tls: %s", why);
}

// Closes whatever is open; CLOSED follows at once when nothing is, or when it is a conn: what is left of that
// is the worker's.
static uplink_event do_close(uplink *u, bool goodbye) {
    conn *c = u->conn;
    timer_set(u, CLOSE_MS * NS_PER_MS);
    if (c == NULL && !dial_is_open(u)) return UPLINK_EV_CLOSED;
    if (c == NULL) {
        io_close(u->owner->engine, &u->dial, false);
        return UPLINK_EV_COUNT;
    }
    if (goodbye && c->reason == CLOSE_NONE) {
        u->remote->leave(u);
        conn_close_after_flush(c, CLOSE_DRAIN); // proto->closed ends it
    } else {
        // It was ending already and waited for output that does not go any more (a failed handshake).
        if (c->reason != CLOSE_NONE) error_of_conn(u, c);
        conn_close(c, CLOSE_UPLINK);
    }
    return UPLINK_EV_COUNT;
}

static bool was_good(const uplink *u) {
    if (u->up_ns == 0) return false;
    return counter_get(&u->metrics.acked) > u->acked_before || u->owner->now_ns > u->up_ns + UPLINK_GOOD_MS * NS_PER_MS;
}

static uplink_event do_choose(uplink *u) {
    bool good = was_good(u), next_address = u->address_next < u->address_count;
    u64 wait_ns = SOON_NS;
    u->up_ns = 0;
    counter_set(&u->metrics.error, u->error);
    counter_add(&u->metrics.retries, 1);
    if (good) backoff_reset(&u->backoff);
    if (!next_address) {
        u->address_count = u->address_next = 0;
        u->url_index = good ? 0 : u->url_index + 1;
        if (good || u->url_index >= u->url_count) {
            u->url_index = 0;
            wait_ns = backoff_next_ms(&u->backoff, u->conf.backoff_min_ms, u->conf.backoff_max_ms) * NS_PER_MS;
        }
    }
    log_warn("worker %u: uplink %s: %s: %s (%s%s%s); next attempt in %llu ms", u->owner->index, u->conf.name,
             u->texts.remote, uplink_error_name(u->error), uplink_error_text(u->error),
             u->detail[0] != '\0' ? "; " : "", u->detail, (unsigned long long)(wait_ns / NS_PER_MS));
    uplink_text_set(u->texts.detail, u->detail);
    u->detail[0] = '\0';
    timer_set(u, wait_ns);
    return UPLINK_EV_COUNT;
}

void uplink_resolve_drop(uplink *u) {
    for (u32 i = 0; i < ARRAY_LEN(u->resolve); i++) {
        resolve_drop(u->resolve[i]);
        u->resolve[i] = NULL;
    }
}

static uplink_event do_forget(uplink *u) {
    uplink_resolve_drop(u);
    timer_cancel(u->owner->wheel, &u->timer);
    drain_stop(u);
    u->address_count = u->address_next = u->url_index = 0;
    u->up_ns = 0;
    counter_set(&u->metrics.error, UPLINK_ERROR_STOPPED);
    return UPLINK_EV_COUNT;
}

static uplink_event action_run(uplink *u, uplink_action action) {
    switch (action) {
    case UPLINK_DO_NOTHING: break;
    case UPLINK_DO_RESOLVE: return do_resolve(u);
    case UPLINK_DO_GIVE_UP:
    case UPLINK_DO_FORGET: return do_forget(u);
    case UPLINK_DO_DIAL: return do_dial(u);
    case UPLINK_DO_GREET: return do_greet(u);
    case UPLINK_DO_OPEN: return do_open(u);
    case UPLINK_DO_CHECK: return do_check(u);
    case UPLINK_DO_CLOSE: return do_close(u, false);
    case UPLINK_DO_LEAVE: return do_close(u, true);
    case UPLINK_DO_CHOOSE: return do_choose(u);
    }
    return UPLINK_EV_COUNT;
}

void uplink_event_run(uplink *u, uplink_event event) {
    while (event != UPLINK_EV_COUNT) {
        uplink_step step = uplink_machine(u->state, event);
        bool left_up = u->state == UPLINK_UP && step.state != UPLINK_UP;
        u->state = step.state;
        counter_set(&u->metrics.state, step.state);
        if (step.error != UPLINK_ERROR_NONE && u->error == UPLINK_ERROR_NONE) u->error = step.error;
        if (left_up) {
            drain_close(u);
            down_status(u, false);
        }
        event = action_run(u, step.action);
    }
    if (u->state == UPLINK_STOPPED) uplink_restart_if_wanted(u);
}

void uplink_on_timer(timer_node *node, void *context) {
    (void)context;
    uplink *u = CONTAINER_OF(node, uplink, timer);
    if (u->state == UPLINK_RESOLVING && u->owner->now_ns < u->deadline_ns) {
        resolve_look(u);
        return;
    }
    if (u->state == UPLINK_RESOLVING) uplink_detail(u, "%s", endpoint_now(u)->host);
    uplink_event_run(u, UPLINK_EV_DUE);
}

int uplink_conn_open(conn *c, bool moved) {
    (void)moved;
    uplink *u = CONTAINER_OF(c->origin, uplink, origin);
    const endpoint *e = endpoint_now(u);
    if (!e->tls) return 0;
    u->files_old = u->files_old || u->tls == NULL; // they may have been mended
    if (u->tls == NULL) return CLOSE_TLS_HANDSHAKE;
    // A NATS server says INFO in the clear first.
    return e->kind == UPLINK_NATS ? tls_start_client_later(c, u->tls, e->host) : tls_start_client(c, u->tls, e->host);
}

void uplink_conn_closed(uplink *u, const conn *c) {
    u->conn = NULL;
    u->remote->gone(u);
    if (u->state == UPLINK_GREETING || u->state == UPLINK_UP) {
        if (u->error == UPLINK_ERROR_NONE) error_of_conn(u, c);
        uplink_event_run(u, u->owner->draining ? UPLINK_EV_STOP : UPLINK_EV_FAILED);
        return; // nothing is open: the machine has closed and gone on
    }
    uplink_event_run(u, UPLINK_EV_CLOSED);
}
