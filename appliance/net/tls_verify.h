// SPDX-License-Identifier: Apache-2.0
// tls_verify.h: the check of a peer's certificates during a handshake. BearSSL's minimal validator does the chain (RFC
// 5280: signatures, validity, names); around it: whether the certificate is denied, and the name in it.
#ifndef SLUICE_NET_TLS_VERIFY_H
#define SLUICE_NET_TLS_VERIFY_H

#include "net/tls_context.h"
#include "net/tls_error.h"

// A peer's own certificate is kept for what BearSSL does not look at: issuer, serial number, purposes. With
// this much the handshake's memory is one buffer of 16 KiB; certificates have 500 to 2,000 bytes.
#define TLS_CERT_BYTES_MAX 3072u

typedef struct tls_verifier {
    const br_x509_class *vtable;   // first: BearSSL gets a pointer to it
    br_x509_minimal_context minimal;
    const tls_context *context;    // NULL: a client's check of a server
    br_sha256_context sha;
    u32 certificate;               // number of the one that comes, from 0
    u32 own_len;                   // of the peer's own certificate, which is longer than own when too_long
    bool too_long;
    u8 own[TLS_CERT_BYTES_MAX];
    u8 digest[TLS_DIGEST_BYTES];   // SHA-256 of the first certificate
    br_name_element name;
    char identity[LIMIT_TLS_IDENTITY_BYTES + 1];
    bool shown;                    // the peer sent a certificate
    tls_failure failure;
} tls_verifier;

// For clients of a listener. The engine gets &out->vtable (br_ssl_engine_set_x509).
void tls_verifier_init_server(tls_verifier *out, const tls_context *context);
// For a server that this side connects to; its name is the engine's.
void tls_verifier_init_client(tls_verifier *out, const br_x509_trust_anchor *anchors, u32 count);

#endif
