// SPDX-License-Identifier: Apache-2.0
// outflow.c: bytes out. Replies are queued in segments and sent once per loop, gathered into one send per
// connection, one in flight. Bytes that are answered as they came (echo) are sent straight from the lent
// receive buffer; what a full socket did not take is copied to the head of the queue.
//
// Back-pressure: above out_bytes_high reading stops, below a quarter of it reading goes on; the budget
// out_bytes_max is never exceeded: the connection ends with slow_consumer.
#include <errno.h>

#include "net/conn_internal.h"
#include "net/listener.h"

// An engine may tell of a send that went out whole only when something else happens (uring: such a send
// costs no completion). Where its end lets bytes, a pause, a move or a close go on, nobody may sleep on it.
void outflow_outcome_wanted(const conn *c) {
    if (c->io.armed & IO_ARMED_SEND) c->owner->outcome_wanted = true;
}

void outflow_mark_dirty(conn *c) {
    if (c->flags & CONN_DIRTY) return;
    c->flags |= CONN_DIRTY;
    c->dirty_next = c->owner->dirty;
    c->owner->dirty = c;
}

static void pause_if_full(conn *c) {
    if (c->out_bytes <= c->origin->conf.out_bytes_high || (c->flags & CONN_PAUSED_OUT)) return;
    c->flags |= CONN_PAUSED_OUT;
    c->sent_ns = c->owner->now_ns;
    counter_add(&c->owner->metrics.recv_pauses, 1);
    io_recv_stop(c->owner->engine, &c->io);
    outflow_outcome_wanted(c);
    conn_timer_update(c);
}

u32 conn_send_room(const conn *c) {
    u32 max = c->origin->conf.out_bytes_max;
    return c->out_bytes < max ? max - c->out_bytes : 0;
}

// Bytes have been queued, `copied` of them by copy.
static void after_queueing(conn *c, u32 bytes, u32 copied) {
    c->out_bytes += bytes;
    c->packets_out++;
    counter_add(&c->owner->metrics.copied_out_bytes, copied);
    counter_add(&c->owner->metrics.packets_out, 1);
    outflow_mark_dirty(c);
    pause_if_full(c);
}

int conn_send_pieces(conn *c, const struct iovec *pieces, u32 count) {
    if (c->flags & CONN_CLOSING) return 0;
    u64 total = 0;
    for (u32 i = 0; i < count; i++) total += pieces[i].iov_len;
    if (total > conn_send_room(c)) return CLOSE_SLOW_CONSUMER;
    if (!outqueue_append(c, pieces, count, (u32)total)) return CLOSE_NO_MEMORY;
    after_queueing(c, (u32)total, (u32)total);
    return 0;
}

int conn_send_parts(conn *c, const void *head, u32 head_len, const void *data, u32 len) {
    const struct iovec pieces[2] = {{(void *)(uintptr_t)head, head_len},
                                    {(void *)(uintptr_t)data, len}};
    return conn_send_pieces(c, pieces, ARRAY_LEN(pieces));
}

int conn_send_shared(conn *c, const void *head, u32 head_len, const void *data, u32 len,
                     void (*release)(void *context), void *context) {
    if (len == 0 || (c->flags & CONN_CLOSING)) {
        int result = conn_send_parts(c, head, head_len, NULL, 0);
        if (result == 0) release(context);
        return result;
    }
    if ((u64)head_len + len > conn_send_room(c)) return CLOSE_SLOW_CONSUMER;
    if (!outqueue_append_shared(c, head, head_len, data, len, release, context)) return CLOSE_NO_MEMORY;
    after_queueing(c, head_len + len, head_len);
    return 0;
}

int conn_send(conn *c, const void *data, u32 len) {
    return conn_send_parts(c, NULL, 0, data, len);
}

