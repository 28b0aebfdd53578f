// SPDX-License-Identifier: Apache-2.0
// io.h: the one I/O interface. The rest of the program sees operations that complete; `uring` implements
// them natively, the readiness engines (epoll-et, epoll-lt, poll, select) emulate them, and `sim`
// implements them from a seed for tests.
//
// An engine belongs to one thread, its owner; every function here except io_wake is for the owner only,
// io_create and io_destroy excepted (main makes the engines before the workers start).
// A handle is a struct inside its owner (connection, listener); it has a slot and a generation, and a
// completion carries operation, generation and slot, so that one which arrives for a reused slot is
// recognised (and asserted on: slots are freed only when nothing is outstanding).
//
// Invariants the callers may rely on:
// - callbacks run only inside io_run, never inside the call that started the operation;
// - at most one send of a handle is in flight; bytes are delivered in order;
// - after on_closed nothing more is called for that handle;
// - memory lent by on_recv is valid until on_recv returns, unless it was given to io_send_lent.
#ifndef SLUICE_IO_IO_H
#define SLUICE_IO_IO_H

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/hist.h"
#include "base/recorder.h"

typedef enum io_kind {
    IO_URING,
    IO_EPOLL_ET,
    IO_EPOLL_LT,
    IO_POLL,
    IO_SELECT,
    IO_SIM,
    IO_KINDS
} io_kind;

#define IO_PENDING (-1000000) // the result comes with on_send

// Operations outstanding on a handle (bits of io_handle.armed).
enum {
    IO_ARMED_ACCEPT = 1u << 0,
    IO_ARMED_RECV = 1u << 1,
    IO_ARMED_SEND = 1u << 2,
    IO_ARMED_CONNECT = 1u << 3,
    IO_ARMED_STARVED = 1u << 4, // receive wanted, waits for a buffer to come back
    IO_ARMED_STOPPING = 1u << 5, // uring: stopped by the owner, the kernel has not ended it yet
};

typedef struct io_engine io_engine;
typedef struct io_handle io_handle;

typedef struct io_callbacks {
    // result >= 0: a new connected descriptor, close-on-exec and in the blocking mode that this kind of
    // engine wants, now the callee's; peer is valid during the call.
    // result < 0: -errno; accepting has stopped until io_accept_start.
    void (*on_accept)(io_handle *h, int result, const struct sockaddr_storage *peer);
    // result > 0: bytes at data. 0: end of stream, < 0: -errno; receiving has stopped.
    // For a one-shot receive, receiving has stopped in any case.
    void (*on_recv)(io_handle *h, int result, u8 *data);
    // result >= 0: bytes sent (may be fewer than asked), < 0: -errno. Memory of a lent buffer is valid
    // until this returns.
    void (*on_send)(io_handle *h, int result);
    void (*on_connect)(io_handle *h, int result);
    // The descriptor is closed (or its close is queued) and nothing is outstanding; the handle is free.
    void (*on_closed)(io_handle *h);
} io_callbacks;

struct io_handle {
    const io_callbacks *callbacks;
    int fd;            // -1 when not attached
    u32 slot;          // UINT32_MAX when not attached
    u32 generation;    // 24 bits used
    u8 armed;          // IO_ARMED_* bits
    u8 flags;          // the engine's own (IO_HANDLE_*)
    u16 lent_buf;      // uring: buffer id that the send in flight borrows
    u32 link_next;     // engine's list of ready, starved or closing handles, by slot
    u32 ready;         // readiness engines: what the kernel said and is not used up yet; uring: turn and full buffers
    const struct iovec *send_iov; // the send in flight
    u32 send_iovs;
    union {
        u32 poll_index;   // readiness engines: the poller's own place for it
        i32 eager_result; // uring: of a send that did not go out whole at once
    };
};

// Engine counters: single writer, any reader.
typedef struct io_stats {
    counter waits;             // times the engine asked the kernel for events
    counter batched_waits;     // uring: waits for several events (io_config.min_wait_us)
    counter syscalls;          // system calls entered by the engine, waits included
    counter completions;       // events or completions handled
    counter accepts;
    counter recvs;
    counter recv_bytes;
    counter sends;
    counter sent_bytes;
    counter short_sends;
    counter send_waits;        // socket was full
    counter enobufs;           // uring: multishot receive ended without a buffer
    counter rearms;            // uring: multishot re-armed after it ended by itself
    counter cq_overflows;      // uring: completion queue overflowed
    counter sq_full;           // uring: submission queue was full, flushed early
    counter stale;             // completions of a reused slot (must stay 0)
    counter wakes_received;
    counter bufs_free;         // receive buffers free now
    counter bufs_free_low;     // lowest since start (low-water mark)
    counter bufs_total;
    hist batch;                // completions handled per wait
} io_stats;

