// SPDX-License-Identifier: Apache-2.0
// mqtt_scenario.c: MQTT clients on workers that share nothing but their rings, from a seed: first everything
// at once, then calm until all that is owed has come, then the end of every session. What must hold is in
// mqtt_check.c; here is what is chosen, and when it is over.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mqtt_client.h"
#include "mqtt_kept.h"
#include "scenario.h"

#define BUSY_NS (120 * NS_PER_S)  // virtual time of each part, at most
#define CALM_NS (300 * NS_PER_S)
#define QUIET_NS (3 * NS_PER_S)   // nothing came for so long: nothing is on its way
#define END_NS (120 * NS_PER_S)

#define REASON(r) (1ull << (r))

// Reasons that clients which behave may be told; those of faults are added where there are any.
#define CLOSES_ALLOWED \
    (REASON(CLOSE_PEER) | REASON(CLOSE_PEER_RESET) | REASON(CLOSE_PEER_IN_FRAME) | REASON(CLOSE_TAKEN_OVER) | \
     REASON(CLOSE_IDLE) | REASON(CLOSE_FRAME_TIMEOUT) | REASON(CLOSE_HELLO_TIMEOUT) | REASON(CLOSE_SLOW_CONSUMER))

static void on_closed(void *context, const char *peer, close_reason reason) {
    mq_field *f = context;
    RIG_CHECK(f->rig, (f->closes_allowed & REASON(reason)) != 0, "%s: closed with reason %s", peer,
              close_reason_name(reason));
}

// --- choices ---

typedef struct mq_scale {
    u32 pipe_min, pipe_max, payload_max, messages_max;
} mq_scale;

static mq_scale scale_choose(sim_random *rng) {
    static const mq_scale scales[] = {
        {64, 200, 60, 12}, {300, 2000, 800, 25}, {4096, 16384, 8000, 40}, {65536, 65536, 2000, 60},
    };
    return scales[sim_random_below(rng, ARRAY_LEN(scales))];
}

static void listener_choose(rig_setup *setup, sim_random *rng, const mq_scale *size, bool lossy) {
    static const u32 highs[] = {64, 512, 4096, 65536};
    listener_config *l = &setup->listeners[setup->listener_count++];
    snprintf(l->name, sizeof(l->name), "mqtt");
    l->protocol = PROTOCOL_MQTT;
    l->idle_timeout_ms = 60000;
    l->packet_timeout_ms = 30000;
    l->hello_timeout_ms = 10000;
    l->send_timeout_ms = 15000;
    l->max_packet = size->payload_max + 400;
    l->out_bytes_high = highs[sim_random_below(rng, ARRAY_LEN(highs))];
    l->out_bytes_max = l->out_bytes_high + l->max_packet + 64;
    l->anonymous = true;
    l->receive_max = (u32)sim_random_range(rng, 2, 20);
    l->inflight_max = (u32)sim_random_range(rng, 1, 30);
    l->topic_alias_max = (u32)sim_random_below(rng, MQ_ALIASES + 1);
    l->max_qos = 2;
    l->retain_available = l->wildcard_available = l->shared_available = l->subscription_ids_available = true;
    l->max_subscriptions = 100;
    l->max_queued_bytes = lossy ? 4000 : 16u << 20;
    l->max_queued_messages = lossy ? (u32)sim_random_range(rng, 1, 30) : 100000;
    static const queue_policy policies[] = {QUEUE_NEWEST, QUEUE_OLDEST, QUEUE_DISCONNECT};
    l->queue_policy = policies[sim_random_below(rng, ARRAY_LEN(policies))];
}

static mq_plan plan_choose(sim_random *rng, const mq_scale *size) {
    bool v5 = sim_random_chance(rng, 500);
    u32 least = size->payload_max / 20 + 10;
    mq_plan p = {
        .version = v5 ? MQTT_5 : MQTT_3_1_1,
        .keep_alive_s = sim_random_chance(rng, 500) ? 0 : (u16)sim_random_range(rng, 3, 20),
        .messages = sim_random_chance(rng, 200) ? 0 : (u32)sim_random_below(rng, size->messages_max + 1),
        .payload_max = size->payload_max,
        .write_max = (u32)sim_random_range(rng, least, sim_random_chance(rng, 500) ? 10 * least : 65536),
        .read_max = (u32)sim_random_range(rng, least, sim_random_chance(rng, 500) ? 2 * least : 8192),
        .think_ns_max = sim_random_below(rng, 20 * NS_PER_MS),
        .drop = (u16)sim_random_below(rng, 30),
        .clean = (u16)(sim_random_chance(rng, 500) ? 0 : sim_random_below(rng, 300)),
        .subscribe = (u16)(sim_random_chance(rng, 500) ? 0 : sim_random_below(rng, 100)),
        .nap = (u16)(sim_random_chance(rng, 700) ? 0 : sim_random_below(rng, 30)),
    };
    if (v5 && sim_random_chance(rng, 700)) p.receive_max = (u16)sim_random_range(rng, 1, 12);
    if (v5 && sim_random_chance(rng, 500)) p.alias_max = (u16)sim_random_range(rng, 1, MQ_ALIASES);
    return p;
}

