// SPDX-License-Identifier: Apache-2.0
// P-256, X25519 and ECDSA against BearSSL's own slower code, and against the standards' examples: scalars and
// points at the edges, random ones, and bytes that are no point.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crypto/curves.h"

#define ROUNDS 60

static const int curves[] = {BR_EC_secp256r1, BR_EC_curve25519};

static void random_bytes(u8 *out, u32 len) {
    for (u32 i = 0; i < len; i++) out[i] = (u8)(random() >> 7);
}

static void hex(u8 *out, const char *text) {
    for (u32 i = 0; text[2 * i] != '\0'; i++) {
        char two[3] = {text[2 * i], text[2 * i + 1], '\0'};
        out[i] = (u8)strtoul(two, NULL, 16);
    }
}

// Scalars where digits and words begin and end.
static void scalar_make(u8 out[32], u32 number) {
    memset(out, 0, 32);
    if (number == 0) out[31] = 1;
    else if (number < 9) out[31 - number % 4 * 8] = (u8)(1u << number % 8);
    else if (number == 9) memset(out, 0xff, 32);
    else if (number == 10) out[0] = 0x80;
    else random_bytes(out, 32);
}

static void test_both_agree(void **state) {
    (void)state;
    const br_ec_impl *ours = curves_all(), *theirs = br_ec_get_default();
    srandom(1);
    for (u32 i = 0; i < ROUNDS; i++) {
        for (u32 c = 0; c < ARRAY_LEN(curves); c++) {
            u8 k[32], factor[32], a[65], b[65];
            scalar_make(k, i);
            random_bytes(factor, sizeof(factor));
            size_t len = theirs->mulgen(b, k, sizeof(k), curves[c]);
            assert_int_equal(ours->mulgen(a, k, sizeof(k), curves[c]), len);
            assert_memory_equal(a, b, len);
            size_t some = 1 + i % 32; // scalars may be shorter
            assert_int_equal(ours->mul(a, len, factor, some, curves[c]), 1);
            assert_int_equal(theirs->mul(b, len, factor, some, curves[c]), 1);
            assert_memory_equal(a, b, len);
        }
    }
}

static void test_sums(void **state) {
    (void)state;
    const br_ec_impl *ours = curves_all(), *theirs = br_ec_get_default();
    u8 x[32], y[32], a[65], b[65], other[65];
    srandom(2);
    for (u32 i = 0; i < ROUNDS; i++) {
        random_bytes(x, sizeof(x));
        random_bytes(y, sizeof(y));
        theirs->mulgen(a, x, sizeof(x), BR_EC_secp256r1);
        theirs->mulgen(other, y, sizeof(y), BR_EC_secp256r1);
        memcpy(b, a, sizeof(a));
        const u8 *with = i % 2 == 0 ? NULL : other;
        assert_int_equal(ours->muladd(a, with, 65, x, 32, y, 32, BR_EC_secp256r1), 1);
        assert_int_equal(theirs->muladd(b, with, 65, x, 32, y, 32, BR_EC_secp256r1), 1);
        assert_memory_equal(a, b, sizeof(a));
    }
    // The same point twice is a doubling; a point and its opposite are infinity, which has no bytes.
    size_t len;
    memset(x, 0, sizeof(x));
    memset(y, 0, sizeof(y));
    x[31] = y[31] = 1;
    memcpy(a, ours->generator(BR_EC_secp256r1, &len), 65);
    assert_int_equal(ours->muladd(a, NULL, 65, x, 32, y, 32, BR_EC_secp256r1), 1);
    y[31] = 2;
    ours->mulgen(b, y, 32, BR_EC_secp256r1);
    assert_memory_equal(a, b, 65);
    memcpy(a, ours->generator(BR_EC_secp256r1, &len), 65);
    memcpy(y, ours->order(BR_EC_secp256r1, &len), 32);
    y[31]--;
    assert_int_equal(ours->muladd(a, NULL, 65, x, 32, y, 32, BR_EC_secp256r1), 0);
}

static void test_what_is_no_point(void **state) {
    (void)state;
    const br_ec_impl *ours = curves_all();
    u8 good[65], bad[65], one[33] = {[32] = 1};
    size_t len;
    memcpy(good, ours->generator(BR_EC_secp256r1, &len), 65);
    const struct {
        u32 at, len;
        u8 value;
    } cases[] = {{0, 65, 2}, {0, 65, 0}, {64, 65, 0xf4}, {1, 65, 0x6a}, {0, 64, 4}, {0, 33, 3}, {0, 1, 0}, {0, 0, 0}};
    for (u32 i = 0; i < ARRAY_LEN(cases); i++) {
        memcpy(bad, good, sizeof(bad));
        bad[cases[i].at] = cases[i].value;
        assert_int_equal(ours->mul(bad, cases[i].len, one + 1, 32, BR_EC_secp256r1), 0);
        assert_int_equal(ours->muladd(bad, NULL, cases[i].len, one + 1, 32, one + 1, 32, BR_EC_secp256r1), 0);
    }
    memset(bad + 1, 0xff, 32); // X of p and more
    assert_int_equal(ours->mul(bad, 65, one + 1, 32, BR_EC_secp256r1), 0);
    memcpy(bad, good, sizeof(bad));
    assert_int_equal(ours->mul(bad, 65, one, 33, BR_EC_secp256r1), 0);
    assert_int_equal(ours->mulgen(bad, one, 33, BR_EC_secp256r1), 0);
    assert_int_equal(ours->mul(bad, 31, one + 1, 32, BR_EC_curve25519), 0);
    assert_int_equal(ours->mul(bad, 32, one, 33, BR_EC_curve25519), 0);
    // P-384 is BearSSL's.
    u8 large[97];
    assert_int_equal(ours->mulgen(large, one, 33, BR_EC_secp384r1), 97);
}

