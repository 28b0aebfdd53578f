// SPDX-License-Identifier: Apache-2.0
// worker.c: one worker: its memory, its loop, and what messages make it do. A turn of the loop is
//   wait and dispatch completions -> messages -> timers -> flush touched connections -> ring bells.
// Everything a worker owns is touched by its own thread only; messages are the only way in.
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "auth/attempt.h"
#include "base/crash.h"
#include "base/log.h"
#include "broker/broker.h"
#include "net/listener.h"
#include "net/tls_admission.h"
#include "ops/request.h"
#include "post.h"
#include "sandbox/sandbox.h"
#include "store/data_dir.h"
#include "reload.h"
#include "store/stream_ask.h"
#include "uplink/uplink.h"

#define DRAIN_CONNS_PER_TURN 512u
#define LOOP_BUDGET_NS (20 * NS_PER_MS) // a longer turn is recorded (REC_LOOP_LAG)
#define WATCHDOG_TURN_NS NS_PER_S       // an idle worker turns at least this often: its heartbeat

static const u32 buf_classes[] = {256, 1024, 4096, 16384};
_Static_assert(ARRAY_LEN(buf_classes) == ARRAY_LEN(((worker *)0)->segment_slabs), "a slab a class");

// --- buffers ---

void *worker_buf_alloc(worker *w, u32 bytes, u32 *size) {
    u32 class = 0;
    while (class < ARRAY_LEN(buf_classes) && buf_classes[class] < bytes) class++;
    u64 want = class < ARRAY_LEN(buf_classes) ? buf_classes[class] : align_up_u64(bytes, 4096);
    if (w->memory_used_bytes + want > w->memory_budget_bytes) {
        counter_add(&w->metrics.memory_refused, 1);
        return NULL;
    }
    void *buf;
    if (class < ARRAY_LEN(buf_classes)) {
        buf = slab_alloc(w->segment_slabs[class]);
    } else {
        // Fresh pages: a large packet costs memory only as it arrives.
        buf = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buf == MAP_FAILED) buf = NULL;
    }
    if (buf == NULL) {
        counter_add(&w->metrics.memory_refused, 1);
        return NULL;
    }
    w->memory_used_bytes += want;
    counter_set(&w->metrics.memory_used, w->memory_used_bytes);
    *size = (u32)want;
    return buf;
}

void worker_buf_free(worker *w, void *buf, u32 size) {
    w->memory_used_bytes -= size;
    counter_set(&w->metrics.memory_used, w->memory_used_bytes);
    for (u32 class = 0; class < ARRAY_LEN(buf_classes); class++) {
        if (buf_classes[class] != size) continue;
        slab_free(w->segment_slabs[class], buf);
        return;
    }
    munmap(buf, size);
}

// --- set-up ---

static int tables_init(worker *w, const worker_budget *budget) {
    w->conns_max = budget->conns_max;
    w->conns = calloc(budget->conns_max, sizeof(*w->conns)); // zero pages until used
    w->conn_free = malloc(sizeof(*w->conn_free) * budget->conns_max);
    if (w->conns == NULL || w->conn_free == NULL) return -ENOMEM;
    // The stack is filled so that low slots are taken first.
    for (u32 i = 0; i < budget->conns_max; i++) w->conn_free[i] = budget->conns_max - 1 - i;
    w->conn_free_count = budget->conns_max;
    w->conn_slab = slab_create("conn", sizeof(conn), budget->conn_bytes);
    static const char *const names[] = {"buf_256", "buf_1k", "buf_4k", "buf_16k"};
    for (u32 i = 0; i < ARRAY_LEN(buf_classes); i++) {
        w->segment_slabs[i] = slab_create(names[i], buf_classes[i], budget->buffer_bytes);
        if (w->segment_slabs[i] == NULL) return -ENOMEM;
    }
    w->memory_budget_bytes = budget->buffer_bytes;
    return w->conn_slab == NULL ? -ENOMEM : 0;
}

