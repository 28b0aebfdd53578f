// SPDX-License-Identifier: Apache-2.0
// net_start.c: interfaces as they come, change and go: each gets the block that names it most exactly, and
// what follows (addresses, clients, layout) is started, restarted or taken away from here. Events of the
// kernel are the only source: what they say is stored first, then compared with what should be.
//
// An interface without a block stays down when there are blocks; without any block every Ethernet
// interface gets DHCP and autoconfiguration. Interfaces that belong to another one (a virtual function
// behind Hyper-V's netvsc, a port of a bridge) are left alone.
#include "init/net_start.h"

#include <errno.h>
#include <linux/if_arp.h>
#include <linux/ipv6.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/config_collect.h"
#include "init/control.h"
#include "init/init_log.h"
#include "init/layout.h"
#include "init/metadata.h"
#include "init/net_iface.h"
#include "init/sysctl_table.h"

#ifndef IF_RA_MANAGED // net/if_inet6.h of the kernel; not in its user-space headers
#define IF_RA_OTHERCONF 0x80
#define IF_RA_MANAGED 0x40
#endif
#define LAYOUT_DELAY_MS 250u  // one layout for all that come up together; and the gateway starts first
#define NO_NIC_MS 5000u

net_state net; // rtnl_open() marks the sockets as not there

net_iface *net_iface_find(u32 index) {
    for (u32 n = 0; n < LIMIT_NET_IFACES && index != 0; n++) {
        if (net.ifaces[n].index == index) return &net.ifaces[n];
    }
    return NULL;
}

// --- which block ---

static bool is_candidate(const rtnl_link *l) {
    return l->type == ARPHRD_ETHER && l->has_mac && !l->enslaved;
}

// Without blocks: devices, and the virtual ones that containers and tests have for devices.
static bool is_default_candidate(const rtnl_link *l) {
    static const char *const kinds[] = {"", "veth", "macvlan", "ipvlan"};
    for (u32 k = 0; k < ARRAY_LEN(kinds); k++) {
        if (strcmp(l->kind, kinds[k]) == 0) return is_candidate(l);
    }
    return false;
}

static const network_config *find_block(const net_iface *i) {
    network_candidate c = {.name = i->link.name, .driver = i->driver};
    const network_config *best = NULL;
    int best_rank = 0;
    memcpy(c.mac, i->link.mac, sizeof(c.mac));
    for (u32 k = 0; k < net.block_count; k++) {
        const network_config *b = &net.blocks[k];
        if (i->link.vlan != 0 || b->vlan != 0) {
            if (i->link.vlan == b->vlan && strcmp(i->link.name, b->name) == 0) return b;
            continue;
        }
        int rank = network_match_rank(b->match, &c);
        if (rank == 1 && !is_default_candidate(&i->link)) rank = 0;
        if (rank <= best_rank) continue;
        best = b;
        best_rank = rank;
    }
    return best;
}

static bool is_taken(const net_iface *self, const network_config *b) {
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        if (i != self && i->index != 0 && i->enabled && strcmp(i->block.name, b->name) == 0) return true;
    }
    return false;
}

// VLAN interfaces that blocks ask for on this one.
static void add_vlans(net_iface *i) {
    network_candidate c = {.name = i->link.name, .driver = i->driver};
    memcpy(c.mac, i->link.mac, sizeof(c.mac));
    for (u32 k = 0; k < net.block_count; k++) {
        const network_config *b = &net.blocks[k];
        bool wanted = b->vlan != 0 && i->link.vlan == 0 && is_default_candidate(&i->link) &&
                      network_match_rank(b->match, &c) > 0;
        if (!wanted) continue;
        if (!i->link.up) rtnl_link_up(&net.netlink, i->index, true);
        int rc = rtnl_vlan_add(&net.netlink, i->index, (u16)b->vlan, b->name);
        if (rc != 0)
            init_warn("net: %s: can not add VLAN %u as %s: %s", i->link.name, b->vlan, b->name,
                      errno_name(rc));
    }
}

