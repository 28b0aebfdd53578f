// SPDX-License-Identifier: Apache-2.0
// sim_run.c: io_run of the simulated engine. A turn visits the handles in a random order. In completion
// style every result is fixed first and the callbacks run afterwards from a queue, as with a ring: a
// callback may stop, pause or close a handle whose next completion already waits behind it. In readiness
// style each result is followed by its callback.
//
// Invariants: completions of one handle keep the order of its stream; after io_close of a handle only
// on_closed reaches it; a buffer goes back after on_recv, or after on_send when it was lent.
#include <errno.h>
#include <string.h>

#include "io/sim_engine.h"

// --- what could be done now ---

static bool recv_is_ready(sim_engine *se, const io_handle *h, sim_op *op) {
    if (!(h->armed & (IO_ARMED_RECV | IO_ARMED_STARVED)) || op->ended) return false;
    if ((h->armed & IO_ARMED_STOPPING) && !op->late) return false;
    if (op->recv_ns > se->world->now_ns) return false;
    if (!op->multishot && op->shot) return false; // the one shot is on its way
    if ((h->armed & IO_ARMED_STARVED) && se->bufs.free_count == 0) return false;
    return sim_socket_can_read(op->socket);
}

static bool send_is_ready(sim_engine *se, const io_handle *h, sim_op *op) {
    if (!(h->armed & IO_ARMED_SEND) || op->send_queued) return false;
    if (op->send_silent) return se->tells_silent;
    if (op->send_ns > se->world->now_ns) return false;
    return op->lent || sim_socket_can_write(op->socket);
}

static bool accept_is_ready(sim_engine *se, const io_handle *h, const sim_op *op) {
    if (!(h->armed & IO_ARMED_ACCEPT) || op->ended || op->accept_ns > se->world->now_ns) return false;
    if ((h->armed & IO_ARMED_STOPPING) && !op->late) return false;
    if (op->accept_single && op->queued > 0) return false;
    return op->socket->backlog_count > 0;
}

static bool stop_is_ready(sim_engine *se, const io_handle *h, const sim_op *op) {
    return (h->armed & IO_ARMED_STOPPING) && op->queued == 0 && op->stop_ns <= se->world->now_ns;
}

static bool connect_is_ready(sim_engine *se, const io_handle *h, const sim_op *op) {
    if (!(h->armed & IO_ARMED_CONNECT) || op->queued > 0) return false;
    return MAX(op->connect_ns, op->socket->connect_ns) <= se->world->now_ns;
}

static bool op_is_ready(sim_engine *se, const io_handle *h, sim_op *op) {
    if (op->closing) return op->close_ns <= se->world->now_ns && op->queued == 0;
    return recv_is_ready(se, h, op) || send_is_ready(se, h, op) || accept_is_ready(se, h, op) ||
           connect_is_ready(se, h, op) || stop_is_ready(se, h, op);
}

bool sim_engine_has_work(const sim_engine *const_engine) {
    sim_engine *se = (sim_engine *)(uintptr_t)const_engine; // settling pipes changes nothing that shows
    if (se->rung || se->queue_count > 0) return true;
    for (u32 slot = 0; slot < se->base.slots_touched; slot++) {
        if (se->ops[slot].socket == NULL) continue;
        if (op_is_ready(se, se->base.slots[slot].handle, &se->ops[slot])) return true;
    }
    return false;
}

u64 sim_engine_next_ns(const sim_engine *se) {
    u64 next = se->deadline_ns;
    for (u32 slot = 0; slot < se->base.slots_touched; slot++) {
        const sim_op *op = &se->ops[slot];
        if (op->socket == NULL) continue;
        const u64 times[] = {op->accept_ns,  op->recv_ns,  op->send_ns,
                             op->connect_ns, op->close_ns, op->stop_ns};
        for (u32 i = 0; i < ARRAY_LEN(times); i++) {
            if (times[i] > se->world->now_ns) next = MIN(next, times[i]);
        }
    }
    return next;
}

// --- callbacks ---

