// SPDX-License-Identifier: Apache-2.0
// observe.h: what the server costs, seen from outside: its threads' CPU time, context switches,
// memory and system calls, from /proc and a tracepoint counter. Kernel workers of its io_uring
// rings (iou-wrk-*, iou-sqp-*) are threads of the process and counted with it.
#ifndef SLUICE_BENCH_OBSERVE_H
#define SLUICE_BENCH_OBSERVE_H

#include "bench/bench_limits.h"

typedef struct observe_thread {
    u32 pid, tid;
    char name[20];
    u64 run_ns;          // on a CPU (schedstat, first field)
    u64 wait_ns;         // runnable, waiting for a CPU (second field): the machine was shared
    u64 user_ns, sys_ns; // the kernel's split of run_ns, in its 10 ms steps
    u64 voluntary, involuntary; // context switches
} observe_thread;

typedef struct observe_sample {
    u64 time_ns;
    u32 count;
    observe_thread threads[BENCH_THREADS_MAX];
    u64 rss_bytes, private_bytes; // all processes; private: from smaps_rollup, 0 if not readable
} observe_sample;

typedef struct observe_delta {
    bool available;
    u64 window_ns;
    observe_thread total;    // name empty
    u64 workers_ns;          // part of total.run_ns in io_uring kernel threads
    u32 thread_count, ended; // ended: threads of the first sample that are gone; their time is lost
    observe_thread threads[BENCH_THREADS_MAX];
    u64 rss_bytes, private_bytes;
} observe_delta;

// Finds the processes that listen on the TCP port, through /proc/net/tcp[6] and their descriptors.
// Returns how many (up to BENCH_PIDS_MAX), 0 with a reason in why.
u32 observe_find_listeners(u16 port, u32 *pids, char *why, size_t why_bytes);
// 0, or -ESRCH / -errno when a process cannot be read.
int observe_take(const u32 *pids, u32 count, observe_sample *out);
void observe_difference(const observe_sample *from, const observe_sample *to, observe_delta *out);
// Memory only (cheaper): as in the sample.
int observe_memory(const u32 *pids, u32 count, u64 *rss_bytes, u64 *private_bytes);
// Kernel memory of all TCP sockets of the machine, bytes (/proc/net/sockstat); 0 if not readable.
u64 observe_tcp_memory(void);
// Time that the hypervisor took from all CPUs of this machine since it started, in 10 ms steps.
u64 observe_steal_ns(void);
// CPU and waiting time of the calling thread.
void observe_self(u64 *run_ns, u64 *wait_ns);

// --- system calls (observe_syscalls.c) ---
typedef struct observe_syscalls observe_syscalls;
// Opens a raw_syscalls:sys_enter counter on every thread. NULL with the reason in why. While it is
// open every system call of the machine takes the kernel's slow entry path: so it is opened only in
// a window of its own, whose CPU time is not reported.
observe_syscalls *observe_syscalls_open(const u32 *pids, u32 count, char *why, size_t why_bytes);
u64 observe_syscalls_read(const observe_syscalls *s);
void observe_syscalls_close(observe_syscalls *s);

#endif
