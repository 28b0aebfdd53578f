// SPDX-License-Identifier: Apache-2.0
// nkey.h: NATS nkeys: Ed25519 keys whose text is base32 with a kind in front and a checksum behind (docs.nats.io,
// "NKeys"; ADR-14 for credentials files). A client proves that it has the seed by signing the nonce of INFO.
// Pure; any thread.
//
//   seed        kind S and kind of the key (2 bytes), 32 bytes, CRC-16/XMODEM little-endian: "SU" and 56 more
//   public key  kind (1 byte), 32 bytes, CRC: "U" and 55 more
#ifndef SLUICE_UPLINK_NKEY_H
#define SLUICE_UPLINK_NKEY_H

#include "base/base.h"

#define NKEY_SEED_CHARS 58u
#define NKEY_PUBLIC_CHARS 56u
#define NKEY_SIGNATURE_CHARS 86u // base64url of 64 bytes, without padding
#define NATS_JWT_BYTES_MAX 16384u

typedef struct nkey {
    u8 secret[64];                       // seed, public key; wipe it with nkey_wipe
    char public_key[NKEY_PUBLIC_CHARS + 1];
} nkey;

// RFC 4648 section 6 without padding; strict: upper case, unused bits zero. Returns the bytes written to out, or -1: it
// is not base32, or more than size bytes.
int base32_decode(const char *text, size_t len, u8 *out, size_t size);
// Writes the characters and a terminator: (len * 8 + 4) / 5 + 1 bytes.
void base32_encode(const u8 *data, size_t len, char *out);

// The key of a user's seed. NULL, or what is wrong with it (static).
const char *nkey_from_seed(const char *text, size_t len, nkey *out);
// Signs; out has room for NKEY_SIGNATURE_CHARS and a terminator.
void nkey_sign(const nkey *key, const char *nonce, u32 len, char *out);
void nkey_wipe(nkey *key);

// What a file says: a seed on a line of its own (`nkey`), or a credentials file: a JWT and a seed, each between a
// line of "-----BEGIN NATS USER JWT-----", "-----BEGIN USER NKEY SEED-----" and one that ends it.
typedef struct nats_creds {
    const char *jwt; // in the text; NULL: none
    u32 jwt_len;
    nkey key;
} nats_creds;
// NULL, or what is wrong (static). jwt: whether there has to be one.
const char *nats_creds_parse(const char *text, size_t len, bool jwt, nats_creds *out);

#endif
