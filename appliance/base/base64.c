// SPDX-License-Identifier: Apache-2.0
// base64.c: see base64.h. Decoding takes the canonical form only: bits that no byte uses have to be zero.
#include "base/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const u8 *data, size_t len, char *out) {
    for (size_t i = 0; i < len; i += 3, out += 4) {
        u32 left = (u32)MIN(len - i, (size_t)3);
        u32 v = (u32)data[i] << 16 | (left > 1 ? (u32)data[i + 1] << 8 : 0) | (left > 2 ? (u32)data[i + 2] : 0);
        out[0] = alphabet[v >> 18];
        out[1] = alphabet[v >> 12 & 63];
        out[2] = left > 1 ? alphabet[v >> 6 & 63] : '=';
        out[3] = left > 2 ? alphabet[v & 63] : '=';
    }
}

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t len, u8 *out) {
    size_t written = 0;
    if (len % 4 != 0) return -EINVAL;
    for (size_t i = 0; i < len; i += 4) {
        u32 padding = 0, v = 0;
        if (i + 4 == len) padding = text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
        for (u32 k = 0; k < 4; k++) {
            int value = k >= 4 - padding ? 0 : value_of(text[i + k]);
            if (value < 0) return -EINVAL;
            v = v << 6 | (u32)value;
        }
        if (padding != 0 && (v & ((1u << (8 * padding)) - 1)) != 0) return -EINVAL;
        for (u32 k = 0; k < 3 - padding; k++) out[written++] = (u8)(v >> (16 - 8 * k));
    }
    return (ssize_t)written;
}
