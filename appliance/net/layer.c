// SPDX-License-Identifier: Apache-2.0
// layer.c: the chain of a connection's layers, the wire queue below them, and their way to another worker.
//
// Invariants: layers are memory of the worker's buffers and are wiped when they are given back; bytes in the
// wire queue stay where they are until they have been sent, so a send in flight may point at them; they are
// counted in conn.out_bytes.
#include "net/layer.h"

#include <string.h>

#include "net/conn_internal.h"

struct layer_buf {
    layer_buf *next;
    u32 size;  // of the whole allocation
    u32 start; // first byte not sent
    u32 used;
    u32 pad;
    u8 data[];
};

#define LAYER_STATE_BYTES_MAX 4096u

static layer *layer_top(const conn *c) {
    layer *l = c->layer;
    while (l->above != NULL) l = l->above;
    return l;
}

static void layer_link(conn *c, layer *l) {
    l->c = c;
    l->above = NULL;
    l->below = c->layer == NULL ? NULL : layer_top(c);
    if (l->below == NULL) c->layer = l;
    else l->below->above = l;
}

layer *layer_push(conn *c, const layer_ops *ops, u32 bytes) {
    ASSERT(bytes >= sizeof(layer) && bytes <= LAYER_STATE_BYTES_MAX);
    u32 size;
    layer *l = worker_buf_alloc(c->owner, bytes, &size);
    if (l == NULL) return NULL;
    memset(l, 0, size);
    l->ops = ops;
    l->size = size;
    layer_link(c, l);
    return l;
}

layer *layer_find(const conn *c, const layer_ops *ops) {
    for (layer *l = c->layer; l != NULL; l = l->above) {
        if (l->ops == ops) return l;
    }
    return NULL;
}

// --- up ---

void layer_up(layer *l, u8 *data, u32 len) {
    if (len == 0 || layer_is_ended(l)) return;
    if (l->above == NULL) {
        inflow_plain(l->c, data, len, false);
        return;
    }
    int reason = l->above->ops->input(l->above, data, len);
    if (reason != 0) inflow_end_for(l->c, reason);
}

void layer_up_end(layer *l) {
    if (layer_is_ended(l)) return;
    int reason = 0;
    if (l->above != NULL && l->above->ops->input_end != NULL) reason = l->above->ops->input_end(l->above);
    if (reason != 0) inflow_end_for(l->c, reason);
    else l->c->flags |= CONN_RECV_EOF;
}

int layers_input(conn *c, u8 *data, u32 len) {
    layer *l = c->layer;
    if (l->flags & LAYER_PASS_IN) l = l->above; // then there is one: see layers_pass
    return l->ops->input(l, data, len);
}

int layers_input_end(conn *c) {
    for (layer *l = c->layer; l != NULL; l = l->above) {
        int reason = l->ops->input_end != NULL ? l->ops->input_end(l) : 0;
        if (reason != 0) return reason;
    }
    return 0;
}

int layers_error(conn *c, int result) {
    layer *l = c->layer;
    return l->ops->error != NULL ? l->ops->error(l, result) : (int)close_reason_of_errno(result);
}

// --- down ---

u8 *layer_reserve(layer *l, u32 bytes) {
    ASSERT(l->below == NULL);
    layer_buf *tail = l->wire_tail;
    if (tail != NULL && tail->size - (u32)sizeof(*tail) - tail->used >= bytes) return tail->data + tail->used;
    u32 size;
    layer_buf *fresh = worker_buf_alloc(l->c->owner, (u32)sizeof(*fresh) + bytes, &size);
    if (fresh == NULL) return NULL;
    *fresh = (layer_buf){.size = size};
    if (tail == NULL) l->wire_head = fresh;
    else tail->next = fresh;
    l->wire_tail = fresh;
    return fresh->data;
}

void layer_commit(layer *l, u32 bytes) {
    l->wire_tail->used += bytes;
    l->c->out_bytes += bytes;
    outflow_mark_dirty(l->c);
}

int layer_down(layer *l, const struct iovec *pieces, u32 count) {
    u32 bytes = 0;
    for (u32 i = 0; i < count; i++) bytes += (u32)pieces[i].iov_len;
    if (l->below != NULL) return l->below->ops->output(l->below, pieces, count, bytes);
    u8 *room = layer_reserve(l, bytes);
    if (room == NULL) return CLOSE_NO_MEMORY;
    for (u32 i = 0; i < count; i++) {
        if (pieces[i].iov_len > 0) memcpy(room, pieces[i].iov_base, pieces[i].iov_len);
        room += pieces[i].iov_len;
    }
    layer_commit(l, bytes);
    return 0;
}

int layers_output(conn *c, const struct iovec *pieces, u32 count, u32 bytes) {
    layer *top = layer_top(c);
    return top->ops->output(top, pieces, count, bytes);
}

u32 layers_wire(const conn *c, struct iovec *out) {
    for (const layer_buf *buf = c->layer->wire_head; buf != NULL; buf = buf->next) {
        if (buf->start == buf->used) continue; // reserved, and nothing became of it
        *out = (struct iovec){(void *)(uintptr_t)(buf->data + buf->start), buf->used - buf->start};
        return buf->used - buf->start;
    }
    return 0;
}

