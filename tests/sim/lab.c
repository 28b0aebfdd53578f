// SPDX-License-Identifier: Apache-2.0
// lab.c: the bench of the conformance cases: engines of one kind and the near ends of connections; the
// far ends are in lab_far.c. See lab.h.
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LAB_HANDLES 256u
#define LAB_PATIENCE_NS (5 * NS_PER_S)

void lab_say(lab *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->transcript + l->transcript_len, sizeof(l->transcript) - l->transcript_len,
                      format, args);
    va_end(args);
    ASSERT(n >= 0 && l->transcript_len + (size_t)n + 2 < sizeof(l->transcript));
    l->transcript_len += (size_t)n;
    l->transcript[l->transcript_len++] = '\n';
    l->transcript[l->transcript_len] = '\0';
}

void lab_fail(lab *l, const char *file, int line, const char *what) {
    if (l->failure[0] != '\0') return;
    snprintf(l->failure, sizeof(l->failure), "%s:%d: %s", file, line, what);
}

void *lab_alloc(lab *l, size_t bytes) {
    void *memory = malloc(bytes);
    ASSERT(memory != NULL && l->memory_count < ARRAY_LEN(l->memory));
    l->memory[l->memory_count++] = memory;
    return memory;
}

// --- callbacks ---

static near_end *near_of(io_handle *h) {
    return CONTAINER_OF(h, near_end, io);
}

static void callback_check(lab *l, bool too_late) {
    if (l->starting) lab_fail(l, __FILE__, __LINE__, "callback inside a starting call");
    if (too_late) lab_fail(l, __FILE__, __LINE__, "callback after io_close or on_closed");
}

static void on_accept(io_handle *h, int result, const struct sockaddr_storage *peer) {
    lab *l = CONTAINER_OF(h, lab, listener);
    callback_check(l, l->listener_closing);
    if (result < 0) {
        l->accept_error = result;
        return;
    }
    if (peer->ss_family != AF_INET && peer->ss_family != AF_INET6) {
        lab_fail(l, __FILE__, __LINE__, "accepted without a peer address");
    }
    ASSERT(l->accepted_count < LAB_NEARS_MAX);
    l->accepted[l->accepted_count++] = result;
    if (l->stop_in_accept) io_accept_stop(l->engines[0], h);
}

static void near_keep(near_end *n, const u8 *data, size_t len) {
    if (n->data_len + len > n->data_size) {
        n->data_size = MAX(2 * n->data_size, n->data_len + len);
        n->data = realloc(n->data, n->data_size);
        ASSERT(n->data != NULL);
    }
    memcpy(n->data + n->data_len, data, len);
    n->data_len += len;
}

static void lend_back(near_end *n, u8 *data, u32 len) {
    // One send at a time, and only what follows what was sent: the case sends the rest itself.
    if ((n->io.armed & IO_ARMED_SEND) || n->lent_sent + len != n->data_len) return;
    n->lab->starting = true;
    n->iov[0] = (struct iovec){data, len};
    n->lent_result = io_send_lent(n->lab->engines[n->engine], &n->io, n->iov);
    n->lab->starting = false;
    if (n->lent_result > 0) n->lent_sent += (size_t)n->lent_result;
}

static void on_recv(io_handle *h, int result, u8 *data) {
    near_end *n = near_of(h);
    callback_check(n->lab, n->closing || n->closed);
    if (result <= 0) {
        n->recv_ends++;
        n->recv_end = result;
        return;
    }
    n->recv_calls++;
    near_keep(n, data, (size_t)result);
    if (n->lend) lend_back(n, data, (u32)result);
    memset(data, 0xee, n->lend ? 0 : (size_t)result); // ours while it is lent
    if (n->stop_in_recv) near_recv_stop(n);
    if (n->close_in_recv != NULL) {
        near_end *other = n->close_in_recv;
        n->close_in_recv = NULL;
        near_close(other, false);
    }
}

static void on_send(io_handle *h, int result) {
    near_end *n = near_of(h);
    callback_check(n->lab, n->closing || n->closed);
    n->send_calls++;
    n->send_result = result;
    if (n->lend && result > 0) n->lent_sent += (size_t)result;
    n->lent_result = result;
}

static void on_connect(io_handle *h, int result) {
    near_end *n = near_of(h);
    callback_check(n->lab, n->closing || n->closed);
    n->connect_result = result;
}

static void on_closed(io_handle *h) {
    near_end *n = near_of(h);
    callback_check(n->lab, n->closed);
    n->closed = true;
    n->attached = false;
}

static void on_listener_closed(io_handle *h) {
    (void)h;
}

