// SPDX-License-Identifier: Apache-2.0
// probe.c: see probe.h. The child reports its last step and errno through a pipe.
#include "io/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct probe_report { // through the pipe
    int error;
    char step[64];
} probe_report;

typedef struct probe_socket {
    io_handle io;
    u32 bytes;
    int receives;
    int sent;
    bool closed;
} probe_socket;

static void probe_on_recv(io_handle *h, int result, u8 *data) {
    probe_socket *s = CONTAINER_OF(h, probe_socket, io);
    if (result <= 0) return;
    s->bytes += data[0] == 'x' ? (u32)result : 0;
    s->receives++;
}

static void probe_on_send(io_handle *h, int result) {
    CONTAINER_OF(h, probe_socket, io)->sent = result;
}

static void probe_on_closed(io_handle *h) {
    CONTAINER_OF(h, probe_socket, io)->closed = true;
}

static const io_callbacks probe_callbacks = {
    .on_recv = probe_on_recv,
    .on_send = probe_on_send,
    .on_closed = probe_on_closed,
};

static int turn(io_engine *e) {
    return io_run(e, clock_mono_ns() + 200 * NS_PER_MS);
}

// The scenario. Returns 0 or -errno with the failing step.
static int probe_scenario(const char **step) {
    static u64 now_ns;
    static recorder rec;
    int result = recorder_init(&rec, &now_ns);
    if (result < 0) return result;
    io_config config = {
        .kind = IO_URING, .handles_max = 4, .recv_bufs = 2, .sq_entries = 8, .rec = &rec, .now_ns = &now_ns,
    };
    io_engine *e = NULL;
    result = io_create(&config, &e, step);
    if (result < 0) return result;
    *step = "enable ring";
    result = io_enable(e);
    if (result < 0) return result;
    *step = "socketpair";
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
    probe_socket s = {0};
    result = io_attach(e, &s.io, pair[0], &probe_callbacks);
    if (result < 0) return result;
    *step = "io_uring_enter";
    io_recv_start(e, &s.io, true);
    result = io_run(e, 0);
    if (result < 0) return result;
    *step = "multishot receive";
    for (int i = 1; i <= 4; i++) { // more often than there are buffers
        if (write(pair[1], "x", 1) != 1) return -errno;
        for (int turns = 0; s.receives < i && turns < 8; turns++) {
            result = turn(e);
            if (result < 0) return result;
        }
        if (s.bytes != (u32)i) return -EINVAL;
    }
    *step = "send";
    struct iovec iov = {.iov_base = (char[]){'y'}, .iov_len = 1};
    if (io_send(e, &s.io, &iov, 1) != IO_PENDING) return -EINVAL;
    // A send that goes out whole is done when it is submitted and makes no event: no wait for one.
    for (int turns = 0; s.sent == 0 && turns < 8; turns++) {
        result = turns == 0 ? io_run(e, 0) : turn(e);
        if (result < 0) return result;
    }
    if (s.sent != 1) return s.sent < 0 ? s.sent : -EINVAL;
    *step = "doorbell";
    io_wake(e);
    result = turn(e);
    if (result < 1) return result < 0 ? result : -EINVAL;
    *step = "close";
    io_close(e, &s.io, false);
    for (int turns = 0; !s.closed && turns < 8; turns++) {
        result = turn(e);
        if (result < 0) return result;
    }
    return s.closed ? 0 : -EINVAL;
}

NORETURN static void probe_child(int pipe_fd) {
    prctl(PR_SET_DUMPABLE, 0); // a policy that kills should not leave a core file
    alarm(10);
    const char *step = "start";
    probe_report report = {0};
    report.error = probe_scenario(&step);
    snprintf(report.step, sizeof(report.step), "%s", step);
    (void)!write(pipe_fd, &report, sizeof(report));
    _exit(0); // the kernel takes the ring down
}

// --- causes ---

static int io_uring_disabled_read(void) {
    FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    if (f == NULL) return 0;
    int value = 0;
    if (fscanf(f, "%d", &value) != 1) value = 0;
    fclose(f);
    return value;
}

static bool kernel_is_older(int major_wanted, int minor_wanted) {
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
    return major < major_wanted || (major == major_wanted && minor < minor_wanted);
}

