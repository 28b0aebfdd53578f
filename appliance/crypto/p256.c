// SPDX-License-Identifier: Apache-2.0
// p256.c: the curve P-256 (FIPS 186-5, SEC 2 section 2.4.2) and ECDSA signatures on it. Points are
// projective, and added with the complete formulas of Renes, Costello and Batina (2016, algorithms 4 and 6,
// for a = -3): they hold for all points, the one at infinity and equal ones too, so there is no case to tell
// apart. A multiple of a point takes four bits of the scalar at a time from a table of 16; one of the
// generator has four tables made at the first use, each for every fourth column of a comb of four teeth (Lim
// and Lee, 1994): 15 doublings and 64 additions.
#include <pthread.h>
#include <string.h>

#include "crypto/curves.h"
#include "crypto/words.h"

#define POINT_BYTES 65u // 4, X, Y
#define SCALAR_BYTES 32u
#define TEETH 4u
#define COMBS 4u
#define COLUMNS 16u // of each comb: TEETH * COMBS * COLUMNS bits

typedef struct point {
    words x, y, z; // modulo p, Montgomery's form; infinity has z = 0
} point;

static const words p = {{0xffffffffffffffff, 0x00000000ffffffff, 0, 0xffffffff00000001}};
static const words n = {{0xf3b9cac2fc632551, 0xbce6faada7179e84, 0xffffffffffffffff, 0xffffffff00000000}};

static const u8 order_bytes[SCALAR_BYTES] = {
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
};
static const u8 b_bytes[32] = {
    0x5a, 0xc6, 0x35, 0xd8, 0xaa, 0x3a, 0x93, 0xe7, 0xb3, 0xeb, 0xbd, 0x55, 0x76, 0x98, 0x86, 0xbc,
    0x65, 0x1d, 0x06, 0xb0, 0xcc, 0x53, 0xb0, 0xf6, 0x3b, 0xce, 0x3c, 0x3e, 0x27, 0xd2, 0x60, 0x4b,
};
static const u8 generator_bytes[POINT_BYTES] = {
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96,
    0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16,
    0x2b, 0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
};

// Made once by prepare().
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static words one_p, square_p;        // 2^256 and 2^512 modulo p
static words one_n, square_n;        // the same modulo n
static u64 n_inverse;                // -1 / n modulo 2^64
static words b;
static point combs[COMBS][1u << TEETH];

// --- modulo p ---

// Since p is -1 modulo 2^64, each word's multiple of p is that word itself, and p's own words make it shifts
// but for the last.
static void mul_p(words *out, const words *x, const words *y) {
    u64 t[5] = {0};
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) {
        u128 sum;
        u64 carry = 0;
#pragma GCC unroll 4
        for (u32 j = 0; j < 4; j++) {
            sum = (u128)x->w[j] * y->w[i] + t[j] + carry;
            t[j] = (u64)sum;
            carry = (u64)(sum >> 64);
        }
        sum = (u128)t[4] + carry;
        u64 top = (u64)sum, over = (u64)(sum >> 64), m = t[0];
        sum = ((u128)m << 32) + t[1];
        t[0] = (u64)sum;
        sum = (u128)t[2] + (u64)(sum >> 64);
        t[1] = (u64)sum;
        sum = (u128)m * 0xffffffff00000001 + t[3] + (u64)(sum >> 64);
        t[2] = (u64)sum;
        sum = (u128)top + (u64)(sum >> 64);
        t[3] = (u64)sum;
        t[4] = over + (u64)(sum >> 64);
    }
    *out = (words){{t[0], t[1], t[2], t[3]}};
    mod_once(out, t[4], &p);
}

// Not inlined: their copies would be most of this file's code.
__attribute__((noinline)) static void add_p(words *out, const words *x, const words *y) {
    mod_add(out, x, y, &p);
}

__attribute__((noinline)) static void sub_p(words *out, const words *x, const words *y) {
    mod_sub(out, x, y, &p);
}

static void triple_p(words *out, const words *x) {
    words twice;
    add_p(&twice, x, x);
    add_p(out, &twice, x);
}

static void squares_p(words *out, const words *x, u32 times) {
    *out = *x;
    for (u32 i = 0; i < times; i++) mul_p(out, out, out);
}

