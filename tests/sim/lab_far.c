// SPDX-License-Identifier: Apache-2.0
// lab_far.c: the far ends of a lab: non-blocking loopback sockets next to the real engines, simulated
// peers next to `sim`. See lab.h.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lab.h"

#define FAR_SNDBUF 16384 // small, so that a socket is full soon

int far_listen(lab *l, struct sockaddr_storage *addr, socklen_t *addr_len) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(addr, 0, sizeof(*addr));
    *addr_len = sizeof(v4);
    if (l->world != NULL) {
        static u16 port = 7000;
        v4.sin_port = htons(port++);
        memcpy(addr, &v4, sizeof(v4));
        return sim_listen(l->world, (struct sockaddr *)addr, *addr_len, 128);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (io_kind_wants_nonblock(l->kind)) {
        close(fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) return -errno;
    }
    int bytes = FAR_SNDBUF;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)); // inherited by what it accepts
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    if (bind(fd, (struct sockaddr *)&v4, sizeof(v4)) < 0 || listen(fd, 128) < 0 ||
        getsockname(fd, (struct sockaddr *)addr, addr_len) < 0) {
        int result = -errno;
        close(fd);
        return result;
    }
    return fd;
}

void far_listen_close(lab *l, int fd) {
    if (l->world != NULL) sim_fd_close(l->world, fd);
    else close(fd);
}

// On a real engine the limit of the process is set to the lowest free number.
void lab_limit_descriptors(lab *l, bool limited) {
    if (l->world != NULL) {
        sim_fds_limit(l->world, limited ? sim_fds_open(l->world) : SIM_FDS_MAX);
        return;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (limited) {
        int lowest = dup(l->listen_fd);
        ASSERT(lowest >= 0);
        close(lowest);
        limit.rlim_cur = (rlim_t)lowest;
    }
    int result = setrlimit(RLIMIT_NOFILE, &limit);
    ASSERT(result == 0);
}

int lab_socket(lab *l) {
    if (l->world != NULL) return sim_stream(l->world);
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

far_end far_connect(lab *l) {
    far_end f = {.fd = -1};
    if (l->world != NULL) {
        f.peer = sim_connect(l->world, l->listen_fd, NULL);
        ASSERT(f.peer != NULL);
        return f;
    }
    f.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT(f.fd >= 0);
    int bytes = FAR_SNDBUF, one = 1;
    setsockopt(f.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(f.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    setsockopt(f.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    // On loopback the handshake is done inside the call, EINPROGRESS or not.
    int result = connect(f.fd, (struct sockaddr *)&l->addr, l->addr_len);
    ASSERT(result == 0 || errno == EINPROGRESS);
    return f;
}

far_end far_accept(lab *l, int fd) {
    far_end f = {.fd = -1};
    u64 deadline = lab_patience(l);
    if (l->world != NULL) {
        while (f.peer == NULL && lab_is_patient(l, deadline)) {
            f.peer = sim_accept(l->world, fd);
            if (f.peer == NULL) lab_turn(l);
        }
        return f;
    }
    f.fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return f;
}

ssize_t far_write(far_end *f, const void *data, size_t len) {
    if (f->peer != NULL) return sim_peer_write(f->peer, data, len);
    ssize_t n = send(f->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

ssize_t far_read(far_end *f, void *out, size_t len) {
    if (f->peer != NULL) return sim_peer_read(f->peer, out, len);
    ssize_t n = recv(f->fd, out, len, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

void far_write_all(lab *l, far_end *f, const u8 *data, size_t len) {
    size_t sent = 0;
    u64 deadline = lab_patience(l);
    while (sent < len) {
        ssize_t n = far_write(f, data + sent, len - sent);
        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        LAB_CHECK(l, n == -EAGAIN);
        LAB_CHECK(l, lab_is_patient(l, deadline));
        lab_turn(l);
    }
}

size_t far_read_all(lab *l, far_end *f, u8 *out, size_t len, int *end) {
    size_t got = 0;
    u64 deadline = lab_patience(l);
    *end = -ETIMEDOUT;
    while (got < len && lab_is_patient(l, deadline)) {
        ssize_t n = far_read(f, out + got, len - got);
        if (n > 0) {
            got += (size_t)n;
        } else if (n == -EAGAIN) {
            lab_turn(l);
        } else {
            *end = (int)n;
            return got;
        }
    }
    if (got == len) *end = 1;
    return got;
}

void far_shutdown(far_end *f) {
    if (f->peer != NULL) sim_peer_shutdown(f->peer);
    else shutdown(f->fd, SHUT_WR);
}

void far_reset(far_end *f) {
    if (f->peer != NULL) {
        sim_peer_reset(f->peer);
    } else {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(f->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(f->fd);
    }
    *f = (far_end){.fd = -1};
}

void far_close(far_end *f) {
    if (f->peer != NULL) sim_peer_close(f->peer);
    else if (f->fd >= 0) close(f->fd);
    *f = (far_end){.fd = -1};
}