static void clients_add(mq_field *f, sim_random *rng, const mq_scale *size) {
    u32 clients = (u32)sim_random_range(rng, 2, 10);
    for (u32 i = 0; i < clients; i++) {
        mq_plan plan = plan_choose(rng, size);
        mq_client *c = mq_client_add(f, &plan);
        for (u32 k = 0; k < MQ_FILTERS; k++) {
            if (sim_random_chance(rng, 300)) c->wanted[k] = (u8)sim_random_range(rng, 1, 3);
        }
    }
}

// --- the three parts ---

static void turn(mq_field *f, u64 end_ns) {
    rig *r = f->rig;
    u64 now = sim_now_ns(r->world), next = end_ns;
    for (u32 i = 0; i < f->client_count && !rig_is_failed(r); i++) {
        mq_client *c = f->clients[i];
        if (c->phase == MQ_GONE) continue;
        if (c->next_ns <= now) mq_client_act(c);
        next = MIN(next, c->next_ns);
    }
    rig_turn(r, next > now ? next - now : 0);
    if (f->disk != NULL) mq_power_turn(f);
}

// The machine slept: everything that was to happen meanwhile is late at once.
static void sleep_some(mq_field *f) {
    u64 ns = sim_random_range(&f->rig->rng, NS_PER_S, 20 * NS_PER_S);
    sim_advance(f->rig->world, ns);
    sim_note(f->rig->world, "slept for %" PRIu64 " ms", (u64)(ns / NS_PER_MS));
    for (u32 i = 0; i < f->client_count; i++) { // no CONNECT is given up for it
        mq_client *c = f->clients[i];
        if (c->connect_ns != UINT64_MAX) c->connect_ns += ns;
    }
    mq_total.sleeps++;
}

typedef bool (*part_over)(mq_field *f);

static bool all_published(mq_field *f) {
    for (u32 i = 0; i < f->client_count; i++) {
        if (f->clients[i]->published < f->clients[i]->plan.messages) return false;
    }
    return f->disk == NULL || f->life >= f->lives;
}

static bool all_quiet(mq_field *f) {
    for (u32 i = 0; i < f->client_count; i++) {
        if (!mq_client_is_quiet(f->clients[i])) return false;
    }
    return f->lossy || mq_check_missing(f, false) == 0;
}

static bool all_gone(mq_field *f) {
    for (u32 i = 0; i < f->client_count; i++) {
        if (f->clients[i]->phase != MQ_GONE) return false;
    }
    return true;
}

// False: it was not over in time.
static bool part_run(mq_field *f, part_over over, u64 ns) {
    rig *r = f->rig;
    u64 end = sim_now_ns(r->world) + ns, look = 0;
    while (!rig_is_failed(r) && sim_now_ns(r->world) < end) {
        if (sim_now_ns(r->world) >= look) {
            if (over(f)) return true;
            look = sim_now_ns(r->world) + 100 * NS_PER_MS;
        }
        turn(f, end);
        if (f->sleepy && over == all_published && sim_random_chance(&r->rng, 1)) sleep_some(f);
    }
    return false;
}

// What may still come has time for it.
static void rest_wait(mq_field *f) {
    rig *r = f->rig;
    u64 received = UINT64_MAX, end = 0;
    while (!rig_is_failed(r)) {
        u64 sum = 0;
        for (u32 i = 0; i < f->client_count; i++) sum += f->clients[i]->received;
        if (sum != received) end = sim_now_ns(r->world) + QUIET_NS;
        if (sim_now_ns(r->world) >= end) return;
        received = sum;
        turn(f, end);
    }
}

static void calm_part(mq_field *f) {
    rig *r = f->rig;
    sim_faults calm = r->setup.sim.faults;
    calm.reset = calm.attach_error = calm.accept_error = 0;
    sim_faults_set(r->world, &calm);
    for (u32 i = 0; i < f->client_count; i++) mq_client_calm(f->clients[i]);
    if (f->disk != NULL) mq_power_calm(f);
    bool over = part_run(f, all_quiet, CALM_NS);
    if (rig_is_failed(r)) return;
    if (over && f->lossy) rest_wait(f);
    (void)mq_check_missing(f, true);
    for (u32 i = 0; i < f->client_count && !over; i++) {
        const mq_client *c = f->clients[i];
        RIG_CHECK(r, mq_client_is_quiet(c), "client %u does not come to rest: up %d, %u open, %u acknowledgements, "
                  "subscribing %u, window %u, %zu bytes to write", i, c->up, c->open_count, c->ack_count,
                  c->subscribe_id, c->window, c->out_len - c->out_at);
    }
    RIG_CHECK(r, over || f->lossy, "the clients do not come to rest");
}

