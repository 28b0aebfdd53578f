// SPDX-License-Identifier: Apache-2.0
// address_share.h: the rate that the clients of one address use up together, on one listener. A client looks its
// address up when it comes and gives it back when it goes, behind a mutex as with address_rate.h; between them it
// uses the shared rate alone. What an address has used up is remembered until it says nothing any more, so
// connecting again gains nothing. IPv6 addresses count by their /64.
//
// An address that there is no room or no memory for is not limited; address_share_overflows tells how often.
#ifndef SLUICE_NET_ADDRESS_SHARE_H
#define SLUICE_NET_ADDRESS_SHARE_H

#include "net/shared_rate.h"

typedef struct address_share address_share;

// of: the listener's identity on all workers; used as a number only. NULL: not limited.
address_share *address_share_take(const u8 addr[16], const void *of, u32 workers, u64 now_ns);
// One that was taken; worker: the one that used it.
void address_share_give(address_share *a, u32 worker);
shared_rate *address_share_rate(address_share *a);
u64 address_share_overflows(void);

#endif
