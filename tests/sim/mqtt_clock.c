// SPDX-License-Identifier: Apache-2.0
// mqtt_clock.c: a session whose client is away ends when its expiry has passed, whatever the wall clock does meanwhile:
// it is set by years while the gateway runs or while the machine is off, it tells of an hour for which the machine was
// off, the power goes and the gateway starts again. A message that waits for it and expires in a day is there as long
// as the session is, and a retained one always. The time that has really passed is the simulator's, and that for which
// it was off.
#include <inttypes.h>
#include <string.h>

#include "mqtt_client.h"
#include "mqtt_script.h"
#include "scenario.h"
#include "sim_wrap.h"

#define DAY_NS (24ull * 3600 * NS_PER_S)
#define SLACK_NS (60 * NS_PER_S) // of clock looks, commits and starts
#define SHORT_OFF_NS (600 * NS_PER_S)
#define MESSAGE_S 86400u // longer than all that can really pass here

typedef struct clock_case {
    rig *r;
    script_client client, publisher;
    i64 wall_ns;      // how far the wall clock is from the simulator's
    u64 left_ns;      // the simulator's time when the client went
    u64 off_ns;       // for which the machine was off since then
    // The last record, at least, which is what a start knows when the clock is no help: the simulator's time, and the
    // part of off_ns before it; and all the time behind such records that a start could not know of.
    u64 known_ns, known_off_ns, unknown_ns;
    u64 expiry_ns;
} clock_case;

static void on_closed(void *context, const char *peer, close_reason reason) {
    (void)peer;
    bool may = reason == CLOSE_PEER || reason == CLOSE_PEER_RESET || reason == CLOSE_DRAIN ||
               reason == CLOSE_TAKEN_OVER; // the client's end was not met yet when it came again
    RIG_CHECK((rig *)context, may, "closed with reason %s", close_reason_name(reason));
}

// By so much that nobody can vouch for it, either way.
static void clock_set(clock_case *c) {
    i64 ns = (i64)sim_random_range(&c->r->rng, 31 * DAY_NS, 20 * 365 * DAY_NS);
    bool forward = c->wall_ns < 0 || (c->wall_ns < (i64)DAY_NS && sim_random_chance(&c->r->rng, 500));
    c->wall_ns += forward ? ns : -ns;
    sim_wall_set(c->wall_ns);
    sim_note(c->r->world, "the clock is set by %" PRIi64 " days", (i64)((forward ? ns : -ns) / (i64)DAY_NS));
}

static void restart(clock_case *c) {
    rig *r = c->r;
    bool in_order = sim_random_chance(&r->rng, 300);
    script_lose(&c->client, SCRIPT_RESET);
    if (!in_order) {
        disk_sim_cut_after(r->setup.disk, 1);
        for (u32 i = 0; i < 5000 && !disk_sim_is_cut(r->setup.disk); i++) script_turn(r, NS_PER_MS);
    }
    rig_halt(r, in_order || !disk_sim_is_cut(r->setup.disk));
    disk_sim_cut_after(r->setup.disk, UINT64_MAX / 2);
    if (sim_random_chance(&r->rng, 500)) {
        clock_set(c);
        c->unknown_ns += sim_now_ns(r->world) - c->known_ns + c->off_ns - c->known_off_ns;
        c->known_ns = sim_now_ns(r->world); // when its client went is written anew
        c->known_off_ns = c->off_ns;
    } else if (sim_random_chance(&r->rng, 500)) {
        u64 ns = sim_random_below(&r->rng, SHORT_OFF_NS);
        c->off_ns += ns;
        c->wall_ns += (i64)ns;
        sim_wall_set(c->wall_ns);
    }
    if (!rig_is_failed(r)) rig_boot(r);
}

static u64 away_ns(const clock_case *c) {
    return sim_now_ns(c->r->world) - c->left_ns + c->off_ns;
}

