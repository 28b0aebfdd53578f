// SPDX-License-Identifier: Apache-2.0
// tls_sessions.h: sessions that clients may resume (RFC 5246 section 7.4.1.2), one table for all workers: a client that
// comes back is accepted by any of them. Bounded: LIMIT_TLS_SESSIONS entries, four places for each id; a new session
// takes the place that ends first. Nothing ever waits: an entry that is being written is a miss, and a writer that
// meets another one leaves its session out.
#ifndef SLUICE_NET_TLS_SESSIONS_H
#define SLUICE_NET_TLS_SESSIONS_H

#include "base/base.h"
#include "limits.h"

#define TLS_SESSION_ID_BYTES 32u

typedef struct tls_session {
    u8 id[TLS_SESSION_ID_BYTES];
    u8 master[48];
    u8 digest[32];     // of the client's certificate, when it showed one: asked against the deny list again
    u64 scope;         // tls_context.scope it was made under
    u64 ends_ns;       // monotonic; 0 = empty
    u16 version, suite;
    u8 has_certificate;
    u8 identity_len;
    char identity[LIMIT_TLS_IDENTITY_BYTES];
    u8 pad[2];
} tls_session;
_Static_assert(sizeof(tls_session) % sizeof(u64) == 0, "copied by words");

// Main thread, before workers use it; more calls do nothing. Returns 0 or -ENOMEM.
int tls_sessions_init(void);
// Any worker.
void tls_sessions_put(const tls_session *session, u64 now_ns);
// False: not there, ended, or of another scope. Wipe *out.
bool tls_sessions_get(const u8 id[TLS_SESSION_ID_BYTES], u64 scope, u64 now_ns, tls_session *out);
// Main thread, at the end; all workers have ended.
void tls_sessions_free(void);

#endif
