// SPDX-License-Identifier: Apache-2.0
// dhcp4.c: see dhcp4.h. One table state x event; each cell is one small function. Every cell leaves
// exactly one timer running (or none in NO_LINK without a lease).
#include "init/dhcp4.h"

#include <stdio.h>
#include <string.h>

#define RETRY_MS_FIRST 1000u      // RFC 2131 says 4 s; a box that boots wants its address sooner
#define RETRY_MS_MAX 64000u
#define REQUEST_TRIES 4u          // then another offer is looked for
#define REBOOT_TRIES 3u           // 1 s, 2 s, then discover
#define RENEW_MS_MIN 60000u       // RFC 2131 section 4.4.5
#define RENEW_MS_MIN_SHORT 5000u  // for leases below SHORT_LEASE_S
#define SHORT_LEASE_S 600u
#define NAK_DELAY_MS_MAX 64000u

typedef enum event { EV_LINK_UP, EV_LINK_DOWN, EV_TIMER, EV_OFFER, EV_ACK, EV_NAK, EVENTS } event;

typedef void (*action)(dhcp4 *d, const dhcp4_message *m, u64 now);

static void enter_selecting(dhcp4 *d, u64 now);

static void arm(dhcp4 *d, u64 at, u64 now) {
    if (at == UINT64_MAX) at = now + 86400000u; // looked at once a day; nothing happens
    d->ops->timer(d->context, at > now ? at - now : 0);
}

// Doubles from the first delay, +-10 %: devices that lost power together do not ask in step.
static u64 retry_ms(dhcp4 *d, u64 first, u64 max) {
    u64 base = MIN(first << MIN(d->tries > 0 ? d->tries - 1 : 0, 10u), max);
    return base - base / 10 + d->ops->random(d->context) % (base / 5 + 1);
}

static void send(dhcp4 *d, dhcp4_type type, dhcp4_way way, u64 now) {
    static const u8 nobody[4];
    u8 packet[DHCP4_PACKET_BYTES_MAX];
    dhcp4_ask ask = {.type = type, .xid = d->xid, .hostname = d->hostname,
                     .secs = (u16)MIN((now - d->began_ms) / 1000, 65535u)};
    memcpy(ask.mac, d->mac, 6);
    const u8 *server = nobody;
    switch (d->state) {
    case DHCP4_SELECTING: // complaint of many: without option 50 the address changes after an outage
        if (d->remembered) memcpy(ask.requested, d->lease.address, 4);
        break;
    case DHCP4_REQUESTING:
        memcpy(ask.requested, d->offer.address, 4);
        memcpy(ask.server, d->offer.server, 4);
        break;
    case DHCP4_REBOOTING: memcpy(ask.requested, d->lease.address, 4); break;
    case DHCP4_RENEWING:
    case DHCP4_REBINDING: // ciaddr, and neither option 50 nor 54 (RFC 2131 table 5)
        memcpy(ask.client, d->lease.address, 4);
        server = d->lease.server;
        break;
    default: ASSERT(false);
    }
    u32 len = dhcp4_packet_build(&ask, packet);
    d->sent++;
    d->tries++;
    d->ops->send(d->context, way, server, packet, len);
}

static void begin(dhcp4 *d, dhcp4_state state, u64 now) {
    d->state = state;
    d->tries = 0;
    d->waiting = false;
    if (state == DHCP4_SELECTING || state == DHCP4_REBOOTING || state == DHCP4_RENEWING) {
        d->xid = d->ops->random(d->context);
        d->began_ms = now;
    }
}

static void drop(dhcp4 *d, const char *why) {
    if (!d->in_force) return;
    d->in_force = false;
    d->ops->drop(d->context, why);
}

static void discover(dhcp4 *d, u64 now) {
    d->waiting = false;
    send(d, DHCP4_DISCOVER, DHCP4_RAW, now);
    u64 next = now + retry_ms(d, RETRY_MS_FIRST, RETRY_MS_MAX);
    arm(d, d->in_force ? MIN(next, d->end_ms) : next, now);
}

static void enter_selecting(dhcp4 *d, u64 now) {
    begin(d, DHCP4_SELECTING, now);
    discover(d, now);
}

static void enter_bound(dhcp4 *d, u64 now) {
    begin(d, DHCP4_BOUND, now);
    arm(d, d->t1_ms, now);
}

static void set_times(dhcp4 *d, u64 now) {
    bool forever = d->lease.lease_s == DHCP4_FOREVER_S;
    d->t1_ms = forever ? UINT64_MAX : now + d->lease.t1_s * 1000ull;
    d->t2_ms = forever ? UINT64_MAX : now + d->lease.t2_s * 1000ull;
    d->end_ms = forever ? UINT64_MAX : now + d->lease.lease_s * 1000ull;
}

static void say_note(dhcp4 *d, const char *note) {
    if (note == NULL || note == d->last_note) return; // once, not at every renewal
    d->last_note = note;
    d->ops->say(d->context, true, note);
}

