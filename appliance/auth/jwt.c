// SPDX-License-Identifier: Apache-2.0
// jwt.c: see jwt.h. The signature is checked before the claims are looked at; the JSON is read without the heap
// but for the lists of filters, and its size is bounded.
#include "auth/jwt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "auth/base64url.h"
#include "broker/topic.h"

// yyjson needs at most 12 bytes of values for each byte of text, and its own copy of the text.
#define JSON_POOL_BYTES (13u * LIMIT_JWT_BYTES + 256u)

const char *jwt_verdict_name(u32 verdict) {
    static const char *const names[JWT_VERDICTS] = {
#define JWT_VERDICT_NAME(symbol, text) [JWT_##symbol] = (text),
        JWT_VERDICTS_LIST(JWT_VERDICT_NAME)
#undef JWT_VERDICT_NAME
    };
    return verdict < JWT_VERDICTS ? names[verdict] : "unknown";
}

typedef struct parts {
    const char *header, *payload, *signature;
    u32 header_len, payload_len, signature_len;
} parts;

static bool parts_split(const char *text, u32 len, parts *out) {
    const char *first = memchr(text, '.', len);
    if (first == NULL) return false;
    u32 left = len - (u32)(first + 1 - text);
    const char *second = memchr(first + 1, '.', left);
    if (second == NULL) return false;
    *out = (parts){
        .header = text,
        .header_len = (u32)(first - text),
        .payload = first + 1,
        .payload_len = (u32)(second - first - 1),
        .signature = second + 1,
        .signature_len = (u32)(text + len - second - 1),
    };
    return out->header_len > 0 && out->payload_len > 0;
}

bool jwt_is_one(const void *text, u32 len) {
    const char *at = text;
    u32 dots = 0;
    if (len < 5 || len > LIMIT_JWT_BYTES) return false;
    for (u32 i = 0; i < len; i++) {
        char c = at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!plain && c != '.') return false;
        dots += c == '.';
    }
    return dots == 2;
}

// --- JSON ---

typedef struct json {
    yyjson_doc *doc;
    u8 text[LIMIT_JWT_BYTES];
    u64 pool[JSON_POOL_BYTES / 8];
} json;

// An object without repeated names among those that are read (RFC 7519 section 4: they must be unique).
static yyjson_val *json_object(json *j, const char *text, u32 len) {
    int bytes = base64url_decode(text, len, j->text, sizeof(j->text));
    if (bytes < 2) return NULL;
    yyjson_alc memory;
    if (!yyjson_alc_pool_init(&memory, j->pool, sizeof(j->pool))) return NULL;
    j->doc = yyjson_read_opts((char *)j->text, (size_t)bytes, YYJSON_READ_NOFLAG, &memory, NULL);
    yyjson_val *root = yyjson_doc_get_root(j->doc);
    return yyjson_is_obj(root) ? root : NULL;
}

// The member of that name; NULL when there is none. *twice: there are several.
static yyjson_val *member(yyjson_val *object, const char *name, bool *twice) {
    yyjson_val *found = NULL;
    yyjson_obj_iter it = yyjson_obj_iter_with(object);
    for (yyjson_val *key = yyjson_obj_iter_next(&it); key != NULL; key = yyjson_obj_iter_next(&it)) {
        if (!yyjson_equals_str(key, name)) continue;
        if (found != NULL) *twice = true;
        found = yyjson_obj_iter_get_val(key);
    }
    return found;
}

// --- header and signature ---

static jwt_verdict header_check(json *j, const parts *p, jwt_kind *kind) {
    static const char *const names[] = {[JWT_HS256] = "HS256", [JWT_ES256] = "ES256", [JWT_RS256] = "RS256"};
    bool twice = false;
    yyjson_val *root = json_object(j, p->header, p->header_len);
    if (root == NULL) return JWT_MALFORMED;
    yyjson_val *algorithm = member(root, "alg", &twice);
    if (twice || !yyjson_is_str(algorithm) || member(root, "crit", &twice) != NULL) return JWT_MALFORMED;
    for (u32 i = 0; i < ARRAY_LEN(names); i++) {
        if (!yyjson_equals_str(algorithm, names[i])) continue;
        *kind = (jwt_kind)i;
        return JWT_FINE;
    }
    return JWT_ALGORITHM;
}

static jwt_verdict signature_check(const jwt_policy *policy, const parts *p, jwt_kind kind) {
    u8 signature[512];
    int len = base64url_decode(p->signature, p->signature_len, signature, sizeof(signature));
    if (len <= 0) return JWT_MALFORMED;
    size_t signed_bytes = (size_t)p->header_len + 1 + p->payload_len;
    bool some = false;
    for (u32 i = 0; i < policy->keys.count; i++) {
        const jwt_key *key = &policy->keys.keys[i];
        if (key->kind != kind) continue;
        some = true;
        if (jwt_key_verify(key, p->header, signed_bytes, signature, (size_t)len)) return JWT_FINE;
    }
    return some ? JWT_SIGNATURE : JWT_ALGORITHM;
}

// --- claims ---

// A NumericDate (RFC 7519 section 2): seconds, perhaps with a fraction. False: not one.
static bool time_read(yyjson_val *value, u64 *out) {
    if (yyjson_is_uint(value)) {
        *out = yyjson_get_uint(value);
        return *out <= UINT64_MAX / 4;
    }
    if (!yyjson_is_real(value)) return false;
    double seconds = yyjson_get_real(value);
    if (!(seconds >= 0 && seconds < 1e15)) return false;
    *out = (u64)floor(seconds);
    return true;
}