typedef struct io_config {
    io_kind kind;
    u32 handles_max;     // handles attached at once
    u32 recv_bufs;       // uring: provided buffers, power of two; 0 = default
    u32 sq_entries;      // uring: power of two; 0 = default
    u32 min_wait_us;     // uring: longest wait to gather a batch under load; 0 = never wait for one
    bool sqpoll;         // uring, for measurement only: burns a core
    u64 sim_seed;        // sim
    recorder *rec;       // flight recorder of the owner, may not be NULL
    u64 *now_ns;         // the owner's cached clock: the engine sets it after each wait
} io_config;

// Creates an engine; any thread. On failure returns -errno and puts the step that failed into *step (a
// static string, "io_uring_setup", "register buffer ring").
int io_create(const io_config *config, io_engine **out, const char **step);
// Must be called by the owner before any other use: binds the engine to this thread.
int io_enable(io_engine *e);
// All handles must be closed. Any thread, after the owner has ended.
void io_destroy(io_engine *e);

io_kind io_engine_kind(const io_engine *e);
const io_stats *io_engine_stats(const io_engine *e);
// "uring", "epoll-et", ...; io_kind_parse returns false for an unknown name.
const char *io_kind_name(io_kind kind);
bool io_kind_parse(const char *name, io_kind *kind);

// Whether descriptors given to this kind of engine must be O_NONBLOCK (readiness engines) or must not be
// (uring: a non-blocking socket would answer EAGAIN instead of waiting).
static inline bool io_kind_wants_nonblock(io_kind kind) {
    return kind != IO_URING;
}

// Attaches a descriptor to the engine; it becomes the engine's to close.
// Returns 0, -ENOMEM, -ENOSPC (select: descriptor beyond its set; slots used up), or epoll's -errno.
int io_attach(io_engine *e, io_handle *h, int fd, const io_callbacks *callbacks);
// Takes the descriptor out again (hand-over to another worker). Nothing may be outstanding.
// Returns the descriptor, which is the caller's.
int io_detach(io_engine *e, io_handle *h);

// Accepts connections until an error or io_accept_stop.
void io_accept_start(io_engine *e, io_handle *h);
// The same, but connections are taken from the kernel one by one, so that io_accept_stop in on_accept
// leaves all others in the backlog. (uring otherwise brings a whole backlog at once.)
void io_accept_start_single(io_engine *e, io_handle *h);
void io_accept_stop(io_engine *e, io_handle *h);

// Receives: once, or until an error, the end, or io_recv_stop. After io_recv_stop (back-pressure) the
// uring engine may still deliver what had completed; the callee keeps it.
void io_recv_start(io_engine *e, io_handle *h, bool multishot);
void io_recv_stop(io_engine *e, io_handle *h);
static inline bool io_recv_is_armed(const io_handle *h) {
    return (h->armed & (IO_ARMED_RECV | IO_ARMED_STARVED)) != 0 && !(h->armed & IO_ARMED_STOPPING);
}

// Sends. iov and its memory stay untouched until completion. Returns bytes sent at once (> 0, may be
// short), -errno, or IO_PENDING: then on_send follows. Waits for room when the socket is full.
int io_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs);
// Sends one piece of memory lent by the on_recv that is running, without waiting for room: a full socket
// gives -EAGAIN or a short count. The engine keeps the lent buffer until completion; iov itself stays
// untouched until then too.
int io_send_lent(io_engine *e, io_handle *h, const struct iovec *iov);

// From now on this handle's sends carry no flags that only plain TCP knows: kernel TLS refuses MSG_WAITALL
// (EOPNOTSUPP). Forgotten by io_detach.
void io_send_simply(io_engine *e, io_handle *h);
// Connects a stream socket; on_connect follows.
void io_connect(io_engine *e, io_handle *h, const struct sockaddr *addr, socklen_t addr_len);

// Shuts down, ends what is outstanding, closes; on_closed follows inside io_run.
// reset: abandon unsent data and answer with RST (SO_LINGER 0) instead of FIN.
void io_close(io_engine *e, io_handle *h, bool reset);

// Waits until something completes or the deadline (CLOCK_MONOTONIC ns; 0 = do not wait, UINT64_MAX =
// none), runs callbacks. Returns completions handled (0 at the deadline), or -errno when the engine
// can not go on (the process then ends with a clear message).
int io_run(io_engine *e, u64 deadline_ns);

// Gives memory back to the system that an engine without much to do does not need; about once a second.
void io_trim(io_engine *e);

// Any thread: makes io_run of the owner return soon. One system call; callers ring once per batch.
void io_wake(io_engine *e);

#endif
