// SPDX-License-Identifier: Apache-2.0
// jwt_key.h: the keys that JSON web tokens are checked with. The kind of a key decides the algorithm, never the
// token: HS256 for a secret, ES256 for an EC P-256 public key, RS256 for an RSA public key of 2048 to 4096 bits.
//
// A key file holds either PEM blocks "PUBLIC KEY" (X.509 SubjectPublicKeyInfo, RFC 5280 section 4.1.2.7), several
// while keys are exchanged, or, without any "-----BEGIN", one secret: its bytes as they are but for one newline at
// the end, at least 32 of them (RFC 7518 section 3.2).
#ifndef SLUICE_AUTH_JWT_KEY_H
#define SLUICE_AUTH_JWT_KEY_H

#include <bearssl.h>

#include "base/base.h"
#include "limits.h"

typedef enum jwt_kind { JWT_HS256, JWT_ES256, JWT_RS256 } jwt_kind;

#define JWT_KEY_BYTES 1024u // the longest secret; an RSA modulus of 4096 bits and its exponent need less

typedef struct jwt_key {
    jwt_kind kind;
    u32 len;               // secret, EC point (65), RSA modulus
    u32 exponent_at, exponent_len; // RSA: in bytes[], behind the modulus
    u8 bytes[JWT_KEY_BYTES];
} jwt_key;

typedef struct jwt_keys {
    jwt_key keys[LIMIT_JWT_KEYS];
    u32 count;
} jwt_keys;

// Reads the content of a key file. NULL; else what is wrong.
const char *jwt_keys_parse(const char *text, size_t len, jwt_keys *out);
// The key of a DER SubjectPublicKeyInfo. NULL; else what is wrong.
const char *jwt_key_parse_der(const u8 *der, size_t len, jwt_key *out);
// Whether the signature of the text is this key's.
bool jwt_key_verify(const jwt_key *key, const void *text, size_t len, const u8 *signature, size_t signature_len);

#endif
