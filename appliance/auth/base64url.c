// SPDX-License-Identifier: Apache-2.0
// base64url.c: see base64url.h.
#include "auth/base64url.h"

int base64_decode_bounded(const char *text, size_t len, u8 *out, size_t size) {
    if (len % 4 != 0) return -1;
    size_t bytes = len / 4 * 3;
    for (size_t i = 1; i <= 2 && i <= len && text[len - i] == '='; i++) bytes--;
    return bytes > size || base64_decode(text, len, out) < 0 ? -1 : (int)bytes;
}

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '-') return 62;
    return c == '_' ? 63 : -1;
}

int base64url_decode(const char *text, size_t len, u8 *out, size_t size) {
    u32 bits = 0, held = 0;
    size_t used = 0;
    if (len % 4 == 1) return -1;
    for (size_t i = 0; i < len; i++) {
        int value = value_of(text[i]);
        if (value < 0) return -1;
        bits = bits << 6 | (u32)value;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        if (used == size) return -1;
        out[used++] = (u8)(bits >> held);
    }
    return (bits & ((1u << held) - 1)) != 0 ? -1 : (int)used;
}

size_t base64_text(const u8 *data, size_t len, char *out) {
    base64_encode(data, len, out);
    out[BASE64_CHARS(len)] = '\0';
    return BASE64_CHARS(len);
}
