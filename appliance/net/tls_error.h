// SPDX-License-Identifier: Apache-2.0
// tls_error.h: names for what ends a handshake. Stable: they stand in the log with the peer's address, and in
// sluice_tls_handshake_failures_total{reason="..."}.
#ifndef SLUICE_NET_TLS_ERROR_H
#define SLUICE_NET_TLS_ERROR_H

#include "base/base.h"

typedef enum tls_failure {
    TLS_OK = 0,
    TLS_FAIL_NOT_TLS,          // what came is no TLS record: a client without TLS on this port
    TLS_FAIL_VERSION,          // no common version: this gateway speaks TLS 1.2
    TLS_FAIL_CIPHER,           // no common cipher suite, curve or signature algorithm
    TLS_FAIL_ALPN,
    TLS_FAIL_MALFORMED,        // a message is damaged or comes at the wrong moment
    TLS_FAIL_TOO_LARGE,
    TLS_FAIL_BAD_MAC,
    TLS_FAIL_FINISHED,         // the two sides have not seen the same handshake
    TLS_FAIL_NO_CERTIFICATE,   // the peer shows none and must
    TLS_FAIL_CERT_EXPIRED,     // ended, or not valid yet
    TLS_FAIL_CERT_UNTRUSTED,   // does not lead to a known authority, or the chain is not complete
    TLS_FAIL_CERT_NAME,        // server's certificate is for another name
    TLS_FAIL_CERT_REVOKED,     // on a deny list
    TLS_FAIL_CERT_SIGNATURE,   // a signature in the chain is wrong
    TLS_FAIL_CERT_USAGE,       // not for this use
    TLS_FAIL_CERT_INVALID,     // damaged, or with something not understood
    TLS_FAIL_IDENTITY,         // no name of the kind that `identity` asks for, or too long
    TLS_FAIL_PEER_ALERT,       // the peer refused: it names its reason by an alert
    TLS_FAIL_PEER_CLOSED,      // the peer went away in the middle
    TLS_FAIL_TIMEOUT,          // not done within handshake_timeout
    TLS_FAIL_SLOW,             // made no progress while others waited
    TLS_FAIL_RENEGOTIATION,
    TLS_FAIL_NO_MEMORY,
    TLS_FAIL_INTERNAL,
    TLS_FAILURES
} tls_failure;

// "certificate_expired"; never NULL.
const char *tls_failure_name(u32 failure);
// Of an error code of BearSSL's engine (bearssl_ssl.h, bearssl_x509.h).
tls_failure tls_failure_of(int bearssl_error);
// Name of an alert (RFC 5246 section 7.2, RFC 7301): "unknown_ca"; "alert" for an unknown one.
const char *tls_alert_name(u32 alert);
// The alert that tells the peer of a failure; 0 = none is to be sent.
u8 tls_alert_of(tls_failure failure);

#endif
