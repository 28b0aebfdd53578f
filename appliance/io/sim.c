// SPDX-License-Identifier: Apache-2.0
// sim.c: the engine of the simulated world: creation, and the calls that start or stop an operation.
// What completes, when and in which order is sim_run.c.
//
// It keeps the promises of io.h in the least convenient way, and asserts what callers promise: no use of
// a closed handle, one send at a time, memory of a send untouched until its completion, lent memory
// only inside the on_recv that lends it, nothing outstanding on a handle that is detached.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/sim_engine.h"

u64 sim_engine_not_before(sim_engine *se) {
    const sim_faults *faults = &se->world->config.faults;
    if (!sim_lucky(se, faults->delay)) return 0;
    se->world->counts.delays++;
    return se->world->now_ns + sim_random_below(&se->rng, faults->delay_ns_max + 1);
}

static sim_op *op_of(sim_engine *se, const io_handle *h) {
    ASSERT(h->slot < se->base.slots_touched);
    ASSERT(se->base.slots[h->slot].handle == h);
    sim_op *op = &se->ops[h->slot];
    ASSERT(op->socket != NULL);
    return op;
}

// The same, for calls that a handle may not get once it is closing.
static sim_op *op_open(sim_engine *se, const io_handle *h) {
    sim_op *op = op_of(se, h);
    ASSERT(!op->closing);
    return op;
}

static int sim_ops_attach(io_engine *e, io_handle *h) {
    sim_engine *se = sim_engine_of(e);
    sim_socket *socket = sim_fd_find(se->world, h->fd);
    ASSERT(socket != NULL);         // a descriptor of this world, open
    ASSERT(socket->engine == NULL); // in one engine at a time
    if (sim_lucky(se, se->world->config.faults.attach_error)) {
        se->world->counts.attach_errors++;
        sim_event(se->world, "attach", socket->number, -ENOMEM);
        return -ENOMEM;
    }
    socket->engine = se;
    socket->slot = h->slot;
    se->ops[h->slot] = (sim_op){.socket = socket};
    sim_event(se->world, "attach", socket->number, h->slot);
    return 0;
}

static void sim_ops_detach(io_engine *e, io_handle *h) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    ASSERT(op->queued == 0); // a completion would be lost on the way
    sim_event(se->world, "detach", op->socket->number, h->slot);
    op->socket->engine = NULL;
    op->socket = NULL;
}

// In completion style a stopped operation stays outstanding for a while (IO_ARMED_STOPPING), and what it
// still delivers reaches the callee. In readiness style the stop is all there is.
static void op_stop(sim_engine *se, io_handle *h, sim_op *op, u8 armed_bit) {
    if (!se->style_completion) {
        h->armed &= (u8)~armed_bit;
        return;
    }
    h->armed |= IO_ARMED_STOPPING;
    op->late = sim_lucky(se, se->world->config.faults.late_recv);
    op->stop_ns = sim_engine_not_before(se);
}

static void sim_ops_accept_start(io_engine *e, io_handle *h, bool multishot) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    ASSERT(op->socket->kind == SIM_SOCKET_LISTENER);
    h->armed = (u8)((h->armed & ~IO_ARMED_STOPPING) | IO_ARMED_ACCEPT);
    op->accept_single = !multishot;
    op->late = false;
    op->accept_ns = sim_engine_not_before(se);
}

static void sim_ops_accept_stop(io_engine *e, io_handle *h) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    op_stop(se, h, op, IO_ARMED_ACCEPT);
    if (op->accept_single) op->late = false; // the others stay in the backlog
}

static void sim_ops_recv_start(io_engine *e, io_handle *h, bool multishot) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    ASSERT(op->socket->kind == SIM_SOCKET_STREAM);
    h->armed = (u8)((h->armed & ~IO_ARMED_STOPPING) | IO_ARMED_RECV);
    op->multishot = multishot;
    op->late = false;
    op->recv_ns = sim_engine_not_before(se);
}

static void sim_ops_recv_stop(io_engine *e, io_handle *h) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    if (h->armed & IO_ARMED_STARVED) h->armed &= (u8)~IO_ARMED_STARVED;
    else op_stop(se, h, op, IO_ARMED_RECV);
}

// Order-sensitive digest of the memory of a send (FNV-1a).
u64 sim_engine_digest(const struct iovec *iov, u32 iovs) {
    u64 digest = 0xcbf29ce484222325ull;
    for (u32 i = 0; i < iovs; i++) {
        const u8 *bytes = iov[i].iov_base;
        for (size_t k = 0; k < iov[i].iov_len; k++) digest = (digest ^ bytes[k]) * 0x100000001b3ull;
    }
    return digest;
}

