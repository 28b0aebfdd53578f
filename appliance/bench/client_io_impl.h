// SPDX-License-Identifier: Apache-2.0
// client_io_impl.h: between client_io.c and its two engines, seen by no one else. Each engine fills
// a table of functions; client_io.c keeps the slots. user_data of both kernels' interfaces is op:8
// | generation:24 | slot:32, so that an event of a connection that was closed and whose slot is
// used again is recognised and dropped.
#ifndef SLUICE_BENCH_CLIENT_IO_IMPL_H
#define SLUICE_BENCH_CLIENT_IO_IMPL_H

#include "bench/client_io.h"

#define CIO_GENERATION_MASK 0xffffffu

typedef enum cio_op { CIO_OP_RECV = 1, CIO_OP_SEND = 2 } cio_op;

typedef struct cio_vtable {
    const char *name;
    void (*free)(cio *io);
    int (*attach)(cio *io, cio_conn *c);
    void (*detach)(cio *io, cio_conn *c);
    int (*send)(cio *io, cio_conn *c);
    u32 (*turn)(cio *io, bool wait, u64 until_ns);
} cio_vtable;

struct cio {
    const cio_vtable *v;
    void *engine; // the engine's own state
    u32 buf_bytes;
    u32 slots, free_count;
    u32 *free_slots;  // stack of unused slots
    cio_conn **conns; // by slot; NULL while unused
    u32 *generations; // of the next user of the slot
};

static inline u64 cio_tag(cio_op op, const cio_conn *c) {
    return (u64)op << 56 | (u64)(c->generation & CIO_GENERATION_MASK) << 32 | c->slot;
}

static inline cio_op cio_tag_op(u64 tag) {
    return (cio_op)(tag >> 56);
}

// The connection an event is for, or NULL if it is gone.
static inline cio_conn *cio_tag_conn(cio *io, u64 tag) {
    u32 slot = (u32)tag;
    ASSERT(slot < io->slots);
    cio_conn *c = io->conns[slot];
    if (c == NULL || c->generation != ((u32)(tag >> 32) & CIO_GENERATION_MASK)) return NULL;
    return c;
}

// Reports the end of a connection once.
static inline void cio_end(cio_conn *c, int err) {
    if (c->ended) return;
    c->ended = true;
    c->sending = false;
    c->events->ended(c->events->ctx, c, err);
}

// Each returns 0 with io->v and io->engine set, or a negative errno with nothing left open.
int cio_uring_open(cio *io);
int cio_epoll_open(cio *io);

#endif
