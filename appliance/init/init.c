// SPDX-License-Identifier: Apache-2.0
// init.c: the order in which PID 1 brings the appliance up (control.h says why in that order), and its
// signals. Nothing here waits: after the loop has begun all goes on by events.
#include "init/init.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "init/buttons.h"
#include "init/clock.h"
#include "init/cmdline.h"
#include "init/config_collect.h"
#include "init/control.h"
#include "init/data.h"
#include "init/describe.h"
#include "init/identity.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/mounts.h"
#include "init/net_only.h"
#include "init/net_start.h"
#include "init/pstore.h"
#include "init/requests.h"
#include "init/shutdown.h"
#include "init/state.h"
#include "init/supervise.h"
#include "init/update.h"
#include "init/watchdog.h"
#include "limits.h"
#include "version.h"

#define GATEWAY_PROGRAM "/sluice"
#define EXIT_USAGE 2
#define EXIT_FAILED 1

static const char usage[] =
    "usage: sluice init [--container [-c FILE] [--socket PATH]]\n"
    "Without options: the appliance's PID 1, started by the kernel.\n"
    "--container: supervises `sluice run` and reaps orphans, as PID 1 of a container or under any parent;\n"
    "  TERM and INT drain and stop (a second one at once), HUP reloads the configuration.\n"
    "  -c FILE: the gateway's configuration. --socket PATH: where requests are answered.\n"
    "Exit status: 0 stopped in order; 1 could not start, or crash loop; 2 usage.\n";

static struct {
    bool real;
    bool config_ready, data_decided, gone;
    const char *conf_path, *socket_path;
    init_watch signals;
    init_timer state_delay;
} self = {.conf_path = CONFIG_RUN_PATH, .socket_path = INIT_SOCKET_PATH};

bool init_is_real(void) {
    return self.real;
}

// --- events that start the gateway ---

static void gateway_go(void) {
    if (self.gone || !self.config_ready || !self.data_decided) return;
    self.gone = true;
    supervise_go(self.real && !init_data_is_mounted());
}

void init_config_ready(bool changed) {
    bool first = !self.config_ready;
    self.config_ready = true;
    if (first) gateway_go();
    else if (changed && self.gone) supervise_reload();
}

static void data_decided(void) {
    self.data_decided = true;
    pstore_keep();
    init_config_data_mounted();
    gateway_go();
}

// The configuration part has its own call from the network part.
void init_network_up(void) {
    clock_network_up();
}

// --- the state record's delayed write ---

static void state_delay_fired(init_timer *t) {
    int result = state_flush();
    if (result == 0 || result == -ENODEV) return;
    init_error("state record: could not be written: %s; tried again", errno_name(result));
    init_timer_set(t, LIMIT_STATE_RETRY_MS);
}

static void state_dirty(void) {
    if (!self.state_delay.armed) init_timer_set(&self.state_delay, LIMIT_STATE_DELAY_MS);
}

// --- signals ---

static void power_pressed(const char *device) {
    init_shutdown(INIT_POWEROFF, device);
}

static void restart_pressed(const char *device) {
    (void)device;
    init_shutdown(INIT_REBOOT, "Ctrl-Alt-Del");
}

static void signal_take(int signo) {
    switch (signo) {
    case SIGCHLD: init_child_reap(); break;
    case SIGHUP: supervise_reload(); break;
    // Ctrl-Alt-Del, from the kernel or from a hypervisor that types it.
    case SIGINT: init_shutdown(self.real ? INIT_REBOOT : INIT_POWEROFF, self.real ? "Ctrl-Alt-Del" : "SIGINT"); break;
    case SIGUSR1: init_shutdown(INIT_REBOOT, "restart asked for"); break;
    case SIGUSR2: init_shutdown(INIT_POWEROFF, "power off asked for"); break;
    case SIGPWR: init_shutdown(INIT_POWEROFF, "SIGPWR"); break;
    default: init_shutdown(INIT_POWEROFF, "SIGTERM"); break;
    }
}