static void assign(net_iface *i) {
    if (!net.configured || !is_candidate(&i->link)) return;
    add_vlans(i);
    const network_config *b = find_block(i);
    if (b != NULL && b->address[0] != '\0' && is_taken(i, b)) {
        init_warn("net: %s: block %s has static addresses and is used by another interface already; %s is "
                  "left out", i->link.name, b->name, i->link.name);
        b = NULL;
    }
    i->ours = b != NULL;
    if (i->enabled && b != NULL && memcmp(&i->block, b, sizeof(*b)) == 0) return;
    net_remove_block(i);
    if (b == NULL) return;
    i->block = *b;
    init_info("net: %s (%s, %02x:%02x:%02x:%02x:%02x:%02x): block %s", i->link.name,
              i->driver[0] != '\0' ? i->driver : i->link.kind[0] != '\0' ? i->link.kind : "-",
              i->link.mac[0], i->link.mac[1], i->link.mac[2], i->link.mac[3], i->link.mac[4],
              i->link.mac[5], b->name);
    net_apply_block(i);
}

// --- state ---

bool net_iface_has_address(const net_iface *i, bool globally) {
    for (u32 k = 0; k < i->address_count; k++) {
        const rtnl_address *a = &i->addresses[k];
        bool local = a->address.family == AF_INET6 && a->address.bytes[0] == 0xfe &&
                     (a->address.bytes[1] & 0xc0) == 0x80;
        if (!a->tentative && !a->failed && !(local && globally)) return true;
    }
    return false;
}

static bool is_up(const net_iface *i) {
    return i->index != 0 && i->enabled && i->link.carrier && net_iface_has_address(i, true);
}

const char *net_iface_status(const net_iface *i) {
    if (!i->ours) return "unused";
    if (!i->link.up) return "down";
    if (!i->link.carrier) return "no-carrier";
    return is_up(i) ? "up" : "configuring";
}

bool init_net_is_up(void) {
    bool address = false, route = false;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        if (!is_up(i)) continue;
        address = true;
        route = route || i->default4 || i->default6;
    }
    return address && route;
}

void net_update_up(void) {
    bool changed = false;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        net_iface *i = &net.ifaces[n];
        bool now = is_up(i) && (i->default4 || i->default6);
        if (i->index != 0 && now != i->was_up) changed = true;
        i->was_up = now;
        if (now) init_timer_clear(&i->report);
    }
    net.up = init_net_is_up();
    if (!changed || !net.up) return;
    init_network_up();
    init_config_network_up();
}

// What is missing, said once when it has been missing for a while.
static void on_report(init_timer *t) {
    const net_iface *i = CONTAINER_OF(t, net_iface, report);
    if (!i->enabled || is_up(i)) return;
    if (!i->link.carrier) {
        init_warn("net: %s: no carrier: is the cable in?", i->link.name);
    } else if (i->dhcp4.running && !i->dhcp4.client.in_force) {
        init_warn("net: %s: no address: no DHCP server has answered %llu requests (%s); it goes on asking",
                  i->link.name, (unsigned long long)i->dhcp4.client.sent,
                  dhcp4_state_name(i->dhcp4.client.state));
    } else {
        init_warn("net: %s: no address yet", i->link.name);
    }
}

static void warn_same_network(const net_iface *self, const rtnl_address *a) {
    char text[NETWORK_TEXT_BYTES];
    if (a->address.family != AF_INET || a->address.prefix >= 31) return;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        for (u32 k = 0; i != self && i->index != 0 && k < i->address_count; k++) {
            if (!network_contains(&a->address, &i->addresses[k].address)) continue;
            init_warn("net: %s and %s are in one network (%s): packets to it leave by %s only",
                      i->link.name, self->link.name, network_print(&a->address, true, text),
                      i->number < self->number ? i->link.name : self->link.name);
            return;
        }
    }
}

// --- events ---

static void on_layout(init_timer *t) {
    (void)t;
    layout_run();
}

static void on_assign(init_timer *t) {
    (void)t;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        if (net.ifaces[n].index != 0) assign(&net.ifaces[n]);
    }
}

static net_iface *slot_for(const rtnl_link *l) {
    static u32 number;
    net_iface *i = net_iface_find(l->index);
    for (u32 n = 0; n < LIMIT_NET_IFACES && i == NULL; n++) {
        if (net.ifaces[n].index != 0) continue;
        i = &net.ifaces[n];
        memset(i, 0, sizeof(*i));
        i->index = l->index;
        i->number = number++ % NET_METRIC_STATIC;
        i->report = (init_timer){.name = "net report", .on_fire = on_report};
        i->dhcp4.raw_fd = i->dhcp4.udp_fd = -1;
    }
    return i;
}

