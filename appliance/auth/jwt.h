// SPDX-License-Identifier: Apache-2.0
// jwt.h: JSON web tokens (RFC 7519, signed as RFC 7515 says, compact form) as a client's password or a device's
// token. Pure: bytes, keys and the time in, a verdict out.
//
// What is read: `sub` is the user's name; `exp` must be there, `nbf` and `iat` may be; `iss` and `aud` are compared
// when the listener wants them; `publish` and `subscribe` are lists of topic filters, with %u and %c, that this
// client may use instead of what the ACL file gives it. A header with `crit` is refused (RFC 7515 section 4.1.11).
#ifndef SLUICE_AUTH_JWT_H
#define SLUICE_AUTH_JWT_H

#include "auth/acl.h"
#include "auth/jwt_key.h"

typedef struct jwt_policy {
    jwt_keys keys;
    u32 leeway_s;
    u64 clock_min_s;       // UNIX time before which the clock can not be right; 0 = any is
    char issuer[256], audience[256]; // "" = any
} jwt_policy;

// X(NAME, "name")
#define JWT_VERDICTS_LIST(X) \
    X(FINE, "jwt") \
    X(MALFORMED, "jwt_malformed") \
    X(ALGORITHM, "jwt_algorithm") /* not that of any key */ \
    X(SIGNATURE, "jwt_signature") \
    X(CLAIMS, "jwt_claims")       /* sub, a time or a list is of the wrong type, or too long; no exp */ \
    X(EXPIRED, "jwt_expired") \
    X(NOT_YET, "jwt_not_yet")     /* nbf or iat lies ahead */ \
    X(ISSUER, "jwt_issuer") \
    X(AUDIENCE, "jwt_audience") \
    X(CLOCK, "jwt_clock")         /* this machine's clock is wrong: whether a token has expired is not known */ \
    X(NO_MEMORY, "jwt_no_memory")
typedef enum jwt_verdict {
#define JWT_VERDICT_ENUM(symbol, text) JWT_##symbol,
    JWT_VERDICTS_LIST(JWT_VERDICT_ENUM)
#undef JWT_VERDICT_ENUM
        JWT_VERDICTS
} jwt_verdict;

const char *jwt_verdict_name(u32 verdict); // "jwt_expired"; never NULL

typedef struct jwt_claims {
    char user[LIMIT_USER_BYTES + 1];
    u32 user_len;          // 0 = no sub
    u64 expires_s;         // UNIX time, leeway included
    acl_rules *rules;      // malloc; NULL when neither list is there
    u32 rules_len;
} jwt_claims;

// Whether a password has the form of a token: three parts of base64url.
bool jwt_is_one(const void *text, u32 len);
// Checks it at UNIX time now_s. After JWT_FINE the caller frees out->rules; otherwise out is empty. An ES256 or RS256
// signature takes up to a millisecond.
jwt_verdict jwt_check(const jwt_policy *policy, const char *text, u32 len, u64 now_s, jwt_claims *out);
// When it expires on the monotonic clock. In a hundred years at the latest: `exp` may be any number.
u64 jwt_expires_ns(const jwt_claims *claims, u64 now_s, u64 now_ns);

#endif
