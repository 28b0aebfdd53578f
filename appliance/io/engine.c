// SPDX-License-Identifier: Apache-2.0
// engine.c: the part of io.h that is the same for every engine: creation by kind, the slot table, and
// the checks every call makes before the engine's own operation runs.
#include "io/engine.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const char *const kind_names[IO_KINDS] = {
    [IO_URING] = "uring", [IO_EPOLL_ET] = "epoll-et", [IO_EPOLL_LT] = "epoll-lt",
    [IO_POLL] = "poll",   [IO_SELECT] = "select",     [IO_SIM] = "sim",
};

const char *io_kind_name(io_kind kind) {
    ASSERT((u32)kind < IO_KINDS);
    return kind_names[kind];
}

bool io_kind_parse(const char *name, io_kind *kind) {
    for (u32 i = 0; i < IO_SIM; i++) { // sim is for tests: never chosen by name
        if (strcmp(name, kind_names[i]) != 0) continue;
        *kind = (io_kind)i;
        return true;
    }
    return false;
}

int io_engine_init(io_engine *e, const io_ops *ops, const io_config *config) {
    e->ops = ops;
    e->kind = config->kind;
    e->rec = config->rec;
    e->now_ns = config->now_ns;
    e->slots_max = config->handles_max;
    e->slot_free = IO_SLOT_NONE;
    size_t bytes = (size_t)e->slots_max * sizeof(io_slot);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return -ENOMEM;
    e->slots = map;
    return 0;
}

void io_engine_fini(io_engine *e) {
    if (e->slots != NULL) munmap(e->slots, (size_t)e->slots_max * sizeof(io_slot));
    e->slots = NULL;
}

int io_create(const io_config *config, io_engine **out, const char **step) {
    ASSERT(config->rec != NULL && config->now_ns != NULL);
    ASSERT(config->handles_max > 0);
    switch (config->kind) {
    case IO_URING:
        return io_uring_create(config, out, step);
    case IO_EPOLL_ET:
    case IO_EPOLL_LT:
    case IO_POLL:
    case IO_SELECT:
        return io_readiness_create(config, out, step);
    case IO_SIM:
        return io_sim_create(config, out, step);
    case IO_KINDS:
        break;
    }
    ASSERT(false);
}

int io_enable(io_engine *e) {
    return e->ops->enable(e);
}

void io_destroy(io_engine *e) {
    if (e != NULL) e->ops->destroy(e);
}

io_kind io_engine_kind(const io_engine *e) {
    return e->kind;
}

const io_stats *io_engine_stats(const io_engine *e) {
    return &e->stats;
}

static u32 slot_take(io_engine *e) {
    u32 slot = e->slot_free;
    if (slot != IO_SLOT_NONE) {
        e->slot_free = e->slots[slot].next_free;
        return slot;
    }
    if (e->slots_touched == e->slots_max) return IO_SLOT_NONE;
    return e->slots_touched++;
}

void io_slot_release(io_engine *e, io_handle *h) {
    ASSERT(h->slot < e->slots_touched);
    io_slot *s = &e->slots[h->slot];
    ASSERT(s->handle == h);
    ASSERT(h->armed == 0);
    s->handle = NULL;
    s->next_free = e->slot_free;
    e->slot_free = h->slot;
    e->handles--;
    h->slot = IO_SLOT_NONE;
    h->fd = -1;
}

int io_attach(io_engine *e, io_handle *h, int fd, const io_callbacks *callbacks) {
    u32 slot = slot_take(e);
    if (slot == IO_SLOT_NONE) return -ENOSPC;
    io_slot *s = &e->slots[slot];
    s->generation = (s->generation + 1) & IO_GENERATION_MASK;
    s->handle = h;
    *h = (io_handle){.callbacks = callbacks, .fd = fd, .slot = slot, .generation = s->generation};
    e->handles++;
    int result = e->ops->attach(e, h);
    if (result < 0) io_slot_release(e, h);
    return result;
}

int io_detach(io_engine *e, io_handle *h) {
    ASSERT(h->armed == 0);
    int fd = h->fd;
    e->ops->detach(e, h);
    io_slot_release(e, h);
    return fd;
}

static void accept_start(io_engine *e, io_handle *h, bool multishot) {
    ASSERT(h->slot != IO_SLOT_NONE);
    if ((h->armed & IO_ARMED_ACCEPT) && !(h->armed & IO_ARMED_STOPPING)) return;
    io_record(e, REC_ACCEPT_ARM, h, 0, 0);
    e->ops->accept_start(e, h, multishot);
}

void io_accept_start(io_engine *e, io_handle *h) {
    accept_start(e, h, true);
}

void io_accept_start_single(io_engine *e, io_handle *h) {
    accept_start(e, h, false);
}

void io_accept_stop(io_engine *e, io_handle *h) {
    if (!(h->armed & IO_ARMED_ACCEPT) || (h->armed & IO_ARMED_STOPPING)) return;
    e->ops->accept_stop(e, h);
}

void io_recv_start(io_engine *e, io_handle *h, bool multishot) {
    ASSERT(h->slot != IO_SLOT_NONE);
    ASSERT(!io_recv_is_armed(h));
    io_record(e, REC_RECV_ARM, h, 0, multishot);
    e->ops->recv_start(e, h, multishot);
}

void io_recv_stop(io_engine *e, io_handle *h) {
    if (!io_recv_is_armed(h)) return;
    io_record(e, REC_RECV_STOP, h, 0, 0);
    e->ops->recv_stop(e, h);
}

int io_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs) {
    ASSERT(!(h->armed & IO_ARMED_SEND));
    ASSERT(iovs > 0 && iovs <= LIMIT_OUT_IOVECS);
    return e->ops->send(e, h, iov, iovs);
}

int io_send_lent(io_engine *e, io_handle *h, const struct iovec *iov) {
    ASSERT(!(h->armed & IO_ARMED_SEND));
    ASSERT(iov->iov_len > 0);
    io_record(e, REC_SEND, h, (int)iov->iov_len, 1);
    return e->ops->send_lent(e, h, iov);
}

void io_send_simply(io_engine *e, io_handle *h) {
    if (e->ops->send_simply != NULL) e->ops->send_simply(e, h);
}

void io_connect(io_engine *e, io_handle *h, const struct sockaddr *addr, socklen_t addr_len) {
    ASSERT(!(h->armed & IO_ARMED_CONNECT));
    e->ops->connect(e, h, addr, addr_len);
}

void io_close(io_engine *e, io_handle *h, bool reset) {
    ASSERT(h->slot != IO_SLOT_NONE);
    e->ops->close(e, h, reset);
}

int io_run(io_engine *e, u64 deadline_ns) {
    return e->ops->run(e, deadline_ns);
}

void io_trim(io_engine *e) {
    if (e->ops->trim != NULL) e->ops->trim(e);
}

void io_wake(io_engine *e) {
    e->ops->wake(e);
}