int conn_send_in_place(conn *c, const u8 *data, u32 len) {
    const worker *w = c->owner;
    bool lent = (c->flags & CONN_IN_DISPATCH) && w->dispatch_data != NULL &&
                data >= w->dispatch_data && data + len <= w->dispatch_data + w->dispatch_len;
    // Only in order: nothing queued before it, nothing in flight, and next to what was gathered so far.
    bool first = c->lent_len == 0;
    if (!lent || c->out_head != NULL || (c->io.armed & IO_ARMED_SEND) ||
        (!first && data != c->lent_start + c->lent_len)) {
        return conn_send(c, data, len);
    }
    if (len > conn_send_room(c)) return CLOSE_SLOW_CONSUMER;
    if (first) c->lent_start = data;
    c->lent_len += len;
    c->out_bytes += len;
    c->packets_out++;
    counter_add(&c->owner->metrics.packets_out, 1);
    return 0;
}

// What the socket did not take of a lent range goes to the head of the queue. Returns 0 or a reason.
static int lent_remainder_queue(conn *c, u32 sent) {
    u32 left = c->lent_len - sent;
    c->lent_len = 0;
    return outqueue_push_front(c, c->lent_start + sent, left) ? 0 : CLOSE_NO_MEMORY;
}

static void bytes_sent(conn *c, u32 bytes) {
    c->out_bytes -= bytes;
    c->bytes_out += bytes;
    c->sent_ns = c->owner->now_ns;
    counter_add(&c->owner->metrics.bytes_out, bytes);
}

// Output went down: tell who waits for it.
static void after_progress(conn *c) {
    if (c->flags & CONN_CLOSING) return;
    if (c->out_bytes == 0 && (c->flags & CONN_CLOSE_AFTER_FLUSH)) {
        if (c->layer != NULL && layers_bye(c, (close_reason)c->reason)) return; // flushed, then back here
        conn_close(c, (close_reason)c->reason);
        return;
    }
    if ((c->flags & CONN_PAUSED_OUT) && c->out_bytes <= c->origin->conf.out_bytes_high / 4) {
        c->flags &= (u16)~CONN_PAUSED_OUT;
        conn_reading_resumed(c);
        if (c->proto->writable != NULL) c->proto->writable(c);
        inflow_resume(c);
        return;
    }
    if (c->flags & CONN_MOVING) move_when_quiet(c);
}

static void iov_return(conn *c) {
    if (c->out_iov == NULL) return;
    worker_buf_free(c->owner, c->out_iov, OUT_IOVECS_BYTES);
    c->out_iov = NULL;
}

// One finished send: res as from io_send. Returns false when the connection is closing now.
static bool send_finished(conn *c, int result) {
    iov_return(c);
    if (result < 0) {
        conn_close(c, close_reason_of_errno(result));
        return false;
    }
    if (LIKELY(layers_pass(c->layer, LAYER_PASS_OUT))) outqueue_consume(c, (u32)result);
    else layers_wire_consume(c, (u32)result);
    bytes_sent(c, (u32)result);
    return true;
}

static bool lent_finished(conn *c, int result) {
    if (result == -EAGAIN || result == -ENOBUFS) result = 0;
    u32 sent = result > 0 ? (u32)result : 0;
    int reason = result < 0 ? (int)close_reason_of_errno(result) : lent_remainder_queue(c, sent);
    c->lent_len = 0;
    if (reason != 0) {
        conn_close(c, (close_reason)reason);
        return false;
    }
    bytes_sent(c, sent);
    if (c->out_head != NULL) outflow_mark_dirty(c);
    pause_if_full(c);
    return true;
}

enum { WAITING_FOR_PROGRESS = CONN_PAUSED_OUT | CONN_CLOSE_AFTER_FLUSH | CONN_MOVING };

void outflow_send_lent(conn *c) {
    c->out_single = (struct iovec){(void *)(uintptr_t)c->lent_start, c->lent_len};
    int result = io_send_lent(c->owner->engine, &c->io, &c->out_single);
    c->owner->lent_sends++;
    if (result == IO_PENDING) {
        c->flags |= CONN_SEND_LENT;
        return;
    }
    // Inside on_recv, and the rest of its bytes is not kept yet: the connection may neither move nor read
    // on before that. What waits for progress is told when it is flushed.
    bool waited_for = (c->flags & WAITING_FOR_PROGRESS) != 0;
    if (lent_finished(c, result) && waited_for) outflow_mark_dirty(c);
}