static const io_callbacks near_callbacks = {
    .on_recv = on_recv,
    .on_send = on_send,
    .on_connect = on_connect,
    .on_closed = on_closed,
};
static const io_callbacks listener_callbacks = {
    .on_accept = on_accept,
    .on_closed = on_listener_closed,
};

// --- engines ---

static int engine_open(lab *l, u32 index, const lab_setup *setup, const char **step) {
    io_config config = {
        .kind = setup->kind,
        .handles_max = LAB_HANDLES,
        .recv_bufs = setup->recv_bufs,
        .rec = &l->recorders[index],
        .now_ns = &l->now_ns[index],
    };
    *step = "recorder";
    int result = recorder_init(&l->recorders[index], &l->now_ns[index]);
    if (result < 0) return result;
    result = io_create(&config, &l->engines[index], step);
    if (result < 0) return result;
    *step = "enable";
    return io_enable(l->engines[index]);
}

int lab_open(lab *l, const lab_setup *setup, const char **step) {
    memset(l, 0, sizeof(*l));
    l->kind = setup->kind;
    l->listen_fd = -1;
    if (setup->kind == IO_SIM) l->world = sim_create(&setup->sim);
    int result = engine_open(l, 0, setup, step);
    if (result >= 0) result = engine_open(l, 1, setup, step);
    if (result >= 0) {
        *step = "listen";
        result = l->listen_fd = far_listen(l, &l->addr, &l->addr_len);
    }
    if (result >= 0) {
        *step = "attach listener";
        do { // the simulation may say ENOMEM
            result = io_attach(l->engines[0], &l->listener, l->listen_fd, &listener_callbacks);
        } while (result == -ENOMEM);
    }
    if (result < 0) {
        lab_close(l);
        return result;
    }
    l->starting = true;
    io_accept_start(l->engines[0], &l->listener);
    l->starting = false;
    return 0;
}

static void buffers_check(lab *l, u32 index) {
    const io_stats *stats = io_engine_stats(l->engines[index]);
    if (counter_get(&stats->stale) != 0) lab_fail(l, __FILE__, __LINE__, "stale completions");
    if (counter_get(&stats->bufs_free) != counter_get(&stats->bufs_total)) {
        lab_fail(l, __FILE__, __LINE__, "receive buffers are missing");
    }
}

void lab_close_listener(lab *l) {
    if (l->listener_closing) return;
    l->listener_closing = true;
    l->starting = true;
    io_close(l->engines[0], &l->listener, false);
    l->starting = false;
}

void lab_close(lab *l) {
    for (u32 i = 0; i < l->near_count; i++) {
        if (l->nears[i]->attached) near_close(l->nears[i], false);
    }
    if (l->engines[0] != NULL && l->listener.callbacks != NULL) lab_close_listener(l);
    if (l->engines[0] != NULL && l->engines[1] != NULL) lab_settle(l);
    for (u32 i = 0; i < l->memory_count; i++) free(l->memory[i]);
    for (u32 i = 0; i < l->near_count; i++) {
        if (!l->nears[i]->closed) lab_fail(l, __FILE__, __LINE__, "a near end was not closed");
        free(l->nears[i]->data);
        free(l->nears[i]);
    }
    for (u32 i = 0; i < 2; i++) {
        if (l->engines[i] != NULL) {
            buffers_check(l, i);
            io_destroy(l->engines[i]);
        }
        recorder_free(&l->recorders[i]);
    }
    if (l->world != NULL) {
        if (sim_fds_open(l->world) != 0) lab_fail(l, __FILE__, __LINE__, "descriptors were leaked");
        sim_destroy(l->world);
    }
    l->world = NULL;
}

// --- turning ---

static u32 turn_once(lab *l) {
    u32 done = 0;
    for (u32 i = 0; i < 2; i++) {
        int result = io_run(l->engines[i], 0);
        if (result < 0) lab_fail(l, __FILE__, __LINE__, "io_run failed");
        else done += (u32)result;
        // The simulated engine remembers its deadline; without one, time can move.
        if (l->world != NULL) done += (u32)io_run(l->engines[i], UINT64_MAX);
    }
    return done;
}

static void pause_ns(long ns) {
    struct timespec spec = {.tv_nsec = ns};
    nanosleep(&spec, NULL);
}

void lab_turn(lab *l) {
    u32 done = turn_once(l);
    if (done > 0) return;
    if (l->world == NULL) pause_ns(20000);
    else if (!sim_has_work(l->world)) sim_step(l->world, NS_PER_MS);
}

