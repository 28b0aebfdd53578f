// SPDX-License-Identifier: Apache-2.0
// tls_profile.c: what is spoken: TLS 1.2 with ephemeral keys and authenticated encryption, nothing else. BearSSL's own
// profiles are wider (TLS 1.0, CBC, RSA key exchange) and follow the client's order.
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "net/tls_handshake.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#endif

static bool kernel_crypto; // written by main or the first connection, before it matters

void tls_profile_kernel_crypto(bool kernel_does_it) {
    __atomic_store_n(&kernel_crypto, kernel_does_it, __ATOMIC_RELAXED);
}

// BearSSL has AES instructions for x86 only; the kernel has arm64's.
static bool prefers_aes(void) {
    if (br_aes_x86ni_ctr_get_vtable() != NULL && br_ghash_pclmul_get() != NULL) return true;
#if defined(__aarch64__)
    return __atomic_load_n(&kernel_crypto, __ATOMIC_RELAXED) && (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    return false;
#endif
}

static const u16 aes_first[] = {
    BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,       BR_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    BR_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, BR_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    BR_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,       BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
};
static const u16 chacha_first[] = {
    BR_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, BR_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,       BR_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    BR_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,       BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
};

// With all curves, whatever `curves` has: the engine hands over those it offers for the exchange of keys, and a
// certificate may have another.
static uint32_t ecdsa_verify(const br_ec_impl *curves, const void *digest, size_t digest_len,
                             const br_ec_public_key *key, const void *signature, size_t signature_len) {
    (void)curves;
    return br_ecdsa_vrfy_asn1_get_default()(br_ec_get_default(), digest, digest_len, key, signature, signature_len);
}

void tls_profile_set(br_ssl_engine_context *engine, br_ec_impl *curves) {
    // For P-384 and P-521 there is only slow code: a client that offers just those would cost a worker thirty times
    // as much.
    *curves = *br_ec_get_default();
    curves->supported_curves &= 1u << BR_EC_secp256r1 | 1u << BR_EC_curve25519;
    const u16 *suites = prefers_aes() ? aes_first : chacha_first;
    br_ssl_engine_set_versions(engine, BR_TLS12, BR_TLS12);
    br_ssl_engine_set_suites(engine, suites, ARRAY_LEN(aes_first));
    br_ssl_engine_set_ec(engine, curves);
    br_ssl_engine_set_rsavrfy(engine, br_rsa_pkcs1_vrfy_get_default());
    br_ssl_engine_set_ecdsa(engine, ecdsa_verify);
    br_ssl_engine_set_hash(engine, br_sha256_ID, &br_sha256_vtable);
    br_ssl_engine_set_hash(engine, br_sha384_ID, &br_sha384_vtable);
    br_ssl_engine_set_hash(engine, br_sha512_ID, &br_sha512_vtable);
    br_ssl_engine_set_prf_sha256(engine, &br_tls12_sha256_prf);
    br_ssl_engine_set_prf_sha384(engine, &br_tls12_sha384_prf);
    br_ssl_engine_set_default_aes_gcm(engine);
    br_ssl_engine_set_default_chapol(engine);
}

const char *tls_suite_name(u16 suite) {
    switch (suite) {
    case BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: return "ECDHE-ECDSA-AES128-GCM";
    case BR_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: return "ECDHE-RSA-AES128-GCM";
    case BR_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: return "ECDHE-ECDSA-AES256-GCM";
    case BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: return "ECDHE-RSA-AES256-GCM";
    case BR_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: return "ECDHE-ECDSA-CHACHA20";
    case BR_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: return "ECDHE-RSA-CHACHA20";
    default: return "?";
    }
}
