// SPDX-License-Identifier: Apache-2.0
// net_rtnl.h: rtnetlink (rtnetlink(7)), as much of it as an appliance needs: links, addresses, routes,
// VLANs; and what the kernel tells unasked. Two sockets: one for requests, each answered before the call
// returns (the kernel answers in the call itself), one for events, read on init's loop.
#ifndef SLUICE_INIT_NET_RTNL_H
#define SLUICE_INIT_NET_RTNL_H

#include "conf/network.h"

#define RTNL_NAME_BYTES 16u
#define RTNL_KIND_BYTES 16u
#define RTNL_RDNSS_MAX 4u

typedef struct rtnl_link {
    u32 index, parent; // parent: of a VLAN
    u32 mtu;
    u32 inet6_flags; // IF_RA_MANAGED ..., of the last router advertisement
    u16 type;        // ARPHRD_ETHER
    u16 vlan;
    bool up, carrier, has_mac, has_inet6_flags;
    bool inet6_only; // the message was about inet6_flags alone: kind, vlan and enslaved are not in it
    bool enslaved; // has a master: a virtual function behind its netvsc, a port of a bridge
    u8 mac[6];
    char name[RTNL_NAME_BYTES];
    char kind[RTNL_KIND_BYTES]; // "vlan", "veth"; "" = a device
} rtnl_link;

typedef struct rtnl_address {
    u32 index;
    net_addr address;
    bool permanent;   // not from a router advertisement or DHCP
    bool tentative, failed; // IPv6: duplicate address detection under way, or it found one
    u32 valid_s;      // UINT32_MAX = for ever
} rtnl_address;

typedef struct rtnl_route_info {
    u32 index;
    bool is_default;
    u8 family, protocol; // RTPROT_RA ...
    u32 metric;
    net_addr via;
} rtnl_route_info;

typedef struct rtnl_rdnss {
    u32 index, count, lifetime_s;
    net_addr servers[RTNL_RDNSS_MAX];
} rtnl_rdnss;

// What is found in messages; added false = it is gone. A callback that is NULL is not called.
typedef struct rtnl_callbacks {
    void (*link)(void *context, const rtnl_link *l, bool added);
    void (*address)(void *context, const rtnl_address *a, bool added);
    void (*route)(void *context, const rtnl_route_info *r, bool added);
    void (*rdnss)(void *context, const rtnl_rdnss *r); // RFC 8106
} rtnl_callbacks;

typedef struct rtnl {
    int request_fd, event_fd;
    u32 sequence;
} rtnl;

int rtnl_open(rtnl *r); // 0 or -errno
void rtnl_close(rtnl *r);

// All links, then all addresses, then all routes, through the callbacks. 0 or -errno.
int rtnl_dump(rtnl *r, const rtnl_callbacks *callbacks, void *context);
// Reads events until there are none. 0, -ENOBUFS when some were lost (dump again), or -errno.
int rtnl_read_events(rtnl *r, const rtnl_callbacks *callbacks, void *context);
// Pure: the messages in a buffer, as the kernel sent them. For the two above and for tests.
void rtnl_parse(const void *data, size_t len, const rtnl_callbacks *callbacks, void *context);

// Requests: 0 or -errno, the kernel's own answer.
int rtnl_link_up(rtnl *r, u32 index, bool up);
int rtnl_link_mtu(rtnl *r, u32 index, u32 mtu);
int rtnl_vlan_add(rtnl *r, u32 parent, u16 id, const char *name);
int rtnl_link_delete(rtnl *r, u32 index);
// valid_s UINT32_MAX: for ever. metric: of the route to the address's own network. Set again to move its end.
int rtnl_address_set(rtnl *r, u32 index, const net_addr *a, u32 valid_s, u32 metric);
int rtnl_address_delete(rtnl *r, u32 index, const net_addr *a);
// via family 0: on the link. onlink: via need not be in a network of ours.
int rtnl_route_set(rtnl *r, u32 index, const net_route *route, u32 metric, bool onlink);
int rtnl_route_delete(rtnl *r, u32 index, const net_route *route, u32 metric);

#endif
