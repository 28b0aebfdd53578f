// SPDX-License-Identifier: Apache-2.0
// crash.c: the crash handler; see crash.h for what it leaves.
//
// Everything in the part below "in the handler" is async-signal-safe: system calls, memory that was
// prepared before, and recorder_read, which only loads. The directory is held open, and a second
// descriptor is kept to be closed in the handler, so that the file can be made when the table of
// descriptors is full (a likely companion of a crash).
//
// The file is written before stderr: stderr may be a pipe that nobody reads, and gets a bounded
// time.
//
// The signal is raised again with the original siginfo (rt_tgsigqueueinfo), blocked until the
// handler returns; it then meets the default action on the frame that crashed, so a core dump shows
// that frame. A second fault inside the handler finds its signal blocked, and the kernel ends the
// process at once.
#include "base/crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 // Linux 5.14: grows with the vector registers that the kernel saves
#endif
#define STACK_BYTES (32u << 10)   // beyond what the kernel saves; the handler needs about 2 KiB
#define GUARD_BYTES 65536u        // a multiple of every page size
#define WAIT_FOR_OTHER_MS 5000u   // for a thread that is dumping already
#define OUTPUT_BYTES 4096u        // also what a pipe takes whole
#define READ_BATCH 16u

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},
    {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"},
};

enum { SLOT_FREE, SLOT_CLAIMED, SLOT_READY };

static struct {
    u32 dumping_tid;  // atomic: thread that dumps, 0 = none
    u32 dumped;       // atomic
    int dir_fd, spare_fd;
    pid_t pid;
    char version[64];
    char file[32];    // "crash-<pid>.txt"
    struct {
        u32 state;    // atomic
        const char *name;
        const recorder *rec;
    } recorders[CRASH_RECORDERS_MAX];
} crash = {.dir_fd = -1, .spare_fd = -1};

// --- registration ---

int crash_register_recorder(const char *name, const recorder *rec) {
    for (size_t i = 0; i < CRASH_RECORDERS_MAX; i++) {
        u32 expected = SLOT_FREE;
        if (!__atomic_compare_exchange_n(&crash.recorders[i].state, &expected, SLOT_CLAIMED, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            continue;
        }
        crash.recorders[i].name = name;
        crash.recorders[i].rec = rec;
        __atomic_store_n(&crash.recorders[i].state, SLOT_READY, __ATOMIC_RELEASE);
        return 0;
    }
    return -ENOSPC;
}

void crash_unregister_recorder(const recorder *rec) {
    for (size_t i = 0; i < CRASH_RECORDERS_MAX; i++) {
        u32 state = __atomic_load_n(&crash.recorders[i].state, __ATOMIC_ACQUIRE);
        if (state != SLOT_READY || crash.recorders[i].rec != rec) continue;
        __atomic_store_n(&crash.recorders[i].state, SLOT_FREE, __ATOMIC_RELEASE);
    }
}

// --- in the handler ---

typedef struct output {
    int fd;
    bool is_stderr;
    bool failed;
    u64 deadline_ns; // stderr only
    u32 len;
    char *buf;
} output;

static char output_buf[OUTPUT_BYTES]; // of the one thread that dumps

static void output_flush(output *out) {
    u32 at = 0;
    while (at < out->len && !out->failed) {
        if (out->is_stderr) {
            struct pollfd poll_fd = {.fd = out->fd, .events = POLLOUT};
            u64 now_ns = clock_mono_ns();
            u64 left_ns = now_ns < out->deadline_ns ? out->deadline_ns - now_ns : 0;
            int ready = poll(&poll_fd, 1, (int)(left_ns / NS_PER_MS));
            if (ready < 0 && errno == EINTR) continue;
            if (ready <= 0) out->failed = true;
            if (out->failed) break;
        }
        ssize_t n = write(out->fd, out->buf + at, out->len - at);
        if (n < 0 && errno == EINTR) continue;
        bool again = n < 0 && errno == EAGAIN && out->is_stderr;
        if (again && clock_mono_ns() < out->deadline_ns) continue;
        if (n <= 0) out->failed = true;
        else at += (u32)n;
    }
    out->len = 0;
}

static void put_text(output *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (out->len == OUTPUT_BYTES) output_flush(out);
        out->buf[out->len++] = *text;
    }
}

static void put_number(output *out, u64 value, u32 base, u32 digits_min) {
    char digits[24];
    u32 at = sizeof(digits) - 1;
    u32 count = 0;
    digits[at] = '\0';
    while (value != 0 || count < digits_min) {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
        count++;
    }
    put_text(out, digits + at);
}

static void put_u64(output *out, u64 value) {
    put_number(out, value, 10, 1);
}

static void put_i64(output *out, i64 value) {
    if (value < 0) put_text(out, "-");
    put_u64(out, value < 0 ? 0 - (u64)value : (u64)value);
}

