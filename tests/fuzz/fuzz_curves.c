// SPDX-License-Identifier: Apache-2.0
// The curves against BearSSL's own code: any scalars, any bytes as a point. What BearSSL takes for a point
// and multiplies, ours must multiply to the same; what it refuses, ours must refuse.
#include <stdlib.h>
#include <string.h>

#include "crypto/curves.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// 1 byte: what; 32: a scalar; 32: another; the rest: a point, or when it is absent a multiple of the generator.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const br_ec_impl *ours = curves_all(), *theirs = br_ec_get_default();
    u8 a[65] = {0}, b[65] = {0};
    if (size < 65) return 0;
    int curve = data[0] & 1 ? BR_EC_curve25519 : BR_EC_secp256r1;
    u8 x[31], y[32];
    memcpy(x, data + 1, sizeof(x));
    memcpy(y, data + 33, sizeof(y));
    x[0] |= 1; // neither 0 nor the curve's order: outside of that BearSSL promises nothing
    y[0] = (y[0] & 0x7f) | 1;
    size_t x_len = 1 + (data[0] >> 1) % sizeof(x), len = theirs->mulgen(b, y, 32, curve);
    CHECK(ours->mulgen(a, y, 32, curve) == len && memcmp(a, b, len) == 0);
    if (size - 65 >= len) {
        memcpy(a, data + 65, len);
        memcpy(b, data + 65, len);
    }
    u32 good = theirs->mul(b, len, x, x_len, curve);
    CHECK(ours->mul(a, len, x, x_len, curve) == good);
    if (!good) return 0;
    CHECK(memcmp(a, b, len) == 0);
    if (curve != BR_EC_secp256r1 || (data[0] & 0x80) == 0) return 0;
    good = theirs->muladd(b, NULL, len, x, sizeof(x), y, sizeof(y), curve);
    CHECK(ours->muladd(a, NULL, len, x, sizeof(x), y, sizeof(y), curve) == good);
    CHECK(!good || memcmp(a, b, len) == 0);
    return 0;
}
