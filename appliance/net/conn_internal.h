// SPDX-License-Identifier: Apache-2.0
// conn_internal.h: what the files of the connection share: conn.c (life), inflow.c (bytes in), outflow.c
// (bytes out), move.c (hand-over). Nobody else includes it.
#ifndef SLUICE_NET_CONN_INTERNAL_H
#define SLUICE_NET_CONN_INTERNAL_H

#include "net/conn.h"
#include "net/layer.h"
#include "worker.h"

struct out_segment {
    out_segment *next;
    u32 size;      // of the whole allocation
    u32 start;     // first copied byte not yet sent
    u32 used;      // end of the copied bytes
    u16 refs;      // references, from the end of the allocation
    u16 ref_next;  // first one not yet sent
    u32 ref_start; // its first byte not yet sent
    u32 pad;
    u8 data[];
};
_Static_assert(sizeof(out_segment) == 32 && LIMIT_OUT_SEGMENT_MAX_BYTES / 32 <= UINT16_MAX, "counts fit");

// The gather list of a send with several pieces: a buffer of the worker's second size.
#define OUT_IOVECS_BYTES 1024u
_Static_assert(LIMIT_OUT_IOVECS * sizeof(struct iovec) <= OUT_IOVECS_BYTES &&
               LIMIT_OUT_IOVECS * sizeof(struct iovec) > LIMIT_OUT_SEGMENT_MIN_BYTES, "the list has this size");

static inline conn *conn_of(io_handle *h) {
    return CONTAINER_OF(h, conn, io);
}
static inline bool conn_reading_stopped(const conn *c) {
    return (c->flags & (CONN_PAUSED_OUT | CONN_BLOCKED | CONN_MOVING)) != 0;
}

// conn.c
conn *conn_make(worker *w, listener *l, int fd); // table slot, engine handle, defaults; NULL: refused
void conn_read_on(conn *c);                      // arms receiving if it should be armed
int conn_start(conn *c, bool moved);             // proto->open and the timer; 0 or the close reason
void conn_blocked(conn *c);                      // a packet waits for us: the peer's clocks rest
void conn_reading_resumed(conn *c);              // a stop of ours ended: the peer's clocks start anew
int conn_address_take(conn *c);                  // counts it against its address; 0 or CLOSE_ADDRESS_LIMIT
void conn_log_open(const conn *c, const char *through); // through: the proxy's address, or NULL
void conn_forget(conn *c);                       // gives back table slot and buffers, marks it dead

// inflow.c
void inflow_on_recv(io_handle *h, int result, u8 *data);
void inflow_resume(conn *c);                     // reading may go on: kept bytes first
// Bytes for the protocol: fed, or kept. lent: they lie in the buffer that the engine lent to the on_recv that runs.
void inflow_plain(conn *c, u8 *data, u32 len, bool lent);
void inflow_end_for(conn *c, int reason);        // what the peer sent ends the connection
void inflow_settle(conn *c);                     // after feeding: read on, move, or end
int inflow_keep(conn *c, const u8 *data, u32 len); // appends to the stash; 0 or CLOSE_NO_MEMORY
void inflow_free(conn *c);

// outflow.c
void outflow_on_send(io_handle *h, int result);
void outflow_mark_dirty(conn *c);                // to be flushed in this turn
void outflow_send_lent(conn *c);                 // sends the range gathered in this dispatch
void outflow_outcome_wanted(const conn *c);      // the end of the send in flight decides what follows
void outflow_free(conn *c);

// outqueue.c
bool outqueue_append(conn *c, const struct iovec *pieces, u32 count, u32 total); // false: no memory
bool outqueue_append_shared(conn *c, const void *head, u32 head_len, const void *data, u32 len,
                            void (*release)(void *context), void *context);
bool outqueue_push_front(conn *c, const u8 *data, u32 len);
// What is to be sent next, the queue not empty: the number of pieces; when memory is short for the list the
// first piece goes alone. *bytes: of all pieces.
u32 outqueue_gather(conn *c, struct iovec *single, const struct iovec **list, u32 *bytes);
void outqueue_consume(conn *c, u32 bytes);       // so many have been sent
void outqueue_free(conn *c);

// proxy.c
close_reason proxy_admit(const listener_config *conf, const conn *who); // CLOSE_NONE, or why it may not speak
int proxy_take(conn *c, const u8 *data, u32 len, u32 *used); // bytes of the header; 0 or the close reason

// move.c
void move_when_quiet(conn *c);                   // leaves if nothing is outstanding

#endif