static void buf_give(sim_engine *se, int buf) {
    sim_bufs_give(&se->bufs, (u32)buf);
    se->world->counts.poisoned++;
    counter_set(&se->base.stats.bufs_free, se->bufs.free_count);
}

static void deliver_recv(sim_engine *se, io_handle *h, sim_op *op, const sim_done *done) {
    if (done->last) {
        // Stopped and started again meanwhile, as a multishot: that one goes on.
        bool goes_on = done->result > 0 && op->multishot && io_recv_is_armed(h);
        if (!goes_on) h->armed &= (u8) ~(IO_ARMED_RECV | IO_ARMED_STARVED | IO_ARMED_STOPPING);
        op->ended = op->shot = false;
    }
    io_record(&se->base, REC_RECV, h, done->result, 0);
    sim_event(se->world, "recv", op->socket->number, done->result);
    if (done->buf < 0) {
        h->callbacks->on_recv(h, done->result, NULL);
        return;
    }
    counter_add(&se->base.stats.recvs, 1);
    counter_add(&se->base.stats.recv_bytes, (u64)done->result);
    se->loan_buf = done->buf;
    se->loan_slot = h->slot;
    se->loan_len = (u32)done->result;
    se->loan_taken = false;
    h->callbacks->on_recv(h, done->result, se->bufs.memory[done->buf]);
    se->loan_buf = -1;
    if (!se->loan_taken) buf_give(se, done->buf);
}

// The send is over: its memory must be what it was when it started.
static void send_settle(sim_engine *se, io_handle *h, sim_op *op) {
    ASSERT(sim_engine_send_digest(h, op) == op->send_digest);
    h->armed &= (u8)~IO_ARMED_SEND;
    op->send_queued = false;
    h->send_iov = NULL;
    (void)se;
}

static void deliver_send(sim_engine *se, io_handle *h, sim_op *op, const sim_done *done) {
    bool lent = op->lent;
    int buf = op->lent_buf;
    send_settle(se, h, op);
    io_record(&se->base, REC_SENT, h, done->result, 0);
    sim_event(se->world, "sent", op->socket->number, done->result);
    h->callbacks->on_send(h, done->result);
    if (lent) buf_give(se, buf);
}

static void deliver(sim_engine *se, const sim_done *done) {
    io_handle *h = io_slot_find(&se->base, done->slot, done->generation);
    ASSERT(h != NULL); // slots are freed only when nothing is queued
    sim_op *op = &se->ops[done->slot];
    ASSERT(op->queued > 0);
    op->queued--;
    ASSERT(!se->in_call);
    if (op->closing) { // told by on_closed only; what the completion carried is given back
        if (done->event == REC_RECV && done->buf >= 0) buf_give(se, done->buf);
        if (done->event == REC_ACCEPT && done->result >= 0) sim_fd_close(se->world, done->result);
        return;
    }
    counter_add(&se->base.stats.completions, 1);
    se->world->counts.events++;
    switch (done->event) {
    case REC_ACCEPT:
        if (done->result < 0) {
            h->armed &= (u8) ~(IO_ARMED_ACCEPT | IO_ARMED_STOPPING);
            op->ended = false;
        } else {
            counter_add(&se->base.stats.accepts, 1);
        }
        io_record(&se->base, REC_ACCEPT, h, done->result, 0);
        sim_event(se->world, "accept", op->socket->number, done->result);
        h->callbacks->on_accept(h, done->result, &done->peer);
        return;
    case REC_RECV:
        deliver_recv(se, h, op, done);
        return;
    case REC_SENT:
        deliver_send(se, h, op, done);
        return;
    default:
        ASSERT(done->event == REC_CONNECT);
        h->armed &= (u8)~IO_ARMED_CONNECT;
        io_record(&se->base, REC_CONNECT, h, done->result, 0);
        sim_event(se->world, "connected", op->socket->number, done->result);
        h->callbacks->on_connect(h, done->result);
    }
}

static void queue_drain(sim_engine *se) {
    while (se->queue_count > 0) {
        sim_done done = se->queue[se->queue_head];
        se->queue_head = (se->queue_head + 1) % SIM_QUEUE_MAX;
        se->queue_count--;
        deliver(se, &done);
    }
}

