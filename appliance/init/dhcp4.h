// SPDX-License-Identifier: Apache-2.0
// dhcp4.h: the DHCPv4 client's state machine (RFC 2131 figure 5), one interface. No I/O, no clock: events
// in, calls of dhcp4_ops out, time given by the caller; the same code runs on sockets and in the tests.
//
//   NO_LINK -> SELECTING -> REQUESTING -> BOUND -> RENEWING -> REBINDING -> SELECTING
//         \--> REBOOTING ----------------/   (a lease of before is asked for again: INIT-REBOOT)
//
// An address stays configured over a flap of the link and while servers are silent, until the lease ends
// or a server says no: long connections survive both.
#ifndef SLUICE_INIT_DHCP4_H
#define SLUICE_INIT_DHCP4_H

#include "init/dhcp4_packet.h"

typedef enum dhcp4_state {
    DHCP4_NO_LINK,
    DHCP4_SELECTING,
    DHCP4_REQUESTING,
    DHCP4_REBOOTING,
    DHCP4_BOUND,
    DHCP4_RENEWING,
    DHCP4_REBINDING,
    DHCP4_STATES
} dhcp4_state;

// How a message leaves: raw = from 0.0.0.0 to everybody, before there is an address; broadcast and
// unicast use the address.
typedef enum dhcp4_way { DHCP4_RAW, DHCP4_BROADCAST, DHCP4_UNICAST } dhcp4_way;

typedef struct dhcp4_ops {
    // Sends; failures count as lost packets.
    void (*send)(void *context, dhcp4_way way, const u8 server[4], const u8 *data, u32 len);
    // The lease is to be in force: address, routes, servers. Again when anything of it changed; renewed
    // alone (same content) only moves its end.
    void (*apply)(void *context, const dhcp4_lease *lease, u64 seconds_left);
    // The address is to be given up; why is static.
    void (*drop)(void *context, const char *why);
    // Calls dhcp4_timer after ms; replaces an earlier one.
    void (*timer)(void *context, u64 ms);
    void (*say)(void *context, bool warning, const char *text);
    u32 (*random)(void *context);
} dhcp4_ops;

typedef struct dhcp4 {
    const dhcp4_ops *ops;
    void *context;
    dhcp4_state state;
    u8 mac[6];
    const char *hostname;
    u32 xid;
    u32 tries;         // in this state
    u32 naks;          // in a row
    bool waiting;      // SELECTING: the pause before the next attempt
    bool in_force;     // lease is applied
    bool remembered;   // lease holds an address worth asking for again
    dhcp4_lease lease; // in force, or the last known
    dhcp4_lease offer;
    u64 began_ms;      // of this acquisition
    u64 t1_ms, t2_ms, end_ms; // of the lease; UINT64_MAX = never
    u64 sent, acks, nak_count, ignored; // counters
    const char *last_note;
} dhcp4;

void dhcp4_init(dhcp4 *d, const dhcp4_ops *ops, void *context, const u8 mac[6], const char *hostname);
// A lease of an earlier boot: asked for again at the next link up. seconds_left: of its time, 0 = over or
// unknown; then it is only asked for, and never used without a server's word.
void dhcp4_remember(dhcp4 *d, const dhcp4_lease *lease, u64 seconds_left, u64 now_ms);
void dhcp4_link(dhcp4 *d, bool up, u64 now_ms);
void dhcp4_timer(dhcp4 *d, u64 now_ms);
void dhcp4_packet(dhcp4 *d, const u8 *data, size_t len, const u8 source[4], u64 now_ms);
// Ends it: the address is dropped, nothing is sent.
void dhcp4_stop(dhcp4 *d, const char *why);

// Whether replies can only come by the raw socket (no address of ours to send them to).
bool dhcp4_needs_raw(const dhcp4 *d);
const char *dhcp4_state_name(dhcp4_state state);

#endif
