// SPDX-License-Identifier: Apache-2.0
// retained_seen.h: which retained messages a new subscription gets as live ones, and which it has to read
// from the store: each exactly one way.
//
// Each worker numbers the retained messages that its clients publish (serials). A worker knows the
// last serial it has met of each other one: from messages that came with it, and from the confirmation of
// a filter, which brings the serial of that moment. Both travel in one ring, in order. So, when a
// subscription comes into force:
//   - of each publisher's worker exactly what comes later, with a higher serial, is delivered live; a
//     reader that remembers the serials met passes it over;
//   - all else was posted to its keeper before what this worker has met, so it is counted in the
//     publisher's `posted`. The reader waits until the keeper has met as much before it asks for the
//     part. Nobody sends anything for that: the numbers are counters that any thread may look at, and
//     the rings order them.
// This worker's own part needs no wait: what concerns it came through the same rings as the confirmations.
// Whatever has to wait for memory at a receiver holds up confirmations and reads behind it (route.c).
//
// A message that is not retained costs nothing; a retained one two stores here and one at each receiver.
#ifndef SLUICE_BROKER_RETAINED_SEEN_H
#define SLUICE_BROKER_RETAINED_SEEN_H

#include "base/base.h"
#include "limits.h"

#define RETAIN_SERIAL_BITS 56u // the worker is above: 2^56 messages last for 2,000 years at a million a second
_Static_assert(LIMIT_WORKERS_MAX <= 1u << (64 - RETAIN_SERIAL_BITS), "a worker's index fits above");

// Written by the owner, read by any thread.
typedef struct retained_seen {
    counter met[LIMIT_WORKERS_MAX];    // the last serial met of each worker's; the own: the last one given
    counter posted[LIMIT_WORKERS_MAX]; // the last own serial posted to each keeper
} retained_seen;

static inline u32 retain_serial_origin(u64 serial) {
    return (u32)(serial >> RETAIN_SERIAL_BITS);
}

// The next one of this worker's.
static inline u64 retain_serial_next(retained_seen *seen, u32 self) {
    u64 last = counter_get(&seen->met[self]);
    if (last == 0) last = (u64)self << RETAIN_SERIAL_BITS;
    counter_set(&seen->met[self], last + 1);
    return last + 1;
}

// A message of that worker has been met. What was held back there may come late, with an older serial.
static inline void retain_serial_met(retained_seen *seen, u32 origin, u64 serial) {
    if (serial > counter_get(&seen->met[origin])) counter_set(&seen->met[origin], serial);
}

#endif