static void close_finish(sim_engine *se, io_handle *h, sim_op *op) {
    if (h->armed & IO_ARMED_SEND) {
        bool lent = op->lent;
        send_settle(se, h, op);
        if (lent) buf_give(se, op->lent_buf);
    }
    h->armed = 0;
    io_record(&se->base, REC_CLOSED, h, 0, 0);
    sim_event(se->world, "closed", op->socket->number, h->slot);
    op->socket->engine = NULL;
    sim_socket_close(op->socket, op->reset);
    op->socket = NULL;
    io_slot_release(&se->base, h);
    se->world->counts.events++;
    if (h->callbacks->on_closed != NULL) h->callbacks->on_closed(h);
}

// --- fixing results ---

static void done_add(sim_engine *se, io_handle *h, sim_op *op, recorder_event event, int result,
                     int buf, bool last, const struct sockaddr_storage *peer) {
    ASSERT(se->queue_count < SIM_QUEUE_MAX);
    sim_done *done = &se->queue[(se->queue_head + se->queue_count++) % SIM_QUEUE_MAX];
    *done = (sim_done){event, h->slot, h->generation, result, buf, last, {0}};
    if (peer != NULL) done->peer = *peer;
    op->queued++;
    if (!se->style_completion) queue_drain(se);
}

static int accept_error(sim_engine *se) {
    static const int errors[] = {-EMFILE, -ENFILE, -ENOBUFS, -ENOMEM, -ECONNABORTED};
    se->world->counts.accept_errors++;
    return errors[sim_random_below(&se->rng, ARRAY_LEN(errors))];
}

// One connection, or the error that ends accepting. As in Linux, a connection stays in the backlog when
// there is no descriptor for it, and is gone when it was aborted.
static void step_accept(sim_engine *se, io_handle *h, sim_op *op) {
    int result = 0;
    sim_socket *socket = NULL;
    if (sim_lucky(se, se->world->config.faults.accept_error)) result = accept_error(se);
    if (result == 0) {
        socket = op->socket->backlog[0];
        result = sim_fd_assign(se->world, socket);
    }
    if (result >= 0 || result == -ECONNABORTED) socket = sim_socket_backlog_pop(op->socket);
    if (result == -ECONNABORTED) sim_socket_close(socket, true);
    if (result < 0) op->ended = true;
    done_add(se, h, op, REC_ACCEPT, result, -1, result < 0, result >= 0 ? &socket->remote : NULL);
}

static void starve(sim_engine *se, io_handle *h) {
    h->armed = (u8)((h->armed & ~IO_ARMED_RECV) | IO_ARMED_STARVED);
    counter_add(&se->base.stats.enobufs, 1);
    se->world->counts.starved++;
    io_record(&se->base, REC_NOBUFS, h, -ENOBUFS, 0);
}

// A receive buffer, or -1 when the handle has to wait for one. In readiness style it is the scratch one.
static int recv_buf(sim_engine *se, io_handle *h, sim_op *op) {
    if (!se->style_completion) return (int)se->bufs.count;
    bool unlucky = (h->armed & IO_ARMED_RECV) && sim_lucky(se, se->world->config.faults.starve);
    int buf = unlucky ? -1 : sim_bufs_take(&se->bufs);
    if (buf >= 0) {
        counter_set(&se->base.stats.bufs_free, se->bufs.free_count);
        u64 low = MIN(counter_get(&se->base.stats.bufs_free_low), se->bufs.free_count);
        counter_set(&se->base.stats.bufs_free_low, low);
        return buf;
    }
    if (h->armed & IO_ARMED_STOPPING) op->late = false;
    else starve(se, h);
    return -1;
}

