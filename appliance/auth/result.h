// SPDX-License-Identifier: Apache-2.0
// result.h: how a client was let in, or why it was not, by name: in the log, in metrics, and never in what the client
// is told.
#ifndef SLUICE_AUTH_RESULT_H
#define SLUICE_AUTH_RESULT_H

#include "base/base.h"

// X(NAME, "name"); the names are stable. Those up to AUTH_SCRAM let in.
#define AUTH_RESULTS_LIST(X) \
    X(ANONYMOUS, "anonymous") \
    X(TOKEN, "token")             /* the listener's */ \
    X(PASSWORD, "password") \
    X(CERTIFICATE, "certificate") \
    X(JWT, "jwt") \
    X(SCRAM, "scram") \
    X(NO_IDENTITY, "no_identity") /* neither password nor token */ \
    X(WRONG_TOKEN, "wrong_token") \
    X(UNKNOWN_USER, "unknown_user") \
    X(WRONG_PASSWORD, "wrong_password") \
    X(USER_TOO_LONG, "user_too_long") \
    X(JWT_REFUSED, "jwt_refused") \
    X(SCRAM_REFUSED, "scram_refused") \
    X(METHOD_UNKNOWN, "method_unknown") \
    X(RATE, "rate")               /* too many failures from the address */ \
    X(BUSY, "busy")               /* not judged in time, or no room to wait */ \
    X(REVOKED, "revoked")         /* after a reload: the user is gone or its password was changed */ \
    X(EXPIRED, "expired")         /* its token, while it was connected */
typedef enum auth_result {
#define AUTH_RESULT_ENUM(symbol, text) AUTH_##symbol,
    AUTH_RESULTS_LIST(AUTH_RESULT_ENUM)
#undef AUTH_RESULT_ENUM
        AUTH_RESULTS
} auth_result;
const char *auth_result_name(u32 result); // never NULL
static inline bool auth_lets_in(auth_result r) {
    return r <= AUTH_SCRAM;
}

// Why a request of the admin API was refused.
#define ADMIN_REFUSALS_LIST(X) \
    X(TOKEN, "token")   /* none, or a wrong one */ \
    X(PEER, "peer")     /* a user that the unix socket is not for */ \
    X(ORIGIN, "origin") /* conf/guard.h does not want it */
typedef enum admin_refusal {
#define ADMIN_REFUSAL_ENUM(symbol, text) ADMIN_REFUSED_##symbol,
    ADMIN_REFUSALS_LIST(ADMIN_REFUSAL_ENUM)
#undef ADMIN_REFUSAL_ENUM
        ADMIN_REFUSALS
} admin_refusal;

// Whose rate made a message wait.
#define RATE_SCOPES_LIST(X) \
    X(CLIENT, "client") \
    X(ADDRESS, "address") \
    X(LISTENER, "listener")
typedef enum rate_scope {
#define RATE_SCOPE_ENUM(symbol, text) RATE_OF_##symbol,
    RATE_SCOPES_LIST(RATE_SCOPE_ENUM)
#undef RATE_SCOPE_ENUM
        RATE_SCOPES
} rate_scope;
const char *rate_scope_name(u32 scope); // never NULL

#endif
