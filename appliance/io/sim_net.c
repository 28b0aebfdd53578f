// SPDX-License-Identifier: Apache-2.0
// sim_net.c: simulated stream sockets. A connection is two sockets; each owns the pipe of the bytes that
// come towards it, a bounded ring in which every write has a time of arrival.
//
// What is kept from the real thing, because programs depend on it: bytes that arrived before an RST can
// be read before ECONNRESET (unless the fault `reset_drops` takes them); ECONNRESET is told once, then
// reads give 0 and writes EPIPE; closing with bytes not read sends RST; the first write to a closed
// peer is taken and answered by an RST.
#include "io/sim_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

sim_socket *sim_socket_create(sim *s, sim_socket_kind kind) {
    sim_socket *socket = calloc(1, sizeof(*socket));
    if (socket == NULL) base_out_of_memory("simulated socket", sizeof(*socket));
    socket->world = s;
    socket->kind = kind;
    socket->fd = -1;
    socket->number = ++s->socket_numbers;
    socket->in.fin_ns = socket->in.reset_ns = UINT64_MAX;
    socket->connect_ns = UINT64_MAX;
    socket->next = s->sockets;
    if (s->sockets != NULL) s->sockets->prev = socket;
    s->sockets = socket;
    return socket;
}

static void socket_free(sim_socket *socket) {
    sim *s = socket->world;
    sim_fd_release(s, socket);
    if (socket->prev != NULL) socket->prev->next = socket->next;
    else s->sockets = socket->next;
    if (socket->next != NULL) socket->next->prev = socket->prev;
    free(socket->in.bytes);
    free(socket->backlog);
    free(socket->peer);
    free(socket);
}

