// SPDX-License-Identifier: Apache-2.0
// websocket.h: WebSocket (RFC 6455) as a layer of a connection: first the handshake, then frames. What a client's
// binary messages carry goes up as one stream of bytes, unmasked where it lies; what goes down becomes one binary
// message for each piece of output that is flushed. Pings are answered, a close is answered and ends the
// connection, and when the gateway ends it a close frame with the reason's code is the last thing sent.
//
// An idle WebSocket owns its state of 256 bytes and no buffer.
#ifndef SLUICE_NET_WEBSOCKET_H
#define SLUICE_NET_WEBSOCKET_H

#include "net/conn.h"

// Puts the layer on top of those that the connection has; nothing has been read yet. Returns 0 or
// CLOSE_NO_MEMORY.
int websocket_push(conn *c);
// Whether it has one.
bool websocket_is_on(const conn *c);

#endif
