// SPDX-License-Identifier: Apache-2.0
// test_sandbox.c: the process's list of system calls and files, applied to children of this test: what must fail does,
// what the gateway needs goes on. A kernel without seccomp filters or Landlock makes the test in question SKIP.
// Under a sanitizer the lists are applied all the same, in a child that does nothing else.
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/sandbox.h"
#include "sandbox/seccomp_list.h"

// Children end without a sanitizer's leave-taking, which would make calls that are refused.
enum { GOOD = 0, UNAVAILABLE = 77, FIRST_FAILED = 100 };
#define EXPECT(n, condition) \
    do { \
        if (!(condition)) _exit(FIRST_FAILED + (n)); \
    } while (0)

static int run_child(void (*child)(void)) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child();
        _exit(GOOD);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_child(void (*child)(void)) {
    int status = run_child(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNAVAILABLE) skip();
    if (WIFSIGNALED(status)) fail_msg("ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != GOOD) fail_msg("check %d of the child failed", WEXITSTATUS(status) - FIRST_FAILED);
}

static void filter(bool debug) {
    char out[128];
    EXPECT(90, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    int result = seccomp_enter(debug, out, sizeof(out));
    if (result == -ENOSYS || result == -EINVAL) _exit(UNAVAILABLE);
    EXPECT(91, result == 0);
}

static bool refused(long result) {
    return result == -1 && errno == EPERM;
}

// --- system calls ---

static void child_refused(void) {
    filter(false);
    EXPECT(1, refused(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0)));
    EXPECT(2, refused(syscall(SYS_socket, AF_PACKET, SOCK_RAW, 0)));
    EXPECT(3, refused(syscall(SYS_socket, AF_INET, SOCK_RAW, 1)));
    EXPECT(4, refused(syscall(SYS_socket, 38 /* AF_ALG */, SOCK_SEQPACKET, 0)));
    EXPECT(5, refused(syscall(SYS_io_uring_setup, 8, NULL)));
    EXPECT(6, refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))); // a process
    EXPECT(7, refused(syscall(SYS_kill, getppid(), 0)));
    EXPECT(8, refused(syscall(SYS_tgkill, getppid(), getppid(), 0)));
    EXPECT(9, refused((long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(10, page != MAP_FAILED);
    EXPECT(11, refused(mprotect(page, 4096, PROT_READ | PROT_EXEC)));
    EXPECT(12, refused(syscall(SYS_setuid, 0)));
    EXPECT(13, refused(syscall(SYS_unshare, CLONE_NEWNS)));
    EXPECT(14, refused(syscall(SYS_memfd_create, "x", 0)));
    EXPECT(15, refused(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)));
    EXPECT(16, refused(syscall(SYS_chroot, "/")));
    EXPECT(17, refused(syscall(SYS_ioctl, 0, 0x5412 /* TIOCSTI */, "x")));
    EXPECT(18, refused(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)));
    EXPECT(19, refused(syscall(SYS_prlimit64, getppid(), 7, NULL, NULL)));
    EXPECT(20, syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
}

static void test_calls_that_are_refused(void **state) {
    (void)state;
    expect_child(child_refused);
}

static void child_execve(void) {
    char name[] = "/bin/true";
    char *argv[] = {name, NULL}, *env[] = {NULL};
    filter(false);
    syscall(SYS_execve, name, argv, env);
}

static void child_ptrace(void) {
    filter(false);
    syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void child_mount(void) {
    filter(false);
    syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
}

static void test_calls_that_end_the_process(void **state) {
    (void)state;
    void (*const children[])(void) = {child_execve, child_ptrace, child_mount};
    for (u32 i = 0; i < ARRAY_LEN(children); i++) {
        int status = run_child(children[i]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == UNAVAILABLE) skip();
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) fail_msg("call %u: status %x", i, (u32)status);
    }
}

static void *thread_run(void *context) {
    *(int *)context = refused(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0));
    return NULL;
}

