// SPDX-License-Identifier: Apache-2.0
// dial.c: sockets of the load generator.
//
// IP_BIND_ADDRESS_NO_PORT: with it bind() fixes only the source address and connect() picks a port
// that is free for this pair of addresses; without it each bound port would be unique over all
// targets.
#include "bench/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Sources are 127.64.0.1 and up: clear of 127.0.0.1 and of what other local services bind.
#define SOURCE_FIRST 0x7f400001u

static int address_split(const char *text, char *host, size_t host_bytes, const char **port) {
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon[1] == 0) return -EINVAL;
    const char *from = text;
    size_t n = (size_t)(colon - text);
    if (n >= 2 && text[0] == '[' && colon[-1] == ']') {
        from++;
        n -= 2;
    }
    if (n == 0 || n >= host_bytes) return -EINVAL;
    memcpy(host, from, n);
    host[n] = 0;
    *port = colon + 1;
    return 0;
}

int dial_resolve(dial *d, const char *text, char *why, size_t why_bytes) {
    char host[256];
    const char *port;
    if (address_split(text, host, sizeof(host), &port) != 0) {
        snprintf(why, why_bytes, "\"%s\" is not HOST:PORT or [IPV6]:PORT", text);
        return -EINVAL;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0) {
        snprintf(why, why_bytes, "\"%s\": %s", text, gai_strerror(rc));
        return -EINVAL;
    }
    memcpy(&d->to, found->ai_addr, found->ai_addrlen);
    d->to_len = found->ai_addrlen;
    freeaddrinfo(found);
    snprintf(d->text, sizeof(d->text), "%s", text);
    if (d->to.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &d->to, sizeof(in));
        d->port = ntohs(in.sin_port);
        d->loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127;
    } else {
        struct sockaddr_in6 in6;
        memcpy(&in6, &d->to, sizeof(in6));
        d->port = ntohs(in6.sin6_port);
    }
    return 0;
}

static int source_bind(const dial *d, int fd, u32 index) {
    int on = 1;
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(SOURCE_FIRST + index % d->sources);
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) != 0) return -errno;
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0) return -errno;
    return 0;
}

static int socket_prepare(const dial *d, int fd, u32 index) {
    int on = 1;
    if (!d->one_frame && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
        return -errno;
    }
    int rcvbuf = (int)d->rcvbuf, sndbuf = (int)d->sndbuf;
    if (rcvbuf != 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf)) != 0)
        return -errno;
    if (sndbuf != 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf)) != 0)
        return -errno;
    if (d->reset) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) != 0) return -errno;
    }
    if (d->loopback && d->sources > 1) return source_bind(d, fd, index);
    return 0;
}

int dial_start(const dial *d, u32 index, int *fd) {
    int s = socket(d->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) return -errno;
    int rc = socket_prepare(d, s, index);
    if (rc == 0 && connect(s, (const struct sockaddr *)&d->to, d->to_len) != 0 &&
        errno != EINPROGRESS) {
        rc = -errno;
    }
    if (rc != 0) {
        close(s);
        return rc;
    }
    *fd = s;
    return 0;
}

int dial_finish(int fd, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int n;
    do {
        n = poll(&p, 1, timeout_ms);
    } while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    if (n == 0) return -ETIMEDOUT;
    int err = 0;
    socklen_t len = sizeof(err);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) return -errno;
    return -err;
}
