// SPDX-License-Identifier: Apache-2.0
// tls_policy.c: which certificate a client gets, and the signature with its key. The name that the client asks for
// (SNI, RFC 6066 section 3) comes first, then the order of the suites: ECDSA before RSA.
#include <string.h>

#include "net/tls_handshake.h"

static bool key_fits(const tls_certificate *cert, unsigned key_exchange) {
    bool is_rsa = br_skey_decoder_key_type(&cert->key) == BR_KEYTYPE_RSA;
    return key_exchange == (is_rsa ? BR_SSLKEYX_ECDHE_RSA : BR_SSLKEYX_ECDHE_ECDSA);
}

// SHA-256 unless the client knows only larger ones; never SHA-1. known: bits by BearSSL's hash numbers.
static unsigned hash_choose(u32 known) {
    static const u8 order[] = {br_sha256_ID, br_sha384_ID, br_sha512_ID};
    for (u32 i = 0; i < ARRAY_LEN(order); i++) {
        if (known >> order[i] & 1) return order[i];
    }
    return 0;
}

// The first suite that one of the certificates can be used with. named: only those for the name asked for.
static bool choose_among(tls_policy *policy, const br_ssl_server_context *cc, const char *name, bool named,
                         br_ssl_server_choices *choices) {
    size_t count;
    const br_suite_translated *suites = br_ssl_server_get_client_suites(cc, &count);
    u32 hashes = br_ssl_server_get_client_hashes(cc);
    for (size_t s = 0; s < count; s++) {
        unsigned exchange = suites[s][1] >> 12u;
        unsigned hash = hash_choose(exchange == BR_SSLKEYX_ECDHE_RSA ? hashes : hashes >> 8);
        for (u32 i = 0; i < policy->context->cert_count && hash != 0; i++) {
            const tls_certificate *cert = &policy->context->certs[i];
            if (!key_fits(cert, exchange)) continue;
            if (named && !cert_is_for(&cert->info, name, (u32)strlen(name))) continue;
            policy->chosen = cert;
            choices->cipher_suite = suites[s][0];
            choices->algo_id = hash + 0xff00;
            choices->chain = cert->chain;
            choices->chain_len = cert->chain_len;
            return true;
        }
    }
    return false;
}

static int choose(const br_ssl_server_policy_class **ctx, const br_ssl_server_context *cc,
                  br_ssl_server_choices *choices) {
    tls_policy *policy = CONTAINER_OF(ctx, tls_policy, vtable);
    const char *name = br_ssl_engine_get_server_name(&cc->eng);
    if (name[0] != '\0' && choose_among(policy, cc, name, true, choices)) return 1;
    return choose_among(policy, cc, name, false, choices);
}

// RSA and static ECDH key exchange are not offered.
static uint32_t do_keyx(const br_ssl_server_policy_class **ctx, unsigned char *data, size_t *len) {
    (void)ctx;
    (void)data;
    (void)len;
    return 0;
}

static const u8 *rsa_hash_oid(unsigned hash) {
    static const u8 oids[3][10] = {
        {9, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01},
        {9, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02},
        {9, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03},
    };
    return oids[hash - br_sha256_ID];
}

static const br_hash_class *hash_class(unsigned hash) {
    return hash == br_sha256_ID ? &br_sha256_vtable : hash == br_sha384_ID ? &br_sha384_vtable : &br_sha512_vtable;
}

static size_t do_sign(const br_ssl_server_policy_class **ctx, unsigned algo, unsigned char *data, size_t hash_len,
                      size_t room) {
    const tls_policy *policy = CONTAINER_OF(ctx, tls_policy, vtable);
    unsigned hash = algo & 0xff;
    u8 digest[64];
    if (hash < br_sha256_ID || hash > br_sha512_ID || hash_len > sizeof(digest)) return 0;
    memcpy(digest, data, hash_len);
    const br_rsa_private_key *rsa = br_skey_decoder_get_rsa(&policy->chosen->key);
    if (rsa != NULL) {
        size_t len = (rsa->n_bitlen + 7) >> 3;
        if (len > room) return 0;
        br_rsa_pkcs1_sign sign = br_rsa_pkcs1_sign_get_default();
        return sign(rsa_hash_oid(hash), digest, hash_len, rsa, data) ? len : 0;
    }
    const br_ec_private_key *ec = br_skey_decoder_get_ec(&policy->chosen->key);
    if (ec == NULL || room < 139) return 0; // longest signature: P-521
    return br_ecdsa_sign_asn1_get_default()(br_ec_get_default(), hash_class(hash), digest, ec, data);
}

void tls_policy_init(tls_policy *policy, const tls_context *context) {
    static const br_ssl_server_policy_class class = {
        .context_size = sizeof(tls_policy),
        .choose = choose,
        .do_keyx = do_keyx,
        .do_sign = do_sign,
    };
    *policy = (tls_policy){.vtable = &class, .context = context};
}
