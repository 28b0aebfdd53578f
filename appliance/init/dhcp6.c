// SPDX-License-Identifier: Apache-2.0
// dhcp6.c: see dhcp6.h. One table for the timer and one for messages, by state. Retransmission after RFC
// 8415 section 15: each wait doubles, with a tenth of chance.
#include "init/dhcp6.h"

#include <stdio.h>
#include <string.h>

#define SOLICIT_MS 1000u
#define SOLICIT_MS_MAX 3600000u
#define REQUEST_MS 1000u
#define REQUEST_MS_MAX 30000u
#define REQUEST_TRIES 10u
#define RENEW_MS 10000u
#define RENEW_MS_MAX 600000u
#define INFORMATION_MS_MAX 3600000u
#define REFRESH_MS 86400000u // RFC 8415 section 21.23: information is asked for again each day

static void arm(dhcp6 *d, u64 first, u64 max) {
    u64 base = MIN(first << MIN(d->tries > 0 ? d->tries - 1 : 0, 16u), max);
    d->ops->timer(d->context, base - base / 10 + d->ops->random(d->context) % (base / 5 + 1));
}

static void send(dhcp6 *d, dhcp6_type type, u64 now) {
    u8 packet[DHCP6_PACKET_BYTES_MAX];
    bool keeps_server = type == DHCP6_REQUEST || type == DHCP6_RENEW;
    dhcp6_ask ask = {.type = type, .xid = d->xid,
                     .elapsed_cs = (u16)MIN((now - d->began_ms) / 10, 65535u)};
    memcpy(ask.mac, d->mac, 6);
    if (keeps_server) {
        ask.server = d->server;
        ask.server_len = d->server_len;
    }
    if (d->lease.has_address && type != DHCP6_INFORMATION) ask.address = d->lease.address;
    u32 len = dhcp6_packet_build(&ask, packet);
    d->sent++;
    d->tries++;
    d->ops->send(d->context, packet, len);
}

static void begin(dhcp6 *d, dhcp6_state state, u64 now) {
    d->state = state;
    d->tries = 0;
    d->xid = d->ops->random(d->context) & 0xffffff;
    d->began_ms = now;
}

static void drop(dhcp6 *d, const char *why) {
    if (!d->in_force) return;
    d->in_force = false;
    d->ops->drop(d->context, why);
}

static void solicit(dhcp6 *d, u64 now) {
    if (d->state != DHCP6_S_SOLICIT) begin(d, DHCP6_S_SOLICIT, now);
    if (d->in_force && now >= d->end_ms) drop(d, "its time is over");
    send(d, DHCP6_SOLICIT, now);
    arm(d, SOLICIT_MS, d->in_force ? REQUEST_MS_MAX : SOLICIT_MS_MAX);
}

static void take_lease(dhcp6 *d, const dhcp6_message *m, u64 now) {
    bool moved = d->in_force && memcmp(d->lease.address, m->lease.address, 16) != 0;
    if (moved) drop(d, "the server gave another address");
    d->lease = m->lease;
    memcpy(d->server, m->server, sizeof(d->server));
    d->server_len = m->server_len;
    d->replies++;
    d->in_force = true;
    bool forever = d->lease.t1_s == UINT32_MAX;
    d->t1_ms = now + (forever ? REFRESH_MS : d->lease.t1_s * 1000ull);
    d->t2_ms = now + (forever ? 2 * REFRESH_MS : d->lease.t2_s * 1000ull);
    d->end_ms = d->lease.valid_s == UINT32_MAX ? UINT64_MAX : now + d->lease.valid_s * 1000ull;
    begin(d, DHCP6_S_BOUND, now);
    d->ops->apply(d->context, &d->lease);
    d->ops->timer(d->context, d->t1_ms - now);
}

static void refused(dhcp6 *d, const dhcp6_message *m) {
    char text[80];
    snprintf(text, sizeof(text), "the server gives no address (status %u)", m->status);
    if (d->tries <= 1) d->ops->say(d->context, true, text);
}

static bool gives_address(const dhcp6_message *m) {
    return m->status == 0 && m->lease.has_address;
}

static void in_solicit(dhcp6 *d, const dhcp6_message *m, u64 now) {
    if (!gives_address(m)) {
        refused(d, m);
        return;
    }
    if (m->type == DHCP6_REPLY) {
        if (m->rapid) take_lease(d, m, now);
        return;
    }
    // The first good answer is taken; nothing is gained by waiting for a better one.
    memcpy(d->server, m->server, sizeof(d->server));
    d->server_len = m->server_len;
    if (!d->in_force) d->lease = m->lease;
    begin(d, DHCP6_S_REQUEST, now);
    send(d, DHCP6_REQUEST, now);
    arm(d, REQUEST_MS, REQUEST_MS_MAX);
}

static void in_exchange(dhcp6 *d, const dhcp6_message *m, u64 now) {
    if (m->type != DHCP6_REPLY) return;
    if (gives_address(m)) {
        take_lease(d, m, now);
        return;
    }
    refused(d, m);
    drop(d, "the server took it back");
    d->lease.has_address = false;
    begin(d, DHCP6_S_SOLICIT, now);
    d->tries = 4; // the next attempt in about eight seconds, not in a tight loop
    arm(d, SOLICIT_MS, SOLICIT_MS_MAX);
}

