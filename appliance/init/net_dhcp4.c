// SPDX-License-Identifier: Apache-2.0
// net_dhcp4.c: a DHCPv4 client on an interface: its sockets, its timer on init's loop, and the lease of the
// last boot in the state record (`lease.<hardware address>`), so that the address stays the same over a
// power cut and a restart takes one exchange instead of two.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "init/control.h"
#include "init/dhcp4_socket.h"
#include "init/init_log.h"
#include "init/net_iface.h"
#include "init/state.h"

#define SAVED_VERSION 1u

// As it lies in the state record.
typedef struct saved_lease {
    u32 version, bytes;
    u64 end_real_s; // of the lease; UINT64_MAX = never
    dhcp4_lease lease;
} saved_lease;
_Static_assert(sizeof(saved_lease) <= STATE_VALUE_BYTES_MAX, "one value of the record");

static net_iface *iface_of(void *context) {
    return context;
}

static u64 now_ms(void) {
    return clock_mono_ns() / NS_PER_MS;
}

static void saved_name(const net_iface *i, char out[STATE_NAME_BYTES_MAX + 1]) {
    const u8 *m = i->link.mac;
    snprintf(out, STATE_NAME_BYTES_MAX + 1, "lease.%02x%02x%02x%02x%02x%02x", m[0], m[1], m[2], m[3],
             m[4], m[5]);
}

// Written when its content or, by more than half of the lease, its end has changed: a short lease must not
// wear the flash at each renewal.
static void save(const net_iface *i, const dhcp4_lease *l) {
    char name[STATE_NAME_BYTES_MAX + 1];
    saved_lease s = {.version = SAVED_VERSION, .bytes = sizeof(s), .lease = *l}, before;
    u64 now_s = clock_real_ns() / NS_PER_S;
    s.end_real_s = l->lease_s == DHCP4_FOREVER_S ? UINT64_MAX : now_s + l->lease_s;
    saved_name(i, name);
    bool there = state_get(name, &before, sizeof(before)) == (int)sizeof(before);
    bool same = there && memcmp(&before.lease, l, sizeof(*l)) == 0;
    if (same && s.end_real_s >= before.end_real_s && s.end_real_s - before.end_real_s < l->lease_s / 2)
        return;
    if (state_put(name, &s, sizeof(s)) != 0)
        init_warn("net: %s: the state record has no room for the lease", i->link.name);
}

static void load(net_iface *i, u64 now) {
    char name[STATE_NAME_BYTES_MAX + 1];
    saved_lease s;
    u64 now_s = clock_real_ns() / NS_PER_S, left = 0;
    saved_name(i, name);
    if (state_get(name, &s, sizeof(s)) != (int)sizeof(s)) return;
    if (s.version != SAVED_VERSION || s.bytes != sizeof(s) || !dhcp4_lease_is_valid(&s.lease)) return;
    if (s.end_real_s == UINT64_MAX) left = DHCP4_FOREVER_S;
    else if (s.end_real_s > now_s) left = MIN(s.end_real_s - now_s, (u64)s.lease.lease_s);
    dhcp4_remember(&i->dhcp4.client, &s.lease, left, now);
}

// --- sockets: the raw one only while it is needed, since it sees every packet of the interface ---

static void close_watch(init_watch *w, int *fd) {
    if (*fd < 0) return;
    init_loop_unwatch(w);
    close(*fd);
    *fd = -1;
}

static void receive(net_iface *i, int fd, int (*read_one)(int, u8 *, size_t, u8[4])) {
    u8 data[DHCP4_PACKET_BYTES_MAX], source[4];
    int len = read_one(fd, data, sizeof(data), source);
    if (len > 0) dhcp4_packet(&i->dhcp4.client, data, (size_t)len, source, now_ms());
}

static void match_sockets(net_iface *i);

static void on_raw(init_watch *w, u32 events) {
    net_iface *i = CONTAINER_OF(w, net_iface, dhcp4.raw_watch);
    (void)events;
    receive(i, w->fd, dhcp4_receive_raw);
    match_sockets(i);
}

static void on_udp(init_watch *w, u32 events) {
    net_iface *i = CONTAINER_OF(w, net_iface, dhcp4.udp_watch);
    (void)events;
    receive(i, w->fd, dhcp4_receive_udp);
    match_sockets(i);
}

static int open_watch(net_iface *i, init_watch *w, int fd, const char *what) {
    if (fd < 0) {
        init_warn("net: %s: no %s for DHCP: %s (%s)", i->link.name, what, strerror(-fd), errno_name(fd));
        return -1;
    }
    w->fd = fd;
    int rc = init_loop_watch(w, EPOLLIN);
    if (rc == 0) return fd;
    init_warn("net: %s: the %s for DHCP can not be watched: %s", i->link.name, what, errno_name(rc));
    close(fd);
    return -1;
}