// Fixes one receive completion. False when nothing more can be received in this turn.
static bool step_recv(sim_engine *se, io_handle *h, sim_op *op) {
    const sim_faults *faults = &se->world->config.faults;
    if (sim_lucky(se, faults->reset)) sim_socket_break(op->socket);
    u32 readable = sim_socket_readable(op->socket);
    if (readable == 0) {
        u8 none;
        ssize_t end = sim_socket_read(op->socket, &none, 1);
        if (end == -EAGAIN) return false;
        ASSERT(end <= 0);
        op->ended = true;
        done_add(se, h, op, REC_RECV, (int)end, -1, true, NULL);
        return false;
    }
    int buf = recv_buf(se, h, op);
    if (buf < 0) return false;
    if (h->armed & IO_ARMED_STARVED) {
        h->armed = (u8)((h->armed & ~IO_ARMED_STARVED) | IO_ARMED_RECV);
        counter_add(&se->base.stats.rearms, 1);
    }
    u32 len = MIN(readable, se->bufs.bytes[buf]);
    if (len > 1 && sim_lucky(se, faults->short_recv)) {
        len = (u32)sim_random_range(&se->rng, 1, len - 1);
        se->world->counts.short_recvs++;
    }
    bool last = !op->multishot;
    op->shot = last;
    sim_bufs_open(&se->bufs, (u32)buf, len);
    ssize_t n = sim_socket_read(op->socket, se->bufs.memory[buf], len);
    ASSERT(n == (ssize_t)len);
    bool more = op->multishot && !op->late;
    if (op->late) se->world->counts.late_recvs++;
    op->late = false;
    if (more && sim_lucky(se, faults->multishot_end)) {
        se->world->counts.multishot_ends++;
        counter_add(&se->base.stats.rearms, 1);
        op->recv_ns = sim_engine_not_before(se);
        more = false;
    }
    done_add(se, h, op, REC_RECV, (int)len, buf, last, NULL);
    return more;
}

static u64 send_bytes(const io_handle *h, const sim_op *op) {
    if (op->lent) return op->lent_len;
    u64 bytes = 0;
    for (u32 i = 0; i < h->send_iovs; i++) bytes += h->send_iov[i].iov_len;
    return bytes;
}

static void step_send(sim_engine *se, io_handle *h, sim_op *op) {
    struct iovec lent = {.iov_base = (void *)(uintptr_t)op->lent_data, .iov_len = op->lent_len};
    ASSERT(sim_engine_send_digest(h, op) == op->send_digest);
    int result;
    if (op->send_silent) result = (int)send_bytes(h, op);
    else if (op->lent) result = sim_engine_write(se, op, &lent, 1);
    else result = sim_engine_write(se, op, h->send_iov, h->send_iovs);
    if (result == -EAGAIN && !op->lent) return;
    op->send_queued = true;
    done_add(se, h, op, REC_SENT, result, -1, true, NULL);
}

static void step_connect(sim_engine *se, io_handle *h, sim_op *op) {
    sim *s = se->world;
    sim_socket *socket = op->socket;
    const struct sockaddr *addr = (const struct sockaddr *)&socket->remote;
    sim_socket *listener = sim_socket_find_listener(s, addr, socket->local_len);
    int result = listener == NULL ? -ECONNREFUSED : 0;
    if (result == 0 && sim_lucky(se, s->config.faults.connect_error)) result = -EHOSTUNREACH;
    if (result == 0) {
        struct sockaddr_storage remote = socket->remote;
        sim_socket_address(s, &socket->local, &socket->local_len);
        if (!sim_socket_knock(listener, socket)) result = -ETIMEDOUT;
        socket->remote = remote;
    }
    socket->connect_ns = UINT64_MAX;
    if (result < 0) socket->kind = SIM_SOCKET_FRESH;
    op->connect_ns = 0;
    done_add(se, h, op, REC_CONNECT, result, -1, true, NULL);
}

// --- the turn ---

// The handle again, when a callback has not closed, moved or replaced it.
static io_handle *still_open(sim_engine *se, u32 slot, u32 generation) {
    io_handle *h = io_slot_find(&se->base, slot, generation);
    return h != NULL && !se->ops[slot].closing ? h : NULL;
}

