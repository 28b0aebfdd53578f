// SPDX-License-Identifier: Apache-2.0
// curves.h: the elliptic curves of TLS, for BearSSL's engine (br_ec_impl, bearssl_ec.h) and ours. BearSSL 0.6
// multiplies in words of 31 bits; P-256 and Curve25519 in words of 64 cost a fifth, and they are most of what
// a handshake costs. P-384 and P-521 (authorities' signatures) stay BearSSL's. Nothing here depends on
// secrets in time: no branch and no address. Any thread. Points, scalars and return values are as
// bearssl_ec.h says; scalars of more than 32 bytes are refused.
#ifndef SLUICE_CRYPTO_CURVES_H
#define SLUICE_CRYPTO_CURVES_H

#include <bearssl.h>

#include "base/base.h"

// P-256, P-384, P-521 and Curve25519.
const br_ec_impl *curves_all(void);
// ECDSA in ASN.1 form, the deterministic kind (RFC 6979): br_ecdsa_sign. Other curves than P-256: BearSSL's.
size_t curves_ecdsa_sign(const br_ec_impl *curves, const br_hash_class *hash, const void *digest,
                         const br_ec_private_key *key, void *signature);
// br_ecdsa_vrfy, ASN.1 form, with all curves whatever `curves` has: BearSSL's engine hands over those it
// offers for the exchange of keys, and a certificate may have another.
uint32_t curves_ecdsa_verify(const br_ec_impl *curves, const void *digest, size_t digest_len,
                             const br_ec_public_key *key, const void *signature, size_t signature_len);

// --- the parts ---

extern const br_ec_impl curve_p256;
extern const br_ec_impl curve_25519;
size_t p256_ecdsa_sign(const br_hash_class *hash, const void *digest, const br_ec_private_key *key, void *signature);

#endif
