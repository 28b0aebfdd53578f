// SPDX-License-Identifier: Apache-2.0
// backoff.c: see backoff.h. The generator is splitmix64: one multiply chain, any seed will do.
#include "uplink/backoff.h"

static u64 random_next(u64 *state) {
    u64 x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

u64 backoff_next_ms(backoff *b, u64 min_ms, u64 max_ms) {
    u64 wait_ms = min_ms;
    for (u32 i = 0; i < b->failures && wait_ms < max_ms; i++) wait_ms *= 2;
    wait_ms = MIN(wait_ms, max_ms);
    if (b->failures < UINT32_MAX) b->failures++;
    u64 half = wait_ms / 2;
    return half + random_next(&b->random) % (wait_ms - half + 1);
}