u64 sim_engine_send_digest(const io_handle *h, const sim_op *op) {
    if (op->lent) ASSERT(op->lent_iov->iov_base == op->lent_data && op->lent_iov->iov_len == op->lent_len);
    struct iovec lent = {.iov_base = (void *)(uintptr_t)op->lent_data, .iov_len = op->lent_len};
    return op->lent ? sim_engine_digest(&lent, 1) : sim_engine_digest(h->send_iov, h->send_iovs);
}

int sim_engine_write(sim_engine *se, sim_op *op, const struct iovec *iov, u32 iovs) {
    const sim_faults *faults = &se->world->config.faults;
    if (sim_lucky(se, faults->reset)) sim_socket_break(op->socket);
    u64 total = 0;
    for (u32 i = 0; i < iovs; i++) total += iov[i].iov_len;
    ASSERT(total > 0 && total <= INT32_MAX);
    u64 limit = total;
    if (total > 1 && sim_lucky(se, faults->short_send)) {
        limit = sim_random_range(&se->rng, 1, total - 1);
        se->world->counts.short_sends++;
    }
    u64 sent = 0;
    for (u32 i = 0; i < iovs && sent < limit; i++) {
        u32 part = (u32)MIN(iov[i].iov_len, limit - sent);
        if (part == 0) continue;
        ssize_t n = sim_socket_write(op->socket, iov[i].iov_base, part);
        if (n < 0) {
            if (sent > 0) break;
            return (int)n;
        }
        sent += (u64)n;
        if ((u32)n < part) break;
    }
    counter_add(&se->base.stats.sends, 1);
    counter_add(&se->base.stats.sent_bytes, sent);
    if (sent < total) counter_add(&se->base.stats.short_sends, 1);
    return (int)sent;
}

// Goes out whole at once, if there is room and chance will have it; sim_run.c tells the end.
static void send_silently(sim_engine *se, sim_op *op, const struct iovec *iov, u32 iovs, u64 bytes) {
    op->send_silent = false;
    if (!se->style_completion || !sim_lucky(se, se->world->config.faults.send_silent)) return;
    if (sim_socket_room(op->socket) < bytes) return;
    for (u32 i = 0; i < iovs; i++) {
        if (iov[i].iov_len == 0) continue;
        ssize_t n = sim_socket_write(op->socket, iov[i].iov_base, (u32)iov[i].iov_len);
        ASSERT(n == (ssize_t)iov[i].iov_len);
    }
    op->send_silent = true;
    se->world->counts.silent_sends++;
    counter_add(&se->base.stats.sends, 1);
    counter_add(&se->base.stats.sent_bytes, bytes);
}

static int sim_ops_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 iovs) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    ASSERT(op->socket->kind == SIM_SOCKET_STREAM);
    u64 bytes = 0;
    for (u32 i = 0; i < iovs; i++) bytes += iov[i].iov_len;
    io_record(e, REC_SEND, h, (int)bytes, 0);
    if (!se->style_completion && !sim_lucky(se, se->world->config.faults.send_pending)) {
        int result = sim_engine_write(se, op, iov, iovs);
        sim_event(se->world, "send", op->socket->number, result);
        if (result != -EAGAIN) {
            io_record(e, REC_SENT, h, result, 0);
            return result;
        }
        se->world->counts.send_waits++;
        counter_add(&e->stats.send_waits, 1);
        io_record(e, REC_SEND_WAIT, h, 0, 0);
    }
    h->armed |= IO_ARMED_SEND;
    h->send_iov = iov;
    h->send_iovs = iovs;
    op->lent = false;
    op->send_queued = false;
    op->send_digest = sim_engine_digest(iov, iovs);
    op->send_ns = sim_engine_not_before(se);
    send_silently(se, op, iov, iovs, bytes);
    return IO_PENDING;
}

static int sim_ops_send_lent(io_engine *e, io_handle *h, const struct iovec *iov) {
    const u8 *data = iov->iov_base;
    u32 len = (u32)iov->iov_len;
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_open(se, h);
    ASSERT(se->loan_buf >= 0);          // inside on_recv
    ASSERT(se->loan_slot == h->slot);   // of this handle
    ASSERT(!se->loan_taken);            // once
    const u8 *loan = se->bufs.memory[se->loan_buf];
    ASSERT(data >= loan && data + len <= loan + se->loan_len);
    bool scratch = (u32)se->loan_buf == se->bufs.count;
    if (scratch) {
        int result = sim_engine_write(se, op, iov, 1);
        sim_event(se->world, "send_lent", op->socket->number, result);
        io_record(e, REC_SENT, h, result, 1);
        return result;
    }
    se->loan_taken = true;
    h->armed |= IO_ARMED_SEND;
    op->lent = true;
    op->lent_buf = (u16)se->loan_buf;
    op->lent_data = data;
    op->lent_iov = iov;
    op->lent_len = len;
    op->send_queued = false;
    op->send_ns = sim_engine_not_before(se);
    op->send_digest = sim_engine_send_digest(h, op);
    send_silently(se, op, iov, 1, len);
    return IO_PENDING;
}

