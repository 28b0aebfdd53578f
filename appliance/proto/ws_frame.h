// SPDX-License-Identifier: Apache-2.0
// ws_frame.h: the frames of WebSocket (RFC 6455 section 5), as a server reads and writes them. Bytes in,
// pieces of frames out; no I/O and no memory of its own. Payload is unmasked where it lies and handed out as
// it comes: a frame need not lie whole in memory, and its bounds mean nothing to what it carries (MQTT 5.0
// section 6: packets are not aligned on frames).
#ifndef SLUICE_PROTO_WS_FRAME_H
#define SLUICE_PROTO_WS_FRAME_H

#include "base/base.h"

typedef enum ws_opcode { // section 11.8
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
} ws_opcode;

enum { // section 7.4.1
    WS_CODE_NORMAL = 1000,
    WS_CODE_GOING_AWAY = 1001,
    WS_CODE_PROTOCOL_ERROR = 1002,
    WS_CODE_UNSUPPORTED = 1003,
    WS_CODE_NOT_UTF8 = 1007,
    WS_CODE_POLICY = 1008,
    WS_CODE_TOO_BIG = 1009,
    WS_CODE_INTERNAL = 1011,
};

typedef enum ws_fault {
    WS_FAULT_NONE,
    WS_FAULT_RESERVED_BITS,   // no extension was agreed on
    WS_FAULT_OPCODE,          // one that section 5.2 reserves
    WS_FAULT_NOT_MASKED,      // section 5.1: a client masks every frame
    WS_FAULT_LENGTH,          // not the shortest form, or the highest bit of 64 is set
    WS_FAULT_CONTROL_LONG,    // section 5.5: at most 125 bytes
    WS_FAULT_CONTROL_PARTS,   // section 5.5: not fragmented
    WS_FAULT_NO_MESSAGE,      // a continuation of nothing
    WS_FAULT_IN_MESSAGE,      // a new message within a fragmented one
    WS_FAULT_TEXT,            // MQTT 5.0 section 6.0: binary only
    WS_FAULT_TOO_LARGE,       // over the listener's bound
    WS_FAULT_CLOSE_BYTES,     // a close frame's payload of one byte
    WS_FAULT_CLOSE_CODE,      // a code that no endpoint may send (section 7.4)
    WS_FAULT_CLOSE_TEXT,      // its reason is not UTF-8
    WS_FAULTS
} ws_fault;

#define WS_HEAD_BYTES_MAX 14u   // of a masked frame with a 64-bit length
#define WS_CONTROL_BYTES_MAX 125u
#define WS_OUT_HEAD_BYTES_MAX 10u

// What is known of the frame that is being read. All zero at first.
typedef struct ws_reader {
    u64 left;                     // payload bytes that have not come yet
    u8 mask[4];                   // mask[0] is for the next payload byte
    u8 head[WS_HEAD_BYTES_MAX];   // a header that has come in part
    u8 head_len;
    u8 opcode;                    // of the frame that is being read
    bool in_frame;                // its header is complete, its end has not been handed out
    bool in_message;              // a data message has begun and its last frame is not complete
    bool final;
} ws_reader;

typedef enum ws_event {
    WS_MORE,    // all bytes are used, nothing to hand out
    WS_DATA,    // payload of a data message: data, len; may be empty
    WS_CONTROL, // payload of a control frame, opcode; ends: its last piece
    WS_FAULT,   // fault tells what; nothing more can be read
} ws_event;

typedef struct ws_piece {
    u8 *data;
    u32 len;
    u8 opcode;
    bool ends;       // the frame is complete
    ws_fault fault;
} ws_piece;

// Reads on: *used receives how many of the bytes at data belong to what is handed out, header included.
// To be called again with what is behind them until it says WS_MORE. frame_bytes_max: of a payload.
ws_event ws_read(ws_reader *r, u64 frame_bytes_max, u8 *data, u32 len, u32 *used, ws_piece *out);

// Whether a frame has begun and is not complete.
static inline bool ws_reader_is_inside(const ws_reader *r) {
    return r->head_len > 0 || r->in_frame;
}

// Masks or unmasks (section 5.3); *mask moves on with the bytes.
void ws_mask(u8 mask[4], u8 *data, u32 len);

// Judges the payload of a close frame. *code: what it says, WS_CODE_NORMAL when it is empty.
ws_fault ws_close_check(const u8 *payload, u32 len, u16 *code);

// The header of a final, unmasked frame. Returns its bytes, at most WS_OUT_HEAD_BYTES_MAX.
u32 ws_head_write(u8 out[WS_OUT_HEAD_BYTES_MAX], ws_opcode opcode, u64 payload_bytes);
static inline u32 ws_head_bytes(u64 payload_bytes) {
    return payload_bytes < 126 ? 2 : payload_bytes < 65536 ? 4 : 10;
}

// The close code that answers a fault, and what it was, for people ("frame_not_masked"). Never NULL.
u16 ws_fault_code(ws_fault fault);
const char *ws_fault_text(ws_fault fault);

#endif
