// SPDX-License-Identifier: Apache-2.0
// address_rate.h: how often an address connects, and how often it fails to prove who it is. Process-wide, because an
// address's connections are spread over the workers; any thread. IPv6 addresses count by their /64: that is what one
// customer or device is given.
//
// An address that the table has no room for is let in without a count; address_rate_overflows tells how often.
#ifndef SLUICE_NET_ADDRESS_RATE_H
#define SLUICE_NET_ADDRESS_RATE_H

#include "base/base.h"

// A connection of an address that may open per_second of them, and as many at once as in a second. False: it is one
// too many. addr is IPv6 or v4-mapped; now_ns is monotonic.
bool address_rate_connect(const u8 addr[16], u32 per_second, u64 now_ns);
// One more failure of an address that may have per_minute of them.
void address_rate_failed(const u8 addr[16], u32 per_minute, u64 now_ns);
// Whether it has used up its failures: not one more of per_minute would be allowed now, but one is when the part of a
// minute that it stands for has passed.
bool address_rate_is_failing(const u8 addr[16], u32 per_minute, u64 now_ns);
u64 address_rate_overflows(void);
// What an address counts by: itself, or its /64.
void address_rate_key(const u8 addr[16], u8 key[16]);

#endif
