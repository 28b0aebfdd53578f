// SPDX-License-Identifier: Apache-2.0
// supervise.c: see supervise.h. Events for the table come from SIGCHLD, from a tick that reads the shared page
// (often while the gateway starts, then once a second), and from a timer that the table asks for.
//
// The crash counters over reboots are in the state record: boot.crash_reboots goes up before a reboot
// that a crash loop orders and back to 0 when the gateway has served for LIMIT_STABLE_MS.
#include "init/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "init/config_collect.h"
#include "init/control.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/requests.h"
#include "init/shared.h"
#include "init/state.h"
#include "init/supervise_table.h"

#define TICK_START_MS 50u
#define TICK_MS 1000u
#define KEY_CRASH_REBOOTS "boot.crash_reboots"
#define KEY_PANICS SUPERVISE_KEY_PANICS

static void child_exited(init_child *c, int status);
static void tick_fired(init_timer *t);
static void timer_fired(init_timer *t);

static struct {
    supervise_config config;
    supervise table;
    init_child child;
    init_shared *shared;
    int shared_fd;
    init_timer tick, timer;
    u64 started_ns;
    u64 ticked_ns;       // last turn of the tick
    u64 grace_until_ns;  // init itself stood still: nobody could beat
    bool volatile_data, stable, crash_loop;
    void (*on_done)(void);
    char last_end[64];
} sv = {
    .child = {.name = "gateway", .on_exit = child_exited, .plain_log = true},
    .shared_fd = -1,
    .tick = {.name = "gateway watch", .on_fire = tick_fired},
    .timer = {.name = "gateway timer", .on_fire = timer_fired},
    .last_end = "none",
};

static void handle(sv_event event);

// --- actions ---

static int child_start(void) {
    char fd_text[48], id_text[80], host_text[48];
    static char path[] = "PATH=/bin:/sbin", volatile_text[] = "SLUICE_DATA_VOLATILE=1";
    char socket_text[160];
    char run[] = "run", option[] = "-c", program[128], conf[128];
    snprintf(fd_text, sizeof(fd_text), INIT_SHARED_ENV "=%d", sv.shared_fd);
    snprintf(id_text, sizeof(id_text), "SLUICE_MACHINE_ID=%s", init_machine_id());
    snprintf(host_text, sizeof(host_text), "HOSTNAME=%s", init_hostname());
    snprintf(program, sizeof(program), "%s", sv.config.program);
    bool has_conf = sv.config.conf_path != NULL;
    snprintf(conf, sizeof(conf), "%s", has_conf ? sv.config.conf_path : "");
    char *argv[] = {program, run, has_conf ? option : NULL, conf, NULL};
    const char *socket_path = sv.config.socket_path != NULL ? sv.config.socket_path : "";
    snprintf(socket_text, sizeof(socket_text), INIT_SOCKET_ENV "=%s", socket_path);
    char *env[] = {path, fd_text, id_text, host_text, socket_text, sv.volatile_data ? volatile_text : NULL, NULL};
    init_shared_reset(sv.shared);
    return init_child_exec(&sv.child, argv, env, -1, -1, sv.shared_fd);
}

static void start(void) {
    sv.started_ns = clock_mono_ns();
    int result = child_start();
    init_timer_set(&sv.tick, TICK_START_MS);
    if (result == 0) {
        init_info("gateway started, pid %d", (int)sv.child.pid);
        return;
    }
    init_error("gateway: could not be started: %s", errno_name(result));
    snprintf(sv.last_end, sizeof(sv.last_end), "not started: %s", errno_name(result));
    sv.table.end = SV_END_CRASH;
    handle(SV_EXIT);
}

static void crash_loop_reboot(void) {
    u64 reboots = state_get_u64(KEY_CRASH_REBOOTS, 0) + 1;
    state_put_u64(KEY_CRASH_REBOOTS, reboots);
    sv.crash_loop = true;
    init_error("gateway: crash loop (more than %u ends in %u s, the last: %s): restarting the machine, %llu of %u",
               LIMIT_CRASHES_MAX, LIMIT_CRASH_WINDOW_MS / 1000, sv.last_end, (unsigned long long)reboots,
               LIMIT_CRASH_REBOOTS);
    init_shutdown(INIT_REBOOT, "crash loop");
}

static void status_mode_begin(void) {
    init_error("gateway: crash loop again after %u restarts of the machine: STATUS MODE, the machine stays up and "
               "tries the gateway every %u s; the last end: %s",
               sv.table.reboots, LIMIT_STATUS_RETRY_MS / 1000, sv.last_end);
}