// --- cells ---

static void nothing(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)now;
    if (m != NULL) d->ignored++;
}

static void link_up(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (!d->remembered) {
        enter_selecting(d, now);
        return;
    }
    begin(d, DHCP4_REBOOTING, now);
    send(d, DHCP4_REQUEST, DHCP4_RAW, now);
    arm(d, now + retry_ms(d, RETRY_MS_FIRST, RETRY_MS_MAX), now);
}

// Routes and address stay: a cable that is moved from one port to another costs no connection.
static void link_down(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    begin(d, DHCP4_NO_LINK, now);
    arm(d, d->in_force ? d->end_ms : UINT64_MAX, now);
}

static void no_link_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (d->in_force && now >= d->end_ms) drop(d, "the lease ended while the link was down");
    arm(d, d->in_force ? d->end_ms : UINT64_MAX, now);
}

static void selecting_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (d->in_force && now >= d->end_ms) drop(d, "the lease ended");
    discover(d, now);
}

static void take_offer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    u64 began = d->began_ms;
    if (d->waiting) {
        nothing(d, m, now);
        return;
    }
    d->offer = m->lease;
    begin(d, DHCP4_REQUESTING, now); // same xid and secs: RFC 2131 section 3.1
    d->began_ms = began;
    send(d, DHCP4_REQUEST, DHCP4_RAW, now);
    arm(d, now + retry_ms(d, RETRY_MS_FIRST, RETRY_MS_MAX), now);
}

static void requesting_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (d->tries >= REQUEST_TRIES) {
        enter_selecting(d, now);
        return;
    }
    send(d, DHCP4_REQUEST, DHCP4_RAW, now);
    arm(d, now + retry_ms(d, RETRY_MS_FIRST, RETRY_MS_MAX), now);
}

static void take_ack(dhcp4 *d, const dhcp4_message *m, u64 now) {
    bool moved = d->in_force && memcmp(d->lease.address, m->lease.address, 4) != 0;
    if (moved) drop(d, "the server gave another address");
    d->lease = m->lease;
    d->acks++;
    d->naks = 0;
    d->remembered = true;
    d->in_force = true;
    set_times(d, now);
    say_note(d, m->note);
    d->ops->apply(d->context, &d->lease, d->lease.lease_s);
    enter_bound(d, now);
}

// In REQUESTING only the chosen server's answer counts.
static void requesting_ack(dhcp4 *d, const dhcp4_message *m, u64 now) {
    if (memcmp(m->lease.server, d->offer.server, 4) != 0) nothing(d, m, now);
    else take_ack(d, m, now);
}

static void take_nak(dhcp4 *d, const dhcp4_message *m, u64 now) {
    char text[160];
    snprintf(text, sizeof(text), "the server refused the address%s%s", m->text[0] != '\0' ? ": " : "",
             m->text);
    d->nak_count++;
    d->ops->say(d->context, true, text);
    drop(d, "the server refused the address");
    d->remembered = false;
    begin(d, DHCP4_SELECTING, now);
    // The first time at once; a server that refuses what it offers is not asked in a tight loop.
    u64 delay = d->naks == 0 ? 0 : MIN(1000ull << MIN(d->naks - 1, 10u), NAK_DELAY_MS_MAX);
    d->naks++;
    d->waiting = delay > 0;
    if (delay > 0) arm(d, now + delay, now);
    else discover(d, now);
}

static void requesting_nak(dhcp4 *d, const dhcp4_message *m, u64 now) {
    if (memcmp(m->lease.server, d->offer.server, 4) != 0) nothing(d, m, now);
    else take_nak(d, m, now);
}

// A server that is silent (it may boot slower than this box, or know nothing of the lease and say nothing)
// does not end a lease that still runs (RFC 2131 section 3.2): the address is used while a server is
// looked for, whose answer replaces it.
static void rebooting_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (d->tries < REBOOT_TRIES) {
        send(d, DHCP4_REQUEST, DHCP4_RAW, now);
        arm(d, now + retry_ms(d, RETRY_MS_FIRST, RETRY_MS_MAX), now);
        return;
    }
    if (now >= d->end_ms) {
        drop(d, "the lease ended");
    } else if (!d->in_force) {
        d->in_force = true;
        d->ops->say(d->context, true, "no server answers; the saved lease is still running and is used");
        d->ops->apply(d->context, &d->lease, MIN((d->end_ms - now) / 1000, DHCP4_FOREVER_S));
    }
    enter_selecting(d, now);
}

static u64 renew_wait(const dhcp4 *d, u64 until, u64 now) {
    u64 least = d->lease.lease_s < SHORT_LEASE_S ? RENEW_MS_MIN_SHORT : RENEW_MS_MIN;
    u64 half = until > now ? (until - now) / 2 : 0;
    return MIN(now + MAX(half, least), MAX(until, now + 1000));
}