static void in_information(dhcp6 *d, const dhcp6_message *m, u64 now) {
    if (m->type != DHCP6_REPLY) return;
    d->lease = m->lease;
    d->lease.has_address = false;
    d->replies++;
    d->in_force = true;
    begin(d, DHCP6_S_INFORMED, now);
    d->ops->apply(d->context, &d->lease);
    d->ops->timer(d->context, REFRESH_MS);
}

// --- timers ---

static void request_timer(dhcp6 *d, u64 now) {
    if (d->tries >= REQUEST_TRIES) {
        solicit(d, now);
        return;
    }
    send(d, DHCP6_REQUEST, now);
    arm(d, REQUEST_MS, REQUEST_MS_MAX);
}

static void renew_timer(dhcp6 *d, u64 now) {
    if (now >= d->t2_ms) {
        begin(d, DHCP6_S_REBIND, now);
        send(d, DHCP6_REBIND, now);
    } else {
        if (d->state != DHCP6_S_RENEW) begin(d, DHCP6_S_RENEW, now);
        send(d, DHCP6_RENEW, now);
    }
    arm(d, RENEW_MS, MIN(RENEW_MS_MAX, MAX(d->t2_ms > now ? d->t2_ms - now : 0, RENEW_MS)));
}

static void rebind_timer(dhcp6 *d, u64 now) {
    if (now >= d->end_ms) {
        drop(d, "its time is over and no server renewed it");
        solicit(d, now);
        return;
    }
    send(d, DHCP6_REBIND, now);
    arm(d, RENEW_MS, MIN(RENEW_MS_MAX, MAX(d->end_ms - now, 1000u)));
}

static void information_timer(dhcp6 *d, u64 now) {
    if (d->state != DHCP6_S_INFORMATION) begin(d, DHCP6_S_INFORMATION, now);
    send(d, DHCP6_INFORMATION, now);
    arm(d, SOLICIT_MS, INFORMATION_MS_MAX);
}

static void off_timer(dhcp6 *d, u64 now) {
    (void)d;
    (void)now;
}

static void off_message(dhcp6 *d, const dhcp6_message *m, u64 now) {
    (void)m;
    (void)now;
    d->ignored++;
}

static const struct {
    void (*timer)(dhcp6 *d, u64 now);
    void (*message)(dhcp6 *d, const dhcp6_message *m, u64 now);
    const char *name;
} table[DHCP6_STATES] = {
    [DHCP6_S_OFF] = {off_timer, off_message, "off"},
    [DHCP6_S_SOLICIT] = {solicit, in_solicit, "solicit"},
    [DHCP6_S_REQUEST] = {request_timer, in_exchange, "request"},
    [DHCP6_S_BOUND] = {renew_timer, off_message, "bound"},
    [DHCP6_S_RENEW] = {renew_timer, in_exchange, "renew"},
    [DHCP6_S_REBIND] = {rebind_timer, in_exchange, "rebind"},
    [DHCP6_S_INFORMATION] = {information_timer, in_information, "information"},
    [DHCP6_S_INFORMED] = {information_timer, off_message, "informed"},
};

void dhcp6_init(dhcp6 *d, const dhcp6_ops *ops, void *context, const u8 mac[6]) {
    memset(d, 0, sizeof(*d));
    d->ops = ops;
    d->context = context;
    memcpy(d->mac, mac, 6);
}

void dhcp6_start(dhcp6 *d, bool address, u64 now_ms) {
    if (address) {
        d->state = DHCP6_S_OFF;
        solicit(d, now_ms);
    } else {
        information_timer(d, now_ms);
    }
}

void dhcp6_link_up(dhcp6 *d, u64 now_ms) {
    switch (d->state) {
    case DHCP6_S_BOUND:
    case DHCP6_S_RENEW:
    case DHCP6_S_REBIND:
        begin(d, DHCP6_S_REBIND, now_ms);
        send(d, DHCP6_REBIND, now_ms);
        arm(d, REQUEST_MS, RENEW_MS_MAX);
        break;
    case DHCP6_S_INFORMED: information_timer(d, now_ms); break;
    default: table[d->state].timer(d, now_ms); break; // at once, instead of after a long pause
    }
}

void dhcp6_timer(dhcp6 *d, u64 now_ms) {
    table[d->state].timer(d, now_ms);
}

void dhcp6_packet(dhcp6 *d, const u8 *data, size_t len, u64 now_ms) {
    dhcp6_message m;
    if (dhcp6_packet_parse(data, len, d->mac, &m) != 0 || m.xid != d->xid) {
        d->ignored++;
        return;
    }
    table[d->state].message(d, &m, now_ms);
}

void dhcp6_stop(dhcp6 *d, const char *why) {
    drop(d, why);
    d->state = DHCP6_S_OFF;
}

const char *dhcp6_state_name(dhcp6_state state) {
    return table[state].name;
}
