// SPDX-License-Identifier: Apache-2.0
// tls_handshake.h: one handshake, TLS 1.2 (RFC 5246), by BearSSL's engine: records in, records out, no I/O, no
// allocation. The struct is lent to a connection while its handshake lasts; what stays are two record contexts.
// The engine gets exactly the records of the handshake: its input buffer only has to hold the encrypted ones, which
// are small, and what comes behind is the record layer's (tls_record.h).
#ifndef SLUICE_NET_TLS_HANDSHAKE_H
#define SLUICE_NET_TLS_HANDSHAKE_H

#include "net/tls_context.h"
#include "net/tls_error.h"
#include "net/tls_record.h"
#include "net/tls_sessions.h"
#include "net/tls_verify.h"

// Largest piece of a handshake message in one record of ours. Some clients do not put together messages that
// are spread over several, and a chain of certificates is longer than a few hundred bytes.
#define TLS_OUT_FRAGMENT_BYTES 4096u
#define TLS_OUT_BYTES (TLS_OUT_FRAGMENT_BYTES + 85u) // BearSSL's MAX_OUT_OVERHEAD
#define TLS_IN_BYTES 1024u

// Whose server this side talks to, and with what. Made once, shared like a tls_context.
typedef struct tls_client {
    br_x509_trust_anchor *anchors;
    u32 anchor_count;
    tls_certificate cert;  // chain_len 0 = none
    const char *alpn;      // one name, or NULL
} tls_client;

typedef struct tls_policy {
    const br_ssl_server_policy_class *vtable;
    const tls_context *context;
    const tls_certificate *chosen;
} tls_policy;

typedef struct tls_resumption {
    const br_ssl_session_cache_class *vtable;
    bool resumed;
    tls_session session;   // when resumed
} tls_resumption;

typedef struct tls_handshake {
    union {
        br_ssl_engine_context engine;
        br_ssl_server_context server;
        br_ssl_client_context client;
    } ssl;
    br_ec_impl curves;
    tls_verifier verifier;
    tls_policy policy;
    tls_resumption resumption;
    const char *client_alpn;
    bool is_client;
    u8 in[TLS_IN_BYTES];
    u8 out[TLS_OUT_BYTES];
} tls_handshake;

_Static_assert(sizeof(tls_handshake) <= 16384, "one buffer of 16 KiB while a handshake lasts");

typedef enum tls_step { TLS_STEP_MORE, TLS_STEP_DONE, TLS_STEP_FAILED, TLS_STEP_NO_MEMORY } tls_step;
// Takes the engine's output. False: no memory.
typedef bool (*tls_sink)(void *to, const u8 *data, u32 len);

// Begins. False: no random numbers (never on Linux 3.17 and later once booted).
bool tls_handshake_server(tls_handshake *hs, const tls_context *context);
// name: of the server, for SNI and the check of its certificate; NULL: any. session: of an earlier connection to that
// server, which it may resume; NULL or without an id: none. The first records are there to be taken.
bool tls_handshake_client(tls_handshake *hs, const tls_client *client, const char *name,
                          const br_ssl_session_parameters *session);
// Gives one whole record to the engine and takes what it answers. bytes 0: only takes output.
tls_step tls_handshake_feed(tls_handshake *hs, const u8 *record, u32 bytes, tls_sink sink, void *to);
// Why it failed; *alert: of the peer, when it is TLS_FAIL_PEER_ALERT.
tls_failure tls_handshake_failure(const tls_handshake *hs, u8 *alert);
// Whether the engine itself has told the peer.
bool tls_handshake_told(const tls_handshake *hs);
// One more record of ours on a handshake that does not go on: an alert. Returns its bytes in out.
#define TLS_ALERT_BYTES 64u
u32 tls_handshake_alert(tls_handshake *hs, u8 alert, u8 out[TLS_ALERT_BYTES]);
// After TLS_STEP_DONE: the record contexts as they stand.
void tls_handshake_ciphers(const tls_handshake *hs, tls_cipher *in, tls_cipher *out);
// Name out of the client's certificate; 0 bytes: it showed none.
u32 tls_handshake_identity(const tls_handshake *hs, char out[LIMIT_TLS_IDENTITY_BYTES]);
// Whether an earlier session went on, without public key operations.
bool tls_handshake_resumed(const tls_handshake *hs);
// "ECDHE-ECDSA-AES128-GCM"; "?" for another one.
const char *tls_suite_name(u16 suite);
// The server's policy for the engine (tls_policy.c).
void tls_policy_init(tls_policy *policy, const tls_context *context);
// What both sides' engines have in common (tls_profile.c): version, suites, curves, hashes, implementations.
// curves: memory for the list of curves, as long as the engine lives.
void tls_profile_set(br_ssl_engine_context *engine, br_ec_impl *curves);
// Whether AES is preferred to ChaCha20: this machine, or the kernel for us, has instructions for it.
void tls_profile_kernel_crypto(bool kernel_does_it);

#endif
