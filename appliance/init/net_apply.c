// SPDX-License-Identifier: Apache-2.0
// net_apply.c: a block of the configuration, or a lease, put into force on an interface, and taken away
// again. Each request to the kernel that fails is logged with what it was for; the rest goes on, since half
// a network is better than none.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init_log.h"
#include "init/net_iface.h"

static void check(const net_iface *i, int rc, const char *what, const char *detail) {
    if (rc == 0) return;
    init_warn("net: %s: can not %s %s: %s (%s)", i->link.name, what, detail, strerror(-rc),
              errno_name(rc));
}

void net_set_ipv6(const net_iface *i, const char *name, u32 value) {
    char path[128], text[16];
    snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", i->link.name, name);
    int len = snprintf(text, sizeof(text), "%u", value);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return; // IPv6 is off in this kernel, or the setting is not in it
    if (write(fd, text, (size_t)len) < 0)
        init_warn("net: %s: can not write %s: %s", i->link.name, path, strerror(errno));
    close(fd);
}

static void route_text(const net_route *r, char out[2 * NETWORK_TEXT_BYTES + 8]) {
    char to[NETWORK_TEXT_BYTES], via[NETWORK_TEXT_BYTES];
    snprintf(out, 2 * NETWORK_TEXT_BYTES + 8, "%s via %s", network_print(&r->to, true, to),
             network_print(&r->via, false, via));
}

static void set_route(net_iface *i, const net_route *r, u32 metric, bool onlink) {
    char text[2 * NETWORK_TEXT_BYTES + 8];
    route_text(r, text);
    check(i, rtnl_route_set(&net.netlink, i->index, r, metric, onlink), "set the route", text);
}

static void set_address(net_iface *i, const net_addr *a, u32 valid_s, u32 metric) {
    char text[NETWORK_TEXT_BYTES];
    check(i, rtnl_address_set(&net.netlink, i->index, a, valid_s, metric), "set the address",
          network_print(a, true, text));
}

// The kernel's own host routes of a network, given a prefix: the bits behind it must be zero.
static void mask_route(net_addr *to) {
    u32 bits = to->family == AF_INET ? 32 : 128;
    for (u32 bit = to->prefix; bit < bits; bit++) to->bytes[bit / 8] &= (u8)~(0x80 >> (bit % 8));
}

// --- static settings ---

static bool is_in_own_network(const net_addr *own, int count, const net_addr *via) {
    for (int k = 0; k < count; k++) {
        if (network_contains(&own[k], via)) return true;
    }
    return false;
}

static void apply_static(net_iface *i) {
    net_addr own[NETWORK_LIST_MAX], gateways[NETWORK_LIST_MAX];
    net_route routes[NETWORK_LIST_MAX];
    u32 metric = NET_METRIC_STATIC + i->number;
    int count = network_parse_prefixes(i->block.address, own);
    for (int k = 0; k < count; k++) set_address(i, &own[k], UINT32_MAX, metric);
    int n = network_parse_addresses(i->block.gateway, gateways);
    for (int k = 0; k < n; k++) {
        net_route r = {.to = {.family = gateways[k].family}, .via = gateways[k]};
        set_route(i, &r, metric, !is_in_own_network(own, count, &gateways[k]));
    }
    n = network_parse_routes(i->block.routes, routes);
    for (int k = 0; k < n; k++) {
        mask_route(&routes[k].to);
        set_route(i, &routes[k], metric, false);
    }
}

static void remove_static(net_iface *i) {
    net_addr own[NETWORK_LIST_MAX], gateways[NETWORK_LIST_MAX];
    net_route routes[NETWORK_LIST_MAX];
    u32 metric = NET_METRIC_STATIC + i->number;
    int n = network_parse_routes(i->block.routes, routes);
    for (int k = 0; k < n; k++) {
        mask_route(&routes[k].to);
        rtnl_route_delete(&net.netlink, i->index, &routes[k], metric);
    }
    n = network_parse_addresses(i->block.gateway, gateways);
    for (int k = 0; k < n; k++) {
        net_route r = {.to = {.family = gateways[k].family}, .via = gateways[k]};
        rtnl_route_delete(&net.netlink, i->index, &r, metric);
    }
    n = network_parse_prefixes(i->block.address, own);
    for (int k = 0; k < n; k++) rtnl_address_delete(&net.netlink, i->index, &own[k]);
}