// x^(p - 2), which is 1 / x; 0 for 0. p - 2 = 2^256 - 2^224 + 2^192 + 2^96 - 3; ones[k] is x^(2^k - 1).
static void invert_p(words *out, const words *x) {
    words ones2, ones4, ones8, ones16, ones30, ones32, t;
    squares_p(&t, x, 1), mul_p(&ones2, &t, x);
    squares_p(&t, &ones2, 2), mul_p(&ones4, &t, &ones2);
    squares_p(&t, &ones4, 4), mul_p(&ones8, &t, &ones4);
    squares_p(&t, &ones8, 8), mul_p(&ones16, &t, &ones8);
    squares_p(&t, &ones16, 8), mul_p(&t, &t, &ones8);
    squares_p(&t, &t, 4), mul_p(&t, &t, &ones4);
    squares_p(&t, &t, 2), mul_p(&ones30, &t, &ones2);
    squares_p(&t, &ones30, 2), mul_p(&ones32, &t, &ones2);
    squares_p(&t, &ones32, 32), mul_p(&t, &t, x);
    squares_p(&t, &t, 128), mul_p(&t, &t, &ones32);
    squares_p(&t, &t, 32), mul_p(&t, &t, &ones32);
    squares_p(&t, &t, 30), mul_p(&t, &t, &ones30);
    squares_p(&t, &t, 2), mul_p(out, &t, x);
}

// --- points ---

// s - t: how both formulas end. d and s are yy + and - 3 (xz - b zz), m is 3 (b xz - 3 zz - xx), k is 3 (xx - zz).
typedef struct sums {
    words s, d, m, k;
} sums;

static void sums_of(sums *out, const words *xx, const words *yy, const words *zz, const words *xz) {
    words t, zz3;
    mul_p(&t, &b, zz);
    sub_p(&t, xz, &t);
    triple_p(&t, &t);
    sub_p(&out->s, yy, &t);
    add_p(&out->d, yy, &t);
    triple_p(&zz3, zz);
    mul_p(&t, &b, xz);
    sub_p(&t, &t, &zz3);
    sub_p(&t, &t, xx);
    triple_p(&out->m, &t);
    triple_p(&t, xx);
    sub_p(&out->k, &t, &zz3);
}

// (u + v) (u' + v') - uu' - vv'
static void cross(words *out, const words *u1, const words *v1, const words *u2, const words *v2, const words *uu,
                  const words *vv) {
    words a, c;
    add_p(&a, u1, v1);
    add_p(&c, u2, v2);
    mul_p(&a, &a, &c);
    sub_p(&a, &a, uu);
    sub_p(out, &a, vv);
}

static void point_add(point *out, const point *u, const point *v) {
    words xx, yy, zz, xy, yz, xz, t;
    sums f;
    mul_p(&xx, &u->x, &v->x);
    mul_p(&yy, &u->y, &v->y);
    mul_p(&zz, &u->z, &v->z);
    cross(&xy, &u->x, &u->y, &v->x, &v->y, &xx, &yy);
    cross(&yz, &u->y, &u->z, &v->y, &v->z, &yy, &zz);
    cross(&xz, &u->x, &u->z, &v->x, &v->z, &xx, &zz);
    sums_of(&f, &xx, &yy, &zz, &xz);
    mul_p(&out->x, &xy, &f.d);
    mul_p(&t, &yz, &f.m);
    sub_p(&out->x, &out->x, &t);
    mul_p(&out->y, &f.d, &f.s);
    mul_p(&t, &f.k, &f.m);
    add_p(&out->y, &out->y, &t);
    mul_p(&out->z, &yz, &f.s);
    mul_p(&t, &xy, &f.k);
    add_p(&out->z, &out->z, &t);
}

static void point_double(point *out, const point *u) {
    words xx, yy, zz, xy, yz, xz, t;
    sums f;
    mul_p(&xx, &u->x, &u->x);
    mul_p(&yy, &u->y, &u->y);
    mul_p(&zz, &u->z, &u->z);
    mul_p(&t, &u->x, &u->y), add_p(&xy, &t, &t);
    mul_p(&t, &u->x, &u->z), add_p(&xz, &t, &t);
    mul_p(&t, &u->y, &u->z), add_p(&yz, &t, &t);
    sums_of(&f, &xx, &yy, &zz, &xz);
    mul_p(&out->x, &xy, &f.d);
    mul_p(&t, &yz, &f.m);
    sub_p(&out->x, &out->x, &t);
    mul_p(&out->y, &f.d, &f.s);
    mul_p(&t, &f.k, &f.m);
    add_p(&out->y, &out->y, &t);
    mul_p(&t, &yz, &yy);
    add_p(&t, &t, &t);
    add_p(&out->z, &t, &t);
}

