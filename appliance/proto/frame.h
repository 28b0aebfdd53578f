// SPDX-License-Identifier: Apache-2.0
// frame.h: the framed device protocol: 4-byte big-endian length N, then N bytes; N = 0 is a
// heartbeat and is answered by N = 0. Modes echo, ack and publish (wire format:
// docs/frame-protocol.md).
//
// A frame's number counts the frames with a payload that were taken on this connection, from 1;
// heartbeats have none, and the hello of publish mode is number 0.
#ifndef SLUICE_PROTO_FRAME_H
#define SLUICE_PROTO_FRAME_H

#include "net/conn.h"

#define FRAME_HEADER_BYTES 4u
#define FRAME_ACK_BYTES 12u // header and u64 frame number

// One table for each mode: the mode is fixed per listener, so the hot path has no mode branch.
extern const proto proto_frame_echo;
extern const proto proto_frame_ack;
extern const proto proto_frame_publish;

// The hello of publish mode, parsed: {"id": "...", "token": "..."}. Unknown members are ignored; id
// is 1 .. LIMIT_CLIENT_ID_BYTES of UTF-8 without NUL, '/', '+' and '#' (it becomes a topic level);
// token may be absent (then it is empty), is at most LIMIT_TOKEN_BYTES long and holds no NUL. A
// member given twice is refused. Unused bytes are zero.
typedef struct frame_hello {
    char id[LIMIT_CLIENT_ID_BYTES + 1];
    u32 id_len;
    char token[LIMIT_TOKEN_BYTES + 1];
    u32 token_len;
} frame_hello;
// Returns 0 or -EINVAL. No I/O, no allocation beyond a fixed pool on the stack; fuzzed. Any thread;
// needs FRAME_HELLO_STACK_BYTES of stack and little more.
#define FRAME_HELLO_STACK_BYTES (13u * LIMIT_HELLO_BYTES + 256u)
int frame_hello_parse(const u8 *data, u32 len, frame_hello *out);

// --- shared by the modes ---

static inline u32 frame_length_read(const u8 head[FRAME_HEADER_BYTES]) {
    return (u32)head[0] << 24 | (u32)head[1] << 16 | (u32)head[2] << 8 | head[3];
}
static inline void frame_length_write(u8 head[FRAME_HEADER_BYTES], u32 len) {
    head[0] = (u8)(len >> 24);
    head[1] = (u8)(len >> 16);
    head[2] = (u8)(len >> 8);
    head[3] = (u8)len;
}
// proto.packet_size of all modes: CLOSE_FRAME_TOO_LARGE before a byte of the payload is read.
int frame_packet_size(conn *c, const u8 *head, u32 len, u32 *packet_bytes);
// Answers a heartbeat. Returns as proto.packet.
int frame_answer_heartbeat(conn *c, const u8 *data);
// Queues the acknowledgement of frame `number`. Returns as proto.packet.
int frame_send_ack(conn *c, u64 number);

#endif
