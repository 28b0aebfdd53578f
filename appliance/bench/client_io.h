// SPDX-License-Identifier: Apache-2.0
// client_io.h: the load generator's own event loop, as small as its job allows: receive on many
// connections, one send in flight on each, nothing else. Two engines: io_uring (multishot receive
// into provided buffers, sends submitted together) and epoll, edge-triggered, for machines without
// it. It is not the gateway's engine on purpose: what measures must not share code with what is
// measured.
//
// One thread uses a cio. Callbacks run inside cio_poll and cio_wait, except that with the epoll
// engine a send may complete inside cio_send (see its return value).
#ifndef SLUICE_BENCH_CLIENT_IO_H
#define SLUICE_BENCH_CLIENT_IO_H

#include "base/base.h"

typedef struct cio cio;
typedef struct cio_conn cio_conn;

typedef enum cio_engine { CIO_AUTO, CIO_URING, CIO_EPOLL } cio_engine;

typedef struct cio_events {
    void *ctx;
    // Bytes arrived; they are valid during the call only. now_ns: when the kernel was last asked.
    void (*data)(void *ctx, cio_conn *c, const u8 *bytes, size_t len, u64 now_ns);
    // The buffer given to cio_send was taken whole and may be reused.
    void (*sent)(void *ctx, cio_conn *c);
    // The connection is over: err is 0 after the peer's FIN, else a negative errno. It is still
    // attached; the owner calls cio_close. A send in flight gets no further call.
    void (*ended)(void *ctx, cio_conn *c, int err);
} cio_events;

// Part of each connection of the generator; all fields belong to the engine but fd may be read.
struct cio_conn {
    const cio_events *events;
    const u8 *tx;
    u32 tx_left;
    int fd;
    u32 slot, generation;
    bool open, once, sending, ended;
    bool armed; // a receive may still complete (io_uring), or more may be readable (epoll)
};

// Opens an engine for up to conns connections; buf_bytes: a receive buffer. CIO_AUTO tries io_uring
// and takes epoll if it is refused; *why then says why (empty otherwise). NULL with *why set on
// failure.
cio *cio_open(cio_engine engine, u32 conns, u32 buf_bytes, char *why, size_t why_bytes);
void cio_free(cio *io);
const char *cio_engine_name(const cio *io);

// Takes over fd and starts receiving. once: the connection expects one short reply and is then
// closed (single receives instead of a multishot one, so that closing has nothing to cancel). 0 or
// a negative errno; the fd stays the caller's on error.
int cio_attach(cio *io, cio_conn *c, int fd, const cio_events *events, bool once);
// Closes the connection and its fd. No callback comes for it afterwards.
void cio_close(cio *io, cio_conn *c);
// Sends len bytes, which must stay as they are until `sent`. One send at a time on a connection.
// 1: taken at once (no callback follows); 0: in progress; or a negative errno.
int cio_send(cio *io, cio_conn *c, const u8 *bytes, u32 len);

// Submits what is queued and handles what is ready, without waiting. Returns the number of
// completions and submissions handled: 0 means there was nothing to do.
u32 cio_poll(cio *io);
// The same, but waits until something is ready or CLOCK_MONOTONIC reaches until_ns.
u32 cio_wait(cio *io, u64 until_ns);

#endif