// Router advertisements are the kernel's work. Before the interface goes up: the first one comes at once.
static void apply_ipv6(net_iface *i) {
    net_set_ipv6(i, "accept_ra", i->block.slaac ? 1 : 0);
    net_set_ipv6(i, "autoconf", i->block.slaac ? 1 : 0);
    net_set_ipv6(i, "use_tempaddr", 0); // a server's address must not wander
    net_set_ipv6(i, "ra_defrtr_metric", NET_METRIC_RA + i->number);
    net_set_ipv6(i, "accept_redirects", 0);
}

void net_apply_block(net_iface *i) {
    char detail[48];
    if (i->block.mtu != 0 && i->block.mtu != i->link.mtu) {
        snprintf(detail, sizeof(detail), "%u", i->block.mtu);
        check(i, rtnl_link_mtu(&net.netlink, i->index, i->block.mtu), "set the MTU", detail);
    }
    apply_ipv6(i);
    check(i, rtnl_link_up(&net.netlink, i->index, true), "bring it", "up");
    apply_static(i);
    i->enabled = true;
    if (i->block.dhcp4) net_dhcp4_start(i);
    if (i->block.dhcp6 == NETWORK_DHCP6_ON) net_dhcp6_start(i, true, true);
    init_timer_set(&i->report, NET_REPORT_MS);
    net_resolv_update();
}

void net_remove_block(net_iface *i) {
    if (!i->enabled) return;
    net_dhcp4_stop(i, "another configuration");
    net_dhcp6_stop(i, "another configuration");
    remove_static(i);
    init_timer_clear(&i->report);
    i->enabled = false;
    i->ra_dns_count = 0;
}

// --- DHCPv4 ---

static net_addr addr4(const u8 bytes[4], u8 prefix) {
    net_addr a = {.family = AF_INET, .prefix = prefix};
    memcpy(a.bytes, bytes, 4);
    return a;
}

static net_route lease_route(const dhcp4_route *from) {
    static const u8 zero[4];
    net_route r = {.to = addr4(from->to, from->prefix)};
    mask_route(&r.to);
    if (memcmp(from->via, zero, 4) != 0) r.via = addr4(from->via, 32);
    return r;
}

static void set_lease_routes(net_iface *i, const dhcp4_lease *l) {
    net_addr own = addr4(l->address, l->prefix);
    // On-link routes first: a later one's next hop may depend on them (a /32 with its router).
    for (u32 pass = 0; pass < 2; pass++) {
        for (u32 k = 0; k < l->route_count; k++) {
            net_route r = lease_route(&l->routes[k]);
            bool direct = r.via.family == 0;
            if (direct != (pass == 0)) continue;
            set_route(i, &r, NET_METRIC_DHCP + i->number,
                      !direct && !network_contains(&own, &r.via));
        }
    }
}

static void set_lease_mtu(net_iface *i, const dhcp4_lease *l) {
    char detail[16];
    if (i->block.mtu != 0 || l->mtu == 0 || l->mtu == i->link.mtu) return;
    if (i->mtu_before == 0) i->mtu_before = i->link.mtu;
    snprintf(detail, sizeof(detail), "%u", l->mtu);
    check(i, rtnl_link_mtu(&net.netlink, i->index, l->mtu), "set the MTU of DHCP", detail);
}

