// SPDX-License-Identifier: Apache-2.0
// loop.h: the one loop of `sluice init`: descriptors with callbacks, timers, children. Everything PID 1
// does runs on it, in one thread, so nothing here needs a lock and nothing may wait: a callback that took
// LIMIT_INIT_TURN_MS is logged by name. What may block (a file system, a flush of a slow card) runs in a
// helper process started with init_child_fork.
//
// Invariants: callbacks run only inside init_loop_run; a watch, timer or child that was removed is not
// called any more, not even for an event that the kernel has already reported; the memory is the caller's
// and may be freed as soon as it is removed. A callback may remove itself and any other.
#ifndef SLUICE_INIT_LOOP_H
#define SLUICE_INIT_LOOP_H

#include "base/base.h"

// --- descriptors ---

typedef struct init_watch init_watch;
struct init_watch {
    const char *name;                                // static; for the log
    void (*on_ready)(init_watch *w, u32 events);     // EPOLLIN ...; EPOLLERR and EPOLLHUP may always come
    int fd;                                          // stays the caller's; remove the watch before closing it
    u32 generation;                                  // the loop's; 0 = not watched
    u32 slot;                                        // the loop's
};

// Level-triggered. events: EPOLLIN, EPOLLOUT, EPOLLPRI. Returns 0 or -errno (-ENOSPC: more than
// LIMIT_INIT_WATCHES; -EPERM: a regular file).
int init_loop_watch(init_watch *w, u32 events);
// Changes what a watch waits for; 0 = only errors.
int init_loop_watch_events(init_watch *w, u32 events);
// No effect when not watched.
void init_loop_unwatch(init_watch *w);

// --- timers ---

typedef struct init_timer init_timer;
struct init_timer {
    const char *name;
    void (*on_fire)(init_timer *t);
    u64 deadline_ns;          // the loop's
    init_timer *next;         // the loop's
    bool armed;               // the loop's
};

// Fires once, after ms (monotonic; a step of the wall clock does not move it). Setting an armed timer
// moves it.
void init_timer_set(init_timer *t, u64 ms);
void init_timer_clear(init_timer *t);

// --- children ---
// PID 1 reaps everything; who started a child is told through its init_child.

typedef struct init_child init_child;
struct init_child {
    const char *name;
    // status as of waitpid. The child is already reaped and the struct the caller's again.
    void (*on_exit)(init_child *c, int status);
    pid_t pid;                // 0 = not running
    bool plain_log;           // its lines go to the log as they come, without the name
    i32 oom_score_adj;        // for the kernel's out-of-memory killer; 0 = as any process
    bool as_gateway;          // not root: init/gateway_user.h
    init_child *next;         // the loop's
};

// Runs `run(context)` in a fork; its return value (0..255) is the exit status. The helper has default
// signals and dies with PID 1; it must not touch the loop. Its init_log lines go through a pipe to init's log.
// Returns 0 or -errno.
int init_child_fork(init_child *c, int (*run)(void *context), void *context);
// Runs a program: argv[0] is its path; env NULL = PATH and nothing else. stdin is /dev/null; out_fd is its
// stdout and err_fd its stderr, -1 = init's log (each line prefixed with c->name).
// keep_fd: one descriptor that stays open in it under the same number, -1 = none.
int init_child_exec(init_child *c, char *const argv[], char *const env[], int out_fd, int err_fd,
                    int keep_fd);
// Sends a signal; no effect when it does not run.
void init_child_signal(init_child *c, int signo);
// on_exit will not be called; the child is still reaped.
void init_child_forget(init_child *c);

// --- the loop itself: init.c and tests ---

int init_loop_open(void);           // 0 or -errno
void init_loop_close(void);
// Waits and dispatches until init_loop_stop. Returns 0, or -errno when waiting itself failed.
int init_loop_run(void);
void init_loop_stop(void);
// One turn that waits at most wait_ms (-1: until something happens). For tests.
int init_loop_turn(int wait_ms);
// Monotonic time of this turn.
u64 init_loop_now_ns(void);
// Reaps all that has ended and tells the owners; on SIGCHLD. In child.c.
void init_child_reap(void);

#endif
