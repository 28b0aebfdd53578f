// SPDX-License-Identifier: Apache-2.0
// tls_stream.h: a client's side of TLS for whoever does his own I/O: `sluice pub` and `sub`, which block.
// Bytes in, bytes out. What is given to send before the handshake is done waits for it. One thread; memory is
// allocated with malloc and wiped.
#ifndef SLUICE_NET_TLS_STREAM_H
#define SLUICE_NET_TLS_STREAM_H

#include "net/tls_handshake.h"

typedef struct tls_stream tls_stream;

typedef struct tls_client_files {
    const char *ca;   // PEM: who the server's certificate may come from
    const char *cert; // PEM, own certificate and chain; NULL = none
    const char *key;  // NULL: in cert
    const char *alpn; // one name; NULL = none. Stays valid.
} tls_client_files;

// Reads the files. Returns 0 or -errno with a sentence in why. Free in the first case.
int tls_client_load(const tls_client_files *files, tls_client **out, char *why, size_t why_bytes);
void tls_client_free(tls_client *client);

// For a connection to the server of that name, which its certificate must have, and which is told to it
// (SNI); NULL: any. session: resumed when it has an id and the server agrees, and replaced by that of this
// connection once the stream is open; wipe it in the end. NULL: none. What is given outlives the stream.
// NULL: no memory. The first bytes for the socket are there at once.
tls_stream *tls_stream_open(const tls_client *client, const char *name, br_ssl_session_parameters *session);
void tls_stream_free(tls_stream *s); // NULL is allowed

// Bytes for the socket. taken: so many have been written.
const u8 *tls_stream_output(const tls_stream *s, u32 *len);
void tls_stream_output_taken(tls_stream *s, u32 len);
// Plaintext to be sent, copied. 0, -ENOMEM, or -EPIPE after an end or failure.
int tls_stream_send(tls_stream *s, const void *data, u32 len);
// Bytes from the socket, changed in place. What they mean is given to up, any number of times; up returns 0 to go on.
// Returns 0; what up returned; -EPROTO: failed, see tls_stream_why; or -ENOMEM.
typedef int (*tls_stream_up)(void *to, u8 *data, u32 len);
int tls_stream_receive(tls_stream *s, u8 *data, u32 len, tls_stream_up up, void *to);
bool tls_stream_is_open(const tls_stream *s);   // handshake done
bool tls_stream_is_resumed(const tls_stream *s); // once open
bool tls_stream_peer_ended(const tls_stream *s); // the peer said close_notify
// Says close_notify: behind what is queued.
void tls_stream_close(tls_stream *s);
// Why it failed: "certificate_untrusted", "peer_alert: unknown_ca". out is returned.
#define TLS_STREAM_WHY_BYTES 64u
const char *tls_stream_why(const tls_stream *s, char out[TLS_STREAM_WHY_BYTES]);

#endif
