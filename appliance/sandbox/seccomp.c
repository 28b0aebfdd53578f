// SPDX-License-Identifier: Apache-2.0
// seccomp.c: the list of seccomp_list.c as a filter program for the kernel (classic BPF over struct seccomp_data), and
// the handler that names what it refuses in debug mode.
//
// Each rule is "number equal? else skip its block"; a block ends with its own verdict. The lower half of an
// argument is enough where the kernel takes an int or looks at low bits only, which is so for all that are
// looked at here.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/sandbox.h"
#include "sandbox/seccomp_list.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define NUMBERS_END 0x40000000u // x32: another ABI with the same architecture
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define NUMBERS_END 0u
#endif

#define PROGRAM_MAX 1024u
#define REFUSED_WORDS 16u // system calls 0 to 1023; numbers beyond share the last bit
#define PRCTL_SET_VMA 0x53564d41u // PR_SET_VMA, Linux 5.17: names of anonymous memory

typedef struct program {
    struct sock_filter code[PROGRAM_MAX];
    u16 len;
} program;

static void emit(program *p, u16 code, u32 k, u8 yes, u8 no) {
    ASSERT(p->len < PROGRAM_MAX);
    p->code[p->len++] = (struct sock_filter){code, yes, no, k};
}

static void verdict(program *p, u32 action) {
    emit(p, BPF_RET | BPF_K, action, 0, 0);
}

static void load_argument(program *p, u32 index) {
    // Both architectures are little-endian: the lower half comes first.
    emit(p, BPF_LD | BPF_W | BPF_ABS, (u32)(offsetof(struct seccomp_data, args) + index * sizeof(u64)), 0, 0);
}

// Allows when the loaded word is one of these, else refuses.
static void allow_words(program *p, const u32 *words, u32 count, u32 refuse) {
    for (u32 i = 0; i < count; i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, words[i], 0, 1);
        verdict(p, SECCOMP_RET_ALLOW);
    }
    verdict(p, refuse);
}

static void allow_if_bits(program *p, u32 bits, bool set, u32 refuse) {
    emit(p, BPF_JMP | BPF_JSET | BPF_K, bits, set ? 0 : 1, set ? 1 : 0);
    verdict(p, SECCOMP_RET_ALLOW);
    verdict(p, refuse);
}

static void socket_rule(program *p, u32 refuse) {
    static const u32 families[] = {AF_UNIX, AF_INET, AF_INET6}, types[] = {SOCK_STREAM, SOCK_DGRAM};
    load_argument(p, 0);
    for (u32 i = 0; i < ARRAY_LEN(families); i++) {
        u32 behind = (u32)ARRAY_LEN(families) - 1 - i;
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, families[i], (u8)(behind + 1), 0);
    }
    verdict(p, refuse);
    load_argument(p, 1);
    emit(p, BPF_ALU | BPF_AND | BPF_K, 15, 0, 0); // without SOCK_CLOEXEC and SOCK_NONBLOCK
    allow_words(p, types, ARRAY_LEN(types), refuse);
}

static void block(program *p, call_check check, u32 refuse, u32 fatal) {
    static const u32 prctls[] = {PR_SET_NAME, PR_GET_NAME, PRCTL_SET_VMA};
    static const u32 ioctls[] = {FIONREAD, FIONBIO, TIOCGWINSZ, TCGETS};
    const u32 pid = (u32)getpid(), self = 0;
    switch (check) {
    case CALL_ALWAYS: verdict(p, SECCOMP_RET_ALLOW); break;
    case CALL_SOCKET: socket_rule(p, refuse); break;
    case CALL_THREAD:
        load_argument(p, 0);
        allow_if_bits(p, CLONE_THREAD, true, refuse);
        break;
    case CALL_NO_EXEC:
        load_argument(p, 2);
        allow_if_bits(p, PROT_EXEC, false, refuse);
        break;
    case CALL_OWN_PID:
        load_argument(p, 0);
        allow_words(p, &pid, 1, refuse);
        break;
    case CALL_PRCTL:
        load_argument(p, 0);
        allow_words(p, prctls, ARRAY_LEN(prctls), refuse);
        break;
    case CALL_OWN_LIMIT:
        load_argument(p, 0);
        allow_words(p, &self, 1, refuse);
        break;
    case CALL_IOCTL:
        load_argument(p, 1);
        allow_words(p, ioctls, ARRAY_LEN(ioctls), refuse);
        break;
    case CALL_FATAL: verdict(p, fatal); break;
    case CALL_ABSENT: verdict(p, SECCOMP_RET_ERRNO | ENOSYS); break;
    }
}

static void program_make(program *p, bool debug) {
    u32 refuse = debug ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
    u32 fatal = debug ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS;
    p->len = 0;
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    verdict(p, SECCOMP_RET_KILL_PROCESS);
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    if (NUMBERS_END != 0) {
        emit(p, BPF_JMP | BPF_JGE | BPF_K, NUMBERS_END, 0, 1);
        verdict(p, SECCOMP_RET_KILL_PROCESS);
    }
    for (u32 i = 0; i < seccomp_rule_count; i++) {
        u16 jump = p->len;
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, seccomp_rules[i].number, 0, 0);
        block(p, (call_check)seccomp_rules[i].check, refuse, fatal);
        p->code[jump].jf = (u8)(p->len - jump - 1);
    }
    verdict(p, refuse);
}

// --- debug mode ---

static u64 refused[REFUSED_WORDS], told[REFUSED_WORDS]; // bits; atomic; main's

// The call was not made; the caller is told EPERM. Async-signal-safe.
static void on_refused(int signo, siginfo_t *info, void *context) {
    (void)signo;
    ucontext_t *at = context;
    u32 number = MIN((u32)info->si_syscall, REFUSED_WORDS * 64 - 1);
    __atomic_fetch_or(&refused[number / 64], 1ull << number % 64, __ATOMIC_RELAXED);
#if defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
    at->uc_mcontext.regs[0] = (u64)-EPERM;
#endif
}

void seccomp_watch(void) {
    for (u32 word = 0; word < REFUSED_WORDS; word++) {
        u64 fresh = __atomic_load_n(&refused[word], __ATOMIC_RELAXED) & ~told[word];
        told[word] |= fresh;
        for (; fresh != 0; fresh &= fresh - 1) {
            u32 number = word * 64 + (u32)__builtin_ctzll(fresh);
            const char *name = seccomp_call_name(number);
            log_warn("sandbox: system call %s (%u) is not in the list: it was refused", name != NULL ? name : "?",
                     number);
        }
    }
}

// --- installation ---

int seccomp_enter(bool debug, char *out, size_t out_bytes) {
    static program p; // 8 KiB
    if (debug) {
        struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigaction(SIGSYS, &action, NULL);
    }
    program_make(&p, debug);
    struct sock_fprog filter = {p.len, p.code};
    // SPEC_ALLOW: before 5.16 a filter turned on costly mitigations that do nothing for a process without foreign code.
    const unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    if (result == 0) {
        snprintf(out, out_bytes, "%u rules%s", seccomp_rule_count, debug ? ", refused calls are named" : "");
        return 0;
    }
    int failed = result > 0 ? -EBUSY : -errno; // > 0: a thread that has another filter
    snprintf(out, out_bytes, "not available: %s%s", errno_name(failed),
             failed == -ENOSYS || failed == -EINVAL ? " (a kernel or an emulator without seccomp filters)" : "");
    return failed;
}