// table[index], having read all of it.
static void point_select(point *out, const point table[16], u64 index) {
    memset(out, 0, sizeof(*out));
    for (u64 i = 0; i < 16; i++) {
        u64 mask = words_hide(((i ^ index) - 1) >> 63);
        mask = 0 - mask;
        words_copy_if(&out->x, &table[i].x, mask);
        words_copy_if(&out->y, &table[i].y, mask);
        words_copy_if(&out->z, &table[i].z, mask);
    }
}

static point infinity(void) {
    return (point){.y = one_p};
}

static void table_make(point table[16], const point *of) {
    table[0] = infinity();
    table[1] = *of;
    for (u32 i = 2; i < 16; i++) point_add(&table[i], &table[i - 1], of);
}

// --- bytes ---

// False: no point of the curve (infinity has no such form).
static bool point_read(point *out, const u8 *bytes, size_t len) {
    words none, x, y, t;
    if (len != POINT_BYTES || bytes[0] != 4) return false;
    x = words_read(bytes + 1);
    y = words_read(bytes + 33);
    if (!words_sub(&none, &x, &p) || !words_sub(&none, &y, &p)) return false;
    mul_p(&out->x, &x, &square_p);
    mul_p(&out->y, &y, &square_p);
    out->z = one_p;
    mul_p(&t, &out->x, &out->x); // y^2 = x^3 - 3 x + b
    mul_p(&t, &t, &out->x);
    add_p(&t, &t, &b);
    triple_p(&x, &out->x);
    sub_p(&t, &t, &x);
    mul_p(&y, &out->y, &out->y);
    sub_p(&t, &t, &y);
    return words_zero_mask(&t) != 0;
}

// Infinity becomes zeros.
static void point_write(u8 bytes[POINT_BYTES], const point *from) {
    static const words plain = {{1, 0, 0, 0}};
    words inverse, t;
    invert_p(&inverse, &from->z);
    bytes[0] = 4;
    mul_p(&t, &from->x, &inverse);
    mul_p(&t, &t, &plain);
    words_write(bytes + 1, &t);
    mul_p(&t, &from->y, &inverse);
    mul_p(&t, &t, &plain);
    words_write(bytes + 33, &t);
}

static bool scalar_read(u8 out[SCALAR_BYTES], const u8 *bytes, size_t len) {
    if (len > SCALAR_BYTES) return false;
    memset(out, 0, SCALAR_BYTES - len);
    memcpy(out + SCALAR_BYTES - len, bytes, len);
    return true;
}

// --- multiples ---

static void multiple(point *out, const point *of, const u8 scalar[SCALAR_BYTES]) {
    point table[16], chosen;
    table_make(table, of);
    *out = infinity();
    for (u32 i = 0; i < 2 * SCALAR_BYTES; i++) {
        for (u32 j = 0; j < 4 && i > 0; j++) point_double(out, out);
        point_select(&chosen, table, i % 2 == 0 ? scalar[i / 2] >> 4 : scalar[i / 2] & 15u);
        point_add(out, out, &chosen);
    }
    explicit_bzero(&chosen, sizeof(chosen));
}

static void multiple_of_generator(point *out, const u8 scalar[SCALAR_BYTES]) {
    point chosen;
    words k = words_read(scalar);
    *out = infinity();
    for (u32 column = COLUMNS; column-- > 0;) {
        if (column + 1 < COLUMNS) point_double(out, out);
        for (u32 comb = 0; comb < COMBS; comb++) {
            u64 index = 0;
            for (u32 tooth = 0; tooth < TEETH; tooth++) {
                index |= (k.w[tooth] >> (comb * COLUMNS + column) & 1) << tooth;
            }
            point_select(&chosen, combs[comb], index);
            point_add(out, out, &chosen);
        }
    }
    explicit_bzero(&k, sizeof(k));
    explicit_bzero(&chosen, sizeof(chosen));
}
_Static_assert(COMBS * COLUMNS == 64 && TEETH == 4, "a tooth is a word of the scalar");

static void combs_make(void) {
    point teeth[TEETH];
    (void)point_read(&teeth[0], generator_bytes, POINT_BYTES);
    for (u32 tooth = 1; tooth < TEETH; tooth++) {
        teeth[tooth] = teeth[tooth - 1];
        for (u32 i = 0; i < COMBS * COLUMNS; i++) point_double(&teeth[tooth], &teeth[tooth]);
    }
    for (u32 comb = 0; comb < COMBS; comb++) {
        combs[comb][0] = infinity();
        for (u32 i = 1; i < 1u << TEETH; i++) {
            u32 highest = 31 - (u32)__builtin_clz(i);
            point_add(&combs[comb][i], &combs[comb][i ^ 1u << highest], &teeth[highest]);
        }
        for (u32 i = 0; i < TEETH * COLUMNS; i++) point_double(&teeth[i % TEETH], &teeth[i % TEETH]);
    }
}