static void test_x25519_as_in_the_standard(void **state) {
    (void)state;
    u8 k[32], u[32], expected[32];
    hex(k, "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"); // RFC 7748 section 5.2
    hex(u, "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
    hex(expected, "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
    assert_int_equal(curve_25519.mul(u, 32, k, 32, BR_EC_curve25519), 1);
    assert_memory_equal(u, expected, 32);
    // Points that are no reduced numbers: 2^255 - 19 + 2 stands for 2, with bit 255 set or not.
    for (u32 high = 0; high < 2; high++) {
        u8 two[32] = {2}, same[32];
        memset(same, 0xff, 32);
        same[0] = 0xef;
        same[31] = high ? 0xff : 0x7f;
        curve_25519.mul(two, 32, k, 32, BR_EC_curve25519);
        curve_25519.mul(same, 32, k, 32, BR_EC_curve25519);
        assert_memory_equal(two, same, 32);
    }
    // RFC 7748 section 5.2, iterated a thousand times.
    u8 next[32] = {9}, last[32] = {9};
    for (u32 i = 0; i < 1000; i++) {
        u8 point[32];
        memcpy(point, last, 32);
        memcpy(last, next, 32);
        curve_25519.mul(point, 32, next, 32, BR_EC_curve25519);
        memcpy(next, point, 32);
    }
    hex(expected, "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
    assert_memory_equal(next, expected, 32);
}

static void test_signatures(void **state) {
    (void)state;
    static const br_hash_class *const hashes[] = {&br_sha256_vtable, &br_sha384_vtable, &br_sha512_vtable,
                                                  &br_sha1_vtable};
    u8 secret[32], digest[64], ours[80], theirs[80], pub[65];
    srandom(3);
    for (u32 i = 0; i < ROUNDS; i++) {
        const br_hash_class *hash = hashes[i % ARRAY_LEN(hashes)];
        random_bytes(secret, sizeof(secret));
        secret[0] &= 0x7f;
        random_bytes(digest, sizeof(digest));
        if (i == 4) memset(digest, 0xff, sizeof(digest)); // above the order
        if (i == 5) memset(digest, 0, sizeof(digest));
        br_ec_private_key key = {BR_EC_secp256r1, secret, 1 + i % 32};
        size_t len = br_ecdsa_i31_sign_asn1(br_ec_get_default(), hash, digest, &key, theirs);
        assert_int_equal(curves_ecdsa_sign(curves_all(), hash, digest, &key, ours), len);
        assert_memory_equal(ours, theirs, len);
        br_ec_public_key public;
        assert_int_equal(br_ec_compute_pub(curves_all(), &public, pub, &key), 65);
        size_t bytes = hash->desc >> BR_HASHDESC_OUT_OFF & BR_HASHDESC_OUT_MASK;
        assert_int_equal(curves_ecdsa_verify(&curve_25519, digest, bytes, &public, ours, len), 1);
        digest[3] ^= 1;
        assert_int_equal(br_ecdsa_i31_vrfy_asn1(curves_all(), digest, bytes, &public, ours, len), 0);
    }
    // Keys that are none: 0, the order, too long; and another curve's, which BearSSL signs with.
    size_t len;
    u8 wrong[34] = {0};
    br_ec_private_key key = {BR_EC_secp256r1, wrong, 32};
    assert_int_equal(curves_ecdsa_sign(curves_all(), &br_sha256_vtable, digest, &key, ours), 0);
    memcpy(wrong, curves_all()->order(BR_EC_secp256r1, &len), 32);
    assert_int_equal(curves_ecdsa_sign(curves_all(), &br_sha256_vtable, digest, &key, ours), 0);
    key.xlen = 33;
    assert_int_equal(curves_ecdsa_sign(curves_all(), &br_sha256_vtable, digest, &key, ours), 0);
    u8 long_signature[150];
    br_ec_private_key large = {BR_EC_secp384r1, secret, 32};
    assert_in_range(curves_ecdsa_sign(curves_all(), &br_sha384_vtable, digest, &large, long_signature), 90, 104);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_agree),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_what_is_no_point),
        cmocka_unit_test(test_x25519_as_in_the_standard),
        cmocka_unit_test(test_signatures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
