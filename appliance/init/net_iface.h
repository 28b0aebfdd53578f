// SPDX-License-Identifier: Apache-2.0
// net_iface.h: the interfaces as init knows them; shared by the net_*.c files, which are one module cut
// by concern: net_start.c (events and configuration), net_apply.c (a block or a lease put into force),
// net_dhcp4.c and net_dhcp6.c (the clients on their sockets), net_resolv.c (name and time servers),
// net_report.c (the request "net").
//
// Invariants: a slot belongs to the interface with its index until the kernel says that it is gone; what
// was put into force for a slot is remembered in it, so that it can be taken away again.
#ifndef SLUICE_INIT_NET_IFACE_H
#define SLUICE_INIT_NET_IFACE_H

#include "conf/network.h"
#include "init/dhcp4.h"
#include "init/dhcp6.h"
#include "init/loop.h"
#include "init/net_rtnl.h"

#define NET_METRIC_STATIC 50u // + the interface's number
#define NET_METRIC_DHCP 100u
#define NET_METRIC_RA 200u
#define NET_REPORT_MS 10000u  // without an address for so long: the log says what is missing
#define NET_DRIVER_BYTES 32u

typedef struct net_dhcp4 {
    bool running, applied;
    int raw_fd, udp_fd;
    init_watch raw_watch, udp_watch;
    init_timer timer;
    dhcp4 client;
    dhcp4_lease lease; // as applied
} net_dhcp4;

typedef struct net_dhcp6 {
    bool running, applied;
    int fd;
    init_watch watch;
    init_timer timer;
    dhcp6 client;
    dhcp6_lease lease; // as applied
} net_dhcp6;

typedef struct net_iface {
    u32 index; // 0 = free slot
    u32 number;
    rtnl_link link;
    char driver[NET_DRIVER_BYTES];
    bool ours;      // a block is for it
    bool enabled;   // the block is in force
    network_config block;
    u64 carrier_changes;
    rtnl_address addresses[LIMIT_NET_ADDRESSES];
    u32 address_count;
    bool default4, default6; // a default route leaves by it
    net_addr gateway4, gateway6;
    net_addr ra_dns[RTNL_RDNSS_MAX];
    u32 ra_dns_count;
    u32 mtu_before; // what the driver had, when a lease changed it; 0 = not
    bool was_up;
    init_timer report;
    net_dhcp4 dhcp4;
    net_dhcp6 dhcp6;
} net_iface;

typedef struct net_state {
    rtnl netlink;
    bool open, configured, up;
    bool by_default; // there are no blocks: one for every interface stands in
    init_watch events;
    init_timer layout_timer, assign_timer;
    u32 block_count;
    network_config blocks[LIMIT_NETWORKS_MAX];
    net_iface ifaces[LIMIT_NET_IFACES];
} net_state;
extern net_state net;

// The slot of an index, or NULL.
net_iface *net_iface_find(u32 index);
// Address and route of this kind are there.
bool net_iface_has_address(const net_iface *i, bool globally);
// A word for people and machines: "no-carrier", "configuring", "up", "unused", "down".
const char *net_iface_status(const net_iface *i);

// net_apply.c
void net_apply_block(net_iface *i);  // the block in i->block
void net_remove_block(net_iface *i); // everything that it had put into force
void net_apply_lease4(net_iface *i, const dhcp4_lease *lease, u64 seconds_left);
void net_remove_lease4(net_iface *i, const char *why);
void net_apply_lease6(net_iface *i, const dhcp6_lease *lease);
void net_remove_lease6(net_iface *i, const char *why);
// Writes a setting below /proc/sys/net/ipv6/conf/IFACE/.
void net_set_ipv6(const net_iface *i, const char *name, u32 value);

// net_dhcp4.c, net_dhcp6.c
void net_dhcp4_start(net_iface *i);
void net_dhcp4_stop(net_iface *i, const char *why);
void net_dhcp4_link(net_iface *i, bool up);
void net_dhcp6_start(net_iface *i, bool address, bool information);
void net_dhcp6_link_up(net_iface *i);
void net_dhcp6_stop(net_iface *i, const char *why);

// net_resolv.c
void net_resolv_update(void); // resolv.conf and the clock's servers, when they have changed
extern const char *net_resolv_path;

// net_start.c: after anything that may have made the network usable, or ended that.
void net_update_up(void);

// net_report.c
void net_report_register(void);

#endif
