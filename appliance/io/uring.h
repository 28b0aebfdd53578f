// SPDX-License-Identifier: Apache-2.0
// uring.h: the uring engine's struct, shared by uring.c (operations and completions) and uring_setup.c
// (ring, restrictions, buffers, and the probe). Only these two include it.
#ifndef SLUICE_IO_URING_H
#define SLUICE_IO_URING_H

#include <liburing.h>

#include "io/engine.h"

typedef struct uring_list { // of handles, by slot
    u32 head, tail, count;
} uring_list;

typedef struct uring_engine {
    io_engine base;
    struct io_uring ring;
    struct io_uring_buf_ring *buf_ring;
    u8 *buf_memory;
    u32 bufs, bufs_free, bufs_free_low, bufs_to_advance;
    u16 lending;           // buffer of the on_recv that runs; BUF_NONE when a send took it
    int doorbell_fd;
    u64 timeout_ns;        // deadline of the outstanding TIMEOUT; UINT64_MAX = none
    struct __kernel_timespec timeout_spec; // read at submission
    bool sqpoll;
    u32 min_wait_us;       // 0 = never wait for a batch
    u64 event_gap_ns;      // mean gap between events lately, 0 = unknown
    u64 window_start_ns;
    u32 window_events;
    u32 *eager;            // slots with an eager send in this submission
    u32 eager_count;
    struct msghdr *headers; // one a submission queue entry
    uring_list closed;     // on_closed is due
    uring_list starved;    // receives that wait for buffers
} uring_engine;

// Opens the ring with its flags, the buffer ring and the opcode restrictions. Returns 0, or -errno with
// the step that failed.
int uring_ring_open(uring_engine *ue, const io_config *config, const char **step);

#endif
