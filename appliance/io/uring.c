// SPDX-License-Identifier: Apache-2.0
// uring.c: the native engine: io_uring, kernel 6.1 and later (DEFER_TASKRUN is the floor).
//
// - One ring a worker, created disabled by main with its opcode restrictions, enabled by its owner.
// - Multishot accept; multishot receive from one provided-buffer ring, plain (no bundles, no incremental
//   buffers: both returned data out of order in several kernels up to 6.14). An idle connection holds no
//   buffer; a buffer goes back as soon as on_recv returns, unless a send borrows it.
// - F_MORE is the only truth about a multishot: without it the operation has ended and is armed again.
//   -ENOBUFS parks the handle in a FIFO until buffers are back.
// - One send in flight a handle: two on one socket may be reordered. Each is tried eagerly first: it ends
//   within its submission, and posts a completion only when it did not go out whole. So the usual send
//   costs no completion, does not count as an event to wait for, and a slow reader never keeps a lent
//   receive buffer. Only a send that found the socket full is submitted again to wait for room.
// - user_data is op:8 | generation:24 | slot:32. A slot is freed only when nothing is outstanding, so a
//   completion with an old generation is a fault of this file and asserted on.
// - One TIMEOUT operation stands for the timer wheel; the wait itself has no timer (arming one for each
//   wait is dear in a VM).
// - shutdown(2) ends what is outstanding before a close: cancelling by descriptor walks every armed
//   request of the ring, and cancelling by user_data was unreliable on some kernels (liburing #1375).
#include "io/uring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum uring_op { OP_ACCEPT = 1, OP_RECV, OP_SEND, OP_SEND_EAGER, OP_CONNECT, OP_CLOSE, OP_WAKE, OP_TIMEOUT };

enum { // io_handle.flags
    H_CLOSING = 1u << 0,
    H_LISTED = 1u << 1,      // in the closed or the starved list
    H_ONE_SHOT = 1u << 2,
    H_RESTART = 1u << 3,     // started again before the stopped operation had ended: arm it then
    H_EAGER_TOLD = 1u << 4,  // the eager send posted a completion: result in handle.eager_result
    H_LENT = 1u << 5,        // the send in flight borrows the receive buffer lent_buf
};

#define BUF_GROUP 0
#define BUF_NONE UINT16_MAX
#define BATCH_TARGET_MAX 64u
#define RATE_WINDOW_NS (4 * NS_PER_MS)

static uring_engine *uring_of(io_engine *e) {
    return (uring_engine *)e;
}

static u64 tag_of(enum uring_op op, const io_handle *h) {
    return (u64)op << 56 | (u64)h->generation << 32 | h->slot;
}

// --- submission ---

static void submit_now(uring_engine *ue) {
    counter_add(&ue->base.stats.syscalls, 1);
    int result = io_uring_submit(&ue->ring);
    // EBUSY: the completion queue is backed up; EAGAIN: out of memory for requests. Both pass.
    ASSERT(result >= 0 || result == -EBUSY || result == -EAGAIN || result == -EINTR);
    if (result == -EBUSY || result == -EAGAIN) io_uring_get_events(&ue->ring);
}

// A submission entry; when the queue is full what it holds is submitted first, so it never fails.
static struct io_uring_sqe *sqe_get(uring_engine *ue) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ue->ring);
    while (UNLIKELY(sqe == NULL)) {
        counter_add(&ue->base.stats.sq_full, 1);
        submit_now(ue);
        sqe = io_uring_get_sqe(&ue->ring);
    }
    return sqe;
}

static void doorbell_arm(uring_engine *ue);

static void recv_arm(uring_engine *ue, io_handle *h) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    if (h->flags & H_ONE_SHOT) {
        io_uring_prep_recv(sqe, h->fd, NULL, 0, 0);
    } else {
        io_uring_prep_recv_multishot(sqe, h->fd, NULL, 0, 0);
    }
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUF_GROUP;
    io_uring_sqe_set_data64(sqe, tag_of(OP_RECV, h));
    h->armed |= IO_ARMED_RECV;
}