void net_apply_lease4(net_iface *i, const dhcp4_lease *l, u64 seconds_left) {
    char address[NETWORK_TEXT_BYTES], server[NETWORK_TEXT_BYTES], router[NETWORK_TEXT_BYTES] = "none";
    net_addr own = addr4(l->address, l->prefix), from = addr4(l->server, 32);
    bool same = i->dhcp4.applied && memcmp(&i->dhcp4.lease, l, sizeof(*l)) == 0;
    u32 valid_s = seconds_left >= DHCP4_FOREVER_S ? UINT32_MAX : (u32)seconds_left;
    if (i->dhcp4.applied && !same) { // routes that the new lease does not have
        for (u32 k = 0; k < i->dhcp4.lease.route_count; k++) {
            net_route r = lease_route(&i->dhcp4.lease.routes[k]);
            rtnl_route_delete(&net.netlink, i->index, &r, NET_METRIC_DHCP + i->number);
        }
    }
    set_address(i, &own, valid_s, NET_METRIC_DHCP + i->number);
    i->dhcp4.lease = *l;
    i->dhcp4.applied = true;
    if (same) return;
    set_lease_mtu(i, l);
    set_lease_routes(i, l);
    for (u32 k = 0; k < l->route_count; k++) {
        net_route r = lease_route(&l->routes[k]);
        if (r.to.prefix == 0) network_print(&r.via, false, router);
    }
    init_info("net: %s: address %s from DHCP server %s, router %s, lease %s%u s", i->link.name,
              network_print(&own, true, address), network_print(&from, false, server), router,
              l->lease_s == DHCP4_FOREVER_S ? "without end, " : "", valid_s);
    net_resolv_update();
    net_update_up();
}

void net_remove_lease4(net_iface *i, const char *why) {
    char address[NETWORK_TEXT_BYTES], detail[16];
    if (!i->dhcp4.applied) return;
    net_addr own = addr4(i->dhcp4.lease.address, i->dhcp4.lease.prefix);
    init_warn("net: %s: address %s is given up: %s", i->link.name, network_print(&own, true, address), why);
    for (u32 k = 0; k < i->dhcp4.lease.route_count; k++) {
        net_route r = lease_route(&i->dhcp4.lease.routes[k]);
        rtnl_route_delete(&net.netlink, i->index, &r, NET_METRIC_DHCP + i->number);
    }
    check(i, rtnl_address_delete(&net.netlink, i->index, &own), "remove the address", address);
    if (i->mtu_before != 0) {
        snprintf(detail, sizeof(detail), "%u", i->mtu_before);
        check(i, rtnl_link_mtu(&net.netlink, i->index, i->mtu_before), "set the MTU back to", detail);
        i->mtu_before = 0;
    }
    i->dhcp4.applied = false;
    net_resolv_update();
    net_update_up();
}

// --- DHCPv6 ---

// The router comes from its advertisement, the length of the network too: /128 here (RFC 5942).
void net_apply_lease6(net_iface *i, const dhcp6_lease *l) {
    char address[NETWORK_TEXT_BYTES];
    net_addr own = {.family = AF_INET6, .prefix = 128};
    memcpy(own.bytes, l->address, 16);
    bool same = i->dhcp6.applied && memcmp(&i->dhcp6.lease, l, sizeof(*l)) == 0;
    i->dhcp6.lease = *l;
    i->dhcp6.applied = true;
    if (l->has_address) set_address(i, &own, l->valid_s, NET_METRIC_DHCP + i->number);
    if (same) return;
    if (l->has_address) {
        init_info("net: %s: address %s from DHCPv6, valid for %u s", i->link.name,
                  network_print(&own, false, address), l->valid_s);
    }
    net_resolv_update();
    net_update_up();
}

void net_remove_lease6(net_iface *i, const char *why) {
    char address[NETWORK_TEXT_BYTES];
    net_addr own = {.family = AF_INET6, .prefix = 128};
    if (!i->dhcp6.applied) return;
    memcpy(own.bytes, i->dhcp6.lease.address, 16);
    if (i->dhcp6.lease.has_address) {
        init_warn("net: %s: address %s is given up: %s", i->link.name,
                  network_print(&own, false, address), why);
        check(i, rtnl_address_delete(&net.netlink, i->index, &own), "remove the address", address);
    }
    i->dhcp6.applied = false;
    net_resolv_update();
    net_update_up();
}