// It comes back: its session is there, or it is not.
static void judge(clock_case *c) {
    mqtt_packet p;
    u64 away = away_ns(c);
    script_connect(&c->client, false, (u32)(c->expiry_ns / NS_PER_S));
    script_want(&c->client, MQTT_CONNACK, &p);
    if (rig_is_failed(c->r)) return;
    bool there = p.connack.session_present;
    RIG_CHECK(c->r, there || away + SLACK_NS > c->expiry_ns, "the session was lost after %" PRIu64 " of %" PRIu64 " s",
              (u64)(away / NS_PER_S), (u64)(c->expiry_ns / NS_PER_S));
    bool in_time = away < c->expiry_ns + c->unknown_ns + SLACK_NS;
    RIG_CHECK(c->r, !there || in_time, "the session is there after %" PRIu64 " of %" PRIu64 " s",
              (u64)(away / NS_PER_S), (u64)(c->expiry_ns / NS_PER_S));
    if (there) {
        script_want(&c->client, MQTT_PUBLISH, &p);
        if (!rig_is_failed(c->r)) script_ack(&c->client, MQTT_PUBACK, p.publish.packet_id);
    } else {
        script_subscribe(&c->client, "any", 1);
        script_want(&c->client, MQTT_SUBACK, &p);
    }
}

// What it waits for from then on.
static void publish(clock_case *c) {
    mqtt_packet p;
    script_connect(&c->publisher, true, 0);
    script_want(&c->publisher, MQTT_CONNACK, &p);
    script_publish_expiring(&c->publisher, "any", 1, false, MESSAGE_S, "message");
    script_want(&c->publisher, MQTT_PUBACK, &p);
    script_publish_expiring(&c->publisher, "kept", 2, true, MESSAGE_S, "message");
    script_want(&c->publisher, MQTT_PUBACK, &p);
    script_goodbye(&c->publisher);
}

static void judge_retained(clock_case *c) {
    mqtt_packet p;
    script_connect(&c->publisher, true, 0);
    script_want(&c->publisher, MQTT_CONNACK, &p);
    script_subscribe(&c->publisher, "kept", 0);
    script_want(&c->publisher, MQTT_SUBACK, &p);
    script_want(&c->publisher, MQTT_PUBLISH, &p);
    script_goodbye(&c->publisher);
}

static void go_away(clock_case *c) {
    script_turn(c->r, 2 * NS_PER_S); // what it is told is on disk
    script_lose(&c->client, SCRIPT_CLOSE);
    c->left_ns = c->known_ns = sim_now_ns(c->r->world);
    c->off_ns = c->known_off_ns = c->unknown_ns = 0;
    script_turn(c->r, sim_random_below(&c->r->rng, 3) * NS_PER_S);
    publish(c);
    script_turn(c->r, 2 * NS_PER_S);
}

static void time_pass(clock_case *c) {
    sim_random *rng = &c->r->rng;
    for (u32 rounds = (u32)sim_random_range(rng, 1, 4); rounds > 0 && !rig_is_failed(c->r); rounds--) {
        script_turn(c->r, sim_random_below(rng, 300) * NS_PER_S);
        bool again = sim_random_chance(rng, 700);
        if (sim_random_chance(rng, 400)) {
            clock_set(c);
            // It is seen; or not yet, when the client comes.
            script_turn(c->r, (again || rounds > 1 ? 3 : sim_random_below(rng, 4)) * NS_PER_S);
        }
        if (again) {
            restart(c);
            script_turn(c->r, 3 * NS_PER_S);
        }
    }
}

void mq_run_clock(mq_setup *chosen, char *failure, size_t failure_bytes) {
    rig_setup *setup = &chosen->setup;
    script_setup(chosen);
    rig *r = rig_open(setup);
    r->on_closed = on_closed;
    r->on_closed_context = r;
    clock_case c = {.r = r, .client = {.r = r, .id = "away"}, .publisher = {.r = r, .id = "publisher"}};
    c.expiry_ns = sim_random_range(&r->rng, 120, 1200) * NS_PER_S;
    mqtt_packet p;
    script_connect(&c.client, false, (u32)(c.expiry_ns / NS_PER_S));
    script_want(&c.client, MQTT_CONNACK, &p);
    script_subscribe(&c.client, "any", 1);
    script_want(&c.client, MQTT_SUBACK, &p);
    for (u32 times = 0; times < 2 && !rig_is_failed(r); times++) {
        go_away(&c);
        time_pass(&c);
        if (!rig_is_failed(r)) judge(&c);
        if (!rig_is_failed(r)) judge_retained(&c);
    }
    if (!rig_is_failed(r)) script_end(&c.client);
    script_close(chosen, r, failure, failure_bytes);
}
