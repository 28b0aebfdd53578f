// SPDX-License-Identifier: Apache-2.0
// conn.h: one connection: an engine handle, its place in the packet stream, its output queue, its timer
// and its reason to end. A connection belongs to one worker; it may move once, before any session state
// exists, to the worker that owns its client id.
//
// Bytes in: the engine lends a buffer (on_recv); net/inflow.c cuts it into whole packets that are parsed
// in place, and copies only an incomplete tail. Bytes out: net/outflow.c queues segments; the worker
// flushes every touched connection once per loop, one send in flight each.
//
// Invariants: an idle connection owns no receive buffer, no tail and no output segment; the close reason
// is set once; protocol code never sees the descriptor.
#ifndef SLUICE_NET_CONN_H
#define SLUICE_NET_CONN_H

#include "base/base.h"
#include "base/timer.h"
#include "io/io.h"
#include "net/reason.h"

typedef struct worker worker;
typedef struct listener listener;
typedef struct conn conn;
typedef struct out_segment out_segment;
typedef struct layer layer;

// What a protocol gives. Functions that return int return 0, or a close_reason (> 0) that ends the
// connection once the output queued before has gone (at once for slow_consumer and no_memory);
// PROTO_BLOCKED (< 0) from packet() means "not taken: stop reading, call again with the same packet after
// conn_unblock".
#define PROTO_BLOCKED (-1)
// The same, but the protocol itself knows the moment and calls conn_unblock.
#define PROTO_WAITING (-10)
typedef struct proto {
    const char *name;
    // A new connection (or one that moved here when moved is true). May be NULL.
    int (*open)(conn *c, bool moved);
    // Packet protocols: how long is the packet that starts at head? Returns 0 when len bytes do not tell
    // yet (len < LIMIT_PACKET_HEAD_BYTES), the packet's whole size in *packet_bytes otherwise.
    int (*packet_size)(conn *c, const u8 *head, u32 len, u32 *packet_bytes);
    // One whole packet, in place; valid during the call only.
    int (*packet)(conn *c, u8 *data, u32 len);
    // Stream protocols (packet_size NULL): bytes as they come; all are consumed.
    int (*stream)(conn *c, u8 *data, u32 len);
    // The client id decides which worker owns the connection: until proto_state is set, receives are
    // one-shot so that the connection can move (conn_move).
    bool owner_by_id;
    // Output fell below the low-water mark after it had been above. May be NULL.
    void (*writable)(conn *c);
    // The gateway is about to end the connection for that reason: the protocol may queue a last packet.
    // Called once, by conn_end. May be NULL.
    void (*farewell)(conn *c, close_reason reason);
    // Milliseconds without input after which the connection ends, in place of the listener's
    // idle_timeout; 0 = never. NULL: the listener's. After a change call conn_timer_update.
    u64 (*idle_timeout_ms)(const conn *c);
    // The peer has ended its stream and all of it was taken: whether answers are still to come, which it may wait
    // for. The connection ends then with conn_answered. May be NULL: there are none.
    bool (*owes)(const conn *c);
    // The connection ends; c->reason is set. Free what proto_state holds. May be NULL.
    void (*closed)(conn *c);
    // The configuration was replaced: what the client may do is looked up anew; one that is no longer let in
    // is ended. May be NULL.
    void (*recheck)(conn *c);
    // The client id, for operators: in the connection's state, *len bytes. NULL while there is none. May
    // be NULL.
    const char *(*client_id)(const conn *c, u32 *len);
} proto;

enum { // conn.flags
    CONN_PAUSED_OUT = 1u << 0,   // reading stopped: too much output waits
    CONN_BLOCKED = 1u << 1,      // reading stopped: the broker could not take a packet
    CONN_DIRTY = 1u << 2,        // in the worker's flush list
    CONN_CLOSING = 1u << 3,      // io_close started
    CONN_CLOSE_AFTER_FLUSH = 1u << 4,
    CONN_RECV_EOF = 1u << 5,
    CONN_MOVING = 1u << 6,       // leaves for move_to as soon as nothing is outstanding
    CONN_SINGLE_SHOT = 1u << 7,  // owner not known yet: receives are one-shot
    CONN_IN_DISPATCH = 1u << 8,  // inside on_recv
    CONN_SEND_LENT = 1u << 9,    // the send in flight borrows a receive buffer
    CONN_LISTED_BLOCKED = 1u << 10, // in the worker's list of blocked publishers
    CONN_ADDRESS_COUNTED = 1u << 11, // holds a place in the table of addresses
    CONN_DEAD = 1u << 12,        // closed; freed when the lists it is in have been walked
    CONN_GOODBYE = 1u << 13,     // the peer has taken its leave and is about to close
    CONN_PROXY_HEADER = 1u << 14, // the PROXY header that names its peer has not come whole
};