static void sim_ops_connect(io_engine *e, io_handle *h, const struct sockaddr *addr,
                            socklen_t addr_len) {
    sim_engine *se = sim_engine_of(e);
    sim *s = se->world;
    sim_op *op = op_open(se, h);
    ASSERT(op->socket->kind == SIM_SOCKET_FRESH);
    ASSERT(addr_len <= sizeof(op->socket->remote));
    memcpy(&op->socket->remote, addr, addr_len);
    op->socket->local_len = addr_len; // to find the listener with
    op->socket->kind = SIM_SOCKET_CONNECTING;
    op->socket->connect_ns = s->now_ns + sim_random_below(&s->rng, s->config.latency_ns_max + 1);
    op->connect_ns = sim_engine_not_before(se);
    h->armed |= IO_ARMED_CONNECT;
}

static void sim_ops_close(io_engine *e, io_handle *h, bool reset) {
    sim_engine *se = sim_engine_of(e);
    sim_op *op = op_of(se, h);
    if (op->closing) return;
    sim_event(se->world, reset ? "close_rst" : "close", op->socket->number, 0);
    op->closing = true;
    op->reset = reset;
    op->late = false;
    if (sim_lucky(se, se->world->config.faults.close_delay)) {
        se->world->counts.close_delays++;
        op->close_ns = se->world->now_ns +
                       sim_random_below(&se->rng, se->world->config.faults.delay_ns_max + 1);
    }
}

static void sim_ops_wake(io_engine *e) {
    sim_engine_of(e)->rung = true;
}

static int sim_ops_enable(io_engine *e) {
    (void)e; // nothing is bound to the thread
    return 0;
}

static void engine_leave_world(sim_engine *se) {
    sim *s = se->world;
    for (u32 i = 0; i < s->engine_count; i++) {
        if (s->engines[i] != se) continue;
        s->engines[i] = s->engines[--s->engine_count];
        return;
    }
}

static void sim_ops_destroy(io_engine *e) {
    sim_engine *se = sim_engine_of(e);
    ASSERT(e->handles == 0 && se->queue_count == 0);
    ASSERT(se->bufs.free_count == se->bufs.count);
    engine_leave_world(se);
    sim_bufs_fini(&se->bufs);
    free(se->ops);
    free(se->queue);
    free(se->order);
    io_engine_fini(e);
    free(se);
}

static const io_ops sim_ops = {
    .enable = sim_ops_enable,
    .destroy = sim_ops_destroy,
    .attach = sim_ops_attach,
    .detach = sim_ops_detach,
    .accept_start = sim_ops_accept_start,
    .accept_stop = sim_ops_accept_stop,
    .recv_start = sim_ops_recv_start,
    .recv_stop = sim_ops_recv_stop,
    .send = sim_ops_send,
    .send_lent = sim_ops_send_lent,
    .connect = sim_ops_connect,
    .close = sim_ops_close,
    .run = sim_engine_run,
    .wake = sim_ops_wake,
};

int io_sim_create(const io_config *config, io_engine **out, const char **step) {
    sim *s = sim_world();
    *step = "find the simulated world";
    if (s == NULL) return -ENODEV;
    *step = "allocate engine";
    if (s->engine_count == SIM_ENGINES_MAX) return -ENOSPC;
    sim_engine *se = calloc(1, sizeof(*se));
    if (se == NULL) return -ENOMEM;
    int result = io_engine_init(&se->base, &sim_ops, config);
    if (result < 0) {
        free(se);
        return result;
    }
    se->ops = calloc(config->handles_max, sizeof(sim_op));
    se->queue = calloc(SIM_QUEUE_MAX, sizeof(sim_done));
    se->order = calloc(config->handles_max, sizeof(u32));
    if (se->ops == NULL || se->queue == NULL || se->order == NULL) {
        free(se->ops);
        free(se->queue);
        free(se->order);
        io_engine_fini(&se->base);
        free(se);
        return -ENOMEM;
    }
    u32 bufs = config->recv_bufs != 0 ? config->recv_bufs : SIM_RECV_BUFS_DEFAULT;
    sim_bufs_init(&se->bufs, bufs, LIMIT_RECV_BUF_BYTES, LIMIT_RECV_SCRATCH_BYTES);
    counter_set(&se->base.stats.bufs_total, bufs);
    counter_set(&se->base.stats.bufs_free, bufs);
    counter_set(&se->base.stats.bufs_free_low, bufs);
    se->world = s;
    se->rng.state = sim_random_next(&s->rng) ^ config->sim_seed;
    se->loan_buf = -1;
    se->deadline_ns = UINT64_MAX;
    se->style_completion = s->config.style == SIM_STYLE_COMPLETION;
    *se->base.now_ns = s->now_ns;
    s->engines[s->engine_count++] = se;
    *out = &se->base;
    return 0;
}