// 2^256 and 2^512 modulo a modulus above 2^255.
static void powers_make(words *one, words *square, const words *modulus) {
    static const words zero;
    (void)words_sub(one, &zero, modulus);
    *square = *one;
    for (u32 i = 0; i < 256; i++) mod_add(square, square, square, modulus);
}

static void prepare(void) {
    powers_make(&one_p, &square_p, &p);
    powers_make(&one_n, &square_n, &n);
    n_inverse = 1;
    for (u32 i = 0; i < 6; i++) n_inverse *= 2 - n.w[0] * n_inverse; // Newton: twice as many bits each time
    n_inverse = 0 - n_inverse;
    words plain = words_read(b_bytes);
    mul_p(&b, &plain, &square_p);
    combs_make();
}

// --- as BearSSL wants it ---

static const unsigned char *api_generator(int curve, size_t *len) {
    (void)curve;
    *len = sizeof(generator_bytes);
    return generator_bytes;
}

static const unsigned char *api_order(int curve, size_t *len) {
    (void)curve;
    *len = sizeof(order_bytes);
    return order_bytes;
}

static size_t api_xoff(int curve, size_t *len) {
    (void)curve;
    *len = 32;
    return 1;
}

static uint32_t api_mul(unsigned char *bytes, size_t len, const unsigned char *x, size_t x_len, int curve) {
    u8 scalar[SCALAR_BYTES];
    point from, to;
    (void)curve;
    pthread_once(&prepared, prepare);
    if (!scalar_read(scalar, x, x_len) || !point_read(&from, bytes, len)) return 0;
    multiple(&to, &from, scalar);
    point_write(bytes, &to);
    explicit_bzero(scalar, sizeof(scalar));
    return 1;
}

static size_t api_mulgen(unsigned char *out, const unsigned char *x, size_t x_len, int curve) {
    u8 scalar[SCALAR_BYTES];
    point to;
    (void)curve;
    pthread_once(&prepared, prepare);
    if (!scalar_read(scalar, x, x_len)) return 0;
    multiple_of_generator(&to, scalar);
    point_write(out, &to);
    explicit_bzero(scalar, sizeof(scalar));
    return POINT_BYTES;
}

static uint32_t api_muladd(unsigned char *a, const unsigned char *other, size_t len, const unsigned char *x,
                           size_t x_len, const unsigned char *y, size_t y_len, int curve) {
    u8 scalar[SCALAR_BYTES];
    point from, first, second;
    (void)curve;
    pthread_once(&prepared, prepare);
    if (!scalar_read(scalar, x, x_len) || !point_read(&from, a, len)) return 0;
    multiple(&first, &from, scalar);
    if (!scalar_read(scalar, y, y_len)) return 0;
    if (other == NULL) multiple_of_generator(&second, scalar);
    else if (point_read(&from, other, len)) multiple(&second, &from, scalar);
    else return 0;
    point_add(&first, &first, &second);
    point_write(a, &first);
    return words_zero_mask(&first.z) == 0;
}

const br_ec_impl curve_p256 = {
    .supported_curves = 1u << BR_EC_secp256r1,
    .generator = api_generator,
    .order = api_order,
    .xoff = api_xoff,
    .mul = api_mul,
    .mulgen = api_mulgen,
    .muladd = api_muladd,
};

// --- signatures ---

static void mul_n(words *out, const words *x, const words *y) {
    u64 t[5] = {0};
    for (u32 i = 0; i < 4; i++) {
        u128 sum;
        u64 carry = 0;
        for (u32 j = 0; j < 4; j++) {
            sum = (u128)x->w[j] * y->w[i] + t[j] + carry;
            t[j] = (u64)sum;
            carry = (u64)(sum >> 64);
        }
        sum = (u128)t[4] + carry;
        u64 top = (u64)sum, over = (u64)(sum >> 64), m = t[0] * n_inverse;
        carry = (u64)(((u128)m * n.w[0] + t[0]) >> 64);
        for (u32 j = 1; j < 4; j++) {
            sum = (u128)m * n.w[j] + t[j] + carry;
            t[j - 1] = (u64)sum;
            carry = (u64)(sum >> 64);
        }
        sum = (u128)top + carry;
        t[3] = (u64)sum;
        t[4] = over + (u64)(sum >> 64);
    }
    *out = (words){{t[0], t[1], t[2], t[3]}};
    mod_once(out, t[4], &n);
}

