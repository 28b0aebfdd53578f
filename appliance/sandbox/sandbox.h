// SPDX-License-Identifier: Apache-2.0
// sandbox.h: what the gateway gives up before it speaks to anybody, so that a mistake in it is worth little to
// whoever finds it: another user than root, no capabilities, no new privileges, no memory dump, only the
// files that the configuration names (Landlock), only the system calls that a running gateway makes (seccomp).
//
// Two steps, because listeners may need a privileged port and the rings' set-up calls: sandbox_begin() before any
// thread exists (the threads inherit what it does), sandbox_close() when the listeners are open and before
// the workers run. What the kernel does not offer is named in the log and in `sluice ctl status`, and left out.
#ifndef SLUICE_SANDBOX_SANDBOX_H
#define SLUICE_SANDBOX_SANDBOX_H

#include "conf/config.h"

// What is in force, for people; written before the workers run.
typedef struct sandbox_state {
    const char *mode;      // "on", "off", "debug"
    char user[64];         // "sluice (991:991)", "0:0"
    char capabilities[32]; // "none", "kept"
    char landlock[128];    // "ABI 6, 9 paths", or why not
    char seccomp[128];     // "148 calls", or why not
} sandbox_state;

// Becomes the configured user, and applies what threads inherit: no new privileges, not dumpable, Landlock.
// One thread only; the data directory exists. Returns 0, or -errno with why: the user can not be
// become, and the gateway must not start as somebody else.
int sandbox_begin(const config *conf, char *why, size_t why_bytes);
// Gives up all capabilities and installs the system call filter, for all threads there are. Writes to the
// log what is in force. Returns 0, or -errno with why: what the gateway needs is not to be had without privileges.
int sandbox_close(const config *conf, char *why, size_t why_bytes);
// For a thread that starts between the two: capabilities are a thread's own.
void sandbox_thread_begin(void);
// Main's loop: with sandbox = debug, logs each refused system call once, by name.
void sandbox_watch(void);
const sandbox_state *sandbox_state_get(void);

// --- the parts (sandbox's own files and their tests) ---

// privileges.c. Returns 0 or -errno with why; text: the user as sandbox_state has it.
int privileges_become(const char *user, const char *data_dir, char *text, size_t text_bytes, char *why,
                      size_t why_bytes);
int privileges_drop(void); // all capabilities of this thread; 0 or -errno

// landlock.c. out: what is in force, or why nothing. Returns 0 or -errno.
int landlock_enter(const config *conf, char *out, size_t out_bytes);

// seccomp.c: the filter of seccomp_list.c for all threads. debug: a refused call is noted and gets EPERM, instead of
// EPERM or the end of the process.
int seccomp_enter(bool debug, char *out, size_t out_bytes);
void seccomp_watch(void);

#endif
