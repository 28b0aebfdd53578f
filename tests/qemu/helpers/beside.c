// SPDX-License-Identifier: Apache-2.0
// beside.c: stands in for /init (rdinit=/beside): leaves a child that watches or loads the booting
// guest from inside, then becomes the real init by exec, so that process 1 is the product's, untouched.
// The kernel hands `beside=WHAT` of its command line over as an environment variable; WHAT is a list
// separated by '+', done in turn. Answers go to the console as lines "beside: ...".
//
//   accept:PORT       polls 127.0.0.1:PORT and tells the guest's clock when it is first accepted
//   initcalls:USEC    the kernel's initcalls that took at least USEC (needs initcall_debug)
//   log               all messages of the kernel with their time
//   user              resident memory of every process but this one, and of all together
//   idle:PORT:COUNT   opens COUNT framed connections, one frame each, tells how far it is and the kernel's memory
//                     before and after, and keeps them
//   exec:PROGRAM:ARGUMENTS  runs a program (arguments separated by commas) with the console as its output, and tells
//                     its exit status
//   minimal:CONF      (first) be a minimal init: mount, load /modules/*, bring lo up, run the gateway
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int console = -1;

__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...) {
    char line[512] = "beside: ";
    va_list args;
    va_start(args, fmt);
    int len = 8 + vsnprintf(line + 8, sizeof line - 10, fmt, args);
    va_end(args);
    if (len > (int)sizeof line - 2) len = (int)sizeof line - 2;
    line[len++] = '\n';
    // /dev is replaced while this runs; each line opens the console anew until it can be had.
    for (int i = 0; console < 0 && i < 1000; i++) {
        console = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
        if (console < 0) usleep(10000);
    }
    if (write(console, line, (size_t)len) < 0) _exit(1);
}

static double boot_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int connect_to(unsigned port, unsigned source) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    to.sin_addr.s_addr = htonl(0x7f000001);
    if (fd >= 0 && source > 0) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr = htonl(0x7f400000u + source);
        int on = 1;
        // Without it a port is chosen at bind, and taken from all destinations.
        setsockopt(fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0) tell("bind: %s", strerror(errno));
    }
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    int error = errno;
    if (fd >= 0) close(fd);
    return -error;
}

static void do_accept(unsigned port) {
    int fd;
    while ((fd = connect_to(port, 0)) < 0) usleep(2000); // more often would be a load on the boot
    double t = boot_seconds();
    tell("accepted %.4f", t);
    close(fd);
}

static void do_initcalls(long usec_min) {
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    char record[1024];
    ssize_t n;
    while (fd >= 0 && ((n = read(fd, record, sizeof record - 1)) > 0 || errno == EPIPE)) {
        if (n <= 0) continue;
        record[n] = 0;
        char *text = strchr(record, ';'), *after = text ? strstr(text, " usecs") : NULL;
        if (!text || strncmp(text + 1, "initcall ", 9) != 0 || !after) continue;
        while (after > text && after[-1] != ' ') after--;
        if (strtol(after, NULL, 10) < usec_min) continue;
        text[strcspn(text, "\n")] = 0;
        tell("%s", text + 1);
    }
    if (fd >= 0) close(fd);
    tell("initcalls end");
}

static void do_log(void) {
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    char record[1024];
    ssize_t n;
    while (fd >= 0 && ((n = read(fd, record, sizeof record - 1)) > 0 || errno == EPIPE)) {
        if (n <= 0) continue;
        record[n] = 0;
        // "priority,sequence,microseconds,flags;text": Documentation/ABI/testing/dev-kmsg
        unsigned long long usec;
        char *text = strchr(record, ';');
        if (!text || sscanf(record, "%*u,%*u,%llu", &usec) != 1) continue;
        text[strcspn(text, "\n")] = 0;
        tell("log %llu.%06llu %s", usec / 1000000, usec % 1000000, text + 1);
    }
    if (fd >= 0) close(fd);
    tell("log end");
}

static void do_user(void) {
    DIR *proc = opendir("/proc");
    struct dirent *d;
    long pages, all = 0;
    while (proc && (d = readdir(proc))) {
        char path[64], name[64] = "";
        if (d->d_name[0] < '1' || d->d_name[0] > '9' || atoi(d->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/%.16s/statm", d->d_name);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        if (fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
        fclose(f);
        if (pages == 0) continue; // the kernel's own threads
        snprintf(path, sizeof path, "/proc/%.16s/comm", d->d_name);
        f = fopen(path, "re");
        if (f) {
            if (!fgets(name, sizeof name, f)) name[0] = 0;
            name[strcspn(name, "\n")] = 0;
            fclose(f);
        }
        all += pages;
        tell("user %s %s %ld kB", d->d_name, name, pages * 4);
    }
    if (proc) closedir(proc);
    tell("user all %ld kB", all * 4);
}

// One value of /proc/meminfo in kB.
static long meminfo(const char *key) {
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    long value = -1;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) value = strtol(line + strlen(key) + 1, NULL, 10);
    if (f) fclose(f);
    return value;
}

static void tell_memory(const char *when) {
    tell("memory %s free %ld available %ld slab %ld unreclaimable %ld kB", when, meminfo("MemFree"),
         meminfo("MemAvailable"), meminfo("Slab"), meminfo("SUnreclaim"));
    FILE *f = fopen("/proc/slabinfo", "re");
    char line[512], name[64];
    unsigned long active, total, size;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%63s %lu %lu %lu", name, &active, &total, &size) != 4) continue;
        if (active * size >= 256 * 1024) tell("slab %s %s %lu x %lu", when, name, active, size);
    }
    if (f) fclose(f);
}

