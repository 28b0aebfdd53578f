// SPDX-License-Identifier: Apache-2.0
// worker.h: a worker: one pinned thread with its engine, connections, timers, slabs, metrics and flight
// recorder. Nothing in it is touched by another thread, except what is marked so.
// The last worker of the table is the operations worker: same code, not pinned, readiness engine, only
// the admin listeners; device work never waits for it.
//
// The loop: wait and dispatch completions (io_run) -> messages of other workers -> timers -> flush
// touched connections -> ring doorbells once per worker posted to.
#ifndef SLUICE_WORKER_H
#define SLUICE_WORKER_H

#include <pthread.h>

#include "base/base.h"
#include "base/hist.h"
#include "base/slab.h"
#include "base/spsc.h"
#include "base/timer.h"
#include "conf/config.h"
#include "io/io.h"
#include "net/conn.h"

typedef struct broker broker;
typedef struct gateway gateway;

typedef enum worker_message {
    WM_NONE = 0,
    WM_CONN_MOVE,      // ptr: parcel (net/move.c)
    WM_ROUTE,          // ptr: broker message; see broker/route.h
    WM_ROUTE_RETURN,   // ptr: broker message going home to be freed
    WM_SUBSCRIBE,      // ptr: malloc'd filter; arg: worker; remote filter added
    WM_UNSUBSCRIBE,    // the same, removed
    WM_REQUEST,        // ptr: ops_request: to be answered (ops/request.h)
    WM_REPLY,          // ptr: ops_request: answered, back on the operations worker
    WM_RELOAD,         // ptr: config, shared and read-only
    WM_DRAIN,          // stop accepting, finish, close
    WM_STOP,           // close everything now and end the loop
    WM_KINDS
} worker_message;

// Counters of one worker beyond the engine's. Single writer (the worker); any reader.
typedef struct worker_metrics {
    counter conns_open;
    counter conns_opened;
    counter accept_errors;         // EMFILE and its kin
    counter refused;               // connections refused by a limit
    counter closes[CLOSE_REASONS];
    counter bytes_in, bytes_out;
    counter packets_in, packets_out;
    counter heartbeats;
    counter copied_in_bytes;       // received bytes copied into a tail or stash (0 for whole packets)
    counter copied_out_bytes;      // bytes copied into output segments
    counter moved_out, moved_in;
    counter published, delivered;
    counter delivery_dropped;      // output budget of a subscriber exceeded
    counter posts, post_overflows; // messages to other workers; those that found the ring full
    counter wakes_sent;
    counter recv_pauses;           // back-pressure events
    counter loops;
    counter loop_busy_ns;          // time outside the wait
    counter heartbeat_ns;          // monotonic time of the last loop (watchdog)
    hist loop_lag;                 // ns a loop took
    hist reply;                    // ns from receive to the send being queued to the engine
} worker_metrics;

struct worker {
    u32 index;
    bool is_ops;
    gateway *gw;
    io_engine *engine;
    u64 now_ns;                    // cached once per wait
    recorder rec;
    timer_wheel *wheel;
    slab *conn_slab;
    slab *segment_slabs[4];        // output segments and tails: 256, 1k, 4k, 16k
    conn **conns;                  // connection table, conns_max entries
    u32 conns_max, conns_used;
    u32 *conn_free;                // stack of free table slots
    u32 conn_free_count;
    u64 conn_number;
    conn *dirty;                   // to flush this loop
    conn *blocked;                 // publishers waiting for room in rings
    listener *listeners[LIMIT_LISTENERS_MAX];
    u32 listener_count;
    broker *broker;
    worker_metrics metrics;
    spsc *inbox;                   // array indexed by sender
    struct worker_post *post;      // array indexed by receiver: overflow lists
    u64 posted_mask;               // receivers posted to in this loop
    u64 memory_budget_bytes, memory_used_bytes; // mapped tails beyond the slabs
    bool draining, stopping;
    u64 drain_deadline_ns;
    pthread_t thread;
    int cpu;                       // pinned to, -1 = not
    _Alignas(CACHE_LINE) u32 sleeping; // atomic: about to wait, ring the doorbell
};

// The process: shared, written before the workers start, read-only after (atomics excepted).
struct gateway {
    const config *conf;            // current; the control thread swaps it
    u32 worker_count;              // device workers; workers[worker_count] is the operations worker
    worker *workers;
    io_kind engine;
    char engine_why[256];          // why this engine was chosen
    u64 started_mono_ns, started_real_ns;
    u32 ready;                     // atomic: listeners open, workers running
    u32 draining;                  // atomic
    u32 reload_generation;         // atomic
    int control_fd;                // eventfd-like: wakes the control thread (main)
    u32 reload_request;            // atomic: set by ops to ask main for a reload
};

// Posts a message to another worker's ring (owner thread). Kept in order; when the ring is full the
// message waits in an overflow list. Returns false only when that list is at LIMIT_RING_OVERFLOW: the
// message is not taken and the caller applies back-pressure. The doorbell rings at the end of the loop.
bool worker_post(worker *from, u32 to, const spsc_message *message);
// Whether a publisher should pause: some overflow list is more than half full.
bool worker_post_is_congested(const worker *w);
// The owner of a client id: siphash(id) mod worker_count.
u32 worker_of_client(const gateway *gw, const char *id, size_t bytes);

// Buffers of any size up to LIMIT_PACKET_BYTES_MAX from the worker's budget: slab classes up to 16 KiB,
// mapped beyond. Returns NULL when over budget or out of memory. *size receives the usable size.
void *worker_buf_alloc(worker *w, u32 bytes, u32 *size);
void worker_buf_free(worker *w, void *buf, u32 size);

#endif
