// SPDX-License-Identifier: Apache-2.0
// rig.c: see rig.h. Setting up, turning, and the search for leaks; the devices are in device.c.
#include "rig.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "device.h"
#include "rig_disk.h"
#include "sim_wrap.h"

#define IDLE_TURNS_MAX 64u // turns in a row that do nothing, at one moment of virtual time

void rig_fail(rig *r, const char *format, ...) {
    if (rig_is_failed(r)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->failure, sizeof(r->failure), format, args);
    va_end(args);
    if (r->setup.sim.trace != NULL) fprintf(r->setup.sim.trace, "FAILURE: %s\n", r->failure);
}

// --- log lines tell who was closed, and why ---

static device *device_by_text(rig *r, const char *text) {
    for (u32 i = 0; i < r->device_count; i++) {
        if (strcmp(r->devices[i]->text, text) == 0) return r->devices[i];
    }
    return NULL;
}

static close_reason reason_by_name(const char *name) {
    for (u32 i = CLOSE_NONE + 1; i < CLOSE_REASONS; i++) {
        if (strcmp(close_reason_name(i), name) == 0) return (close_reason)i;
    }
    return CLOSE_NONE;
}

static void on_log(void *context, log_level level, const char *line) {
    rig *r = context;
    if (r->setup.sim.trace != NULL) {
        fprintf(r->setup.sim.trace, "%12.6f  log %s: %s\n", (double)sim_now_ns(r->world) / 1e9,
                log_level_name(level), line);
    }
    if (strstr(line, "dropped on its way") != NULL) r->parcels_dropped++;
    char peer[CONN_PEER_TEXT], reason[64], name[LIMIT_NAME_BYTES];
    unsigned long long id;
    int fields = sscanf(line, "conn %llx: %55s on listener %63s closed: %63[a-z_]", &id, peer, name,
                        reason);
    if (fields != 4) return;
    r->closes_logged++;
    device *d = device_by_text(r, peer);
    if (d == NULL && r->on_closed != NULL) {
        r->on_closed(r->on_closed_context, peer, reason_by_name(reason));
        return;
    }
    if (d == NULL) {
        rig_fail(r, "a connection of nobody was closed: %s", line);
        return;
    }
    RIG_CHECK(r, d->reason == CLOSE_NONE, "device %u: closed twice: %s, then %s", d->number,
              close_reason_name(d->reason), reason);
    d->reason = reason_by_name(reason);
    RIG_CHECK(r, d->reason != CLOSE_NONE, "device %u: unknown reason %s", d->number, reason);
    d->closed_ns = sim_now_ns(r->world);
}

// --- set-up ---

static void listeners_open(rig *r) {
    for (u32 i = 0; i < r->setup.listener_count; i++) {
        const listener_config *conf = &r->setup.listeners[i];
        if (r->shared[i] == NULL) r->shared[i] = listener_shared_create(r->setup.workers); // a later boot has it
        ASSERT(r->shared[i] != NULL);
        memcpy(r->shared[i]->name, conf->name, sizeof(conf->name));
        for (u32 w = 0; w < r->setup.workers; w++) {
            int fd = sim_listen(r->world, NULL, 0, 512);
            ASSERT(fd >= 0);
            int result;
            do { // the simulation may say ENOMEM
                result = listener_add(&r->workers[w], conf, r->shared[i], fd);
            } while (result < 0);
            r->fds[i][w] = fd;
        }
    }
    for (u32 w = 0; w < r->setup.workers; w++) listener_accept_all(&r->workers[w]);
}

