// SPDX-License-Identifier: Apache-2.0
// ws_handshake.h: the request that turns a connection into a WebSocket (RFC 6455 section 4) and its answer, from
// the server's side. Bytes in, a verdict and the answer's bytes out; no I/O. The grammar of HTTP is llhttp's, in
// strict mode; this adds the bounds, what RFC 6455 asks of the fields, the path, the Origin and the subprotocol.
#ifndef SLUICE_PROTO_WS_HANDSHAKE_H
#define SLUICE_PROTO_WS_HANDSHAKE_H

#include <llhttp.h>

#include "base/base.h"
#include "limits.h"

#define WS_VALUE_BYTES 255u // of a field that matters here; a longer one is refused
#define WS_PATH_BYTES 255u
#define WS_ACCEPT_BYTES 28u // base64 of a SHA-1
#define WS_ANSWER_BYTES 512u

// What a listener wants. Strings must outlive the handshake.
typedef struct ws_policy {
    const char *path;        // "/mqtt"; the query of a request is not compared; "*": every path
    const char *origins;     // allowed ones, each ended by a newline; "" = see ws_origin_is_allowed
    bool local;              // only this machine reaches the listener
} ws_policy;

typedef enum ws_progress {
    WS_NEED_MORE, // all bytes are used
    WS_READY,     // answer with ws_handshake_answer; bytes behind the request are frames
    WS_REFUSED,   // status and why tell; answer, then close
} ws_progress;

typedef struct ws_handshake {
    llhttp_t llhttp;
    const ws_policy *policy;
    const char *why;         // of WS_REFUSED; static
    int status;              // of WS_REFUSED: 400, 403, 404, 405, 414, 426, 431, 505
    const char *subprotocol; // chosen: "mqtt" or "mqttv3.1"; static
    u32 bytes;               // of the request so far
    u16 path_len, value_len, name_len, origin_len;
    u8 header_count;
    u8 field;                // whose value is being read
    u8 seen;                 // bit for each field that counts
    bool in_query;
    bool ready, upgrade, connection;
    char name[24];
    char path[WS_PATH_BYTES + 1];
    char value[WS_VALUE_BYTES + 1];
    char host[WS_VALUE_BYTES + 1];
    char origin[WS_VALUE_BYTES + 1];
    char key[24 + 1];
} ws_handshake;

void ws_handshake_init(ws_handshake *h, const ws_policy *policy);
// The struct has been copied to where it is now, and the policy to that place.
void ws_handshake_moved(ws_handshake *h, const ws_policy *policy);
// Feeds bytes; *used receives how many belong to the request. Not to be called again after WS_READY or
// WS_REFUSED. Needs more than LIMIT_WS_REQUEST_BYTES: refused with 431.
ws_progress ws_handshake_feed(ws_handshake *h, const u8 *data, u32 len, u32 *used);
// The answer: 101 after WS_READY, else the refusal. Returns its bytes, at most WS_ANSWER_BYTES.
u32 ws_handshake_answer(const ws_handshake *h, char out[WS_ANSWER_BYTES]);

// Sec-WebSocket-Accept of a key (section 4.2.2), without a terminator.
void ws_accept_make(const char *key, size_t key_len, char out[WS_ACCEPT_BYTES]);

// Whether a page of this origin may connect (section 10.2). With a list: an entry is equal to the origin
// (RFC 6454; compared without regard to case), or "*". Without one: only an origin whose host is the one that the
// request was sent to (Host), and on a local listener that host must be a loopback address or "localhost", so that a
// name which somebody points at 127.0.0.1 lets no page in. A client that is no browser sends no Origin and is not
// asked.
bool ws_origin_is_allowed(const ws_policy *policy, const char *origin, const char *host);

#endif
