// SPDX-License-Identifier: Apache-2.0
// client_io.c: the engine-independent half of the generator's event loop: choice of the engine,
// slots and generations of connections.
#include "bench/client_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/client_io_impl.h"

static void slots_free(cio *io) {
    free(io->free_slots);
    free(io->conns);
    free(io->generations);
    free(io);
}

static cio *slots_new(u32 conns, u32 buf_bytes) {
    cio *io = calloc(1, sizeof(*io));
    if (io == NULL) return NULL;
    io->slots = io->free_count = conns;
    io->buf_bytes = buf_bytes;
    io->free_slots = malloc((size_t)conns * sizeof(*io->free_slots));
    io->conns = calloc(conns, sizeof(cio_conn *));
    io->generations = calloc(conns, sizeof(*io->generations));
    if (io->free_slots == NULL || io->conns == NULL || io->generations == NULL) {
        slots_free(io);
        return NULL;
    }
    for (u32 i = 0; i < conns; i++) io->free_slots[i] = conns - 1 - i; // slot 0 is handed out first
    return io;
}

cio *cio_open(cio_engine engine, u32 conns, u32 buf_bytes, char *why, size_t why_bytes) {
    ASSERT(conns > 0);
    why[0] = 0;
    cio *io = slots_new(conns, buf_bytes);
    if (io == NULL) {
        snprintf(why, why_bytes, "no memory for %u connections", conns);
        return NULL;
    }
    int rc = -ENOSYS;
    if (engine != CIO_EPOLL) {
        rc = cio_uring_open(io);
        if (rc == 0) return io;
        snprintf(why, why_bytes, "the generator's io_uring set-up failed: %s%s", errno_name(rc),
                 rc == -EPERM || rc == -EACCES ? " (seccomp or kernel.io_uring_disabled)"
                 : rc == -ENOSYS               ? " (this kernel has no io_uring)"
                 : rc == -EINVAL               ? " (kernel older than 6.1)"
                                               : "");
    }
    if (engine != CIO_URING) {
        rc = cio_epoll_open(io);
        if (rc == 0) return io;
        snprintf(why, why_bytes, "epoll set-up failed: %s", errno_name(rc));
    }
    slots_free(io);
    return NULL;
}

void cio_free(cio *io) {
    for (u32 i = 0; i < io->slots; i++) {
        if (io->conns[i] != NULL) cio_close(io, io->conns[i]);
    }
    io->v->free(io);
    slots_free(io);
}

const char *cio_engine_name(const cio *io) {
    return io->v->name;
}

int cio_attach(cio *io, cio_conn *c, int fd, const cio_events *events, bool once) {
    if (io->free_count == 0) return -ENFILE;
    u32 slot = io->free_slots[--io->free_count];
    *c = (cio_conn){.events = events, .fd = fd, .slot = slot, .once = once, .open = true};
    c->generation = io->generations[slot]++ & CIO_GENERATION_MASK;
    io->conns[slot] = c;
    int rc = io->v->attach(io, c);
    if (rc == 0) return 0;
    io->conns[slot] = NULL;
    io->free_slots[io->free_count++] = slot;
    c->open = false;
    return rc;
}

void cio_close(cio *io, cio_conn *c) {
    ASSERT(c->open && io->conns[c->slot] == c);
    io->v->detach(io, c);
    close(c->fd);
    io->conns[c->slot] = NULL;
    io->free_slots[io->free_count++] = c->slot;
    c->open = c->sending = false;
    c->fd = -1;
}

int cio_send(cio *io, cio_conn *c, const u8 *bytes, u32 len) {
    ASSERT(c->open && !c->sending && len > 0);
    if (c->ended) return -EPIPE;
    c->tx = bytes;
    c->tx_left = len;
    c->sending = true;
    int rc = io->v->send(io, c);
    if (rc != 0) c->sending = false;
    return rc;
}

u32 cio_poll(cio *io) {
    return io->v->turn(io, false, 0);
}

u32 cio_wait(cio *io, u64 until_ns) {
    return io->v->turn(io, true, until_ns);
}
