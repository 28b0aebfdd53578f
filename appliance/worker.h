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

#include "auth/result.h"
#include "base/base.h"
#include "base/hist.h"
#include "base/slab.h"
#include "base/spsc.h"
#include "base/timer.h"
#include "broker/sessions.h"
#include "conf/config.h"
#include "io/io.h"
#include "net/conn.h"
#include "net/tls_error.h"
#include "store/log.h"

struct auth_worker;
typedef struct broker broker;
typedef struct uplinks uplinks;
typedef struct gateway gateway;
typedef struct listener_shared listener_shared;

typedef enum worker_message {
    WM_NONE = 0,
    WM_CONN_MOVE,      // ptr: parcel (net/move.c)
    WM_ROUTE,          // for broker_handle_message; ptr: a slot of a parcel (broker/route.h), arg: sender
    WM_ROUTE_RETURN,   // the same: a parcel going home to be freed
    WM_SUBSCRIBE,      // the same: a filter the sender's clients have subscribed to
    WM_UNSUBSCRIBE,    // the same: one they no longer have
    WM_STREAM,         // reading of streams (store/stream_ask.h); arg: what
    WM_REQUEST,        // ptr: ops_request: to be answered (ops/request.h)
    WM_REPLY,          // ptr: ops_request: answered, back on the operations worker
    WM_RELOAD,         // ptr: reload_job (reload.h), shared
    WM_ACCEPT,         // every worker has the new listeners: accept on them
    WM_DRAIN,          // stop accepting, finish, close; extra: deadline, monotonic ns
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
    counter mqtt_online, mqtt_sessions;      // clients connected; sessions, those of absent clients included
    counter mqtt_sessions_made, mqtt_sessions_expired, mqtt_sessions_taken_over, mqtt_sessions_refused;
    counter mqtt_packets_in[16], mqtt_packets_out[16]; // by packet type
    counter mqtt_publish_in[3], mqtt_publish_out[3];   // by QoS
    counter mqtt_publish_bytes_in, mqtt_publish_bytes_out; // payload
    counter mqtt_queued, mqtt_queued_bytes;  // messages waiting in queues of clients
    counter mqtt_queued_log;                 // of them in the log
    counter mqtt_in_flight;
    counter mqtt_drops[MQTT_DROP_REASONS];
    counter mqtt_wills;
    counter ws_upgrades, ws_refused; // WebSocket handshakes
    counter tls_full, tls_resumed;           // handshakes done
    counter tls_failures[TLS_FAILURES];      // handshakes that failed, by reason
    counter tls_handshaking, tls_waiting;    // now: under way; waiting to begin
    counter tls_kernel_send, tls_kernel_receive; // connections handed to the kernel, by direction
    counter tls_kernel_refused;              // not handed over although the kernel has TLS
    counter auth_results[AUTH_RESULTS];      // clients let in and refused, by how and why
    counter publish_denied, subscribe_denied, read_denied; // by ACL: messages, filters, messages not delivered
    counter rate_pauses[RATE_SCOPES];        // messages that had to wait, by whose rate it was
    counter admin_refused[ADMIN_REFUSALS];   // operations worker: requests of the admin API, by why
    counter accept_pauses;                   // accept_rate was used up: connections wait in the backlog
    counter events_dropped;
    counter posts, post_overflows; // messages to other workers; those that found the ring full
    counter wakes_sent;
    counter recv_pauses;           // back-pressure events
    counter memory_used;           // bytes of output segments, tails and stashes handed out
    counter memory_refused;        // buffers refused: budget or memory used up
    counter loops;
    counter stalls;                // times the thread stood still for more than LIMIT_STALL_MS
    counter loop_busy_ns;          // time outside the wait
    counter heartbeat_ns;          // monotonic time of the last loop (watchdog)
    counter cpu_ns;                // processor time of the thread, user and system; updated once a second
    hist loop_lag;                 // ns a loop took
    hist reply;                    // ns from receive to the send being queued to the engine
} worker_metrics;

