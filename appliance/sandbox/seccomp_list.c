// SPDX-License-Identifier: Apache-2.0
// seccomp_list.c: see seccomp_list.h. Calls that only one architecture has stand behind their #ifdef: the older ones
// (open, poll, rename), which x86-64 kept and the C libraries still use there. Both musl (the product) and glibc
// (development builds) are served.
#include "sandbox/seccomp_list.h"

#include <sys/syscall.h>

#define RULE(name, check) {SYS_##name, check, #name}
#define CALL(name) RULE(name, CALL_ALWAYS)

const call_rule seccomp_rules[] = {
    // The data path.
    CALL(io_uring_enter), CALL(recvfrom), CALL(sendto), CALL(sendmsg), CALL(epoll_pwait), CALL(read), CALL(write),
    CALL(futex), CALL(clock_gettime), CALL(accept4), CALL(close), CALL(ppoll), CALL(pselect6), CALL(epoll_ctl),
    CALL(readv), CALL(writev), CALL(recvmsg), CALL(shutdown), CALL(setsockopt), CALL(getsockopt), CALL(fcntl),
    CALL(madvise), CALL(munmap), RULE(mmap, CALL_NO_EXEC), RULE(mprotect, CALL_NO_EXEC), CALL(mremap), CALL(brk),
#ifdef SYS_epoll_wait
    CALL(epoll_wait), CALL(poll), CALL(select),
#endif
    // Sockets: reload, uplinks, name resolution.
    RULE(socket, CALL_SOCKET), CALL(socketpair), CALL(bind), CALL(listen), CALL(accept), CALL(connect),
    CALL(getsockname), CALL(getpeername), CALL(recvmmsg), CALL(sendmmsg), CALL(epoll_create1), CALL(epoll_pwait2),
    CALL(eventfd2), CALL(pipe2), CALL(dup), CALL(dup3), RULE(ioctl, CALL_IOCTL), CALL(io_uring_register),
    // Files: configuration, certificates, log, crash report, the durable log.
    CALL(openat), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(statfs), CALL(fstatfs), CALL(faccessat),
    CALL(faccessat2), CALL(pread64), CALL(pwrite64), CALL(preadv), CALL(pwritev), CALL(preadv2), CALL(pwritev2),
    CALL(lseek), CALL(fsync), CALL(fdatasync), CALL(sync_file_range), CALL(fallocate), CALL(ftruncate),
    CALL(renameat), CALL(renameat2), CALL(unlinkat), CALL(mkdirat), CALL(getdents64), CALL(readlinkat), CALL(umask),
    CALL(fchmod), CALL(fadvise64), CALL(flock), CALL(getcwd), CALL(syncfs),
#ifdef SYS_open
    CALL(open), CALL(stat), CALL(lstat), CALL(access), CALL(rename), CALL(unlink), CALL(mkdir), CALL(rmdir),
    CALL(readlink), CALL(pipe), CALL(dup2), CALL(time), CALL(getdents),
#endif
    // Threads, signals, time.
    RULE(clone, CALL_THREAD), RULE(clone3, CALL_ABSENT), CALL(set_robust_list), CALL(set_tid_address), CALL(rseq),
    CALL(exit), CALL(exit_group), CALL(gettid), CALL(getpid), CALL(getppid), RULE(tgkill, CALL_OWN_PID),
    RULE(kill, CALL_OWN_PID), RULE(rt_tgsigqueueinfo, CALL_OWN_PID), CALL(tkill), CALL(rt_sigaction),
    CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigtimedwait), CALL(rt_sigsuspend), CALL(sigaltstack),
    CALL(signalfd4), CALL(restart_syscall), CALL(sched_yield), CALL(sched_setaffinity), CALL(sched_getaffinity),
    CALL(membarrier), CALL(nanosleep), CALL(clock_nanosleep), CALL(clock_getres), CALL(gettimeofday),
    CALL(timerfd_create), CALL(timerfd_settime), CALL(getrandom), CALL(mlock), CALL(munlock),
    // A thread made before the filter gives up its capabilities when it first runs; none can be got by this call.
    CALL(capset),
    // What is asked about oneself.
    CALL(getrusage), RULE(prlimit64, CALL_OWN_LIMIT), CALL(sysinfo), CALL(uname), CALL(getuid), CALL(geteuid),
    CALL(getgid), CALL(getegid), CALL(getcpu), CALL(times), RULE(prctl, CALL_PRCTL),
