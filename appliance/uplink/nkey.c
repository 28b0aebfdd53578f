// SPDX-License-Identifier: Apache-2.0
// nkey.c: see nkey.h.
#include "uplink/nkey.h"

#include <sodium/crypto_sign_ed25519.h>
#include <string.h>

#include "base/base64.h"

#define KIND_SEED (18u << 3) // 'S'
#define KIND_USER (20u << 3) // 'U'
#define SEED_BYTES 36u       // kinds, key, checksum
#define PUBLIC_BYTES 35u

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

int base32_decode(const char *text, size_t len, u8 *out, size_t size) {
    u32 bits = 0, have = 0;
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = text[i] == '\0' ? NULL : strchr(alphabet, text[i]);
        if (at == NULL) return -1;
        bits = bits << 5 | (u32)(at - alphabet);
        have += 5;
        if (have < 8) continue;
        have -= 8;
        if (used == size) return -1;
        out[used++] = (u8)(bits >> have);
        bits &= (1u << have) - 1;
    }
    return have >= 5 || bits != 0 ? -1 : (int)used;
}

void base32_encode(const u8 *data, size_t len, char *out) {
    u32 bits = 0, have = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | data[i];
        have += 8;
        for (; have >= 5; have -= 5) *out++ = alphabet[bits >> (have - 5) & 31];
        bits &= (1u << have) - 1;
    }
    if (have > 0) *out++ = alphabet[bits << (5 - have) & 31];
    *out = '\0';
}

static u16 crc16(const u8 *data, size_t len) {
    u32 crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (u32)data[i] << 8;
        for (u32 bit = 0; bit < 8; bit++) crc = (crc & 0x8000u) != 0 ? crc << 1 ^ 0x1021u : crc << 1;
    }
    return (u16)crc;
}

static void public_text(const u8 key[32], char *out) {
    u8 raw[PUBLIC_BYTES] = {KIND_USER};
    memcpy(raw + 1, key, 32);
    u16 crc = crc16(raw, PUBLIC_BYTES - 2);
    raw[PUBLIC_BYTES - 2] = (u8)crc;
    raw[PUBLIC_BYTES - 1] = (u8)(crc >> 8);
    base32_encode(raw, sizeof(raw), out);
}

static const char *seed_read(const u8 raw[SEED_BYTES], nkey *out) {
    u16 crc = (u16)(raw[SEED_BYTES - 2] | raw[SEED_BYTES - 1] << 8);
    u32 kind = (raw[0] & 7u) << 5 | raw[1] >> 3;
    if ((raw[0] & 0xf8u) != KIND_SEED) return "not a seed: it begins with SU";
    if (crc != crc16(raw, SEED_BYTES - 2)) return "the seed's checksum is wrong";
    if (kind != KIND_USER || (raw[1] & 7) != 0) return "not the seed of a user: it begins with SU";
    u8 key[32];
    if (crypto_sign_ed25519_seed_keypair(key, out->secret, raw + 2) != 0) return "not a key";
    public_text(key, out->public_key);
    return NULL;
}

const char *nkey_from_seed(const char *text, size_t len, nkey *out) {
    u8 raw[SEED_BYTES];
    memset(out, 0, sizeof(*out));
    if (len != NKEY_SEED_CHARS) return "a seed has 58 characters";
    int bytes = base32_decode(text, len, raw, sizeof(raw));
    const char *why = bytes == (int)SEED_BYTES ? seed_read(raw, out) : "not base32";
    explicit_bzero(raw, sizeof(raw));
    return why;
}

void nkey_sign(const nkey *key, const char *nonce, u32 len, char *out) {
    u8 signature[64];
    char text[BASE64_CHARS(sizeof(signature))];
    (void)crypto_sign_ed25519_detached(signature, NULL, (const u8 *)nonce, len, key->secret);
    base64_encode(signature, sizeof(signature), text);
    for (u32 i = 0; i < NKEY_SIGNATURE_CHARS; i++) out[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
    out[NKEY_SIGNATURE_CHARS] = '\0';
}

void nkey_wipe(nkey *key) {
    explicit_bzero(key, sizeof(*key));
}

// --- files ---

typedef struct line {
    const char *text;
    size_t len;
} line;

// The next line that says something, without the blanks around it. False: there is none.
static bool line_next(const char **at, const char *end, line *out) {
    while (*at < end) {
        const char *from = *at, *newline = memchr(from, '\n', (size_t)(end - from));
        const char *to = newline != NULL ? newline : end;
        *at = newline != NULL ? newline + 1 : end;
        while (from < to && (*from == ' ' || *from == '\t')) from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r')) to--;
        *out = (line){from, (size_t)(to - from)};
        if (to > from) return true;
    }
    return false;
}

static bool has(const line *l, const char *word) {
    return memmem(l->text, l->len, word, strlen(word)) != NULL;
}

static bool is_dashed(const line *l) {
    return l->len >= 6 && memcmp(l->text, "---", 3) == 0 && memcmp(l->text + l->len - 3, "---", 3) == 0;
}

static bool is_jwt(const line *l) {
    u32 dots = 0;
    for (size_t i = 0; i < l->len; i++) {
        char c = l->text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!plain && c != '.') return false;
        dots += c == '.';
    }
    return dots == 2 && l->len <= NATS_JWT_BYTES_MAX;
}

const char *nats_creds_parse(const char *text, size_t len, bool jwt, nats_creds *out) {
    const char *at = text, *end = text + len;
    line l, body, after, seed = {NULL, 0};
    memset(out, 0, sizeof(*out));
    while (line_next(&at, end, &l)) {
        if (!is_dashed(&l)) {
            if (l.len == NKEY_SEED_CHARS && l.text[0] == 'S') seed = l; // a bare one
            continue;
        }
        if (!has(&l, "BEGIN")) continue;
        bool is_seed = has(&l, "SEED"), ends = line_next(&at, end, &body) && line_next(&at, end, &after);
        if (!ends || is_dashed(&body) || !is_dashed(&after) || !has(&after, "END")) return "a block that has no end";
        if (is_seed) {
            seed = body;
        } else if (has(&l, "JWT")) {
            if (!is_jwt(&body)) return "not a JWT";
            out->jwt = body.text;
            out->jwt_len = (u32)body.len;
        }
    }
    if (seed.text == NULL) return "there is no seed in it";
    if (jwt && out->jwt == NULL) return "there is no JWT in it";
    return nkey_from_seed(seed.text, seed.len, &out->key);
}
