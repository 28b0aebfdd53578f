// SPDX-License-Identifier: Apache-2.0
// curves.c: which code does which curve.
#include "crypto/curves.h"

static const br_ec_impl *of(int curve) {
    switch (curve) {
    case BR_EC_secp256r1: return &curve_p256;
    case BR_EC_curve25519: return &curve_25519;
    default: return &br_ec_prime_i31;
    }
}

static const unsigned char *generator(int curve, size_t *len) {
    return of(curve)->generator(curve, len);
}

static const unsigned char *order(int curve, size_t *len) {
    return of(curve)->order(curve, len);
}

static size_t xoff(int curve, size_t *len) {
    return of(curve)->xoff(curve, len);
}

static uint32_t mul(unsigned char *point, size_t len, const unsigned char *x, size_t x_len, int curve) {
    return of(curve)->mul(point, len, x, x_len, curve);
}

static size_t mulgen(unsigned char *out, const unsigned char *x, size_t x_len, int curve) {
    return of(curve)->mulgen(out, x, x_len, curve);
}

static uint32_t muladd(unsigned char *a, const unsigned char *b, size_t len, const unsigned char *x, size_t x_len,
                       const unsigned char *y, size_t y_len, int curve) {
    return of(curve)->muladd(a, b, len, x, x_len, y, y_len, curve);
}

const br_ec_impl *curves_all(void) {
    static const br_ec_impl all = {
        .supported_curves = 1u << BR_EC_secp256r1 | 1u << BR_EC_secp384r1 | 1u << BR_EC_secp521r1 |
                            1u << BR_EC_curve25519,
        .generator = generator,
        .order = order,
        .xoff = xoff,
        .mul = mul,
        .mulgen = mulgen,
        .muladd = muladd,
    };
    return &all;
}

size_t curves_ecdsa_sign(const br_ec_impl *curves, const br_hash_class *hash, const void *digest,
                         const br_ec_private_key *key, void *signature) {
    if (key->curve == BR_EC_secp256r1) return p256_ecdsa_sign(hash, digest, key, signature);
    return br_ecdsa_i31_sign_asn1(curves, hash, digest, key, signature);
}

uint32_t curves_ecdsa_verify(const br_ec_impl *curves, const void *digest, size_t digest_len,
                             const br_ec_public_key *key, const void *signature, size_t signature_len) {
    (void)curves;
    return br_ecdsa_i31_vrfy_asn1(curves_all(), digest, digest_len, key, signature, signature_len);
}
