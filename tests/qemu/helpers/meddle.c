// SPDX-License-Identifier: Apache-2.0
// meddle.c: stands in for /init (rdinit=/meddle): leaves a child that does harm to the gateway, then becomes the
// real init by exec, so that process 1 is the product's, untouched. meddle=WHAT of the kernel's command line:
//
//   crash:N    kills the gateway (SIGSEGV) N times, each time when it accepts connections
//   panic      ends, which no init may: the kernel panics
//   stop:N     stops N gateways (SIGSTOP), one after the other, each when it accepts connections
//   clock      takes seconds as text on port 7099, one number a connection, by which it sets the clock on or back;
//              answers with the time it is then
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

// The child of process 1 that was started with the word "run".
static pid_t gateway(void) {
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;
    while (dir != NULL && found == 0 && (entry = readdir(dir)) != NULL) {
        char path[300], text[256] = "";
        pid_t pid = atoi(entry->d_name);
        if (pid <= 1) continue;
        snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0) close(fd);
        const char *second = n > 0 ? text + strlen(text) + 1 : text;
        if (n > 0 && second < text + n && strcmp(second, "run") == 0) found = pid;
    }
    if (dir != NULL) closedir(dir);
    return found;
}

static int accepts(unsigned short port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
    if (fd >= 0) close(fd);
    return result;
}

static void harm(int signo, long times) {
    pid_t last = 0;
    while (times > 0) {
        pid_t pid = gateway();
        if (pid > 0 && pid != last && accepts(9600)) {
            // One that is to stand still has to be known as ready before: until then it is given a minute.
            if (signo == SIGSTOP) sleep(2);
            kill(pid, signo);
            last = pid;
            times--;
        }
        usleep(20000);
    }
}

static void serve_clock(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7099)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 4) < 0) return;
    for (;;) {
        char text[32] = "";
        int fd = accept(listener, NULL, NULL);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) continue;
        struct timeval now;
        gettimeofday(&now, NULL);
        now.tv_sec += atoll(text);
        if (settimeofday(&now, NULL) < 0) now.tv_sec = 0;
        int n = snprintf(text, sizeof text, "%lld\n", (long long)now.tv_sec);
        if (write(fd, text, (size_t)n) == n) shutdown(fd, SHUT_WR);
        close(fd);
    }
}

int main(int argc, char **argv) {
    const char *what = getenv("meddle");
    (void)argc;
    if (what != NULL && strcmp(what, "panic") == 0) return 1;
    if (what != NULL && fork() == 0) {
        if (strncmp(what, "crash:", 6) == 0) harm(SIGSEGV, atol(what + 6));
        if (strncmp(what, "stop:", 5) == 0) harm(SIGSTOP, atol(what + 5));
        if (strcmp(what, "clock") == 0) serve_clock();
        _exit(0);
    }
    argv[0] = "/init";
    execv("/init", argv);
    return 1;
}
