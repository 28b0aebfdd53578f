// SPDX-License-Identifier: Apache-2.0
// pbkdf2.h: PBKDF2 (RFC 8018 section 5.2) with HMAC-SHA-512 or HMAC-SHA-256 for one block of output, which is the
// hash's own length: all that password files and SCRAM need. It is done in slices, because a file may ask for
// hundreds of thousands of iterations and nothing may hold up a worker's loop.
#ifndef SLUICE_AUTH_PBKDF2_H
#define SLUICE_AUTH_PBKDF2_H

#include <bearssl.h>

#include "base/base.h"

#define PBKDF2_BYTES_MAX 64u
#define PBKDF2_SALT_BYTES_MAX 64u

typedef struct pbkdf2 {
    br_hmac_key_context key;
    u32 left;                  // iterations
    u32 bytes;                 // of the output: 64 or 32
    u8 last[PBKDF2_BYTES_MAX]; // U of the last iteration
    u8 sum[PBKDF2_BYTES_MAX];  // the output when none are left
} pbkdf2;

// hash: &br_sha512_vtable or &br_sha256_vtable; iterations at least 1. The password is not needed afterwards.
void pbkdf2_begin(pbkdf2 *p, const br_hash_class *hash, const void *password, size_t len, const u8 *salt,
                  size_t salt_len, u32 iterations);
// At most so many more iterations (about 1 us each on a current core). Returns whether it is done.
bool pbkdf2_run(pbkdf2 *p, u32 iterations);
// Clears all of it.
void pbkdf2_wipe(pbkdf2 *p);

// --- small things that belong to secrets ---

// Compares in time that depends on len only.
bool secret_is_equal(const void *a, const void *b, size_t len);
// Clears memory in a way the compiler does not leave out.
void secret_wipe(void *p, size_t len);
// HMAC of one piece; out has room for the hash.
void secret_hmac(const br_hash_class *hash, const void *key, size_t key_len, const void *data, size_t len, u8 *out);

#endif