static void store_wake(void *context) {
    worker *w = context;
    io_wake(w->engine);
}

static int store_make(worker *w, const char **step) {
    const gateway *gw = w->gw;
    u32 number = gw->data->first_log + w->index;
    char dir[340];
    data_dir_log_path(gw->data, number, dir, sizeof(dir));
    store_config sc = {
        .worker = w->index,
        .workers = gw->worker_count,
        .dir = dir,
        .log_number = number,
        .disk = gw->data->disk,
        .bytes_max = gw->log_bytes,
        .segment_bytes = gw->log_segment_bytes,
        .commit_delay_us = gw->conf->commit_delay_us,
        .recorder = &w->rec,
        .threads = io_engine_kind(w->engine) != IO_SIM, // the simulator has one thread
        .wake = store_wake,
        .wake_context = w,
        .thread_begin = sandbox_thread_begin,
    };
    return store_create(&sc, &w->store, step);
}

int worker_init(worker *w, gateway *gw, u32 index, const worker_budget *budget, io_kind engine,
                const char **step) {
    memset(w, 0, sizeof(*w));
    w->gw = gw;
    w->index = index;
    w->is_ops = index == gw->worker_count;
    w->conf = gw->conf;
    w->cpu = -1;
    w->reserve_fd = -1;
    w->now_ns = clock_mono_ns();
    *step = "flight recorder";
    int result = recorder_init(&w->rec, &w->now_ns);
    if (result < 0) return result;
    *step = "tables";
    result = tables_init(w, budget);
    if (result < 0) return result;
    *step = "rings";
    result = post_init(w, gw->worker_count + 1);
    if (result < 0) return result;
    io_config io = {
        .kind = engine,
        .handles_max = budget->conns_max + LIMIT_LISTENERS_MAX + LIMIT_UPLINKS_MAX + 2,
        .recv_bufs = budget->recv_bufs,
        .min_wait_us = gw->conf->min_wait_us,
        .sqpoll = gw->conf->sqpoll,
        .rec = &w->rec,
        .now_ns = &w->now_ns,
    };
    result = io_create(&io, &w->engine, step);
    if (result < 0) return result;
    if (engine == IO_SIM) w->now_ns = gw->started_mono_ns;
    *step = "timer wheel";
    w->wheel = timer_wheel_create(w->now_ns, w);
    if (w->wheel == NULL) return -ENOMEM;
    *step = "durable log";
    if (!w->is_ops && gw->data != NULL) {
        result = store_make(w, step);
        if (result < 0) return result;
    }
    *step = "streams";
    if (w->store != NULL && (w->streams = streams_create(w)) == NULL) return -ENOMEM;
    w->stream_desk = stream_desk_create(w);
    if (w->stream_desk == NULL) return -ENOMEM;
    *step = "broker";
    if (!w->is_ops) {
        broker_config bc = {.owner = w, .memory_bytes = budget->broker_bytes};
        w->broker = broker_create(&bc);
        w->sessions = w->broker == NULL ? NULL : mqtt_sessions_create(w);
        if (w->sessions == NULL) return -ENOMEM;
        if (w->store != NULL && (result = mqtt_sessions_keep(w->sessions, w->store)) < 0) return result;
        *step = "uplinks";
        result = uplinks_create(w, &w->uplinks);
        if (result < 0) return result;
        if (w->store != NULL) store_register(w->store, STORE_UPLINK, uplinks_keeper(w->uplinks));
    }
    *step = "reserve descriptor";
    w->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return w->reserve_fd < 0 ? -errno : 0;
}

