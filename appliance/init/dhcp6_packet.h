// SPDX-License-Identifier: Apache-2.0
// dhcp6_packet.h: DHCPv6 messages as bytes (RFC 8415; options of RFC 3646 and 5908). No I/O. One address
// (IA_NA), name servers, time servers; prefixes are not asked for. A lease that comes out is usable: times
// in order, a unicast address.
#ifndef SLUICE_INIT_DHCP6_PACKET_H
#define SLUICE_INIT_DHCP6_PACKET_H

#include "base/base.h"

#define DHCP6_CLIENT_PORT 546
#define DHCP6_SERVER_PORT 547
#define DHCP6_PACKET_BYTES_MAX 1232u // what IPv6 carries unfragmented anywhere
#define DHCP6_DUID_BYTES_MAX 130u
#define DHCP6_SERVERS_MAX 4u
#define DHCP6_VALID_S_MIN 60u

typedef enum dhcp6_type {
    DHCP6_SOLICIT = 1,
    DHCP6_ADVERTISE = 2,
    DHCP6_REQUEST = 3,
    DHCP6_RENEW = 5,
    DHCP6_REBIND = 6,
    DHCP6_REPLY = 7,
    DHCP6_INFORMATION = 11,
} dhcp6_type;

typedef struct dhcp6_lease {
    bool has_address;
    u8 dns_count, ntp_count;
    u8 address[16];
    u32 preferred_s, valid_s, t1_s, t2_s; // UINT32_MAX: without end
    u8 dns[DHCP6_SERVERS_MAX][16];
    u8 ntp[DHCP6_SERVERS_MAX][16];
} dhcp6_lease;

typedef struct dhcp6_message {
    dhcp6_type type;
    u32 xid; // 24 bits
    u16 status;      // of the address or of the message; 0 = success
    bool rapid;      // rapid commit
    u8 server[DHCP6_DUID_BYTES_MAX];
    u32 server_len;
    dhcp6_lease lease;
} dhcp6_message;

typedef struct dhcp6_ask {
    dhcp6_type type;
    u32 xid;
    u16 elapsed_cs; // hundredths of seconds since the exchange began
    u8 mac[6];      // the DUID is made of it (DUID-LL), and the IAID: the same at every boot
    const u8 *server; // NULL = left out
    u32 server_len;
    const u8 *address; // NULL = none asked for by name
} dhcp6_ask;

u32 dhcp6_packet_build(const dhcp6_ask *ask, u8 out[DHCP6_PACKET_BYTES_MAX]); // bytes
// 0, or -EINVAL: not a server's message to the client with this hardware address, or not readable.
int dhcp6_packet_parse(const u8 *data, size_t len, const u8 mac[6], dhcp6_message *out);

#endif
