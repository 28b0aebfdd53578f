// SPDX-License-Identifier: Apache-2.0
// mqtt_world.h: what the parts of one MQTT run share: connections, window, loop, result. Private to
// bench/mqtt_*.c.
#ifndef SLUICE_BENCH_MQTT_WORLD_H
#define SLUICE_BENCH_MQTT_WORLD_H

#include "bench/mqtt_net.h"
#include "bench/mqtt_run.h"
#include "bench/schedule.h"

typedef struct mq_flow mq_flow;

typedef struct mq_world {
    mq_net net; // first: a client's net is its world
    mq_options options;
    dial dial;
    mq_result *result;
    mq_client *clients;
    u32 client_count;
    u32 opened, ready, ended; // of the set-up
    mq_flow *flow;            // fan-in, fan-out, pairs, shared, ingest
    u64 window_begin_ns, window_end_ns;
    u64 lag_due_ns[MQ_STARTS_PER_TURN + MQ_BURST_MAX];
    u32 lag_count;
    bool spin, measuring;
    u64 busy_ns;
    // Called each turn: hands over what is due; returns whether there was any.
    bool (*fire)(struct mq_world *w, u64 now_ns);
    u64 (*next_due)(const struct mq_world *w); // UINT64_MAX: nothing
    bool (*done)(const struct mq_world *w);    // may be NULL: until the time is over
    u64 ping_next_ns, ping_gap_ns;
    u32 ping_at;
    observe_sample *before, *after;
} mq_world;

static inline mq_world *mq_world_of(mq_client *c) {
    return CONTAINER_OF(c->net, mq_world, net);
}

static inline bool mq_in_window(const mq_world *w, u64 due_ns) {
    return due_ns >= w->window_begin_ns && due_ns < w->window_end_ns;
}

// Turns the loop until the time, a stop by signal, or done.
void mq_loop_until(mq_world *w, u64 until_ns);
// Opens the clients from `first` on, `count` of them, and waits until each has reported itself by
// mq_world_ready. 0, -EINTR, or -EIO with the failure written.
int mq_world_open(mq_world *w, u32 first, u32 count, const mq_role *role);
void mq_world_ready(mq_client *c, u64 now_ns);
PRINTF_LIKE(2, 3) int mq_world_refuse(mq_world *w, const char *format, ...);
// Samples of the broker around a window.
void mq_world_sample(mq_world *w, observe_sample *into);
void mq_world_memory(mq_world *w, u64 *rss, u64 *private_bytes);
// Sample, run until the end, sample: fills the result's server part. counts is called at both ends
// to note what was published and delivered so far.
void mq_world_window(mq_world *w,
                     void (*counts)(const mq_world *w, u64 *published, u64 *delivered));

// The scenarios: each runs from set-up to the end of its drain. 0, -EINTR, or a failure.
int mq_scenario_flow(mq_world *w);
int mq_scenario_storm(mq_world *w);
int mq_scenario_retained(mq_world *w);
int mq_scenario_idle(mq_world *w);

#endif