void layers_wire_consume(conn *c, u32 bytes) {
    layer *bottom = c->layer;
    while (bottom->wire_head != NULL) {
        layer_buf *buf = bottom->wire_head;
        u32 take = MIN(bytes, buf->used - buf->start);
        buf->start += take;
        bytes -= take;
        if (buf->start < buf->used) return;
        bottom->wire_head = buf->next;
        if (buf->next == NULL) bottom->wire_tail = NULL;
        worker_buf_free(c->owner, buf, buf->size);
        if (bytes == 0) return;
    }
    ASSERT(bytes == 0);
}

bool layers_bye(conn *c, close_reason reason) {
    u32 before = c->out_bytes;
    for (layer *l = layer_top(c); l != NULL; l = l->below) {
        if (l->flags & LAYER_SAID_BYE) continue;
        l->flags |= LAYER_SAID_BYE;
        if (l->ops->closing != NULL) l->ops->closing(l, reason);
    }
    return c->out_bytes > before;
}

bool layers_drained(conn *c) {
    layer *l = c->layer;
    return !(l->flags & LAYER_READY) && l->ops->drained != NULL && !layer_is_ended(l) && l->ops->drained(l);
}

// --- state ---

void layer_set_ready(layer *l) {
    l->flags |= LAYER_READY;
    l->deadline_ns = 0;
    l->ready_ns = l->c->owner->now_ns;
    if (l->c->out_head != NULL) outflow_mark_dirty(l->c);
    conn_timer_update(l->c);
}

void layer_hold(layer *l, bool hold) {
    if (hold) l->flags |= LAYER_HOLD;
    else l->flags &= (u8)~LAYER_HOLD;
}

void layer_settle(layer *l) {
    inflow_settle(l->c);
}

void layer_partial(layer *l, bool partial) {
    conn *c = l->c;
    if (partial && c->packet_started_ns == 0) {
        c->packet_started_ns = c->owner->now_ns;
        conn_timer_update(c);
    } else if (!partial && c->tail == NULL && c->head_len == 0) {
        c->packet_started_ns = 0;
    }
}

bool layer_is_ended(const layer *l) {
    return (l->c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH)) != 0;
}

bool layers_ready(const conn *c) {
    for (const layer *l = c->layer; l != NULL; l = l->above) {
        if (!(l->flags & LAYER_READY)) return false;
    }
    return true;
}

u64 layers_ready_ns(const conn *c) {
    u64 latest = 0;
    for (const layer *l = c->layer; l != NULL; l = l->above) latest = MAX(latest, l->ready_ns);
    return latest;
}

u64 layers_deadline(const conn *c, close_reason *reason) {
    u64 due = UINT64_MAX;
    for (const layer *l = c->layer; l != NULL; l = l->above) {
        if (l->deadline_ns == 0 || l->deadline_ns >= due) continue;
        due = l->deadline_ns;
        *reason = (close_reason)l->deadline_reason;
    }
    return due;
}

// Also called twice for one connection; the second finds nothing.
void layers_free(conn *c) {
    if (c->layer == NULL) return;
    for (layer_buf *buf = c->layer->wire_head, *next; buf != NULL; buf = next) {
        next = buf->next;
        worker_buf_free(c->owner, buf, buf->size);
    }
    layer *next;
    for (layer *l = c->layer; l != NULL; l = next) {
        next = l->above;
        if (l->ops->free != NULL) l->ops->free(l);
        u32 size = l->size;
        explicit_bzero(l, size);
        worker_buf_free(c->owner, l, size);
    }
    c->layer = NULL;
}

// --- to another worker ---

// Only the bottom layer can hold bytes when the connection leaves: what it passed up has been taken by those
// above, or kept by inflow. A WebSocket frame's header that is not complete is in its state.
static u32 bottom_held(const conn *c, const u8 **data) {
    const layer *bottom = c->layer;
    return bottom->ops->held != NULL ? bottom->ops->held(bottom, data) : 0;
}

u32 layers_pack_bytes(const conn *c) {
    const u8 *data;
    u32 bytes = 0;
    if (c->layer == NULL) return 0;
    for (const layer *l = c->layer; l != NULL; l = l->above) bytes += l->size;
    return bytes + bottom_held(c, &data);
}

void layers_pack(const conn *c, u8 *out) {
    const u8 *data;
    for (const layer *l = c->layer; l != NULL; l = l->above) {
        memcpy(out, l, l->size);
        out += l->size;
    }
    u32 len = bottom_held(c, &data);
    if (len > 0) memcpy(out, data, len);
}

int layers_unpack(conn *c, u8 *parcel, u32 bytes, u8 **held, u32 *held_len) {
    *held = parcel;
    *held_len = 0;
    for (bool more = bytes > 0; more;) {
        layer head;
        memcpy(&head, parcel, sizeof(head));
        u32 size;
        layer *l = worker_buf_alloc(c->owner, head.size, &size);
        if (l == NULL) return CLOSE_NO_MEMORY;
        memcpy(l, parcel, head.size);
        l->wire_head = l->wire_tail = NULL;
        more = head.above != NULL;
        layer_link(c, l);
        if (l->ops->moved != NULL) l->ops->moved(l);
        parcel += head.size;
        bytes -= head.size;
    }
    *held = parcel;
    *held_len = bytes;
    return 0;
}