static void read_driver(net_iface *i) {
    char path[96], target[256];
    snprintf(path, sizeof(path), "/sys/class/net/%s/device/driver", i->link.name);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    i->driver[0] = '\0';
    if (n <= 0) return;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(i->driver, sizeof(i->driver), "%.31s", slash != NULL ? slash + 1 : target);
}

static void forget(net_iface *i) {
    if (i->enabled) init_warn("net: %s is gone", i->link.name);
    net_remove_block(i);
    i->index = 0;
    net_resolv_update();
    net_update_up();
}

// The flags of the last router advertisement decide about DHCPv6 (RFC 4861 section 4.2).
static void follow_advertisement(net_iface *i, u32 flags) {
    bool address = (flags & IF_RA_MANAGED) != 0, information = (flags & IF_RA_OTHERCONF) != 0;
    if (!i->enabled || i->block.dhcp6 != NETWORK_DHCP6_AUTO || !i->block.slaac) return;
    if (address || information) net_dhcp6_start(i, address, information);
}

static void carrier_changed(net_iface *i) {
    i->carrier_changes++;
    if (!i->enabled) return;
    init_info("net: %s: carrier %s", i->link.name, i->link.carrier ? "there" : "lost");
    net_dhcp4_link(i, i->link.carrier);
    if (i->link.carrier) {
        net_dhcp6_link_up(i);
        init_timer_set(&i->report, NET_REPORT_MS);
        init_timer_set(&net.layout_timer, LAYOUT_DELAY_MS);
        if (i->block.dhcp6 == NETWORK_DHCP6_ON) net_dhcp6_start(i, true, true);
    }
    net_update_up();
}

static void on_link(void *context, const rtnl_link *l, bool added) {
    (void)context;
    net_iface *known = net_iface_find(l->index);
    if (l->type == ARPHRD_LOOPBACK) return;
    if (!added) {
        if (known != NULL) forget(known);
        return;
    }
    if (l->inet6_only && known == NULL) return;
    net_iface *i = slot_for(l);
    if (i == NULL) {
        init_warn("net: more than %d interfaces: %s is left out", LIMIT_NET_IFACES, l->name);
        return;
    }
    bool had_carrier = known != NULL && known->link.carrier;
    if (!l->inet6_only) {
        u32 flags = l->has_inet6_flags ? l->inet6_flags : i->link.inet6_flags;
        i->link = *l;
        i->link.inet6_flags = flags;
    }
    if (known == NULL) {
        read_driver(i);
        if (net.configured && is_candidate(l)) init_timer_set(&net.layout_timer, LAYOUT_DELAY_MS);
    }
    bool has_carrier = i->link.carrier;
    if (!i->enabled || known == NULL) assign(i);
    if (known != NULL && had_carrier != has_carrier) carrier_changed(i);
    if (l->has_inet6_flags) follow_advertisement(i, l->inet6_flags);
}

static void on_address(void *context, const rtnl_address *a, bool added) {
    (void)context;
    net_iface *i = net_iface_find(a->index);
    u32 at = 0;
    if (i == NULL) return;
    while (at < i->address_count && !network_is_same(&i->addresses[at].address, &a->address)) at++;
    if (!added) {
        if (at < i->address_count) i->addresses[at] = i->addresses[--i->address_count];
    } else if (at < i->address_count) {
        i->addresses[at] = *a;
    } else if (i->address_count < LIMIT_NET_ADDRESSES) {
        warn_same_network(i, a);
        i->addresses[i->address_count++] = *a;
    }
    if (a->failed && added) {
        char text[NETWORK_TEXT_BYTES];
        init_warn("net: %s: %s is used by another device on the link too: it is not used here",
                  i->link.name, network_print(&a->address, false, text));
    }
    net_update_up();
}

static void on_route(void *context, const rtnl_route_info *r, bool added) {
    (void)context;
    net_iface *i = net_iface_find(r->index);
    if (i == NULL || !r->is_default) return;
    if (r->family == AF_INET) {
        i->default4 = added;
        i->gateway4 = added ? r->via : (net_addr){0};
    } else if (r->family == AF_INET6) {
        i->default6 = added;
        i->gateway6 = added ? r->via : (net_addr){0};
    }
    net_update_up();
}

