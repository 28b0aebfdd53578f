// SPDX-License-Identifier: Apache-2.0
// client_uring.c: the generator's io_uring engine (Linux 6.1 and later).
//
// A connection holds no buffer: one multishot receive each, filled from one ring of provided
// buffers. Sends are queued and enter the kernel together with the request for completions: one
// system call a turn. With IORING_SETUP_TASKRUN_FLAG the shared ring memory says whether that call
// would find anything, so a turn with nothing to do costs no system call; this is what makes
// spinning cheap. MSG_WAITALL on sends: the kernel completes a short send itself, one completion a
// buffer. Direct descriptors were tried for the long connections: no difference beyond the noise
// (TCP is the cost).
//
// Invariants: F_MORE alone says whether a receive is still armed; a provided buffer returns to the
// ring inside the turn that delivered it, also when its connection is gone.
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bench/bench_limits.h"
#include "bench/client_io_impl.h"

#define URING_SQ_ENTRIES 1024u
#define URING_CQ_ENTRIES 16384u
#define URING_CQE_BATCH 256u
#define URING_BUFFER_GROUP 0

typedef struct uring {
    struct io_uring ring;
    struct io_uring_buf_ring *buf_ring;
    u8 *buffers;
    size_t buffers_bytes;
    u32 recycled; // buffers given back in this turn, not yet published
    u64 *starved; // tags of receives that ended for want of a buffer
    u32 starved_count;
} uring;

static struct io_uring_sqe *sqe_get(uring *u) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    while (sqe == NULL) {
        // Full: hand over what is queued. -EBUSY (completions to reap first) cannot persist: the
        // next turn reaps, and with NODROP the kernel takes submissions in any case.
        int rc = io_uring_submit(&u->ring);
        ASSERT(rc >= 0 || rc == -EBUSY || rc == -EAGAIN || rc == -EINTR);
        sqe = io_uring_get_sqe(&u->ring);
    }
    return sqe;
}

static void recv_arm(uring *u, cio_conn *c) {
    struct io_uring_sqe *sqe = sqe_get(u);
    if (c->once) {
        io_uring_prep_recv(sqe, c->fd, NULL, 0, 0);
    } else {
        io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
    }
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_BUFFER_GROUP;
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST; // nothing can be there yet: skip the vain attempt
    io_uring_sqe_set_data64(sqe, cio_tag(CIO_OP_RECV, c));
    c->armed = true;
}

static int uring_attach(cio *io, cio_conn *c) {
    recv_arm(io->engine, c);
    return 0;
}

static void uring_detach(cio *io, cio_conn *c) {
    (void)io;
    // An armed receive or a send in progress holds the file; shutdown ends both, and their
    // completions find another generation. After a single receive nothing holds it: a system call
    // less.
    if (c->armed || c->sending) shutdown(c->fd, SHUT_RDWR);
}

static int uring_send(cio *io, cio_conn *c) {
    struct io_uring_sqe *sqe = sqe_get(io->engine);
    io_uring_prep_send(sqe, c->fd, c->tx, c->tx_left, MSG_NOSIGNAL | MSG_WAITALL);
    io_uring_sqe_set_data64(sqe, cio_tag(CIO_OP_SEND, c));
    return 0;
}

static void buffer_recycle(cio *io, uring *u, u32 id) {
    io_uring_buf_ring_add(u->buf_ring, u->buffers + (size_t)id * io->buf_bytes, io->buf_bytes,
                          (unsigned short)id, io_uring_buf_ring_mask(BENCH_RECV_BUFS),
                          (int)u->recycled);
    u->recycled++;
}

static void recv_done(cio *io, uring *u, const struct io_uring_cqe *cqe, u64 now_ns) {
    cio_conn *c = cio_tag_conn(io, cqe->user_data);
    bool has_buffer = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
    u32 id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    if (c != NULL) c->armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (c != NULL && !c->ended && cqe->res > 0) {
        u32 generation = c->generation;
        ASSERT(has_buffer);
        c->events->data(c->events->ctx, c, u->buffers + (size_t)id * io->buf_bytes,
                        (size_t)cqe->res, now_ns);
        // The callback may have closed the connection, and its memory may already be another's.
        if (c->generation != generation || !c->open) c = NULL;
    }
    if (has_buffer) buffer_recycle(io, u, id);
    if (c == NULL || c->ended) return;
    if (cqe->res == -ENOBUFS) {
        u->starved[u->starved_count++] = cqe->user_data;
    } else if (cqe->res <= 0) {
        cio_end(c, cqe->res);
    } else if (!c->armed) {
        recv_arm(u, c);
    }
}