// Addresses as a gateway sees them: mostly private IPv4, some IPv6; ports rise so that none repeats.
void sim_socket_address(sim *s, struct sockaddr_storage *out, socklen_t *len) {
    memset(out, 0, sizeof(*out));
    u16 port = (u16)(1024 + s->ports++ % 64000);
    if (sim_chance(s, 800)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        v4->sin_addr.s_addr = htonl(0x0a000000u | (u32)sim_random_below(&s->rng, 1u << 24));
        *len = sizeof(*v4);
        return;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    v6->sin6_addr.s6_addr[0] = 0xfd;
    for (u32 i = 8; i < 16; i++) v6->sin6_addr.s6_addr[i] = (u8)sim_random_below(&s->rng, 256);
    *len = sizeof(*v6);
}

static void pipe_open(sim *s, sim_pipe *p) {
    p->size = (u32)sim_random_range(&s->rng, s->config.pipe_bytes_min, s->config.pipe_bytes_max);
    p->bytes = malloc(p->size);
    if (p->bytes == NULL) base_out_of_memory("simulated pipe", p->size);
}

void sim_socket_join(sim_socket *a, sim_socket *b) {
    a->kind = b->kind = SIM_SOCKET_STREAM;
    a->other = b;
    b->other = a;
    pipe_open(a->world, &a->in);
    pipe_open(b->world, &b->in);
}

bool sim_socket_knock(sim_socket *listener, sim_socket *from) {
    ASSERT(listener->kind == SIM_SOCKET_LISTENER);
    if (listener->backlog_count == listener->backlog_max) return false;
    sim_socket *end = sim_socket_create(listener->world, SIM_SOCKET_STREAM);
    sim_socket_join(end, from);
    end->local = listener->local;
    end->remote = from->local;
    from->remote = listener->local;
    listener->backlog[listener->backlog_count++] = end;
    return true;
}

sim_socket *sim_socket_backlog_pop(sim_socket *listener) {
    if (listener->backlog_count == 0) return NULL;
    sim_socket *first = listener->backlog[0];
    listener->backlog_count--;
    memmove(listener->backlog, listener->backlog + 1,
            listener->backlog_count * sizeof(sim_socket *));
    return first;
}

sim_socket *sim_socket_find_listener(sim *s, const struct sockaddr *addr, socklen_t addr_len) {
    for (sim_socket *socket = s->sockets; socket != NULL; socket = socket->next) {
        if (socket->kind != SIM_SOCKET_LISTENER || socket->local_len != addr_len) continue;
        if (memcmp(&socket->local, addr, addr_len) == 0) return socket;
    }
    return NULL;
}

// --- pipes ---

static u64 arrival(sim *s, sim_pipe *p) {
    u64 at = s->now_ns;
    if (s->config.latency_ns_max > 0) at += sim_random_below(&s->rng, s->config.latency_ns_max + 1);
    p->last_ns = MAX(p->last_ns, at);
    return p->last_ns;
}

static void pipe_settle(sim *s, sim_pipe *p) {
    while (p->chunk_count > 0 && p->chunks[p->chunk_head].arrive_ns <= s->now_ns) {
        p->readable += p->chunks[p->chunk_head].len;
        p->chunk_head = (p->chunk_head + 1) % SIM_PIPE_CHUNKS;
        p->chunk_count--;
    }
    if (p->reset_ns > s->now_ns) return;
    p->used = p->readable; // what was under way is gone
    p->chunk_count = 0;
}

// Forgets what has not arrived yet.
static void pipe_cut(sim *s, sim_pipe *p) {
    pipe_settle(s, p);
    p->used = p->readable;
    p->chunk_count = 0;
    p->last_ns = s->now_ns;
}

static void pipe_put(sim *s, sim_pipe *p, const u8 *data, u32 len) {
    ASSERT(len <= p->size - p->used);
    u32 at = (u32)(((u64)p->head + p->used) % p->size);
    u32 first = MIN(len, p->size - at);
    memcpy(p->bytes + at, data, first);
    memcpy(p->bytes, data + first, len - first);
    p->used += len;
    u64 arrive_ns = arrival(s, p);
    if (p->chunk_count == SIM_PIPE_CHUNKS) {
        u32 last = (p->chunk_head + p->chunk_count - 1) % SIM_PIPE_CHUNKS;
        p->chunks[last].arrive_ns = arrive_ns;
        p->chunks[last].len += len;
        return;
    }
    u32 slot = (p->chunk_head + p->chunk_count++) % SIM_PIPE_CHUNKS;
    p->chunks[slot].arrive_ns = arrive_ns;
    p->chunks[slot].len = len;
}

static void pipe_take(sim_pipe *p, u8 *out, u32 len) {
    ASSERT(len <= p->readable);
    u32 first = MIN(len, p->size - p->head);
    memcpy(out, p->bytes + p->head, first);
    memcpy(out + first, p->bytes, len - first);
    p->head = (u32)(((u64)p->head + len) % p->size);
    p->used -= len;
    p->readable -= len;
}

static bool pipe_is_reset(const sim *s, const sim_pipe *p) {
    return p->reset_ns <= s->now_ns;
}

// An RST towards the socket of this pipe, behind what is under way.
static void pipe_reset(sim *s, sim_pipe *p) {
    u64 at = arrival(s, p);
    p->reset_ns = MIN(p->reset_ns, at);
}

// --- sockets ---

u32 sim_socket_readable(sim_socket *socket) {
    sim *s = socket->world;
    pipe_settle(s, &socket->in);
    return socket->in.readable;
}

bool sim_socket_can_read(sim_socket *socket) {
    if (socket->kind != SIM_SOCKET_STREAM) return false;
    sim *s = socket->world;
    if (sim_socket_readable(socket) > 0 || pipe_is_reset(s, &socket->in)) return true;
    return socket->in.used == 0 && socket->in.fin_ns <= s->now_ns;
}

bool sim_socket_can_write(sim_socket *socket) {
    if (socket->kind != SIM_SOCKET_STREAM) return false;
    if (socket->write_shut || pipe_is_reset(socket->world, &socket->in)) return true; // an error
    if (socket->other == NULL) return true;
    pipe_settle(socket->world, &socket->other->in);
    return socket->other->in.used < socket->other->in.size;
}

u32 sim_socket_room(sim_socket *socket) {
    if (socket->kind != SIM_SOCKET_STREAM || socket->write_shut || socket->other == NULL) return 0;
    if (pipe_is_reset(socket->world, &socket->in)) return 0;
    pipe_settle(socket->world, &socket->other->in);
    return socket->other->in.size - socket->other->in.used;
}

ssize_t sim_socket_read(sim_socket *socket, u8 *out, u32 len) {
    sim *s = socket->world;
    sim_pipe *p = &socket->in;
    u32 readable = sim_socket_readable(socket);
    if (readable > 0) {
        u32 n = MIN(readable, len);
        pipe_take(p, out, n);
        return (ssize_t)n;
    }
    if (pipe_is_reset(s, p)) {
        if (p->reset_told) return 0;
        p->reset_told = true;
        return -ECONNRESET;
    }
    if (p->used == 0 && p->fin_ns <= s->now_ns) return 0;
    return -EAGAIN;
}

ssize_t sim_socket_write(sim_socket *socket, const u8 *data, u32 len) {
    sim *s = socket->world;
    if (pipe_is_reset(s, &socket->in) && !socket->in.reset_told) {
        socket->in.reset_told = true;
        return -ECONNRESET;
    }
    if (socket->write_shut || pipe_is_reset(s, &socket->in)) return -EPIPE;
    if (socket->other == NULL) { // taken by the kernel; the answer is an RST
        pipe_reset(s, &socket->in);
        return (ssize_t)len;
    }
    sim_pipe *p = &socket->other->in;
    pipe_settle(s, p);
    u32 n = MIN(len, p->size - p->used);
    if (n == 0) return -EAGAIN;
    pipe_put(s, p, data, n);
    return (ssize_t)n;
}

void sim_socket_shutdown(sim_socket *socket) {
    if (socket->write_shut) return;
    socket->write_shut = true;
    if (socket->other == NULL) return;
    socket->other->in.fin_ns = arrival(socket->world, &socket->other->in);
}

static void reset_now(sim *s, sim_socket *socket) {
    if (socket == NULL || pipe_is_reset(s, &socket->in)) return;
    pipe_cut(s, &socket->in);
    socket->in.reset_ns = s->now_ns;
    if (!sim_chance(s, s->config.faults.reset_drops)) return;
    socket->in.readable = socket->in.used = 0;
}

void sim_socket_break(sim_socket *socket) {
    socket->world->counts.resets++;
    sim_event(socket->world, "break", socket->number, 0);
    reset_now(socket->world, socket->other);
    reset_now(socket->world, socket);
}

static void close_listener(sim_socket *socket) {
    sim_socket *waiting;
    while ((waiting = sim_socket_backlog_pop(socket)) != NULL) sim_socket_close(waiting, true);
}

void sim_socket_close(sim_socket *socket, bool reset) {
    sim *s = socket->world;
    if (socket->kind == SIM_SOCKET_LISTENER) close_listener(socket);
    sim_socket *other = socket->other;
    if (other != NULL) {
        other->other = NULL;
        if (reset || socket->in.used > 0) {
            if (reset) pipe_cut(s, &other->in); // unsent data is abandoned
            pipe_reset(s, &other->in);
        } else if (!socket->write_shut) {
            other->in.fin_ns = arrival(s, &other->in);
        }
    }
    socket_free(socket);
}

u64 sim_socket_next_ns(const sim_socket *socket) {
    u64 now_ns = socket->world->now_ns;
    const sim_pipe *p = &socket->in;
    u64 next = UINT64_MAX;
    if (p->chunk_count > 0) { // a chunk whose time has come is settled at the next look: that is "now"
        for (u32 i = 0; i < p->chunk_count; i++) {
            u64 at = p->chunks[(p->chunk_head + i) % SIM_PIPE_CHUNKS].arrive_ns;
            if (at > now_ns) next = MIN(next, at);
        }
    }
    if (p->fin_ns > now_ns) next = MIN(next, p->fin_ns);
    if (p->reset_ns > now_ns) next = MIN(next, p->reset_ns);
    if (socket->kind == SIM_SOCKET_CONNECTING && socket->connect_ns > now_ns) {
        next = MIN(next, socket->connect_ns);
    }
    return next;
}
