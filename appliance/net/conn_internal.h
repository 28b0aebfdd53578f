// SPDX-License-Identifier: Apache-2.0
// conn_internal.h: what the files of the connection share: conn.c (life), inflow.c (bytes in), outflow.c
// (bytes out), move.c (hand-over). Nobody else includes it.
#ifndef SLUICE_NET_CONN_INTERNAL_H
#define SLUICE_NET_CONN_INTERNAL_H

#include "net/conn.h"
#include "worker.h"

struct out_segment {
    out_segment *next;
    u32 size;   // of the whole allocation
    u32 start;  // first byte not yet sent
    u32 used;   // end of bytes
    u32 pad;
    u8 data[];
};

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
void conn_reading_resumed(conn *c);              // a stop of ours ended: the peer's clocks start anew
void conn_forget(conn *c);                       // gives back table slot and buffers, marks it dead

// inflow.c
void inflow_on_recv(io_handle *h, int result, u8 *data);
void inflow_resume(conn *c);                     // reading may go on: kept bytes first
int inflow_keep(conn *c, const u8 *data, u32 len); // appends to the stash; 0 or CLOSE_NO_MEMORY
void inflow_free(conn *c);

// outflow.c
void outflow_on_send(io_handle *h, int result);
void outflow_send_lent(conn *c);                 // sends the range gathered in this dispatch
void outflow_outcome_wanted(const conn *c);      // the end of the send in flight decides what follows
void outflow_free(conn *c);

// move.c
void move_when_quiet(conn *c);                   // leaves if nothing is outstanding

#endif
