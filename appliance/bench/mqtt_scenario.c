// SPDX-License-Identifier: Apache-2.0
// mqtt_scenario.c: the course of the load scenarios (fan-in, fan-out, pairs, shared, ingest) and of idle:
// subscribers first, then publishers, warm-up, window, drain, count of what is missing.
#include <stdio.h>

#include "bench/mqtt_flow.h"
#include "bench/mqtt_stalled.h"
#include "bench/run.h"

#define START_DELAY_NS (20 * NS_PER_MS)
#define CATCH_UP_NS (250 * NS_PER_MS)
#define IDLE_SETTLE_NS (500 * NS_PER_MS)

static void flow_counts(const mq_world *w, u64 *published, u64 *delivered) {
    *published = w->flow->published;
    *delivered = w->options.kind == MQ_INGEST ? w->flow->acked : w->flow->delivered;
}

static bool all_delivered(const mq_world *w) {
    if (w->options.kind == MQ_INGEST) return w->flow->acked >= w->flow->published && w->flow->backlogged == 0;
    return w->flow->delivered >= w->flow->expected && w->flow->backlogged == 0;
}

// What was due in the window and the loop did not get to goes out now, late; its lag tells.
static void catch_up(mq_world *w) {
    u64 until_ns = clock_mono_ns() + CATCH_UP_NS;
    w->measuring = true;
    while (w->flow->due.due_ns < w->window_end_ns && clock_mono_ns() < until_ns && !bench_stop) {
        mq_loop_until(w, clock_mono_ns() + NS_PER_MS);
    }
    w->measuring = false;
    schedule *s = &w->flow->due;
    for (; s->due_ns < w->window_end_ns; schedule_next(s)) {
        w->result->window_unsent += w->options.burst;
    }
}

static void drain(mq_world *w) {
    catch_up(w);
    w->flow->stopped = true;
    w->done = all_delivered;
    int stopped = bench_stop;
    bench_stop = 0; // a second Ctrl-C ends the drain
    mq_loop_until(w, clock_mono_ns() + w->options.drain_ns);
    bench_stop |= stopped;
    w->done = NULL;
}

// What never came: an error each, and in the latencies with the time since the window's end, so
// that a broker that drops does not look fast.
static void missing_count(mq_world *w, u64 now_ns) {
    mq_result *r = w->result;
    mq_flow *f = w->flow;
    r->published = f->published;
    r->expected = f->expected;
    r->delivered = f->delivered;
    if (w->options.kind == MQ_INGEST) {
        r->expected = f->published;
        r->delivered = f->acked;
        bench_error_add(&w->net.errors, BENCH_ERROR_UNANSWERED, f->published - MIN(f->acked, f->published));
    } else if (f->expected > f->delivered) {
        bench_error_add(&w->net.errors, BENCH_ERROR_LOST, f->expected - f->delivered);
    }
    if (f->backlogged > 0) {
        bench_error_add(&w->net.errors, BENCH_ERROR_UNANSWERED, f->backlogged);
    }
    u64 missing = r->window_expected - MIN(r->window_expected, r->window_delivered);
    for (u64 i = 0; i < missing; i++) hist_record(&r->latency, now_ns - w->window_end_ns);
}

static void flow_run(mq_world *w) {
    const mq_options *o = &w->options;
    u64 start_ns = clock_mono_ns() + START_DELAY_NS;
    w->window_begin_ns = start_ns + o->warmup_ns;
    w->window_end_ns = w->window_begin_ns + o->duration_ns;
    if (w->flow->closed) w->flow->due.due_ns = start_ns;
    else schedule_start(&w->flow->due, (arrival)o->arrival, o->rate / o->burst, 0, o->seed, start_ns);
    w->flow->stopped = false;
    mq_world_window(w, flow_counts);
    drain(w);
    missing_count(w, clock_mono_ns());
}

int mq_scenario_flow(mq_world *w) {
    const mq_options *o = &w->options;
    mq_stalled stalled = {0};
    if (mq_flow_open(w) != 0) return mq_world_refuse(w, "no memory for the publishers");
    int rc = o->subs > 0 ? mq_world_open(w, 0, o->subs, &mq_subscriber_role) : 0;
    if (rc == 0) rc = mq_stalled_open(&stalled, w, o->stalled);
    if (rc == 0) rc = mq_world_open(w, o->subs, o->pubs, &mq_publisher_role);
    if (rc == 0) {
        flow_run(w);
        w->result->stalled_closed = mq_stalled_closed(&stalled);
    }
    mq_stalled_close(&stalled);
    return rc;
}

// --- idle ---

static void idle_next_filter(mq_client *c, u64 now_ns) {
    mq_world *w = mq_world_of(c);
    u32 done = c->receive_max; // counts here: nothing is published in this scenario
    if (done >= w->options.filters) {
        mq_world_ready(c, now_ns);
        return;
    }
    char filter[MQ_TOPIC_BYTES_MAX];
    snprintf(filter, sizeof(filter), "%s/%u/%u", w->result->prefix, c->index, done);
    c->receive_max = (u16)(done + 1);
    mq_client_subscribe(c, filter, (u8)MIN(w->options.sub_qos, 2u));
}

static void idle_ready(mq_client *c, u64 now_ns) {
    c->receive_max = 0;
    idle_next_filter(c, now_ns);
}

static void idle_counts(const mq_world *w, u64 *published, u64 *delivered) {
    (void)w;
    *published = *delivered = 0;
}

int mq_scenario_idle(mq_world *w) {
    static const mq_role role = {.ready = idle_ready, .subscribed = idle_next_filter};
    mq_result *r = w->result;
    int rc = mq_world_open(w, 0, w->client_count, &role);
    if (rc != 0) return rc;
    w->window_begin_ns = clock_mono_ns() + IDLE_SETTLE_NS;
    w->window_end_ns = w->window_begin_ns + w->options.duration_ns;
    mq_world_window(w, idle_counts);
    mq_world_memory(w, &r->rss_after, &r->private_after);
    r->tcp_after = observe_tcp_memory();
    return 0;
}