static void put_address(output *out, u64 value) {
    put_text(out, "0x");
    put_number(out, value, 16, 1);
}

static const char *signal_name(int number) {
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        if (signals[i].number == number) return signals[i].name;
    }
    return "signal";
}

static u64 program_counter(const void *context) {
    const ucontext_t *uc = context;
#if defined(__x86_64__)
    return (u64)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (u64)uc->uc_mcontext.pc;
#else
    (void)uc;
    return 0;
#endif
}

static void put_summary(output *out, const siginfo_t *info, const void *context, u32 tid) {
    char thread_name[17] = {0};
    u64 real_ns = clock_real_ns();
    prctl(PR_GET_NAME, thread_name, 0, 0, 0);
    put_text(out, "sluice ");
    put_text(out, crash.version);
    put_text(out, ": fatal ");
    put_text(out, signal_name(info->si_signo));
    put_text(out, " (");
    put_i64(out, info->si_signo);
    put_text(out, "), code ");
    put_i64(out, info->si_code);
    if (info->si_code > 0) { // raised by the kernel for a fault: si_addr is set
        put_text(out, ", address ");
        put_address(out, (u64)(uintptr_t)info->si_addr);
    }
    put_text(out, "\nprocess ");
    put_i64(out, crash.pid);
    put_text(out, ", thread ");
    put_u64(out, tid);
    put_text(out, " (");
    put_text(out, thread_name);
    put_text(out, "), unix time ");
    put_u64(out, real_ns / NS_PER_S);
    put_text(out, ".");
    put_number(out, real_ns % NS_PER_S / NS_PER_MS, 10, 3);
    // The binary may be loaded anywhere: a known function's address lets the other be looked up.
    put_text(out, "\nat ");
    put_address(out, program_counter(context));
    put_text(out, ", crash_start is at ");
    put_address(out, (u64)(uintptr_t)&crash_start);
    put_text(out, "\n");
}

static void put_record(output *out, const recorder_record *record, u64 now_ns) {
    put_text(out, "  #");
    put_u64(out, record->sequence);
    put_text(out, " -");
    put_u64(out, now_ns > record->time_ns ? (now_ns - record->time_ns) / 1000 : 0);
    put_text(out, " us ");
    put_text(out, recorder_event_name(record->event));
    if (record->slot != UINT32_MAX) {
        put_text(out, " slot ");
        put_u64(out, record->slot);
        put_text(out, "/");
        put_u64(out, record->generation);
    }
    put_text(out, " result ");
    put_i64(out, record->result);
    put_text(out, " flags ");
    put_address(out, record->flags);
    put_text(out, "\n");
}

// Up to `max` newest records. The worker may go on writing, so the end is fixed at the beginning.
static void put_recorder(output *out, const char *name, const recorder *rec, u64 max, u64 now_ns) {
    recorder_record batch[READ_BATCH];
    u64 end = __atomic_load_n(&rec->written, __ATOMIC_ACQUIRE);
    u64 at = end > max ? end - max : 0;
    put_text(out, "recorder ");
    put_text(out, name);
    put_text(out, ": ");
    put_u64(out, end);
    put_text(out, " records, the newest ");
    put_u64(out, end - at);
    put_text(out, ", oldest first, age before the crash\n");
    while (at < end && !out->failed) {
        u64 lost = 0, before = at;
        size_t count = recorder_read(rec, at, batch, MIN(READ_BATCH, end - at), &at, &lost);
        for (size_t i = 0; i < count; i++) put_record(out, &batch[i], now_ns);
        if (at == before) break;
    }
}

static void dump(output *out, const siginfo_t *info, const void *context, u32 tid,
                 u64 records_max) {
    u64 now_ns = clock_mono_ns();
    put_summary(out, info, context, tid);
    for (size_t i = 0; i < CRASH_RECORDERS_MAX; i++) {
        if (__atomic_load_n(&crash.recorders[i].state, __ATOMIC_ACQUIRE) != SLOT_READY) continue;
        put_recorder(out, crash.recorders[i].name, crash.recorders[i].rec, records_max, now_ns);
    }
    output_flush(out);
}

static void dump_file(const siginfo_t *info, const void *context, u32 tid) {
    if (crash.dir_fd < 0) return;
    if (crash.spare_fd >= 0) close(crash.spare_fd);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(crash.dir_fd, crash.file, flags, 0640);
    if (fd < 0) return;
    output out = {.fd = fd, .buf = output_buf};
    dump(&out, info, context, tid, LIMIT_RECORDER_EVENTS);
    close(fd);
}

