// SPDX-License-Identifier: Apache-2.0
// rest.c: what libsodium's Ed25519 asks of the rest of the library, which is not built: wiping, a comparison,
// random bytes (for keys nobody makes here) and its end for programmer errors.
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "randombytes.h"
#include "utils.h"

void sodium_misuse(void);

void sodium_memzero(void *const p, const size_t len) {
    explicit_bzero(p, len);
}

int sodium_is_zero(const unsigned char *n, const size_t len) {
    volatile unsigned char any = 0;
    for (size_t i = 0; i < len; i++) any |= n[i];
    return any == 0;
}

void sodium_misuse(void) {
    abort();
}

void randombytes_buf(void *const buf, const size_t size) {
    unsigned char *to = buf;
    for (size_t at = 0; at < size;) {
        ssize_t got = getrandom(to + at, size - at, 0);
        if (got > 0) at += (size_t)got;
    }
}