void worker_fini(worker *w) {
    spsc_message message;
    for (u32 i = 0; i < w->inbox_count; i++) {
        while (spsc_pop(&w->inbox[i], &message)) {
            if (message.kind == WM_CONN_MOVE) conn_parcel_drop(w, message.ptr, CLOSE_DRAIN);
        }
    }
    for (u32 i = 0; w->post != NULL && i + 1 < w->inbox_count; i++) {
        worker_post_queue *queue = &w->post[i];
        for (u32 k = 0; k < queue->count; k++) {
            const spsc_message *m = &queue->waiting[(queue->first + k) & (LIMIT_RING_OVERFLOW - 1)];
            if (m->kind == WM_CONN_MOVE) conn_parcel_drop(w, m->ptr, CLOSE_DRAIN);
        }
    }
    if (w->stream_desk != NULL) stream_desk_destroy(w->stream_desk);
    auth_worker_free(w);
    uplinks_destroy(w->uplinks);
    mqtt_sessions_destroy(w->sessions);
    if (w->broker != NULL) broker_destroy(w->broker);
    tls_admission_free(w);
    streams_destroy(w->streams);
    store_destroy(w->store);
    if (w->wheel != NULL) timer_wheel_destroy(w->wheel);
    io_destroy(w->engine);
    post_fini(w);
    for (u32 i = 0; i < ARRAY_LEN(buf_classes); i++) slab_destroy(w->segment_slabs[i]);
    slab_destroy(w->conn_slab);
    free(w->conns);
    free(w->conn_free);
    if (w->reserve_fd >= 0) close(w->reserve_fd);
    recorder_free(&w->rec);
}

// --- draining ---

static void drain_begin(worker *w, u64 deadline_ns) {
    if (!w->draining) {
        w->draining = true;
        w->drain_deadline_ns = deadline_ns;
        listener_stop_all(w);
        uplinks_stop(w);
    }
    w->drain_deadline_ns = MIN(w->drain_deadline_ns, deadline_ns);
}

// Tells connections to finish, some each turn; after the deadline they are cut.
static void drain_step(worker *w) {
    bool cut = w->now_ns >= w->drain_deadline_ns;
    if (cut && !w->stopping) {
        w->stopping = true;
        w->drain_cursor = 0;
    }
    for (u32 n = 0; n < DRAIN_CONNS_PER_TURN && w->drain_cursor < w->conns_max; w->drain_cursor++) {
        conn *c = w->conns[w->drain_cursor];
        if (c == NULL) continue;
        n++;
        if (cut) {
            conn_close(c, CLOSE_DRAIN);
        } else {
            conn_end(c, CLOSE_DRAIN);
        }
    }
}

static bool drain_is_done(const worker *w) {
    return w->draining && w->conns_used == 0 && w->graveyard == NULL && uplinks_are_quiet(w);
}

// --- messages ---

static void message_handle(worker *w, const spsc_message *message) {
    switch ((worker_message)message->kind) {
    case WM_CONN_MOVE:
        conn_arrive(w, message->ptr);
        return;
    case WM_ROUTE:
    case WM_ROUTE_RETURN:
    case WM_SUBSCRIBE:
    case WM_UNSUBSCRIBE:
        broker_handle_message(w->broker, message);
        return;
    case WM_STREAM:
        stream_message_handle(w, message);
        return;
    case WM_REQUEST:
        ops_request_run(w, message->ptr);
        return;
    case WM_REPLY:
        ops_reply_arrived(w, message->ptr);
        return;
    case WM_RELOAD:
        reload_apply(w, message->ptr);
        return;
    case WM_ACCEPT:
        listener_accept_all(w);
        return;
    case WM_DRAIN:
        drain_begin(w, message->extra);
        return;
    case WM_STOP:
        drain_begin(w, 0);
        return;
    case WM_NONE:
    case WM_KINDS:
        break;
    }
    ASSERT(false);
}

static u32 inbox_run(worker *w) {
    u32 found = 0;
    w->more_inbox = false;
    for (u32 i = 0; i < w->inbox_count; i++) {
        spsc_message message;
        u32 taken = 0;
        while (taken < POST_MESSAGES_PER_TURN && spsc_pop(&w->inbox[i], &message)) {
            message_handle(w, &message);
            taken++;
        }
        if (taken == POST_MESSAGES_PER_TURN) w->more_inbox = true;
        found += taken;
    }
    if (found > 0) recorder_add(&w->rec, REC_WAKE, UINT32_MAX, 0, (int)found, 0);
    return found;
}

