// SPDX-License-Identifier: Apache-2.0
// gateway.c: `sluice run`: start, signals, orderly stop. Set-up and teardown mirror each other; nothing
// starts half-configured: every listener is bound and every engine made before the first worker runs.
#include "gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/siphash.h"
#include "io/probe.h"
#include "net/listener.h"
#include "reload.h"
#include "sandbox/sandbox.h"
#include "store/crc32c.h"
#include "store/data_dir.h"
#include "store/disk.h"
#include "version.h"

enum { EXIT_START_FAILED = 1, EXIT_USAGE = 2 };

static const char run_usage[] =
    "usage: sluice run [-c FILE] [--engine auto|uring|epoll-et|epoll-lt|poll|select] [--workers N]\n"
    "Runs the gateway in the foreground. Without -c: a frame listener on 127.0.0.1:7000, the admin port\n"
    "on 127.0.0.1:9600, data in ./sluice-data.\n"
    "Signals: TERM and INT drain and stop (a second one at once), HUP reloads the configuration.\n"
    "Exit status: 0 stopped in order; 1 could not start, or a worker failed; 2 usage or configuration.\n";

static int options_parse(int argc, char **argv, run_options *out) {
    *out = (run_options){0};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            fputs(run_usage, stdout);
            exit(0);
        }
        bool known = strcmp(name, "-c") == 0 || strcmp(name, "--engine") == 0 ||
                     strcmp(name, "--workers") == 0;
        if (!known || i + 1 == argc) {
            fprintf(stderr, known ? "sluice run: %s needs a value\n" : "sluice run: unknown option %s\n",
                    name);
            fputs(run_usage, stderr);
            return -EINVAL;
        }
        const char *value = argv[++i];
        if (strcmp(name, "-c") == 0) {
            out->path = value;
        } else if (strcmp(name, "--engine") == 0) {
            out->has_engine = true;
            out->engine_auto = strcmp(value, "auto") == 0;
            if (!out->engine_auto && !io_kind_parse(value, &out->engine)) {
                fprintf(stderr, "sluice run: unknown engine %s; allowed: auto, uring, epoll-et, "
                                "epoll-lt, poll, select\n", value);
                return -EINVAL;
            }
        } else {
            char *end;
            unsigned long n = strtoul(value, &end, 10);
            if (*end != 0 || n == 0 || n > LIMIT_WORKERS_MAX) {
                fprintf(stderr, "sluice run: --workers %s; allowed: 1 to %u\n", value, LIMIT_WORKERS_MAX);
                return -EINVAL;
            }
            out->workers = (u32)n;
        }
    }
    return 0;
}

void gateway_log_failure(const config *conf, const char *step, int result, char *out, size_t out_bytes) {
    const char *which = strncmp(step, "log file", 8) == 0 ? conf->log.file
                        : strncmp(step, "syslog", 6) == 0 ? conf->log.syslog
                                                          : "";
    snprintf(out, out_bytes, "%s%s%s: %s", step, which[0] != 0 ? " " : "", which, errno_name(result));
}

log_config gateway_log_config(const config *conf) {
    return (log_config){
        .level = conf->log.level,
        .ring_bytes = conf->log.ring_bytes,
        .to_stderr = conf->log.to_stderr,
        .file = conf->log.file,
        .file_bytes_max = conf->log.file_bytes_max,
        .file_keep = conf->log.file_keep,
        .syslog = conf->log.syslog,
    };
}

// --- set-up ---