#ifdef SYS_getrlimit
    CALL(getrlimit),
#endif
    // Never ours.
    RULE(execve, CALL_FATAL), RULE(execveat, CALL_FATAL), RULE(ptrace, CALL_FATAL), RULE(bpf, CALL_FATAL),
    RULE(process_vm_readv, CALL_FATAL), RULE(process_vm_writev, CALL_FATAL), RULE(userfaultfd, CALL_FATAL),
    RULE(mount, CALL_FATAL), RULE(umount2, CALL_FATAL), RULE(pivot_root, CALL_FATAL), RULE(init_module, CALL_FATAL),
    RULE(finit_module, CALL_FATAL), RULE(kexec_load, CALL_FATAL), RULE(keyctl, CALL_FATAL), RULE(add_key, CALL_FATAL),
};
const u32 seccomp_rule_count = ARRAY_LEN(seccomp_rules);

// What a change of the program might call one day, so that the debug mode names it.
#define NAME(name) {SYS_##name, #name}
static const struct {
    u32 number;
    const char *name;
} others[] = {
    NAME(io_uring_setup), NAME(capget), NAME(setuid), NAME(setgid), NAME(setresuid), NAME(setresgid),
    NAME(setgroups), NAME(chdir), NAME(chroot), NAME(fchmodat), NAME(fchown), NAME(fchownat), NAME(linkat),
    NAME(symlinkat), NAME(mknodat), NAME(utimensat), NAME(truncate), NAME(sendfile), NAME(splice), NAME(tee),
    NAME(copy_file_range), NAME(memfd_create), NAME(openat2), NAME(close_range), NAME(inotify_init1),
    NAME(fanotify_init), NAME(setrlimit), NAME(setpriority), NAME(sched_setscheduler), NAME(sched_getscheduler),
    NAME(sched_setparam), NAME(sched_getparam), NAME(setsid), NAME(setpgid), NAME(wait4), NAME(waitid),
    NAME(unshare),
    NAME(setns), NAME(perf_event_open), NAME(personality), NAME(getresuid), NAME(getresgid), NAME(getpgid),
    NAME(getsid), NAME(getgroups), NAME(setitimer), NAME(getitimer), NAME(timer_create), NAME(mincore),
    NAME(msync),
    NAME(mlockall), NAME(mlock2), NAME(mbind), NAME(set_mempolicy), NAME(get_mempolicy), NAME(sync), NAME(reboot),
    NAME(sethostname), NAME(settimeofday), NAME(clock_settime), NAME(adjtimex), NAME(seccomp),
    NAME(landlock_create_ruleset), NAME(landlock_add_rule), NAME(landlock_restrict_self), NAME(pidfd_open),
    NAME(pidfd_getfd), NAME(process_madvise),
    NAME(request_key), NAME(quotactl), NAME(acct), NAME(swapon), NAME(delete_module), NAME(syslog), NAME(vhangup),
    NAME(shmget), NAME(semget), NAME(msgget), NAME(mq_open), NAME(io_setup), NAME(name_to_handle_at), NAME(kcmp),
#ifdef SYS_fork
    NAME(fork), NAME(vfork), NAME(creat), NAME(link), NAME(symlink), NAME(chmod), NAME(chown), NAME(arch_prctl),
    NAME(alarm),
#endif
};

const char *seccomp_call_name(u32 number) {
    for (u32 i = 0; i < seccomp_rule_count; i++) {
        if (seccomp_rules[i].number == number) return seccomp_rules[i].name;
    }
    for (u32 i = 0; i < ARRAY_LEN(others); i++) {
        if (others[i].number == number) return others[i].name;
    }
    return NULL;
}
