// SPDX-License-Identifier: Apache-2.0
// conn_view.h: what operators see of a connection: a flat copy that may leave its worker, its state and the
// reason why it is slow as names, and the filter that decides which connections are copied.
//
// Taking a view and filtering run on the connection's own worker; a view, once taken, belongs to nobody.
#ifndef SLUICE_OPS_CONN_VIEW_H
#define SLUICE_OPS_CONN_VIEW_H

#include "net/conn.h"
#include "worker.h"

// What a connection is doing, the most telling first.
typedef enum conn_state {
    CONN_STATE_CLOSING,     // close started
    CONN_STATE_FLUSHING,    // closes when its output has been sent
    CONN_STATE_MOVING,      // on its way to another worker
    CONN_STATE_BLOCKED,     // the broker could not take its packet; reading stopped
    CONN_STATE_PAUSED,      // too much output waits; reading stopped
    CONN_STATE_HALF_CLOSED, // the peer has ended its side
    CONN_STATE_HELLO,       // not identified yet
    CONN_STATE_PARTIAL,     // in the middle of a packet
    CONN_STATE_SENDING,     // output waits
    CONN_STATE_OPEN,        // at rest
    CONN_STATES
} conn_state;

// Why it makes no progress, if so.
typedef enum conn_slow {
    CONN_SLOW_NO,
    CONN_SLOW_UNARMED, // nothing is outstanding for it although something should be: a defect
    CONN_SLOW_STARVED, // waits for a receive buffer
    CONN_SLOW_BLOCKED, // waits for the broker
    CONN_SLOW_OUTPUT,  // the peer has taken nothing for a second while output waits
    CONN_SLOW_PARTIAL, // a packet was started over a second ago and is not complete
    CONN_SLOW_REASONS
} conn_slow;

const char *conn_state_name(u32 state);
const char *conn_slow_name(u32 slow); // "" for CONN_SLOW_NO

typedef struct conn_view {
    u64 id;
    u32 worker, slot, generation;
    u8 state, slow, armed, reason, peer_family, moved_from;
    u16 flags, peer_port;
    u8 peer_addr[16];
    char listener[LIMIT_NAME_BYTES];
    char client[LIMIT_CLIENT_ID_BYTES + 1]; // client id, "" = none
    const char *protocol;                 // static
    u64 bytes_in, bytes_out, packets_in, packets_out;
    u64 opened_ns;                        // CLOCK_MONOTONIC
    u64 age_ns, idle_ns;                  // since it was opened; since the last byte came
    u64 partial_ns, output_stalled_ns;    // 0 when not so
    u64 timer_in_ns;                      // UINT64_MAX when no timer is armed
    u32 out_bytes, lent_bytes;
    u32 head_bytes, tail_bytes, tail_size, stash_bytes, stash_size;
    const char *tls_suite;                // static; NULL: no TLS, or in its handshake
    bool tls_resumed, tls_kernel_send, tls_kernel_receive;
    char tls_identity[LIMIT_TLS_IDENTITY_BYTES + 1]; // name out of the peer's certificate, "" = none
} conn_view;

// Owner thread of c.
void conn_view_take(conn_view *out, const conn *c, u64 now_ns);

// The peer as conn_peer_text prints it; any thread, so that the worker need not print. Returns out.
const char *conn_view_peer(const conn_view *v, char out[CONN_PEER_TEXT]);

// A peer as people write it: an address, address/bits, address:port, or the start of a printed address.
typedef struct peer_filter {
    enum { PEER_ANY, PEER_NETWORK, PEER_TEXT } kind;
    u8 addr[16];                          // v4 mapped into v6
    u32 bits;
    char text[CONN_PEER_TEXT];
} peer_filter;
// False when the text is too long or the bits are out of range.
bool peer_filter_parse(const char *text, peer_filter *out);
bool peer_filter_matches(const peer_filter *f, const conn *c);

typedef struct conn_filter {
    peer_filter peer;
    char listener[LIMIT_NAME_BYTES];      // "" = any
    char client[LIMIT_CLIENT_ID_BYTES + 1]; // start of the client id, "" = any
    u32 state;                            // CONN_STATES = any
    u32 slow;                             // CONN_SLOW_REASONS = any that is slow, CONN_SLOW_NO = no filter
} conn_filter;
void conn_filter_init(conn_filter *f);
// Takes the view when the filter matches; false otherwise. Owner thread of c.
bool conn_filter_view(const conn_filter *f, const conn *c, u64 now_ns, conn_view *out);

// Names of the set bits, to be called with *bit = 0 first; NULL at the end.
const char *conn_flag_next(u32 flags, u32 *bit);
const char *conn_armed_next(u32 armed, u32 *bit);

#endif