static void rebind(dhcp4 *d, u64 now) {
    send(d, DHCP4_REQUEST, DHCP4_BROADCAST, now);
    arm(d, renew_wait(d, d->end_ms, now), now);
}

static void renew(dhcp4 *d, u64 now) {
    bool unknown = d->lease.server[0] == 0;
    send(d, DHCP4_REQUEST, unknown ? DHCP4_BROADCAST : DHCP4_UNICAST, now);
    arm(d, renew_wait(d, d->t2_ms, now), now);
}

static void bound_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (now < d->t1_ms) {
        arm(d, d->t1_ms, now);
        return;
    }
    begin(d, DHCP4_RENEWING, now);
    renew(d, now);
}

static void renewing_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (now < d->t2_ms) {
        renew(d, now);
        return;
    }
    begin(d, DHCP4_REBINDING, now);
    d->ops->say(d->context, true, "the server does not renew the lease; any server is asked now");
    rebind(d, now);
}

static void rebinding_timer(dhcp4 *d, const dhcp4_message *m, u64 now) {
    (void)m;
    if (now < d->end_ms) {
        rebind(d, now);
        return;
    }
    drop(d, "the lease ended and no server renewed it");
    enter_selecting(d, now);
}

static const action table[DHCP4_STATES][EVENTS] = {
    //                   link up   link down  timer             offer       ack             nak
    [DHCP4_NO_LINK] = {link_up, nothing, no_link_timer, nothing, nothing, nothing},
    [DHCP4_SELECTING] = {nothing, link_down, selecting_timer, take_offer, nothing, nothing},
    [DHCP4_REQUESTING] = {nothing, link_down, requesting_timer, nothing, requesting_ack, requesting_nak},
    [DHCP4_REBOOTING] = {nothing, link_down, rebooting_timer, nothing, take_ack, take_nak},
    [DHCP4_BOUND] = {nothing, link_down, bound_timer, nothing, nothing, nothing},
    [DHCP4_RENEWING] = {nothing, link_down, renewing_timer, nothing, take_ack, take_nak},
    [DHCP4_REBINDING] = {nothing, link_down, rebinding_timer, nothing, take_ack, take_nak},
};

static void feed(dhcp4 *d, event e, const dhcp4_message *m, u64 now) {
    table[d->state][e](d, m, now);
}

// --- events ---

void dhcp4_init(dhcp4 *d, const dhcp4_ops *ops, void *context, const u8 mac[6], const char *hostname) {
    memset(d, 0, sizeof(*d));
    d->ops = ops;
    d->context = context;
    d->hostname = hostname;
    memcpy(d->mac, mac, 6);
}

void dhcp4_remember(dhcp4 *d, const dhcp4_lease *lease, u64 seconds_left, u64 now_ms) {
    ASSERT(d->state == DHCP4_NO_LINK && !d->in_force && dhcp4_lease_is_valid(lease));
    d->lease = *lease;
    d->remembered = true;
    d->end_ms = seconds_left == DHCP4_FOREVER_S ? UINT64_MAX : now_ms + seconds_left * 1000;
    d->t1_ms = d->t2_ms = d->end_ms;
}

void dhcp4_link(dhcp4 *d, bool up, u64 now_ms) {
    feed(d, up ? EV_LINK_UP : EV_LINK_DOWN, NULL, now_ms);
}

void dhcp4_timer(dhcp4 *d, u64 now_ms) {
    feed(d, EV_TIMER, NULL, now_ms);
}

void dhcp4_packet(dhcp4 *d, const u8 *data, size_t len, const u8 source[4], u64 now_ms) {
    dhcp4_message m;
    const char *why;
    int rc = dhcp4_packet_parse(data, len, source, &m, &why);
    if (m.xid != d->xid || memcmp(m.mac, d->mac, 6) != 0) {
        d->ignored++; // another client's
        return;
    }
    if (rc != 0) {
        d->ignored++;
        say_note(d, why);
        return;
    }
    feed(d, m.type == DHCP4_OFFER ? EV_OFFER : m.type == DHCP4_ACK ? EV_ACK : EV_NAK, &m, now_ms);
}

void dhcp4_stop(dhcp4 *d, const char *why) {
    drop(d, why);
    d->state = DHCP4_NO_LINK;
}

bool dhcp4_needs_raw(const dhcp4 *d) {
    return d->state == DHCP4_SELECTING || d->state == DHCP4_REQUESTING || d->state == DHCP4_REBOOTING;
}

const char *dhcp4_state_name(dhcp4_state state) {
    static const char *const names[DHCP4_STATES] = {
        [DHCP4_NO_LINK] = "no-link",     [DHCP4_SELECTING] = "selecting", [DHCP4_REQUESTING] = "requesting",
        [DHCP4_REBOOTING] = "rebooting", [DHCP4_BOUND] = "bound",         [DHCP4_RENEWING] = "renewing",
        [DHCP4_REBINDING] = "rebinding"};
    return names[state];
}
