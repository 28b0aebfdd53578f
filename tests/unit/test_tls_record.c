// SPDX-License-Identifier: Apache-2.0
// test_tls_record.c: records sealed and opened in place, and the keys that go to the kernel: against bytes computed by
// another implementation of the TLS 1.2 PRF (RFC 5246 section 5), and against what BearSSL itself seals.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <linux/tls.h>

#include "net/tls_handshake.h"
#include "net/tls_kernel.h"
#include "net/tls_record.h"

static br_ssl_session_parameters session;
static u8 client_random[32], server_random[32];

static void randoms_set(u16 suite) {
    session.cipher_suite = suite;
    for (u32 i = 0; i < sizeof(session.master_secret); i++) session.master_secret[i] = (u8)i;
    for (u32 i = 0; i < 32; i++) {
        client_random[i] = (u8)(0xc0 + i);
        server_random[i] = (u8)(0x50 + i);
    }
}

static void hex(const char *text, u8 *out) {
    for (; text[0] != '\0'; text += 2, out++) {
        u8 value = 0;
        for (u32 i = 0; i < 2; i++) value = (u8)(value << 4 | (text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10));
        *out = value;
    }
}

typedef struct expected {
    u16 suite, cipher;
    const char *client_key, *server_key, *client_iv, *server_iv;
    u32 info_bytes;
} expected;

static const expected rows[] = {
    {BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_CIPHER_AES_GCM_128,
     "b8a6f35765ccc99106073773bcfb03b8",
     "b185493e199efc6c414ed8daf231e0d5",
     "74772760", "af70050f", 40},
    {BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_CIPHER_AES_GCM_256,
     "ac7a52bf909d11a0ea67ae5623a54fb5c69c4f97b47c9977d66ea5a542825e1b",
     "17fa7ab15431460b66a3c83b426ab88748777b48c55c3e8ef3993c111ddef167",
     "97ed30ae", "7a43fa36", 56},
    {BR_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS_CIPHER_CHACHA20_POLY1305,
     "b8a6f35765ccc99106073773bcfb03b8b185493e199efc6c414ed8daf231e0d5",
     "74772760af70050f27ae54af6553137de9219e21145fb9a4d0676107c6121c31",
     "4631402afdf7460ff00e6784", "caa30e6004c7f73b5beb780f", 56},
};

static void test_key_block(void **state) {
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        const expected *e = &rows[i];
        u8 want[32], info[TLS_KERNEL_INFO_BYTES];
        tls_kernel_keys send, receive, client_send, client_receive;
        randoms_set(e->suite);
        assert_true(tls_kernel_keys_derive(&session, client_random, server_random, false, &send, &receive));
        assert_true(tls_kernel_keys_derive(&session, client_random, server_random, true, &client_send,
                                           &client_receive));
        assert_memory_equal(&send, &client_receive, sizeof(send));
        assert_memory_equal(&receive, &client_send, sizeof(send));
        u32 key_bytes = (u32)strlen(e->client_key) / 2, iv_bytes = (u32)strlen(e->client_iv) / 2;
        assert_int_equal(send.key_bytes, key_bytes);
        hex(e->server_key, want);
        assert_memory_equal(send.key, want, key_bytes);
        hex(e->client_key, want);
        assert_memory_equal(receive.key, want, key_bytes);
        hex(e->server_iv, want);
        assert_memory_equal(iv_bytes == 4 ? send.salt : send.iv, want, iv_bytes);
        hex(e->client_iv, want);
        assert_memory_equal(iv_bytes == 4 ? receive.salt : receive.iv, want, iv_bytes);
        tls_kernel_keys_sequence(&send, 0x0102030405060708ull);
        assert_int_equal(tls_kernel_info(&send, info), e->info_bytes);
        assert_int_equal(info[0] | info[1] << 8, TLS_1_2_VERSION);
        assert_int_equal(info[2] | info[3] << 8, e->cipher);
        static const u8 sequence[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        assert_memory_equal(info + e->info_bytes - 8, sequence, 8);
    }
}

