// SPDX-License-Identifier: Apache-2.0
// rig_disk.c: a gateway in a box whose workers have their durable logs on a simulated disk; see rig.h.
//
// What a log asks of the disk is done when chance says so, or when there is nothing else to do, one operation at a
// time: between any two of them the power may go. From that operation on nothing changes on the disk any more, so
// the processes that are left can be ended in order, which finds what they would leak.
#include "rig_disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/sessions.h"
#include "store/streams.h"

#define DATA_PATH "/data"
#define SEGMENT_BYTES (1u << 20)
#define RESTORE_TURNS_MAX 100000u

static bool is_cut(const rig *r) {
    return disk_sim_is_cut(r->setup.disk);
}

bool rig_data_open(rig *r) {
    disk *d = disk_sim_disk(r->setup.disk);
    char why[400] = "";
    int result = d->ops->make_dir(d, DATA_PATH);
    ASSERT(result == 0 || result == -EEXIST || is_cut(r));
    result = data_dir_open(&r->data, DATA_PATH, d, r->setup.workers, why, sizeof(why));
    if (is_cut(r)) return false;
    RIG_CHECK(r, result == 0, "the data directory does not open: %s", why);
    // Before it was made once, it is made from what directories there are.
    RIG_CHECK(r, r->data.old_workers == 0 || !r->has_layout, "the layout of the logs is lost");
    if (result != 0) return false;
    r->gw.data = &r->data;
    r->gw.log_bytes = r->setup.log_bytes;
    r->gw.log_segment_bytes = SEGMENT_BYTES;
    if (r->setup.stream == NULL || r->conf.stream_count > 0) return true;
    stream_config *stream = &r->conf.streams[r->conf.stream_count++];
    snprintf(stream->name, sizeof(stream->name), "all");
    snprintf(stream->topics, sizeof(stream->topics), "%s\n", r->setup.stream);
    return true;
}

static void workers_count(rig *r, u32 workers) {
    r->setup.workers = r->conf.workers = r->gw.worker_count = workers;
}

static bool logs_start(rig *r) {
    for (u32 i = 0; i < r->setup.workers; i++) {
        int result = store_start(r->workers[i].store);
        RIG_CHECK(r, result == 0, "the log of worker %u does not start: %s", i, errno_name(result));
    }
    return !is_cut(r) && !rig_is_failed(r);
}

static bool turn_until(rig *r, bool (*is_over)(const gateway *gw)) {
    for (u32 turns = 0; !is_over(&r->gw) && !is_cut(r) && !rig_is_failed(r); turns++) {
        RIG_CHECK(r, turns < RESTORE_TURNS_MAX, "what is in the logs is not restored or settled");
        rig_turn(r, NS_PER_MS);
    }
    return !is_cut(r) && !rig_is_failed(r);
}

bool rig_settle(rig *r) {
    const data_dir now = r->data;
    if (!data_dir_before(&now, &r->data)) return true;
    r->workers_wanted = r->setup.workers;
    workers_count(r, now.old_workers);
    rig_workers_make(r);
    bool settled = logs_start(r) && turn_until(r, mqtt_sessions_all_settled) && rig_stop(r);
    if (!settled) return false; // rig_halt ends them
    rig_workers_free(r, true);
    memset(r->workers, 0, sizeof(worker) * (RIG_WORKERS_MAX + 1)); // none is made: the power may go now
    workers_count(r, r->workers_wanted);
    r->workers_wanted = 0;
    r->data = now;
    return !is_cut(r);
}

// As gateway.c does: these are logs of an earlier layout.
static bool logs_convert(rig *r) {
    char why[700] = "";
    if (r->data.old_workers == 0) return true;
    int result = data_dir_convert(&r->data, store_keepers(r->workers[0].store), r->gw.log_bytes,
                                  r->gw.log_segment_bytes, why, sizeof(why));
    if (is_cut(r)) return false;
    RIG_CHECK(r, result == 0, "the logs can not be converted: %s", why);
    return result == 0;
}

bool rig_logs_start(rig *r) {
    memset(r->slow_to_ns, 0, sizeof(r->slow_to_ns));
    if (!logs_convert(r)) return false;
    r->has_layout = true;
    bool started = logs_start(r);
    for (u32 i = 0; i < r->setup.workers; i++) streams_configure(r->workers[i].streams, &r->conf);
    return started && turn_until(r, mqtt_sessions_all_restored);
}

static bool is_slow(const rig *r, u32 i) {
    return sim_now_ns(r->world) >= r->slow_from_ns[i] && sim_now_ns(r->world) < r->slow_to_ns[i];
}

bool rig_disk_is_slow(const rig *r) {
    bool slow = false;
    for (u32 i = 0; i < r->setup.workers; i++) slow = slow || is_slow(r, i);
    return slow;
}

bool rig_disk_turn(rig *r) {
    bool busy = sim_has_work(r->world), any = false;
    if (r->disk_held) return false;
    for (u32 i = 0; i < r->setup.workers; i++) {
        worker *w = &r->workers[i];
        if (w->store == NULL || r->ended[i]) continue;
        if (is_slow(r, i)) continue;
        // Slow when there is much to do: then commits gather more.
        while (!(busy && sim_random_chance(&r->rng, 600)) && store_step(w->store)) {
            any = true;
            io_wake(w->engine);
            if (is_cut(r)) return true;
        }
    }
    return any;
}

u64 rig_log_refusals(const rig *r) {
    return r->refused_before + RIG_METRIC(r, mqtt_drops[MQTT_DROP_LOG_FULL]) +
           RIG_METRIC(r, mqtt_drops[MQTT_DROP_LOG_FAILED]);
}

void rig_workers_free(rig *r, bool in_order) {
    for (u32 i = 0; i < r->setup.workers; i++) {
        worker *w = &r->workers[i];
        if (w->store != NULL) {
            streams_stop(w->streams);
            if (in_order) mqtt_sessions_finish(w->sessions);
            store_stop(w->store);
        }
    }
    r->refused_before = rig_log_refusals(r);
    for (u32 i = 0; i < r->setup.workers; i++) {
        if (r->workers[i].engine != NULL) worker_fini(&r->workers[i]);
    }
}

void rig_halt(rig *r, bool in_order) {
    ASSERT(r->setup.disk != NULL);
    bool made = r->workers[0].engine != NULL;
    if (made && !rig_stop(r)) return;
    if (made) rig_workers_free(r, in_order);
    if (r->workers_wanted != 0) workers_count(r, r->workers_wanted);
    r->workers_wanted = 0;
    disk_sim_restart(r->setup.disk);
}

void rig_workers_set(rig *r, u32 workers) {
    ASSERT(workers <= RIG_WORKERS_MAX);
    for (u32 i = 0; i < r->setup.listener_count; i++) {
        listener_shared_free(r->shared[i]);
        r->shared[i] = NULL;
    }
    if (workers != r->setup.workers) r->has_layout = false; // it is made anew
    workers_count(r, workers);
}