static void explain(io_probe_result *r) {
    struct utsname name = {0};
    uname(&name);
    int disabled = io_uring_disabled_read();
    const char *cause = "unknown", *fix = "run with --engine epoll-et, and report this";
    if (r->signal != 0) {
        cause = "a seccomp policy kills the process for io_uring";
        fix = "allow io_uring_setup, io_uring_enter and io_uring_register, or use epoll-et";
    } else if (r->error == -ENOSYS) {
        cause = kernel_is_older(5, 1) ? "the kernel has no io_uring"
                                      : "the kernel was built without io_uring, or a filter hides it";
        fix = "kernel 6.1 or later with CONFIG_IO_URING=y";
    } else if ((r->error == -EPERM || r->error == -EACCES) && disabled != 0) {
        cause = disabled == 1 ? "kernel.io_uring_disabled is 1: only for a group or CAP_SYS_ADMIN"
                              : "kernel.io_uring_disabled is 2: switched off for all";
        fix = "sysctl -w kernel.io_uring_disabled=0";
    } else if (r->error == -EPERM || r->error == -EACCES) {
        cause = "a seccomp filter or security module refuses io_uring (the default in containers)";
        fix = "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile";
    } else if (r->error == -EINVAL) {
        cause = kernel_is_older(6, 1) ? "the kernel is too old for this engine (6.1 or later is needed)"
                                      : "a needed feature of io_uring is missing";
        fix = "kernel 6.1 or later";
    } else if (r->error == -ENOMEM) {
        cause = "not enough memory (before kernel 5.12 also RLIMIT_MEMLOCK)";
        fix = "give the process more memory";
    } else if (r->error == -EMFILE || r->error == -ENFILE) {
        cause = "no descriptors left";
        fix = "raise RLIMIT_NOFILE (ulimit -n), or fs.file-max";
    }
    snprintf(r->cause, sizeof(r->cause), "%s; kernel %.60s", cause, name.release);
    snprintf(r->fix, sizeof(r->fix), "%s", fix);
}

int io_probe_uring(io_probe_result *result) {
    *result = (io_probe_result){0};
    int pipe_fds[2];
    if (pipe(pipe_fds) < 0) {
        result->error = -errno;
        snprintf(result->step, sizeof(result->step), "pipe");
        explain(result);
        return result->error;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(pipe_fds[0]);
        probe_child(pipe_fds[1]);
    }
    close(pipe_fds[1]);
    probe_report report = {.error = child < 0 ? -errno : -ENOTRECOVERABLE, .step = "probe process"};
    probe_report got;
    ssize_t n;
    while ((n = read(pipe_fds[0], &got, sizeof(got))) < 0 && errno == EINTR) {
    }
    if (n == (ssize_t)sizeof(got)) report = got;
    close(pipe_fds[0]);
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && WIFSIGNALED(status)) result->signal = WTERMSIG(status);
    result->error = report.error;
    snprintf(result->step, sizeof(result->step), "%s", report.step);
    if (result->error != 0) explain(result);
    return result->error;
}

bool io_probe_is_refusal(int error) {
    return error == -ENOSYS || error == -EPERM || error == -EACCES || error == -EINVAL ||
           error == -EOPNOTSUPP || error == -ENOTRECOVERABLE;
}

int io_engine_choose(bool automatic, io_kind wanted, io_kind *chosen, char *why, size_t why_bytes) {
    if (!automatic && wanted != IO_URING) {
        *chosen = wanted;
        snprintf(why, why_bytes, "configured");
        return 0;
    }
    io_probe_result probe;
    int error = io_probe_uring(&probe);
    *chosen = IO_URING;
    if (error == 0) {
        snprintf(why, why_bytes, automatic ? "io_uring works end to end" : "configured");
        return 0;
    }
    snprintf(why, why_bytes, "io_uring: %s failed with %s: %s", probe.step, errno_name(error), probe.cause);
    if (!automatic || !io_probe_is_refusal(error)) return error;
    *chosen = IO_EPOLL_ET;
    return 0;
}

int probe_main(int argc, char **argv) {
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fprintf(help ? stdout : stderr,
                "usage: sluice probe\n"
                "Tries io_uring end to end and prints which engine `auto` takes here, and why.\n"
                "Exit status: 0 io_uring works; 1 auto falls back to epoll-et; 3 something is wrong.\n");
        return help ? 0 : 2;
    }
    struct utsname name = {0};
    uname(&name);
    struct rlimit nofile = {0};
    getrlimit(RLIMIT_NOFILE, &nofile);
    printf("kernel      %s %s\n", name.release, name.machine);
    printf("descriptors %llu now, %llu at most\n", (unsigned long long)nofile.rlim_cur,
           (unsigned long long)nofile.rlim_max);
    printf("io_uring_disabled %d\n", io_uring_disabled_read());
    io_probe_result r;
    int error = io_probe_uring(&r);
    if (error == 0) {
        printf("io_uring    works end to end (ring, buffers, multishot receive, send, doorbell)\n");
        printf("engine      uring\n");
        return 0;
    }
    printf("io_uring    no: %s: %s%s\n", r.step, errno_name(error), r.signal ? " (killed)" : "");
    printf("cause       %s\n", r.cause);
    printf("fix         %s\n", r.fix);
    if (!io_probe_is_refusal(error)) {
        printf("engine      none chosen: this is a fault to be mended, not a missing feature\n");
        return 3;
    }
    printf("engine      epoll-et (auto falls back; figures measured with uring do not apply)\n");
    return 1;
}
