// SPDX-License-Identifier: Apache-2.0
// uring_submit.c: starting operations on the ring, and the two lists of handles that wait: starved receives
// (no buffer was left) and closed handles whose owner has not been told. Rules in uring.c.
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "io/uring.h"

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

void uring_starved_add(uring_engine *ue, io_handle *h) {
    h->armed |= IO_ARMED_STARVED;
    list_push(ue, &ue->starved, h);
}

static void starved_remove(uring_engine *ue, io_handle *h) {
    list_remove(ue, &ue->starved, h);
    h->armed &= (u8)~IO_ARMED_STARVED;
}

// --- submission ---

void uring_submit_now(uring_engine *ue) {
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
        uring_submit_now(ue);
        sqe = io_uring_get_sqe(&ue->ring);
    }
    return sqe;
}

void uring_recv_arm(uring_engine *ue, io_handle *h) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    if (h->flags & (H_ONE_SHOT | H_HEAVY)) {
        io_uring_prep_recv(sqe, h->fd, NULL, 0, 0);
    } else {
        io_uring_prep_recv_multishot(sqe, h->fd, NULL, 0, 0);
    }
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUF_GROUP;
    io_uring_sqe_set_data64(sqe, uring_tag(OP_RECV, h));
    h->armed |= IO_ARMED_RECV;
}

// A start while a stop is under way is remembered and done when the old operation has ended.
static bool restart_later(io_handle *h) {
    if (!(h->armed & IO_ARMED_STOPPING)) return false;
    h->armed &= (u8)~IO_ARMED_STOPPING;
    h->flags |= H_RESTART;
    return true;
}

void uring_accept_start(io_engine *e, io_handle *h, bool multishot) {
    h->flags = (u8)(multishot ? h->flags & ~H_ONE_SHOT : h->flags | H_ONE_SHOT);
    if (restart_later(h)) return;
    struct io_uring_sqe *sqe = sqe_get(uring_of(e));
    if (multishot) io_uring_prep_multishot_accept(sqe, h->fd, NULL, NULL, SOCK_CLOEXEC);
    else io_uring_prep_accept(sqe, h->fd, NULL, NULL, SOCK_CLOEXEC);
    io_uring_sqe_set_data64(sqe, uring_tag(OP_ACCEPT, h));
    h->armed |= IO_ARMED_ACCEPT;
}

// tag: of its own failure (ENOENT: the operation ended meanwhile); 0: that concerns nobody.
static void cancel_op(uring_engine *ue, enum uring_op op, const io_handle *h, u64 tag) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    io_uring_prep_cancel64(sqe, uring_tag(op, h), 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, tag);
}

// A stop: again after a restart that is still waiting for the old operation's end costs nothing.
static void stop_op(uring_engine *ue, enum uring_op op, io_handle *h) {
    h->armed |= IO_ARMED_STOPPING;
    if (!(h->flags & H_RESTART)) cancel_op(ue, op, h, 0);
    h->flags &= (u8)~H_RESTART;
}

void uring_accept_stop(io_engine *e, io_handle *h) {
    stop_op(uring_of(e), OP_ACCEPT, h);
}

void uring_recv_start(io_engine *e, io_handle *h, bool multishot) {
    h->flags = (u8)(multishot ? h->flags & ~H_ONE_SHOT : h->flags | H_ONE_SHOT);
    if (restart_later(h)) return;
    uring_recv_arm(uring_of(e), h);
}

// The interface says "not armed" at once; the kernel's operation ends a little later. What it still
// delivers goes to on_recv (the callee keeps it).
void uring_recv_stop(io_engine *e, io_handle *h) {
    uring_engine *ue = uring_of(e);
    if (h->armed & IO_ARMED_STARVED) {
        starved_remove(ue, h);
        return;
    }
    stop_op(ue, OP_RECV, h);
}

u32 uring_iov_bytes(const struct iovec *iov, u32 iovs) {
    u64 bytes = 0;
    for (u32 i = 0; i < iovs; i++) bytes += iov[i].iov_len;
    return (u32)bytes;
}

void uring_send_submit(uring_engine *ue, io_handle *h, enum uring_op op, u32 msg_flags, u8 sqe_flags) {
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
    io_uring_sqe_set_data64(sqe, uring_tag(op, h));
    h->armed |= IO_ARMED_SEND;
    counter_add(&ue->base.stats.sends, 1);
}

// MSG_DONTWAIT: ends within the submission. MSG_WAITALL: a short send counts as a failure and so is told.
static void send_eagerly(uring_engine *ue, io_handle *h) {
    // A kernel thread submits some time later, or a short send would be a success: the completion has to tell.
    if (ue->sqpoll || (h->flags & H_SIMPLE_SEND)) {
        uring_send_submit(ue, h, OP_SEND, MSG_NOSIGNAL | (h->flags & H_LENT ? MSG_DONTWAIT : 0), 0);
        return;
    }
    h->flags &= (u8)~H_EAGER_TOLD;
    ue->eager[ue->eager_count++] = h->slot;
    uring_send_submit(ue, h, OP_SEND_EAGER, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL, IOSQE_CQE_SKIP_SUCCESS);
}

