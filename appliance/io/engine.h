// SPDX-License-Identifier: Apache-2.0
// engine.h: what the engines share behind io.h: the table of operations each one implements, and the
// slot table that gives every handle a number and a generation. Only files in io/ include this.
#ifndef SLUICE_IO_ENGINE_H
#define SLUICE_IO_ENGINE_H

#include "io/io.h"

#define IO_SLOT_NONE UINT32_MAX
#define IO_GENERATION_MASK 0xffffffu // 24 bits: user_data is op:8 | generation:24 | slot:32

typedef struct io_ops {
    int (*enable)(io_engine *e);
    void (*destroy)(io_engine *e);
    int (*attach)(io_engine *e, io_handle *h);   // fd, slot and generation are set
    void (*detach)(io_engine *e, io_handle *h);
    void (*accept_start)(io_engine *e, io_handle *h, bool multishot);
    void (*accept_stop)(io_engine *e, io_handle *h);
    void (*recv_start)(io_engine *e, io_handle *h, bool multishot);
    void (*recv_stop)(io_engine *e, io_handle *h);
    int (*send)(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs);
    int (*send_lent)(io_engine *e, io_handle *h, const struct iovec *iov);
    void (*send_simply)(io_engine *e, io_handle *h); // NULL: they are simple already
    void (*connect)(io_engine *e, io_handle *h, const struct sockaddr *addr, socklen_t addr_len);
    void (*close)(io_engine *e, io_handle *h, bool reset);
    int (*run)(io_engine *e, u64 deadline_ns);
    void (*wake)(io_engine *e);                  // any thread
    void (*trim)(io_engine *e);                  // may be NULL
} io_ops;

typedef struct io_slot {
    io_handle *handle;  // NULL when free
    u32 generation;
    u32 next_free;
} io_slot;

// Every engine's struct begins with this.
struct io_engine {
    const io_ops *ops;
    io_kind kind;
    recorder *rec;
    u64 *now_ns;
    io_slot *slots;     // slots_max entries, mapped (untouched ones cost nothing)
    u32 slots_max;
    u32 slots_touched;  // slots below this were used before
    u32 slot_free;      // head of the free list
    u32 handles;        // attached now
    io_stats stats;
};

// Sets up and releases the common part. Return 0 or -ENOMEM.
int io_engine_init(io_engine *e, const io_ops *ops, const io_config *config);
void io_engine_fini(io_engine *e);

// Constructors; see io_create. *out is the common part of the engine's own struct.
int io_uring_create(const io_config *config, io_engine **out, const char **step);
int io_readiness_create(const io_config *config, io_engine **out, const char **step);
int io_sim_create(const io_config *config, io_engine **out, const char **step);

static inline void io_record(io_engine *e, recorder_event event, const io_handle *h, int result,
                             u32 flags) {
    recorder_add(e->rec, event, h->slot, h->generation, result, flags);
}

// The handle a completion belongs to, or NULL when its slot has been reused or freed since.
static inline io_handle *io_slot_find(io_engine *e, u32 slot, u32 generation) {
    if (UNLIKELY(slot >= e->slots_touched)) return NULL;
    io_slot *s = &e->slots[slot];
    return LIKELY(s->handle != NULL && s->generation == generation) ? s->handle : NULL;
}

// Gives the slot back; the handle is then detached. For engines, at the end of close and in detach.
void io_slot_release(io_engine *e, io_handle *h);

#endif
