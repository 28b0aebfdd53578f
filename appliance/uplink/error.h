// SPDX-License-Identifier: Apache-2.0
// error.h: why an uplink is not connected, or why its last connection ended: one list of names for log,
// metrics, `sluice ctl uplinks` and the status topics.
#ifndef SLUICE_UPLINK_ERROR_H
#define SLUICE_UPLINK_ERROR_H

#include "base/base.h"

// X(SYMBOL, "name", "explanation")
#define UPLINK_ERRORS(X) \
    X(NONE, "none", "no error") \
    X(RESOLVE_FAILED, "resolve_failed", "the host's name has no address") \
    X(RESOLVE_TIMEOUT, "resolve_timeout", "the name servers do not answer") \
    X(RESOLVE_BUSY, "resolve_busy", "too many look-ups of names are stuck already") \
    X(CONNECT_REFUSED, "connect_refused", "nothing listens there") \
    X(CONNECT_FAILED, "connect_failed", "the host can not be reached") \
    X(CONNECT_TIMEOUT, "connect_timeout", "no connection in time") \
    X(HELLO_TIMEOUT, "hello_timeout", "connected, but the remote does not greet in time") \
    X(BAD_CREDENTIALS, "bad_credentials", "the remote refuses user, password, token or key") \
    X(CREDENTIALS_FILE, "credentials_file", "the file with the own credentials can not be used") \
    X(NOT_AUTHORIZED, "not_authorized", "the remote does not permit this") \
    X(REFUSED, "refused", "the remote refuses the connection") \
    X(CLOSED, "closed_by_remote", "the remote closed the connection") \
    X(RESET, "connection_lost", "the connection broke") \
    X(SILENT, "silent", "the remote does not answer a ping") \
    X(ACK_TIMEOUT, "ack_timeout", "the remote accepts messages and does not acknowledge them") \
    X(PROTOCOL, "protocol_error", "the remote sends what its protocol does not allow") \
    X(TAKEN_OVER, "session_taken_over", "another client uses the same client id") \
    X(NO_STREAM, "no_stream", "no JetStream stream takes the subject") \
    X(NOT_STORED, "not_stored", "JetStream did not store a message") \
    X(QUOTA, "quota_exceeded", "the remote has no room for more") \
    X(TLS_NEEDED, "tls_needed", "the remote wants TLS") \
    X(TLS, "tls_failed", "no TLS connection: the certificate, or what it is checked with; the log says more") \
    X(LOG_FAILED, "log_failed", "the own log can not be read") \
    X(NO_MEMORY, "no_memory", "the worker's memory budget is used up") \
    X(STOPPED, "stopped", "the gateway stops, or the uplink was taken out of the configuration")

typedef enum uplink_error {
#define UPLINK_ERROR_ENUM(symbol, name, text) UPLINK_ERROR_##symbol,
    UPLINK_ERRORS(UPLINK_ERROR_ENUM)
#undef UPLINK_ERROR_ENUM
        UPLINK_ERROR_COUNT
} uplink_error;

// "ack_timeout", and the explanation. Never NULL.
const char *uplink_error_name(u32 error);
const char *uplink_error_text(u32 error);
// Of a system call's or an engine's result (negative), before and after the connection stood.
uplink_error uplink_error_of_connect(int result);
uplink_error uplink_error_of_io(int result);

#endif
