// SPDX-License-Identifier: Apache-2.0
// scram.c: see scram.h. Messages are read strictly in the order of RFC 5802 section 7: an attribute that is not
// where it has to be is a fault, unknown ones behind the last known are skipped as the RFC wants it.
#include "auth/scram.h"

#include <stdio.h>
#include <string.h>

#include "auth/base64url.h"
#include "base/siphash.h"
#include "broker/topic.h"

#define DECOY_ITERATIONS 4096u // RFC 7677 section 4: the least

static const char *const malformed = "scram_malformed";

typedef struct reader {
    const char *at, *end;
} reader;

// Takes "x=value" up to the next comma or the end, and the comma.
static bool attribute(reader *r, char name, const char **value, u32 *len) {
    if (r->end - r->at < 2 || r->at[0] != name || r->at[1] != '=') return false;
    const char *from = r->at + 2, *comma = memchr(from, ',', (size_t)(r->end - from));
    const char *to = comma != NULL ? comma : r->end;
    *value = from;
    *len = (u32)(to - from);
    r->at = comma != NULL ? comma + 1 : r->end;
    return true;
}

// A saslname: "=2C" is a comma, "=3D" an equals sign. Returns its length, 0 when it is none.
static u32 name_read(const char *from, u32 len, char out[LIMIT_USER_BYTES]) {
    u32 used = 0;
    for (u32 i = 0; i < len; i++) {
        char c = from[i];
        if (c == '=') {
            if (len - i < 3) return 0;
            bool comma = memcmp(from + i, "=2C", 3) == 0;
            if (!comma && memcmp(from + i, "=3D", 3) != 0) return 0;
            c = comma ? ',' : '=';
            i += 2;
        }
        if (used == LIMIT_USER_BYTES) return 0;
        out[used++] = c;
    }
    return utf8_is_valid(out, used) ? used : 0;
}

// "n,," or "y,a=name,". NULL, or what is wrong.
static const char *gs2_read(scram *s, reader *r, char authzid[LIMIT_USER_BYTES], u32 *authzid_len) {
    const char *from = r->at, *value;
    u32 len;
    *authzid_len = 0;
    if (r->end - r->at < 3) return malformed;
    if (r->at[0] == 'p') return "scram_channel_binding";
    if ((r->at[0] != 'n' && r->at[0] != 'y') || r->at[1] != ',') return malformed;
    r->at += 2;
    if (*r->at == ',') {
        r->at++;
    } else {
        if (!attribute(r, 'a', &value, &len) || r->at == r->end) return malformed;
        *authzid_len = name_read(value, len, authzid);
        if (*authzid_len == 0) return malformed;
    }
    s->gs2_len = (u32)(r->at - from);
    if (s->gs2_len > sizeof(s->gs2)) return malformed;
    memcpy(s->gs2, from, s->gs2_len);
    return NULL;
}

static void append(scram *s, const void *data, size_t len) {
    ASSERT(len <= sizeof(s->text) - s->used);
    memcpy(s->text + s->used, data, len);
    s->used += (u32)len;
}

static void entry_choose(scram *s, const password_file *f) {
    const password_entry *found = password_file_find(f, s->user, s->user_len, true);
    s->known = found != NULL;
    if (found != NULL) {
        s->entry = *found;
        return;
    }
    u8 made[32];
    secret_hmac(&br_sha256_vtable, siphash_process_key(), 16, s->user, s->user_len, made);
    s->entry = (password_entry){.kind = PASSWORD_SCRAM, .salt_len = 16};
    s->entry.iterations = f->scram_iterations != 0 ? f->scram_iterations : DECOY_ITERATIONS;
    memcpy(s->entry.salt, made, 16);
}

static void challenge_write(scram *s, const char *client_nonce, u32 client_len, const char *nonce) {
    char salt[BASE64_TEXT_BYTES(PBKDF2_SALT_BYTES_MAX)], iterations[16];
    size_t salt_len = base64_text(s->entry.salt, s->entry.salt_len, salt);
    append(s, ",", 1);
    s->first_at = s->used;
    append(s, "r=", 2);
    s->nonce_at = s->used;
    append(s, client_nonce, client_len);
    append(s, nonce, SCRAM_NONCE_BYTES);
    s->nonce_len = client_len + SCRAM_NONCE_BYTES;
    append(s, ",s=", 3);
    append(s, salt, salt_len);
    append(s, iterations, (size_t)snprintf(iterations, sizeof(iterations), ",i=%u", s->entry.iterations));
    s->first_len = s->used - s->first_at;
}