// A start while a stop is under way is remembered and done when the old operation has ended.
static bool restart_later(io_handle *h) {
    if (!(h->armed & IO_ARMED_STOPPING)) return false;
    h->armed &= (u8)~IO_ARMED_STOPPING;
    h->flags |= H_RESTART;
    return true;
}

static void uring_accept_start(io_engine *e, io_handle *h) {
    if (restart_later(h)) return;
    struct io_uring_sqe *sqe = sqe_get(uring_of(e));
    io_uring_prep_multishot_accept(sqe, h->fd, NULL, NULL, SOCK_CLOEXEC);
    io_uring_sqe_set_data64(sqe, tag_of(OP_ACCEPT, h));
    h->armed |= IO_ARMED_ACCEPT;
}

static void cancel_op(uring_engine *ue, enum uring_op op, const io_handle *h) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    io_uring_prep_cancel64(sqe, tag_of(op, h), 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    // Its own failure (ENOENT: the operation ended meanwhile) concerns nobody.
    io_uring_sqe_set_data64(sqe, 0);
}

// A stop: again after a restart that is still waiting for the old operation's end costs nothing.
static void stop_op(uring_engine *ue, enum uring_op op, io_handle *h) {
    h->armed |= IO_ARMED_STOPPING;
    if (!(h->flags & H_RESTART)) cancel_op(ue, op, h);
    h->flags &= (u8)~H_RESTART;
}

static void uring_accept_stop(io_engine *e, io_handle *h) {
    stop_op(uring_of(e), OP_ACCEPT, h);
}

static void starved_add(uring_engine *ue, io_handle *h);
static void starved_remove(uring_engine *ue, io_handle *h);

static void uring_recv_start(io_engine *e, io_handle *h, bool multishot) {
    h->flags = (u8)(multishot ? h->flags & ~H_ONE_SHOT : h->flags | H_ONE_SHOT);
    if (restart_later(h)) return;
    recv_arm(uring_of(e), h);
}

// The interface says "not armed" at once; the kernel's operation ends a little later. What it still
// delivers goes to on_recv (the callee keeps it).
static void uring_recv_stop(io_engine *e, io_handle *h) {
    uring_engine *ue = uring_of(e);
    if (h->armed & IO_ARMED_STARVED) {
        starved_remove(ue, h);
        return;
    }
    stop_op(ue, OP_RECV, h);
}

static u32 iov_bytes(const struct iovec *iov, u32 iovs) {
    u64 bytes = 0;
    for (u32 i = 0; i < iovs; i++) bytes += iov[i].iov_len;
    return (u32)bytes;
}

static void send_submit(uring_engine *ue, io_handle *h, enum uring_op op, u32 msg_flags, u8 sqe_flags) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    const struct iovec *iov = h->send_iov;
    if (h->send_iovs == 1) {
        io_uring_prep_send(sqe, h->fd, iov->iov_base, iov->iov_len, (int)msg_flags);
    } else {
        // FEAT_SUBMIT_STABLE (5.5): the header is read at submission; one per queue entry is enough.
        struct msghdr *msg = &ue->headers[(u32)(sqe - ue->ring.sq.sqes)];
        *msg = (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (int)h->send_iovs};
        io_uring_prep_sendmsg(sqe, h->fd, msg, msg_flags);
    }
    sqe->flags |= sqe_flags;
    io_uring_sqe_set_data64(sqe, tag_of(op, h));
    h->armed |= IO_ARMED_SEND;
    counter_add(&ue->base.stats.sends, 1);
}

