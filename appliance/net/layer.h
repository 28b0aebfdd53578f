// SPDX-License-Identifier: Apache-2.0
// layer.h: a transform between the socket and the protocol: TLS, WebSocket, and WebSocket over TLS.
//
//     socket -> on_recv -> [bottom layer] -> ... -> [top layer] -> inflow -> protocol
//     protocol -> conn_send -> output queue -> [top layer] -> ... -> [bottom layer] -> wire queue -> socket
//
// A connection's layers hang on conn.layer, the bottom one (nearest the socket) first; a plain connection
// has none and pays one branch. They are pushed when it is opened, before anything is read: the bottom one
// first. conn_send and everything above it work as without layers: queued bytes are counted in out_bytes in
// the clear until a flush takes them down, and from then on as what they became.
//
// A layer's state is one block of memory from the worker's buffers. It travels with its connection to another
// worker (net/move.c) as a copy of these bytes: what it points to must be reachable from anywhere (static,
// shared) or set again in moved(). All functions run on the connection's owner thread.
#ifndef SLUICE_NET_LAYER_H
#define SLUICE_NET_LAYER_H

#include <sys/uio.h>

#include "base/base.h"
#include "net/reason.h"

typedef struct conn conn;
typedef struct layer layer;
typedef struct layer_buf layer_buf;

// A flush takes at most so many bytes of the output queue down at once.
#define LAYER_CHUNK_BYTES 16000u

typedef struct layer_ops {
    const char *name; // "tls", "websocket": in logs and `sluice ctl`
    // Bytes from below, in order. They may be changed in place and are valid during the call only. What
    // they mean goes up with layer_up, any number of times. Returns 0, or the close_reason that ends the
    // connection when what was queued before has been sent (conn_close_after_flush).
    int (*input)(layer *l, u8 *data, u32 len);
    // The peer sends nothing more. Returns 0 (the protocol is told its end of stream) or a close_reason.
    // NULL: 0.
    int (*input_end)(layer *l);
    // Output on its way down, `bytes` of them, at most LAYER_CHUNK_BYTES in all; only while every layer is
    // LAYER_READY. Hands on what they become, whole, with layer_down (or layer_reserve). Returns 0 or a
    // close_reason.
    int (*output)(layer *l, const struct iovec *pieces, u32 count, u32 bytes);
    // A receive of the socket ended with -errno. Returns 0 when the layer dealt with it and
    // receiving may go on, else the close_reason. NULL: close_reason_of_errno.
    int (*error)(layer *l, int result);
    // All output has been taken down and the connection is about to end with that reason: the layer may
    // queue its own last words with layer_down (close_notify, a Close frame). Called once, top layer first. NULL: none.
    void (*closing)(layer *l, close_reason reason);
    // Bytes from below that are held because what they belong to is not complete; they travel with a
    // connection that moves and are given to input() again there, so the layer must be in the state it was
    // in before them. Returns how many. NULL: none.
    u32 (*held)(const layer *l, const u8 **data);
    // Nothing that was made waits for the socket any more, and no send is in flight. Bottom layer only, while it is not
    // LAYER_READY. True: it has become ready or given bytes up. NULL: nothing to do.
    bool (*drained)(layer *l);
    // The state was copied to another worker; l->c, above and below are set. NULL: nothing to do.
    void (*moved)(layer *l);
    // Gives back what the layer borrowed (not the layer itself, whose memory is wiped afterwards). NULL: nothing.
    void (*free)(layer *l);
} layer_ops;

enum { // layer.flags
    LAYER_READY = 1u << 0, // output may pass; set with layer_set_ready
    LAYER_HOLD = 1u << 1,  // nothing is to be received now; set and cleared with layer_hold
    LAYER_ALONE = 1u << 2, // receives are one-shot, so that nothing is on its way behind a receive that ended
    LAYER_SAID_BYE = 1u << 3,
    LAYER_PASS_IN = 1u << 4,  // what the socket gives is in the clear already (kernel TLS): past this layer
    LAYER_PASS_OUT = 1u << 5, // the same for output
};

