// SPDX-License-Identifier: Apache-2.0
// pbkdf2.c: see pbkdf2.h. br_hmac_key_init keeps the hash's states after the padded key, so that an iteration
// costs two compressions and not four.
#include "auth/pbkdf2.h"

#include <string.h>

static void step(pbkdf2 *p, const void *data, size_t len, const void *more, size_t more_len) {
    br_hmac_context ctx;
    br_hmac_init(&ctx, &p->key, 0);
    br_hmac_update(&ctx, data, len);
    if (more_len > 0) br_hmac_update(&ctx, more, more_len);
    br_hmac_out(&ctx, p->last);
    for (u32 i = 0; i < p->bytes; i++) p->sum[i] ^= p->last[i];
}

void pbkdf2_begin(pbkdf2 *p, const br_hash_class *hash, const void *password, size_t len, const u8 *salt,
                  size_t salt_len, u32 iterations) {
    static const u8 first_block[4] = {0, 0, 0, 1};
    ASSERT(iterations > 0);
    memset(p, 0, sizeof(*p));
    p->bytes = hash == &br_sha512_vtable ? br_sha512_SIZE : br_sha256_SIZE;
    br_hmac_key_init(&p->key, hash, password, len);
    step(p, salt, salt_len, first_block, sizeof(first_block));
    p->left = iterations - 1;
}

bool pbkdf2_run(pbkdf2 *p, u32 iterations) {
    for (; iterations > 0 && p->left > 0; iterations--, p->left--) step(p, p->last, p->bytes, NULL, 0);
    return p->left == 0;
}

void pbkdf2_wipe(pbkdf2 *p) {
    secret_wipe(p, sizeof(*p));
}

bool secret_is_equal(const void *a, const void *b, size_t len) {
    const u8 *x = a, *y = b;
    volatile u8 difference = 0;
    for (size_t i = 0; i < len; i++) difference = (u8)(difference | (x[i] ^ y[i]));
    return difference == 0;
}

void secret_wipe(void *p, size_t len) {
    explicit_bzero(p, len);
}

void secret_hmac(const br_hash_class *hash, const void *key, size_t key_len, const void *data, size_t len, u8 *out) {
    br_hmac_key_context k;
    br_hmac_context ctx;
    br_hmac_key_init(&k, hash, key, key_len);
    br_hmac_init(&ctx, &k, 0);
    br_hmac_update(&ctx, data, len);
    br_hmac_out(&ctx, out);
    secret_wipe(&k, sizeof(k));
}
