// SPDX-License-Identifier: Apache-2.0
// gateway.h: `sluice run`: the process around the workers. Main is the control thread: it reads the
// configuration, chooses the engine, opens listeners, starts the workers, and then waits for signals.
#ifndef SLUICE_GATEWAY_H
#define SLUICE_GATEWAY_H

#include "worker.h"

// `sluice run [-c FILE] [--engine E] [--workers N]`. Returns the exit status: 0 after an orderly stop,
// 1 when the gateway could not start or a worker failed, 2 for usage or a wrong configuration.
// Signals: TERM, INT drain and stop (twice: at once); HUP reloads; USR1 re-opens the log file.
int gateway_main(int argc, char **argv);

// --- shared by the gateway's files ---

// budget.c: what this machine lets us have. Prints the table to the log.
typedef struct gateway_budget {
    u64 descriptors;      // RLIMIT_NOFILE, raised to its hard limit
    u64 ram_bytes;        // of the machine or the memory cgroup, whichever is less
    u64 memory_bytes;     // for buffers, all workers
    worker_budget device; // of each device worker
    worker_budget ops;
} gateway_budget;
// log_files: descriptors of one worker's durable log.
int gateway_budget_compute(const config *conf, u32 workers, u32 log_files, gateway_budget *out, char *why,
                           size_t why_bytes);
void gateway_budget_log(const gateway_budget *budget, u32 workers);

// gateway_workers.c: the workers, gw->worker_count of them and the one of operations.
u32 gateway_cpus_allowed(int *cpus); // room for LIMIT_WORKERS_MAX. Returns how many; 0: not known
int gateway_workers_make(gateway *gw, const gateway_budget *budget);
int gateway_workers_start(gateway *gw);
bool gateway_worker_has_ended(const gateway *gw, bool ops_too); // one of them at least
bool gateway_workers_have_ended(const gateway *gw); // all but that of operations
void gateway_workers_drain(gateway *gw, u64 deadline_ns);
void gateway_ops_stop(gateway *gw);
void gateway_workers_free(gateway *gw); // waits for their threads

// gateway_settle.c: data_dir was made by another number of workers. What their logs have begun together and not
// finished is finished by as many as there were then, before anything is converted: which worker has a message
// already is known in terms of them. They have no listener, no stream and no uplink. 0, or -errno: not to be made.
// log_files: as above.
int gateway_settle(gateway *gw, u32 log_files);

// gateway_beat.c: heartbeats for `sluice init`, when it is the parent. Attach before there are threads.
void gateway_beat_attach(void);
void gateway_beat(const gateway *gw);

// gateway_listeners.c: opens what the configuration names and the process has not open yet, and posts
// or adds it. The admin and ctl listeners are derived from the configuration.
struct reload_job;
int gateway_job_make(gateway *gw, const config *conf, struct reload_job **out, char *why,
                     size_t why_bytes);
// failed: closes the sockets it had opened.
void gateway_job_free(struct reload_job *job, bool failed);
// Frees what describes listeners; all workers have ended.
void gateway_listeners_free(gateway *gw);
// The listeners that are open now, for ops.
void gateway_listeners_publish(gateway *gw, const struct reload_job *job);
// Main, each turn: once a day, and when the clock was set by as much, warns of certificates that end.
void gateway_listeners_check_expiry(gateway *gw);

// gateway_reload.c: reads the configuration again and applies what can change while running. What is
// wrong or needs a restart is logged and put into gw->reload_result. Waits for the workers.
typedef struct run_options {
    const char *path;     // NULL = defaults
    bool has_engine;
    bool engine_auto;
    io_kind engine;
    u32 workers;          // 0 = as configured
} run_options;
// Tells all workers to accept on the listeners they were given.
void gateway_accept(gateway *gw);
log_config gateway_log_config(const config *conf);
// Which sink failed and why, from the step log_start or log_reload gave: "log file /x/y: ENOENT".
void gateway_log_failure(const config *conf, const char *step, int result, char *out, size_t out_bytes);
int gateway_config_read(const run_options *options, config **out, config_error *error);
void gateway_reload(gateway *gw, const run_options *options);
// SIGUSR1, and a part of each reload: opens the log's sinks anew. When that fails the old ones stay, and the
// log says why.
void gateway_log_open(const config *conf);

#endif
