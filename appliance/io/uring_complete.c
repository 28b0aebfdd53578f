// SPDX-License-Identifier: Apache-2.0
// uring_complete.c: what completions do: accepts, receives with their lent buffers, sends, and the end of
// handles that are closing. Rules in uring.c.
#include <errno.h>
#include <unistd.h>

#include "io/uring.h"

// --- buffers ---

static u8 *buf_at(uring_engine *ue, u16 id) {
    return ue->buf_memory + (size_t)id * LIMIT_RECV_BUF_BYTES;
}

static void buf_return(uring_engine *ue, u16 id) {
    io_uring_buf_ring_add(ue->buf_ring, buf_at(ue, id), LIMIT_RECV_BUF_BYTES, id,
                          (int)(ue->bufs - 1), (int)ue->bufs_to_advance);
    ue->bufs_to_advance++;
    ue->bufs_free++;
}

static void bufs_publish(uring_engine *ue) {
    if (ue->bufs_to_advance == 0) return;
    io_uring_buf_ring_advance(ue->buf_ring, (int)ue->bufs_to_advance);
    ue->bufs_to_advance = 0;
    counter_set(&ue->base.stats.bufs_free, ue->bufs_free);
}

static void buf_taken(uring_engine *ue) {
    ue->bufs_free--;
    if (ue->bufs_free < ue->bufs_free_low) {
        ue->bufs_free_low = ue->bufs_free;
        counter_set(&ue->base.stats.bufs_free_low, ue->bufs_free);
    }
}

// --- completions ---

// The operation has ended: true when it should be armed again, false when its owner had stopped it.
static bool op_ended(io_handle *h, u8 armed_bit) {
    bool stopped = (h->armed & IO_ARMED_STOPPING) != 0;
    h->armed &= (u8)~(armed_bit | IO_ARMED_STOPPING);
    h->flags &= (u8)~H_RESTART;
    return !stopped;
}