// On the real engines: nothing for some turns in a row. In the simulation: nothing left to happen.
void lab_settle(lab *l) {
    u32 quiet = 0;
    for (u32 i = 0; i < 100000 && quiet < 4; i++) {
        u32 done = turn_once(l);
        quiet = done > 0 ? 0 : quiet + 1;
        if (done > 0) continue;
        if (l->world == NULL) {
            pause_ns(500000);
        } else if (sim_has_work(l->world) || sim_next_ns(l->world) != UINT64_MAX) {
            quiet = 0;
            if (!sim_has_work(l->world)) sim_step(l->world, NS_PER_S);
        }
    }
}

u64 lab_now(const lab *l) {
    return l->world != NULL ? sim_now_ns(l->world) : clock_mono_ns();
}

u64 lab_patience(const lab *l) {
    return lab_now(l) + (l->world != NULL ? 1000 * NS_PER_S : LAB_PATIENCE_NS);
}

bool lab_is_patient(const lab *l, u64 deadline) {
    if (l->failure[0] != '\0') return false;
    return lab_now(l) < deadline;
}

// --- near ends ---

near_end *lab_near(lab *l, u32 engine, int fd) {
    ASSERT(l->near_count < LAB_NEARS_MAX);
    if (l->world == NULL) {
        int flags = fcntl(fd, F_GETFL);
        int wanted = io_kind_wants_nonblock(l->kind) ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
        fcntl(fd, F_SETFL, wanted);
    }
    near_end *n = calloc(1, sizeof(*n));
    ASSERT(n != NULL);
    n->lab = l;
    n->engine = engine;
    n->connect_result = 1;
    int result;
    do {
        result = io_attach(l->engines[engine], &n->io, fd, &near_callbacks);
    } while (result == -ENOMEM && l->world != NULL);
    ASSERT(result == 0);
    n->attached = true;
    l->nears[l->near_count++] = n;
    return n;
}

static void accept_one(lab *l) {
    LAB_UNTIL(l, l->accepted_count > 0);
}

near_end *lab_connect(lab *l, far_end *far) {
    *far = far_connect(l);
    accept_one(l);
    if (l->accepted_count == 0) return NULL;
    int fd = l->accepted[0];
    l->accepted_count--;
    memmove(l->accepted, l->accepted + 1, l->accepted_count * sizeof(int));
    return lab_near(l, 0, fd);
}

void near_recv(near_end *n, bool multishot) {
    n->lab->starting = true;
    io_recv_start(n->lab->engines[n->engine], &n->io, multishot);
    n->lab->starting = false;
}

void near_recv_stop(near_end *n) {
    n->lab->starting = true;
    io_recv_stop(n->lab->engines[n->engine], &n->io);
    n->lab->starting = false;
}

int near_send(near_end *n, const u8 *data, size_t len) {
    size_t first = len / 2;
    u32 iovs = 0;
    if (first > 0) n->iov[iovs++] = (struct iovec){(void *)(uintptr_t)data, first};
    n->iov[iovs++] = (struct iovec){(void *)(uintptr_t)(data + first), len - first};
    n->lab->starting = true;
    int result = io_send(n->lab->engines[n->engine], &n->io, n->iov, iovs);
    n->lab->starting = false;
    return result;
}

static int send_wait(near_end *n) {
    lab *l = n->lab;
    u32 before = n->send_calls;
    u64 deadline = lab_patience(l);
    while (n->send_calls == before && lab_is_patient(l, deadline)) lab_turn(l);
    return n->send_calls == before ? -ETIMEDOUT : n->send_result;
}

ssize_t near_send_all(near_end *n, const u8 *data, size_t len) {
    size_t sent = 0;
    while (sent < len) {
        int result = near_send(n, data + sent, MIN(len - sent, 65536u));
        if (result == IO_PENDING) result = send_wait(n);
        if (result < 0) return result;
        sent += (size_t)result;
    }
    return (ssize_t)sent;
}

void near_close(near_end *n, bool reset) {
    n->closing = true;
    bool before = n->lab->starting;
    n->lab->starting = true;
    io_close(n->lab->engines[n->engine], &n->io, reset);
    n->lab->starting = before;
    n->attached = false;
}

void near_move(near_end *n) {
    int fd = io_detach(n->lab->engines[n->engine], &n->io);
    n->engine ^= 1;
    int result;
    do {
        result = io_attach(n->lab->engines[n->engine], &n->io, fd, &near_callbacks);
    } while (result == -ENOMEM && n->lab->world != NULL);
    ASSERT(result == 0);
}

void near_connect(near_end *n, const struct sockaddr *addr, socklen_t addr_len) {
    n->lab->starting = true;
    io_connect(n->lab->engines[n->engine], &n->io, addr, addr_len);
    n->lab->starting = false;
}
