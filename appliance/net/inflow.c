// SPDX-License-Identifier: Apache-2.0
// inflow.c: bytes in. A buffer lent by the engine is cut into packets which the protocol parses in place.
// Only a packet that does not lie whole in the buffer is copied, once, into a tail of exactly its size;
// the few header bytes that tell the size wait in conn.head.
//
// When reading is stopped (output too full, broker congested, connection about to move), bytes that had
// arrived already are kept in conn.stash and fed before anything newer. Copies are counted:
// copied_in_bytes is 0 for whole packets and at most 1 per byte for split ones.
#include <string.h>

#include "net/conn_internal.h"

// What is to happen after a packet was offered to the protocol.
enum { FEED_NEXT, FEED_STOP };

// The protocol ends the connection for what the peer sent. What was accepted before is still answered: a
// device that is told of its frames does not send them again. A peer that can not take output, or for
// which there is no memory, is ended at once.
void inflow_end_for(conn *c, int reason) {
    if (reason == CLOSE_SLOW_CONSUMER || reason == CLOSE_NO_MEMORY) conn_close(c, (close_reason)reason);
    else conn_close_after_flush(c, (close_reason)reason);
}

static int packet_deliver(conn *c, u8 *data, u32 len) {
    int result = c->proto->packet(c, data, len);
    if (result > 0) {
        inflow_end_for(c, result);
        return FEED_STOP;
    }
    if (result == PROTO_BLOCKED || result == PROTO_WAITING) {
        if (c->flags & CONN_CLOSING) return FEED_STOP;
        conn_blocked(c);
        if (result == PROTO_BLOCKED && !(c->flags & CONN_LISTED_BLOCKED)) {
            c->flags |= CONN_LISTED_BLOCKED;
            c->blocked_next = c->owner->blocked;
            c->owner->blocked = c;
        }
        return FEED_STOP;
    }
    if (c->flags & CONN_MOVING) return FEED_STOP;
    c->packets_in++;
    counter_add(&c->owner->metrics.packets_in, 1);
    return c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH | CONN_GOODBYE) ? FEED_STOP : FEED_NEXT;
}

// Whether the packet just offered is done with: taken, or the connection does not want it any more.
static bool packet_taken(const conn *c) {
    return !(c->flags & (CONN_BLOCKED | CONN_MOVING));
}

static void tail_free(conn *c) {
    if (c->tail == NULL) return;
    worker_buf_free(c->owner, c->tail, c->tail_size);
    c->tail = NULL;
    c->tail_used = c->tail_size = 0;
}

// Who has not said who it is gets memory only for what it has sent: a header is cheap, and names any size.
static bool is_unknown(const conn *c) {
    return c->proto->owner_by_id && c->proto_state == NULL;
}

static int tail_start(conn *c, u32 packet_bytes) {
    u32 size, bytes = is_unknown(c) ? MIN(packet_bytes, LIMIT_UNKNOWN_BUFFER_BYTES) : packet_bytes;
    c->tail = worker_buf_alloc(c->owner, MAX(bytes, (u32)c->head_len), &size);
    if (c->tail == NULL) return CLOSE_NO_MEMORY;
    c->tail_size = size;
    c->tail_want = packet_bytes;
    memcpy(c->tail, c->head, c->head_len);
    c->tail_used = c->head_len;
    c->head_len = 0;
    return 0;
}

// Twice the room, for one that fills what it has.
static int tail_grow(conn *c) {
    u32 size, bytes = is_unknown(c) ? MIN(c->tail_want, 2 * c->tail_size) : c->tail_want;
    u8 *grown = worker_buf_alloc(c->owner, bytes, &size);
    if (grown == NULL) return CLOSE_NO_MEMORY;
    memcpy(grown, c->tail, c->tail_used);
    worker_buf_free(c->owner, c->tail, c->tail_size);
    c->tail = grown;
    c->tail_size = size;
    return 0;
}

static void packet_begun(conn *c) {
    if (c->packet_started_ns != 0) return;
    c->packet_started_ns = c->owner->now_ns;
    conn_timer_update(c);
}

// Fills the tail. Returns bytes taken from data, or a negative close reason.
static int tail_fill(conn *c, const u8 *data, u32 len) {
    if (c->tail_used == c->tail_size) {
        int reason = tail_grow(c);
        if (reason != 0) return -reason;
    }
    u32 take = MIN(len, MIN(c->tail_want, c->tail_size) - c->tail_used);
    memcpy(c->tail + c->tail_used, data, take);
    c->tail_used += take;
    counter_add(&c->owner->metrics.copied_in_bytes, take);
    return (int)take;
}

