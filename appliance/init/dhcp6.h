// SPDX-License-Identifier: Apache-2.0
// dhcp6.h: the DHCPv6 client's state machine (RFC 8415 section 18.2), one interface, one address; or only
// name and time servers (information-request), as the router's advertisement says. No I/O, no clock.
//
//   OFF -> SOLICIT -> REQUEST -> BOUND -> RENEW -> REBIND -> SOLICIT;   OFF -> INFORMATION -> INFORMED
#ifndef SLUICE_INIT_DHCP6_H
#define SLUICE_INIT_DHCP6_H

#include "init/dhcp6_packet.h"

typedef enum dhcp6_state {
    DHCP6_S_OFF,
    DHCP6_S_SOLICIT,
    DHCP6_S_REQUEST,
    DHCP6_S_BOUND,
    DHCP6_S_RENEW,
    DHCP6_S_REBIND,
    DHCP6_S_INFORMATION,
    DHCP6_S_INFORMED,
    DHCP6_STATES
} dhcp6_state;

typedef struct dhcp6_ops {
    void (*send)(void *context, const u8 *data, u32 len); // to all servers, ff02::1:2
    void (*apply)(void *context, const dhcp6_lease *lease);
    void (*drop)(void *context, const char *why);
    void (*timer)(void *context, u64 ms); // replaces an earlier one
    void (*say)(void *context, bool warning, const char *text);
    u32 (*random)(void *context);
} dhcp6_ops;

typedef struct dhcp6 {
    const dhcp6_ops *ops;
    void *context;
    dhcp6_state state;
    u8 mac[6];
    u32 xid, tries;
    bool in_force;
    u64 began_ms, t1_ms, t2_ms, end_ms;
    dhcp6_lease lease;
    u8 server[DHCP6_DUID_BYTES_MAX];
    u32 server_len;
    u64 sent, replies, ignored;
} dhcp6;

void dhcp6_init(dhcp6 *d, const dhcp6_ops *ops, void *context, const u8 mac[6]);
// address false: only information is asked for.
void dhcp6_start(dhcp6 *d, bool address, u64 now_ms);
// The carrier is back: what is in force is asked for again (RFC 8415 section 18.2.12: by Rebind), and stays in
// force meanwhile.
void dhcp6_link_up(dhcp6 *d, u64 now_ms);
void dhcp6_timer(dhcp6 *d, u64 now_ms);
void dhcp6_packet(dhcp6 *d, const u8 *data, size_t len, u64 now_ms);
void dhcp6_stop(dhcp6 *d, const char *why);
const char *dhcp6_state_name(dhcp6_state state);

#endif