// MSG_DONTWAIT: ends within the submission. MSG_WAITALL: a short send counts as a failure and so is told.
static void send_eagerly(uring_engine *ue, io_handle *h) {
    if (ue->sqpoll) { // a kernel thread submits some time later: the completion has to tell
        send_submit(ue, h, OP_SEND, MSG_NOSIGNAL | (h->flags & H_LENT ? MSG_DONTWAIT : 0), 0);
        return;
    }
    h->flags &= (u8)~H_EAGER_TOLD;
    ue->eager[ue->eager_count++] = h->slot;
    send_submit(ue, h, OP_SEND_EAGER, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL, IOSQE_CQE_SKIP_SUCCESS);
}

static int uring_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs) {
    h->send_iov = iov;
    h->send_iovs = iovs;
    io_record(e, REC_SEND, h, (int)iov_bytes(iov, iovs), iovs > 1 ? 2 : 0);
    send_eagerly(uring_of(e), h);
    return IO_PENDING;
}

static int uring_send_lent(io_engine *e, io_handle *h, const struct iovec *iov) {
    uring_engine *ue = uring_of(e);
    ASSERT(ue->lending != BUF_NONE); // inside on_recv, once a call
    h->send_iov = iov;
    h->send_iovs = 1;
    h->lent_buf = ue->lending;
    h->flags |= H_LENT;
    ue->lending = BUF_NONE;
    send_eagerly(ue, h);
    return IO_PENDING;
}

static void uring_connect(io_engine *e, io_handle *h, const struct sockaddr *addr,
                          socklen_t addr_len) {
    struct io_uring_sqe *sqe = sqe_get(uring_of(e));
    io_uring_prep_connect(sqe, h->fd, addr, addr_len);
    io_uring_sqe_set_data64(sqe, tag_of(OP_CONNECT, h));
    h->armed |= IO_ARMED_CONNECT;
    // The address is copied at submission, which may come after the caller's has gone.
    submit_now(uring_of(e));
}

// --- lists ---

static void list_push(uring_engine *ue, uring_list *list, io_handle *h) {
    h->flags |= H_LISTED;
    h->link_next = IO_SLOT_NONE;
    if (list->tail == IO_SLOT_NONE) {
        list->head = h->slot;
    } else {
        ue->base.slots[list->tail].handle->link_next = h->slot;
    }
    list->tail = h->slot;
    list->count++;
}

static void list_remove(uring_engine *ue, uring_list *list, io_handle *h) {
    u32 *link = &list->head;
    u32 previous = IO_SLOT_NONE;
    while (*link != h->slot) {
        previous = *link;
        link = &ue->base.slots[*link].handle->link_next;
    }
    *link = h->link_next;
    if (list->tail == h->slot) list->tail = previous;
    list->count--;
    h->flags &= (u8)~H_LISTED;
}

static void starved_add(uring_engine *ue, io_handle *h) {
    h->armed |= IO_ARMED_STARVED;
    list_push(ue, &ue->starved, h);
}

static void starved_remove(uring_engine *ue, io_handle *h) {
    list_remove(ue, &ue->starved, h);
    h->armed &= (u8)~IO_ARMED_STARVED;
}

// Re-arms starved receives when a good part of the buffers is back: arming for each single buffer would
// end in the next -ENOBUFS at once.
static void starved_run(uring_engine *ue) {
    if (ue->starved.count == 0 || ue->bufs_free < ue->bufs / 4) return;
    u32 budget = ue->bufs_free / 2;
    while (ue->starved.count > 0 && budget-- > 0) {
        io_handle *h = ue->base.slots[ue->starved.head].handle;
        starved_remove(ue, h);
        counter_add(&ue->base.stats.rearms, 1);
        recv_arm(ue, h);
    }
}

// --- closing ---

static void close_queue(uring_engine *ue, io_handle *h) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    io_uring_prep_close(sqe, h->fd);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, (u64)OP_CLOSE << 56);
    list_push(ue, &ue->closed, h);
}