// --- the loop ---

// Publishers that met congestion try again when the rings have room.
static void unblock_publishers(worker *w) {
    if (w->blocked == NULL || worker_post_is_congested(w)) return;
    conn *c = w->blocked;
    w->blocked = NULL;
    while (c != NULL) {
        conn *next = c->blocked_next;
        c->flags &= (u16)~CONN_LISTED_BLOCKED;
        if (c->flags & CONN_DEAD) {
            conn_free_if_unlisted(c);
        } else {
            conn_unblock(c);
        }
        c = next;
    }
}

static u32 flush_dirty(worker *w) {
    conn *c = w->dirty;
    u32 flushed = 0;
    w->dirty = NULL;
    while (c != NULL) {
        conn *next = c->dirty_next;
        c->flags &= (u16)~CONN_DIRTY;
        if (c->flags & CONN_DEAD) {
            conn_free_if_unlisted(c);
        } else {
            conn_flush(c);
            flushed++;
        }
        c = next;
    }
    return flushed;
}

static u64 wait_deadline(worker *w) {
    if (w->more_inbox || w->dirty != NULL || w->outcome_wanted) return 0;
    if ((w->tls != NULL && tls_admission_has_work(w)) || !post_sleep(w)) return 0;
    if (w->draining && w->drain_cursor < w->conns_max && w->conns_used > 0) return 0;
    u64 deadline = MAX(timer_next_ns(w->wheel), w->timers_rest_ns);
    // Once it has struck everything is closing: what is left is told by the engine.
    if (w->draining && !w->stopping) deadline = MIN(deadline, w->drain_deadline_ns);
    if (w->store != NULL) deadline = MIN(deadline, store_next_ns(w->store));
    if (w->overflow_total > 0) deadline = MIN(deadline, w->now_ns + NS_PER_MS);
    return MIN(deadline, w->now_ns + WATCHDOG_TURN_NS);
}

static u64 thread_cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (u64)ts.tv_sec * NS_PER_S + (u64)ts.tv_nsec;
}

// The thread did not run: a paused or migrated machine, a suspended process, a processor taken away. Every
// timeout seems to have passed, while what the peers sent in time waits in the sockets. So timers rest for a
// moment, and what has come is read first.
static void stalled(worker *w, u64 still_ns, u64 now, const char *where) {
    counter_add(&w->metrics.stalls, 1);
    w->now_ns = now;
    w->timers_rest_ns = now + LIMIT_STALL_GRACE_MS * NS_PER_MS;
    log_warn("worker %u: stood still for %llu ms %s: the machine was paused or its processor taken away; "
             "timeouts rest for %u ms", w->index, (unsigned long long)(still_ns / NS_PER_MS), where,
             LIMIT_STALL_GRACE_MS);
}

static void loop_account(worker *w, u32 replies, u64 started_ns) {
    u64 now = clock_mono_ns();
    u64 took = now - started_ns;
    counter_add(&w->metrics.loops, 1);
    counter_add(&w->metrics.loop_busy_ns, took);
    counter_set(&w->metrics.heartbeat_ns, now);
    hist_record(&w->metrics.loop_lag, took);
    if (replies > 0) hist_record(&w->metrics.reply, took);
    if (UNLIKELY(took > LOOP_BUDGET_NS)) {
        recorder_add(&w->rec, REC_LOOP_LAG, UINT32_MAX, 0, (int)MIN(took / 1000, (u64)INT32_MAX), 0);
    }
    if (UNLIKELY(took > LIMIT_STALL_MS * NS_PER_MS)) stalled(w, took, now, "within a turn");
    if (now < w->trim_ns) return;
    w->trim_ns = now + NS_PER_S;
    counter_set(&w->metrics.cpu_ns, thread_cpu_ns());
    if (w->broker != NULL) broker_trim(w->broker);
    io_trim(w->engine);
    slab_trim(w->conn_slab);
    for (u32 i = 0; i < ARRAY_LEN(buf_classes); i++) slab_trim(w->segment_slabs[i]);
}

