// SPDX-License-Identifier: Apache-2.0
// mqtt_storm.c: a connection storm: connect, CONNECT, CONNACK, DISCONNECT, close, with a bounded
// number of handshakes in progress; or, with --hold, everybody at once and nobody leaves until all
// are served. Without a rate each handshake starts when one before it has ended, and its latency
// counts from its own start; with a rate it counts from the time it was due.
#include <stdlib.h>

#include "bench/mqtt_world.h"
#include "bench/run.h"

#define SETTLE_NS NS_PER_S
#define EXPIRE_STEP_NS (10 * NS_PER_MS)

typedef struct storm {
    mq_world *world;
    schedule due;
    u64 *due_ns;    // of each slot
    u32 *free_slots;
    u32 free_count;
    u64 started, served, ended, last_served_ns, first_start_ns, expire_ns;
    bool stopped;
} storm;

static storm *the_storm; // one run at a time, one thread

static void slot_free(mq_client *c) {
    the_storm->free_slots[the_storm->free_count++] = (u32)(c - the_storm->world->clients);
    the_storm->ended++;
}

static void storm_ready(mq_client *c, u64 now_ns) {
    storm *s = the_storm;
    u64 due_ns = s->due_ns[c - s->world->clients];
    hist_record(&s->world->result->handshakes, now_ns - MIN(now_ns, due_ns));
    s->served++;
    s->last_served_ns = now_ns;
    if (s->world->options.hold) {
        c->started_ns = 0; // served: see storm_ended
        s->ended++;
        return;
    }
    mq_client_leave(c);
    slot_free(c);
}

static void storm_ended(mq_client *c, u64 now_ns) {
    (void)now_ns;
    // A held one that was served and then lost: counted by the error.
    if (c->started_ns == 0) return;
    slot_free(c);
}

static const mq_role storm_role = {.ready = storm_ready, .ended = storm_ended};

static u64 total_of(const mq_world *w) {
    return w->options.conns == 0 ? UINT64_MAX : w->options.conns;
}

static bool storm_start_one(mq_world *w, u64 due_ns) {
    storm *s = the_storm;
    u32 slot = s->free_slots[--s->free_count];
    mq_client *c = &w->clients[slot];
    s->due_ns[slot] = due_ns;
    s->started++;
    if (mq_client_open(c, (u32)s->started, &storm_role, &w->net, !w->options.hold) != 0) {
        slot_free(c);
        return false;
    }
    return true;
}

static void storm_expire(mq_world *w, u64 now_ns) {
    storm *s = the_storm;
    if (s->expire_ns > now_ns) return;
    s->expire_ns = now_ns + EXPIRE_STEP_NS;
    for (u32 i = 0; i < w->client_count; i++) {
        mq_client *c = &w->clients[i];
        if (c->state != MQ_OPENING || now_ns - MIN(now_ns, c->started_ns) < w->options.timeout_ns) {
            continue;
        }
        hist_record(&w->result->handshakes, now_ns - c->started_ns);
        mq_client_fail(c, BENCH_ERROR_UNANSWERED, now_ns);
    }
}

static bool storm_fire(mq_world *w, u64 now_ns) {
    storm *s = the_storm;
    u32 n = 0;
    if (s->first_start_ns == 0) s->first_start_ns = now_ns;
    storm_expire(w, now_ns);
    if (s->stopped) return false;
    while (n < BENCH_CONNECTS_PER_TURN && s->free_count > 0 && s->started < total_of(w) &&
           s->started - s->ended < w->options.at_once) {
        if (w->options.rate > 0) {
            if (s->due.due_ns > now_ns) break;
            (void)storm_start_one(w, s->due.due_ns);
            schedule_next(&s->due);
        } else {
            (void)storm_start_one(w, clock_mono_ns());
        }
        n++;
    }
    return n > 0;
}

static u64 storm_next_due(const mq_world *w) {
    const storm *s = the_storm;
    bool can_start = !s->stopped && s->free_count > 0 && s->started < total_of(w) &&
                     s->started - s->ended < w->options.at_once;
    if (!can_start) return s->expire_ns;
    return MIN(s->expire_ns, w->options.rate > 0 ? s->due.due_ns : 0);
}

static bool storm_done(const mq_world *w) {
    return the_storm->ended >= total_of(w) ||
           (the_storm->stopped && the_storm->ended == the_storm->started);
}

static void storm_counts(const mq_world *w, u64 *published, u64 *delivered) {
    (void)w;
    *published = the_storm->started;
    *delivered = the_storm->served;
}

static void held_leave(mq_world *w) {
    mq_result *r = w->result;
    w->fire = NULL;
    w->done = NULL;
    mq_loop_until(w, clock_mono_ns() + SETTLE_NS / 2);
    mq_world_memory(w, &r->rss_peak, &r->private_peak);
    for (u32 i = 0; i < w->client_count; i++) {
        if (w->clients[i].state == MQ_READY) r->alive++;
        mq_client_leave(&w->clients[i]);
    }
}

static int storm_run(mq_world *w, storm *s) {
    const mq_options *o = &w->options;
    mq_result *r = w->result;
    s->due_ns = calloc(w->client_count, sizeof(*s->due_ns));
    s->free_slots = malloc(w->client_count * sizeof(*s->free_slots));
    if (s->due_ns == NULL || s->free_slots == NULL) {
        return mq_world_refuse(w, "no memory for %u clients", w->client_count);
    }
    for (u32 i = 0; i < w->client_count; i++) s->free_slots[i] = w->client_count - 1 - i;
    s->free_count = w->client_count;
    w->fire = storm_fire;
    w->next_due = storm_next_due;
    w->done = storm_done;
    w->window_begin_ns = clock_mono_ns();
    u64 length_ns = o->conns == 0 ? o->duration_ns : BENCH_DURATION_NS_MAX;
    w->window_end_ns = w->window_begin_ns + length_ns;
    schedule_start(&s->due, (arrival)o->arrival, o->rate, 0, o->seed, w->window_begin_ns);
    mq_world_window(w, storm_counts);
    r->storm_served = s->served;
    s->stopped = true;
    mq_loop_until(w, clock_mono_ns() + o->drain_ns);
    r->storm_started = s->started;
    r->storm_ns = s->last_served_ns > s->first_start_ns ? s->last_served_ns - s->first_start_ns : 0;
    r->observed_delivered = r->observed_published = 0;
    if (o->hold) held_leave(w);
    w->fire = NULL;
    w->done = NULL;
    mq_loop_until(w, clock_mono_ns() + SETTLE_NS);
    mq_world_memory(w, &r->rss_after, &r->private_after);
    r->tcp_after = observe_tcp_memory();
    return 0;
}

int mq_scenario_storm(mq_world *w) {
    storm s = {.world = w};
    the_storm = &s;
    int rc = storm_run(w, &s);
    the_storm = NULL;
    free(s.due_ns);
    free(s.free_slots);
    return rc;
}
