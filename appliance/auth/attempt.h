// SPDX-License-Identifier: Apache-2.0
// attempt.h: who is it, and may it come in? A protocol asks once a client's credentials are there, and again after
// conn_unblock while the answer is AUTH_WAITS. What takes long (PBKDF2, signatures) is done in slices, one for each
// turn of the worker's loop, in turn for all that wait; what is refused is answered after the listener's auth_delay.
// An attempt that waits holds its connection and one small record of its worker.
//
// A worker's records are found by a connection's place in the connection table. They are made on the worker that owns
// the client's id, when the connection can not move any more, and end with the connection or with auth_forget.
// Owner thread only.
#ifndef SLUICE_AUTH_ATTEMPT_H
#define SLUICE_AUTH_ATTEMPT_H

#include "auth/grant.h"
#include "auth/scram.h"
#include "net/conn.h"

// What a client has brought.
typedef struct auth_request {
    const char *user;        // NULL: none
    u32 user_len;
    bool user_is_id;         // a device's id: no credential, and a token must be for it
    const void *secret;      // password or token; NULL: none
    u32 secret_len;
    const char *client;      // for the log
    u32 client_len;
} auth_request;

#define AUTH_WAITS (-1)
// 0 with *who->how, which lets in or not; or AUTH_WAITS: return PROTO_WAITING. *who is valid until auth_forget.
int auth_judge(conn *c, const auth_request *r, auth_identity *who);
// The connection ends, or its client has a session: forgets what is known of its attempt. Harmless without one.
void auth_forget(conn *c);
// A failure that a protocol has found by itself, or more of an exchange (r->user is from it, why the name for the
// log): from now on auth_judge waits, and then gives that result. Returns false when there is no room to wait: refuse
// at once.
bool auth_fail(conn *c, const auth_request *r, auth_result result, const char *why);
// Whether the address has failed too often: fail with AUTH_RATE, whatever the client knows.
bool auth_is_barred(const conn *c);

// --- exchanges of several messages (SCRAM) ---

typedef struct auth_exchange {
    scram scram;
    u8 *connect;             // the CONNECT that began it, in the worker's buffers; NULL during a re-authentication
    u32 connect_len, connect_size;
} auth_exchange;
// Begins one. NULL: no memory, or no room.
auth_exchange *auth_exchange_begin(conn *c);
auth_exchange *auth_exchange_of(const conn *c); // NULL: none
// The attempt has been judged (auth_fail's wait is over): auth_judge answers at once.
bool auth_is_judged(const conn *c);
// Counts and logs one that was let in without auth_judge.
void auth_count(worker *w, auth_result result);
// The same for a connected client that is ended, by its id.
void auth_revoked(conn *c, const char *id, u32 id_len, auth_result result);
// What was proved of a client that needed no grant until now: its listener had neither files nor rates when it came.
auth_identity auth_identity_late(const conn *c);
void auth_nonce(char out[SCRAM_NONCE_BYTES]);

// --- worker ---

// After a reload: every connection's protocol is asked to look again at its client (proto.recheck), some each turn.
void auth_recheck_all(worker *w);
void auth_worker_free(worker *w);

#endif