static void complete_accept(uring_engine *ue, io_handle *h, int result, u32 cqe_flags) {
    io_stats *stats = &ue->base.stats;
    if (result >= 0 && (h->flags & H_CLOSING)) {
        // Taken from the backlog before the shutdown: ends as if it had stayed there.
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(result, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(result);
    } else if (result >= 0) {
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof(peer);
        peer.ss_family = AF_UNSPEC;
        // A multishot accept has no room for each peer's address.
        counter_add(&stats->syscalls, 1);
        if (getpeername(result, (struct sockaddr *)&peer, &peer_len) < 0) peer.ss_family = AF_UNSPEC;
        counter_add(&stats->accepts, 1);
        io_record(&ue->base, REC_ACCEPT, h, result, cqe_flags);
        h->callbacks->on_accept(h, result, &peer);
    }
    if (cqe_flags & IORING_CQE_F_MORE) return;
    bool restart = op_ended(h, IO_ARMED_ACCEPT);
    if (h->flags & H_CLOSING) return;
    if (result >= 0 || result == -ECONNABORTED || result == -EINTR || result == -ECANCELED) {
        if (!restart) return;
        counter_add(&stats->rearms, 1);
        uring_accept_start(&ue->base, h, !(h->flags & H_ONE_SHOT));
        return;
    }
    io_record(&ue->base, REC_ACCEPT, h, result, cqe_flags);
    h->callbacks->on_accept(h, result, NULL);
}

// A multishot receive of a peer that sends without pause would fill a turn with its buffers alone (the kernel gives
// 32 of them in a row), and everybody else would wait. Such a peer gets one buffer a turn until one is not full.
static void weigh(uring_engine *ue, io_handle *h, int result, u32 cqe_flags) {
    if (result < (int)LIMIT_RECV_BUF_BYTES) {
        h->flags &= (u8)~H_HEAVY;
        return;
    }
    if (!(cqe_flags & IORING_CQE_F_MORE) || (h->flags & (H_HEAVY | H_RESTART)) || !io_recv_is_armed(h)) return;
    u32 count = h->ready >> 16 == ue->turn ? (h->ready & UINT16_MAX) + 1 : 1;
    h->ready = (u32)ue->turn << 16 | count;
    if (count * LIMIT_RECV_BUF_BYTES < LIMIT_RECV_TURN_BYTES) return;
    h->flags |= H_HEAVY;
    uring_recv_stop(&ue->base, h);
    uring_recv_start(&ue->base, h, true); // when the multishot has ended, as one shot
}

// A receive whose last completion this is. Returns true when the callee is to be told.
static bool recv_ended(uring_engine *ue, io_handle *h, int result) {
    bool restart = op_ended(h, IO_ARMED_RECV);
    if (h->flags & H_CLOSING) return false;
    if (result == -ENOBUFS && restart) {
        counter_add(&ue->base.stats.enobufs, 1);
        io_record(&ue->base, REC_NOBUFS, h, (int)ue->bufs_free, 0);
        uring_starved_add(ue, h);
        return false;
    }
    bool ended_early = result == -EINTR || result == -ECANCELED || result == -ENOBUFS;
    if (restart && (ended_early || (result > 0 && !(h->flags & H_ONE_SHOT)))) {
        counter_add(&ue->base.stats.rearms, 1);
        uring_recv_arm(ue, h);
    }
    return !ended_early;
}

static void complete_recv(uring_engine *ue, io_handle *h, int result, u32 cqe_flags) {
    bool has_buf = (cqe_flags & IORING_CQE_F_BUFFER) != 0;
    u16 buf = (u16)(cqe_flags >> IORING_CQE_BUFFER_SHIFT);
    if (has_buf) buf_taken(ue);
    bool deliver = !(h->flags & H_CLOSING);
    if (deliver && result > 0) weigh(ue, h, result, cqe_flags);
    if (!(cqe_flags & IORING_CQE_F_MORE)) deliver = recv_ended(ue, h, result);
    if (deliver) {
        ASSERT(result <= 0 || has_buf);
        io_record(&ue->base, REC_RECV, h, result, cqe_flags & 0xffff);
        if (result > 0) {
            counter_add(&ue->base.stats.recvs, 1);
            counter_add(&ue->base.stats.recv_bytes, (u64)result);
        }
        ue->lending = has_buf ? buf : BUF_NONE;
        h->callbacks->on_recv(h, result, has_buf ? buf_at(ue, buf) : NULL);
        if (has_buf && ue->lending == BUF_NONE) has_buf = false; // a send has it now
        ue->lending = BUF_NONE;
    }
    if (has_buf) buf_return(ue, buf);
}

// A handle that waits for its last completion is closed now.
static void close_if_quiet(uring_engine *ue, u32 slot, u32 generation) {
    io_handle *h = io_slot_find(&ue->base, slot, generation);
    if (h != NULL && (h->flags & H_CLOSING) && h->armed == 0 && !(h->flags & H_LISTED)) {
        uring_close_queue(ue, h);
    }
}

static void complete_send(uring_engine *ue, io_handle *h, int result) {
    io_stats *stats = &ue->base.stats;
    bool lent = (h->flags & H_LENT) != 0;
    u16 buf = h->lent_buf;
    if (result == -EAGAIN) counter_add(&stats->send_waits, 1);
    if (result == -EAGAIN && !lent && !(h->flags & H_CLOSING)) {
        io_record(&ue->base, REC_SEND_WAIT, h, result, 0);
        uring_send_submit(ue, h, OP_SEND, MSG_NOSIGNAL, 0);
        return;
    }
    h->armed &= (u8)~IO_ARMED_SEND;
    h->flags &= (u8)~H_LENT;
    io_record(&ue->base, REC_SENT, h, result, lent);
    if (result > 0) counter_add(&stats->sent_bytes, (u64)result);
    if (!(h->flags & H_CLOSING)) h->callbacks->on_send(h, result);
    if (lent) buf_return(ue, buf);
}

// The eager sends of the last submission are done: those that posted a completion with its result, all
// others whole. Runs before any receive is dispatched, so that a connection's next reply finds its last
// one finished.
u32 uring_eager_run(uring_engine *ue) {
    if (ue->eager_count == 0) return 0;
    struct io_uring_cqe *cqe;
    unsigned head;
    io_uring_for_each_cqe(&ue->ring, head, cqe) {
        if (cqe->user_data >> 56 != OP_SEND_EAGER) continue;
        io_handle *h = ue->base.slots[(u32)cqe->user_data].handle;
        ASSERT(h != NULL && (h->armed & IO_ARMED_SEND));
        h->flags |= H_EAGER_TOLD;
        h->eager_result = cqe->res;
    }
    if (io_uring_sq_ready(&ue->ring) > 0) return 0; // the kernel was short of memory: next round
    u32 count = ue->eager_count;
    ue->eager_count = 0; // callbacks start new ones: they belong to the next submission
    for (u32 i = 0; i < count; i++) {
        u32 slot = ue->eager[i];
        io_handle *h = ue->base.slots[slot].handle;
        u32 generation = h->generation;
        bool told = (h->flags & H_EAGER_TOLD) != 0;
        int result = told ? h->eager_result : (int)uring_iov_bytes(h->send_iov, h->send_iovs);
        if (told && result >= 0) counter_add(&ue->base.stats.short_sends, 1);
        complete_send(ue, h, result);
        close_if_quiet(ue, slot, generation);
    }
    return count;
}

static void complete(uring_engine *ue, const struct io_uring_cqe *cqe) {
    enum uring_op op = (enum uring_op)(cqe->user_data >> 56);
    switch (op) {
    case OP_WAKE:
        counter_add(&ue->base.stats.wakes_received, 1);
        if (!(cqe->flags & IORING_CQE_F_MORE)) uring_doorbell_arm(ue);
        return;
    case OP_TIMEOUT:
        if ((u32)cqe->user_data == ue->timeout_number) ue->timeout_ns = UINT64_MAX;
        return;
    case OP_SEND_EAGER: // eager_run has seen it
        return;
    case OP_CLOSE: // only a failure is told: EIO and the like of a file whose data is not ours
        return;
    default:
        if (cqe->user_data == 0) return; // a cancel's own failure
    }
    u32 slot = (u32)cqe->user_data;
    u32 generation = (u32)(cqe->user_data >> 32) & IO_GENERATION_MASK;
    io_handle *h = io_slot_find(&ue->base, slot, generation);
    if (op == OP_CANCEL) { // of a close: mostly what it was meant for has ended meanwhile
        if (h != NULL && (h->flags & H_CLOSING) && h->armed != 0) uring_close_force(ue, h);
        return;
    }
    if (UNLIKELY(h == NULL)) {
        counter_add(&ue->base.stats.stale, 1);
        ASSERT(h != NULL);
    }
    if (op == OP_RECV) {
        complete_recv(ue, h, cqe->res, cqe->flags);
    } else if (op == OP_SEND) {
        complete_send(ue, h, cqe->res);
    } else if (op == OP_ACCEPT) {
        complete_accept(ue, h, cqe->res, cqe->flags);
    } else {
        ASSERT(op == OP_CONNECT);
        h->armed &= (u8)~IO_ARMED_CONNECT;
        io_record(&ue->base, REC_CONNECT, h, cqe->res, 0);
        if (!(h->flags & H_CLOSING)) h->callbacks->on_connect(h, cqe->res);
    }
    close_if_quiet(ue, slot, generation); // the callback may have moved it away
}

u32 uring_completions_run(uring_engine *ue) {
    struct io_uring_cqe *cqe;
    unsigned head;
    u32 count = 0;
    io_uring_for_each_cqe(&ue->ring, head, cqe) {
        // Copied: a callback that fills the submission queue submits, and the kernel may write on.
        struct io_uring_cqe copy = {.user_data = cqe->user_data, .res = cqe->res, .flags = cqe->flags};
        complete(ue, &copy);
        count++;
    }
    io_uring_cq_advance(&ue->ring, count);
    bufs_publish(ue);
    return count;
}
