// SPDX-License-Identifier: Apache-2.0
// tls_error.c: tables of names.
#include "net/tls_error.h"

#include <bearssl.h>

static const char *const failure_names[TLS_FAILURES] = {
    [TLS_OK] = "none",
    [TLS_FAIL_NOT_TLS] = "not_tls",
    [TLS_FAIL_VERSION] = "no_common_version",
    [TLS_FAIL_CIPHER] = "no_common_cipher",
    [TLS_FAIL_ALPN] = "no_common_protocol",
    [TLS_FAIL_MALFORMED] = "malformed",
    [TLS_FAIL_TOO_LARGE] = "too_large",
    [TLS_FAIL_BAD_MAC] = "bad_record_mac",
    [TLS_FAIL_FINISHED] = "bad_finished",
    [TLS_FAIL_NO_CERTIFICATE] = "no_certificate",
    [TLS_FAIL_CERT_EXPIRED] = "certificate_expired",
    [TLS_FAIL_CERT_UNTRUSTED] = "certificate_untrusted",
    [TLS_FAIL_CERT_NAME] = "certificate_wrong_name",
    [TLS_FAIL_CERT_REVOKED] = "certificate_revoked",
    [TLS_FAIL_CERT_SIGNATURE] = "certificate_bad_signature",
    [TLS_FAIL_CERT_USAGE] = "certificate_wrong_usage",
    [TLS_FAIL_CERT_INVALID] = "certificate_invalid",
    [TLS_FAIL_IDENTITY] = "certificate_no_identity",
    [TLS_FAIL_PEER_ALERT] = "peer_alert",
    [TLS_FAIL_PEER_CLOSED] = "peer_closed",
    [TLS_FAIL_TIMEOUT] = "timeout",
    [TLS_FAIL_SLOW] = "slow",
    [TLS_FAIL_RENEGOTIATION] = "renegotiation",
    [TLS_FAIL_NO_MEMORY] = "no_memory",
    [TLS_FAIL_INTERNAL] = "internal",
};

const char *tls_failure_name(u32 failure) {
    return failure < TLS_FAILURES && failure_names[failure] != NULL ? failure_names[failure] : "unknown";
}

static tls_failure certificate_failure(int error) {
    switch (error) {
    case BR_ERR_X509_EMPTY_CHAIN: return TLS_FAIL_NO_CERTIFICATE;
    case BR_ERR_X509_EXPIRED:
    case BR_ERR_X509_TIME_UNKNOWN: return TLS_FAIL_CERT_EXPIRED;
    case BR_ERR_X509_BAD_SERVER_NAME: return TLS_FAIL_CERT_NAME;
    case BR_ERR_X509_NOT_TRUSTED:
    case BR_ERR_X509_DN_MISMATCH:
    case BR_ERR_X509_NOT_CA: return TLS_FAIL_CERT_UNTRUSTED;
    case BR_ERR_X509_BAD_SIGNATURE: return TLS_FAIL_CERT_SIGNATURE;
    case BR_ERR_X509_FORBIDDEN_KEY_USAGE:
    case BR_ERR_X509_WRONG_KEY_TYPE: return TLS_FAIL_CERT_USAGE;
    default: return TLS_FAIL_CERT_INVALID;
    }
}

