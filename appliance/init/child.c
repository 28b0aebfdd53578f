// SPDX-License-Identifier: Apache-2.0
// child.c: processes that init starts, and reaping (loop.h). PID 1 also inherits orphans: whatever ends is
// reaped, owned or not. A program's output comes through a pipe that the loop reads; its lines go to the
// log. Nothing a child does (flooding, holding the pipe open after its end) can hold up init: a turn reads
// a bounded piece.
#include "init/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/gateway_user.h"
#include "init/init_log.h"
#include "limits.h"

#define PIPE_TURN_BYTES 16384u
#define EXIT_NO_EXEC 127

static init_child *children;

// Output of one program; lives until the last writer of the pipe is gone.
typedef struct child_pipe {
    init_watch watch;
    char name[32];            // "" = lines as they come
    char line[LIMIT_LOG_LINE_BYTES];
    size_t len;
    bool cut;                 // the rest of an over-long line is dropped
} child_pipe;

// --- output ---

static void pipe_line_end(child_pipe *p) {
    if (p->len > 0) init_log_child_text(p->name[0] != 0 ? p->name : NULL, p->line, p->len);
    p->len = 0;
    p->cut = false;
}

static void pipe_take(child_pipe *p, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n') pipe_line_end(p);
        else if (p->len < sizeof(p->line)) p->line[p->len++] = bytes[i];
        else p->cut = true;
    }
}

static void pipe_ready(init_watch *w, u32 events) {
    child_pipe *p = CONTAINER_OF(w, child_pipe, watch);
    char bytes[4096];
    (void)events;
    for (u32 taken = 0; taken < PIPE_TURN_BYTES;) {
        ssize_t n = read(w->fd, bytes, sizeof(bytes));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            pipe_line_end(p);
            init_loop_unwatch(w);
            close(w->fd);
            free(p);
            return;
        }
        pipe_take(p, bytes, (size_t)n);
        taken += (u32)n;
    }
}

// Returns the descriptor to write to, or -errno.
static int pipe_open(const init_child *c) {
    int fds[2];
    child_pipe *p = calloc(1, sizeof(*p));
    if (p == NULL) return -ENOMEM;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        int failed = -errno;
        free(p);
        return failed;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    if (!c->plain_log) snprintf(p->name, sizeof(p->name), "%s", c->name);
    p->watch = (init_watch){.name = "output of a child", .on_ready = pipe_ready, .fd = fds[0]};
    int result = init_loop_watch(&p->watch, EPOLLIN);
    if (result == 0) return fds[1];
    close(fds[0]);
    close(fds[1]);
    free(p);
    return result;
}

// --- start ---

static void child_prepare(const init_child *c, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    for (int signo = 1; signo < NSIG; signo++) signal(signo, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        char text[16];
        int len = snprintf(text, sizeof(text), "%d", c->oom_score_adj);
        if (write(fd, text, (size_t)len) != len) { /* not root: as the parent's */
        }
        close(fd);
    }
    int result = c->as_gateway ? gateway_user_become() : 0;
    if (result < 0) {
        dprintf(STDERR_FILENO, "%s: user %u: %s\n", c->name, GATEWAY_UID, errno_name(result));
        _exit(EXIT_NO_EXEC);
    }
    // After that: the kernel forgets it when the user changes.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_NO_EXEC);
}

static void child_add(init_child *c, pid_t pid) {
    c->pid = pid;
    c->next = children;
    children = c;
}

// Puts fd at number `to` without close-on-exec.
static void fd_place(int fd, int to) {
    if (fd == to) fcntl(fd, F_SETFD, 0);
    else if (dup2(fd, to) < 0) _exit(EXIT_NO_EXEC);
}

int init_child_fork(init_child *c, int (*run)(void *context), void *context) {
    ASSERT(c->pid == 0 && c->name != NULL);
    // Its log lines are made by init_log already.
    c->plain_log = true;
    int log_fd = pipe_open(c);
    if (log_fd < 0) return log_fd;
    pid_t parent = getpid();
    pid_t pid = fork();
    int failed = errno;
    if (pid == 0) {
        child_prepare(c, parent);
        fd_place(log_fd, STDOUT_FILENO);
        fd_place(log_fd, STDERR_FILENO);
        init_log_open(false);
        _exit(run(context) & 0xff);
    }
    close(log_fd);
    if (pid < 0) return -failed;
    child_add(c, pid);
    return 0;
}

NORETURN static void child_exec(char *const argv[], char *const env[], int out_fd, int err_fd, int keep_fd) {
    static char path[] = "PATH=/bin:/sbin";
    char *const plain[] = {path, NULL};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    // Numbers below 3 would be overwritten before they are used.
    out_fd = fcntl(out_fd, F_DUPFD_CLOEXEC, 3);
    err_fd = fcntl(err_fd, F_DUPFD_CLOEXEC, 3);
    if (null_fd >= 0) fd_place(null_fd, STDIN_FILENO);
    fd_place(out_fd, STDOUT_FILENO);
    fd_place(err_fd, STDERR_FILENO);
    if (keep_fd >= 0) fcntl(keep_fd, F_SETFD, 0);
    execve(argv[0], argv, env != NULL ? env : plain);
    dprintf(STDERR_FILENO, "%s could not be started: %s\n", argv[0], errno_name(errno));
    _exit(EXIT_NO_EXEC);
}

int init_child_exec(init_child *c, char *const argv[], char *const env[], int out_fd, int err_fd,
                    int keep_fd) {
    ASSERT(c->pid == 0 && c->name != NULL && keep_fd != 0 && keep_fd != 1 && keep_fd != 2);
    int log_fd = -1;
    if (out_fd < 0 || err_fd < 0) {
        log_fd = pipe_open(c);
        if (log_fd < 0) return log_fd;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    int failed = errno;
    if (pid == 0) {
        child_prepare(c, parent);
        child_exec(argv, env, out_fd < 0 ? log_fd : out_fd, err_fd < 0 ? log_fd : err_fd, keep_fd);
    }
    if (log_fd >= 0) close(log_fd);
    if (pid < 0) return -failed;
    child_add(c, pid);
    return 0;
}

// --- end ---

void init_child_signal(init_child *c, int signo) {
    if (c->pid > 0) kill(c->pid, signo);
}

static bool child_remove(init_child *c) {
    for (init_child **link = &children; *link != NULL; link = &(*link)->next) {
        if (*link != c) continue;
        *link = c->next;
        c->next = NULL;
        c->pid = 0;
        return true;
    }
    return false;
}

void init_child_forget(init_child *c) {
    if (c->pid > 0) child_remove(c);
}

static init_child *child_of(pid_t pid) {
    for (init_child *c = children; c != NULL; c = c->next) {
        if (c->pid == pid) return c;
    }
    return NULL;
}

void init_child_reap(void) {
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR) continue;
        if (pid <= 0) return;
        init_child *c = child_of(pid);
        if (c == NULL) continue;
        child_remove(c);
        if (c->on_exit != NULL) c->on_exit(c, status);
    }
}