static void end_part(mq_field *f) {
    rig *r = f->rig;
    if (rig_is_failed(r)) return;
    for (u32 i = 0; i < f->client_count; i++) mq_client_end(f->clients[i]);
    bool over = part_run(f, all_gone, END_NS);
    RIG_CHECK(r, over, "a session does not end");
    if (!rig_is_failed(r)) rig_run_until_empty(r, 60 * NS_PER_S);
    // Some seconds, in which the workers give back what they kept for reuse.
    u64 end = sim_now_ns(r->world) + 5 * NS_PER_S;
    while (!rig_is_failed(r) && sim_now_ns(r->world) < end) rig_turn(r, end - sim_now_ns(r->world));
    if (!rig_is_failed(r)) mq_check_empty(f);
}

// --- the run ---

typedef enum run_kind { RUN_PLAIN, RUN_LOSSY, RUN_POWER, RUN_BAD_DISK } run_kind;

static void run(mq_setup *chosen, run_kind kind, char *failure, size_t failure_bytes) {
    bool lossy = kind == RUN_LOSSY;
    sim_random *rng = &chosen->rng;
    rig_setup *setup = &chosen->setup;
    mq_scale size = scale_choose(rng);
    setup->sim.pipe_bytes_min = size.pipe_min;
    setup->sim.pipe_bytes_max = size.pipe_max;
    listener_choose(setup, rng, &size, lossy);
    mq_field f = {.lossy = lossy, .closes_allowed = CLOSES_ALLOWED, .message_size = MQ_CLIENTS_MAX * 64,
                  .inflight_max = setup->listeners[0].inflight_max};
    f.messages = calloc(f.message_size, sizeof(*f.messages));
    ASSERT(f.messages != NULL);
    f.sleepy = sim_random_chance(rng, 300);
    if (lossy) f.closes_allowed |= REASON(CLOSE_QUEUE_FULL);
    if (setup->sim.faults.reset > 0) f.closes_allowed |= REASON(CLOSE_IO_ERROR);
    if (setup->sim.faults.attach_error > 0) f.closes_allowed |= REASON(CLOSE_NO_MEMORY);
    f.faulty = kind == RUN_BAD_DISK;
    if (kind >= RUN_POWER) {
        f.closes_allowed |= REASON(CLOSE_DRAIN) | REASON(CLOSE_IO_ERROR) | (f.faulty ? REASON(CLOSE_LOG) : 0);
        mq_power_choose(&f, setup, rng);
    }
    f.rig = rig_open(setup);
    f.rig->on_closed = on_closed;
    f.rig->on_closed_context = &f;
    if (f.disk != NULL) mq_power_turn(&f);
    clients_add(&f, rng, &size);
    (void)part_run(&f, all_published, BUSY_NS);
    if (!rig_is_failed(f.rig)) calm_part(&f);
    if (f.disk != NULL && !rig_is_failed(f.rig)) mq_power_check(&f);
    end_part(&f);
    for (u32 i = 0; i < f.client_count; i++) mq_client_leave(f.clients[i]);
    scenario_close(f.rig, failure, failure_bytes);
    for (u32 i = 0; i < f.client_count; i++) mq_client_free(f.clients[i]);
    free(f.messages);
    if (f.disk != NULL) disk_sim_destroy(f.disk);
}

void mq_run(mq_setup *chosen, char *failure, size_t failure_bytes) {
    run(chosen, RUN_PLAIN, failure, failure_bytes);
}

void mq_run_lossy(mq_setup *chosen, char *failure, size_t failure_bytes) {
    run(chosen, RUN_LOSSY, failure, failure_bytes);
}

void mq_run_power(mq_setup *chosen, char *failure, size_t failure_bytes) {
    run(chosen, RUN_POWER, failure, failure_bytes);
}

void mq_run_bad_disk(mq_setup *chosen, char *failure, size_t failure_bytes) {
    run(chosen, RUN_BAD_DISK, failure, failure_bytes);
}

void mq_print_counts(void) {
    const mq_totals *t = &mq_total;
    kept_print_counts();
    if (t->connects == 0) return;
    printf("mqtt: %" PRIu64 " connects, %" PRIu64 " resumed, %" PRIu64 " clean starts, %" PRIu64
           " sessions lost, %" PRIu64 " take-overs, %" PRIu64 " resets, %" PRIu64 " half packets, %" PRIu64
           " goodbyes; %" PRIu64 " published, %" PRIu64 " sent again, %" PRIu64 " received, %" PRIu64
           " repetitions, %" PRIu64 " with aliases, %" PRIu64 " dropped by full queues, %" PRIu64
           " sleeps\n", t->connects, t->resumed,
           t->clean_starts, t->lost_sessions, t->take_overs, t->resets, t->half_packets, t->goodbyes, t->published,
           t->resent, t->received, t->duplicates, t->aliases, t->missing, t->sleeps);
    if (t->cuts + t->stops == 0) return;
    printf("power: gone %" PRIu64 " times, %" PRIu64 " of them while starting; %" PRIu64 " stops in order; %" PRIu64
           " acknowledgements known to be on disk, %" PRIu64 " refused for the disk, %" PRIu64 " messages in streams\n",
           t->cuts, t->cuts_at_start, t->stops, t->settled, t->refused, t->streamed);
}
