// SPDX-License-Identifier: Apache-2.0
// observe.c: reads /proc about the server's processes.
//
// CPU time comes from schedstat (nanoseconds, exact to the last tick of the scheduler, 4 ms at
// most); utime and stime of stat only split it, because they are kept in steps of 10 ms. A kernel without
// schedstat (the appliance's has no SCHED_INFO) leaves those steps as all there is; one without
// smaps_rollup leaves the pages that are not shared with a file.
#include "bench/observe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INODES_MAX 256u // listening sockets on one port: one for each worker

// Reads a whole small file as text. Returns bytes, or a negative errno.
PRINTF_LIKE(3, 4) static int file_read(char *out, size_t out_bytes, const char *format, ...) {
    char path[320];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t n = read(fd, out, out_bytes - 1);
    int rc = n < 0 ? -errno : (int)n;
    close(fd);
    out[n < 0 ? 0 : n] = 0;
    return rc;
}

// Number after "key" in text, 0 if it is missing.
static u64 field_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10);
}

static int thread_read(u32 pid, u32 tid, observe_thread *t) {
    char text[4096];
    *t = (observe_thread){.pid = pid, .tid = tid};
    bool exact = file_read(text, sizeof(text), "/proc/%u/task/%u/schedstat", pid, tid) > 0;
    if (exact && sscanf(text, "%" SCNu64 " %" SCNu64, &t->run_ns, &t->wait_ns) != 2) return -EINVAL;
    if (file_read(text, sizeof(text), "/proc/%u/task/%u/stat", pid, tid) <= 0) return -ESRCH;
    // The name may hold spaces and parentheses: the fields start after the last ')'.
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (open == NULL || close == NULL || close < open) return -EINVAL;
    snprintf(t->name, sizeof(t->name), "%.*s", (int)MIN(close - open - 1, 19), open + 1);
    u64 utime = 0, stime = 0;
    sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &utime,
           &stime);
    u64 tick_ns = NS_PER_S / (u64)sysconf(_SC_CLK_TCK);
    t->user_ns = utime * tick_ns;
    t->sys_ns = stime * tick_ns;
    if (!exact) t->run_ns = t->user_ns + t->sys_ns;
    if (file_read(text, sizeof(text), "/proc/%u/task/%u/status", pid, tid) > 0) {
        t->involuntary = field_after(text, "nonvoluntary_ctxt_switches:");
        t->voluntary = field_after(text, "\nvoluntary_ctxt_switches:");
    }
    return 0;
}

static int process_read(u32 pid, observe_sample *out) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *dir = opendir(path);
    if (dir == NULL) return errno == ENOENT ? -ESRCH : -errno;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL && out->count < BENCH_THREADS_MAX) {
        u32 tid = (u32)strtoul(entry->d_name, NULL, 10);
        if (tid == 0) continue;
        if (thread_read(pid, tid, &out->threads[out->count]) == 0) out->count++;
    }
    closedir(dir);
    return 0;
}

int observe_memory(const u32 *pids, u32 count, u64 *rss_bytes, u64 *private_bytes) {
    char text[4096];
    *rss_bytes = *private_bytes = 0;
    for (u32 i = 0; i < count; i++) {
        u64 pages = 0, shared = 0;
        if (file_read(text, sizeof(text), "/proc/%u/statm", pids[i]) <= 0) return -ESRCH;
        sscanf(text, "%*u %" SCNu64 " %" SCNu64, &pages, &shared);
        *rss_bytes += pages * (u64)sysconf(_SC_PAGESIZE);
        if (file_read(text, sizeof(text), "/proc/%u/smaps_rollup", pids[i]) <= 0) {
            *private_bytes += (pages - MIN(shared, pages)) * (u64)sysconf(_SC_PAGESIZE);
            continue;
        }
        *private_bytes += 1024 * (field_after(text, "Private_Clean:") +
                                  field_after(text, "Private_Dirty:"));
    }
    return 0;
}

u64 observe_tcp_memory(void) {
    char text[1024];
    if (file_read(text, sizeof(text), "/proc/net/sockstat") <= 0) return 0;
    const char *tcp = strstr(text, "TCP:");
    return tcp == NULL ? 0 : field_after(tcp, " mem ") * (u64)sysconf(_SC_PAGESIZE);
}

u64 observe_steal_ns(void) {
    char text[512];
    u64 steal = 0;
    if (file_read(text, sizeof(text), "/proc/stat") <= 0) return 0;
    sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &steal);
    return steal * (NS_PER_S / (u64)sysconf(_SC_CLK_TCK));
}

