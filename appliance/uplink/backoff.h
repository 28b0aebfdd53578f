// SPDX-License-Identifier: Apache-2.0
// backoff.h: how long to wait before the next round of attempts: exponential with full jitter, so that a fleet
// whose broker comes back does not arrive in step. Pure: the caller keeps the generator's state.
#ifndef SLUICE_UPLINK_BACKOFF_H
#define SLUICE_UPLINK_BACKOFF_H

#include "base/base.h"

typedef struct backoff {
    u64 random;     // state of the generator; seeded differently on each gateway and worker
    u32 failures;   // rounds that failed in a row
} backoff;

// The wait after one more failed round, in ms: at random between half and all of min * 2^(failures in a row),
// which ends at max.
u64 backoff_next_ms(backoff *b, u64 min_ms, u64 max_ms);
// The connection has proved itself: the next wait is a first one again.
static inline void backoff_reset(backoff *b) {
    b->failures = 0;
}

#endif
