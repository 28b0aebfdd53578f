// SPDX-License-Identifier: Apache-2.0
// mqtt_again.c: a PUBLISH of QoS 2 whose connection breaks before its PUBREC, and which is sent again on the next
// one while its commit is under way: the disk stands still meanwhile. PUBREC says that the message will not be asked
// for again, so it must not leave before the commit has ended, whoever asked for it (5.0 section 4.3.3); when the
// commit was refused, or the power goes, the repetition is answered, or taken, as the first one would have been. The
// message comes once.
//
// Besides: what a client asks for again while the disk has not what it asked for before, because that fails, or because
// its connection broke first. There is nothing to be done any more, but to say so would be a promise all the same: an
// UNSUBSCRIBE, and a CONNECT to the session of a clean start whose CONNACK never left.
#include <errno.h>
#include <string.h>

#include "broker/durable.h"
#include "mqtt_client.h"
#include "mqtt_script.h"

#define TOPIC "again"
#define PACKET_ID 7u

// REFUSED: the receiver's worker can not keep it. CUT: the power goes before the commit.
typedef enum outcome { COMMITTED, REFUSED, CUT, OUTCOMES } outcome;

static void on_closed(void *context, const char *peer, close_reason reason) {
    (void)peer;
    bool may = reason == CLOSE_PEER || reason == CLOSE_PEER_RESET || reason == CLOSE_DRAIN ||
               reason == CLOSE_TAKEN_OVER;
    RIG_CHECK((rig *)context, may, "closed with reason %s", close_reason_name(reason));
}

static void come_back(script_client *c, bool present) {
    mqtt_packet p;
    script_connect(c, false, SCRIPT_EXPIRY_S);
    script_want(c, MQTT_CONNACK, &p);
    RIG_CHECK(c->r, p.connack.code == 0 && p.connack.session_present == present, "%s: CONNACK %u, session present %d",
              c->id, p.connack.code, p.connack.session_present);
}

// The log of the receiver's worker takes nothing, or takes it again.
static void log_refuses(worker *w, bool refuses) {
    durable_refuses(w->broker, refuses ? -EIO : 0);
    durable_behind(w->broker, refuses ? 1 : -1);
}

// It comes once, as a whole exchange.
static void subscriber_check(script_client *c) {
    mqtt_packet p;
    script_want(c, MQTT_PUBLISH, &p);
    if (rig_is_failed(c->r)) return;
    bool right = p.publish.qos == 2 && p.publish.payload.len == 1;
    RIG_CHECK(c->r, right, "%s: another message", c->id);
    u16 id = p.publish.packet_id;
    script_ack(c, MQTT_PUBREC, id);
    script_want(c, MQTT_PUBREL, &p);
    script_ack(c, MQTT_PUBCOMP, id);
    script_want_nothing(c, NS_PER_S);
}

static void power_cut(rig *r, script_client *publisher, script_client *receiver) {
    script_lose(publisher, SCRIPT_RESET);
    script_lose(receiver, SCRIPT_RESET);
    disk_sim_cut_after(r->setup.disk, 1);
    r->disk_held = false;
    while (!disk_sim_is_cut(r->setup.disk) && !rig_is_failed(r)) script_turn(r, NS_PER_MS);
    rig_halt(r, false);
    if (!rig_is_failed(r)) rig_boot(r);
}

static void exchange_finish(script_client *c, u8 reason) {
    mqtt_packet p;
    script_want(c, MQTT_PUBREC, &p);
    RIG_CHECK(c->r, p.ack.packet_id == PACKET_ID && p.ack.reason == reason, "PUBREC %u with reason 0x%02x",
              p.ack.packet_id, p.ack.reason);
    if (reason != 0 || rig_is_failed(c->r)) return;
    script_ack(c, MQTT_PUBREL, PACKET_ID);
    script_want(c, MQTT_PUBCOMP, &p);
}

static void repeat(rig *r, script_client *publisher, script_client *receiver, outcome how) {
    u32 there = worker_of_client(&r->gw, receiver->id, strlen(receiver->id));
    r->disk_held = true;
    script_publish(publisher, TOPIC, 2, PACKET_ID, false, false, "1");
    script_want_nothing(publisher, sim_random_range(&r->rng, 1, 100) * NS_PER_MS);
    for (u32 times = (u32)sim_random_range(&r->rng, 1, 3); times > 0 && !rig_is_failed(r); times--) {
        script_lose(publisher, (script_loss)sim_random_below(&r->rng, SCRIPT_LOSSES));
        script_turn(r, sim_random_below(&r->rng, 20 * NS_PER_MS));
        come_back(publisher, true);
        script_publish(publisher, TOPIC, 2, PACKET_ID, true, false, "1");
        script_want_nothing(publisher, sim_random_range(&r->rng, 10, 100) * NS_PER_MS);
    }
    if (rig_is_failed(r)) return;
    if (how == CUT) {
        power_cut(r, publisher, receiver);
        if (rig_is_failed(r)) return;
        come_back(receiver, true);
        come_back(publisher, true);
        script_publish(publisher, TOPIC, 2, PACKET_ID, true, false, "1");
    }
    if (how == REFUSED) log_refuses(&r->workers[there], true);
    r->disk_held = false;
    if (how == REFUSED) {
        exchange_finish(publisher, MQTT_REASON_IMPLEMENTATION_SPECIFIC);
        log_refuses(&r->workers[there], false);
        script_publish(publisher, TOPIC, 2, PACKET_ID, false, false, "1");
    }
    exchange_finish(publisher, 0);
    if (!rig_is_failed(r)) subscriber_check(receiver);
}