void observe_self(u64 *run_ns, u64 *wait_ns) {
    char text[128];
    *run_ns = *wait_ns = 0;
    if (file_read(text, sizeof(text), "/proc/thread-self/schedstat") <= 0) {
        struct timespec t;
        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0) *run_ns = (u64)t.tv_sec * NS_PER_S + (u64)t.tv_nsec;
        return;
    }
    sscanf(text, "%" SCNu64 " %" SCNu64, run_ns, wait_ns);
}

int observe_take(const u32 *pids, u32 count, observe_sample *out) {
    out->count = 0;
    out->time_ns = clock_mono_ns();
    for (u32 i = 0; i < count; i++) {
        int rc = process_read(pids[i], out);
        if (rc != 0) return rc;
    }
    return observe_memory(pids, count, &out->rss_bytes, &out->private_bytes);
}

static const observe_thread *thread_find(const observe_sample *s, u32 pid, u32 tid) {
    for (u32 i = 0; i < s->count; i++) {
        if (s->threads[i].tid == tid && s->threads[i].pid == pid) return &s->threads[i];
    }
    return NULL;
}

static void thread_add(observe_thread *into, const observe_thread *t) {
    into->run_ns += t->run_ns;
    into->wait_ns += t->wait_ns;
    into->user_ns += t->user_ns;
    into->sys_ns += t->sys_ns;
    into->voluntary += t->voluntary;
    into->involuntary += t->involuntary;
}

static void thread_subtract(observe_thread *t, const observe_thread *before) {
    t->run_ns -= before->run_ns;
    t->wait_ns -= before->wait_ns;
    t->user_ns -= before->user_ns;
    t->sys_ns -= before->sys_ns;
    t->voluntary -= before->voluntary;
    t->involuntary -= before->involuntary;
}

void observe_difference(const observe_sample *from, const observe_sample *to, observe_delta *out) {
    *out = (observe_delta){.available = true, .window_ns = to->time_ns - from->time_ns};
    out->rss_bytes = to->rss_bytes;
    out->private_bytes = to->private_bytes;
    u32 matched = 0;
    for (u32 i = 0; i < to->count; i++) {
        observe_thread t = to->threads[i];
        const observe_thread *before = thread_find(from, t.pid, t.tid);
        if (before != NULL) {
            thread_subtract(&t, before);
            matched++;
        }
        thread_add(&out->total, &t);
        if (strncmp(t.name, "iou-", 4) == 0) out->workers_ns += t.run_ns;
        out->threads[out->thread_count++] = t;
    }
    out->ended = from->count - matched;
}

static u32 inodes_of_port(const char *table, u16 port, u64 *inodes, u32 have) {
    char line[512];
    FILE *f = fopen(table, "re");
    if (f == NULL) return have;
    while (fgets(line, sizeof(line), f) != NULL && have < INODES_MAX) {
        u32 local_port, state;
        u64 inode;
        // sl local rem st tx:rx tr:when retrnsmt uid timeout inode; state 0A is LISTEN
        if (sscanf(
                line,
                " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*d %" SCNu64,
                &local_port, &state, &inode) != 3) {
            continue;
        }
        if (local_port == port && state == 0x0a) inodes[have++] = inode;
    }
    fclose(f);
    return have;
}

static bool process_has_socket(const char *pid, const u64 *inodes, u32 count) {
    char path[320], target[64];
    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    if (dir == NULL) return false;
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        if (n <= 8 || memcmp(target, "socket:[", 8) != 0) continue;
        target[n] = 0;
        u64 inode = strtoull(target + 8, NULL, 10);
        for (u32 i = 0; i < count; i++) found |= inodes[i] == inode;
    }
    closedir(dir);
    return found;
}

u32 observe_find_listeners(u16 port, u32 *pids, char *why, size_t why_bytes) {
    u64 inodes[INODES_MAX];
    u32 count = inodes_of_port("/proc/net/tcp", port, inodes, 0);
    count = inodes_of_port("/proc/net/tcp6", port, inodes, count);
    why[0] = 0;
    if (count == 0) {
        snprintf(why, why_bytes, "no process of this machine listens on port %u", port);
        return 0;
    }
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        snprintf(why, why_bytes, "/proc: %s", errno_name(errno));
        return 0;
    }
    u32 found = 0;
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL && found < BENCH_PIDS_MAX) {
        u32 pid = (u32)strtoul(entry->d_name, NULL, 10);
        if (pid == 0 || pid == (u32)getpid()) continue;
        if (process_has_socket(entry->d_name, inodes, count)) pids[found++] = pid;
    }
    closedir(proc);
    if (found == 0)
        snprintf(why, why_bytes, "the listener of port %u belongs to another user", port);
    return found;
}
