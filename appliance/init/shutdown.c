// SPDX-License-Identifier: Apache-2.0
// shutdown.c: see shutdown.h. Two steps: asking the gateway to drain, which takes time in the loop, and the
// rest, which is done in one go when the gateway is gone or the time is over.
#include "init/shutdown.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/mounts.h"
#include "init/state.h"
#include "init/supervise.h"
#include "init/watchdog.h"
#include "limits.h"

#define HOOKS_MAX 8u
#define CONSOLE_DRAIN_MS 500u
#define REST_MS 5000u // for hooks, flush and unmount, behind the drain

static void deadline_fired(init_timer *t);

static struct {
    bool real, under_way, finished;
    init_end end;
    void (*hooks[HOOKS_MAX])(void);
    u32 hook_count;
    init_timer deadline;
} sd = {.deadline = {.name = "shutdown deadline", .on_fire = deadline_fired}};

static const char *const end_names[] = {
    [INIT_POWEROFF] = "power off", [INIT_REBOOT] = "restart", [INIT_HALT] = "halt"};

void shutdown_setup(bool real) {
    sd.real = real;
}

void shutdown_hook(void (*hook)(void)) {
    ASSERT(sd.hook_count < HOOKS_MAX);
    sd.hooks[sd.hook_count++] = hook;
}

bool shutdown_is_under_way(void) {
    return sd.under_way;
}

// Everything but init. Helpers that write get a moment to end by themselves.
static void others_end(void) {
    kill(-1, SIGTERM);
    for (int i = 0; i < 20; i++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (pid < 0 && errno == ECHILD) return;
        usleep(10000);
    }
    kill(-1, SIGKILL);
    usleep(20000);
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

static void machine_end(void) {
    static const int commands[] = {
        [INIT_POWEROFF] = RB_POWER_OFF, [INIT_REBOOT] = RB_AUTOBOOT, [INIT_HALT] = RB_HALT_SYSTEM};
    init_log_drain(CONSOLE_DRAIN_MS);
    sync();
    reboot(commands[sd.end]);
    // A machine that can not be switched off: it stands still at least. PID 1 never returns.
    init_error("reboot: %s", errno_name(errno));
    reboot(RB_HALT_SYSTEM);
    for (;;) pause();
}

static void finish(void) {
    if (sd.finished) return;
    sd.finished = true;
    init_timer_clear(&sd.deadline);
    for (u32 i = 0; i < sd.hook_count; i++) sd.hooks[i]();
    int result = state_flush();
    if (result < 0 && result != -ENODEV) init_error("state record: %s", errno_name(result));
    if (!sd.real) {
        init_loop_stop();
        return;
    }
    others_end();
    result = mounts_end();
    if (result < 0) init_error("%s was not unmounted: %s", INIT_DATA_DIR, errno_name(result));
    init_info("%s", end_names[sd.end]);
    machine_end();
}

static void deadline_fired(init_timer *t) {
    (void)t;
    init_error("shutdown: the gateway is not gone after %u ms: going on without it", LIMIT_SHUTDOWN_MS - REST_MS);
    finish();
}

void init_shutdown(init_end end, const char *why) {
    if (sd.finished) return;
    if (!sd.under_way) {
        sd.under_way = true;
        sd.end = end;
        init_info("%s: %s", end_names[end], why);
        state_put("boot.end", why, strnlen(why, STATE_VALUE_BYTES_MAX));
        watchdog_shutdown((LIMIT_SHUTDOWN_MS + 999) / 1000);
        init_timer_set(&sd.deadline, LIMIT_SHUTDOWN_MS - REST_MS);
    } else {
        init_info("%s: %s: at once", end_names[sd.end], why);
    }
    supervise_stop(finish);
}
