// SPDX-License-Identifier: Apache-2.0
// tls_context.h: what a listener needs for TLS: certificates with their keys, whom clients may be certified by, whom
// not. Made from files by main (start, reload, `sluice check`), never changed afterwards, shared by all workers and
// by the handshakes that began with it; the last one to let go frees it. A connection that is open needs it no more,
// so a reload drops nobody.
#ifndef SLUICE_NET_TLS_CONTEXT_H
#define SLUICE_NET_TLS_CONTEXT_H

#include <bearssl.h>

#include "base/base.h"
#include "conf/config.h"
#include "net/tls_der.h"

#define TLS_DIGEST_BYTES 32u

typedef struct tls_certificate {
    br_x509_certificate *chain;   // end entity first
    u32 chain_len;
    br_skey_decoder_context key;  // holds the decoded numbers
    cert_info info;               // of chain[0]; points into it
    char file[256];
} tls_certificate;

typedef struct tls_context {
    u32 refs;                     // atomic
    char name[LIMIT_NAME_BYTES];  // listener's
    tls_certificate certs[LIMIT_TLS_CERTS];
    u32 cert_count;
    br_x509_trust_anchor *anchors;
    u32 anchor_count;
    u8 (*denied)[TLS_DIGEST_BYTES]; // sorted: digests of certificates, and of issuer and serial number
    u32 denied_count;
    tls_client_auth client_auth;
    tls_identity identity;
    u64 scope;                    // sessions made under other rules are not resumed
    u64 handshake_timeout_ms;
    u32 handshakes_per_address;
    bool sessions;                // resumption is allowed
    const char *alpn[LIMIT_TLS_ALPN];
    u32 alpn_count;
    char alpn_text[LIMIT_TLS_ALPN * 32];
} tls_context;

// Reads and checks everything that the tls block names. Returns 0; or -EINVAL, -ENOMEM or another -errno
// with a sentence in why that names the file, the line or offset and what is wrong. Warnings (a certificate
// that ends soon) are logged when log is true. Holds one reference.
int tls_context_load(const listener_config *conf, bool log, tls_context **out, char *why, size_t why_bytes);
tls_context *tls_context_hold(tls_context *context);
// Any thread; wipes the keys with the last reference. NULL is allowed.
void tls_context_drop(tls_context *context);
// Whether a digest is among the denied ones.
bool tls_context_denies(const tls_context *context, const u8 digest[TLS_DIGEST_BYTES]);
// Digest under which a revocation list denies a certificate: SHA-256 of issuer (with header) and serial.
void tls_serial_digest(der issuer, der serial, u8 out[TLS_DIGEST_BYTES]);
// Logs a warning for each certificate that ends within LIMIT_TLS_EXPIRY_WARN_S, or has ended.
void tls_context_warn_expiry(const tls_context *context);
// Whether a day has passed since *last_s (by a clock that may be set, either way), which then becomes now_s.
bool tls_expiry_check_is_due(i64 *last_s, i64 now_s);

// A place where a context is looked at by main and the operations worker: what is in force on a listener. Behind a
// lock, which device workers never take.
// Main thread: replaces what is there; takes a reference of its own. NULL: nothing from now on.
void tls_context_publish(tls_context **place, tls_context *context);
// What is there, with a reference for the caller; NULL: nothing.
tls_context *tls_context_at(tls_context **place);
// "ECDSA P-256", "RSA 2048".
#define TLS_KEY_TEXT 32u
const char *tls_certificate_key_text(const tls_certificate *cert, char out[TLS_KEY_TEXT]);

// --- the parts, for each other and for clients (tls_load.c, tls_deny.c) ---

// Certificates of a PEM file as trust anchors, appended. Returns 0 or as tls_context_load.
int tls_anchors_load(const char *path, br_x509_trust_anchor **anchors, u32 *count, char *why, size_t why_bytes);
void tls_anchors_free(br_x509_trust_anchor *anchors, u32 count);
int tls_certificate_load(const char *cert_path, const char *key_path, tls_certificate *out, char *why,
                         size_t why_bytes);
void tls_certificate_free(tls_certificate *cert);
// Adds what a file denies: PEM revocation lists signed by one of the anchors, or lines with the SHA-256 of
// a certificate in hexadecimal (colons allowed, # starts a comment).
int tls_deny_load(tls_context *context, const char *path, bool log, char *why, size_t why_bytes);
void tls_deny_sort(tls_context *context);

#endif