const char *scram_begin(scram *s, const password_file *f, const void *data, u32 len,
                        const char nonce[SCRAM_NONCE_BYTES]) {
    char authzid[LIMIT_USER_BYTES];
    u32 authzid_len, name_len, nonce_len;
    const char *name, *client_nonce;
    memset(s, 0, sizeof(*s));
    if (len == 0 || len > SCRAM_TEXT_BYTES) return malformed;
    reader r = {data, (const char *)data + len};
    const char *wrong = gs2_read(s, &r, authzid, &authzid_len);
    if (wrong != NULL) return wrong;
    const char *bare = r.at;
    if (!attribute(&r, 'n', &name, &name_len) || !attribute(&r, 'r', &client_nonce, &nonce_len)) return malformed;
    s->user_len = name_read(name, name_len, s->user);
    if (s->user_len == 0 || nonce_len == 0) return malformed;
    for (u32 i = 0; i < nonce_len; i++) {
        if (client_nonce[i] <= ' ' || client_nonce[i] > '~') return malformed;
    }
    bool other = authzid_len > 0 &&
                 (authzid_len != s->user_len || memcmp(authzid, s->user, authzid_len) != 0);
    if (other) return "scram_authzid";
    append(s, bare, (size_t)(r.end - bare));
    entry_choose(s, f);
    challenge_write(s, client_nonce, nonce_len, nonce);
    return NULL;
}

void scram_keys(const u8 salted[32], u8 stored[32], u8 server[32]) {
    u8 client[32];
    br_sha256_context sha;
    secret_hmac(&br_sha256_vtable, salted, 32, "Client Key", 10, client);
    br_sha256_init(&sha);
    br_sha256_update(&sha, client, sizeof(client));
    br_sha256_out(&sha, stored);
    secret_hmac(&br_sha256_vtable, salted, 32, "Server Key", 10, server);
    secret_wipe(client, sizeof(client));
}

// RFC 5802 section 3: ClientKey is the proof without the client's signature; its hash must be StoredKey.
static bool proof_holds(const scram *s, const u8 proof[32]) {
    u8 key[32], stored[32];
    br_sha256_context sha;
    secret_hmac(&br_sha256_vtable, s->entry.key, 32, s->text, s->used, key);
    for (u32 i = 0; i < sizeof(key); i++) key[i] ^= proof[i];
    br_sha256_init(&sha);
    br_sha256_update(&sha, key, sizeof(key));
    br_sha256_out(&sha, stored);
    secret_wipe(key, sizeof(key));
    return secret_is_equal(stored, s->entry.key, sizeof(stored));
}

const char *scram_finish(scram *s, const void *data, u32 len, char final[SCRAM_FINAL_BYTES], u32 *final_len) {
    u8 header[sizeof(s->gs2)], proof[32], signature[32];
    u32 header_len, nonce_len, proof_len;
    const char *binding, *nonce, *value = NULL;
    if (len == 0 || len > SCRAM_TEXT_BYTES) return malformed;
    reader r = {data, (const char *)data + len};
    if (!attribute(&r, 'c', &binding, &header_len) || !attribute(&r, 'r', &nonce, &nonce_len)) return malformed;
    int bytes = base64_decode_bounded(binding, header_len, header, sizeof(header));
    if (bytes < 0 || (u32)bytes != s->gs2_len || memcmp(header, s->gs2, s->gs2_len) != 0) return "scram_binding";
    if (nonce_len != s->nonce_len || memcmp(nonce, s->text + s->nonce_at, nonce_len) != 0) return "scram_nonce";
    const char *before = r.at;
    while (r.at < r.end && r.at[0] != 'p') { // extensions
        const char *ignored;
        u32 ignored_len;
        if (!attribute(&r, r.at[0], &ignored, &ignored_len)) return malformed;
        before = r.at;
    }
    if (!attribute(&r, 'p', &value, &proof_len) || r.at != r.end || before[-1] != ',') return malformed;
    if (base64_decode_bounded(value, proof_len, proof, sizeof(proof)) != sizeof(proof)) return malformed;
    append(s, ",", 1);
    append(s, data, (size_t)(before - 1 - (const char *)data));
    bool holds = proof_holds(s, proof);
    if (!holds || !s->known) return s->known ? "wrong_password" : "unknown_user";
    secret_hmac(&br_sha256_vtable, s->entry.key + 32, 32, s->text, s->used, signature);
    memcpy(final, "v=", 2);
    *final_len = 2 + (u32)base64_text(signature, sizeof(signature), final + 2);
    return NULL;
}
