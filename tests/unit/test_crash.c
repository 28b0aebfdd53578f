// SPDX-License-Identifier: Apache-2.0
// test_crash.c: children that die in each way; what they leave on stderr and in the file, and how
// they end for who waits for them.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crash.h"

typedef struct outcome {
    int status;       // of wait
    u64 ns;           // from fork to the end
    char err[65536];  // what came on stderr
    char *file;       // the crash file, NULL = none
    char dir[64];
} outcome;

static outcome result;
static u64 now_ns;

static char *file_read(const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    assert_int_equal(fstat(fd, &st), 0);
    char *text = calloc(1, (size_t)st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
    close(fd);
    return text;
}

// Runs `die` in a child with the handler installed; err_fd: its stderr, -1 = a pipe that is read.
static void run_child(void (*die)(void), int err_fd) {
    int ends[2];
    char path[128];
    snprintf(result.dir, sizeof(result.dir), "crash-test-XXXXXX");
    assert_non_null(mkdtemp(result.dir));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    u64 before_ns = clock_mono_ns();
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static recorder recs[2];
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(err_fd >= 0 ? err_fd : ends[1], STDERR_FILENO);
        now_ns = clock_mono_ns();
        if (recorder_init(&recs[0], &now_ns) != 0) _exit(90);
        if (recorder_init(&recs[1], &now_ns) != 0) _exit(90);
        for (u32 i = 0; i < 200; i++) recorder_add(&recs[0], REC_RECV, i, 1, (i32)i, 1);
        recorder_add(&recs[1], REC_CLOSE, UINT32_MAX, 0, -104, 0);
        if (crash_start(result.dir, "9.9-test") != 0) _exit(91);
        if (crash_register_recorder("worker 0", &recs[0]) != 0) _exit(92);
        if (crash_register_recorder("worker 1", &recs[1]) != 0) _exit(93);
        if (chdir("/") != 0) _exit(94); // the directory was given relative
        die();
        _exit(95);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(ends[0], result.err + used, sizeof(result.err) - 1 - used)) > 0;) {
        used += (size_t)n;
    }
    result.err[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &result.status, 0), pid);
    result.ns = clock_mono_ns() - before_ns;
    snprintf(path, sizeof(path), "%s/crash-%d.txt", result.dir, (int)pid);
    free(result.file);
    result.file = file_read(path);
    unlink(path);
    assert_int_equal(rmdir(result.dir), 0);
}

static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) print_error("missing: %s\nin: %.600s\n", part, text);
    assert_non_null(strstr(text, part));
}

static void assert_died(int signal_number, const char *name) {
    char head[64];
    assert_true(WIFSIGNALED(result.status));
    assert_int_equal(WTERMSIG(result.status), signal_number);
    snprintf(head, sizeof(head), "sluice 9.9-test: fatal %s (%d), code ", name, signal_number);
    assert_non_null(result.file);
    assert_has(result.file, head);
    assert_has(result.file, "recorder worker 0: 200 records, the newest 200");
    assert_has(result.file, " us recv slot 0/1 result 0 flags 0x1\n");
    assert_has(result.file, " us recv slot 199/1 result 199 flags 0x1\n");
    assert_has(result.file, "recorder worker 1: 1 records, the newest 1");
    assert_has(result.file, " us close result -104 flags 0x0\n");
}

static void assert_told(const char *name) {
    assert_has(result.err, name);
    assert_has(result.err, "recorder worker 0: 200 records, the newest 64");
    assert_has(result.err, " us recv slot 199/1 ");
    assert_null(strstr(result.err, " us recv slot 135/1 "));
}

static void die_segv(void) {
    int *volatile nowhere = (int *)(uintptr_t)16;
    *(volatile int *)nowhere = 1;
}

static void test_segv(void **state) {
    (void)state;
    run_child(die_segv, -1);
    assert_died(SIGSEGV, "SIGSEGV");
    assert_told("SIGSEGV");
    assert_has(result.file, "code 1, address 0x10\n");
    assert_has(result.file, "crash_start is at 0x");
}

static void die_bus(void) {
    int fd = memfd_create("short", MFD_CLOEXEC);
    volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    page[0] = 1; // beyond the end of the file
}

static void test_bus(void **state) {
    (void)state;
    run_child(die_bus, -1);
    assert_died(SIGBUS, "SIGBUS");
    assert_told("SIGBUS");
}

static void die_ill(void) {
    __builtin_trap();
}

static void test_ill(void **state) {
    (void)state;
    run_child(die_ill, -1);
#if defined(__x86_64__)
    assert_died(SIGILL, "SIGILL"); // other machines trap with other signals
#endif
    assert_true(WIFSIGNALED(result.status));
}

static void die_fpe(void) {
    raise(SIGFPE);
}

static void test_fpe(void **state) {
    (void)state;
    run_child(die_fpe, -1);
    assert_died(SIGFPE, "SIGFPE");
    assert_told("SIGFPE");
}

static void die_assert(void) {
    ASSERT(now_ns == 42);
}

static void test_assert(void **state) {
    (void)state;
    run_child(die_assert, -1);
    assert_died(SIGABRT, "SIGABRT");
    assert_told("SIGABRT");
    assert_has(result.err, "assertion failed");
    assert_has(result.err, "now_ns == 42");
}

static u64 dig(u64 depth) {
    volatile u8 room[4096];
    room[0] = (u8)depth;
    return depth == UINT64_MAX ? 0 : dig(depth + 1) + room[0];
}