// Offers a complete tail. False: stop feeding.
static bool tail_deliver(conn *c) {
    int next = packet_deliver(c, c->tail, c->tail_used);
    if (packet_taken(c)) {
        tail_free(c);
        c->packet_started_ns = 0;
    }
    return next == FEED_NEXT;
}

// A header split across buffers: gathers bytes until the size is known. Returns bytes taken, or a
// negative close reason.
static int head_fill(conn *c, const u8 *data, u32 len) {
    u32 taken = 0;
    while (taken < len) {
        ASSERT(c->head_len < LIMIT_PACKET_HEAD_BYTES);
        c->head[c->head_len++] = data[taken++];
        counter_add(&c->owner->metrics.copied_in_bytes, 1);
        u32 size = 0;
        int reason = c->proto->packet_size(c, c->head, c->head_len, &size);
        if (reason != 0) return -reason;
        if (size == 0) continue;
        ASSERT(size >= c->head_len);
        reason = tail_start(c, size);
        if (reason != 0) return -reason;
        break;
    }
    packet_begun(c);
    return (int)taken;
}

// Feeds bytes to the protocol. Returns how many were consumed; fewer than len when reading stopped or
// the connection is closing.
static u32 feed(conn *c, u8 *data, u32 len) {
    u32 at = 0;
    while (at < len && !(c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH | CONN_GOODBYE)) &&
           !conn_reading_stopped(c)) {
        if (c->tail != NULL) {
            int taken = c->tail_used < c->tail_want ? tail_fill(c, data + at, len - at) : 0;
            if (taken < 0) {
                conn_close(c, (close_reason)-taken);
                break;
            }
            at += (u32)taken;
            if (c->tail_used == c->tail_want && !tail_deliver(c)) break;
            continue;
        }
        if (c->head_len > 0) {
            int taken = head_fill(c, data + at, len - at);
            if (taken < 0) {
                inflow_end_for(c, -taken);
                break;
            }
            at += (u32)taken;
            if (c->tail != NULL && c->tail_used == c->tail_want && !tail_deliver(c)) break;
            continue;
        }
        u32 size = 0;
        int reason = c->proto->packet_size(c, data + at, len - at, &size);
        if (reason != 0) {
            inflow_end_for(c, reason);
            break;
        }
        if (size == 0) {
            ASSERT(len - at < LIMIT_PACKET_HEAD_BYTES);
            memcpy(c->head, data + at, len - at);
            c->head_len = (u8)(len - at);
            counter_add(&c->owner->metrics.copied_in_bytes, len - at);
            at = len;
            packet_begun(c);
        } else if (size <= len - at) {
            int next = packet_deliver(c, data + at, size);
            if (!packet_taken(c)) break;
            at += size;
            if (next == FEED_STOP) break;
        } else {
            reason = tail_start(c, size);
            if (reason != 0) {
                conn_close(c, (close_reason)reason);
                break;
            }
            packet_begun(c);
        }
    }
    return at;
}

static u32 feed_stream(conn *c, u8 *data, u32 len) {
    int reason = c->proto->stream(c, data, len);
    if (reason > 0) conn_close(c, (close_reason)reason);
    return len;
}

int inflow_keep(conn *c, const u8 *data, u32 len) {
    if (len == 0) return 0;
    if (c->stash_start == c->stash_used) c->stash_start = c->stash_used = 0;
    u32 live = c->stash_used - c->stash_start;
    if (c->stash == NULL || c->stash_size - c->stash_used < len) {
        u32 size;
        u8 *grown = worker_buf_alloc(c->owner, live + MAX(len, live), &size);
        if (grown == NULL) return CLOSE_NO_MEMORY;
        if (live > 0) memcpy(grown, c->stash + c->stash_start, live);
        if (c->stash != NULL) worker_buf_free(c->owner, c->stash, c->stash_size);
        c->stash = grown;
        c->stash_size = size;
        c->stash_start = 0;
        c->stash_used = live;
    }
    memcpy(c->stash + c->stash_used, data, len);
    c->stash_used += len;
    counter_add(&c->owner->metrics.copied_in_bytes, len);
    return 0;
}

static void stash_free(conn *c) {
    if (c->stash == NULL) return;
    worker_buf_free(c->owner, c->stash, c->stash_size);
    c->stash = NULL;
    c->stash_start = c->stash_used = c->stash_size = 0;
}

