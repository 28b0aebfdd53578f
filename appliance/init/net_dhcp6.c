// SPDX-License-Identifier: Apache-2.0
// net_dhcp6.c: a DHCPv6 client on an interface: one UDP socket on port 546 and one timer on init's loop.
// It starts when the router's advertisement says so (managed or other flag), or by configuration, and waits
// for a link-local address that is past duplicate detection: the kernel refuses to send before.
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init_log.h"
#include "init/net_iface.h"

static u64 now_ms(void) {
    return clock_mono_ns() / NS_PER_MS;
}

static net_iface *iface_of(void *context) {
    return context;
}

static int open_socket(const net_iface *i) {
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_port = htons(DHCP6_CLIENT_PORT)};
    int on = 1, fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, i->link.name, (socklen_t)strlen(i->link.name)) == 0 &&
        bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0)
        return fd;
    int err = errno;
    close(fd);
    return -err;
}

static void on_ready(init_watch *w, u32 events) {
    net_iface *i = CONTAINER_OF(w, net_iface, dhcp6.watch);
    u8 data[DHCP6_PACKET_BYTES_MAX];
    (void)events;
    ssize_t n = recv(w->fd, data, sizeof(data), MSG_TRUNC);
    if (n > 0 && (size_t)n <= sizeof(data)) dhcp6_packet(&i->dhcp6.client, data, (size_t)n, now_ms());
}

static void op_send(void *context, const u8 *data, u32 len) {
    net_iface *i = iface_of(context);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(DHCP6_SERVER_PORT),
                              .sin6_scope_id = i->index};
    // ff02::1:2, all DHCP relay agents and servers (RFC 8415 section 7.1).
    static const u8 servers[16] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2};
    memcpy(&to.sin6_addr, servers, 16);
    // EADDRNOTAVAIL: no usable link-local address yet; as good as a lost packet.
    if (sendto(i->dhcp6.fd, data, len, 0, (struct sockaddr *)&to, sizeof(to)) < 0 &&
        errno != EADDRNOTAVAIL && errno != ENETDOWN && errno != ENETUNREACH)
        init_warn("net: %s: a DHCPv6 packet could not be sent: %s", i->link.name, errno_name(errno));
}

static void op_apply(void *context, const dhcp6_lease *lease) {
    net_apply_lease6(iface_of(context), lease);
}

static void op_drop(void *context, const char *why) {
    net_remove_lease6(iface_of(context), why);
}

static void op_timer(void *context, u64 ms) {
    init_timer_set(&iface_of(context)->dhcp6.timer, ms);
}

static void op_say(void *context, bool warning, const char *text) {
    init_log(warning ? LOG_WARN : LOG_INFO, "net: %s: DHCPv6: %s", iface_of(context)->link.name, text);
}

static u32 op_random(void *context) {
    u32 value = 0;
    (void)context;
    if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
        value = (u32)(clock_mono_ns() * 2654435761u);
    return value;
}

static const dhcp6_ops ops = {op_send, op_apply, op_drop, op_timer, op_say, op_random};

static void on_timer(init_timer *t) {
    dhcp6_timer(&CONTAINER_OF(t, net_iface, dhcp6.timer)->dhcp6.client, now_ms());
}

void net_dhcp6_start(net_iface *i, bool address, bool information) {
    net_dhcp6 *d = &i->dhcp6;
    if (d->running || (!address && !information)) return;
    int fd = open_socket(i);
    if (fd < 0) {
        init_warn("net: %s: no socket for DHCPv6: %s", i->link.name, errno_name(fd));
        return;
    }
    *d = (net_dhcp6){.running = true, .fd = fd};
    d->watch = (init_watch){.name = "dhcp6", .on_ready = on_ready, .fd = fd};
    d->timer = (init_timer){.name = "dhcp6", .on_fire = on_timer};
    int rc = init_loop_watch(&d->watch, EPOLLIN);
    if (rc != 0) init_warn("net: %s: DHCPv6 can not be watched: %s", i->link.name, errno_name(rc));
    dhcp6_init(&d->client, &ops, i, i->link.mac);
    dhcp6_start(&d->client, address, now_ms());
}

void net_dhcp6_link_up(net_iface *i) {
    if (i->dhcp6.running) dhcp6_link_up(&i->dhcp6.client, now_ms());
}

void net_dhcp6_stop(net_iface *i, const char *why) {
    if (!i->dhcp6.running) return;
    dhcp6_stop(&i->dhcp6.client, why);
    init_timer_clear(&i->dhcp6.timer);
    init_loop_unwatch(&i->dhcp6.watch);
    close(i->dhcp6.fd);
    i->dhcp6.running = false;
}
