// SPDX-License-Identifier: Apache-2.0
// move.c: a connection's one move, to the worker that owns its client id. The descriptor and the bytes
// that nobody consumed travel in a parcel through the ring between the two workers; there the packet that
// named the client (the hello) is delivered again. Nothing may be outstanding when it leaves: receives
// are one-shot until then, and output is flushed first.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/conn_internal.h"
#include "net/listener.h"

typedef struct conn_parcel {
    int fd;
    u32 from;
    listener_shared *shared;
    u64 id;
    u64 bytes_in, bytes_out, packets_in, packets_out;
    u64 opened_ns, received_ns;
    u8 peer_addr[16];
    u16 peer_port;
    u8 peer_family;
    bool address_counted;
    bool eof;
    u32 len;          // of what the protocol has not taken
    u32 layers;       // of the layers and what they hold, behind that
    u8 bytes[];
} conn_parcel;

void conn_move(conn *c, u32 to_worker) {
    ASSERT(c->proto_state == NULL);
    ASSERT(to_worker < c->owner->gw->worker_count && to_worker != c->owner->index);
    c->flags |= CONN_MOVING;
    c->move_to = (u8)to_worker;
}

static conn_parcel *parcel_pack(const conn *c) {
    u32 stash = c->stash_used - c->stash_start;
    u32 tail = c->tail != NULL ? c->tail_used : 0;
    u32 layers = layers_pack_bytes(c);
    conn_parcel *p = malloc(sizeof(*p) + tail + stash + layers);
    if (p == NULL) return NULL;
    *p = (conn_parcel){
        .fd = -1,
        .from = c->owner->index,
        .shared = c->origin->shared,
        .id = c->id,
        .bytes_in = c->bytes_in,
        .bytes_out = c->bytes_out,
        .packets_in = c->packets_in,
        .packets_out = c->packets_out,
        .opened_ns = c->opened_ns,
        .received_ns = c->received_ns,
        .peer_port = c->peer_port,
        .peer_family = c->peer_family,
        .address_counted = (c->flags & CONN_ADDRESS_COUNTED) != 0,
        .eof = (c->flags & CONN_RECV_EOF) != 0,
        .len = tail + stash,
        .layers = layers,
    };
    memcpy(p->peer_addr, c->peer_addr, sizeof(p->peer_addr));
    if (tail > 0) memcpy(p->bytes, c->tail, tail);
    if (stash > 0) memcpy(p->bytes + tail, c->stash + c->stash_start, stash);
    if (layers > 0) layers_pack(c, p->bytes + tail + stash);
    return p;
}

void move_when_quiet(conn *c) {
    if (c->io.armed != 0 || c->out_bytes != 0 || (c->flags & CONN_CLOSING)) {
        outflow_outcome_wanted(c);
        return;
    }
    worker *w = c->owner;
    conn_parcel *p = worker_post_has_room(w, c->move_to) ? parcel_pack(c) : NULL;
    if (p == NULL) {
        conn_close(c, CLOSE_NO_MEMORY);
        return;
    }
    u32 to = c->move_to;
    recorder_add(&w->rec, REC_MOVE_OUT, c->io.slot, c->io.generation, (int)to, 0);
    timer_cancel(w->wheel, &c->timer);
    p->fd = io_detach(w->engine, &c->io);
    counter_add(&w->metrics.moved_out, 1);
    listener *l = c->origin;
    conn_forget(c);
    conn_free_if_unlisted(c);
    listener_conn_gone(l, false);
    // Last: from here on the other worker may run with it.
    spsc_message message = {.kind = WM_CONN_MOVE, .ptr = p};
    bool posted = worker_post(w, to, &message);
    ASSERT(posted);
}

// A layer's state has keys in it.
static void parcel_free(conn_parcel *p) {
    if (p->layers > 0) explicit_bzero(p->bytes + p->len, p->layers);
    free(p);
}

void conn_parcel_drop(worker *w, void *parcel, close_reason reason) {
    conn_parcel *p = parcel;
    counter_add(&w->metrics.closes[reason], 1);
    listener_uncount(w, p->shared);
    if (p->address_counted) address_limit_give(p->peer_addr);
    close(p->fd);
    parcel_free(p);
}

void conn_arrive(worker *w, void *parcel) {
    conn_parcel *p = parcel;
    listener *l = listener_find(w, p->shared);
    close_reason refusal = l == NULL || w->draining ? CLOSE_DRAIN : CLOSE_NO_MEMORY;
    conn *c = refusal == CLOSE_DRAIN ? NULL : conn_make(w, l, p->fd);
    if (c == NULL) {
        log_info("conn %llx: dropped on its way to worker %u: %s", (unsigned long long)p->id, w->index,
                 close_reason_name(refusal));
        conn_parcel_drop(w, p, refusal);
        return;
    }
    c->id = p->id;
    c->bytes_in = p->bytes_in;
    c->bytes_out = p->bytes_out;
    c->packets_in = p->packets_in;
    c->packets_out = p->packets_out;
    c->opened_ns = p->opened_ns;
    c->received_ns = p->received_ns;
    c->peer_port = p->peer_port;
    c->peer_family = p->peer_family;
    memcpy(c->peer_addr, p->peer_addr, sizeof(p->peer_addr));
    c->flags &= (u16)~CONN_SINGLE_SHOT;
    if (p->address_counted) c->flags |= CONN_ADDRESS_COUNTED;
    if (p->eof) c->flags |= CONN_RECV_EOF;
    c->moved_from = (u8)(p->from + 1);
    counter_add(&w->metrics.moved_in, 1);
    recorder_add(&w->rec, REC_MOVE_IN, c->io.slot, c->io.generation, (int)p->from, (u32)c->id);
    u8 *held = NULL;
    u32 held_len = 0;
    int reason = inflow_keep(c, p->bytes, p->len);
    if (reason == 0) reason = layers_unpack(c, p->bytes + p->len, p->layers, &held, &held_len);
    if (reason != 0) conn_close(c, (close_reason)reason);
    else if (conn_start(c, true) == 0) inflow_resume(c);
    if (held_len > 0 && !(c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH))) {
        reason = layers_input(c, held, held_len);
        if (reason != 0) inflow_end_for(c, reason);
        inflow_settle(c);
    }
    parcel_free(p);
}
