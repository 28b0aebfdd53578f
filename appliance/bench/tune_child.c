// SPDX-License-Identifier: Apache-2.0
// tune_child.c: starts and ends the gateway under test.
//
// The child is bound to this process (PR_SET_PDEATHSIG), so that a killed tune leaves no gateway
// behind, and is the leader of its own process group, so that Ctrl-C at the terminal reaches tune
// alone, which then ends the child in order.
#include "bench/tune_child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_NS (10 * NS_PER_S)
#define STOP_TIMEOUT_NS (3 * NS_PER_S)
#define POLL_STEP_NS (20 * NS_PER_MS)

static void pause_briefly(void) {
    struct timespec step = {.tv_nsec = POLL_STEP_NS};
    nanosleep(&step, NULL);
}

// A TCP port of 127.0.0.1 that was free a moment ago. Another process may take it before the child
// does; then the child ends with an address error and is started again with other ports.
static int free_port(u16 *port) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int rc = 0;
    if (bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0 ||
        getsockname(fd, (struct sockaddr *)&in, &len) != 0) {
        rc = -errno;
    }
    close(fd);
    *port = ntohs(in.sin_port);
    return rc;
}

static int config_write(const tune_child *c, const tune_child_params *p, u16 admin_port) {
    char path[192];
    snprintf(path, sizeof(path), "%s/sluice.conf", c->dir);
    FILE *f = fopen(path, "we");
    if (f == NULL) return -errno;
    fprintf(f,
            "workers = 1;\n"
            "data_dir = \"%s/data\";\n"
            "admin { bind = \"127.0.0.1:%u\"; }\n"
            "listener tune { protocol = frame; bind = \"127.0.0.1:%u\"; mode = echo; max_frame = "
            "%u; }\n",
            c->dir, admin_port, c->port, MAX(p->frame_bytes, 65536u));
    int rc = ferror(f) != 0 ? -EIO : 0;
    return fclose(f) != 0 && rc == 0 ? -errno : rc;
}

static NORETURN void child_exec(const tune_child *c, const tune_child_params *p, pid_t parent) {
    char config[192], log[192], engine[32];
    char name[] = "sluice", run[] = "run", engine_option[] = "--engine",
         workers_option[] = "--workers", workers[] = "1", config_option[] = "-c";
    snprintf(config, sizeof(config), "%s/sluice.conf", c->dir);
    snprintf(log, sizeof(log), "%s/log", c->dir);
    snprintf(engine, sizeof(engine), "%s", p->engine);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != parent) _exit(127); // the parent died before the line above
    int fd = open(log, O_CREAT | O_WRONLY | O_APPEND, 0600), null_fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || null_fd < 0) _exit(127);
    dup2(null_fd, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    if (p->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((u32)p->cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    signal(SIGPIPE, SIG_DFL);
    char *argv[] = {name,    run,           engine_option, engine, workers_option,
                    workers, config_option, config,        NULL};
    execv(p->exe, argv);
    fprintf(stderr, "%s: %s\n", p->exe, errno_name(errno));
    _exit(127);
}

// From the child's log, the last line of level ERROR, or else the last one that is not empty.
static void log_last_reason(const tune_child *c, char *out, size_t out_bytes) {
    char path[192], text[8192];
    snprintf(path, sizeof(path), "%s/log", c->dir);
    out[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof(text) - 1 ? size - (off_t)sizeof(text) + 1 : 0;
    ssize_t n = pread(fd, text, sizeof(text) - 1, from);
    close(fd);
    if (n <= 0) return;
    text[n] = 0;
    const char *best = NULL;
    bool best_is_error = false;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        const char *level = strstr(line, "ERROR ");
        if (line[0] == 0 || (best_is_error && level == NULL)) continue;
        best_is_error = level != NULL;
        best = best_is_error ? level + strlen("ERROR ") : line;
    }
    if (best != NULL) snprintf(out, out_bytes, "%.*s", (int)MIN(out_bytes - 1, 1024), best);
}

bool tune_child_alive(tune_child *c, char *why, size_t why_bytes) {
    int status;
    if (c->pid == 0) return false;
    pid_t ended = waitpid(c->pid, &status, WNOHANG);
    if (ended == 0) return true;
    c->pid = 0;
    char line[240];
    log_last_reason(c, line, sizeof(line));
    if (line[0] != 0) {
        snprintf(why, why_bytes, "%s", line);
    } else if (ended > 0 && WIFSIGNALED(status)) {
        snprintf(why, why_bytes, "the gateway was ended by signal %d", WTERMSIG(status));
    } else {
        snprintf(why, why_bytes, "the gateway ended with status %d and no message",
                 ended > 0 ? WEXITSTATUS(status) : -1);
    }
    return false;
}

static bool port_accepts(u16 port) {
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool ok = connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
    close(fd);
    return ok;
}

static int start_once(tune_child *c, const tune_child_params *p, char *why, size_t why_bytes) {
    u16 admin_port;
    int rc = free_port(&c->port);
    if (rc == 0) rc = free_port(&admin_port);
    if (rc == 0) rc = config_write(c, p, admin_port);
    if (rc != 0) {
        snprintf(why, why_bytes, "the test configuration could not be made: %s", errno_name(rc));
        return -1;
    }
    pid_t parent = getpid();
    c->pid = fork();
    if (c->pid == 0) child_exec(c, p, parent);
    if (c->pid < 0) {
        c->pid = 0;
        snprintf(why, why_bytes, "fork: %s", errno_name(errno));
        return -1;
    }
    u64 until_ns = clock_mono_ns() + START_TIMEOUT_NS;
    while (clock_mono_ns() < until_ns) {
        if (!tune_child_alive(c, why, why_bytes)) return -1;
        if (port_accepts(c->port)) return 0;
        pause_briefly();
    }
    snprintf(why, why_bytes, "the gateway did not listen within 10 s");
    return -1;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void child_end(tune_child *c) {
    char why[160];
    if (c->pid == 0) return;
    kill(c->pid, SIGTERM);
    u64 until_ns = clock_mono_ns() + STOP_TIMEOUT_NS;
    while (clock_mono_ns() < until_ns && tune_child_alive(c, why, sizeof(why))) pause_briefly();
    if (c->pid == 0) return;
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    c->pid = 0;
}

void tune_child_stop(tune_child *c) {
    child_end(c);
    if (c->dir[0] != 0) nftw(c->dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    c->dir[0] = 0;
}

int tune_child_start(tune_child *c, const tune_child_params *p, char *why, size_t why_bytes) {
    const char *tmp = getenv("TMPDIR");
    *c = (tune_child){.pid = 0};
    int n = snprintf(c->dir, sizeof(c->dir), "%s/sluice-tune-XXXXXX",
                     tmp != NULL && tmp[0] ? tmp : "/tmp");
    if (n >= (int)sizeof(c->dir) || mkdtemp(c->dir) == NULL) {
        snprintf(why, why_bytes, "no temporary directory: %s (TMPDIR)", errno_name(errno));
        c->dir[0] = 0;
        return -1;
    }
    for (u32 attempt = 0; attempt < 3; attempt++) {
        if (start_once(c, p, why, why_bytes) == 0) return 0;
        child_end(c);
        if (strstr(why, "EADDRINUSE") == NULL && strstr(why, "in use") == NULL) break;
    }
    tune_child_stop(c);
    return -1;
}
