// SPDX-License-Identifier: Apache-2.0
// observe_syscalls.c: counts the server's system calls with the raw_syscalls:sys_enter tracepoint,
// one perf counter a thread, inherited by threads that start later.
//
// The tracepoint's number is read from tracefs. Where that is not mounted, a child process mounts
// it in a mount namespace of its own and reports the number: the machine is left as it was.
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/observe.h"

#define TRACEPOINT "events/raw_syscalls/sys_enter/id"

struct observe_syscalls {
    u32 count;
    int fds[BENCH_THREADS_MAX];
};

static int id_read(const char *path) {
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n <= 0 ? -EIO : atoi(text);
}

// In the child: mounts tracefs privately and writes the number, or a negative errno, into the pipe.
static void id_report_private(int out) {
    int id = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0) {
        id = -errno;
    } else {
        id = id_read("/sys/kernel/tracing/" TRACEPOINT);
    }
    _exit(write(out, &id, sizeof(id)) == (ssize_t)sizeof(id) ? 0 : 1);
}

static int id_from_private_mount(void) {
    int pipes[2], id = -EIO;
    if (pipe2(pipes, O_CLOEXEC) != 0) return -errno;
    pid_t child = fork();
    if (child == 0) id_report_private(pipes[1]);
    close(pipes[1]);
    if (child < 0) id = -EAGAIN;
    if (child > 0 && read(pipes[0], &id, sizeof(id)) != (ssize_t)sizeof(id)) id = -EIO;
    close(pipes[0]);
    if (child > 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    return id;
}

static int tracepoint_id(void) {
    int id = id_read("/sys/kernel/tracing/" TRACEPOINT);
    if (id <= 0) id = id_read("/sys/kernel/debug/tracing/" TRACEPOINT);
    if (id <= 0) id = id_from_private_mount();
    return id == 0 ? -EIO : id;
}

static int counter_open(int id, u32 tid) {
    struct perf_event_attr attr = {
        .type = PERF_TYPE_TRACEPOINT,
        .size = sizeof(attr),
        .config = (u64)(u32)id,
        .inherit = 1,
    };
    long fd = syscall(SYS_perf_event_open, &attr, (pid_t)tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

observe_syscalls *observe_syscalls_open(const u32 *pids, u32 count, char *why, size_t why_bytes) {
    observe_sample *sample = malloc(sizeof(*sample));
    observe_syscalls *s = calloc(1, sizeof(*s));
    if (sample == NULL || s == NULL)
        base_out_of_memory("the system call counters", sizeof(*sample));
    int rc = observe_take(pids, count, sample);
    int id = rc == 0 ? tracepoint_id() : rc;
    if (id < 0) {
        snprintf(why, why_bytes, "%s", id == -ESRCH ? "the server is gone" : errno_name(id));
        if (id == -ENOENT || id == -ENODEV) {
            snprintf(why, why_bytes, "this kernel has no raw_syscalls tracepoint");
        } else if (id == -EPERM || id == -EACCES) {
            snprintf(why, why_bytes, "needs root, or tracefs readable and CAP_PERFMON");
        }
    }
    for (u32 i = 0; id > 0 && i < sample->count; i++) {
        int fd = counter_open(id, sample->threads[i].tid);
        if (fd >= 0) {
            s->fds[s->count++] = fd;
        } else if (fd != -ESRCH) { // a thread that has just ended makes no calls
            snprintf(why, why_bytes, "perf_event_open: %s%s", errno_name(fd),
                     fd == -EACCES || fd == -EPERM ? " (needs root or CAP_PERFMON)" : "");
            id = fd;
        }
    }
    free(sample);
    if (id > 0) return s;
    observe_syscalls_close(s);
    return NULL;
}

u64 observe_syscalls_read(const observe_syscalls *s) {
    u64 total = 0, value;
    for (u32 i = 0; i < s->count; i++) {
        if (read(s->fds[i], &value, sizeof(value)) == (ssize_t)sizeof(value)) total += value;
    }
    return total;
}

void observe_syscalls_close(observe_syscalls *s) {
    for (u32 i = 0; i < s->count; i++) close(s->fds[i]);
    free(s);
}