static int data_dir_prepare(const config *conf) {
    if (mkdir(conf->data_dir, 0750) < 0 && errno != EEXIST) {
        fprintf(stderr, "sluice: data_dir %s: can not be made: %s\n", conf->data_dir, errno_name(errno));
        return -errno;
    }
    if (access(conf->data_dir, W_OK | X_OK) < 0) {
        fprintf(stderr, "sluice: data_dir %s: not writable: %s\n", conf->data_dir, errno_name(errno));
        return -errno;
    }
    struct stat st;
    if (stat(conf->data_dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        fprintf(stderr, "sluice: data_dir %s: not a directory\n", conf->data_dir);
        return -ENOTDIR;
    }
    return 0;
}

static int listeners_open(gateway *gw) {
    reload_job *job;
    char why[512];
    int result = gateway_job_make(gw, gw->conf, &job, why, sizeof(why));
    if (result < 0) {
        log_error("%s", why);
        return result;
    }
    gateway_listeners_publish(gw, job);
    // Before the threads run: the rings carry the job as at a reload.
    job->pending = gw->worker_count + 1;
    gw->start_job = job;
    for (u32 i = 0; i <= gw->worker_count; i++) {
        spsc_message message = {.kind = WM_RELOAD, .ptr = job};
        worker_post_control(gw, i, &message);
    }
    return 0;
}

// The logs of all workers: where they are, how large, and the key by which clients are spread over them.
static int logs_open(gateway *gw, u32 *files) {
    static data_dir data;
    char why[512];
    const char *is_volatile = getenv("SLUICE_DATA_VOLATILE"); // the appliance has no data partition
    *files = 0;
    if (is_volatile != NULL && strcmp(is_volatile, "1") == 0) {
        log_warn("nothing is durable: there is no disk for data_dir (SLUICE_DATA_VOLATILE)");
        return 0;
    }
    if (!gw->conf->durable) {
        log_warn("nothing is durable: durable = no");
        return 0;
    }
    if (data_dir_open(&data, gw->conf->data_dir, disk_real(), gw->worker_count, why, sizeof(why)) < 0) {
        log_error("%s", why);
        return -EIO;
    }
    data_dir_sizes sizes = data_dir_size(&data, gw->conf->log_max_bytes);
    gw->log_bytes = sizes.log_bytes;
    gw->log_segment_bytes = sizes.segment_bytes;
    *files = sizes.files;
    siphash_process_key_set(data.key);
    gw->data = &data;
    log_info("durable log: at most %llu MiB for each worker, in segments of %u MiB, CRC-32C by %s",
             (unsigned long long)(sizes.log_bytes >> 20), sizes.segment_bytes >> 20, crc32c_variant());
    return 0;
}

// data_dir was made by another number of workers. After the workers are made: their modules know whose a record is.
static int logs_convert(gateway *gw) {
    char why[700];
    if (gw->data == NULL || gw->data->old_workers == 0) return 0;
    int result = data_dir_convert(gw->data, store_keepers(gw->workers[0].store), gw->log_bytes, gw->log_segment_bytes,
                                  why, sizeof(why));
    if (result < 0) log_error("%s", why);
    return result;
}

// --- control loop ---

void gateway_accept(gateway *gw) {
    for (u32 i = 0; i <= gw->worker_count; i++) {
        spsc_message message = {.kind = WM_ACCEPT};
        bool posted = worker_post_control(gw, i, &message);
        ASSERT(posted); // the control ring holds many more than one reload at a time
    }
}

static void listeners_ready(gateway *gw) {
    if (gw->start_job == NULL || __atomic_load_n(&gw->start_job->pending, __ATOMIC_ACQUIRE) > 0) return;
    gateway_job_free(gw->start_job, false);
    gw->start_job = NULL;
    gateway_accept(gw);
    __atomic_store_n(&gw->ready, 1, __ATOMIC_RELEASE);
    log_info("ready");
}

// Waits for signals and the workers until everything has drained. Returns the exit status.
static int control_loop(gateway *gw, const run_options *options, int signal_fd) {
    u64 hard_deadline_ns = UINT64_MAX;
    int status = 0;
    while (!gateway_workers_have_ended(gw)) {
        listeners_ready(gw);
        gateway_beat(gw);
        sandbox_watch();
        struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN}, {.fd = gw->control_fd, .events = POLLIN}};
        poll(fds, ARRAY_LEN(fds), gw->start_job != NULL ? 5 : 500);
        u64 ignored;
        if (fds[1].revents != 0) (void)!read(gw->control_fd, &ignored, sizeof(ignored));
        if (__atomic_exchange_n(&gw->reload_request, 0, __ATOMIC_ACQ_REL) != 0) gateway_reload(gw, options);
        gateway_listeners_check_expiry(gw);
        bool draining = gw->draining != 0;
        bool stop = false;
        struct signalfd_siginfo info;
        while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            log_info("signal %s", strsignal((int)info.ssi_signo));
            if (info.ssi_signo == SIGHUP) gateway_reload(gw, options);
            else if (info.ssi_signo == SIGUSR1) gateway_log_open(gw->conf);
            else stop = true;
        }
        if (!draining && gateway_worker_has_ended(gw, true)) {
            log_error("a worker ended by itself: stopping");
            status = EXIT_START_FAILED;
            stop = true;
        }
        u64 now = clock_mono_ns();
        if (stop) {
            u64 deadline = draining ? now : now + gw->conf->drain_timeout_ms * NS_PER_MS;
            __atomic_store_n(&gw->draining, 1, __ATOMIC_RELEASE);
            gateway_workers_drain(gw, deadline);
            hard_deadline_ns = deadline + 5 * NS_PER_S;
        }
        if (now > hard_deadline_ns) {
            log_error("workers did not end %d s after the drain deadline: leaving", 5);
            return -1;
        }
    }
    return status;
}

