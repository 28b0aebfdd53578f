// SPDX-License-Identifier: Apache-2.0
// dhcp4_packet.h: DHCPv4 messages as bytes (RFC 2131, options of RFC 2132, 3442 and 3396). No I/O: built
// into and read from the caller's memory. Whatever a server sends, a lease that comes out is usable: an
// address that a host may have, times in order (T1 < T2 < lease), lists within their bounds.
#ifndef SLUICE_INIT_DHCP4_PACKET_H
#define SLUICE_INIT_DHCP4_PACKET_H

#include "base/base.h"

#define DHCP4_SERVER_PORT 67
#define DHCP4_CLIENT_PORT 68
#define DHCP4_PACKET_BYTES_MAX 1472u // payload of an Ethernet frame's UDP packet
#define DHCP4_SERVERS_MAX 4u         // DNS, NTP servers taken from a lease
#define DHCP4_ROUTES_MAX 16u
#define DHCP4_DOMAIN_BYTES 128u
#define DHCP4_LEASE_S_MIN 60u        // a shorter lease (0 s has been seen) is taken as this
#define DHCP4_LEASE_S_DEFAULT 3600u  // a server that names none
#define DHCP4_FOREVER_S UINT32_MAX

typedef enum dhcp4_type {
    DHCP4_DISCOVER = 1,
    DHCP4_OFFER,
    DHCP4_REQUEST,
    DHCP4_DECLINE,
    DHCP4_ACK,
    DHCP4_NAK,
    DHCP4_RELEASE,
} dhcp4_type;

typedef struct dhcp4_route {
    u8 to[4];
    u8 prefix;
    u8 via[4]; // 0.0.0.0 = on the link
} dhcp4_route;

// Fixed size and no pointers: it is stored as it is in the state record.
typedef struct dhcp4_lease {
    u8 address[4];
    u8 server[4]; // 0.0.0.0 = unknown: renewing is broadcast then
    u8 prefix;
    u8 dns_count, ntp_count, route_count;
    u16 mtu; // 0 = none given
    u16 spare;
    u32 lease_s, t1_s, t2_s; // DHCP4_FOREVER_S: without end
    u8 dns[DHCP4_SERVERS_MAX][4];
    u8 ntp[DHCP4_SERVERS_MAX][4];
    dhcp4_route routes[DHCP4_ROUTES_MAX]; // the default route is 0.0.0.0/0
    char domain[DHCP4_DOMAIN_BYTES];      // "" = none
} dhcp4_lease;

typedef struct dhcp4_message {
    dhcp4_type type;
    u32 xid;
    u8 mac[6];
    dhcp4_lease lease; // OFFER and ACK
    const char *note;  // what had to be put right ("lease of 0 s", ...), static; NULL = nothing
    char text[96];     // option 56, what a NAK says; control characters replaced
} dhcp4_message;

// What a client's message says beside its type.
typedef struct dhcp4_ask {
    dhcp4_type type;
    u32 xid;
    u16 secs;           // since the client began
    u8 mac[6];
    u8 client[4];       // ciaddr: an address in use, renewing and rebinding
    u8 requested[4];    // option 50; 0.0.0.0 = left out
    u8 server[4];       // option 54; 0.0.0.0 = left out
    const char *hostname; // option 12; NULL = left out
} dhcp4_ask;

// Returns the bytes written, at most DHCP4_PACKET_BYTES_MAX (at least 300: RFC 1542 section 2.1).
u32 dhcp4_packet_build(const dhcp4_ask *ask, u8 out[DHCP4_PACKET_BYTES_MAX]);
// source: the address the packet came from, stands in for a missing server id. Returns 0, or -EINVAL:
// not a server's message, or one that can not be used (*why, static).
int dhcp4_packet_parse(const u8 *data, size_t len, const u8 source[4], dhcp4_message *out,
                       const char **why);
// Whether a lease read from somewhere else (the state record) holds the promises above.
bool dhcp4_lease_is_valid(const dhcp4_lease *lease);

#endif
