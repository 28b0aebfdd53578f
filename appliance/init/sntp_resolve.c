// SPDX-License-Identifier: Apache-2.0
// sntp_resolve.c: see sntp_resolve.h. The helper writes fixed-size records into a pipe that holds them all; they
// are read when it has ended.
#include "init/sntp_resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "init/init_log.h"
#include "init/loop.h"
#include "init/sntp.h"

static void helper_ended(init_child *c, int status);
static void helper_late(init_timer *t);

static struct {
    init_child child;
    init_timer late;
    int fds[2];
    const char (*names)[LIMIT_NTP_NAME_BYTES];
    u32 count;
    void (*done)(const sntp_address *list, u32 n);
} job = {
    .child = {.name = "time server names", .on_exit = helper_ended},
    .late = {.name = "time server names", .on_fire = helper_late},
};

bool sntp_resolve_is_running(void) {
    return job.child.pid > 0;
}

static void name_resolve(u32 index) {
    char host[LIMIT_NTP_NAME_BYTES], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    if (!sntp_server_split(job.names[index], host, sizeof(host), port, sizeof(port))) return;
    if (getaddrinfo(host, port, &hints, &list) != 0) return;
    u32 taken = 0;
    for (const struct addrinfo *a = list; a != NULL && taken < LIMIT_NTP_ADDRESSES_PER_NAME; a = a->ai_next) {
        sntp_address record = {.server = index, .len = (u32)a->ai_addrlen};
        if (a->ai_addrlen > sizeof(record.addr)) continue;
        memcpy(&record.addr, a->ai_addr, a->ai_addrlen);
        if (write(job.fds[1], &record, sizeof(record)) != (ssize_t)sizeof(record)) return;
        taken++;
    }
    freeaddrinfo(list);
}

static int helper_run(void *context) {
    (void)context;
    close(job.fds[0]);
    for (u32 i = 0; i < job.count; i++) name_resolve(i);
    return 0;
}

static void helper_late(init_timer *t) {
    (void)t;
    init_warn("names of time servers: no answer in %u ms", LIMIT_NTP_RESOLVE_MS);
    init_child_signal(&job.child, SIGKILL);
}

static void helper_ended(init_child *c, int status) {
    sntp_address list[LIMIT_NTP_ADDRESSES];
    u32 n = 0;
    (void)c;
    (void)status;
    init_timer_clear(&job.late);
    while (n < LIMIT_NTP_ADDRESSES && read(job.fds[0], &list[n], sizeof(list[n])) == (ssize_t)sizeof(list[n])) {
        if (list[n].server < job.count && list[n].len <= sizeof(list[n].addr)) n++;
    }
    close(job.fds[0]);
    job.done(list, n);
}

int sntp_resolve(const char (*names)[LIMIT_NTP_NAME_BYTES], u32 count, void (*done)(const sntp_address *list, u32 n)) {
    if (sntp_resolve_is_running()) return -EBUSY;
    if (pipe2(job.fds, O_CLOEXEC | O_NONBLOCK) < 0) return -errno;
    job.names = names;
    job.count = count;
    job.done = done;
    int result = init_child_fork(&job.child, helper_run, NULL);
    close(job.fds[1]);
    if (result < 0) close(job.fds[0]);
    else init_timer_set(&job.late, LIMIT_NTP_RESOLVE_MS);
    return result;
}
