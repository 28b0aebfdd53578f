// SPDX-License-Identifier: Apache-2.0
// boot_check.c: see boot_check.h. The admin port is asked the way an operator's tool would ask, over its own
// address; a wildcard address is asked over loopback.
#include "init/boot_check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEP_MS 5000
#define ANSWER_BYTES 512u

static int wait_for(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do n = poll(&p, 1, STEP_MS);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    return n == 0 ? -ETIMEDOUT : 0;
}

// A connected socket, or -errno.
static int connect_to(const struct sockaddr *addr, socklen_t len) {
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int err = 0;
    if (connect(fd, addr, len) < 0) err = -errno;
    if (err == -EINPROGRESS) {
        socklen_t size = sizeof(err);
        err = wait_for(fd, POLLOUT);
        if (err == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0) err = -err;
    }
    if (err == 0) return fd;
    close(fd);
    return err;
}

// Sends a request and reads the beginning of the answer, which is its status.
static int ask_status(int fd, int *status) {
    static const char request[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char answer[ANSWER_BYTES];
    size_t len = 0;
    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1) return -EIO;
    while (len < sizeof(answer) - 1 && memchr(answer, '\n', len) == NULL) {
        int err = wait_for(fd, POLLIN);
        if (err < 0) return err;
        ssize_t n = recv(fd, answer + len, sizeof(answer) - 1 - len, 0);
        if (n < 0 && errno == EAGAIN) continue;
        if (n <= 0) return n < 0 ? -errno : -ECONNRESET;
        len += (size_t)n;
    }
    answer[len] = '\0';
    return sscanf(answer, "HTTP/1.%*1d %3d", status) == 1 ? 0 : -EPROTO;
}

static void loopback_instead_of_any(struct sockaddr_storage *addr) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)addr;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;
    if (addr->ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY)) {
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) v6->sin6_addr = in6addr_loopback;
}

static int check_admin(const config *c, char *why, size_t size) {
    struct sockaddr_storage addr = c->admin_bind.addr;
    int status = 0;
    loopback_instead_of_any(&addr);
    int fd = connect_to((const struct sockaddr *)&addr, c->admin_bind.addr_len);
    int err = fd < 0 ? fd : ask_status(fd, &status);
    if (fd >= 0) close(fd);
    if (err == 0 && status != 200) err = -EAGAIN;
    if (err == 0) return 0;
    if (status != 0) snprintf(why, size, "admin %s: /readyz answers %d", c->admin_bind.text, status);
    else snprintf(why, size, "admin %s: %s", c->admin_bind.text, errno_name(err));
    return err;
}

// "host:port" or "[v6]:port".
static int check_reach(const char *target, char *why, size_t size) {
    char host[256];
    const char *colon = strrchr(target, ':');
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int err = -EINVAL;
    if (colon != NULL) {
        bool v6 = target[0] == '[' && colon[-1] == ']';
        snprintf(host, sizeof(host), "%.*s", (int)(colon - target - (v6 ? 2 : 0)), target + (v6 ? 1 : 0));
        err = getaddrinfo(host, colon + 1, &hints, &list) == 0 ? -ENETUNREACH : -EHOSTUNREACH;
    }
    for (const struct addrinfo *at = list; at != NULL && err < 0; at = at->ai_next) {
        int fd = connect_to(at->ai_addr, at->ai_addrlen);
        err = MIN(fd, 0);
        if (fd >= 0) close(fd);
    }
    if (list != NULL) freeaddrinfo(list);
    if (err < 0) snprintf(why, size, "%s: %s", target, errno_name(err));
    return err;
}

int boot_check_run(const config *c, char *why, size_t size) {
    int err = 0;
    if (c->admin_enabled) err = check_admin(c, why, size);
    if (err == 0 && c->update.reach[0] != '\0') err = check_reach(c->update.reach, why, size);
    return err;
}
