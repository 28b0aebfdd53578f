// SPDX-License-Identifier: Apache-2.0
// passwd_text.c: see passwd_text.h.
#include "auth/passwd_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "auth/pbkdf2.h"
#include "auth/scram.h"
#include "broker/topic.h"
#include "limits.h"

static void salted(pbkdf2 *p, const br_hash_class *hash, const char *password, const u8 *salt, u32 iterations) {
    pbkdf2_begin(p, hash, password, strlen(password), salt, PASSWD_SALT_BYTES, iterations);
    while (!pbkdf2_run(p, 1u << 16)) {
    }
}

void passwd_line(u32 kind, const char *user, const char *password, u32 iterations,
                 const u8 salt[PASSWD_SALT_BYTES], char out[PASSWD_LINE_BYTES]) {
    pbkdf2 p;
    char salt_text[BASE64_TEXT_BYTES(PASSWD_SALT_BYTES)], a[BASE64_TEXT_BYTES(64)], b[BASE64_TEXT_BYTES(32)];
    base64_text(salt, PASSWD_SALT_BYTES, salt_text);
    if (kind == PASSWD_CRYPT) {
        salted(&p, &br_sha512_vtable, password, salt, iterations);
        base64_text(p.sum, 64, a);
        snprintf(out, PASSWD_LINE_BYTES, "%s:$7$%u$%s$%s\n", user, iterations, salt_text, a);
    } else {
        u8 stored[32], server[32];
        salted(&p, &br_sha256_vtable, password, salt, iterations);
        scram_keys(p.sum, stored, server);
        base64_text(stored, sizeof(stored), a);
        base64_text(server, sizeof(server), b);
        snprintf(out, PASSWD_LINE_BYTES, "%s:SCRAM-SHA-256$%u:%s$%s:%s\n", user, iterations, salt_text, a, b);
    }
    pbkdf2_wipe(&p);
}

// Whether a line is the user's; *hash is what follows.
static bool is_of_user(const char *line, size_t len, const char *user, const char **hash) {
    size_t bytes = strlen(user);
    if (len <= bytes || line[bytes] != ':' || memcmp(line, user, bytes) != 0) return false;
    *hash = line + bytes + 1;
    return true;
}

// The length of the line at `at`, newline included.
static size_t line_bytes(const char *text, size_t len, size_t at) {
    const char *end = memchr(text + at, '\n', len - at);
    return end == NULL ? len - at : (size_t)(end - (text + at)) + 1;
}

u32 passwd_kinds(const char *text, size_t len, const char *user) {
    u32 kinds = 0;
    for (size_t at = 0, bytes; at < len; at += bytes) {
        const char *hash;
        bytes = line_bytes(text, len, at);
        if (!is_of_user(text + at, bytes, user, &hash)) continue;
        bool is_scram = (size_t)(text + len - hash) >= 6 && memcmp(hash, "SCRAM-", 6) == 0;
        kinds |= is_scram ? PASSWD_SCRAM : PASSWD_CRYPT;
    }
    return kinds;
}

char *passwd_replace(const char *text, size_t len, const char *user, const char *lines, size_t *out_len) {
    size_t add = lines == NULL ? 0 : strlen(lines), used = 0;
    char *out = malloc(len + add + 2);
    if (out == NULL) return NULL;
    bool put = lines == NULL;
    for (size_t at = 0, bytes; at < len; at += bytes) {
        const char *hash;
        bytes = line_bytes(text, len, at);
        if (!is_of_user(text + at, bytes, user, &hash)) {
            memcpy(out + used, text + at, bytes);
            used += bytes;
        } else if (!put) {
            memcpy(out + used, lines, add);
            used += add;
            put = true;
        }
    }
    if (!put) {
        if (used > 0 && out[used - 1] != '\n') out[used++] = '\n';
        memcpy(out + used, lines, add);
        used += add;
    }
    out[used] = '\0';
    *out_len = used;
    return out;
}

const char *passwd_user_wrong(const char *user) {
    size_t len = strlen(user);
    if (len == 0) return "the user name is empty";
    if (len > LIMIT_USER_BYTES) return "the user name is longer than 256 bytes";
    if (!utf8_is_valid(user, len)) return "the user name is not UTF-8 text";
    if (user[0] == '#') return "the user name begins with #, like a comment";
    if (strpbrk(user, ":\r\n") != NULL) return "the user name holds a colon or a line's end";
    return NULL;
}