// What the workers free in bulk, and the kernel after a grace period, is free when nothing changes any more.
static void wait_for_rest(void) {
    long last = -1;
    for (int same = 0, rounds = 0; same < 5 && rounds < 300; rounds++) {
        long now = meminfo("Slab");
        same = now == last ? same + 1 : 0;
        last = now;
        usleep(200000);
    }
}

static void do_idle(unsigned port, unsigned count) {
    struct rlimit limit = {1000000, 1000000};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) tell("descriptors: %s", strerror(errno));
    static const char frame[12] = {0, 0, 0, 8, 'b', 'e', 's', 'i', 'd', 'e', '0', '1'};
    int *fds = calloc(count, sizeof *fds);
    unsigned open_count = 0, failures = 0, echoed = 0;
    tell_memory("before");
    while (fds && open_count < count && failures < 100) {
        int fd = connect_to(port, 1 + open_count / 20000);
        if (fd < 0) {
            if (failures++ == 0) tell("connect after %u: %s", open_count, strerror(-fd));
            usleep(20000);
            continue;
        }
        if (send(fd, frame, sizeof frame, MSG_NOSIGNAL) != sizeof frame) failures++;
        fds[open_count++] = fd;
        if (open_count % 1000 == 0) tell("idle at %u of %u", open_count, count);
    }
    for (unsigned i = 0; i < open_count; i++) {
        char reply[sizeof frame];
        struct timeval guard = {.tv_sec = 120};
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard);
        ssize_t n = recv(fds[i], reply, sizeof reply, MSG_WAITALL);
        if (n == sizeof reply && memcmp(reply, frame, sizeof frame) == 0) echoed++;
    }
    wait_for_rest();
    tell_memory("after");
    tell("idle %u connected %u echoed %u failures", open_count, echoed, failures);
    for (;;) pause();
}

static void do_exec(char *program, char *arguments) {
    char *argv[32] = {program}, *rest;
    int count = 1;
    char *one = arguments ? strtok_r(arguments, ",", &rest) : NULL;
    for (; one && count < 31; one = strtok_r(NULL, ",", &rest)) argv[count++] = one;
    pid_t child = fork();
    if (child == 0) {
        int fd = open("/dev/console", O_RDWR | O_NOCTTY);
        for (int i = 0; i < 3; i++) dup2(fd, i);
        execv(program, argv);
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    tell("exec %s: status %d signal %d", program, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
         WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void mount_basics(void) {
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir("/run", 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("tmpfs", "/run", "tmpfs", 0, NULL);
}

static void bring_lo_up(void) {
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) != 0) tell("lo: %s", strerror(errno));
    close(fd);
}

static void minimal_init(const char *conf) {
    mount_basics();
    for (char name[] = "/modules/0"; name[9] <= '9'; name[9]++) {
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) break;
        if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST) tell("%s: %s", name, strerror(errno));
        close(fd);
    }
    bring_lo_up();
    int fd = open("/dev/console", O_RDWR | O_NOCTTY);
    for (int i = 0; i < 3; i++) dup2(fd, i);
    if (fork() == 0) {
        execl("/sluice", "sluice", "run", "-c", conf, (char *)NULL);
        _exit(127);
    }
    for (;;)
        if (wait(NULL) < 0) pause();
}

static void do_one(char *what) {
    char *first = strchr(what, ':'), *second = NULL;
    if (first) *first++ = 0;
    if (first && (second = strchr(first, ':'))) *second++ = 0;
    unsigned a = first ? (unsigned)strtoul(first, NULL, 10) : 0, b = second ? (unsigned)strtoul(second, NULL, 10) : 0;
    if (strcmp(what, "accept") == 0) do_accept(a);
    else if (strcmp(what, "initcalls") == 0) do_initcalls(a);
    else if (strcmp(what, "log") == 0) do_log();
    else if (strcmp(what, "user") == 0) do_user();
    else if (strcmp(what, "idle") == 0) do_idle(a, b);
    else if (strcmp(what, "exec") == 0) do_exec(first, second);
    else if (strcmp(what, "sleep") == 0) sleep(a);
    else tell("unknown: %s", what);
}

int main(void) {
    char *what = getenv("beside"), *minimal = NULL, *rest;
    if (what && strncmp(what, "minimal:", 8) == 0) {
        minimal = what + 8;
        what = strchr(minimal, '+');
        if (what) *what++ = 0;
    }
    if (what && fork() == 0) {
        // The real init is not to see this as its terminal's or session's member.
        setsid();
        for (char *one = strtok_r(what, "+", &rest); one; one = strtok_r(NULL, "+", &rest)) do_one(one);
        tell("done");
        for (;;) pause();
    }
    if (minimal) minimal_init(minimal);
    execl("/init", "/init", (char *)NULL);
    tell("exec: %s", strerror(errno));
    return 1;
}