static void done(void) {
    init_timer_clear(&sv.tick);
    init_timer_clear(&sv.timer);
    if (sv.on_done != NULL) sv.on_done();
}

static void handle(sv_event event) {
    sv_action action = supervise_event(&sv.table, event, clock_mono_ns());
    if (sv.table.timer_ms != 0) init_timer_set(&sv.timer, sv.table.timer_ms);
    switch (action) {
    case SV_DO_NOTHING: break;
    case SV_DO_START: start(); break;
    case SV_DO_ABORT: init_child_signal(&sv.child, SIGABRT); break;
    case SV_DO_TERM: init_child_signal(&sv.child, SIGTERM); break;
    case SV_DO_KILL: init_child_signal(&sv.child, SIGKILL); break;
    case SV_DO_REBOOT: crash_loop_reboot(); break;
    case SV_DO_STATUS: status_mode_begin(); break;
    case SV_DO_DONE: done(); break;
    }
}

// --- events ---

static void end_describe(int status) {
    if (WIFSIGNALED(status)) {
        snprintf(sv.last_end, sizeof(sv.last_end), "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        return;
    }
    int code = WEXITSTATUS(status);
    const char *name = code == 0    ? "stopped in order"
                       : code == 1  ? "could not start, or a worker failed"
                       : code == 2  ? "wrong configuration"
                       : code == 70 ? "out of memory"
                                    : "unknown";
    snprintf(sv.last_end, sizeof(sv.last_end), "exit %d (%s)", code, name);
}

static void child_exited(init_child *c, int status) {
    (void)c;
    init_timer_clear(&sv.timer);
    end_describe(status);
    bool asked = sv.table.state == SV_STOPPING;
    log_level level = asked ? LOG_INFO : LOG_ERROR;
    u64 ran_ms = (clock_mono_ns() - sv.started_ns) / NS_PER_MS;
    init_log(level, "gateway ended after %llu ms: %s", (unsigned long long)ran_ms, sv.last_end);
    bool config = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    sv.table.end = config ? SV_END_CONFIG : clean ? SV_END_CLEAN : SV_END_CRASH;
    // First the state, so that a last good configuration that is put back starts the gateway again.
    handle(SV_EXIT);
    if (config && !asked && sv.config.real) init_config_rejected("the gateway does not start with it");
}

static void timer_fired(init_timer *t) {
    (void)t;
    if (sv.table.state == SV_KILLING || sv.table.state == SV_STOPPING) {
        init_warn("gateway: still there: killing it");
        init_timer_set(&sv.timer, LIMIT_ABORT_MS); // a process that dies slowly: tried again, said again
    }
    handle(SV_TIMER);
}

static bool is_ready(void) {
    return __atomic_load_n(&sv.shared->ready, __ATOMIC_ACQUIRE) != 0;
}

static void starting_check(u64 now_ns) {
    u64 took_ms = (now_ns - sv.started_ns) / NS_PER_MS;
    if (is_ready()) {
        handle(SV_READY);
        init_info("gateway ready %llu ms after its start, %llu ms after the kernel's", (unsigned long long)took_ms,
                  (unsigned long long)(now_ns / NS_PER_MS));
        if (sv.config.real) init_config_accepted();
    } else if (took_ms > LIMIT_GATEWAY_START_MS && now_ns >= sv.grace_until_ns) {
        init_error("gateway: not ready after %llu ms: ending it", (unsigned long long)took_ms);
        handle(SV_HANG);
    }
}

// A virtual machine that was paused, or a processor that was taken away: the clock went on while nothing ran, and
// every heartbeat is old when init wakes up first. The gateway gets its time anew.
static void pause_check(u64 now_ns) {
    u64 late_ms = sv.ticked_ns == 0 ? 0 : (now_ns - sv.ticked_ns) / NS_PER_MS;
    sv.ticked_ns = now_ns;
    if (late_ms <= LIMIT_INIT_LATE_MS) return;
    sv.grace_until_ns = now_ns + LIMIT_HEARTBEAT_MS * NS_PER_MS;
    init_warn("init stood still for %llu ms: the machine was paused, or has too little processor time",
              (unsigned long long)late_ms);
}

static void serving_check(u64 now_ns) {
    int who;
    if (now_ns < sv.grace_until_ns) return;
    if (init_shared_check(sv.shared, now_ns, LIMIT_HEARTBEAT_MS * NS_PER_MS, &who) == BEAT_STALE) {
        if (who < 0) init_error("gateway: its main thread stands still for %u ms: ending it", LIMIT_HEARTBEAT_MS);
        else init_error("gateway: worker %d stands still for %u ms: ending it", who, LIMIT_HEARTBEAT_MS);
        handle(SV_HANG);
    } else if (!sv.stable && now_ns - sv.table.ready_ns > LIMIT_STABLE_MS * NS_PER_MS) {
        sv.stable = true;
        sv.table.status_mode = false;
        sv.table.reboots = 0;
        state_delete(KEY_CRASH_REBOOTS);
        state_delete(KEY_PANICS);
    }
}

static void tick_fired(init_timer *t) {
    u64 now_ns = clock_mono_ns();
    pause_check(now_ns);
    if (sv.table.state == SV_STARTING) starting_check(now_ns);
    else if (sv.table.state == SV_SERVING) serving_check(now_ns);
    if (sv.table.state == SV_STOPPED) sv.ticked_ns = 0;
    else init_timer_set(t, sv.table.state == SV_STARTING ? TICK_START_MS : TICK_MS);
}

// --- the interface ---

int supervise_open(const supervise_config *config) {
    sv.config = *config;
    sv.child.as_gateway = config->real;
    sv.shared = init_shared_create(&sv.shared_fd);
    if (sv.shared == NULL) return sv.shared_fd;
    sv.table.reboots = (u32)MIN(state_get_u64(KEY_CRASH_REBOOTS, 0), (u64)UINT32_MAX);
    return 0;
}

void supervise_panics(u64 boots) {
    if (boots < LIMIT_CRASH_REBOOTS) return;
    sv.table.status_mode = true;
    init_error("the kernel died %llu times in a row: STATUS MODE: the gateway is tried in %u s",
               (unsigned long long)boots, LIMIT_STATUS_RETRY_MS / 1000);
}

void supervise_go(bool volatile_data) {
    sv.volatile_data = volatile_data;
    handle(SV_GO);
}

void supervise_reload(void) {
    if (sv.child.pid > 0) init_child_signal(&sv.child, SIGHUP);
    else handle(SV_GO);
}

void supervise_stop(void (*on_done)(void)) {
    bool again = sv.on_done != NULL;
    sv.on_done = on_done;
    handle(again ? SV_NOW : SV_STOP);
}

bool supervise_is_healthy(void) {
    int who;
    u64 bound_ns = LIMIT_FEED_BEAT_MS * NS_PER_MS;
    // Before supervise_open, while the machine is being brought up, there is nobody to beat.
    u64 now_ns = clock_mono_ns();
    bool beats = sv.shared != NULL && sv.child.pid > 0 &&
                 (now_ns < sv.grace_until_ns || init_shared_check(sv.shared, now_ns, bound_ns, &who) == BEAT_ALIVE);
    return supervise_may_feed(&sv.table, beats);
}

bool supervise_had_crash_loop(void) {
    return sv.crash_loop;
}

bool supervise_in_status_mode(void) {
    return sv.table.status_mode;
}

void init_gateway_status_get(init_gateway_status *out) {
    bool serving = sv.table.state == SV_SERVING;
    *out = (init_gateway_status){
        .running = sv.child.pid > 0,
        .ready = serving,
        .restarts = sv.table.restarts,
        .last_end = sv.last_end,
        .ready_ms = serving ? (clock_mono_ns() - sv.table.ready_ns) / NS_PER_MS : 0,
    };
    if (sv.shared == NULL) return;
    out->draining = __atomic_load_n(&sv.shared->draining, __ATOMIC_ACQUIRE) != 0;
    out->conns = __atomic_load_n(&sv.shared->conns, __ATOMIC_ACQUIRE);
    out->reloads_applied = __atomic_load_n(&sv.shared->reloads_applied, __ATOMIC_ACQUIRE);
    out->reloads_refused = __atomic_load_n(&sv.shared->reloads_refused, __ATOMIC_ACQUIRE);
}

void supervise_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    init_gateway_status s;
    init_gateway_status_get(&s);
    yyjson_mut_obj_add_str(doc, to, "state", supervise_state_name(sv.table.state));
    yyjson_mut_obj_add_bool(doc, to, "status_mode", sv.table.status_mode);
    yyjson_mut_obj_add_int(doc, to, "pid", sv.child.pid);
    yyjson_mut_obj_add_uint(doc, to, "ready_ms", s.ready_ms);
    yyjson_mut_obj_add_uint(doc, to, "restarts", s.restarts);
    yyjson_mut_obj_add_str(doc, to, "last_end", sv.last_end);
    yyjson_mut_obj_add_uint(doc, to, "crash_reboots", sv.table.reboots);
    yyjson_mut_obj_add_bool(doc, to, "volatile_data", sv.volatile_data);
}
