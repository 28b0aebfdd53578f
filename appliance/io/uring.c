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
// - A close first cancels what is outstanding, by user_data (by descriptor would walk every armed request of the
//   ring), in the same submission as everything else. Where that fails and the operation goes on (some kernels:
//   liburing #1375), shutdown(2) ends it.
#include "io/uring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define BATCH_TARGET_MAX 64u
#define RATE_WINDOW_NS (4 * NS_PER_MS)
#define TRIM_RECVS_MAX 16u // in the last second: fewer page faults than the memory is worth

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
    if (deadline_ns != UINT64_MAX) uring_timeout_arm(ue, deadline_ns);
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
    ue->turn++;
    u32 sends = uring_eager_run(ue);
    u32 count = uring_completions_run(ue);
    if (UNLIKELY(io_uring_cq_has_overflow(&ue->ring))) counter_add(&e->stats.cq_overflows, 1);
    uring_starved_run(ue);
    rate_account(ue, count);
    if (count > 0) {
        counter_add(&e->stats.completions, count);
        hist_record(&e->stats.batch, count);
    }
    return (int)(count + sends + uring_closed_run(ue));
}

// A worker that receives next to nothing lets the memory of its receive buffers go: a megabyte that counts where
// many connections are idle. Nothing may lie in them: none lent, no completion unread (the kernel writes only
// inside this thread's system calls).
static void uring_trim(io_engine *e) {
    uring_engine *ue = uring_of(e);
    u64 recvs = counter_get(&e->stats.recvs);
    u64 lately = recvs - ue->trimmed_recvs;
    ue->trimmed_recvs = recvs;
    if (lately > 0) ue->bufs_resident = true;
    if (!ue->bufs_resident || ue->sqpoll || lately > TRIM_RECVS_MAX || ue->bufs_free != ue->bufs) return;
    if (io_uring_cq_ready(&ue->ring) > 0 || io_uring_cq_has_overflow(&ue->ring)) return;
    if (madvise(ue->buf_memory, (size_t)ue->bufs * LIMIT_RECV_BUF_BYTES, MADV_DONTNEED) == 0) ue->bufs_resident = false;
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
    uring_doorbell_arm(ue);
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
    .send_simply = uring_send_simply,
    .connect = uring_connect,
    .close = uring_close,
    .run = uring_run,
    .trim = uring_trim,
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