struct conn {
    io_handle io;              // first: callbacks get it
    worker *owner;
    listener *origin;          // this worker's instance of the listener
    const proto *proto;
    union {
        void *proto_state;     // protocol's own (session, request), NULL for none
        u64 frames_taken;      // ack mode needs only this: number of the last frame
    };
    u64 id;                    // unique in the process: worker << 48 | number
    timer_node timer;
    layer *layer;              // bottom layer (net/layer.h); NULL: bytes are the protocol's as they come
    conn *dirty_next;
    conn *blocked_next;
    u32 table_slot;            // place in the worker's connection table
    u16 flags;
    u8 reason;                 // close_reason
    u8 head_len;               // bytes in head
    u8 head[LIMIT_PACKET_HEAD_BYTES]; // start of a packet whose size is not known yet
    // Input: an incomplete packet (size known), or bytes kept while reading is paused.
    u8 *tail;
    u32 tail_used, tail_size;
    u8 *stash;
    u32 tail_want;             // whole size of the packet in the tail
    u32 stash_start, stash_used, stash_size; // kept bytes are [start, used)
    // Output.
    out_segment *out_head, *out_tail;
    u32 out_bytes;             // queued and not yet sent
    u32 lent_len;
    const u8 *lent_start;      // range of the lent buffer to be sent as it is
    // Accounting.
    u64 bytes_in, bytes_out;
    u64 packets_in, packets_out;
    u64 opened_ns, received_ns; // monotonic
    u64 packet_started_ns;     // 0 = no incomplete packet
    u64 sent_ns;               // last progress of output
    u8 peer_addr[16];          // IPv6 or v4-mapped
    u16 peer_port;             // host order; 0 for unix sockets
    u8 peer_family;            // AF_INET, AF_INET6, AF_UNIX
    u8 moved_from;             // worker it came from + 1, 0 = never moved
    u8 move_to;                // with CONN_MOVING
    struct iovec *out_iov;     // gather list of the send in flight, when it has several segments
    struct iovec out_single;   // the same for one segment
};
_Static_assert(sizeof(conn) <= 448, "an idle connection costs at most 512 bytes, engine slot included");

// --- for protocol code (owner thread) ---

// Queues bytes for sending (copied). Returns 0; or the close reason that applies when the output budget
// is exceeded or memory is short: return it from the protocol function.
int conn_send(conn *c, const void *data, u32 len);
// The same for a packet in two parts: it is queued whole, or nothing is and a reason is returned.
int conn_send_parts(conn *c, const void *head, u32 head_len, const void *data, u32 len);
// Queues a copied head and, by reference, len bytes behind it, which stay as they are until
// release(context) is called on this thread: when they have been sent, or the connection ends. Worth it
// from LIMIT_OUT_SHARED_MIN_BYTES on. The budget counts all bytes. Returns as conn_send; on a refusal
// nothing is queued and release is not called.
int conn_send_shared(conn *c, const void *head, u32 head_len, const void *data, u32 len,
                     void (*release)(void *context), void *context);
// The same for a packet in several parts.
int conn_send_pieces(conn *c, const struct iovec *pieces, u32 count);
// Queues bytes that lie in the buffer being dispatched (inside packet() or stream()): adjacent ranges are
// sent as one without a copy; falls back to a copy where that is not possible.
int conn_send_in_place(conn *c, const u8 *data, u32 len);
// Room left in the output budget.
u32 conn_send_room(const conn *c);
// Ends the connection: first reason wins. Output not sent yet is dropped.
void conn_close(conn *c, close_reason reason);
// Ends it when the queued output has been sent (or send_timeout strikes).
void conn_close_after_flush(conn *c, close_reason reason);
// The peer has said its last word and is bound to close: waits for that, LIMIT_GOODBYE_MS at the most, and ignores
// what still comes. Who closes first keeps the port in TIME_WAIT, and a close that meets an armed receive has to
// cancel it. The protocol has let go of the connection.
void conn_await_peer(conn *c);
// Ends it for a reason of the gateway's own: farewell, then as conn_close_after_flush.
void conn_end(conn *c, close_reason reason);
// Looks at the timeouts again, after a change of what they depend on.
void conn_timer_update(conn *c);
// After PROTO_BLOCKED: deliver again what was kept and read on.
void conn_unblock(conn *c);
// Answers have been given that the protocol owed: what waited for them goes on, input or the end of the peer's stream.
void conn_answered(conn *c);
// Peer as text: "192.0.2.1:4711", "[2001:db8::1]:4711", "unix". Returns out.
#define CONN_PEER_TEXT 56
const char *conn_peer_text(const conn *c, char out[CONN_PEER_TEXT]);

// --- for the worker and listener ---

// Makes a connection of an accepted descriptor. Returns NULL when refused (descriptor closed, reason
// counted on the listener).
conn *conn_open(worker *w, listener *l, int fd, const struct sockaddr_storage *peer);
// Makes a connection of a descriptor that this side has connected; l: limits and name, it need not listen. state
// becomes proto_state. Returns NULL when refused (descriptor closed): slots or memory are used up.
conn *conn_open_outgoing(worker *w, listener *l, int fd, const struct sockaddr_storage *peer, void *state);
// Sends what is queued; called once per loop for each dirty connection.
void conn_flush(conn *c);
// Moves a connection to another worker; called by the protocol from packet() while proto_state is NULL.
// The packet being dispatched and all bytes behind it go along and are delivered there through packet(),
// after open(c, true). The protocol returns 0 and does not touch c any more.
void conn_move(conn *c, u32 to_worker);
// Arrival on the new owner (worker message WM_CONN_MOVE).
void conn_arrive(worker *w, void *parcel);
// Frees a parcel that can not be delivered and counts the connection as closed for that reason.
void conn_parcel_drop(worker *w, void *parcel, close_reason reason);

// Frees a dead connection once it is in no list any more.
void conn_free_if_unlisted(conn *c);

// Callbacks given to the engine.
extern const io_callbacks conn_callbacks;

#endif