static int signals_block(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) return -errno; // threads inherit it
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void crash_prepare(gateway *gw) {
    int result = crash_start(gw->conf->data_dir, SLUICE_VERSION " (" SLUICE_COMMIT ")");
    if (result < 0) log_warn("no crash report: %s", errno_name(result));
    for (u32 i = 0; i <= gw->worker_count; i++) {
        static char names[LIMIT_WORKERS_MAX + 1][16];
        snprintf(names[i], sizeof(names[i]), i == gw->worker_count ? "ops" : "worker %u", i);
        result = crash_register_recorder(names[i], &gw->workers[i].rec);
        if (result < 0) log_warn("no crash report of %s: %s", names[i], errno_name(result));
    }
}

// Threads that do not end: freeing memory under them would be worse than leaving it to the kernel.
NORETURN static void leave_at_once(const gateway *gw) {
    unlink(gw->conf->ctl_socket);
    log_stop(2000);
    _exit(EXIT_START_FAILED);
}

// The part between a good configuration and the end. Returns the exit status.
static int run(gateway *gw, const run_options *options, int signal_fd) {
    char why[512];
    gateway_budget budget;
    int cpus[LIMIT_WORKERS_MAX];
    u32 cpu_count = gateway_cpus_allowed(cpus);
    gw->worker_count = gw->conf->workers != 0 ? gw->conf->workers : MAX(cpu_count, 1u);
    if (io_engine_choose(gw->conf->engine_auto, gw->conf->engine, &gw->engine, gw->engine_why,
                         sizeof(gw->engine_why)) < 0) {
        log_error("engine: %s", gw->engine_why);
        return EXIT_START_FAILED;
    }
    bool fell_back = gw->conf->engine_auto && gw->engine != IO_URING;
    log_write(fell_back ? LOG_WARN : LOG_INFO, "engine %s: %s", io_kind_name(gw->engine), gw->engine_why);
    u32 log_files;
    if (logs_open(gw, &log_files) < 0) return EXIT_START_FAILED;
    if (gateway_budget_compute(gw->conf, gw->worker_count, log_files, &budget, why, sizeof(why)) < 0) {
        log_error("%s", why);
        return EXIT_START_FAILED;
    }
    gateway_budget_log(&budget, gw->worker_count);
    int status = EXIT_START_FAILED;
    if (gateway_settle(gw, log_files) == 0 && gateway_workers_make(gw, &budget) == 0 && logs_convert(gw) == 0) {
        crash_prepare(gw);
        bool opened = listeners_open(gw) == 0;
        bool closed = opened && sandbox_close(gw->conf, why, sizeof(why)) == 0;
        if (opened && !closed) log_error("%s", why);
        if (closed && gateway_workers_start(gw) == 0) {
            status = control_loop(gw, options, signal_fd);
            if (status < 0) leave_at_once(gw);
            gateway_ops_stop(gw);
        }
        // Only ours: where the start failed the socket may be another instance's.
        if (opened) unlink(gw->conf->ctl_socket);
    }
    return status;
}

int gateway_main(int argc, char **argv) {
    run_options options;
    if (options_parse(argc, argv, &options) < 0) return EXIT_USAGE;
    static gateway gw;
    config_error error = {{0}};
    config *conf;
    if (gateway_config_read(&options, &conf, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_USAGE;
    }
    gateway_beat_attach();
    gw.conf = conf;
    gw.started_mono_ns = clock_mono_ns();
    gw.started_real_ns = clock_real_ns();
    gw.control_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int signal_fd = signals_block();
    if (gw.control_fd < 0 || signal_fd < 0) {
        fprintf(stderr, "sluice: descriptors for control: %s\n", errno_name(errno));
        return EXIT_START_FAILED;
    }
    if (data_dir_prepare(conf) < 0) return EXIT_START_FAILED;
    char why[512];
    if (sandbox_begin(conf, why, sizeof(why)) < 0) {
        fprintf(stderr, "sluice: %s\n", why);
        return EXIT_START_FAILED;
    }
    // As the user that the files in it will belong to.
    if (data_dir_lock(conf->data_dir, why, sizeof(why)) < 0) {
        fprintf(stderr, "sluice: %s\n", why);
        return EXIT_START_FAILED;
    }
    // The probe forks: before there are threads.
    const char *step = "";
    log_config log_settings = gateway_log_config(conf);
    log_settings.thread_begin = sandbox_thread_begin;
    int result = log_start(&log_settings, &step);
    if (result < 0) {
        gateway_log_failure(conf, step, result, why, sizeof(why));
        fprintf(stderr, "sluice: %s\n", why);
        return EXIT_START_FAILED;
    }
    log_info("sluice %s (%s) starts with %s", SLUICE_VERSION, SLUICE_COMMIT, conf->source);
    int status = run(&gw, &options, signal_fd);
    gateway_workers_free(&gw);
    if (gw.start_job != NULL) gateway_job_free(gw.start_job, true);
    gateway_listeners_free(&gw);
    log_info("stopped, status %d", status);
    log_stop(2000);
    return status;
}