static void child_allowed(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char path[] = "sandbox-XXXXXX";
    filter(false);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT(30, fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0 && listen(fd, 1) == 0);
    EXPECT(31, socket(AF_INET6, SOCK_DGRAM, 0) >= 0 || errno == EAFNOSUPPORT);
    EXPECT(32, socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    int file = mkstemp(path);
    EXPECT(33, file >= 0 && pwrite(file, "x", 1, 0) == 1 && fdatasync(file) == 0 && ftruncate(file, 10) == 0);
    EXPECT(34, fallocate(file, 0, 0, 4096) == 0 || errno == EOPNOTSUPP);
    EXPECT(35, rename(path, "sandbox-renamed") == 0 && unlink("sandbox-renamed") == 0);
    EXPECT(36, kill(getpid(), 0) == 0);
    EXPECT(37, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static void test_what_the_gateway_needs(void **state) {
    (void)state;
    expect_child(child_allowed);
}

// The filter holds for threads that were there before.
static void child_threads(void) {
    pthread_t thread;
    int seen = 0;
    filter(false);
    if (pthread_create(&thread, NULL, thread_run, &seen) != 0) _exit(FIRST_FAILED + 40);
    pthread_join(thread, NULL);
    EXPECT(41, seen == 1);
}

static void test_threads_are_under_it(void **state) {
    (void)state;
    expect_child(child_threads);
}

static void child_debug(void) {
    char name[] = "/bin/true";
    char *argv[] = {name, NULL}, *env[] = {NULL};
    filter(true);
    EXPECT(50, refused(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0)));
    EXPECT(51, refused(syscall(SYS_execve, name, argv, env))); // it lives on, to be named
    EXPECT(52, refused(syscall(SYS_memfd_create, "x", 0)));
}

static void test_debug_refuses_and_goes_on(void **state) {
    (void)state;
    expect_child(child_debug);
}

static void test_the_list(void **state) {
    (void)state;
    for (u32 i = 0; i < seccomp_rule_count; i++) {
        for (u32 k = 0; k < i; k++) {
            if (seccomp_rules[i].number == seccomp_rules[k].number) fail_msg("twice: %s", seccomp_rules[i].name);
        }
    }
    assert_string_equal(seccomp_call_name(SYS_execve), "execve");
    assert_string_equal(seccomp_call_name(SYS_memfd_create), "memfd_create");
    assert_null(seccomp_call_name(9999));
}

// --- files ---

static config conf;
static char other[64];

static void landlock(void) {
    char out[128];
    EXPECT(60, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    int result = landlock_enter(&conf, out, sizeof(out));
    if (result == -ENOSYS || result == -EOPNOTSUPP || result == -EPERM) _exit(UNAVAILABLE);
    EXPECT(61, result == 0);
}

static bool opens(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void child_files(void) {
    landlock();
    EXPECT(62, !opens(other, O_RDONLY) && errno == EACCES);
    EXPECT(63, !opens("/etc/passwd", O_RDONLY) || geteuid() != 0); // others may read in /etc what resolv.conf lies in
    EXPECT(64, !opens("other/new", O_WRONLY | O_CREAT));
    EXPECT(65, mkdir("other/dir", 0700) < 0 && errno == EACCES);
    EXPECT(66, unlink(other) < 0 && errno == EACCES);
    EXPECT(67, opens("data/new", O_RDWR | O_CREAT) && opens("data/new", O_RDWR | O_TRUNC));
    EXPECT(68, rename("data/new", "data/renamed") == 0 && unlink("data/renamed") == 0);
    EXPECT(69, mkdir("data/dir", 0700) == 0 && rmdir("data/dir") == 0);
    EXPECT(70, opens("conf/sluice.conf", O_RDONLY) && !opens("conf/sluice.conf", O_WRONLY));
    EXPECT(71, opens("/dev/null", O_RDONLY) && opens("/proc/self/statm", O_RDONLY));
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "data/ctl.sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT(72, fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && unlink(un.sun_path) == 0);
    strcpy(un.sun_path, "other/x.sock");
    EXPECT(73, bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0);
    EXPECT(74, !opens("/", O_RDONLY | O_DIRECTORY) && !opens("/root", O_RDONLY | O_DIRECTORY));
}

static void file_write(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_files(void **state) {
    (void)state;
    static const char text[] = "data_dir = \"data\"; ctl_socket = \"data/ctl.sock\";"
                               "listener a { protocol = frame; bind = \"127.0.0.1:7000\"; }";
    config_error error;
    assert_true(mkdir("data", 0700) == 0 && mkdir("other", 0700) == 0 && mkdir("conf", 0700) == 0);
    file_write("conf/sluice.conf", text);
    snprintf(other, sizeof(other), "other/file");
    file_write(other, "secret");
    assert_int_equal(config_load("conf/sluice.conf", &conf, &error), 0);
    expect_child(child_files);
}

// --- who ---

static void test_users(void **state) {
    (void)state;
    char text[64], why[256];
    assert_int_equal(privileges_become("", "data", text, sizeof(text), why, sizeof(why)), 0);
    assert_int_equal(privileges_become("no-such-user-here", "data", text, sizeof(text), why, sizeof(why)), -ENOENT);
    assert_non_null(strstr(why, "no-such-user-here"));
    assert_int_equal(privileges_become("12x", "data", text, sizeof(text), why, sizeof(why)), -ENOENT);
    assert_int_equal(privileges_become("1:2:3", "data", text, sizeof(text), why, sizeof(why)), -ENOENT);
}

static void child_user(void) {
    char text[64], why[256];
    EXPECT(80, privileges_become("54321:54322", "data", text, sizeof(text), why, sizeof(why)) == 0);
    EXPECT(81, getuid() == 54321 && geteuid() == 54321 && getgid() == 54322 && strcmp(text, "54321:54322") == 0);
    EXPECT(82, getgroups(0, NULL) == 0);
    EXPECT(83, setuid(0) < 0);
    struct sockaddr_in low = {.sin_family = AF_INET, .sin_port = htons(807), .sin_addr.s_addr = htonl(0x7f0000fe)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(84, bind(fd, (struct sockaddr *)&low, sizeof(low)) == 0 || errno == EADDRINUSE); // still
    EXPECT(85, privileges_drop() == 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    low.sin_port = htons(808);
    int start = 1024;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    if (f != NULL && fscanf(f, "%d", &start) != 1) start = 1024;
    EXPECT(86, start <= 808 || (bind(fd, (struct sockaddr *)&low, sizeof(low)) < 0 && errno == EACCES));
    struct stat st;
    EXPECT(87, stat("data", &st) == 0 && st.st_uid == 54321);
}

static void test_another_user(void **state) {
    (void)state;
    if (geteuid() != 0) skip();
    (void)mkdir("data", 0700);
    assert_int_equal(chown("data", 0, 0), 0);
    assert_int_equal(chmod(".", 0755), 0); // or the user could not even look
    expect_child(child_user);
    assert_int_equal(chown("data", 0, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_that_are_refused),
        cmocka_unit_test(test_calls_that_end_the_process),
        cmocka_unit_test(test_what_the_gateway_needs),
        cmocka_unit_test(test_threads_are_under_it),
        cmocka_unit_test(test_debug_refuses_and_goes_on),
        cmocka_unit_test(test_the_list),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_another_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
