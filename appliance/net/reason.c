// SPDX-License-Identifier: Apache-2.0
// reason.c: names of close reasons and the mapping from errno, at the system-call boundary.
#include "net/reason.h"

#include <errno.h>

static const char *const reason_names[CLOSE_REASONS] = {
    [CLOSE_NONE] = "none",
    [CLOSE_PEER] = "peer_closed",
    [CLOSE_PEER_RESET] = "peer_reset",
    [CLOSE_PEER_IN_FRAME] = "peer_closed_in_frame",
    [CLOSE_IO_ERROR] = "io_error",
    [CLOSE_TIMED_OUT] = "tcp_timed_out",
    [CLOSE_IDLE] = "idle_timeout",
    [CLOSE_FRAME_TIMEOUT] = "packet_timeout",
    [CLOSE_HELLO_TIMEOUT] = "hello_timeout",
    [CLOSE_FRAME_TOO_LARGE] = "frame_too_large",
    [CLOSE_BAD_HELLO] = "bad_hello",
    [CLOSE_AUTH_FAILED] = "auth_failed",
    [CLOSE_TAKEN_OVER] = "taken_over",
    [CLOSE_SLOW_CONSUMER] = "slow_consumer",
    [CLOSE_CONN_LIMIT] = "conn_limit",
    [CLOSE_ADDRESS_LIMIT] = "address_limit",
    [CLOSE_NO_DESCRIPTORS] = "no_descriptors",
    [CLOSE_NO_MEMORY] = "no_memory",
    [CLOSE_KICKED] = "kicked",
    [CLOSE_DRAIN] = "drain",
    [CLOSE_PROTOCOL_ERROR] = "protocol_error",
    [CLOSE_QUOTA] = "quota_exceeded",
    [CLOSE_QUEUE_FULL] = "queue_full",
    [CLOSE_REJECTED] = "queue_reject",
    [CLOSE_NOT_SUPPORTED] = "not_supported",
    [CLOSE_WS_HANDSHAKE] = "websocket_handshake",
    [CLOSE_WS_ORIGIN] = "websocket_origin",
    [CLOSE_WS_PROTOCOL] = "websocket_protocol",
    [CLOSE_PROXY_SOURCE] = "proxy_source",
    [CLOSE_PROXY_HEADER] = "proxy_header",
    [CLOSE_TLS_HANDSHAKE] = "tls_handshake_failed",
    [CLOSE_TLS_TIMEOUT] = "tls_handshake_timeout",
    [CLOSE_TLS_RECORD] = "tls_bad_record",
    [CLOSE_TLS_RENEGOTIATION] = "tls_renegotiation",
    [CLOSE_TLS_ALERT] = "tls_alert",
    [CLOSE_LOG] = "log",
    [CLOSE_STREAM_FULL] = "stream_full",
    [CLOSE_HTTP_DONE] = "http_done",
    [CLOSE_CONNECT_RATE] = "connect_rate",
    [CLOSE_MESSAGE_RATE] = "message_rate",
    [CLOSE_TOKEN_EXPIRED] = "token_expired",
    [CLOSE_UPLINK] = "uplink",
};

const char *close_reason_name(u32 reason) {
    if (reason >= CLOSE_REASONS || reason_names[reason] == 0) return "unknown";
    return reason_names[reason];
}

close_reason close_reason_of_errno(int err) {
    switch (err < 0 ? -err : err) {
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
        return CLOSE_PEER_RESET;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
        return CLOSE_TIMED_OUT;
    case ENOMEM:
        return CLOSE_NO_MEMORY;
    default:
        return CLOSE_IO_ERROR;
    }
}
