// SPDX-License-Identifier: Apache-2.0
// x25519.c: Curve25519's function X25519 (RFC 7748 section 5), modulo p = 2^255 - 19 in five words of 51
// bits. A number's words may be a little larger than that between operations: sums of two products go into a
// product without a carry.
#include <string.h>

#include "crypto/curves.h"
#include "crypto/words.h"

#define LOW51 ((1ull << 51) - 1)

typedef struct fe {
    u64 w[5];
} fe;

static u64 word_read(const u8 *bytes) {
    u64 word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

// Bit 255 is not looked at.
static void fe_read(fe *out, const u8 bytes[32]) {
    out->w[0] = word_read(bytes) & LOW51;
    out->w[1] = word_read(bytes + 6) >> 3 & LOW51;
    out->w[2] = word_read(bytes + 12) >> 6 & LOW51;
    out->w[3] = word_read(bytes + 19) >> 1 & LOW51;
    out->w[4] = word_read(bytes + 24) >> 12 & LOW51;
}

static void fe_carry(fe *a) {
#pragma GCC unroll 5
    for (u32 i = 0; i < 4; i++) {
        a->w[i + 1] += a->w[i] >> 51;
        a->w[i] &= LOW51;
    }
    a->w[0] += 19 * (a->w[4] >> 51);
    a->w[4] &= LOW51;
}

// The one number from 0 to p - 1.
static void fe_write(u8 bytes[32], const fe *from) {
    fe a = *from;
    fe_carry(&a);
    fe_carry(&a);
    // a >= p exactly when a + 19 reaches 2^255.
    u64 over = (a.w[0] + 19) >> 51;
#pragma GCC unroll 5
    for (u32 i = 1; i < 5; i++) over = (a.w[i] + over) >> 51;
    a.w[0] += 19 * over;
#pragma GCC unroll 5
    for (u32 i = 0; i < 4; i++) {
        a.w[i + 1] += a.w[i] >> 51;
        a.w[i] &= LOW51;
    }
    a.w[4] &= LOW51;
    const u64 words64[4] = {a.w[0] | a.w[1] << 51, a.w[1] >> 13 | a.w[2] << 38, a.w[2] >> 26 | a.w[3] << 25,
                            a.w[3] >> 39 | a.w[4] << 12};
    memcpy(bytes, words64, sizeof(words64));
}

static void fe_add(fe *out, const fe *a, const fe *c) {
#pragma GCC unroll 5
    for (u32 i = 0; i < 5; i++) out->w[i] = a->w[i] + c->w[i];
}

// Plus 4 p, so that no word is below 0.
static void fe_sub(fe *out, const fe *a, const fe *c) {
    out->w[0] = a->w[0] + 4 * (LOW51 - 18) - c->w[0];
#pragma GCC unroll 5
    for (u32 i = 1; i < 5; i++) out->w[i] = a->w[i] + 4 * LOW51 - c->w[i];
}

// Words of up to 54 bits in, of 51 and a little out.
static void fe_reduce(fe *out, u128 t[5]) {
#pragma GCC unroll 5
    for (u32 i = 0; i < 4; i++) {
        t[i + 1] += (u64)(t[i] >> 51);
        out->w[i] = (u64)t[i] & LOW51;
    }
    u64 top = (u64)(t[4] >> 51);
    out->w[4] = (u64)t[4] & LOW51;
    out->w[0] += 19 * top;
    out->w[1] += out->w[0] >> 51;
    out->w[0] &= LOW51;
}

static void fe_mul(fe *out, const fe *x, const fe *y) {
    const u64 *a = x->w, *c = y->w;
    u64 c1 = 19 * c[1], c2 = 19 * c[2], c3 = 19 * c[3], c4 = 19 * c[4];
    u128 t[5] = {
        (u128)a[0] * c[0] + (u128)a[1] * c4 + (u128)a[2] * c3 + (u128)a[3] * c2 + (u128)a[4] * c1,
        (u128)a[0] * c[1] + (u128)a[1] * c[0] + (u128)a[2] * c4 + (u128)a[3] * c3 + (u128)a[4] * c2,
        (u128)a[0] * c[2] + (u128)a[1] * c[1] + (u128)a[2] * c[0] + (u128)a[3] * c4 + (u128)a[4] * c3,
        (u128)a[0] * c[3] + (u128)a[1] * c[2] + (u128)a[2] * c[1] + (u128)a[3] * c[0] + (u128)a[4] * c4,
        (u128)a[0] * c[4] + (u128)a[1] * c[3] + (u128)a[2] * c[2] + (u128)a[3] * c[1] + (u128)a[4] * c[0],
    };
    fe_reduce(out, t);
}

static void fe_square(fe *out, const fe *x) {
    const u64 *a = x->w;
    u64 a0 = 2 * a[0], a1 = 2 * a[1], a3 = 19 * a[3], a4 = 19 * a[4];
    u128 t[5] = {
        (u128)a[0] * a[0] + (u128)a1 * a4 + (u128)(2 * a[2]) * a3,
        (u128)a0 * a[1] + (u128)(2 * a[2]) * a4 + (u128)a[3] * a3,
        (u128)a0 * a[2] + (u128)a[1] * a[1] + (u128)(2 * a[3]) * a4,
        (u128)a0 * a[3] + (u128)a1 * a[2] + (u128)a[4] * a4,
        (u128)a0 * a[4] + (u128)a1 * a[3] + (u128)a[2] * a[2],
    };
    fe_reduce(out, t);
}

static void fe_mul_small(fe *out, const fe *x, u64 factor) {
    u128 t[5];
#pragma GCC unroll 5
    for (u32 i = 0; i < 5; i++) t[i] = (u128)x->w[i] * factor;
    fe_reduce(out, t);
}

static void fe_squares(fe *out, const fe *x, u32 times) {
    *out = *x;
    for (u32 i = 0; i < times; i++) fe_square(out, out);
}

// x^(p - 2) = x^(2^255 - 21). onesK is x^(2^K - 1).
static void fe_invert(fe *out, const fe *x) {
    fe x11, ones5, ones10, ones20, ones50, ones100, t;
    fe_squares(&t, x, 3);            // x^8
    fe_mul(&ones5, &t, x);           // x^9
    fe_square(&t, x);
    fe_mul(&x11, &ones5, &t);        // x^11
    fe_square(&t, &x11);             // x^22
    fe_mul(&ones5, &t, &ones5);      // x^31
    fe_squares(&t, &ones5, 5), fe_mul(&ones10, &t, &ones5);
    fe_squares(&t, &ones10, 10), fe_mul(&ones20, &t, &ones10);
    fe_squares(&t, &ones20, 20), fe_mul(&t, &t, &ones20);
    fe_squares(&t, &t, 10), fe_mul(&ones50, &t, &ones10);
    fe_squares(&t, &ones50, 50), fe_mul(&ones100, &t, &ones50);
    fe_squares(&t, &ones100, 100), fe_mul(&t, &t, &ones100);
    fe_squares(&t, &t, 50), fe_mul(&t, &t, &ones50);
    fe_squares(&t, &t, 5), fe_mul(out, &t, &x11);
}

static void swap_if(fe *a, fe *c, u64 bit) {
    u64 mask = words_hide(0 - bit);
#pragma GCC unroll 5
    for (u32 i = 0; i < 5; i++) {
        u64 t = mask & (a->w[i] ^ c->w[i]);
        a->w[i] ^= t;
        c->w[i] ^= t;
    }
}

// One step of the ladder of RFC 7748 section 5; its names.
static void ladder_step(const fe *x1, fe *x2, fe *z2, fe *x3, fe *z3) {
    fe a, aa, d, bb, e, cc, dd, da, cb;
    fe_add(&a, x2, z2);
    fe_square(&aa, &a);
    fe_sub(&d, x2, z2);
    fe_square(&bb, &d);
    fe_sub(&e, &aa, &bb);
    fe_carry(&e);
    fe_add(&cc, x3, z3);
    fe_sub(&dd, x3, z3);
    fe_mul(&da, &dd, &a);
    fe_mul(&cb, &cc, &d);
    fe_add(x3, &da, &cb);
    fe_square(x3, x3);
    fe_sub(z3, &da, &cb);
    fe_square(z3, z3);
    fe_mul(z3, z3, x1);
    fe_mul(x2, &aa, &bb);
    fe_mul_small(z2, &e, 121665);
    fe_add(z2, z2, &aa);
    fe_mul(z2, z2, &e);
}

static uint32_t mul(unsigned char *point, size_t len, const unsigned char *x, size_t x_len, int curve) {
    u8 k[32] = {0};
    (void)curve;
    if (len != 32 || x_len > sizeof(k)) return 0;
    memcpy(k, x, x_len);
    k[0] &= 0xf8;
    k[31] = (k[31] & 0x7f) | 0x40;
    fe x1, x2 = {{1}}, z2 = {{0}}, x3, z3 = {{1}};
    fe_read(&x1, point);
    x3 = x1;
    u64 swap = 0;
    for (u32 i = 255; i-- > 0;) {
        u64 bit = k[i / 8] >> (i % 8) & 1;
        swap_if(&x2, &x3, swap ^ bit);
        swap_if(&z2, &z3, swap ^ bit);
        swap = bit;
        ladder_step(&x1, &x2, &z2, &x3, &z3);
    }
    swap_if(&x2, &x3, swap);
    swap_if(&z2, &z3, swap);
    fe_invert(&z2, &z2);
    fe_mul(&x2, &x2, &z2);
    fe_write(point, &x2);
    explicit_bzero(k, sizeof(k));
    return 1;
}

static const unsigned char *generator(int curve, size_t *len) {
    static const u8 nine[32] = {9};
    (void)curve;
    *len = sizeof(nine);
    return nine;
}

// What a secret is drawn below; X25519 itself fixes bits of it.
static const unsigned char *order(int curve, size_t *len) {
    static const u8 bytes[32] = {
        0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    };
    (void)curve;
    *len = sizeof(bytes);
    return bytes;
}

static size_t xoff(int curve, size_t *len) {
    (void)curve;
    *len = 32;
    return 0;
}

static size_t mulgen(unsigned char *out, const unsigned char *x, size_t x_len, int curve) {
    size_t len;
    memcpy(out, generator(curve, &len), 32);
    return mul(out, len, x, x_len, curve) == 1 ? len : 0;
}

// There are no signatures on this curve here.
static uint32_t muladd(unsigned char *a, const unsigned char *other, size_t len, const unsigned char *x, size_t x_len,
                       const unsigned char *y, size_t y_len, int curve) {
    (void)a, (void)other, (void)len, (void)x, (void)x_len, (void)y, (void)y_len, (void)curve;
    return 0;
}

const br_ec_impl curve_25519 = {
    .supported_curves = 1u << BR_EC_curve25519,
    .generator = generator,
    .order = order,
    .xoff = xoff,
    .mul = mul,
    .mulgen = mulgen,
    .muladd = muladd,
};