void inflow_free(conn *c) {
    tail_free(c);
    stash_free(c);
}

// The peer has finished and everything it sent has been consumed.
static void end_of_stream(conn *c) {
    bool partial = c->head_len > 0 || c->tail != NULL;
    conn_close_after_flush(c, partial ? CLOSE_PEER_IN_FRAME : CLOSE_PEER);
}

// After feeding: stop reading, go on reading, move away or finish.
void inflow_settle(conn *c) {
    if (c->flags & CONN_CLOSING) return;
    if (c->flags & CONN_MOVING) {
        move_when_quiet(c);
        return;
    }
    bool goodbye = (c->flags & CONN_GOODBYE) != 0; // what came behind it is nobody's
    bool all_fed = goodbye || (c->stash_start == c->stash_used && !conn_reading_stopped(c));
    if (all_fed) stash_free(c);
    if (all_fed && (c->flags & CONN_RECV_EOF)) {
        // It says no more, but may listen: what it is owed goes out first (conn_answered).
        if (goodbye || c->proto->owes == NULL || !c->proto->owes(c)) end_of_stream(c);
        return;
    }
    conn_read_on(c);
}

void inflow_plain(conn *c, u8 *data, u32 len, bool lent) {
    worker *w = c->owner;
    u32 used = 0;
    bool kept_before = c->stash_start != c->stash_used;
    if (!kept_before && !conn_reading_stopped(c)) {
        c->flags |= CONN_IN_DISPATCH;
        w->dispatch_data = lent ? data : NULL;
        w->dispatch_len = lent ? len : 0;
        used = c->proto->packet_size != NULL ? feed(c, data, len) : feed_stream(c, data, len);
        w->dispatch_data = NULL;
        w->dispatch_len = 0;
        c->flags &= (u16)~CONN_IN_DISPATCH;
        bool gathered = c->lent_len > 0 && !(c->flags & CONN_SEND_LENT);
        if (gathered && !(c->flags & CONN_CLOSING)) outflow_send_lent(c);
    }
    if (used < len && !(c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH | CONN_GOODBYE))) {
        int reason = inflow_keep(c, data + used, len - used);
        if (reason != 0) conn_close(c, (close_reason)reason);
    }
}

// The receive ended: end of stream, or an error.
static void recv_ended(conn *c, int result) {
    int reason = 0;
    if (c->layer != NULL && !(c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH))) {
        reason = result < 0 ? layers_error(c, result) : layers_input_end(c);
    } else if (result < 0) {
        reason = (int)close_reason_of_errno(result);
    }
    if (reason != 0) {
        conn_close(c, (close_reason)reason);
        return;
    }
    if (result == 0) c->flags |= CONN_RECV_EOF;
    inflow_settle(c);
}

void inflow_on_recv(io_handle *h, int result, u8 *data) {
    conn *c = conn_of(h);
    worker *w = c->owner;
    if (result <= 0) {
        recv_ended(c, result);
        return;
    }
    u32 len = (u32)result;
    c->bytes_in += len;
    counter_add(&w->metrics.bytes_in, len);
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH | CONN_GOODBYE)) return;
    c->received_ns = w->now_ns;
    if (UNLIKELY(c->flags & CONN_PROXY_HEADER)) {
        u32 taken;
        int reason = proxy_take(c, data, len, &taken);
        if (reason != 0) {
            conn_close(c, (close_reason)reason);
            return;
        }
        data += taken;
        len -= taken;
        if (len == 0) {
            inflow_settle(c);
            return;
        }
    }
    if (LIKELY(layers_pass(c->layer, LAYER_PASS_IN))) {
        // Sent as it came only where output needs nothing done to it.
        inflow_plain(c, data, len, layers_pass(c->layer, LAYER_PASS_OUT));
    } else if (len > 0) {
        int reason = layers_input(c, data, len);
        if (reason != 0) inflow_end_for(c, reason);
    }
    inflow_settle(c);
}

void inflow_resume(conn *c) {
    if (c->flags & (CONN_CLOSING | CONN_CLOSE_AFTER_FLUSH)) return;
    // One of two reasons to stop may have gone while the other one holds: a packet that was offered then would be
    // taken, and offered again.
    if (conn_reading_stopped(c) || (c->tail != NULL && c->tail_used == c->tail_want && !tail_deliver(c))) {
        inflow_settle(c);
        return;
    }
    if (c->stash_start < c->stash_used) {
        c->stash_start += feed(c, c->stash + c->stash_start, c->stash_used - c->stash_start);
    }
    inflow_settle(c);
}