tls_failure tls_failure_of(int error) {
    if (error == BR_ERR_OK) return TLS_OK;
    if (error >= BR_ERR_SEND_FATAL_ALERT) {
        switch (error - BR_ERR_SEND_FATAL_ALERT) {
        case 40: return TLS_FAIL_CIPHER; // handshake_failure
        case 70: return TLS_FAIL_VERSION; // protocol_version
        case 86: return TLS_FAIL_VERSION; // inappropriate_fallback
        case 120: return TLS_FAIL_ALPN;
        default: return TLS_FAIL_MALFORMED;
        }
    }
    if (error >= BR_ERR_RECV_FATAL_ALERT) return TLS_FAIL_PEER_ALERT;
    if (error > BR_ERR_X509_OK) return certificate_failure(error);
    switch (error) {
    case BR_ERR_UNSUPPORTED_VERSION:
    case BR_ERR_BAD_VERSION: return TLS_FAIL_VERSION;
    case BR_ERR_TOO_LARGE:
    case BR_ERR_LIMIT_EXCEEDED:
    case BR_ERR_OVERSIZED_ID: return TLS_FAIL_TOO_LARGE;
    case BR_ERR_BAD_MAC: return TLS_FAIL_BAD_MAC;
    case BR_ERR_BAD_FINISHED: return TLS_FAIL_FINISHED;
    case BR_ERR_BAD_CIPHER_SUITE:
    case BR_ERR_INVALID_ALGORITHM: return TLS_FAIL_CIPHER;
    case BR_ERR_BAD_SIGNATURE: return TLS_FAIL_CERT_SIGNATURE;
    case BR_ERR_WRONG_KEY_USAGE: return TLS_FAIL_CERT_USAGE;
    case BR_ERR_NO_CLIENT_AUTH: return TLS_FAIL_NO_CERTIFICATE;
    case BR_ERR_BAD_SECRENEG: return TLS_FAIL_RENEGOTIATION;
    case BR_ERR_BAD_PARAM:
    case BR_ERR_BAD_STATE:
    case BR_ERR_NO_RANDOM:
    case BR_ERR_IO: return TLS_FAIL_INTERNAL;
    default: return TLS_FAIL_MALFORMED;
    }
}

const char *tls_alert_name(u32 alert) {
    switch (alert) {
    case 0: return "close_notify";
    case 10: return "unexpected_message";
    case 20: return "bad_record_mac";
    case 22: return "record_overflow";
    case 40: return "handshake_failure";
    case 42: return "bad_certificate";
    case 43: return "unsupported_certificate";
    case 44: return "certificate_revoked";
    case 45: return "certificate_expired";
    case 46: return "certificate_unknown";
    case 47: return "illegal_parameter";
    case 48: return "unknown_ca";
    case 49: return "access_denied";
    case 50: return "decode_error";
    case 51: return "decrypt_error";
    case 70: return "protocol_version";
    case 71: return "insufficient_security";
    case 80: return "internal_error";
    case 86: return "inappropriate_fallback";
    case 90: return "user_canceled";
    case 100: return "no_renegotiation";
    case 109: return "missing_extension";
    case 112: return "unrecognized_name";
    case 116: return "certificate_required";
    case 120: return "no_application_protocol";
    default: return "alert";
    }
}

u8 tls_alert_of(tls_failure failure) {
    switch (failure) {
    case TLS_FAIL_VERSION: return 70;
    case TLS_FAIL_CIPHER:
    case TLS_FAIL_NO_CERTIFICATE: return 40; // RFC 5246 section 7.4.6
    case TLS_FAIL_ALPN: return 120;
    case TLS_FAIL_TOO_LARGE: return 22;
    case TLS_FAIL_BAD_MAC: return 20;
    case TLS_FAIL_FINISHED: return 51;
    case TLS_FAIL_CERT_EXPIRED: return 45;
    case TLS_FAIL_CERT_UNTRUSTED: return 48;
    case TLS_FAIL_CERT_REVOKED: return 44;
    case TLS_FAIL_CERT_SIGNATURE:
    case TLS_FAIL_CERT_NAME:
    case TLS_FAIL_CERT_INVALID: return 42;
    case TLS_FAIL_CERT_USAGE: return 43;
    case TLS_FAIL_IDENTITY: return 46;
    case TLS_FAIL_TIMEOUT:
    case TLS_FAIL_SLOW: return 90;
    case TLS_FAIL_MALFORMED: return 50;
    case TLS_FAIL_RENEGOTIATION: return 100;
    case TLS_FAIL_NO_MEMORY:
    case TLS_FAIL_INTERNAL: return 80;
    default: return 0;
    }
}
