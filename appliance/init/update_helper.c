// SPDX-License-Identifier: Apache-2.0
// update_helper.c: see update_helper.h. The pipe's end alone does not say that the helper is done, nor does
// its exit that the pipe is empty: at exit what is left in the pipe is read first, then the owner is told.
#include "init/update_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static void take(update_helper *h, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n') {
            if (h->len < sizeof(h->line) - 1) h->line[h->len++] = bytes[i];
            continue;
        }
        h->line[h->len] = '\0';
        h->len = 0;
        if (h->on_line != NULL) h->on_line(h, h->line);
    }
}

// Returns whether the pipe may give more later.
static bool drain(update_helper *h) {
    char bytes[1024];
    for (u32 turns = 0; turns < 64; turns++) {
        ssize_t n = read(h->report.fd, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        if (n == 0) return false;
        take(h, bytes, (size_t)n);
    }
    return true;
}

static void on_report(init_watch *w, u32 events) {
    (void)events;
    update_helper *h = CONTAINER_OF(w, update_helper, report);
    if (!drain(h)) init_loop_unwatch(w);
}

static void on_exit(init_child *c, int status) {
    update_helper *h = CONTAINER_OF(c, update_helper, child);
    drain(h);
    init_loop_unwatch(&h->report);
    close(h->report.fd);
    h->report.fd = -1;
    h->on_end(h, status);
}

static int run_in_child(void *context) {
    update_helper *h = context;
    return h->run(h);
}

int update_helper_start(update_helper *h) {
    int fds[2];
    ASSERT(!update_helper_is_running(h));
    if (pipe2(fds, O_CLOEXEC) < 0) return -errno;
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    h->len = 0;
    h->say_fd = fds[1];
    h->report = (init_watch){.name = h->name, .on_ready = on_report, .fd = fds[0]};
    h->child = (init_child){.name = h->name, .on_exit = on_exit};
    int err = init_loop_watch(&h->report, EPOLLIN);
    if (err == 0) {
        err = init_child_fork(&h->child, run_in_child, h);
        if (err < 0) init_loop_unwatch(&h->report);
    }
    close(fds[1]);
    if (err < 0) close(fds[0]);
    return err;
}

bool update_helper_is_running(const update_helper *h) {
    return h->child.pid != 0;
}

void update_helper_kill(update_helper *h) {
    init_child_signal(&h->child, SIGKILL);
}

void update_helper_say(const update_helper *h, const char *format, ...) {
    char line[UPDATE_HELPER_LINE_BYTES];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (len < 0) return;
    len = MIN(len, (int)sizeof(line) - 2);
    for (int i = 0; i < len; i++) {
        if (line[i] == '\n') line[i] = ' ';
    }
    line[len++] = '\n';
    ssize_t n;
    do n = write(h->say_fd, line, (size_t)len);
    while (n < 0 && errno == EINTR);
}
