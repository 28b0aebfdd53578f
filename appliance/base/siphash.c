// SPDX-License-Identifier: Apache-2.0
// siphash.c: SipHash-2-4 after the paper (Aumasson, Bernstein: "SipHash: a fast short-input PRF",
// 2012) and the process's secret key.
//
// Two rounds a message word, four at the end. The input may have any alignment and is read as
// little-endian words, so the result is the same on every machine (worker_of_client relies on that
// only within one process, tests on the published vectors).
#include "base/siphash.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

static u64 load_le64(const u8 *bytes) {
    u64 word;
    memcpy(&word, bytes, sizeof(word));
    return le64toh(word);
}

static inline u64 rotate_left(u64 word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(u64 v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] = rotate_left(v[2], 32);
}

u64 siphash24(const u8 key[16], const void *data, size_t bytes) {
    const u8 *in = data;
    u64 k0 = load_le64(key), k1 = load_le64(key + 8);
    // The constants spell "somepseudorandomlygeneratedbytes" (paper, section 2).
    u64 v[4] = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
                k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
    size_t whole = bytes & ~(size_t)7;
    for (size_t at = 0; at < whole; at += 8) {
        u64 word = load_le64(in + at);
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
    }
    // Last word: the bytes that are left, and the length modulo 256 on top.
    u64 last = (u64)bytes << 56;
    for (size_t i = whole; i < bytes; i++) last |= (u64)in[i] << (8 * (i - whole));
    v[3] ^= last;
    sip_round(v);
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static u8 process_key[16];
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

// Only reached where a sandbox refuses getrandom(2): the kernel has given every process 16 random
// bytes at exec. They also seed the stack protector, so they are hashed with the clock, never used
// as they are.
static void process_key_from_auxv(void) {
    const u8 *seed = (const u8 *)getauxval(AT_RANDOM);
    ASSERT(seed != NULL); // part of the ABI since Linux 2.6.29
    u64 tweak[2] = {clock_real_ns(), 0};
    for (u64 half = 0; half < 2; half++) {
        tweak[1] = half;
        u64 word = siphash24(seed, tweak, sizeof(tweak));
        memcpy(process_key + 8 * half, &word, sizeof(word));
    }
}

static void process_key_set(void) {
    // Requests of up to 256 bytes are neither interrupted nor cut short (getrandom(2)).
    ssize_t n = getrandom(process_key, sizeof(process_key), 0);
    if (n != (ssize_t)sizeof(process_key)) process_key_from_auxv();
}

const u8 *siphash_process_key(void) {
    pthread_once(&process_key_once, process_key_set);
    return process_key;
}

void siphash_process_key_set(const u8 key[16]) {
    pthread_once(&process_key_once, process_key_set);
    memcpy(process_key, key, sizeof(process_key));
}
