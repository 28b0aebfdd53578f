// SPDX-License-Identifier: Apache-2.0
// sim_engine.h: inside of the simulated engine, shared by sim.c (the calls that start something) and
// sim_run.c (io_run: what completes, in which order).
#ifndef SLUICE_IO_SIM_ENGINE_H
#define SLUICE_IO_SIM_ENGINE_H

#include "io/engine.h"
#include "io/sim_bufs.h"
#include "io/sim_net.h"

#define SIM_RECV_BUFS_DEFAULT 64u
#define SIM_RECV_TURNS 16u // reads of one connection in a row at the most
#define SIM_QUEUE_MAX 4096u // completions fixed in one turn and not delivered yet

// What the engine knows of a handle, by slot.
typedef struct sim_op {
    sim_socket *socket;      // NULL: slot not in use
    bool multishot;
    bool late;               // stopping, but one more completion comes before the end
    bool shot;               // the completion of a one-shot receive is queued
    bool ended;              // a final receive completion is queued
    bool closing, reset;
    bool lent;               // the send in flight borrows a receive buffer
    bool accept_single;      // one connection at a time
    bool send_silent;        // the send is done, nobody was woken for it
    bool send_queued;        // the send is done, its completion is queued
    u16 lent_buf;
    u32 lent_len;
    const u8 *lent_data;
    const struct iovec *lent_iov; // the caller's: must stay too
    u64 send_digest;         // of the memory being sent, checked at completion
    u32 queued;              // completions queued for this handle
    u64 accept_ns, recv_ns, send_ns, connect_ns, close_ns, stop_ns; // not before
} sim_op;

typedef struct sim_done {
    recorder_event event;    // REC_ACCEPT, REC_RECV, REC_SENT, REC_CONNECT
    u32 slot, generation;
    int result;
    int buf;                 // receive: buffer index, -1 = none
    bool last;               // the operation has ended with it
    struct sockaddr_storage peer; // accept
} sim_done;

struct sim_engine {
    io_engine base;
    sim *world;
    sim_random rng;          // engine's own, so that engines do not disturb each other
    sim_op *ops;             // slots_max entries
    sim_bufs bufs;
    sim_done *queue;         // FIFO of the turn
    u32 queue_head, queue_count;
    u32 *order;              // slots in this turn's order
    bool style_completion;   // of this turn
    bool rung;
    bool spurious;           // this turn was woken for nothing: it only tells silent sends
    bool tells_silent;       // this turn has another cause: silent sends end with it
    bool in_call;            // inside a starting call: no callback may run
    u64 deadline_ns;         // given to the last io_run
    // The loan that is open: inside on_recv.
    int loan_buf;            // -1 = none
    u32 loan_slot, loan_len;
    bool loan_taken;         // given to io_send_lent
};

static inline sim_engine *sim_engine_of(io_engine *e) {
    return (sim_engine *)e;
}

static inline bool sim_lucky(sim_engine *se, u32 permille) {
    return sim_random_chance(&se->rng, permille);
}

// Time before which an operation that starts now does not complete.
u64 sim_engine_not_before(sim_engine *se);
// Sends now. Bytes, -EAGAIN or the error.
int sim_engine_write(sim_engine *se, sim_op *op, const struct iovec *iov, u32 iovs);
u64 sim_engine_digest(const struct iovec *iov, u32 iovs);
u64 sim_engine_send_digest(const io_handle *h, const sim_op *op);
int sim_engine_run(io_engine *e, u64 deadline_ns);

#endif
