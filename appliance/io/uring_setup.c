// SPDX-License-Identifier: Apache-2.0
// uring_setup.c: opening a ring: flags, buffer ring, opcode restrictions. Done once per worker by main,
// so that a refusal by the kernel is known before anything starts.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/uring.h"

#define SQ_ENTRIES_DEFAULT 1024u // with multishot the queue holds sends, re-arms and closes only
#define CQ_ENTRIES_MIN 4096u
// 1 MiB a worker. Since 6.10 one wait runs a few dozen receives at the most, so more would only be
// touched in turn: 64, 256 and 1,024 cost the same per message. Older kernels may end receives with
// ENOBUFS in a burst, which re-arms them.
#define RECV_BUFS_DEFAULT 256u

// What the gateway submits, and nothing else: a compromised worker can not open files or sockets
// through its ring.
static const u8 allowed_ops[] = {
    IORING_OP_ACCEPT, IORING_OP_RECV,         IORING_OP_SEND,     IORING_OP_SENDMSG,
    IORING_OP_CLOSE,  IORING_OP_ASYNC_CANCEL, IORING_OP_POLL_ADD, IORING_OP_TIMEOUT,
    IORING_OP_CONNECT,
};
static const u8 allowed_registers[] = {
    IORING_REGISTER_ENABLE_RINGS,  IORING_REGISTER_RING_FDS, IORING_UNREGISTER_RING_FDS,
    IORING_UNREGISTER_PBUF_RING,
};

static int restrictions_set(uring_engine *ue) {
    struct io_uring_restriction list[ARRAY_LEN(allowed_ops) + ARRAY_LEN(allowed_registers) + 1];
    memset(list, 0, sizeof(list));
    u32 count = 0;
    for (u32 i = 0; i < ARRAY_LEN(allowed_ops); i++) {
        list[count].opcode = IORING_RESTRICTION_SQE_OP;
        list[count++].sqe_op = allowed_ops[i];
    }
    for (u32 i = 0; i < ARRAY_LEN(allowed_registers); i++) {
        list[count].opcode = IORING_RESTRICTION_REGISTER_OP;
        list[count++].register_op = allowed_registers[i];
    }
    list[count].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
    list[count++].sqe_flags = IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS;
    return io_uring_register_restrictions(&ue->ring, list, count);
}

static int buffers_open(uring_engine *ue, u32 bufs) {
    size_t bytes = (size_t)bufs * LIMIT_RECV_BUF_BYTES;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    ue->buf_memory = memory;
    ue->bufs = bufs;
    int result = 0;
    ue->buf_ring = io_uring_setup_buf_ring(&ue->ring, bufs, 0, 0, &result);
    if (ue->buf_ring == NULL) return result;
    for (u32 i = 0; i < bufs; i++) {
        io_uring_buf_ring_add(ue->buf_ring, ue->buf_memory + (size_t)i * LIMIT_RECV_BUF_BYTES,
                              LIMIT_RECV_BUF_BYTES, (u16)i, (int)(bufs - 1), (int)i);
    }
    io_uring_buf_ring_advance(ue->buf_ring, (int)bufs);
    ue->bufs_free = ue->bufs_free_low = bufs;
    counter_set(&ue->base.stats.bufs_total, bufs);
    counter_set(&ue->base.stats.bufs_free, bufs);
    counter_set(&ue->base.stats.bufs_free_low, bufs);
    return 0;
}

int uring_ring_open(uring_engine *ue, const io_config *config, const char **step) {
    // Room for a burst of everything at once; overflow loses nothing but is the slow path.
    u32 cq_entries = CQ_ENTRIES_MIN;
    while (cq_entries < 65536 && cq_entries < config->handles_max / 4) cq_entries *= 2;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
                 IORING_SETUP_R_DISABLED,
        .cq_entries = cq_entries,
    };
    // SQPOLL has a kernel thread submit; it excludes deferred task work. For measurement only.
    params.flags |= config->sqpoll ? IORING_SETUP_SQPOLL
                                   : IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    params.sq_thread_idle = 100;
    *step = "io_uring_setup";
    u32 sq_entries = config->sq_entries != 0 ? config->sq_entries : SQ_ENTRIES_DEFAULT;
    int result = io_uring_queue_init_params(sq_entries, &ue->ring, &params);
    if (result < 0) {
        ue->ring.ring_fd = -1;
        return result;
    }
    *step = "io_uring features (6.1 or later)";
    u32 needed = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_FAST_POLL |
                 IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;
    if ((params.features & needed) != needed) return -EINVAL;
    ue->sqpoll = config->sqpoll;
    ue->min_wait_us = params.features & IORING_FEAT_MIN_TIMEOUT ? config->min_wait_us : 0; // 6.12
    *step = "register buffer ring";
    result = buffers_open(ue, config->recv_bufs != 0 ? config->recv_bufs : RECV_BUFS_DEFAULT);
    if (result < 0) return result;
    *step = "register restrictions";
    return restrictions_set(ue);
}