static void dump_stderr(const siginfo_t *info, const void *context, u32 tid) {
    output out = {.fd = STDERR_FILENO, .is_stderr = true, .buf = output_buf};
    out.deadline_ns = clock_mono_ns() + CRASH_STDERR_WAIT_MS * NS_PER_MS;
    dump(&out, info, context, tid, CRASH_STDERR_RECORDS);
}

static void crash_handle(int number, siginfo_t *info, void *context) {
    u32 tid = (u32)syscall(SYS_gettid);
    u32 dumping = 0;
    if (__atomic_compare_exchange_n(&crash.dumping_tid, &dumping, tid, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        dump_file(info, context, tid);
        dump_stderr(info, context, tid);
        __atomic_store_n(&crash.dumped, 1, __ATOMIC_RELEASE);
    } else {
        // Another thread is at it; its end is the process's end. Bounded, should it hang.
        const struct timespec pause = {.tv_nsec = (long)(10 * NS_PER_MS)};
        for (u32 ms = 0; ms < WAIT_FOR_OTHER_MS; ms += 10) {
            if (__atomic_load_n(&crash.dumped, __ATOMIC_ACQUIRE) != 0) break;
            nanosleep(&pause, NULL);
        }
    }
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)tid, number, info) != 0) {
        syscall(SYS_tgkill, getpid(), (pid_t)tid, number);
    }
}

// --- set-up ---

static _Thread_local struct {
    u8 *memory;
    size_t bytes; // with the guard
    stack_t before;
} thread_stack;

int crash_thread_setup(void) {
    if (thread_stack.memory != NULL) return 0;
    size_t bytes = align_up_u64(getauxval(AT_MINSIGSTKSZ) + STACK_BYTES, GUARD_BYTES) + GUARD_BYTES;
    u8 *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    mprotect(memory, GUARD_BYTES, PROT_NONE);
    stack_t stack = {.ss_sp = memory + GUARD_BYTES, .ss_size = bytes - GUARD_BYTES};
    if (sigaltstack(&stack, &thread_stack.before) != 0) {
        munmap(memory, bytes);
        return -ENOMEM; // its only cause: too small for this kernel
    }
    thread_stack.memory = memory;
    thread_stack.bytes = bytes;
    return 0;
}

void crash_thread_teardown(void) {
    if (thread_stack.memory == NULL) return;
    sigaltstack(&thread_stack.before, NULL);
    munmap(thread_stack.memory, thread_stack.bytes);
    thread_stack.memory = NULL;
}

static void crash_file_name(char name[32], unsigned pid) {
    snprintf(name, 32, "crash-%u.txt", pid);
}

// The pid in a crash file's name, 0 when it is no such name.
static unsigned crash_file_pid(const char *name) {
    char expected[32];
    unsigned pid = 0;
    if (sscanf(name, "crash-%9u.txt", &pid) != 1) return 0;
    crash_file_name(expected, pid);
    return strcmp(name, expected) == 0 ? pid : 0;
}

// Keeps the newest CRASH_FILES_KEEP - 1: the next one may be ours. Failures are not worth a word.
static void crash_files_prune(int dir_fd) {
    struct {
        unsigned pid;
        u64 time_ns;
    } kept[CRASH_FILES_KEEP - 1], file;
    size_t count = 0;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0) close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat st;
        file.pid = crash_file_pid(entry->d_name);
        if (file.pid == 0) continue;
        if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        file.time_ns = (u64)st.st_mtim.tv_sec * NS_PER_S + (u64)st.st_mtim.tv_nsec;
        if (count < ARRAY_LEN(kept)) {
            kept[count++] = file;
            continue;
        }
        size_t oldest = 0;
        for (size_t i = 1; i < count; i++) {
            if (kept[i].time_ns < kept[oldest].time_ns) oldest = i;
        }
        unsigned victim = file.pid;
        if (file.time_ns > kept[oldest].time_ns) {
            victim = kept[oldest].pid;
            kept[oldest] = file;
        }
        char name[32];
        crash_file_name(name, victim);
        unlinkat(dir_fd, name, 0);
    }
    closedir(dir);
}

static int dir_open(const char *dir) {
    crash.dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (crash.dir_fd < 0) return -errno;
    crash.spare_fd = fcntl(crash.dir_fd, F_DUPFD_CLOEXEC, 3);
    crash_files_prune(crash.dir_fd);
    return 0;
}

int crash_start(const char *dir, const char *version) {
    crash.pid = getpid();
    snprintf(crash.version, sizeof(crash.version), "%s", version);
    crash_file_name(crash.file, (unsigned)crash.pid);
    int rc = dir == NULL ? 0 : dir_open(dir);
    struct sigaction action = {.sa_sigaction = crash_handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) sigaddset(&action.sa_mask, signals[i].number);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) sigaction(signals[i].number, &action, NULL);
    int stack_rc = crash_thread_setup();
    return rc != 0 ? rc : stack_rc;
}