// First member of a layer's own struct.
struct layer {
    const layer_ops *ops;
    conn *c;
    layer *above;      // NULL: the protocol
    layer *below;      // NULL: the socket
    layer_buf *wire_head, *wire_tail; // of the bottom layer: bytes for the socket
    u64 deadline_ns;   // not ready by then: the connection ends with deadline_reason; 0 = none
    u64 ready_ns;      // when it became ready: the protocol's own deadlines count from then
    u32 size;          // of its memory
    u8 flags;
    u8 deadline_reason;
    u16 pad;
};

// --- for whoever opens a connection ---

// Adds a layer on top of those there are, with zeroed state of `bytes` (the struct layer included, at most
// 4096). NULL: no memory; the connection is to be closed with CLOSE_NO_MEMORY.
layer *layer_push(conn *c, const layer_ops *ops, u32 bytes);
// The layer with these ops, or NULL.
layer *layer_find(const conn *c, const layer_ops *ops);

// --- for a layer ---

// Gives bytes to what is above. The protocol may end the connection in it: ask layer_is_ended before going on.
void layer_up(layer *l, u8 *data, u32 len);
// The peer said in the layer's own way that it sends nothing more: as the end of the stream.
void layer_up_end(layer *l);
// Gives bytes to what is below: copied, and sent in the next flush. Returns 0 or CLOSE_NO_MEMORY.
int layer_down(layer *l, const struct iovec *pieces, u32 count);
// Bottom layer: contiguous room of `bytes` at the end of the wire queue, to be filled at once; the part that
// was used is told with layer_commit. NULL: no memory.
u8 *layer_reserve(layer *l, u32 bytes);
void layer_commit(layer *l, u32 bytes);
// Output may pass from now on.
void layer_set_ready(layer *l);
// Stops and resumes receiving (admission of handshakes).
void layer_hold(layer *l, bool hold);
// After layer_up or layer_hold outside of input(): goes on reading, moves the connection, or ends it.
void layer_settle(layer *l);
// Bytes of something incomplete are held (packet_timeout runs), or no longer.
void layer_partial(layer *l, bool partial);
// The connection is closing: nothing more has an effect.
bool layer_is_ended(const layer *l);

// --- for the connection's files ---

// Whether the protocol's bytes are the socket's: no layer, or one that lets them pass.
static inline bool layers_pass(const layer *bottom, u8 flag) {
    return bottom == NULL || (bottom->above == NULL && (bottom->flags & flag) != 0);
}
bool layers_drained(conn *c);                  // the wire queue is empty and no send is in flight
bool layers_ready(const conn *c);              // c has layers; all are ready
// Whether some layer has the flag.
static inline bool layers_have(const layer *bottom, u8 flag) {
    for (const layer *l = bottom; l != NULL; l = l->above) {
        if (l->flags & flag) return true;
    }
    return false;
}
u64 layers_ready_ns(const conn *c);            // when the last one became ready
u64 layers_deadline(const conn *c, close_reason *reason); // earliest of those not ready; UINT64_MAX = none
int layers_input(conn *c, u8 *data, u32 len);  // from the socket; as input()
int layers_input_end(conn *c);
int layers_error(conn *c, int result);         // 0 or the close_reason
int layers_output(conn *c, const struct iovec *pieces, u32 count, u32 bytes);
bool layers_bye(conn *c, close_reason reason); // true: last words have been queued
u32 layers_wire(const conn *c, struct iovec *out); // bytes of the next piece to send, 0 = none
void layers_wire_consume(conn *c, u32 bytes);
void layers_free(conn *c);
// State and held bytes of all layers as one parcel; the sizes are asked first.
u32 layers_pack_bytes(const conn *c);
void layers_pack(const conn *c, u8 *out);
// Makes them again on c, without the bytes that were held: those are given to *held, *held_len (inside the
// parcel) for layers_input. Returns 0 or CLOSE_NO_MEMORY.
int layers_unpack(conn *c, u8 *parcel, u32 bytes, u8 **held, u32 *held_len);

#endif