static void signals_ready(init_watch *w, u32 events) {
    struct signalfd_siginfo info;
    (void)events;
    while (read(w->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) signal_take((int)info.ssi_signo);
}

// Blocked before anything else: a blocked signal waits for the signalfd, while PID 1 would lose an unblocked
// one that has no handler.
static sigset_t signals_block(void) {
    static const int list[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPWR, SIGUSR1, SIGUSR2};
    sigset_t set;
    sigemptyset(&set);
    for (u32 i = 0; i < ARRAY_LEN(list); i++) sigaddset(&set, list[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return set;
}

static int signals_open(const sigset_t *set) {
    int fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0) return -errno;
    self.signals = (init_watch){.name = "signals", .on_ready = signals_ready, .fd = fd};
    return init_loop_watch(&self.signals, EPOLLIN);
}

// --- start ---

// Everything that follows needs the record, so this is the one place that waits for a disk: only when the
// boot loader, which read the system from it, says that there is one.
static bool state_partition_find(char *path, size_t size) {
    u64 end_ns = clock_mono_ns() + (init_cmdline_get("sluice.slot") != NULL ? LIMIT_DISK_WAIT_MS * NS_PER_MS : 0);
    for (;;) {
        if (init_partition_find("sluice-state", path, size) == 0) return true;
        if (clock_mono_ns() >= end_ns) return false;
        usleep(10000);
    }
}

static void state_start(void) {
    char path[64];
    const char *why;
    bool found = state_partition_find(path, sizeof(path));
    state_health health = state_open(found ? path : NULL, &why);
    bool fine = health == STATE_OK || health == STATE_EMPTY;
    init_log(fine ? LOG_INFO : LOG_WARN, "state record: %s%s%s, generation %llu", state_health_name(health),
             why != NULL ? ": " : "", why != NULL ? why : "", (unsigned long long)state_generation());
    state_on_dirty(state_dirty);
}

static void watchdog_begin(void) {
    u32 wanted_s = LIMIT_WATCHDOG_S;
    const char *text = init_cmdline_get("sluice.watchdog");
    if (text != NULL) wanted_s = (u32)MAX(5l, MIN(strtol(text, NULL, 10), 600l));
    char path[32];
    watchdog_find(path, sizeof(path));
    int timeout_s = watchdog_open(path, wanted_s);
    if (timeout_s > 0) {
        init_info("watchdog %s (%s): resets the machine after %d s without feeding", path, watchdog_identity(),
                  timeout_s);
    } else if (timeout_s == -ENOENT) {
        init_info("no watchdog");
    } else {
        init_warn("watchdog %s: %s", path, errno_name(timeout_s));
    }
    watchdog_start(supervise_is_healthy);
}

static void identity_begin(void) {
    u8 uuid[MACHINE_ID_BYTES];
    seed_load();
    bool has_uuid = identity_hardware_uuid(uuid);
    identity_origin origin = identity_decide(has_uuid ? uuid : NULL, true);
    init_info("machine id %s (%s)", init_machine_id(), identity_origin_name(origin));
}

static void last_boot_report(void) {
    char end[128];
    int len = state_get("boot.end", end, sizeof(end));
    u64 boots = state_get_u64("boot.count", 0) + 1;
    len = MIN(len, (int)sizeof(end));
    bool known = len > 0;
    init_log(known || boots == 1 ? LOG_INFO : LOG_WARN, "boot %llu, the last one ended: %.*s",
             (unsigned long long)boots, known ? len : 7, known ? end : boots == 1 ? "(first)" : "unknown");
    if (!known && boots > 1) init_warn("the last boot did not end in order: power cut, reset or panic");
    describe_last_end(known ? end : "", known ? (u32)len : 0);
    state_put_u64("boot.count", boots);
    state_delete("boot.end");
}

static void machine_start(void) {
    init_log_open(true);
    init_info("sluice %s (%s) built %s", SLUICE_VERSION, SLUICE_COMMIT, SLUICE_BUILD_DATE);
    mounts_report();
    init_cmdline_read();
    // Restart at Ctrl-Alt-Del is ours to do, in order.
    if (reboot(RB_DISABLE_CAD) < 0) init_warn("Ctrl-Alt-Del: %s", errno_name(errno));
    watchdog_begin();
    state_start();
    clock_floor_apply();
    identity_begin();
    last_boot_report();
    watchdog_turn();
}

// On disk at once: the next panic may come before the delayed write.
static void panics_count(void) {
    if (!pstore_has_panic()) {
        state_delete(SUPERVISE_KEY_PANICS);
        return;
    }
    u64 panics = state_get_u64(SUPERVISE_KEY_PANICS, 0) + 1;
    state_put_u64(SUPERVISE_KEY_PANICS, panics);
    state_flush();
    supervise_panics(panics);
}

static void machine_parts(void) {
    int result = buttons_open(power_pressed, restart_pressed);
    if (result < 0) init_warn("power buttons added later are not seen: %s", errno_name(result));
    shutdown_hook(clock_save_now);
    shutdown_hook(seed_save);
    shutdown_hook(init_net_stop);
    pstore_collect();
    panics_count();
    data_start(data_decided);
    result = init_net_start();
    if (result < 0) init_error("network: %s", errno_name(result));
    watchdog_turn();
    result = init_config_collect();
    if (result < 0) init_error("configuration: %s", errno_name(result));
    watchdog_turn();
    clock_start();
    init_update_start();
}

static int loop_begin(const sigset_t *signals) {
    int result = init_loop_open();
    if (result == 0) result = signals_open(signals);
    return result;
}

static int parts_begin(const char *program) {
    supervise_config wanted = {.program = program, .conf_path = self.conf_path, .real = self.real,
                               .socket_path = self.socket_path};
    describe_register();
    int result = supervise_open(&wanted);
    if (result < 0) init_error("page shared with the gateway: %s", errno_name(result));
    return result;
}

// --- commands ---

static int container_options(int argc, char **argv) {
    bool container = false;
    for (int i = 1; i < argc; i++) {
        bool takes_value = strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "--socket") == 0;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (strcmp(argv[i], "--container") == 0) container = true;
        else if (!takes_value || i + 1 == argc) return -EINVAL;
        else if (strcmp(argv[i], "-c") == 0) self.conf_path = argv[++i];
        else self.socket_path = argv[++i];
    }
    return container ? 0 : -EINVAL;
}

static int container_run(int argc, char **argv, const sigset_t *signals) {
    self.conf_path = self.socket_path = NULL;
    if (container_options(argc, argv) < 0) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    const char *why;
    state_open(NULL, &why);
    identity_decide(NULL, false);
    self.state_delay = (init_timer){.name = "state record", .on_fire = state_delay_fired};
    shutdown_setup(false);
    if (loop_begin(signals) < 0 || parts_begin("/proc/self/exe") < 0) return EXIT_FAILED;
    int result = self.socket_path == NULL ? 0 : init_requests_open(self.socket_path);
    if (result < 0) init_warn("request socket %s: %s", self.socket_path, errno_name(result));
    supervise_go(false);
    result = init_loop_run();
    init_requests_close();
    init_loop_close();
    return result < 0 || supervise_had_crash_loop() ? EXIT_FAILED : 0;
}

// A mistake in init itself must not become a machine that stands still: the kernel panics when PID 1 ends, and
// restarts by panic=.
static int machine_run(const sigset_t *signals) {
    int mounted = mounts_make();
    self.state_delay = (init_timer){.name = "state record", .on_fire = state_delay_fired};
    shutdown_setup(true);
    int result = loop_begin(signals);
    if (result == 0) {
        machine_start();
        if (mounted < 0) init_error("/dev or /proc could not be mounted: %s", errno_name(mounted));
        result = parts_begin(GATEWAY_PROGRAM);
    }
    if (result == 0) {
        int opened = init_requests_open(self.socket_path);
        if (opened < 0) init_error("request socket %s: %s", self.socket_path, errno_name(opened));
        machine_parts();
        result = init_loop_run();
    }
    init_error("init can not go on: %s", errno_name(result));
    init_log_drain(500);
    return EXIT_FAILED;
}

// The machine's PID 1, not a container's: /proc is not there yet, or names the first PID namespace (its
// inode number is fixed in the kernel). The kernel hands words of its command line over as arguments.
static bool is_machine(int argc, char **argv) {
    char link[64];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--container") == 0) return false;
    }
    ssize_t len = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
    link[MAX(len, 0)] = '\0';
    return getpid() == 1 && (len < 0 || strcmp(link, "pid:[4026531836]") == 0);
}

int init_main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--network-only") == 0) return net_only_main(argc, argv);
    sigset_t signals = signals_block();
    self.real = is_machine(argc, argv);
    if (!self.real) return container_run(argc, argv, &signals);
    return machine_run(&signals);
}

int init_poweroff_main(int argc, char **argv) {
    (void)argc;
    const char *slash = strrchr(argv[0], '/');
    bool restart = strcmp(slash != NULL ? slash + 1 : argv[0], "reboot") == 0;
    if (kill(1, restart ? SIGUSR1 : SIGUSR2) == 0) return 0;
    fprintf(stderr, "%s: PID 1: %s\n", argv[0], errno_name(errno));
    return EXIT_FAILED;
}
