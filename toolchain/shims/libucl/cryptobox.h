// SPDX-License-Identifier: Apache-2.0
//
// libucl is taken from rspamd's source, whose copy hashes keys with two helpers of rspamd. This file gives the
// hash: FNV-1a, 64 bits, closed with a mixing step so that the low 32 bits that libucl keeps depend on the whole.
// It hashes the keys of a configuration file the owner wrote; resistance to chosen keys is not needed.

#ifndef SLUICE_SHIM_CRYPTOBOX_H
#define SLUICE_SHIM_CRYPTOBOX_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t hash;
} rspamd_cryptobox_fast_hash_state_t;

static inline void rspamd_cryptobox_fast_hash_init(rspamd_cryptobox_fast_hash_state_t *state,
                                                   uint64_t seed)
{
    state->hash = UINT64_C(0xcbf29ce484222325) ^ seed;
}

static inline void rspamd_cryptobox_fast_hash_update(rspamd_cryptobox_fast_hash_state_t *state,
                                                     const void *data, size_t len)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < len; i++) {
        state->hash = (state->hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
}

static inline uint64_t rspamd_cryptobox_fast_hash_final(
    const rspamd_cryptobox_fast_hash_state_t *state)
{
    uint64_t mixed = state->hash ^ (state->hash >> 32);
    mixed *= UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ (mixed >> 32);
}

static inline uint64_t rspamd_cryptobox_fast_hash(const void *data, size_t len, uint64_t seed)
{
    rspamd_cryptobox_fast_hash_state_t state;
    rspamd_cryptobox_fast_hash_init(&state, seed);
    rspamd_cryptobox_fast_hash_update(&state, data, len);
    return rspamd_cryptobox_fast_hash_final(&state);
}

#endif