// x^(n - 2), which is 1 / x, four bits of the exponent at a time; the exponent is no secret.
static void invert_n(words *out, const words *x) {
    words table[16];
    table[0] = one_n;
    for (u32 i = 1; i < 16; i++) mul_n(&table[i], &table[i - 1], x);
    *out = one_n;
    for (u32 i = 0; i < 64; i++) {
        u32 shift = (15 - i % 16) * 4;
        u64 word = n.w[3 - i / 16] - (i / 16 == 3 ? 2 : 0);
        for (u32 j = 0; j < 4; j++) mul_n(out, out, out);
        mul_n(out, out, &table[word >> shift & 15]);
    }
    explicit_bzero(table, sizeof(table));
}

// The leftmost 256 bits of a digest (SEC 1 section 4.1.3); a shorter one is the low end of the number.
static words digest_read(const u8 *digest, size_t len) {
    u8 bytes[SCALAR_BYTES] = {0};
    size_t take = MIN(len, sizeof(bytes));
    memcpy(bytes + sizeof(bytes) - take, digest, take);
    return words_read(bytes);
}

// RFC 6979 section 3.2: BearSSL's HMAC_DRBG from the key and the digest. What is not from 1 to n - 1 is
// thrown away; that this happened tells nothing of the number that follows.
static void nonce_make(u8 out[SCALAR_BYTES], const br_hash_class *hash, const words *secret, const words *e) {
    u8 seed[2 * SCALAR_BYTES];
    br_hmac_drbg_context drbg;
    words k, none;
    words_write(seed, secret);
    words_write(seed + SCALAR_BYTES, e);
    br_hmac_drbg_init(&drbg, hash, seed, sizeof(seed));
    do {
        br_hmac_drbg_generate(&drbg, out, SCALAR_BYTES);
        k = words_read(out);
    } while (words_zero_mask(&k) != 0 || !words_sub(&none, &k, &n));
    explicit_bzero(seed, sizeof(seed));
    explicit_bzero(&drbg, sizeof(drbg));
    explicit_bzero(&k, sizeof(k));
    explicit_bzero(&none, sizeof(none));
}

static bool secret_read(words *out, const br_ec_private_key *key) {
    u8 bytes[SCALAR_BYTES];
    words none;
    if (!scalar_read(bytes, key->x, key->xlen)) return false;
    *out = words_read(bytes);
    explicit_bzero(bytes, sizeof(bytes));
    bool fits = words_zero_mask(out) == 0 && words_sub(&none, out, &n) == 1;
    explicit_bzero(&none, sizeof(none));
    return fits;
}

size_t p256_ecdsa_sign(const br_hash_class *hash, const void *digest, const br_ec_private_key *key, void *signature) {
    u8 nonce[SCALAR_BYTES], at[POINT_BYTES], raw[2 * SCALAR_BYTES + 9];
    words secret, e, k, r, s;
    point kg;
    pthread_once(&prepared, prepare);
    if (key->curve != BR_EC_secp256r1 || !secret_read(&secret, key)) return 0;
    e = digest_read(digest, hash->desc >> BR_HASHDESC_OUT_OFF & BR_HASHDESC_OUT_MASK);
    mod_once(&e, 0, &n);
    nonce_make(nonce, hash, &secret, &e);
    multiple_of_generator(&kg, nonce);
    point_write(at, &kg);
    r = words_read(at + 1);
    mod_once(&r, 0, &n);
    // s = (e + r secret) / k
    k = words_read(nonce);
    mul_n(&k, &k, &square_n);
    invert_n(&k, &k);
    mul_n(&secret, &secret, &square_n);
    mul_n(&s, &r, &secret);
    mod_add(&s, &s, &e, &n);
    mul_n(&s, &s, &k);
    words_write(raw, &r);
    words_write(raw + SCALAR_BYTES, &s);
    explicit_bzero(nonce, sizeof(nonce));
    explicit_bzero(&secret, sizeof(secret));
    explicit_bzero(&k, sizeof(k));
    explicit_bzero(&kg, sizeof(kg));
    if (words_zero_mask(&r) != 0 || words_zero_mask(&s) != 0) return 0;
    size_t len = br_ecdsa_raw_to_asn1(raw, 2 * SCALAR_BYTES);
    memcpy(signature, raw, len);
    return len;
}
