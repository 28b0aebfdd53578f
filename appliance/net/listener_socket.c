// SPDX-License-Identifier: Apache-2.0
// listener_socket.c: opening listening sockets, on the main thread before workers start or at a reload:
// address reuse, inherited options, and the program that steers new connections to the worker of the CPU
// that received them.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/listener.h"

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

#define ADDRESS_WAIT_MS 1000 // for an address that is still taken
#define ADDRESS_POLL_MS 20

typedef struct option_row {
    int level, name, value;
    const char *text;
} option_row;

static int set_option(int fd, const option_row *row, const char **step) {
    *step = row->text;
    return setsockopt(fd, row->level, row->name, &row->value, sizeof(row->value)) == 0 ? 0 : -errno;
}

// Everything an accepted socket inherits is set here, once.
static int tcp_options(int fd, const listener_config *conf, const char **step) {
    int keepalive = (int)conf->keepalive_s;
    const option_row rows[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"},
        {SOL_SOCKET, SO_REUSEPORT, 1, "SO_REUSEPORT"},
        {IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"},
        {SOL_SOCKET, SO_KEEPALIVE, keepalive > 0, "SO_KEEPALIVE"},
        {IPPROTO_TCP, TCP_KEEPIDLE, keepalive, "TCP_KEEPIDLE"},
        {IPPROTO_TCP, TCP_KEEPINTVL, MAX(keepalive / 3, 1), "TCP_KEEPINTVL"},
        {IPPROTO_TCP, TCP_KEEPCNT, 3, "TCP_KEEPCNT"},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)conf->user_timeout_ms, "TCP_USER_TIMEOUT"},
        {SOL_SOCKET, SO_RCVBUF, (int)conf->rcvbuf, "SO_RCVBUF"},
        {SOL_SOCKET, SO_SNDBUF, (int)conf->sndbuf, "SO_SNDBUF"},
        // Seconds the kernel keeps a connection to itself that sends nothing.
        {IPPROTO_TCP, TCP_DEFER_ACCEPT, 10, "TCP_DEFER_ACCEPT"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        int name = rows[i].name, level = rows[i].level;
        bool tcp = level == IPPROTO_TCP;
        if (tcp && name >= TCP_KEEPIDLE && name <= TCP_KEEPCNT && keepalive == 0) continue;
        if (tcp && name == TCP_DEFER_ACCEPT && !conf->defer_accept) continue;
        if (!tcp && (name == SO_RCVBUF || name == SO_SNDBUF) && rows[i].value == 0) continue;
        int result = set_option(fd, &rows[i], step);
        if (result < 0) return result;
    }
    return 0;
}

// A stale socket file of a process that is gone is removed; a live one is "address in use".
static int unix_path_clear(const bind_address *bind) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&bind->addr;
    struct stat st;
    if (lstat(un->sun_path, &st) < 0) return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode)) return -EADDRINUSE;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return -errno;
    int result = connect(probe, (const struct sockaddr *)&bind->addr, bind->addr_len);
    int error = errno;
    close(probe);
    if (result == 0 || error != ECONNREFUSED) return -EADDRINUSE;
    return unlink(un->sun_path) == 0 ? 0 : -errno;
}

// A unix socket can not be bound twice: the workers share its queue, each through a descriptor of its own.
// (Each needs the listener, also for connections that move to it.)
static int socket_share(int fd, const char **step) {
    *step = "dup";
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -errno : copy;
}

static int socket_open(const listener_config *conf, const bind_address *bind_to, bool nonblock,
                       const char **step) {
    int family = bind_to->addr.ss_family;
    *step = "socket";
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0);
    if (fd < 0) return -errno;
    int result;
    if (family == AF_UNIX) {
        *step = "bind";
        result = unix_path_clear(bind_to);
    } else {
        result = tcp_options(fd, conf, step);
        const option_row v6only = {IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY"};
        if (result == 0 && family == AF_INET6) result = set_option(fd, &v6only, step);
    }
    if (result < 0) goto fail;
    *step = "bind";
    mode_t mask = umask(conf->bind_everybody ? 0111 : 0117); // unix sockets: else owner and group only
    result = bind(fd, (const struct sockaddr *)&bind_to->addr, bind_to->addr_len) == 0 ? 0 : -errno;
    umask(mask);
    if (result < 0) goto fail;
    *step = "listen";
    if (listen(fd, (int)conf->backlog) == 0) return fd;
    result = -errno;
fail:
    close(fd);
    return result;
}

