// SPDX-License-Identifier: Apache-2.0
// path_hash.h: the hash of a path of topic levels, from that of the path above and the keyed hash of
// its last level.
#ifndef SLUICE_BROKER_PATH_HASH_H
#define SLUICE_BROKER_PATH_HASH_H

#include "base/base.h"

// Both inputs are keyed hashes; multiply and fold spreads them over all bits (finalizer of
// MurmurHash3).
static inline u64 path_hash(u64 parent, u64 level) {
    u64 h = (parent + 0x9e3779b97f4a7c15ull) ^ level;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdull;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 33);
}

#endif
