// SPDX-License-Identifier: Apache-2.0
// wire.h: the frame protocol as the load generator speaks it: builds numbered frames and checks
// what comes back, byte for byte. Bytes in, events out: no I/O, no allocation, no clock.
//
// A frame on the wire is a 4-byte big-endian length N and N bytes; N = 0 is a heartbeat. The
// generator's frames carry, after the length: an 8-byte big-endian sequence number (from 1 on each
// connection), the 4-byte connection id, then filler that depends on both, so that a reply with
// another connection's or another message's content is noticed. --size counts all of it, header
// too.
#ifndef SLUICE_BENCH_WIRE_H
#define SLUICE_BENCH_WIRE_H

#include "base/base.h"

#define WIRE_LENGTH_BYTES 4u
#define WIRE_HEAD_BYTES 16u // length, sequence number, connection id
#define WIRE_ACK_BYTES 12u  // length, 8-byte number

typedef enum wire_mode { WIRE_ECHO, WIRE_ACK, WIRE_PUBLISH } wire_mode;

typedef enum wire_event_kind {
    WIRE_MORE,      // all bytes consumed, the frame is not complete
    WIRE_HEARTBEAT, // N = 0
    WIRE_REPLY,     // number is set; for echo intact says whether the content is what was sent
    WIRE_OTHER,     // a complete frame that is no reply in this mode (a publication to the device)
    WIRE_OVERSIZE,  // N above the largest frame that can be meant: the stream is not in step
} wire_event_kind;

typedef struct wire_event {
    wire_event_kind kind;
    u64 number;  // sequence number of an echo, or the number an ack carries
    u32 conn_id; // echo only
    bool intact;
} wire_event;

// Where one connection's incoming stream stands. Zero-initialised is the start.
typedef struct wire_rx {
    u32 have;     // bytes of the current frame seen so far
    u32 total;    // its length with the header; 0 while the header is incomplete
    bool differs; // echo: some filler byte was wrong
    u8 head[WIRE_HEAD_BYTES];
} wire_rx;

// Fills the shared filler table; call once before anything else. Not thread-safe against the
// others.
void wire_init(void);
// Writes one frame of frame_bytes (BENCH_FRAME_BYTES_MIN..MAX) to out.
void wire_build(u8 *out, u32 frame_bytes, u64 sequence, u32 conn_id);
// Writes the heartbeat (4 bytes) to out.
void wire_build_heartbeat(u8 *out);
// Writes {"id":"<prefix><number>","token":"<token>"} as a frame. Returns its bytes, or -ENOSPC.
// Quotes, backslashes and control characters of prefix and token are escaped as JSON asks.
int wire_build_hello(u8 *out, size_t out_bytes, const char *prefix, u32 number, const char *token);
// Consumes bytes up to the end of one frame. Returns how many were consumed (at least 1 if len > 0,
// except after WIRE_OVERSIZE) and what they meant in *event.
size_t wire_rx_feed(wire_rx *rx, wire_mode mode, const u8 *data, size_t len, wire_event *event);

#endif
