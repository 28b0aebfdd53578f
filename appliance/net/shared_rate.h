// SPDX-License-Identifier: Apache-2.0
// shared_rate.h: a rate of messages and of bytes that all workers use up together, for a listener or an address, with
// nothing that two of them write. Each worker counts what it let through; whoever asks adds up the counts of all, at
// most once a millisecond, and so knows what is left. No worker has a share of its own, so a rate of one message a
// second is one a second on 64 workers too.
//
// What the others let through in the last millisecond is not known yet: so much may be too much, and is paid for
// afterwards. Over any time, no more than a second's worth, the rate times that time, and this error go through.
#ifndef SLUICE_NET_SHARED_RATE_H
#define SLUICE_NET_SHARED_RATE_H

#include "base/base.h"

typedef struct rate_pair {
    u64 messages_per_s, bytes_per_s; // 0 = no limit
} rate_pair;

typedef struct shared_rate shared_rate;

// NULL: out of memory. Nobody may use it any more when it is freed.
shared_rate *shared_rate_create(u32 workers);
void shared_rate_free(shared_rate *r);

// When one message of so many bytes may pass: 0 now, else the monotonic time to ask again. Those that have to wait
// form a line of a second at most, so that they come back one by one; in_turn: it was told to come now, and does not
// have to go behind the line. A second's worth may be saved up; a message that is larger than that may pass when a
// whole second has been. Called for a worker by its thread only, as shared_rate_charge.
u64 shared_rate_due(shared_rate *r, u32 worker, rate_pair limit, u32 bytes, bool in_turn, u64 now_ns);
// It has passed.
void shared_rate_charge(shared_rate *r, u32 worker, rate_pair limit, u32 bytes);
// Monotonic time from which on it says nothing any more, as far as this worker knows.
u64 shared_rate_full_ns(const shared_rate *r, u32 worker);

#endif