rig *rig_open(const rig_setup *setup) {
    rig *r = calloc(1, sizeof(*r));
    ASSERT(r != NULL && setup->workers <= RIG_WORKERS_MAX);
    r->setup = *setup;
    r->tight = setup->tight;
    r->rng.state = setup->sim.seed ^ 0x5eedull;
    r->world = sim_create(&setup->sim);
    sim_log_set(on_log, r);
    r->conf.workers = setup->workers;
    r->gw.conf = &r->conf;
    r->gw.worker_count = setup->workers;
    r->gw.engine = IO_SIM;
    r->gw.started_mono_ns = sim_now_ns(r->world);
    r->gw.control_fd = -1;
    r->workers = aligned_alloc(CACHE_LINE, sizeof(worker) * (RIG_WORKERS_MAX + 1));
    ASSERT(r->workers != NULL);
    r->gw.workers = r->workers;
    rig_boot(r);
    return r;
}

static void worker_make(rig *r, u32 i) {
    const char *step = "";
    int result = worker_init(&r->workers[i], &r->gw, i, &r->setup.budget, IO_SIM, &step);
    if (result < 0) fprintf(stderr, "worker_init: %s: %s\n", step, errno_name(result));
    ASSERT(result == 0);
    result = io_enable(r->workers[i].engine);
    ASSERT(result == 0);
    r->broker_bytes[i] = broker_usage_get(r->workers[i].broker).memory_bytes;
}

void rig_workers_make(rig *r) {
    memset(r->workers, 0, sizeof(worker) * (RIG_WORKERS_MAX + 1));
    memset(r->ended, 0, sizeof(r->ended));
    r->parcels_dropped = r->closes_logged = 0;
    r->idle_turns = 0;
    r->gw.started_mono_ns = sim_now_ns(r->world);
    for (u32 i = 0; i < r->setup.workers; i++) worker_make(r, i);
}

void rig_boot(rig *r) {
    memset(r->workers, 0, sizeof(worker) * (RIG_WORKERS_MAX + 1));
    if (r->setup.disk != NULL && (!rig_data_open(r) || !rig_settle(r))) return;
    rig_workers_make(r);
    if (r->setup.disk != NULL && !rig_logs_start(r)) return;
    listeners_open(r);
}

// --- turning ---

static void turn_workers(rig *r) {
    u32 order[RIG_WORKERS_MAX];
    for (u32 i = 0; i < r->setup.workers; i++) order[i] = i;
    for (u32 i = r->setup.workers; i > 1; i--) {
        u32 k = (u32)sim_random_below(&r->rng, i);
        u32 other = order[i - 1];
        order[i - 1] = order[k];
        order[k] = other;
    }
    for (u32 i = 0; i < r->setup.workers; i++) {
        if (r->ended[order[i]]) continue;
        if (r->setup.stalls && sim_random_chance(&r->rng, 100)) continue; // not scheduled this time
        r->ended[order[i]] = !worker_loop_once(&r->workers[order[i]]);
        // A thread that has ended waits for nothing: takes back the deadline that the engine remembers.
        if (r->ended[order[i]]) io_run(r->workers[order[i]].engine, UINT64_MAX);
    }
}

static bool messages_wait(const rig *r) {
    for (u32 i = 0; i < r->setup.workers; i++) {
        worker *w = &r->workers[i];
        for (u32 k = 0; k < w->inbox_count && !r->ended[i]; k++) {
            if (spsc_count(&w->inbox[k]) > 0) return true;
        }
    }
    return false;
}

void rig_turn(rig *r, u64 ns_max) {
    u64 events = sim_counts_get(r->world).events;
    turn_workers(r);
    r->turns++;
    bool worked = sim_counts_get(r->world).events != events;
    if (r->setup.disk != NULL && rig_disk_turn(r)) worked = true;
    bool work = sim_has_work(r->world) || messages_wait(r);
    bool all_ended = true;
    for (u32 i = 0; i < r->setup.workers; i++) all_ended = all_ended && r->ended[i];
    if (all_ended) {
        sim_advance(r->world, ns_max);
        return;
    }
    bool stall = r->setup.stalls && sim_random_chance(&r->rng, 20);
    if (stall) {
        sim_advance(r->world, sim_random_below(&r->rng, MIN(ns_max, 50 * NS_PER_MS) + 1));
        worked = true;
    } else if (!work && !worked) {
        worked = sim_step(r->world, ns_max) > 0;
    }
    r->idle_turns = worked || work || rig_disk_is_slow(r) ? 0 : r->idle_turns + 1;
    RIG_CHECK(r, r->idle_turns <= IDLE_TURNS_MAX, "busy loop: %" PRIu64 " turns for nothing",
              r->idle_turns);
}

