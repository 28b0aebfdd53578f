// SPDX-License-Identifier: Apache-2.0
// uring.h: inside the uring engine: its struct, the tags of its operations, and what its files do for each
// other. Only they include it.
//   uring.c           the loop, batching, life          uring_submit.c    starting operations
//   uring_complete.c  what completions do               uring_setup.c     ring, restrictions, buffers
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
    u32 timeout_number;    // of the newest TIMEOUT
    struct __kernel_timespec timeout_spec; // read at submission
    bool sqpoll;
    u32 min_wait_us;       // 0 = never wait for a batch
    u64 event_gap_ns;      // mean gap between events lately, 0 = unknown
    u64 window_start_ns;
    u32 window_events;
    u64 trimmed_recvs;     // io_stats.recvs at the last trim
    bool bufs_resident;    // the receive buffers have been written to since their memory was given back
    u32 *eager;            // slots with an eager send in this submission
    u32 eager_count;
    struct msghdr *headers; // one a submission queue entry
    u16 turn;              // counts io_run
    uring_list closed;     // on_closed is due
    uring_list starved;    // receives that wait for buffers
} uring_engine;

// user_data of a submission: op:8 | generation:24 | slot:32.
enum uring_op { OP_ACCEPT = 1, OP_RECV, OP_SEND, OP_SEND_EAGER, OP_CONNECT, OP_CLOSE, OP_WAKE, OP_TIMEOUT,
               OP_CANCEL };
static inline u64 uring_tag(enum uring_op op, const io_handle *h) {
    return (u64)op << 56 | (u64)h->generation << 32 | h->slot;
}

enum { // io_handle.flags
    H_CLOSING = 1u << 0,
    H_LISTED = 1u << 1,      // in the closed or the starved list
    H_ONE_SHOT = 1u << 2,
    H_RESTART = 1u << 3,     // started again before the stopped operation had ended: arm it then
    H_EAGER_TOLD = 1u << 4,  // the eager send posted a completion: result in handle.eager_result
    H_LENT = 1u << 5,        // the send in flight borrows the receive buffer lent_buf
    H_HEAVY = 1u << 6,       // received one buffer a turn, for it sends faster than it is taken
    H_SIMPLE_SEND = 1u << 7, // no MSG_WAITALL, so a completion for each send (io_send_simply)
};

#define BUF_GROUP 0
#define BUF_NONE UINT16_MAX

static inline uring_engine *uring_of(io_engine *e) {
    return (uring_engine *)e;
}

// --- uring_submit.c ---

// The io_ops that start something; contracts in io.h.
void uring_accept_start(io_engine *e, io_handle *h, bool multishot);
void uring_accept_stop(io_engine *e, io_handle *h);
void uring_recv_start(io_engine *e, io_handle *h, bool multishot);
void uring_recv_stop(io_engine *e, io_handle *h);
int uring_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs);
void uring_send_simply(io_engine *e, io_handle *h);
int uring_send_lent(io_engine *e, io_handle *h, const struct iovec *iov);
void uring_connect(io_engine *e, io_handle *h, const struct sockaddr *addr, socklen_t addr_len);
void uring_close(io_engine *e, io_handle *h, bool reset);

void uring_submit_now(uring_engine *ue);      // what is queued, without waiting
void uring_recv_arm(uring_engine *ue, io_handle *h);
void uring_send_submit(uring_engine *ue, io_handle *h, enum uring_op op, u32 msg_flags, u8 sqe_flags);
u32 uring_iov_bytes(const struct iovec *iov, u32 iovs);
void uring_starved_add(uring_engine *ue, io_handle *h);
void uring_starved_run(uring_engine *ue);     // re-arms them when buffers are back
void uring_close_queue(uring_engine *ue, io_handle *h); // nothing is outstanding: close it
void uring_close_force(uring_engine *ue, io_handle *h); // a cancel of a closing handle failed: shutdown(2)
u32 uring_closed_run(uring_engine *ue);       // on_closed of what was closed; returns how many
void uring_doorbell_arm(uring_engine *ue);
void uring_timeout_arm(uring_engine *ue, u64 deadline_ns);

// --- uring_complete.c ---

u32 uring_eager_run(uring_engine *ue);        // ends the eager sends of the last submission
u32 uring_completions_run(uring_engine *ue);  // dispatches the completion queue; returns how many

// --- uring_setup.c ---

// Opens the ring with its flags, the buffer ring and the opcode restrictions. Returns 0, or -errno with
// the step that failed.
int uring_ring_open(uring_engine *ue, const io_config *config, const char **step);

#endif