static void visit(sim_engine *se, u32 slot) {
    sim_op *op = &se->ops[slot];
    if (op->socket == NULL) return;
    io_handle *h = se->base.slots[slot].handle;
    u32 generation = h->generation;
    if (op->closing) {
        if (op_is_ready(se, h, op)) close_finish(se, h, op);
        return;
    }
    if (connect_is_ready(se, h, op)) step_connect(se, h, op);
    if ((h = still_open(se, slot, generation)) == NULL) return;
    if (send_is_ready(se, h, op)) step_send(se, h, op);
    if ((h = still_open(se, slot, generation)) == NULL) return;
    u32 turns = sim_lucky(se, 300) ? 1 : (u32)sim_random_range(&se->rng, 1, SIM_RECV_TURNS);
    for (u32 i = 0; i < turns && h != NULL && accept_is_ready(se, h, op); i++) {
        step_accept(se, h, op);
        h = still_open(se, slot, generation);
    }
    for (u32 i = 0; i < turns && h != NULL && recv_is_ready(se, h, op); i++) {
        if (!step_recv(se, h, op)) break;
        h = still_open(se, slot, generation);
    }
    h = still_open(se, slot, generation);
    if (h == NULL || !stop_is_ready(se, h, op)) return;
    h->armed &= (u8) ~(IO_ARMED_RECV | IO_ARMED_ACCEPT | IO_ARMED_STOPPING);
    op->late = false;
}

// Whenever io_run returns, every silent send has been told.
static void tell_silent(sim_engine *se, u32 count) {
    for (u32 i = 0; i < count; i++) {
        u32 slot = se->order[i];
        sim_op *op = &se->ops[slot];
        if (op->socket == NULL || !op->send_silent || op->closing) continue;
        io_handle *h = se->base.slots[slot].handle;
        if (send_is_ready(se, h, op)) step_send(se, h, op);
    }
}

// Slots in use, shuffled: completions of different handles come in any order.
static u32 order_make(sim_engine *se) {
    u32 count = 0;
    for (u32 slot = 0; slot < se->base.slots_touched; slot++) {
        if (se->ops[slot].socket != NULL) se->order[count++] = slot;
    }
    for (u32 i = count; i > 1; i--) {
        u32 k = (u32)sim_random_below(&se->rng, i);
        u32 slot = se->order[i - 1];
        se->order[i - 1] = se->order[k];
        se->order[k] = slot;
    }
    return count;
}

int sim_engine_run(io_engine *e, u64 deadline_ns) {
    sim_engine *se = sim_engine_of(e);
    sim *s = se->world;
    ASSERT(!s->in_run); // no io_run inside a callback
    *e->now_ns = s->now_ns;
    se->deadline_ns = deadline_ns == 0 ? s->now_ns : deadline_ns;
    counter_add(&e->stats.waits, 1);
    counter_add(&e->stats.syscalls, 1);
    se->spurious = sim_lucky(se, s->config.faults.spurious_wake);
    if (se->spurious) s->counts.spurious_wakes++;
    se->tells_silent = se->spurious || se->deadline_ns <= s->now_ns || sim_engine_has_work(se);
    s->in_run = true;
    u64 before = s->counts.events;
    if (se->rung && !se->spurious) {
        se->rung = false;
        s->counts.events++;
        counter_add(&e->stats.wakes_received, 1);
    }
    if (s->config.style == SIM_STYLE_MIXED) se->style_completion = sim_lucky(se, 500);
    u32 count = order_make(se);
    if (se->tells_silent) tell_silent(se, count);
    if (se->spurious) count = 0;
    if (sim_lucky(se, 200)) count = MIN(count, (u32)sim_random_range(&se->rng, 1, 4)); // the rest comes next turn
    for (u32 i = 0; i < count; i++) {
        if (se->queue_count > SIM_QUEUE_MAX - 2 * SIM_RECV_TURNS) break; // the rest comes next turn
        visit(se, se->order[i]);
    }
    queue_drain(se);
    se->tells_silent = false; // has_work asks for other causes
    s->in_run = false;
    u64 done = s->counts.events - before;
    if (done > 0) hist_record(&e->stats.batch, done);
    return (int)done;
}
