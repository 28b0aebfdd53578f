// SPDX-License-Identifier: Apache-2.0
// password_file.c: see password_file.h.
//
// Invariant: how long a check takes tells nothing about whether the user exists: for one that does not, the same
// work is done against the parameters of the file's first line.
#include "auth/password_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "base/siphash.h"
#include "broker/topic.h"
#include "limits.h"

// --- one line ---

typedef struct span {
    const char *at;
    size_t len;
} span;

// Cuts the part up to the mark off. False when the mark is missing.
static bool part_next(span *rest, char mark, span *part) {
    const char *end = memchr(rest->at, mark, rest->len);
    if (end == NULL) return false;
    *part = (span){rest->at, (size_t)(end - rest->at)};
    rest->at = end + 1;
    rest->len -= part->len + 1;
    return true;
}

static bool number_read(span s, u32 max, u32 *out) {
    u64 number = 0;
    if (s.len == 0 || s.len > 9) return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9') return false;
        number = number * 10 + (u64)(s.at[i] - '0');
    }
    *out = (u32)number;
    return number >= 1 && number <= max;
}

static const char *salt_read(span s, password_entry *out) {
    int bytes = base64_decode_bounded(s.at, s.len, out->salt, sizeof(out->salt));
    if (bytes < 1) return "the salt is not base64 of 1 to 64 bytes";
    out->salt_len = (u32)bytes;
    return NULL;
}

static const char *const bad_iterations = "the number of iterations is not one of 1 to 10000000";

static const char *crypt_parse(span rest, password_entry *out) {
    span part;
    if (out->kind == PASSWORD_PBKDF2) {
        if (!part_next(&rest, '$', &part)) return "$7$ needs iterations, salt and hash";
        if (!number_read(part, LIMIT_AUTH_ITERATIONS_MAX, &out->iterations)) return bad_iterations;
    }
    if (!part_next(&rest, '$', &part)) return "salt or hash is missing";
    const char *wrong = salt_read(part, out);
    if (wrong != NULL) return wrong;
    if (base64_decode_bounded(rest.at, rest.len, out->key, 64) != 64) return "the hash is not base64 of 64 bytes";
    return NULL;
}

static const char *scram_parse(span rest, password_entry *out) {
    span part;
    if (!part_next(&rest, ':', &part) || !number_read(part, LIMIT_AUTH_ITERATIONS_MAX, &out->iterations)) {
        return bad_iterations;
    }
    if (!part_next(&rest, '$', &part)) return "salt or keys are missing";
    const char *wrong = salt_read(part, out);
    if (wrong != NULL) return wrong;
    if (!part_next(&rest, ':', &part) || base64_decode_bounded(part.at, part.len, out->key, 32) != 32 ||
        base64_decode_bounded(rest.at, rest.len, out->key + 32, 32) != 32) {
        return "the keys are not base64 of 32 bytes each";
    }
    return NULL;
}

static bool begins_with(const char *text, size_t len, const char *with) {
    size_t bytes = strlen(with);
    return len >= bytes && memcmp(text, with, bytes) == 0;
}

const char *password_entry_parse(const char *text, size_t len, password_entry *out) {
    static const struct {
        const char *begin;
        password_kind kind;
    } forms[] = {{"$7$", PASSWORD_PBKDF2}, {"$6$", PASSWORD_SHA512}, {"SCRAM-SHA-256$", PASSWORD_SCRAM}};
    for (u32 i = 0; i < ARRAY_LEN(forms); i++) {
        if (!begins_with(text, len, forms[i].begin)) continue;
        size_t skip = strlen(forms[i].begin);
        span rest = {text + skip, len - skip};
        out->kind = forms[i].kind;
        out->iterations = 1;
        return out->kind == PASSWORD_SCRAM ? scram_parse(rest, out) : crypt_parse(rest, out);
    }
    if (begins_with(text, len, "$argon2")) {
        return "argon2 hashes are not supported; set the password anew with `sluice passwd`, or with "
               "mosquitto_passwd -H sha512-pbkdf2";
    }
    if (len == 0) return "the password is missing";
    return "not a hash ($7$, $6$ or SCRAM-SHA-256$): plain passwords are not taken; make the line with `sluice passwd`";
}

// --- the file ---

// Any key does: lines of one operator are compared. Not the process's, which may be set later than a file is read.
static const u8 fingerprint_key[16];

static int entry_compare(const void *a, const void *b) {
    const password_entry *x = a, *y = b;
    int order = memcmp(x->user, y->user, MIN(x->user_len, y->user_len));
    if (order == 0) order = (x->user_len > y->user_len) - (x->user_len < y->user_len);
    if (order == 0) order = (x->kind == PASSWORD_SCRAM) - (y->kind == PASSWORD_SCRAM);
    return order;
}

static u32 lines_count(const char *text, size_t len) {
    u32 lines = 1;
    for (size_t i = 0; i < len; i++) lines += text[i] == '\n';
    return lines;
}

static const char *line_parse(const char *line, size_t len, password_entry *out) {
    const char *colon = memchr(line, ':', len);
    if (colon == NULL) return "not of the form user:hash";
    out->user = line;
    out->user_len = (u32)(colon - line);
    if (out->user_len == 0) return "the user name is missing";
    if (out->user_len > LIMIT_USER_BYTES) return "the user name is longer than 256 bytes";
    if (!utf8_is_valid(line, out->user_len)) return "the user name is not UTF-8 text";
    return password_entry_parse(colon + 1, len - out->user_len - 1, out);
}