static void on_rdnss(void *context, const rtnl_rdnss *r) {
    (void)context;
    net_iface *i = net_iface_find(r->index);
    if (i == NULL || !i->enabled || !i->block.slaac) return;
    i->ra_dns_count = r->lifetime_s == 0 ? 0 : r->count;
    memcpy(i->ra_dns, r->servers, sizeof(i->ra_dns));
    net_resolv_update();
}

static const rtnl_callbacks callbacks = {on_link, on_address, on_route, on_rdnss};

static void on_events(init_watch *w, u32 events) {
    (void)w;
    (void)events;
    int rc = rtnl_read_events(&net.netlink, &callbacks, NULL);
    if (rc == 0) return;
    // Some were lost: everything is asked for again; what is gone meanwhile shows at its next use.
    init_warn("net: events of the kernel were lost (%s): all interfaces are read again", errno_name(rc));
    rc = rtnl_dump(&net.netlink, &callbacks, NULL);
    if (rc != 0) init_warn("net: can not read the interfaces: %s", errno_name(rc));
}

// --- start ---

static void on_no_nic(init_timer *t) {
    (void)t;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        if (net.ifaces[n].index != 0 && net.ifaces[n].ours) return;
    }
    init_warn("net: no interface to use: %s", net.by_default ? "no Ethernet device was found by the kernel"
                                                             : "no network block matches one that is there");
}

int init_net_start(void) {
    static init_timer no_nic = {.name = "net none", .on_fire = on_no_nic};
    sysctl_apply();
    int rc = rtnl_open(&net.netlink);
    if (rc != 0) {
        init_error("net: no rtnetlink: %s (%s): no network", strerror(-rc), errno_name(rc));
        net_report_register();
        return rc;
    }
    net.open = true;
    net.events = (init_watch){.name = "rtnetlink", .on_ready = on_events, .fd = net.netlink.event_fd};
    net.layout_timer = (init_timer){.name = "layout", .on_fire = on_layout};
    net.assign_timer = (init_timer){.name = "net configure", .on_fire = on_assign};
    rc = rtnl_link_up(&net.netlink, 1, true); // the loopback is always the first
    if (rc != 0) init_warn("net: can not bring the loopback up: %s", errno_name(rc));
    rc = init_loop_watch(&net.events, EPOLLIN);
    if (rc == 0) rc = rtnl_dump(&net.netlink, &callbacks, NULL);
    if (rc != 0) init_error("net: can not read the interfaces: %s", errno_name(rc));
    net_report_register();
    init_timer_set(&no_nic, NO_NIC_MS);
    return rc;
}

void init_net_configure(const config *c) {
    static const network_config everything = {.name = "default", .match = "any", .dhcp4 = true,
                                              .slaac = true, .dhcp6 = NETWORK_DHCP6_AUTO};
    net.block_count = c->network_count;
    memcpy(net.blocks, c->networks, sizeof(net.blocks));
    net.by_default = net.block_count == 0;
    if (net.by_default) net.blocks[net.block_count++] = everything;
    net.configured = true;
    if (!net.open) return;
    // In the loop's next turn: bringing a card up takes longer than starting the gateway, which is started in this one.
    init_timer_set(&net.assign_timer, 0);
    // Moving interrupts and steering costs as much as the rest of the start: not in the gateway's way.
    init_timer_set(&net.layout_timer, LAYOUT_DELAY_MS);
}

void init_net_stop(void) {
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        net_iface *i = &net.ifaces[n];
        if (i->index == 0 || !i->enabled) continue;
        // The addresses stay: a drain still sends, and their leases end by themselves.
        i->dhcp4.client.in_force = i->dhcp6.client.in_force = false;
        net_dhcp4_stop(i, "shutdown");
        net_dhcp6_stop(i, "shutdown");
        init_timer_clear(&i->report);
    }
    init_timer_clear(&net.layout_timer);
    init_timer_clear(&net.assign_timer);
    metadata_stop();
    if (!net.open) return;
    init_loop_unwatch(&net.events);
    rtnl_close(&net.netlink);
    net.open = false;
}