int uring_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs) {
    h->send_iov = iov;
    h->send_iovs = iovs;
    io_record(e, REC_SEND, h, (int)uring_iov_bytes(iov, iovs), iovs > 1 ? 2 : 0);
    send_eagerly(uring_of(e), h);
    return IO_PENDING;
}

void uring_send_simply(io_engine *e, io_handle *h) {
    (void)e;
    h->flags |= H_SIMPLE_SEND;
}

int uring_send_lent(io_engine *e, io_handle *h, const struct iovec *iov) {
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

void uring_connect(io_engine *e, io_handle *h, const struct sockaddr *addr,
                          socklen_t addr_len) {
    struct io_uring_sqe *sqe = sqe_get(uring_of(e));
    io_uring_prep_connect(sqe, h->fd, addr, addr_len);
    io_uring_sqe_set_data64(sqe, uring_tag(OP_CONNECT, h));
    h->armed |= IO_ARMED_CONNECT;
    // The address is copied at submission, which may come after the caller's has gone.
    uring_submit_now(uring_of(e));
}

// --- starved receives ---

// Re-arms starved receives when a good part of the buffers is back: arming for each single buffer would
// end in the next -ENOBUFS at once.
void uring_starved_run(uring_engine *ue) {
    if (ue->starved.count == 0 || ue->bufs_free < ue->bufs / 4) return;
    u32 budget = ue->bufs_free / 2;
    while (ue->starved.count > 0 && budget-- > 0) {
        io_handle *h = ue->base.slots[ue->starved.head].handle;
        starved_remove(ue, h);
        counter_add(&ue->base.stats.rearms, 1);
        uring_recv_arm(ue, h);
    }
}

// --- closing ---

void uring_close_queue(uring_engine *ue, io_handle *h) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    io_uring_prep_close(sqe, h->fd);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, (u64)OP_CLOSE << 56);
    list_push(ue, &ue->closed, h);
}

void uring_close(io_engine *e, io_handle *h, bool reset) {
    uring_engine *ue = uring_of(e);
    if (h->flags & H_CLOSING) return;
    if (h->armed & IO_ARMED_STARVED) starved_remove(ue, h);
    h->flags |= H_CLOSING;
    if (reset) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(h->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    if (h->armed == 0) {
        uring_close_queue(ue, h);
        return;
    }
    io_record(e, REC_SHUTDOWN, h, h->armed, reset);
    u64 tag = uring_tag(OP_CANCEL, h);
    if (h->armed & IO_ARMED_RECV) cancel_op(ue, OP_RECV, h, tag);
    if (h->armed & IO_ARMED_SEND) cancel_op(ue, OP_SEND, h, tag);
    if (h->armed & IO_ARMED_CONNECT) cancel_op(ue, OP_CONNECT, h, tag);
    if (h->armed & IO_ARMED_ACCEPT) cancel_op(ue, OP_ACCEPT, h, tag);
}

void uring_close_force(uring_engine *ue, io_handle *h) {
    counter_add(&ue->base.stats.syscalls, 1);
    // What is queued must reach the kernel first, or it would be armed on a socket that is shut down.
    uring_submit_now(ue);
    (void)shutdown(h->fd, SHUT_RDWR);
}

// on_closed of everything that was closed since the last round.
u32 uring_closed_run(uring_engine *ue) {
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

// --- the loop's own ---

void uring_doorbell_arm(uring_engine *ue) {
    struct io_uring_sqe *sqe = sqe_get(ue);
    // A multishot poll tells every write to the eventfd, which so never needs to be read.
    io_uring_prep_poll_multishot(sqe, ue->doorbell_fd, POLLIN);
    io_uring_sqe_set_data64(sqe, (u64)OP_WAKE << 56);
}

// Makes sure that a timeout not later than the deadline is outstanding. A later one that is outstanding
// already stays, and wakes the loop once for nothing: only the newest one's end is an end.
void uring_timeout_arm(uring_engine *ue, u64 deadline_ns) {
    if (deadline_ns >= ue->timeout_ns) return;
    ue->timeout_ns = deadline_ns;
    ue->timeout_spec = (struct __kernel_timespec){
        .tv_sec = (i64)(deadline_ns / NS_PER_S),
        .tv_nsec = (i64)(deadline_ns % NS_PER_S),
    };
    struct io_uring_sqe *sqe = sqe_get(ue);
    io_uring_prep_timeout(sqe, &ue->timeout_spec, 0, IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(sqe, (u64)OP_TIMEOUT << 56 | ++ue->timeout_number);
}
