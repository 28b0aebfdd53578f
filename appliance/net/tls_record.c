// SPDX-License-Identifier: Apache-2.0
// tls_record.c: single records, and keys for the kernel.
#include "net/tls_record.h"

#include <linux/tls.h>
#include <string.h>

_Static_assert(sizeof(tls_cipher) <= 320, "two of them fit an idle connection's state");

u32 tls_record_bytes(const u8 head[TLS_HEADER_BYTES], u8 *type) {
    u32 len = (u32)head[3] << 8 | head[4];
    *type = head[0];
    if (head[0] < TLS_CHANGE_CIPHER_SPEC || head[0] > TLS_DATA || head[1] != 3) return 0;
    return len == 0 || len > TLS_PLAIN_BYTES_MAX + TLS_OVERHEAD_BYTES ? 0 : TLS_HEADER_BYTES + len;
}

u8 *tls_record_open(tls_cipher *in, u8 *record, u32 bytes, u32 *plain_len) {
    size_t len = bytes - TLS_HEADER_BYTES;
    unsigned version = (unsigned)record[1] << 8 | record[2];
    if (version != BR_TLS12 || !in->u.in->check_length(&in->u.in, len)) return NULL;
    u8 *plain = in->u.in->decrypt(&in->u.in, record[0], version, record + TLS_HEADER_BYTES, &len);
    *plain_len = (u32)len;
    return plain;
}

static bool is_gcm(const tls_cipher *cipher) {
    const void *kind = cipher->u.gcm.vtable.gen;
    return kind == &br_sslrec_in_gcm_vtable || kind == &br_sslrec_out_gcm_vtable;
}

u32 tls_record_front(const tls_cipher *out) {
    return TLS_HEADER_BYTES + (is_gcm(out) ? 8u : 0u);
}

u32 tls_record_seal(tls_cipher *out, u8 type, u8 *plain, u32 len) {
    size_t bytes = len;
    const u8 *record = out->u.out->encrypt(&out->u.out, type, BR_TLS12, plain, &bytes);
    ASSERT(record == plain - tls_record_front(out));
    return (u32)bytes;
}

u64 tls_cipher_sequence(const tls_cipher *cipher) {
    return is_gcm(cipher) ? cipher->u.gcm.seq : cipher->u.chapol.seq;
}

// --- keys for the kernel ---

typedef struct suite_keys {
    u16 suite, cipher;
    u8 key_bytes;
    bool sha384;
} suite_keys;

static const suite_keys suites[] = {
    {BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_CIPHER_AES_GCM_128, 16, false},
    {BR_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_CIPHER_AES_GCM_128, 16, false},
    {BR_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_CIPHER_AES_GCM_256, 32, true},
    {BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_CIPHER_AES_GCM_256, 32, true},
    {BR_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_CIPHER_CHACHA20_POLY1305, 32, false},
    {BR_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS_CIPHER_CHACHA20_POLY1305, 32, false},
};

static void keys_take(const suite_keys *suite, const u8 *key, const u8 *iv, tls_kernel_keys *out) {
    *out = (tls_kernel_keys){.cipher = suite->cipher, .key_bytes = suite->key_bytes};
    memcpy(out->key, key, suite->key_bytes);
    if (suite->cipher == TLS_CIPHER_CHACHA20_POLY1305) {
        out->iv_bytes = 12;
        memcpy(out->iv, iv, 12);
        return;
    }
    out->salt_bytes = 4;
    out->iv_bytes = 8;
    memcpy(out->salt, iv, 4);
}

bool tls_kernel_keys_derive(const br_ssl_session_parameters *session, const u8 client_random[32],
                            const u8 server_random[32], bool is_client, tls_kernel_keys *send,
                            tls_kernel_keys *receive) {
    const suite_keys *suite = NULL;
    for (u32 i = 0; i < ARRAY_LEN(suites); i++) {
        if (suites[i].suite == session->cipher_suite) suite = &suites[i];
    }
    if (suite == NULL) return false;
    u32 iv_bytes = suite->cipher == TLS_CIPHER_CHACHA20_POLY1305 ? 12 : 4;
    u8 block[2 * (32 + 12)]; // client key, server key, client iv, server iv
    br_tls_prf_seed_chunk seed[2] = {{server_random, 32}, {client_random, 32}};
    br_tls_prf_impl prf = suite->sha384 ? br_tls12_sha384_prf : br_tls12_sha256_prf;
    prf(block, 2 * (suite->key_bytes + iv_bytes), session->master_secret, sizeof(session->master_secret),
        "key expansion", 2, seed);
    const u8 *ivs = block + 2 * suite->key_bytes;
    keys_take(suite, block, ivs, is_client ? send : receive);
    keys_take(suite, block + suite->key_bytes, ivs + iv_bytes, is_client ? receive : send);
    explicit_bzero(block, sizeof(block));
    return true;
}

void tls_kernel_keys_sequence(tls_kernel_keys *keys, u64 sequence) {
    for (u32 i = 0; i < sizeof(keys->sequence); i++) keys->sequence[i] = (u8)(sequence >> (56 - 8 * i));
    // The explicit nonce has to be new for each record; as BearSSL, the kernel goes on from the number of the record.
    if (keys->iv_bytes == 8) memcpy(keys->iv, keys->sequence, 8);
}
