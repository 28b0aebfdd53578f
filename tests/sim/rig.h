// SPDX-License-Identifier: Apache-2.0
// rig.h: a gateway in a box: the real workers, listeners, connections, protocols and brokers on simulated
// engines, all turned from one thread, with devices at the other ends. The rig knows when time may move
// on, notices a loop that turns for nothing, and at the end looks for everything that could have leaked.
#ifndef SLUICE_TESTS_RIG_H
#define SLUICE_TESTS_RIG_H

#include "conf/config.h"
#include "io/sim.h"
#include "net/listener.h"
#include "store/data_dir.h"
#include "store/disk_sim.h"
#include "worker.h"

#define RIG_WORKERS_MAX 3u
#define RIG_LISTENERS_MAX 4u
#define RIG_DEVICES_MAX 64u

typedef struct rig rig;
typedef struct device device;

typedef struct rig_setup {
    sim_config sim;
    u32 workers;
    u32 listener_count;
    listener_config listeners[RIG_LISTENERS_MAX];
    worker_budget budget;
    bool tight;           // limits or budgets are so small that devices may be refused or dropped
    bool roomy;           // no message may be dropped for want of room
    bool stalls;          // time may move while there is work: a process that was not scheduled
    disk_sim *disk;       // the workers have durable logs on it; NULL: nothing is durable
    u64 log_bytes;        // of one worker's log, in segments of 1 MiB
    const char *stream;   // topic filter of a stream that keeps everything; NULL: none
} rig_setup;

struct rig {
    rig_setup setup;
    sim *world;
    sim_random rng;       // for the test's choices
    config conf;
    gateway gw;
    data_dir data;
    u32 workers_wanted;   // while an earlier number of them finishes what they had begun; 0 = no
    bool has_layout;      // the directory of the logs was complete once
    u64 slow_from_ns[RIG_WORKERS_MAX], slow_to_ns[RIG_WORKERS_MAX]; // the disk does nothing for this worker's log
    bool disk_held;       // the disk does nothing for now: what is asked of it waits
    u64 refused_before;   // messages refused for the log by the gateways that have ended
    worker *workers;      // setup.workers, and a place for the operations worker, which stays unused
    bool ended[RIG_WORKERS_MAX];
    listener_shared *shared[RIG_LISTENERS_MAX];
    int fds[RIG_LISTENERS_MAX][RIG_WORKERS_MAX]; // listening descriptors
    u32 opened_listeners;
    device *devices[RIG_DEVICES_MAX];
    u32 device_count;
    // Told of each close of a connection that is no device's; NULL: there must be none.
    void (*on_closed)(void *context, const char *peer, close_reason reason);
    void *on_closed_context;
    u64 turns;            // rounds over all workers
    u64 idle_turns;       // in a row: no event, no work, and the clock did not move
    u64 broker_bytes[RIG_WORKERS_MAX]; // in use when nothing was connected
    u32 parcels_dropped;  // connections that did not survive their move
    u32 closes_logged;
    bool tight, drained;  // ends that are explained by it
    char failure[1024];   // first thing that was wrong
};

// Aborts when the gateway can not even be set up.
rig *rig_open(const rig_setup *setup);
// Only with a disk (rig_disk.c). Ends the gateway: in order, with a last commit, or as if the power had gone. Nobody
// may be connected any more who looks at what it says.
void rig_halt(rig *r, bool in_order);
// Before rig_boot: with so many workers.
void rig_workers_set(rig *r, u32 workers);
// Starts it again on what the disk has. It may be cut off again (disk_sim_is_cut): then it serves nobody.
void rig_boot(rig *r);
// How often the gateway refused a message because a log was full or had failed.
u64 rig_log_refusals(const rig *r);
// Some of what the logs have asked of the disk is done. Whether there was anything.
bool rig_disk_turn(rig *r);
bool rig_disk_is_slow(const rig *r); // some log's disk does nothing now
// Stops the workers, checks for leaks, frees everything. The failure, if any, stays in out.
void rig_close(rig *r, char *out, size_t out_bytes);

void rig_fail(rig *r, const char *format, ...) PRINTF_LIKE(2, 3);
static inline bool rig_is_failed(const rig *r) {
    return r->failure[0] != '\0';
}
#define RIG_CHECK(r, cond, ...) \
    do { \
        if (!(cond)) rig_fail((r), __VA_ARGS__); \
    } while (0)

// One turn of every worker in a random order; then time moves if there is nothing to do, by ns_max at
// most.
void rig_turn(rig *r, u64 ns_max);
// Turns with the devices acting, until all are done or so much virtual time has passed.
void rig_run(rig *r, u64 ns);
// Turns until no connection is left; fails after so much virtual time.
void rig_run_until_empty(rig *r, u64 ns);
// Tells all workers to drain until then, or to stop.
void rig_drain(rig *r, u64 deadline_ns);

u32 rig_conns(const rig *r);             // open, all workers
u64 rig_closes(const rig *r, close_reason reason);
// Sum of one counter over the workers; pass its offset in worker_metrics.
u64 rig_metric(const rig *r, size_t offset);
#define RIG_METRIC(r, field) rig_metric((r), offsetof(worker_metrics, field))

#endif
