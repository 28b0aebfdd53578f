// SPDX-License-Identifier: Apache-2.0
// words.h: numbers of four 64-bit words, least significant first, and arithmetic modulo an odd number of 256 bits in
// Montgomery's form (a stands for a * 2^-256). All of it takes the same time for all values.
#ifndef SLUICE_CRYPTO_WORDS_H
#define SLUICE_CRYPTO_WORDS_H

#include <string.h>

#include "base/base.h"

typedef unsigned __int128 u128;
typedef struct words {
    u64 w[4];
} words;

// Keeps the compiler from knowing what a mask can be, and so from making a branch of it.
static inline u64 words_hide(u64 mask) {
    __asm__("" : "+r"(mask));
    return mask;
}

static inline words words_read(const u8 bytes[32]) { // big-endian
    words out;
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) {
        u64 word;
        memcpy(&word, bytes + 24 - 8 * i, sizeof(word));
        out.w[i] = __builtin_bswap64(word);
    }
    return out;
}

static inline void words_write(u8 bytes[32], const words *a) {
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) {
        u64 word = __builtin_bswap64(a->w[i]);
        memcpy(bytes + 24 - 8 * i, &word, sizeof(word));
    }
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "as words_read and words_write assume");

// a - b and the borrow.
static inline u64 words_sub(words *out, const words *a, const words *b) {
    u64 borrow = 0;
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) {
        u128 d = (u128)a->w[i] - b->w[i] - borrow;
        out->w[i] = (u64)d;
        borrow = (u64)(d >> 64) & 1;
    }
    return borrow;
}

// a + b and the carry.
static inline u64 words_add(words *out, const words *a, const words *b) {
    u64 carry = 0;
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) {
        u128 s = (u128)a->w[i] + b->w[i] + carry;
        out->w[i] = (u64)s;
        carry = (u64)(s >> 64);
    }
    return carry;
}

// *to = from where mask is all ones, as it was where it is 0.
static inline void words_copy_if(words *to, const words *from, u64 mask) {
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) to->w[i] ^= mask & (to->w[i] ^ from->w[i]);
}

// All ones when a is 0.
static inline u64 words_zero_mask(const words *a) {
    u64 any = a->w[0] | a->w[1] | a->w[2] | a->w[3];
    return words_hide(((any | (0 - any)) >> 63) - 1);
}

// What is below twice the modulus, carry being its bit 256, to below the modulus.
static inline void mod_once(words *a, u64 carry, const words *modulus) {
    words less;
    u64 borrow = words_sub(&less, a, modulus);
    words_copy_if(a, &less, words_hide(0 - (carry | (1 - borrow))));
}

static inline void mod_add(words *out, const words *a, const words *b, const words *modulus) {
    u64 carry = words_add(out, a, b);
    mod_once(out, carry, modulus);
}

static inline void mod_sub(words *out, const words *a, const words *b, const words *modulus) {
    words back;
    u64 mask = words_hide(0 - words_sub(out, a, b));
#pragma GCC unroll 4
    for (u32 i = 0; i < 4; i++) back.w[i] = modulus->w[i] & mask;
    (void)words_add(out, out, &back);
}

#endif