static bool ensure_raw(net_iface *i) {
    net_dhcp4 *d = &i->dhcp4;
    if (d->raw_fd < 0) d->raw_fd = open_watch(i, &d->raw_watch, dhcp4_socket_raw(i->index), "packet socket");
    return d->raw_fd >= 0;
}

static bool ensure_udp(net_iface *i) {
    net_dhcp4 *d = &i->dhcp4;
    if (d->udp_fd < 0) d->udp_fd = open_watch(i, &d->udp_watch, dhcp4_socket_udp(i->link.name), "socket");
    return d->udp_fd >= 0;
}

static void match_sockets(net_iface *i) {
    if (!i->dhcp4.running) return;
    if (!dhcp4_needs_raw(&i->dhcp4.client)) close_watch(&i->dhcp4.raw_watch, &i->dhcp4.raw_fd);
    // From the first address on, so that an answer to a renewal never meets a closed port.
    if (i->dhcp4.client.in_force) ensure_udp(i);
    else close_watch(&i->dhcp4.udp_watch, &i->dhcp4.udp_fd);
}

// --- what the state machine asks for ---

static void op_send(void *context, dhcp4_way way, const u8 server[4], const u8 *data, u32 len) {
    static const u8 everybody[4] = {255, 255, 255, 255};
    net_iface *i = iface_of(context);
    int rc;
    if (way == DHCP4_RAW) rc = ensure_raw(i) ? dhcp4_send_raw(i->dhcp4.raw_fd, i->index, data, len) : 0;
    else rc = ensure_udp(i) ? dhcp4_send_udp(i->dhcp4.udp_fd, way == DHCP4_UNICAST ? server : everybody,
                                             data, len) : 0;
    if (rc != 0 && rc != -ENETDOWN)
        init_warn("net: %s: a DHCP packet could not be sent: %s", i->link.name, errno_name(rc));
}

static void op_apply(void *context, const dhcp4_lease *lease, u64 seconds_left) {
    net_iface *i = iface_of(context);
    net_apply_lease4(i, lease, seconds_left);
    if (seconds_left == lease->lease_s) save(i, lease); // by a server's word
}

static void op_drop(void *context, const char *why) {
    net_remove_lease4(iface_of(context), why);
}

static void op_timer(void *context, u64 ms) {
    init_timer_set(&iface_of(context)->dhcp4.timer, ms);
}

static void op_say(void *context, bool warning, const char *text) {
    init_log(warning ? LOG_WARN : LOG_INFO, "net: %s: DHCP: %s", iface_of(context)->link.name, text);
}

static u32 op_random(void *context) {
    u32 value = 0;
    (void)context;
    // Never waits for entropy: a guessable transaction id is worse than none only to those on the link.
    if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
        value = (u32)(clock_mono_ns() * 2654435761u);
    return value;
}

static const dhcp4_ops ops = {op_send, op_apply, op_drop, op_timer, op_say, op_random};

static void on_timer(init_timer *t) {
    net_iface *i = CONTAINER_OF(t, net_iface, dhcp4.timer);
    dhcp4_timer(&i->dhcp4.client, now_ms());
    match_sockets(i);
}

void net_dhcp4_start(net_iface *i) {
    net_dhcp4 *d = &i->dhcp4;
    if (d->running) return;
    *d = (net_dhcp4){.running = true, .raw_fd = -1, .udp_fd = -1};
    d->raw_watch = (init_watch){.name = "dhcp4 packet", .on_ready = on_raw, .fd = -1};
    d->udp_watch = (init_watch){.name = "dhcp4", .on_ready = on_udp, .fd = -1};
    d->timer = (init_timer){.name = "dhcp4", .on_fire = on_timer};
    dhcp4_init(&d->client, &ops, i, i->link.mac, init_hostname());
    load(i, now_ms());
    if (i->link.carrier) dhcp4_link(&d->client, true, now_ms());
}

void net_dhcp4_link(net_iface *i, bool up) {
    if (!i->dhcp4.running) return;
    dhcp4_link(&i->dhcp4.client, up, now_ms());
    match_sockets(i);
}

void net_dhcp4_stop(net_iface *i, const char *why) {
    if (!i->dhcp4.running) return;
    dhcp4_stop(&i->dhcp4.client, why);
    init_timer_clear(&i->dhcp4.timer);
    close_watch(&i->dhcp4.raw_watch, &i->dhcp4.raw_fd);
    close_watch(&i->dhcp4.udp_watch, &i->dhcp4.udp_fd);
    i->dhcp4.running = false;
}
