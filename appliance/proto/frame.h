// SPDX-License-Identifier: Apache-2.0
// frame.h: the framed device protocol: 4-byte big-endian length N, then N bytes; N = 0 is a heartbeat and
// is answered by N = 0. Modes echo, ack and publish (DESIGN: wire formats in docs/frame-protocol.md).
#ifndef SLUICE_PROTO_FRAME_H
#define SLUICE_PROTO_FRAME_H

#include "net/conn.h"

#define FRAME_HEADER_BYTES 4u
#define FRAME_ACK_BYTES 12u // header and u64 frame number

// One table for each mode: the mode is fixed per listener, so the hot path has no mode branch.
extern const proto proto_frame_echo;
extern const proto proto_frame_ack;
extern const proto proto_frame_publish;

// The hello of publish mode, parsed: {"id": "...", "token": "..."}. Unknown members are ignored; id is
// 1 .. LIMIT_CLIENT_ID_BYTES of UTF-8 without NUL, '/', '+' and '#' (it becomes a topic level).
typedef struct frame_hello {
    char id[LIMIT_CLIENT_ID_BYTES + 1];
    u32 id_len;
    char token[LIMIT_TOKEN_BYTES + 1];
    u32 token_len;
} frame_hello;
// Returns 0 or -EINVAL. No I/O, no allocation beyond a fixed pool on the stack; fuzzed.
int frame_hello_parse(const u8 *data, u32 len, frame_hello *out);

#endif
