// SPDX-License-Identifier: Apache-2.0
// reason.h: why a connection ended. Set once per connection, and the same name shows in the log, in
// sluice_closes_total{reason="..."} and in `sluice ctl`. Names are stable.
#ifndef SLUICE_NET_REASON_H
#define SLUICE_NET_REASON_H

#include "base/base.h"

typedef enum close_reason {
    CLOSE_NONE = 0,
    CLOSE_PEER,             // peer closed in an orderly way
    CLOSE_PEER_RESET,       // ECONNRESET, EPIPE
    CLOSE_PEER_IN_FRAME,    // peer closed in the middle of a frame
    CLOSE_IO_ERROR,         // any other errno
    CLOSE_TIMED_OUT,        // TCP gave up: ETIMEDOUT (keepalive, TCP_USER_TIMEOUT), EHOSTUNREACH
    CLOSE_IDLE,             // nothing received for idle_timeout
    CLOSE_FRAME_TIMEOUT,    // a started frame was not finished within packet_timeout
    CLOSE_HELLO_TIMEOUT,    // no hello within hello_timeout
    CLOSE_FRAME_TOO_LARGE,  // length over max_frame
    CLOSE_BAD_HELLO,        // hello frame is not valid
    CLOSE_AUTH_FAILED,      // hello token refused
    CLOSE_TAKEN_OVER,       // another connection with the same id
    CLOSE_SLOW_CONSUMER,    // output budget exceeded or nothing taken for send_timeout
    CLOSE_CONN_LIMIT,       // max_conns of the listener or the worker's slots
    CLOSE_ADDRESS_LIMIT,    // max_conns_per_address
    CLOSE_NO_DESCRIPTORS,   // EMFILE or ENFILE: shed through the reserve descriptor
    CLOSE_NO_MEMORY,        // a budget or the system had no memory for it
    CLOSE_KICKED,           // sluice ctl kick
    CLOSE_DRAIN,            // shutting down
    CLOSE_PROTOCOL_ERROR,   // malformed input with no more precise name
    CLOSE_QUOTA,            // a limit on sessions, packets in flight or the like
    CLOSE_QUEUE_FULL,       // messages wait beyond its queue's budget, and the policy is disconnect
    CLOSE_REJECTED,         // a session that rejects has no room for a message, and the protocol can not say so
    CLOSE_NOT_SUPPORTED,    // asked for what the listener does not offer
    CLOSE_WS_HANDSHAKE,     // the request was no upgrade to a WebSocket that this listener takes
    CLOSE_WS_ORIGIN,        // a page of an origin that is not allowed
    CLOSE_WS_PROTOCOL,      // a frame that RFC 6455 or the listener's bound does not allow
    CLOSE_PROXY_SOURCE,     // a connection from outside of proxy_from
    CLOSE_PROXY_HEADER,     // no PROXY header, or a malformed one
    CLOSE_TLS_HANDSHAKE,    // the TLS handshake failed; its own reason is in the log and in the metrics
    CLOSE_TLS_TIMEOUT,      // it was not done within handshake_timeout
    CLOSE_TLS_RECORD,       // a TLS record was altered, too large or out of place
    CLOSE_TLS_RENEGOTIATION, // the peer asked for a new handshake on an open connection
    CLOSE_TLS_ALERT,        // the peer sent a fatal alert
    CLOSE_LOG,              // a message could not be written into the log, and the protocol can not say so
    CLOSE_STREAM_FULL,      // a stream with discard = new has no room for a message, and the protocol can not say so
    CLOSE_HTTP_DONE,        // admin connection finished (Connection: close)
    CLOSE_CONNECT_RATE,     // connect_rate_per_address
    CLOSE_MESSAGE_RATE,     // message_rate or byte_rate, and the policy is disconnect
    CLOSE_TOKEN_EXPIRED,    // the token that the client was let in with has expired
    CLOSE_UPLINK,           // an uplink gave its connection up; its own error says why
    CLOSE_REASONS
} close_reason;

// "frame_too_large"; never NULL.
const char *close_reason_name(u32 reason);
// Maps a socket errno (positive or negative) to a reason.
close_reason close_reason_of_errno(int err);

#endif
