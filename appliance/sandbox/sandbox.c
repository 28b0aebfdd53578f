// SPDX-License-Identifier: Apache-2.0
// sandbox.c: see sandbox.h: the order of the steps, and what is said about them.
//
// Under a sanitizer only the user, the capabilities and no_new_privs are given up: its run-time reads /proc, starts
// a symbolizer, and at the end traces its own threads.
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

static sandbox_state state = {.mode = "off", .capabilities = "kept", .landlock = "off", .seccomp = "off"};
static bool debug;

const sandbox_state *sandbox_state_get(void) {
    return &state;
}

int sandbox_begin(const config *conf, char *why, size_t why_bytes) {
    int result = privileges_become(conf->user, conf->data_dir, state.user, sizeof(state.user), why, why_bytes);
    if (result < 0 || conf->sandbox == SANDBOX_OFF) return result;
    debug = conf->sandbox == SANDBOX_DEBUG;
    state.mode = debug ? "debug" : "on";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        snprintf(why, why_bytes, "sandbox: PR_SET_NO_NEW_PRIVS: %s", errno_name(errno));
        return -errno;
    }
    if (SANITIZED) {
        snprintf(state.landlock, sizeof(state.landlock), "left out: a build with a sanitizer");
        return 0;
    }
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); // can not fail: 0 and 1 are valid
    (void)landlock_enter(conf, state.landlock, sizeof(state.landlock));
    return 0;
}

void sandbox_thread_begin(void) {
    if (strcmp(state.mode, "off") == 0) return;
    (void)privileges_drop(); // fewer are always allowed
    // A refused call in debug mode comes as this signal, and would end a thread that blocks it.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

// Root without capabilities is a user like others: what belongs to somebody else is closed to it.
static int files_check(const config *conf, char *why, size_t why_bytes) {
    if (faccessat(AT_FDCWD, conf->data_dir, W_OK | X_OK, AT_EACCESS) == 0) return 0;
    int failed = -errno;
    snprintf(why, why_bytes, "sandbox: data_dir %s is not writable for user %s without privileges: %s; give it to that "
             "user (chown), or set user", conf->data_dir, state.user, errno_name(failed));
    return failed;
}

static void report(bool complete) {
    log_write(complete ? LOG_INFO : LOG_WARN, "sandbox %s: user %s; capabilities: %s; landlock: %s; seccomp: %s",
              state.mode, state.user, state.capabilities, state.landlock, state.seccomp);
    if (geteuid() == 0) log_warn("sandbox: runs as root, without capabilities: set user to run as somebody else");
}

int sandbox_close(const config *conf, char *why, size_t why_bytes) {
    if (conf->sandbox == SANDBOX_OFF) {
        log_warn("sandbox off: user %s; a fault in the gateway reaches all that this user can", state.user);
        return 0;
    }
    int result = privileges_drop();
    if (result < 0) {
        snprintf(why, why_bytes, "sandbox: capabilities: %s", errno_name(result));
        return result;
    }
    snprintf(state.capabilities, sizeof(state.capabilities), "none");
    result = files_check(conf, why, why_bytes);
    if (result < 0) return result;
    bool filtered = false;
    if (SANITIZED) snprintf(state.seccomp, sizeof(state.seccomp), "left out: a build with a sanitizer");
    else filtered = seccomp_enter(debug, state.seccomp, sizeof(state.seccomp)) == 0;
    report(SANITIZED || (filtered && strncmp(state.landlock, "ABI", 3) == 0));
    return 0;
}

void sandbox_watch(void) {
    if (debug) seccomp_watch();
}