struct worker {
    u32 index;
    bool is_ops;
    gateway *gw;
    const config *conf;            // the configuration this worker applied last
    io_engine *engine;
    u64 now_ns;                    // cached once per wait
    const u8 *dispatch_data;       // buffer lent by the on_recv that runs, NULL outside
    u32 dispatch_len;
    u32 lent_sends;                // replies sent in place in this loop
    bool outcome_wanted;           // somebody waits for the end of a send: do not sleep before it is told
    int reserve_fd;                // given up to shed a connection at EMFILE; -1 = lost, retried
    listener *graveyard;           // removed listeners that still have connections
    recorder rec;
    timer_wheel *wheel;
    slab *conn_slab;
    slab *segment_slabs[4];        // output segments and tails: 256, 1k, 4k, 16k
    conn **conns;                  // connection table, conns_max entries
    u32 conns_max, conns_used;
    u32 conns_touched;             // table places at or above this were never used
    u32 *conn_free;                // stack of free table slots
    u32 conn_free_count;
    u64 conn_number;
    conn *dirty;                   // to flush this loop
    conn *blocked;                 // publishers waiting for room in rings
    listener *listeners[LIMIT_LISTENERS_MAX];
    u32 listener_count;
    struct tls_worker *tls;        // handshakes (net/tls_admission.h); NULL until the first
    broker *broker;
    mqtt_sessions *sessions;       // device workers
    store *store;                  // device workers; NULL: nothing is durable
    struct reload_job *restoring_job; // the first one, until sessions have been restored from the log
    struct streams *streams;       // of this worker's log; NULL: it has none
    struct stream_desk *stream_desk; // streams that this worker's clients read
    struct auth_worker *auth;      // clients that are being judged; NULL until there is one
    uplinks *uplinks;              // the same
    worker_metrics metrics;
    spsc *inbox;                   // array indexed by sender; the last ring is the control thread's
    u32 inbox_count;
    struct worker_post *post;      // array indexed by receiver: rings and overflow lists
    u32 overflow_total;            // messages in all overflow lists
    u64 posted_mask[2];            // receivers posted to in this loop
    u64 memory_budget_bytes, memory_used_bytes; // mapped tails beyond the slabs
    bool draining, stopping;
    u64 drain_deadline_ns;
    u32 drain_cursor;              // connections before it were told to finish
    bool more_inbox;               // a ring was not emptied in this turn
    u64 trim_ns;                   // next slab_trim
    u64 timers_rest_ns;            // after a stall timers wait until then
    pthread_t thread;
    bool started;
    u32 ended;                     // atomic: the loop has ended
    int cpu;                       // pinned to, -1 = not
    _Alignas(CACHE_LINE) u32 sleeping; // atomic: about to wait, ring the doorbell
};

// The process: shared, written before the workers start, read-only after (atomics excepted).
struct gateway {
    const config *conf;            // current; main's: workers read their own worker.conf
    u32 worker_count;              // device workers; workers[worker_count] is the operations worker
    worker *workers;
    io_kind engine;
    char engine_why[256];          // why this engine was chosen
    u64 started_mono_ns, started_real_ns;
    struct data_dir *data;         // NULL: nothing is durable (`durable = no`, SLUICE_DATA_VOLATILE)
    u64 log_bytes;                 // disk space of one worker's log
    u32 log_segment_bytes;
    u32 ready;                     // atomic: listeners open, workers running
    u32 draining;                  // atomic
    u32 reload_generation;         // atomic: reloads done, applied or refused
    u32 reloads_applied, reloads_refused; // atomic
    int control_fd;                // eventfd: wakes the control thread (main)
    u32 reload_request;            // atomic: set by ops to ask main for a reload, then control_fd is written
    struct reload_job *start_job;  // until every worker has its listeners
    char reload_result[1024];      // of the last reload, "" = applied; guarded by reload_generation's increment
    listener_shared *listeners[LIMIT_LISTENERS_MAX + 2]; // open ones, admin and ctl included
    u32 listener_count;            // atomic
    listener_shared *listeners_all; // main's: also those a reload removed
    i64 tls_checked_s;              // main's: when certificates were last looked at for their end
    // Atomic: open device connections of all workers, at most conns_max of a worker (each has slots for
    // all). A line of its own: it changes with every connection.
    _Alignas(CACHE_LINE) u32 conns;
};

// Posts a message to another worker's ring (owner thread). Kept in order; when the ring is full the
// message waits in an overflow list. Returns false only when that list is at LIMIT_RING_OVERFLOW: the
// message is not taken and the caller applies back-pressure. The doorbell rings at the end of the loop.
bool worker_post(worker *from, u32 to, const spsc_message *message);
// Whether worker_post would take a message now.
bool worker_post_has_room(const worker *from, u32 to);
// Whether a publisher should pause: some overflow list is more than half full.
bool worker_post_is_congested(const worker *w);
// A message from the control thread (main), which has a ring of its own to every worker; rings the bell
// at once. False when the ring is full.
bool worker_post_control(gateway *gw, u32 to, const spsc_message *message);
// The place hash of a client id: the same in every life of the gateway that has durable state.
u64 worker_place_hash(const char *id, size_t bytes);
// The owner of a client id: its place hash modulo worker_count.
u32 worker_of_client(const gateway *gw, const char *id, size_t bytes);

// One turn of the loop; false when the worker has stopped. Exported for the simulator, which drives
// several workers from one thread.
bool worker_loop_once(worker *w);
// Sets up a worker's memory, engine and tables; main thread. memory_bytes is its share of the budget.
// Returns 0 or -errno with the step that failed.
typedef struct worker_budget {
    u32 conns_max;
    u64 conn_bytes;      // connection slab
    u64 buffer_bytes;    // segments, tails and stashes
    u64 broker_bytes;
    u32 recv_bufs;
} worker_budget;
int worker_init(worker *w, gateway *gw, u32 index, const worker_budget *budget, io_kind engine,
                const char **step);
void worker_fini(worker *w);
// Starts and joins the thread.
int worker_start(worker *w, int cpu);
void worker_join(worker *w);

// Buffers of any size up to LIMIT_PACKET_BYTES_MAX from the worker's budget: slab classes up to 16 KiB,
// mapped beyond. Returns NULL when over budget or out of memory. *size receives the usable size.
void *worker_buf_alloc(worker *w, u32 bytes, u32 *size);
void worker_buf_free(worker *w, void *buf, u32 size);

#endif