// The kernel's structures, field by field.
static void test_kernel_layout(void **state) {
    (void)state;
    tls_kernel_keys send, receive;
    u8 info[TLS_KERNEL_INFO_BYTES];
    randoms_set(BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    tls_kernel_keys_derive(&session, client_random, server_random, false, &send, &receive);
    tls_kernel_keys_sequence(&send, 9);
    assert_int_equal(tls_kernel_info(&send, info), sizeof(struct tls12_crypto_info_aes_gcm_128));
    struct tls12_crypto_info_aes_gcm_128 gcm;
    memcpy(&gcm, info, sizeof(gcm));
    assert_memory_equal(gcm.key, send.key, 16);
    assert_memory_equal(gcm.salt, send.salt, 4);
    assert_memory_equal(gcm.iv, send.sequence, 8);
    assert_memory_equal(gcm.rec_seq, send.sequence, 8);
    randoms_set(BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384);
    tls_kernel_keys_derive(&session, client_random, server_random, false, &send, &receive);
    assert_int_equal(tls_kernel_info(&send, info), sizeof(struct tls12_crypto_info_aes_gcm_256));
    struct tls12_crypto_info_aes_gcm_256 gcm256;
    memcpy(&gcm256, info, sizeof(gcm256));
    assert_memory_equal(gcm256.key, send.key, 32);
    assert_memory_equal(gcm256.salt, send.salt, 4);
    randoms_set(BR_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    tls_kernel_keys_derive(&session, client_random, server_random, false, &send, &receive);
    tls_kernel_keys_sequence(&send, 9);
    assert_int_equal(tls_kernel_info(&send, info), sizeof(struct tls12_crypto_info_chacha20_poly1305));
    struct tls12_crypto_info_chacha20_poly1305 chacha;
    memcpy(&chacha, info, sizeof(chacha));
    assert_memory_equal(chacha.iv, send.iv, 12);
    assert_memory_equal(chacha.key, send.key, 32);
    assert_memory_equal(chacha.rec_seq, send.sequence, 8);
}

static void test_unknown_suite(void **state) {
    (void)state;
    tls_kernel_keys send, receive;
    randoms_set(BR_TLS_RSA_WITH_AES_128_CBC_SHA);
    assert_false(tls_kernel_keys_derive(&session, client_random, server_random, false, &send, &receive));
}

// --- records ---

static void ciphers_make(u16 suite, tls_cipher *out, tls_cipher *in) {
    tls_kernel_keys send, receive;
    randoms_set(suite);
    assert_true(tls_kernel_keys_derive(&session, client_random, server_random, false, &send, &receive));
    memset(out, 0, sizeof(*out));
    memset(in, 0, sizeof(*in));
    if (send.cipher == TLS_CIPHER_CHACHA20_POLY1305) {
        br_sslrec_out_chapol_vtable.init(&out->u.chapol.vtable.out, br_chacha20_ct_run, br_poly1305_ctmul_run, send.key,
                                         send.iv);
        br_sslrec_in_chapol_vtable.init(&in->u.chapol.vtable.in, br_chacha20_ct_run, br_poly1305_ctmul_run, send.key,
                                        send.iv);
        return;
    }
    br_sslrec_out_gcm_vtable.init(&out->u.gcm.vtable.out, &br_aes_ct64_ctr_vtable, send.key, send.key_bytes,
                                  br_ghash_ctmul64, send.salt);
    br_sslrec_in_gcm_vtable.init(&in->u.gcm.vtable.in, &br_aes_ct64_ctr_vtable, send.key, send.key_bytes,
                                 br_ghash_ctmul64, send.salt);
}

static void test_seal_and_open(void **state) {
    (void)state;
    static u8 room[TLS_RECORD_BYTES_MAX + TLS_ROOM_FRONT + TLS_ROOM_BEHIND];
    static const u32 lengths[] = {0, 1, 2, 100, 4096, TLS_PLAIN_BYTES_MAX};
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        tls_cipher out, in;
        ciphers_make(rows[i].suite, &out, &in);
        for (u32 k = 0; k < ARRAY_LEN(lengths); k++) {
            u32 front = tls_record_front(&out), plain_len;
            u8 *plain = room + front, type;
            for (u32 n = 0; n < lengths[k]; n++) plain[n] = (u8)(n * 7);
            u32 bytes = tls_record_seal(&out, TLS_DATA, plain, lengths[k]);
            assert_int_equal(tls_record_bytes(room, &type), bytes);
            assert_int_equal(type, TLS_DATA);
            assert_int_equal(tls_cipher_sequence(&out), k + 1);
            u8 *opened = tls_record_open(&in, room, bytes, &plain_len);
            assert_non_null(opened);
            assert_int_equal(plain_len, lengths[k]);
            for (u32 n = 0; n < lengths[k]; n++) assert_int_equal(opened[n], (u8)(n * 7));
        }
    }
}

// Every single bit counts: header, nonce, text, tag.
static void test_altered(void **state) {
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        for (u32 bit = 0; bit < 8 * 40; bit++) {
            tls_cipher out, in;
            u8 room[128] = {0};
            ciphers_make(rows[i].suite, &out, &in);
            u32 bytes = tls_record_seal(&out, TLS_DATA, room + tls_record_front(&out), 10), len;
            if (bit / 8 >= bytes || (bit / 8 >= 3 && bit / 8 < 5)) continue; // the length cuts another record
            room[bit / 8] ^= (u8)(1u << bit % 8);
            assert_null(tls_record_open(&in, room, bytes, &len));
        }
    }
}

static void test_replayed_or_short(void **state) {
    (void)state;
    tls_cipher out, in;
    u8 room[128] = {0}, copy[128];
    u32 len;
    ciphers_make(rows[0].suite, &out, &in);
    u32 bytes = tls_record_seal(&out, TLS_DATA, room + tls_record_front(&out), 10);
    memcpy(copy, room, sizeof(copy));
    assert_non_null(tls_record_open(&in, room, bytes, &len));
    assert_null(tls_record_open(&in, copy, bytes, &len));
    for (u32 n = TLS_HEADER_BYTES; n < TLS_HEADER_BYTES + TLS_OVERHEAD_BYTES; n++) {
        u8 record[64] = {TLS_DATA, 3, 3, 0, (u8)(n - TLS_HEADER_BYTES)};
        assert_null(tls_record_open(&in, record, n, &len));
    }
}

static void test_heads(void **state) {
    (void)state;
    u8 type;
    static const u8 good[] = {22, 3, 1, 0x40, 0x18}, plain[] = {'G', 'E', 'T', ' ', '/'}, empty[] = {23, 3, 3, 0, 0},
                    large[] = {23, 3, 3, 0x40, 0x19}, old[] = {22, 2, 0, 0, 10};
    assert_int_equal(tls_record_bytes(good, &type), TLS_RECORD_BYTES_MAX);
    assert_int_equal(tls_record_bytes(plain, &type), 0);
    assert_int_equal(tls_record_bytes(empty, &type), 0);
    assert_int_equal(tls_record_bytes(large, &type), 0);
    assert_int_equal(tls_record_bytes(old, &type), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_block),     cmocka_unit_test(test_kernel_layout),
        cmocka_unit_test(test_unknown_suite), cmocka_unit_test(test_seal_and_open),
        cmocka_unit_test(test_altered),       cmocka_unit_test(test_replayed_or_short),
        cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
