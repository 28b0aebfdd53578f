// SPDX-License-Identifier: Apache-2.0
// fuzz_jwt.c: the first byte chooses what the rest is: a token, the claims of a token that is then signed here, a key
// file, or the DER of a public key. What passes holds a bounded name and rules that are valid lists.
#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "auth/jwt.h"
#include "auth/pbkdf2.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static const char secret[] = "0123456789abcdef0123456789abcdef";

static void judge(const jwt_policy *policy, const char *text, size_t len) {
    jwt_claims claims;
    jwt_verdict verdict = jwt_check(policy, text, (u32)len, 1800000000, &claims);
    CHECK(verdict < JWT_VERDICTS);
    CHECK(verdict == JWT_FINE || claims.rules == NULL);
    if (verdict != JWT_FINE) return;
    CHECK(claims.user_len <= LIMIT_USER_BYTES && claims.expires_s > 1800000000);
    CHECK(claims.rules == NULL || strlen(claims.rules) == claims.rules_len);
    acl_subject who = {claims.user, claims.user_len, "c", 1, claims.rules, true};
    (void)acl_allows(NULL, &who, ACL_READ, "a/b", 3);
    (void)acl_allows_filter(NULL, &who, "a/#", 3);
    free(claims.rules);
}

static size_t url(const u8 *data, size_t len, char *out) {
    size_t n = base64_text(data, len, out);
    while (n > 0 && out[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
    return n;
}

static void judge_signed(const jwt_policy *policy, const u8 *payload, size_t len) {
    static char token[16384];
    static const u8 header[] = "{\"alg\":\"HS256\"}";
    u8 mac[32];
    size_t n = url(header, sizeof(header) - 1, token);
    token[n++] = '.';
    n += url(payload, MIN(len, (size_t)8192), token + n);
    secret_hmac(&br_sha256_vtable, secret, 32, token, n, mac);
    token[n++] = '.';
    n += url(mac, sizeof(mac), token + n);
    judge(policy, token, n);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static jwt_policy policy;
    if (policy.keys.count == 0) CHECK(jwt_keys_parse(secret, 32, &policy.keys) == NULL);
    if (size == 0) return 0;
    jwt_keys keys;
    jwt_key key;
    switch (data[0] & 3) {
    case 0: judge(&policy, (const char *)data + 1, size - 1); break;
    case 1: judge_signed(&policy, data + 1, size - 1); break;
    case 2:
        if (jwt_keys_parse((const char *)data + 1, size - 1, &keys) != NULL) break;
        CHECK(keys.count >= 1 && keys.count <= LIMIT_JWT_KEYS);
        break;
    default:
        if (jwt_key_parse_der(data + 1, size - 1, &key) == NULL) CHECK(key.len + key.exponent_len <= JWT_KEY_BYTES);
        break;
    }
    return 0;
}