static int fail(char *error, size_t error_bytes, const char *name, u32 line, const char *what) {
    snprintf(error, error_bytes, "%s:%u: %s", name, line, what);
    return -EINVAL;
}

static int entries_parse(const char *name, size_t len, password_file *out, char *error, size_t error_bytes) {
    u32 number = 0;
    for (size_t at = 0; at < len;) {
        const char *line = out->text + at, *end = memchr(line, '\n', len - at);
        size_t bytes = end != NULL ? (size_t)(end - line) : len - at;
        at += bytes + 1;
        number++;
        if (bytes > 0 && line[bytes - 1] == '\r') bytes--;
        if (bytes == 0 || line[0] == '#') continue;
        password_entry *e = &out->entries[out->count++];
        const char *wrong = line_parse(line, bytes, e);
        if (wrong != NULL) return fail(error, error_bytes, name, number, wrong);
        e->line = number;
        if (e->kind == PASSWORD_SCRAM && out->scram_iterations == 0) out->scram_iterations = e->iterations;
        e->fingerprint = siphash24(fingerprint_key, line, bytes);
    }
    if (out->count > 0) qsort(out->entries, out->count, sizeof(*out->entries), entry_compare);
    for (u32 i = 1; i < out->count; i++) {
        if (entry_compare(&out->entries[i - 1], &out->entries[i]) != 0) continue;
        u32 second = MAX(out->entries[i - 1].line, out->entries[i].line);
        return fail(error, error_bytes, name, second, "the user has a line of this kind already");
    }
    return 0;
}

int password_file_parse(const char *name, const char *text, size_t len, password_file *out, char *error,
                        size_t error_bytes) {
    *out = (password_file){.text_bytes = len + 1, .room = lines_count(text, len)};
    out->text = malloc(out->text_bytes);
    out->entries = calloc(out->room, sizeof(*out->entries));
    if (out->text == NULL || out->entries == NULL) {
        password_file_free(out);
        snprintf(error, error_bytes, "%s: out of memory", name);
        return -ENOMEM;
    }
    if (len > 0) memcpy(out->text, text, len);
    int result = entries_parse(name, len, out, error, error_bytes);
    if (result < 0) password_file_free(out);
    return result;
}

void password_file_free(password_file *f) {
    if (f->text != NULL) secret_wipe(f->text, f->text_bytes);
    if (f->entries != NULL) secret_wipe(f->entries, f->room * sizeof(*f->entries));
    free(f->text);
    free(f->entries);
    *f = (password_file){0};
}

const password_entry *password_file_find(const password_file *f, const char *user, u32 len, bool scram) {
    password_entry key = {.user = user, .user_len = len, .kind = scram ? PASSWORD_SCRAM : PASSWORD_PBKDF2};
    if (f->count == 0) return NULL;
    const password_entry *found = bsearch(&key, f->entries, f->count, sizeof(*f->entries), entry_compare);
    if (found != NULL || scram) return found;
    key.kind = PASSWORD_SCRAM;
    return bsearch(&key, f->entries, f->count, sizeof(*f->entries), entry_compare);
}

// --- checking ---

void password_check_begin(password_check *c, const password_file *f, const char *user, u32 user_len,
                          const void *password, u32 len) {
    const password_entry *found = password_file_find(f, user, user_len, false);
    c->known = found != NULL;
    if (found != NULL) c->against = *found;
    else if (f->count > 0) c->against = f->entries[0];
    else c->against = (password_entry){.kind = PASSWORD_PBKDF2, .iterations = 101, .salt_len = 12};
    const password_entry *e = &c->against;
    if (e->kind != PASSWORD_SHA512) {
        const br_hash_class *hash = e->kind == PASSWORD_SCRAM ? &br_sha256_vtable : &br_sha512_vtable;
        pbkdf2_begin(&c->kdf, hash, password, len, e->salt, e->salt_len, e->iterations);
        return;
    }
    br_sha512_context sha;
    br_sha512_init(&sha);
    br_sha512_update(&sha, password, len);
    br_sha512_update(&sha, e->salt, e->salt_len);
    br_sha512_out(&sha, c->once);
    secret_wipe(&sha, sizeof(sha));
}

bool password_check_run(password_check *c, u32 iterations) {
    return c->against.kind == PASSWORD_SHA512 || pbkdf2_run(&c->kdf, iterations);
}

// RFC 5802 section 3: StoredKey is the hash of ClientKey, which is an HMAC under the salted password.
static bool scram_matches(const password_check *c) {
    u8 client_key[32], stored[32];
    br_sha256_context sha;
    secret_hmac(&br_sha256_vtable, c->kdf.sum, 32, "Client Key", 10, client_key);
    br_sha256_init(&sha);
    br_sha256_update(&sha, client_key, sizeof(client_key));
    br_sha256_out(&sha, stored);
    secret_wipe(client_key, sizeof(client_key));
    return secret_is_equal(stored, c->against.key, sizeof(stored));
}

bool password_check_end(password_check *c) {
    bool same = c->against.kind == PASSWORD_SCRAM    ? scram_matches(c)
                : c->against.kind == PASSWORD_PBKDF2 ? secret_is_equal(c->kdf.sum, c->against.key, 64)
                                                     : secret_is_equal(c->once, c->against.key, 64);
    bool known = c->known;
    secret_wipe(c, sizeof(*c));
    c->known = known;
    return same && known;
}