static void *overflow_stack(void *argument) {
    (void)argument;
    if (crash_thread_setup() != 0 || crash_thread_setup() != 0) _exit(96); // twice is harmless
    pthread_setname_np(pthread_self(), "deep");
    return (void *)(uintptr_t)dig(0);
}

static void die_stack(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, overflow_stack, NULL);
    pthread_join(thread, NULL);
}

static void test_stack_overflow_in_a_thread(void **state) {
    (void)state;
    run_child(die_stack, -1);
    assert_died(SIGSEGV, "SIGSEGV");
    assert_has(result.file, "(deep)");
}

static pthread_barrier_t together;

static void *die_together(void *argument) {
    (void)argument;
    crash_thread_setup();
    pthread_barrier_wait(&together);
    die_segv();
    return NULL;
}

static void die_by_four(void) {
    pthread_t threads[4];
    pthread_barrier_init(&together, NULL, 4);
    for (u32 i = 0; i < 4; i++) pthread_create(&threads[i], NULL, die_together, NULL);
    for (u32 i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void test_four_threads_at_once(void **state) {
    (void)state;
    run_child(die_by_four, -1);
    assert_died(SIGSEGV, "SIGSEGV");
    const char *first = strstr(result.err, "fatal SIGSEGV");
    assert_non_null(first);
    assert_null(strstr(first + 1, "fatal SIGSEGV")); // one dump
    assert_true(result.ns < 4 * NS_PER_S);
}

static void test_stderr_that_nobody_reads(void **state) {
    (void)state;
    static const char filler[4096];
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], filler, sizeof(filler)) > 0) {
    }
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0); // a writer would block
    run_child(die_segv, ends[1]);
    assert_died(SIGSEGV, "SIGSEGV");
    assert_true(result.ns < (CRASH_STDERR_WAIT_MS + 3000) * NS_PER_MS);
    close(ends[0]);
    close(ends[1]);
}

static void die_without_descriptors(void) {
    const struct rlimit few = {64, 64};
    setrlimit(RLIMIT_NOFILE, &few);
    while (dup(0) >= 0) {
    }
    die_segv();
}

static void test_no_descriptor_left(void **state) {
    (void)state;
    run_child(die_without_descriptors, -1);
    assert_died(SIGSEGV, "SIGSEGV");
}

static void die_of_fault_while_dumping(void) {
    static const recorder broken = {.written = 100, .records = (recorder_record *)(uintptr_t)64};
    crash_register_recorder("broken", &broken);
    die_segv();
}

static void test_fault_while_dumping(void **state) {
    (void)state;
    run_child(die_of_fault_while_dumping, -1);
    assert_true(WIFSIGNALED(result.status));
    assert_int_equal(WTERMSIG(result.status), SIGSEGV);
    assert_true(result.ns < 4 * NS_PER_S);
}

static void live_and_leave(void) {
    static recorder extra;
    for (u32 i = 0; i < 3 * CRASH_RECORDERS_MAX; i++) {
        if (crash_register_recorder("extra", &extra) != 0) _exit(97);
        crash_unregister_recorder(&extra);
    }
    u32 taken = 0;
    while (crash_register_recorder("extra", &extra) == 0) taken++;
    if (taken != CRASH_RECORDERS_MAX - 2) _exit(98);
    crash_thread_teardown();
    crash_thread_teardown(); // harmless
    _exit(0);
}

static void test_no_crash_no_file(void **state) {
    (void)state;
    run_child(live_and_leave, -1);
    assert_int_equal(result.status, 0);
    assert_null(result.file);
    assert_string_equal(result.err, "");
}

static void test_old_files_are_pruned(void **state) {
    (void)state;
    char dir[] = "crash-prune-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    for (int i = 1; i <= 20; i++) {
        snprintf(path, sizeof(path), "%s/crash-%d.txt", dir, 1000 + i);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        const struct timespec time = {.tv_sec = 100 + i * 7 % 20};
        const struct timespec times[2] = {time, time};
        assert_int_equal(futimens(fd, times), 0);
        close(fd);
    }
    snprintf(path, sizeof(path), "%s/crash-01.txt", dir); // no name of ours
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    pid_t pid = fork();
    if (pid == 0) _exit(crash_start(dir, "v") == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(unlink(path), 0);
    u32 left = 0;
    for (int i = 1; i <= 20; i++) {
        snprintf(path, sizeof(path), "%s/crash-%d.txt", dir, 1000 + i);
        bool there = unlink(path) == 0;
        left += there;
        assert_int_equal(there, i * 7 % 20 >= 20 - (int)(CRASH_FILES_KEEP - 1));
    }
    assert_int_equal(left, CRASH_FILES_KEEP - 1);
    assert_int_equal(rmdir(dir), 0);
}

static void test_no_directory(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        close(STDERR_FILENO); // and nothing to tell it on
        if (crash_start("/nonexistent", "v") != -ENOENT) _exit(1);
        raise(SIGSEGV);
        _exit(2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segv),
        cmocka_unit_test(test_bus),
        cmocka_unit_test(test_ill),
        cmocka_unit_test(test_fpe),
        cmocka_unit_test(test_assert),
        cmocka_unit_test(test_stack_overflow_in_a_thread),
        cmocka_unit_test(test_four_threads_at_once),
        cmocka_unit_test(test_stderr_that_nobody_reads),
        cmocka_unit_test(test_no_descriptor_left),
        cmocka_unit_test(test_fault_while_dumping),
        cmocka_unit_test(test_no_crash_no_file),
        cmocka_unit_test(test_old_files_are_pruned),
        cmocka_unit_test(test_no_directory),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(result.file);
    return rc;
}