static void uring_close(io_engine *e, io_handle *h, bool reset) {
    uring_engine *ue = uring_of(e);
    if (h->flags & H_CLOSING) return;
    if (h->armed & IO_ARMED_STARVED) starved_remove(ue, h);
    h->flags |= H_CLOSING;
    if (reset) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(h->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    if (h->armed == 0) {
        close_queue(ue, h);
        return;
    }
    io_record(e, REC_SHUTDOWN, h, h->armed, reset);
    counter_add(&e->stats.syscalls, 1);
    // What is queued must reach the kernel first, or it would be armed on a socket that is shut down
    // (harmless) or, for a connect, on one that nothing ends (not harmless).
    submit_now(ue);
    if (shutdown(h->fd, SHUT_RDWR) < 0) {
        if (h->armed & IO_ARMED_RECV) cancel_op(ue, OP_RECV, h);
        if (h->armed & IO_ARMED_SEND) cancel_op(ue, OP_SEND, h);
        if (h->armed & IO_ARMED_CONNECT) cancel_op(ue, OP_CONNECT, h);
    }
    // Always: a unix listener that is shut down still answers accept with EAGAIN, which ends nothing.
    if (h->armed & IO_ARMED_ACCEPT) cancel_op(ue, OP_ACCEPT, h);
}

// on_closed of everything that was closed since the last round.
static u32 closed_run(uring_engine *ue) {
    u32 done = 0;
    while (ue->closed.head != IO_SLOT_NONE) {
        io_handle *h = ue->base.slots[ue->closed.head].handle;
        list_remove(ue, &ue->closed, h);
        io_record(&ue->base, REC_CLOSED, h, 0, 0);
        io_slot_release(&ue->base, h);
        if (h->callbacks->on_closed != NULL) h->callbacks->on_closed(h);
        done++;
    }
    return done;
}

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
    if (result >= 0) {
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
        uring_accept_start(&ue->base, h);
        return;
    }
    io_record(&ue->base, REC_ACCEPT, h, result, cqe_flags);
    h->callbacks->on_accept(h, result, NULL);
}

// A receive whose last completion this is. Returns true when the callee is to be told.
static bool recv_ended(uring_engine *ue, io_handle *h, int result) {
    bool restart = op_ended(h, IO_ARMED_RECV);
    if (h->flags & H_CLOSING) return false;
    if (result == -ENOBUFS && restart) {
        counter_add(&ue->base.stats.enobufs, 1);
        io_record(&ue->base, REC_NOBUFS, h, (int)ue->bufs_free, 0);
        starved_add(ue, h);
        return false;
    }
    bool ended_early = result == -EINTR || result == -ECANCELED || result == -ENOBUFS;
    if (restart && (ended_early || (result > 0 && !(h->flags & H_ONE_SHOT)))) {
        counter_add(&ue->base.stats.rearms, 1);
        recv_arm(ue, h);
    }
    return !ended_early;
}

static void complete_recv(uring_engine *ue, io_handle *h, int result, u32 cqe_flags) {
    bool has_buf = (cqe_flags & IORING_CQE_F_BUFFER) != 0;
    u16 buf = (u16)(cqe_flags >> IORING_CQE_BUFFER_SHIFT);
    if (has_buf) buf_taken(ue);
    bool deliver = !(h->flags & H_CLOSING);
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
        close_queue(ue, h);
    }
}