static void send_done(cio *io, const struct io_uring_cqe *cqe) {
    cio_conn *c = cio_tag_conn(io, cqe->user_data);
    if (c == NULL || c->ended) return;
    if (cqe->res < 0) {
        cio_end(c, cqe->res);
        return;
    }
    c->tx += cqe->res;
    c->tx_left -= (u32)cqe->res;
    if (c->tx_left > 0) {
        (void)uring_send(io, c);
        return;
    }
    c->sending = false;
    c->events->sent(c->events->ctx, c);
}

static u32 completions_handle(cio *io, uring *u, u64 now_ns) {
    struct io_uring_cqe *cqes[URING_CQE_BATCH];
    u32 total = 0, n;
    do {
        n = io_uring_peek_batch_cqe(&u->ring, cqes, URING_CQE_BATCH);
        for (u32 i = 0; i < n; i++) {
            switch (cio_tag_op(cqes[i]->user_data)) {
            case CIO_OP_RECV: recv_done(io, u, cqes[i], now_ns); break;
            case CIO_OP_SEND: send_done(io, cqes[i]); break;
            }
        }
        io_uring_cq_advance(&u->ring, n);
        if (u->recycled > 0) io_uring_buf_ring_advance(u->buf_ring, (int)u->recycled);
        u->recycled = 0;
        total += n;
    } while (n == URING_CQE_BATCH);
    while (u->starved_count > 0) {
        cio_conn *c = cio_tag_conn(io, u->starved[--u->starved_count]);
        if (c != NULL && !c->ended) recv_arm(u, c);
    }
    return total;
}

static bool kernel_has_work(uring *u) {
    u32 flags = IO_URING_READ_ONCE(*u->ring.sq.kflags);
    return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

static u32 uring_turn(cio *io, bool wait, u64 until_ns) {
    uring *u = io->engine;
    u32 queued = io_uring_sq_ready(&u->ring);
    u64 now_ns = clock_mono_ns();
    if (wait && queued == 0 && !kernel_has_work(u) && until_ns > now_ns) {
        u64 left = until_ns - now_ns;
        struct __kernel_timespec ts = {.tv_sec = (long long)(left / NS_PER_S),
                                       .tv_nsec = (long long)(left % NS_PER_S)};
        struct io_uring_cqe *cqe;
        (void)io_uring_wait_cqes(&u->ring, &cqe, 1, &ts, NULL); // -ETIME and -EINTR are normal
        now_ns = clock_mono_ns();
    } else if (queued > 0 || kernel_has_work(u)) {
        int rc = io_uring_submit_and_get_events(&u->ring);
        ASSERT(rc >= 0 || rc == -EBUSY || rc == -EAGAIN || rc == -EINTR);
        now_ns = clock_mono_ns();
    }
    return completions_handle(io, u, now_ns) + queued;
}

static void uring_free(cio *io) {
    uring *u = io->engine;
    if (u->buf_ring != NULL) {
        io_uring_free_buf_ring(&u->ring, u->buf_ring, BENCH_RECV_BUFS, URING_BUFFER_GROUP);
    }
    io_uring_queue_exit(&u->ring);
    if (u->buffers != NULL) munmap(u->buffers, u->buffers_bytes);
    free(u->starved);
    free(u);
}

static const cio_vtable uring_vtable = {
    .name = "io_uring",
    .free = uring_free,
    .attach = uring_attach,
    .detach = uring_detach,
    .send = uring_send,
    .turn = uring_turn,
};

static int buffers_open(cio *io, uring *u) {
    int rc = 0;
    u->buffers_bytes = (size_t)BENCH_RECV_BUFS * io->buf_bytes;
    u->buffers = mmap(NULL, u->buffers_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (u->buffers == MAP_FAILED) {
        u->buffers = NULL;
        return -errno;
    }
    u->starved = malloc((size_t)io->slots * sizeof(*u->starved));
    if (u->starved == NULL) return -ENOMEM;
    u->buf_ring = io_uring_setup_buf_ring(&u->ring, BENCH_RECV_BUFS, URING_BUFFER_GROUP, 0, &rc);
    if (u->buf_ring == NULL) return rc;
    for (u32 i = 0; i < BENCH_RECV_BUFS; i++) buffer_recycle(io, u, i);
    io_uring_buf_ring_advance(u->buf_ring, (int)u->recycled);
    u->recycled = 0;
    return 0;
}

int cio_uring_open(cio *io) {
    uring *u = calloc(1, sizeof(*u));
    if (u == NULL) return -ENOMEM;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                 IORING_SETUP_CLAMP,
        .cq_entries = URING_CQ_ENTRIES,
    };
    int rc = io_uring_queue_init_params(URING_SQ_ENTRIES, &u->ring, &params);
    if (rc != 0) {
        free(u);
        return rc;
    }
    io->engine = u;
    rc = buffers_open(io, u);
    if (rc != 0) {
        uring_free(io);
        return rc;
    }
    (void)io_uring_register_ring_fd(
        &u->ring); // saves a lookup a call; not having it changes nothing
    io->v = &uring_vtable;
    return 0;
}