// The disk takes nothing, or takes it again.
static void disk_fails(rig *r, bool fails) {
    disk_sim_config conf = {.torn_per_mille = 100, .write_error_per_mille = fails ? 1000 : 0,
                            .make_error_per_mille = fails ? 1000 : 0};
    disk_sim_configure(r->setup.disk, &conf);
}

static void unsubscribed(script_client *c, bool taken) {
    mqtt_packet p;
    script_unsubscribe(c, TOPIC);
    script_want(c, MQTT_UNSUBACK, &p);
    if (rig_is_failed(c->r)) return;
    u8 code = p.suback.codes.len == 1 ? p.suback.codes.data[0] : MQTT_REASON_UNSPECIFIED;
    RIG_CHECK(c->r, (code < MQTT_REASON_UNSPECIFIED) == taken, "%s: UNSUBACK 0x%02x", c->id, code);
}

static void unsubscribe_again(rig *r, script_client *c) {
    disk_fails(r, true);
    script_lose(c, SCRIPT_CLOSE);
    come_back(c, true); // which is written: the log fails
    script_turn(r, 2 * NS_PER_S);
    unsubscribed(c, false);
    for (u32 times = (u32)sim_random_range(&r->rng, 1, 3); times > 0 && !rig_is_failed(r); times--) {
        if (sim_random_chance(&r->rng, 500)) {
            script_lose(c, (script_loss)sim_random_below(&r->rng, SCRIPT_LOSSES));
            come_back(c, true);
        }
        unsubscribed(c, false);
    }
    disk_fails(r, false);
    script_turn(r, 5 * NS_PER_S);
    unsubscribed(c, true);
}

// A clean start whose CONNACK waits for the end of the session before it, and never leaves.
static void clean_start_again(rig *r, script_client *c) {
    mqtt_packet p;
    r->disk_held = true;
    script_lose(c, SCRIPT_RESET);
    script_connect(c, true, SCRIPT_EXPIRY_S);
    for (u32 times = (u32)sim_random_range(&r->rng, 1, 3); times > 0 && !rig_is_failed(r); times--) {
        script_want_nothing(c, sim_random_range(&r->rng, 1, 100) * NS_PER_MS);
        script_lose(c, (script_loss)sim_random_below(&r->rng, SCRIPT_LOSSES));
        script_turn(r, sim_random_below(&r->rng, 20 * NS_PER_MS));
        script_connect(c, false, SCRIPT_EXPIRY_S);
    }
    script_want_nothing(c, 100 * NS_PER_MS);
    r->disk_held = false;
    script_want(c, MQTT_CONNACK, &p);
    RIG_CHECK(r, p.connack.code == 0, "%s: CONNACK %u", c->id, p.connack.code);
    unsubscribed(c, true); // there was none
}

void mq_run_again(mq_setup *chosen, char *failure, size_t failure_bytes) {
    sim_random *rng = &chosen->rng;
    script_setup(chosen);
    rig *r = rig_open(&chosen->setup);
    r->on_closed = on_closed;
    r->on_closed_context = r;
    char name[16];
    snprintf(name, sizeof(name), "sub-%u", (u32)sim_random_below(rng, 100));
    script_client publisher = {.r = r, .id = "publisher"}, receiver = {.r = r, .id = name};
    bool elsewhere = worker_of_client(&r->gw, name, strlen(name)) != worker_of_client(&r->gw, "publisher", 9);
    outcome how = (outcome)sim_random_below(rng, OUTCOMES);
    if (how == REFUSED && !elsewhere) how = COMMITTED; // its own log would have refused it before it was taken
    mqtt_packet p;
    come_back(&receiver, false);
    script_subscribe(&receiver, TOPIC, 2);
    script_want(&receiver, MQTT_SUBACK, &p);
    come_back(&publisher, false);
    script_turn(r, 100 * NS_PER_MS);
    if (!rig_is_failed(r)) repeat(r, &publisher, &receiver, how);
    if (!rig_is_failed(r) && sim_random_chance(rng, 500)) clean_start_again(r, &receiver);
    else if (!rig_is_failed(r)) unsubscribe_again(r, &receiver);
    script_end(&publisher);
    script_end(&receiver);
    script_close(chosen, r, failure, failure_bytes);
}