// Classic BPF that returns the group index (= worker) of the CPU the packet is handled on; CPUs without
// a worker are spread by modulo. Group indices follow the order of bind.
static int steer_by_cpu(int fd, u32 count, const int *worker_cpus) {
    struct sock_filter code[2 * LIMIT_WORKERS_MAX + 3];
    u16 n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (u32)(SKF_AD_OFF + SKF_AD_CPU));
    for (u32 i = 0; i < count; i++) {
        if (worker_cpus[i] < 0) continue;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)worker_cpus[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, i);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, count);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
    struct sock_fprog program = {.len = n, .filter = code};
    int result = setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
    return result == 0 ? 0 : -errno;
}

static void bound_address(int fd, const listener_config *conf, bind_address *bound) {
    *bound = conf->bind;
    if (conf->bind.addr.ss_family == AF_UNIX) return;
    bound->addr_len = sizeof(bound->addr);
    if (getsockname(fd, (struct sockaddr *)&bound->addr, &bound->addr_len) < 0) return;
    const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)&bound->addr;
    // The port is at the same place in sockaddr_in and sockaddr_in6; keep the host part as configured.
    char *colon = strrchr(bound->text, ':');
    if (colon == NULL) return;
    size_t room = sizeof(bound->text) - (size_t)(colon - bound->text);
    snprintf(colon, room, ":%u", (unsigned)ntohs(in4->sin_port));
}

// Another process with the same user could share the port through SO_REUSEPORT: half of the devices
// would reach it. So the address is first bound without it; that fails when anyone listens there.
static int address_is_free(const listener_config *conf) {
    const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)&conf->bind.addr;
    if (conf->bind.addr.ss_family == AF_UNIX || in4->sin_port == 0) return 0;
    int fd = socket(conf->bind.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    int result = bind(fd, (const struct sockaddr *)&conf->bind.addr, conf->bind.addr_len);
    result = result == 0 ? 0 : -errno;
    close(fd);
    return result;
}

// The first of a listener's sockets. A process that was killed leaves its rings to the kernel, which lets go of their
// sockets some milliseconds after it has been waited for: one that takes its place at once waits that long.
static int first_open(const listener_config *conf, bool nonblock, const char **step) {
    for (u32 waited_ms = 0;; waited_ms += ADDRESS_POLL_MS) {
        *step = "bind";
        int result = address_is_free(conf);
        if (result == 0) result = socket_open(conf, &conf->bind, nonblock, step);
        if (result != -EADDRINUSE || waited_ms >= ADDRESS_WAIT_MS) return result;
        poll(NULL, 0, ADDRESS_POLL_MS);
    }
}

int listener_sockets_open(const listener_config *conf, u32 count, const int *worker_cpus, int *fds,
                          bool nonblock, bind_address *bound, char *why, size_t why_bytes) {
    const char *step = "bind";
    bind_address bind_to = conf->bind;
    u32 opened = 0;
    int result = 0;
    for (; opened < count; opened++) {
        bool share = opened > 0 && conf->bind.addr.ss_family == AF_UNIX;
        int fd = opened == 0 ? first_open(conf, nonblock, &step)
                 : share     ? socket_share(fds[0], &step)
                             : socket_open(conf, &bind_to, nonblock, &step);
        if (fd < 0) {
            result = fd;
            break;
        }
        fds[opened] = fd;
        if (opened == 0) {
            bound_address(fd, conf, bound);
            bind_to = *bound; // port 0: the others share the first one's port
        }
    }
    if (result == 0 && count > 1 && conf->steer == STEER_CPU && conf->bind.addr.ss_family != AF_UNIX) {
        step = "SO_ATTACH_REUSEPORT_CBPF";
        result = steer_by_cpu(fds[0], count, worker_cpus);
    }
    if (result == 0) return 0;
    while (opened > 0) close(fds[--opened]);
    const char *hint = result == -EADDRINUSE      ? ": another process listens there"
                       : result == -EACCES        ? ": ports below 1024 need CAP_NET_BIND_SERVICE, which is "
                                                    "given up once the gateway runs"
                       : result == -EADDRNOTAVAIL ? ": this machine has no such address"
                                                  : "";
    snprintf(why, why_bytes, "listener %s: %s: %s: %s%s", conf->name, conf->bind.text, step,
             errno_name(result), hint);
    return result;
}
