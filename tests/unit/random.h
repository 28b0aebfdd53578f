// SPDX-License-Identifier: Apache-2.0
// random.h: a seeded generator for tests: the same seed gives the same run everywhere (SplitMix64,
// Steele, Lea and Flood 2014).
#ifndef SLUICE_TESTS_RANDOM_H
#define SLUICE_TESTS_RANDOM_H

#include "base/base.h"

static inline u64 random_next(u64 *state) {
    *state += 0x9e3779b97f4a7c15ull;
    u64 z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline u32 random_below(u64 *state, u32 bound) {
    return (u32)((random_next(state) >> 32) * bound >> 32);
}

#endif
