// SPDX-License-Identifier: Apache-2.0
// siphash.h: SipHash-2-4 (Aumasson, Bernstein 2012), keyed: for hash tables whose keys a peer
// chooses (addresses, client identifiers, topics) and for the owner worker of a client identifier.
#ifndef SLUICE_BASE_SIPHASH_H
#define SLUICE_BASE_SIPHASH_H

#include "base/base.h"

u64 siphash24(const u8 key[16], const void *data, size_t bytes);
// The process's random key, set once from getrandom(2) at first use; any thread.
const u8 *siphash_process_key(void);
// Puts a key that outlives the process in its place: what is kept on disk by hash finds its owner again. Main thread,
// before anything was hashed and before there are threads.
void siphash_process_key_set(const u8 key[16]);

#endif
