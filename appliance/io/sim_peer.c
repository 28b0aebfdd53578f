// SPDX-License-Identifier: Apache-2.0
// sim_peer.c: the test's side of the simulated network: listening sockets, and the ends that play the
// devices. A peer acts at once and never waits; what it does reaches the program under test when the
// clock says so.
#include "io/sim_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sim_listen(sim *s, const struct sockaddr *addr, socklen_t addr_len, u32 backlog) {
    ASSERT(backlog > 0 && addr_len <= sizeof(struct sockaddr_storage));
    if (addr != NULL && sim_socket_find_listener(s, addr, addr_len) != NULL) return -EADDRINUSE;
    sim_socket *socket = sim_socket_create(s, SIM_SOCKET_LISTENER);
    int fd = sim_fd_assign(s, socket);
    if (fd < 0) {
        sim_socket_close(socket, false);
        return fd;
    }
    socket->backlog = calloc(backlog, sizeof(sim_socket *));
    if (socket->backlog == NULL) base_out_of_memory("simulated backlog", backlog * sizeof(void *));
    socket->backlog_max = backlog;
    if (addr != NULL) {
        memcpy(&socket->local, addr, addr_len);
        socket->local_len = addr_len;
    } else {
        sim_socket_address(s, &socket->local, &socket->local_len);
    }
    sim_event(s, "listen", socket->number, fd - SIM_FD_BASE);
    return fd;
}

int sim_stream(sim *s) {
    sim_socket *socket = sim_socket_create(s, SIM_SOCKET_FRESH);
    int fd = sim_fd_assign(s, socket);
    if (fd < 0) sim_socket_close(socket, false);
    return fd;
}

static sim_peer *peer_create(sim_socket *socket) {
    sim_peer *p = calloc(1, sizeof(*p));
    if (p == NULL) base_out_of_memory("simulated peer", sizeof(*p));
    p->socket = socket;
    socket->peer = p;
    return p;
}

sim_peer *sim_connect(sim *s, int listen_fd, const struct sockaddr_storage *addr) {
    sim_socket *listener = sim_fd_find(s, listen_fd);
    if (listener == NULL || listener->kind != SIM_SOCKET_LISTENER) return NULL;
    if (listener->backlog_count == listener->backlog_max) return NULL;
    sim_socket *socket = sim_socket_create(s, SIM_SOCKET_FRESH);
    if (addr != NULL) socket->local = *addr;
    else sim_socket_address(s, &socket->local, &socket->local_len);
    bool taken = sim_socket_knock(listener, socket);
    ASSERT(taken);
    sim_event(s, "connect", socket->number, 0);
    return peer_create(socket);
}

sim_peer *sim_accept(sim *s, int listen_fd) {
    sim_socket *listener = sim_fd_find(s, listen_fd);
    ASSERT(listener != NULL && listener->kind == SIM_SOCKET_LISTENER && listener->engine == NULL);
    sim_socket *socket = sim_socket_backlog_pop(listener);
    if (socket == NULL) return NULL;
    sim_event(s, "peer_accept", socket->number, 0);
    return peer_create(socket);
}

ssize_t sim_peer_write(sim_peer *p, const void *data, size_t len) {
    ASSERT(len > 0 && len <= INT32_MAX);
    ssize_t n = sim_socket_write(p->socket, data, (u32)len);
    sim_event(p->socket->world, "peer_write", p->socket->number, n);
    if (n > 0) p->socket->world->counts.bytes_to_engines += (u64)n;
    return n;
}

ssize_t sim_peer_read(sim_peer *p, void *out, size_t len) {
    ASSERT(len > 0 && len <= INT32_MAX);
    ssize_t n = sim_socket_read(p->socket, out, (u32)len);
    if (n != -EAGAIN) sim_event(p->socket->world, "peer_read", p->socket->number, n);
    if (n > 0) p->socket->world->counts.bytes_to_peers += (u64)n;
    return n;
}

void sim_peer_shutdown(sim_peer *p) {
    sim_event(p->socket->world, "peer_fin", p->socket->number, 0);
    sim_socket_shutdown(p->socket);
}

void sim_peer_reset(sim_peer *p) {
    sim_event(p->socket->world, "peer_rst", p->socket->number, 0);
    sim_socket_close(p->socket, true);
}

void sim_peer_close(sim_peer *p) {
    sim_event(p->socket->world, "peer_close", p->socket->number, 0);
    sim_socket_close(p->socket, false);
}

bool sim_peer_is_accepted(const sim_peer *p) {
    return p->socket->other != NULL && p->socket->other->fd >= 0;
}

bool sim_peer_is_gone(const sim_peer *p) {
    return p->socket->other == NULL;
}

const struct sockaddr_storage *sim_peer_address(const sim_peer *p) {
    return &p->socket->local;
}

u32 sim_peer_fd(const sim_peer *p) {
    return p->socket->number;
}