void rig_run(rig *r, u64 ns) {
    u64 end = sim_now_ns(r->world) + ns;
    while (!rig_is_failed(r) && sim_now_ns(r->world) < end) {
        u64 now = sim_now_ns(r->world);
        u64 next = end;
        bool all_done = true;
        for (u32 i = 0; i < r->device_count; i++) {
            device *d = r->devices[i];
            if (d->done) continue;
            all_done = false;
            if (d->next_ns <= now) device_act(d);
            next = MIN(next, d->next_ns);
        }
        if (all_done) return;
        rig_turn(r, next > now ? next - now : 0);
    }
}

void rig_run_until_empty(rig *r, u64 ns) {
    u64 end = sim_now_ns(r->world) + ns;
    while (!rig_is_failed(r) && rig_conns(r) > 0 && sim_now_ns(r->world) < end) {
        rig_turn(r, end - sim_now_ns(r->world));
    }
    RIG_CHECK(r, rig_conns(r) == 0, "%u connections left %" PRIu64 " s after all devices had gone",
              rig_conns(r), (u64)(ns / NS_PER_S));
    for (u32 i = 0; i < 50 && !rig_is_failed(r); i++) rig_turn(r, NS_PER_MS); // messages under way
}

void rig_drain(rig *r, u64 deadline_ns) {
    spsc_message message = {.kind = WM_DRAIN, .extra = deadline_ns};
    for (u32 i = 0; i < r->setup.workers; i++) {
        if (r->ended[i]) continue;
        bool posted = worker_post_control(&r->gw, i, &message);
        ASSERT(posted);
    }
}

// --- what is left ---

u32 rig_conns(const rig *r) {
    u32 conns = 0;
    for (u32 i = 0; i < r->setup.workers; i++) conns += r->workers[i].conns_used;
    return conns;
}

u64 rig_closes(const rig *r, close_reason reason) {
    u64 sum = 0;
    for (u32 i = 0; i < r->setup.workers; i++) sum += counter_get(&r->workers[i].metrics.closes[reason]);
    return sum;
}

u64 rig_metric(const rig *r, size_t offset) {
    u64 sum = 0;
    for (u32 i = 0; i < r->setup.workers; i++) {
        const char *metrics = (const char *)&r->workers[i].metrics;
        sum += counter_get((const counter *)(const void *)(metrics + offset));
    }
    return sum;
}

static void slab_check(rig *r, u32 index, const slab *s) {
    slab_usage usage = slab_usage_get(s);
    RIG_CHECK(r, usage.used == 0, "worker %u: %" PRIu64 " objects of slab %s leaked", index, usage.used,
              usage.name);
}