bool worker_loop_once(worker *w) {
    u64 deadline_ns = wait_deadline(w), latest_ns = MAX(deadline_ns, w->now_ns) + LIMIT_STALL_MS * NS_PER_MS;
    w->outcome_wanted = false;
    int result = io_run(w->engine, deadline_ns);
    post_awake(w);
    if (UNLIKELY(result < 0)) {
        log_error("worker %u: engine %s can not go on: %s", w->index,
                  io_kind_name(io_engine_kind(w->engine)), errno_name(result));
        return false;
    }
    u64 started_ns = w->now_ns;
    if (UNLIKELY(started_ns > latest_ns)) {
        stalled(w, started_ns - latest_ns + LIMIT_STALL_MS * NS_PER_MS, started_ns, "asleep");
    }
    inbox_run(w);
    if (LIKELY(started_ns >= w->timers_rest_ns)) timer_run(w->wheel, started_ns);
    if (UNLIKELY(w->draining)) drain_step(w);
    tls_admission_run(w);
    post_overflow_run(w);
    unblock_publishers(w);
    // Before the flush: what was acknowledged by the commit that has ended leaves in this turn.
    if (w->store != NULL) store_turn(w->store, w->now_ns);
    u32 replies = flush_dirty(w) + w->lent_sends;
    w->lent_sends = 0;
    post_bells(w);
    if (UNLIKELY(w->graveyard != NULL)) listener_sweep(w);
    loop_account(w, replies, started_ns);
    return !drain_is_done(w);
}

static void pin(worker *w) {
    if (w->cpu < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(w->cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0) {
        log_warn("worker %u: not pinned to CPU %d: %s", w->index, w->cpu, errno_name(errno));
        w->cpu = -1;
    }
}

static void *worker_thread(void *argument) {
    worker *w = argument;
    char name[16];
    snprintf(name, sizeof(name), w->is_ops ? "sluice-ops" : "sluice-w%u", w->index);
    prctl(PR_SET_NAME, name);
    int crash = crash_thread_setup();
    if (crash < 0) log_warn("worker %u: no stack for crash reports: %s", w->index, errno_name(crash));
    pin(w);
    int result = io_enable(w->engine);
    if (result < 0) {
        log_error("worker %u: engine not enabled: %s", w->index, errno_name(result));
    } else {
        // What the log holds is there before any listener accepts: those wait for every worker's loop.
        if (w->store != NULL) result = store_start(w->store);
        if (result < 0) log_error("worker %u: durable log not started: %s", w->index, errno_name(result));
        while (result == 0 && worker_loop_once(w)) {
        }
        streams_stop(w->streams);
        if (w->store != NULL) {
            mqtt_sessions_finish(w->sessions);
            store_stop(w->store);
        }
    }
    __atomic_store_n(&w->ended, 1, __ATOMIC_RELEASE);
    u64 one = 1;
    (void)!write(w->gw->control_fd, &one, sizeof(one));
    crash_thread_teardown();
    return NULL;
}

int worker_start(worker *w, int cpu) {
    w->cpu = cpu;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    // musl's default of 128 KiB is small for a handshake on top of the loop; untouched pages are free.
    pthread_attr_setstacksize(&attr, 512u << 10);
    int result = -pthread_create(&w->thread, &attr, worker_thread, w);
    pthread_attr_destroy(&attr);
    w->started = result == 0;
    return result;
}

void worker_join(worker *w) {
    if (w->started) pthread_join(w->thread, NULL);
    w->started = false;
}
