// SPDX-License-Identifier: Apache-2.0
// tls.h: the TLS layer of a connection (net/layer.h), server or client. Its phases:
//
//   plain      a client that is to hear something in the clear first (tls_begin_client); what it sends waits
//   waiting    bytes may come; no memory beyond its state: the worker's handshakes are limited (tls_admission.h)
//   handshake  a tls_handshake is lent to it; records are fed one by one as the worker has time
//   handover   done: what was answered leaves the socket first, then the kernel gets the keys if it takes them
//   open       records are opened where they were received and sealed in the wire queue; an idle connection
//              has two record contexts. What the kernel took passes by.
//   ended      close_notify was received, or the handshake failed
#ifndef SLUICE_NET_TLS_H
#define SLUICE_NET_TLS_H

#include "net/conn.h"
#include "net/tls_handshake.h"

// Puts the layer on a connection that was accepted, before anything is read. Returns 0 or a close reason.
int tls_start_server(conn *c, tls_context *context);
// The same for a connection to a server of that name, once it is connected; the first records leave with the next
// flush. client and name outlive the connection.
int tls_start_client(conn *c, const tls_client *client, const char *name);

// The same for one whose server speaks first, in the clear: what comes is the protocol's until that calls
// tls_begin_client, and what is queued meanwhile is sent when the handshake is done. What the protocol still holds
// of the clear then must count for nothing: anybody may have written it.
int tls_start_client_later(conn *c, const tls_client *client, const char *name);
void tls_begin_client(conn *c);
// Why the handshake failed, "certificate_untrusted", "peer_alert: unknown_ca"; NULL: it did not, or there is no
// TLS. text is returned.
#define TLS_WHY_BYTES 64u
const char *tls_why(const conn *c, char text[TLS_WHY_BYTES]);

typedef struct tls_view {
    const char *suite;     // "ECDHE-ECDSA-AES128-GCM", "" before the handshake is done
    const char *identity;  // out of the peer's certificate; not terminated
    u32 identity_len;      // 0: it showed none
    bool resumed, kernel_send, kernel_receive;
} tls_view;
// False: the connection has no TLS, or is not done with its handshake.
bool tls_view_of(const conn *c, tls_view *out);
// Name out of the client's certificate, checked against client_ca; NULL: none. Not terminated.
const char *tls_peer_identity(const conn *c, u32 *len);

#endif