static jwt_verdict times_check(yyjson_val *root, u32 leeway_s, u64 now_s, jwt_claims *out, bool *twice) {
    u64 expires, since;
    if (!time_read(member(root, "exp", twice), &expires)) return JWT_CLAIMS;
    out->expires_s = expires + leeway_s;
    if (now_s >= out->expires_s) return JWT_EXPIRED;
    static const char *const names[] = {"nbf", "iat"};
    for (u32 i = 0; i < ARRAY_LEN(names); i++) {
        yyjson_val *value = member(root, names[i], twice);
        if (value == NULL) continue;
        if (!time_read(value, &since)) return JWT_CLAIMS;
        if (now_s + leeway_s < since) return JWT_NOT_YET;
    }
    return JWT_FINE;
}

static bool audience_has(yyjson_val *value, const char *wanted) {
    if (yyjson_is_str(value)) return yyjson_equals_str(value, wanted);
    yyjson_val *one;
    size_t i, count;
    yyjson_arr_foreach(value, i, count, one) {
        if (yyjson_equals_str(one, wanted)) return true;
    }
    return false;
}

static bool user_read(yyjson_val *value, jwt_claims *out) {
    if (value == NULL) return true;
    const char *text = yyjson_get_str(value);
    size_t len = yyjson_get_len(value);
    if (text == NULL || len == 0 || len > LIMIT_USER_BYTES || memchr(text, 0, len) != NULL) return false;
    memcpy(out->user, text, len);
    out->user_len = (u32)len;
    return true;
}

// Adds a list's filters as rules. Room is counted by a first call with rules NULL.
static bool list_read(yyjson_val *list, char letter, acl_rules *rules, u32 *used) {
    yyjson_val *one;
    size_t i, count;
    if (list == NULL) return true;
    if (!yyjson_is_arr(list)) return false;
    yyjson_arr_foreach(list, i, count, one) {
        const char *filter = yyjson_get_str(one);
        size_t len = yyjson_get_len(one);
        if (filter == NULL || memchr(filter, '\n', len) != NULL) return false;
        if (!acl_filter_is_valid(filter, len, true)) return false;
        if (rules != NULL) {
            rules[*used] = letter;
            memcpy(rules + *used + 1, filter, len);
            rules[*used + len + 1] = '\n';
        }
        *used += (u32)len + 2;
    }
    return true;
}

static jwt_verdict rules_read(yyjson_val *root, jwt_claims *out, bool *twice) {
    yyjson_val *publish = member(root, "publish", twice), *subscribe = member(root, "subscribe", twice);
    u32 bytes = 0;
    if (!list_read(publish, 'w', NULL, &bytes) || !list_read(subscribe, 'r', NULL, &bytes)) return JWT_CLAIMS;
    if (*twice) return JWT_MALFORMED;
    if (publish == NULL && subscribe == NULL) return JWT_FINE;
    out->rules = malloc(bytes + 1);
    if (out->rules == NULL) return JWT_NO_MEMORY;
    (void)list_read(publish, 'w', out->rules, &out->rules_len);
    (void)list_read(subscribe, 'r', out->rules, &out->rules_len);
    out->rules[out->rules_len] = '\0';
    return JWT_FINE;
}

static jwt_verdict claims_check(json *j, const jwt_policy *policy, const parts *p, u64 now_s, jwt_claims *out) {
    bool twice = false;
    yyjson_val *root = json_object(j, p->payload, p->payload_len);
    if (root == NULL) return JWT_MALFORMED;
    jwt_verdict verdict = times_check(root, policy->leeway_s, now_s, out, &twice);
    if (verdict != JWT_FINE) return verdict;
    if (policy->issuer[0] != '\0' && !yyjson_equals_str(member(root, "iss", &twice), policy->issuer)) return JWT_ISSUER;
    if (policy->audience[0] != '\0' && !audience_has(member(root, "aud", &twice), policy->audience)) {
        return JWT_AUDIENCE;
    }
    if (!user_read(member(root, "sub", &twice), out)) return JWT_CLAIMS;
    return twice ? JWT_MALFORMED : rules_read(root, out, &twice);
}

jwt_verdict jwt_check(const jwt_policy *policy, const char *text, u32 len, u64 now_s, jwt_claims *out) {
    parts p;
    jwt_kind kind;
    memset(out, 0, sizeof(*out));
    if (!jwt_is_one(text, len) || !parts_split(text, len, &p)) return JWT_MALFORMED;
    if (now_s < policy->clock_min_s) return JWT_CLOCK;
    json *j = malloc(sizeof(*j));
    if (j == NULL) return JWT_NO_MEMORY;
    jwt_verdict verdict = header_check(j, &p, &kind);
    if (verdict == JWT_FINE) verdict = signature_check(policy, &p, kind);
    if (verdict == JWT_FINE) verdict = claims_check(j, policy, &p, now_s, out);
    free(j);
    if (verdict != JWT_FINE) memset(out, 0, sizeof(*out));
    return verdict;
}

u64 jwt_expires_ns(const jwt_claims *claims, u64 now_s, u64 now_ns) {
    static const u64 century_s = 100ull * 365 * 86400;
    return now_ns + MIN(claims->expires_s - now_s, century_s) * NS_PER_S;
}