static void complete_send(uring_engine *ue, io_handle *h, int result) {
    io_stats *stats = &ue->base.stats;
    bool lent = (h->flags & H_LENT) != 0;
    u16 buf = h->lent_buf;
    if (result == -EAGAIN) counter_add(&stats->send_waits, 1);
    if (result == -EAGAIN && !lent && !(h->flags & H_CLOSING)) {
        io_record(&ue->base, REC_SEND_WAIT, h, result, 0);
        send_submit(ue, h, OP_SEND, MSG_NOSIGNAL, 0);
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
static u32 eager_run(uring_engine *ue) {
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
        int result = told ? h->eager_result : (int)iov_bytes(h->send_iov, h->send_iovs);
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
        if (!(cqe->flags & IORING_CQE_F_MORE)) doorbell_arm(ue);
        return;
    case OP_TIMEOUT:
        ue->timeout_ns = UINT64_MAX;
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

// --- the loop ---

static void doorbell_arm(uring_engine *ue) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    // A multishot poll tells every write to the eventfd, which so never needs to be read.
    io_uring_prep_poll_multishot(sqe, ue->doorbell_fd, POLLIN);
    io_uring_sqe_set_data64(sqe, (u64)OP_WAKE << 56);
}

// Makes sure that a timeout not later than the deadline is outstanding. An earlier one that is
// outstanding already only wakes the loop once for nothing.
static void timeout_arm(uring_engine *ue, u64 deadline_ns) {
    if (deadline_ns >= ue->timeout_ns) return;
    ue->timeout_ns = deadline_ns;
    ue->timeout_spec = (struct __kernel_timespec){
        .tv_sec = (i64)(deadline_ns / NS_PER_S),
        .tv_nsec = (i64)(deadline_ns % NS_PER_S),
    };
    struct io_uring_sqe *sqe = sqe_get(ue);
    io_uring_prep_timeout(sqe, &ue->timeout_spec, 0, IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(sqe, (u64)OP_TIMEOUT << 56);
}

static u32 completions_run(uring_engine *ue) {
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

// How many events are worth waiting for, up to min_wait_us: what the present rate brings in that time.
// Fewer than two: not worth a timer, and the first event is taken at once.
static u32 batch_target(const uring_engine *ue) {
    if (ue->min_wait_us == 0 || ue->event_gap_ns == 0) return 1;
    u64 target = (u64)ue->min_wait_us * 1000 / ue->event_gap_ns;
    return (u32)MAX(MIN(target, (u64)BATCH_TARGET_MAX), 1);
}

// The mean gap between events, over windows of RATE_WINDOW_NS; a window in which little came ends the
// batching at once.
static void rate_account(uring_engine *ue, u32 events) {
    u64 now = *ue->base.now_ns;
    ue->window_events += events;
    if (now - ue->window_start_ns < RATE_WINDOW_NS) return;
    ue->event_gap_ns = ue->window_events == 0 ? 0 : (now - ue->window_start_ns) / ue->window_events;
    ue->window_start_ns = now;
    ue->window_events = 0;
}

static int wait_for_completions(uring_engine *ue, u64 deadline_ns) {
    io_stats *stats = &ue->base.stats;
    counter_add(&stats->waits, 1);
    counter_add(&stats->syscalls, 1);
    if (deadline_ns == 0 || ue->closed.count > 0) return io_uring_submit_and_get_events(&ue->ring);
    if (deadline_ns != UINT64_MAX) timeout_arm(ue, deadline_ns);
    u32 target = batch_target(ue);
    if (target < 2) return io_uring_submit_and_wait(&ue->ring, 1);
    counter_add(&stats->batched_waits, 1);
    // Without a whole timeout liburing 2.9 drops the minimum one. Ours never strikes: the TIMEOUT does.
    struct __kernel_timespec whole = {.tv_sec = 3600};
    struct io_uring_cqe *ignored;
    return io_uring_submit_and_wait_min_timeout(&ue->ring, &ignored, target, &whole, ue->min_wait_us, NULL);
}

static int uring_run(io_engine *e, u64 deadline_ns) {
    uring_engine *ue = uring_of(e);
    int result = wait_for_completions(ue, deadline_ns);
    *e->now_ns = clock_mono_ns();
    // EBUSY, EAGAIN: reap first. EINTR: a signal. Anything else means the ring is unusable.
    if (result < 0 && result != -EBUSY && result != -EAGAIN && result != -EINTR && result != -ETIME) {
        return result;
    }
    u32 sends = eager_run(ue);
    u32 count = completions_run(ue);
    if (UNLIKELY(io_uring_cq_has_overflow(&ue->ring))) counter_add(&e->stats.cq_overflows, 1);
    starved_run(ue);
    rate_account(ue, count);
    if (count > 0) {
        counter_add(&e->stats.completions, count);
        hist_record(&e->stats.batch, count);
    }
    return (int)(count + sends + closed_run(ue));
}

static void uring_wake(io_engine *e) {
    u64 one = 1;
    (void)!write(uring_of(e)->doorbell_fd, &one, sizeof(one));
}

static int uring_attach(io_engine *e, io_handle *h) {
    (void)e; // nothing is registered with the kernel: operations name the descriptor
    h->lent_buf = BUF_NONE;
    return 0;
}

static void uring_detach(io_engine *e, io_handle *h) {
    (void)e;
    ASSERT(!(h->flags & H_LISTED));
}

static int uring_enable(io_engine *e) {
    uring_engine *ue = uring_of(e);
    int result = io_uring_enable_rings(&ue->ring);
    if (result < 0) return result;
    // Saves a reference to the ring's file at each enter; not having it is no fault.
    (void)io_uring_register_ring_fd(&ue->ring);
    doorbell_arm(ue);
    return 0;
}

static void uring_destroy(io_engine *e) {
    uring_engine *ue = uring_of(e);
    if (ue->ring.ring_fd > 0) {
        if (ue->buf_ring != NULL) {
            io_uring_free_buf_ring(&ue->ring, ue->buf_ring, ue->bufs, BUF_GROUP);
        }
        io_uring_queue_exit(&ue->ring);
    }
    if (ue->buf_memory != NULL) munmap(ue->buf_memory, (size_t)ue->bufs * LIMIT_RECV_BUF_BYTES);
    if (ue->doorbell_fd >= 0) close(ue->doorbell_fd);
    free(ue->headers);
    if (ue->eager != NULL) munmap(ue->eager, ue->base.slots_max * sizeof(*ue->eager));
    io_engine_fini(e);
    free(ue);
}

static const io_ops uring_ops = {
    .enable = uring_enable,
    .destroy = uring_destroy,
    .attach = uring_attach,
    .detach = uring_detach,
    .accept_start = uring_accept_start,
    .accept_stop = uring_accept_stop,
    .recv_start = uring_recv_start,
    .recv_stop = uring_recv_stop,
    .send = uring_send,
    .send_lent = uring_send_lent,
    .connect = uring_connect,
    .close = uring_close,
    .run = uring_run,
    .wake = uring_wake,
};

int io_uring_create(const io_config *config, io_engine **out, const char **step) {
    uring_engine *ue = calloc(1, sizeof(*ue));
    *step = "allocate engine";
    if (ue == NULL) return -ENOMEM;
    ue->doorbell_fd = -1;
    ue->lending = BUF_NONE;
    ue->timeout_ns = UINT64_MAX;
    ue->closed = ue->starved = (uring_list){IO_SLOT_NONE, IO_SLOT_NONE, 0};
    int result = io_engine_init(&ue->base, &uring_ops, config);
    if (result < 0) goto fail;
    result = uring_ring_open(ue, config, step);
    if (result < 0) goto fail;
    *step = "allocate headers";
    result = -ENOMEM;
    ue->headers = calloc(ue->ring.sq.ring_entries, sizeof(*ue->headers));
    if (ue->headers == NULL) goto fail;
    void *eager = mmap(NULL, ue->base.slots_max * sizeof(*ue->eager), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (eager == MAP_FAILED) goto fail;
    ue->eager = eager;
    *step = "eventfd";
    ue->doorbell_fd = eventfd(0, EFD_CLOEXEC);
    result = -errno;
    if (ue->doorbell_fd < 0) goto fail;
    *out = &ue->base;
    return 0;
fail:
    uring_destroy(&ue->base);
    return result;
}