void outflow_on_send(io_handle *h, int result) {
    conn *c = conn_of(h);
    if (c->flags & CONN_SEND_LENT) {
        c->flags &= (u16)~CONN_SEND_LENT;
        if (!lent_finished(c, result)) return;
    } else if (!send_finished(c, result)) {
        return;
    }
    bool more = c->out_head != NULL;
    if (UNLIKELY(c->layer != NULL)) more = c->out_bytes > 0 || !layers_ready(c); // not ready: it waits for this
    if (more) outflow_mark_dirty(c);
    after_progress(c);
}

// Takes a chunk of the output queue down through the layers. Returns 0 or the close reason.
static int take_down(conn *c) {
    const struct iovec *list;
    struct iovec piece[LIMIT_OUT_IOVECS];
    u32 bytes, chunk = 0, count = outqueue_gather(c, &c->out_single, &list, &bytes), taken = 0;
    while (taken < count && chunk < LAYER_CHUNK_BYTES) {
        piece[taken] = list[taken];
        piece[taken].iov_len = MIN(list[taken].iov_len, (size_t)(LAYER_CHUNK_BYTES - chunk));
        chunk += (u32)piece[taken++].iov_len;
    }
    u16 was_dirty = c->flags & CONN_DIRTY;
    c->flags |= CONN_DIRTY; // what goes down now is sent now
    int reason = layers_output(c, piece, taken, chunk);
    if (!was_dirty) c->flags &= (u16)~CONN_DIRTY;
    iov_return(c);
    if (reason != 0) return reason;
    outqueue_consume(c, chunk);
    c->out_bytes -= chunk;
    return 0;
}

// With layers: what they made is sent first, then the next chunk goes down.
static void flush_layers(conn *c) {
    while (!(c->flags & CONN_CLOSING) && !(c->io.armed & IO_ARMED_SEND)) {
        if (layers_wire(c, &c->out_single) == 0) {
            if (layers_drained(c)) {
                if (c->out_bytes > 0) outflow_mark_dirty(c);
                inflow_settle(c); // last: the connection may leave for another worker
                return;
            }
            if (c->out_head == NULL || !layers_ready(c)) break;
            int reason = take_down(c);
            if (reason != 0) conn_close(c, (close_reason)reason);
            continue;
        }
        int result = io_send(c->owner->engine, &c->io, &c->out_single, 1);
        if (result == IO_PENDING) break;
        if (!send_finished(c, result)) return;
    }
    if (c->io.armed & IO_ARMED_SEND) {
        // The next chunk can not go down before this one is out.
        outflow_outcome_wanted(c);
        return;
    }
    after_progress(c);
}

void conn_flush(conn *c) {
    if (UNLIKELY(!layers_pass(c->layer, LAYER_PASS_OUT))) {
        flush_layers(c);
        return;
    }
    bool behind = (c->flags & CONN_SEND_LENT) && c->out_head != NULL; // more is queued than is in flight
    while (c->out_head != NULL && !(c->flags & CONN_CLOSING) && !(c->io.armed & IO_ARMED_SEND)) {
        const struct iovec *list;
        u32 bytes, count = outqueue_gather(c, &c->out_single, &list, &bytes);
        int result = io_send(c->owner->engine, &c->io, list, count);
        if (result == IO_PENDING) {
            behind = bytes < c->out_bytes;
            break;
        }
        if (!send_finished(c, result)) return;
    }
    if (c->io.armed & IO_ARMED_SEND) {
        if (behind || (c->flags & WAITING_FOR_PROGRESS)) outflow_outcome_wanted(c);
        return;
    }
    after_progress(c);
}

void outflow_free(conn *c) {
    outqueue_free(c);
    iov_return(c);
    c->out_bytes = c->lent_len = 0;
}