// Nothing is connected: nothing may be in use.
static void leaks_check(rig *r) {
    for (u32 i = 0; i < r->setup.workers; i++) {
        const worker *w = &r->workers[i];
        slab_check(r, i, w->conn_slab);
        for (u32 k = 0; k < ARRAY_LEN(w->segment_slabs); k++) slab_check(r, i, w->segment_slabs[k]);
        RIG_CHECK(r, w->memory_used_bytes == 0, "worker %u: %" PRIu64 " bytes of buffers leaked", i,
                  w->memory_used_bytes);
        RIG_CHECK(r, w->conn_free_count == w->conns_max, "worker %u: connection slots leaked", i);
        RIG_CHECK(r, counter_get(&w->metrics.conns_open) == 0, "worker %u: conns_open is off", i);
        const io_stats *stats = io_engine_stats(w->engine);
        RIG_CHECK(r, counter_get(&stats->stale) == 0, "worker %u: stale completions", i);
        RIG_CHECK(r, counter_get(&stats->bufs_free) == counter_get(&stats->bufs_total),
                  "worker %u: receive buffers leaked", i);
        broker_usage usage = broker_usage_get(w->broker);
        RIG_CHECK(r, usage.subscriptions == 0, "worker %u: %" PRIu64 " subscriptions leaked", i,
                  usage.subscriptions);
        // In a drain a worker may end before it has read what the others still had to say.
        RIG_CHECK(r, r->drained || (usage.remote_filters == 0 && usage.in_transit == 0),
                  "worker %u: broker: %" PRIu64 " remote filters, %" PRIu64 " messages in transit leaked",
                  i, usage.remote_filters, usage.in_transit);
    }
    for (u32 i = 0; i < r->setup.listener_count; i++) {
        RIG_CHECK(r, r->shared[i]->conns == 0, "listener %s: %u connections counted, none open",
                  r->shared[i]->name, r->shared[i]->conns);
    }
}

// Every connection that was opened ended with one reason; refused ones are counted with theirs.
static void reasons_check(rig *r) {
    u64 closes = 0;
    for (u32 reason = 0; reason < CLOSE_REASONS; reason++) closes += rig_closes(r, (close_reason)reason);
    u64 opened = RIG_METRIC(r, conns_opened), refused = RIG_METRIC(r, refused);
    RIG_CHECK(r, closes == opened + refused,
              "%" PRIu64 " reasons for %" PRIu64 " connections and %" PRIu64 " refused ones", closes,
              opened, refused);
    RIG_CHECK(r, rig_closes(r, CLOSE_NONE) == 0, "a connection closed without a reason");
    RIG_CHECK(r, r->closes_logged + r->parcels_dropped == opened,
              "%u closes logged, %u lost on the way, %" PRIu64 " opened", r->closes_logged,
              r->parcels_dropped, opened);
}

// Only when nothing went wrong before: what follows a failure is noise.
static void end_check(rig *r) {
    if (rig_is_failed(r)) return;
    leaks_check(r);
    reasons_check(r);
}

bool rig_stop(rig *r) {
    rig_drain(r, 0);
    bool was_failed = rig_is_failed(r);
    for (u32 i = 0; i < 20000; i++) {
        bool running = false;
        for (u32 w = 0; w < r->setup.workers; w++) running = running || !r->ended[w];
        if (!running || (rig_is_failed(r) && !was_failed)) break;
        r->idle_turns = was_failed ? 0 : r->idle_turns;
        rig_turn(r, NS_PER_MS);
    }
    bool all_ended = true;
    for (u32 w = 0; w < r->setup.workers; w++) all_ended = all_ended && r->ended[w];
    RIG_CHECK(r, all_ended, "a worker did not stop");
    return all_ended;
}

void rig_close(rig *r, char *out, size_t out_bytes) {
    for (u32 i = 0; i < r->device_count; i++) device_leave(r->devices[i]);
    bool all_ended = rig_stop(r);
    end_check(r);
    snprintf(out, out_bytes, "%s", r->failure);
    if (!all_ended || rig_is_failed(r)) return; // kept for the debugger; the process ends soon
    rig_workers_free(r, true);
    RIG_CHECK(r, sim_fds_open(r->world) == 0, "%u descriptors leaked", sim_fds_open(r->world));
    snprintf(out, out_bytes, "%s", r->failure);
    sim_destroy(r->world);
    sim_log_set(NULL, NULL);
    for (u32 i = 0; i < r->device_count; i++) device_free(r->devices[i]);
    for (u32 i = 0; i < r->setup.listener_count; i++) listener_shared_free(r->shared[i]);
    free(r->workers);
    free(r);
}
