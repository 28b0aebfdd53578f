// SPDX-License-Identifier: Apache-2.0
// mqtt_kept.c: what a gateway keeps for others than the receiver of a message, across power cuts at any operation of
// the disk and starts with another number of workers: retained messages, wills, and what waits for a shared
// subscription. One thing is done at a time, so that after a cut at most one of them is open, and what must be there is
// known exactly:
//
//   a retained message is the last one that was acknowledged, or the one that was open
//   a will whose client has gone is published; that of one that said goodbye never
//   each message to a shared subscription comes to one of its members
//   each message to plain subscriptions comes to all of them, of QoS 2 once, wherever their sessions have moved
//
// In some runs bits flip on the disk while the machine is off. Then anything may be missing, but the gateway starts,
// and nothing is given out that is not as it was sent.
#include "mqtt_kept.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"
#include "store/log.h"

#define DONE_MAX 80u         // things that are done in a life
#define QUIET_NS (2 * NS_PER_S)
#define WILL_WAIT_NS (30 * NS_PER_S) // LIMIT_WILL_RESTART_S, and what a start takes

kept_totals kept_total;

// --- payloads ---

static u32 sum_of(char kind, u32 number) {
    return ((number + 1) * 2654435761u) ^ ((u32)kind << 8);
}

static void payload_make(char kind, u32 number, char out[KEPT_PAYLOAD]) {
    snprintf(out, KEPT_PAYLOAD, "%c %u %08x", kind, number, sum_of(kind, number));
}

// The number of a message that has come; it must be as it was sent.
static u32 number_of(kept *k, const mqtt_publish *p, char kind) {
    char text[KEPT_PAYLOAD], is = 0;
    u32 number = 0, sum = 0, len = MIN(p->payload.len, KEPT_PAYLOAD - 1);
    if (len > 0) memcpy(text, p->payload.data, len);
    text[len] = '\0';
    bool right = sscanf(text, "%c %u %x", &is, &number, &sum) == 3 && is == kind && sum == sum_of(kind, number) &&
                 number < KEPT_MAX;
    RIG_CHECK(k->r, right, "a message that nobody sent: %s", text);
    return right ? number : 0;
}

// --- connections ---

// False: the power has gone, or the rig has failed.
static bool connected(kept *k, script_client *c, bool clean, u32 expiry_s, bool *present) {
    mqtt_packet p;
    script_connect(c, clean, expiry_s);
    script_want(c, MQTT_CONNACK, &p);
    if (script_is_over(k->r)) return false;
    *present = p.connack.session_present;
    return true;
}

static void take(kept *k, kept_session *s, const mqtt_packet *p) {
    if (p->type == MQTT_PUBREL) {
        s->taken[p->ack.packet_id] = 0;
        script_ack(&s->client, MQTT_PUBCOMP, p->ack.packet_id);
    }
    if (p->type != MQTT_PUBLISH) return;
    u16 id = p->publish.packet_id;
    u32 number = number_of(k, &p->publish, s->kind);
    if (rig_is_failed(k->r)) return;
    if (p->publish.qos < 2 || s->taken[id] != number + 1) s->seen[number]++;
    if (p->publish.qos == 2) s->taken[id] = number + 1;
    if (p->publish.qos > 0) script_ack(&s->client, p->publish.qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, id);
}

// Comes back to a session that must be there once it was confirmed, and subscribes when it is not.
static bool session_open(kept *k, kept_session *s) {
    mqtt_packet p;
    bool present;
    if (s->client.peer != NULL) return true;
    if (!connected(k, &s->client, false, SCRIPT_EXPIRY_S, &present)) return false;
    RIG_CHECK(k->r, present || !s->firm || k->flips, "%s: its session is lost", s->client.id);
    if (present && s->firm) return true;
    if (!present) memset(s->taken, 0, sizeof(s->taken));
    script_subscribe(&s->client, s->filter, 2);
    do { // what waited may come first
        script_want(&s->client, SCRIPT_ANY, &p);
        if (p.type == MQTT_PUBLISH) take(k, s, &p);
    } while (!script_is_over(k->r) && p.type != MQTT_SUBACK);
    if (script_is_over(k->r)) return false;
    s->firm = true;
    return true;
}

static void session_pump(kept *k, kept_session *s) {
    mqtt_packet p;
    while (s->client.peer != NULL && !script_is_over(k->r) && script_take(&s->client, &p)) take(k, s, &p);
}

// Reads until nothing has come for a while.
static void session_drain(kept *k, kept_session *s, u64 ns) {
    mqtt_packet p;
    if (!session_open(k, s)) return;
    for (u64 end = sim_now_ns(k->r->world) + ns; sim_now_ns(k->r->world) < end && !script_is_over(k->r);) {
        bool came = script_take(&s->client, &p);
        if (came) take(k, s, &p);
        if (came) end = sim_now_ns(k->r->world) + ns;
        else script_turn(k->r, 5 * NS_PER_MS);
    }
}

// --- publishing ---

static bool publisher_open(kept *k, kept_publisher *by) {
    bool present;
    if (by->client.peer != NULL) return true;
    if (!connected(k, &by->client, false, SCRIPT_EXPIRY_S, &present)) return false;
    RIG_CHECK(k->r, present || !by->firm || k->flips, "%s: its session is lost", by->client.id);
    return true;
}

// Sends the open message, for the first time or again, until it has been taken. False: the power has gone.
static bool open_release(kept *k) {
    mqtt_packet p;
    kept_open *o = &k->open;
    kept_publisher *by = &k->publishers[o->by];
    char payload[KEPT_PAYLOAD] = "";
    if (!publisher_open(k, by)) return false;
    if (o->released) return true;
    if (!o->empty) payload_make(o->kind, o->number, payload);
    script_publish(&by->client, o->topic, o->qos, o->id, o->times > 0, o->retain, payload);
    o->times++;
    script_want(&by->client, o->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, &p);
    if (script_is_over(k->r)) return false;
    bool taken = p.ack.reason < MQTT_REASON_UNSPECIFIED || k->flips;
    RIG_CHECK(k->r, taken, "%s refused: 0x%02x", payload, p.ack.reason);
    o->released = true;
    return true;
}

// To its end. False: it is open still.
static bool open_finish(kept *k) {
    mqtt_packet p;
    kept_open *o = &k->open;
    kept_publisher *by = &k->publishers[o->by];
    if (!o->is_open) return true;
    if (!open_release(k)) return false;
    if (o->qos == 2) {
        script_ack(&by->client, MQTT_PUBREL, o->id);
        script_want(&by->client, MQTT_PUBCOMP, &p);
        if (script_is_over(k->r)) return false;
    }
    o->is_open = false;
    by->firm = by->firm || o->qos == 2; // PUBCOMP relies on its session
    return true;
}

static kept_open *open_new(kept *k, char kind, u8 qos, const char *topic) {
    k->open = (kept_open){.is_open = true, .kind = kind, .qos = qos, .id = (u16)(++k->last_id % 60000 + 1)};
    snprintf(k->open.topic, sizeof(k->open.topic), "%s", topic);
    return &k->open;
}

// One log takes its time, from some place in what is done next on.
static void disk_slow(kept *k) {
    rig *r = k->r;
    u32 at = (u32)sim_random_below(&r->rng, r->setup.workers);
    r->slow_from_ns[at] = sim_now_ns(r->world) + sim_random_below(&r->rng, 8) * NS_PER_MS / 2;
    r->slow_to_ns[at] = r->slow_from_ns[at] + sim_random_range(&r->rng, 5, 300) * NS_PER_MS;
}

static void retained_do(kept *k) {
    sim_random *rng = &k->r->rng;
    char topic[16];
    u32 t = (u32)sim_random_below(rng, KEPT_TOPICS);
    snprintf(topic, sizeof(topic), "r/%u", t);
    kept_open *o = open_new(k, 'r', (u8)sim_random_range(rng, 1, 2), topic);
    o->by = (u8)sim_random_below(rng, KEPT_PUBLISHERS);
    o->retain = true;
    o->empty = sim_random_chance(rng, 200);
    o->number = k->retained_count++;
    k->next[t] = (kept_value){.number = o->number, .is_set = !o->empty};
    k->next_open[t] = true;
    if (!open_finish(k)) return;
    kept_total.retained++;
}

// One of QoS 2 has been taken, but is not at its end, when another client's is: that is the last one.
static void overtaken_do(kept *k) {
    sim_random *rng = &k->r->rng;
    mqtt_packet p;
    char topic[16], payload[KEPT_PAYLOAD];
    u32 t = (u32)sim_random_below(rng, KEPT_TOPICS);
    snprintf(topic, sizeof(topic), "r/%u", t);
    kept_open *o = open_new(k, 'r', 2, topic);
    o->by = (u8)sim_random_below(rng, KEPT_PUBLISHERS);
    o->retain = true;
    o->number = k->retained_count++;
    k->next[t] = (kept_value){.number = o->number, .is_set = true};
    k->next_open[t] = true;
    disk_slow(k); // perhaps before it is written down that the others have it
    if (!open_release(k)) return;
    k->value[t] = k->next[t];
    k->next[t] = (kept_value){.number = k->retained_count++, .is_set = true};
    k->unsure[t] = true;
    kept_publisher *other = &k->publishers[(o->by + 1) % KEPT_PUBLISHERS];
    if (!publisher_open(k, other)) return;
    payload_make('r', k->next[t].number, payload);
    script_publish(&other->client, topic, 1, (u16)(++k->last_id % 60000 + 1), false, true, payload);
    script_want(&other->client, MQTT_PUBACK, &p);
    if (script_is_over(k->r)) return;
    k->value[t] = k->next[t];
    k->next_open[t] = k->unsure[t] = false;
    if (sim_random_chance(rng, 300)) disk_sim_cut_after(k->r->setup.disk, 1);
    (void)open_finish(k);
    kept_total.retained += 2;
}

static void shared_do(kept *k) {
    kept_open *o = open_new(k, 's', (u8)sim_random_range(&k->r->rng, 1, 2), "shared/x");
    o->number = k->shared_count++;
    (void)open_finish(k);
}

static void plain_do(kept *k) {
    kept_open *o = open_new(k, 'p', (u8)sim_random_range(&k->r->rng, 1, 2), "plain/x");
    o->number = k->plain_count++;
    k->plain_qos[o->number] = o->qos;
    (void)open_finish(k);
}

// A client with a will comes, says so that it is on disk, and dies or says goodbye.
static void will_do(kept *k) {
    sim_random *rng = &k->r->rng;
    mqtt_packet p;
    bool present;
    char payload[KEPT_PAYLOAD], id[16];
    u32 number = k->will_count++;
    payload_make('w', number, payload);
    snprintf(id, sizeof(id), "will-%u", number);
    script_client c = {.r = k->r, .id = id, .will_topic = "will/x", .will_payload = payload};
    if (!connected(k, &c, true, SCRIPT_EXPIRY_S, &present)) return;
    script_subscribe(&c, "none", 0);
    script_want(&c, MQTT_SUBACK, &p);
    if (!script_is_over(k->r)) k->will_wanted[number] = true; // whatever happens now, but a goodbye
    if (script_is_over(k->r) || sim_random_chance(rng, 500)) {
        script_lose(&c, (script_loss)sim_random_below(rng, SCRIPT_LOSSES));
        return;
    }
    k->will_wanted[number] = false;
    script_goodbye(&c);
    script_turn(k->r, NS_PER_S); // it is on disk then
    k->will_gone[number] = !script_is_over(k->r);
}

static kept_session *receiver(kept *k, u32 i) {
    return i < KEPT_MEMBERS ? &k->members[i] : &k->plain[i - KEPT_MEMBERS];
}

static void receiver_do(kept *k) {
    kept_session *s = receiver(k, (u32)sim_random_below(&k->r->rng, KEPT_RECEIVERS));
    if (s->client.peer != NULL && sim_random_chance(&k->r->rng, 500)) {
        script_lose(&s->client, (script_loss)sim_random_below(&k->r->rng, SCRIPT_LOSSES));
        return;
    }
    (void)session_open(k, s);
}

// What is not open any more was acknowledged.
static void settle(kept *k) {
    for (u32 t = 0; t < KEPT_TOPICS && !k->open.is_open; t++) {
        if (!k->next_open[t] || k->unsure[t]) continue;
        k->value[t] = k->next[t];
        k->next_open[t] = false;
    }
}

static void something_do(kept *k) {
    u32 what = (u32)sim_random_below(&k->r->rng, 12);
    if (sim_random_chance(&k->r->rng, 300)) disk_slow(k);
    if (!open_finish(k)) return;
    settle(k);
    if (what < 3) retained_do(k);
    else if (what < 4) overtaken_do(k);
    else if (what < 7) shared_do(k);
    else if (what < 8) will_do(k);
    else if (what < 10) plain_do(k);
    else receiver_do(k);
    for (u32 i = 0; i < KEPT_RECEIVERS; i++) session_pump(k, receiver(k, i));
    session_pump(k, &k->watcher);
}

// --- what must hold ---

static void retained_judge(kept *k, u32 t, bool there, u32 number) {
    bool last = there == k->value[t].is_set && (!there || number == k->value[t].number);
    bool open = k->next_open[t] && there == k->next[t].is_set && (!there || number == k->next[t].number);
    RIG_CHECK(k->r, last || open || k->flips, "topic r/%u has %s %u, acknowledged was %s %u", t,
              there ? "message" : "none", number, k->value[t].is_set ? "message" : "none", k->value[t].number);
    if (!k->unsure[t]) return;
    if (open) k->value[t] = k->next[t]; // nobody sends it again: it is there, or not
    k->next_open[t] = k->unsure[t] = false;
}

// What a new client gets.
static void retained_check(kept *k) {
    mqtt_packet p;
    bool present, there[KEPT_TOPICS] = {false};
    u32 number[KEPT_TOPICS] = {0};
    script_client c = {.r = k->r, .id = "reader"};
    if (!connected(k, &c, true, 0, &present)) return;
    script_subscribe(&c, "r/#", 0);
    script_want(&c, MQTT_SUBACK, &p);
    for (u64 end = sim_now_ns(k->r->world) + QUIET_NS; sim_now_ns(k->r->world) < end && !script_is_over(k->r);) {
        if (!script_take(&c, &p)) {
            script_turn(k->r, 5 * NS_PER_MS);
            continue;
        }
        bool live = p.type == MQTT_PUBLISH && !p.publish.retain && k->open.is_open; // which other workers had not yet
        if (live) continue;
        u32 t = p.publish.topic.len == 3 ? p.publish.topic.data[2] - (u32)'0' : KEPT_TOPICS;
        bool right = p.type == MQTT_PUBLISH && p.publish.retain && t < KEPT_TOPICS;
        RIG_CHECK(k->r, right, "reader: not a retained message");
        if (rig_is_failed(k->r)) return;
        there[t] = true;
        number[t] = number_of(k, &p.publish, 'r');
    }
    for (u32 t = 0; t < KEPT_TOPICS && !script_is_over(k->r); t++) retained_judge(k, t, there[t], number[t]);
    script_lose(&c, SCRIPT_CLOSE);
    kept_total.looks++;
}

static void plain_check(kept *k, const kept_session *s) {
    for (u32 i = 0; i < k->plain_count && !script_is_over(k->r) && !k->flips; i++) {
        bool right = k->plain_qos[i] == 2 ? s->seen[i] == 1 : s->seen[i] > 0;
        RIG_CHECK(k->r, right, "%s: message %u of QoS %u came %u times", s->client.id, i, k->plain_qos[i], s->seen[i]);
        kept_total.plain++;
    }
}

static void end_check(kept *k) {
    for (u32 i = 0; i < KEPT_RECEIVERS; i++) session_drain(k, receiver(k, i), QUIET_NS);
    session_drain(k, &k->members[0], QUIET_NS);
    session_drain(k, &k->watcher, WILL_WAIT_NS);
    for (u32 i = 0; i < KEPT_PLAIN; i++) plain_check(k, &k->plain[i]);
    for (u32 i = 0; i < k->shared_count && !script_is_over(k->r) && !k->flips; i++) {
        u32 seen = k->members[0].seen[i] + k->members[1].seen[i];
        RIG_CHECK(k->r, seen > 0, "message %u to a shared subscription never came", i);
        kept_total.shared += seen > 0;
    }
    for (u32 i = 0; i < k->will_count && !script_is_over(k->r); i++) {
        u32 seen = k->watcher.seen[i];
        RIG_CHECK(k->r, seen > 0 || !k->will_wanted[i] || k->flips, "will %u never came", i);
        RIG_CHECK(k->r, seen == 0 || !k->will_gone[i] || k->flips, "will %u came although its client said goodbye", i);
        kept_total.wills += seen > 0;
    }
}

// --- lives ---

static void all_lost(kept *k) {
    for (u32 i = 0; i < KEPT_PUBLISHERS; i++) script_lose(&k->publishers[i].client, SCRIPT_RESET);
    script_lose(&k->watcher.client, SCRIPT_RESET);
    for (u32 i = 0; i < KEPT_RECEIVERS; i++) script_lose(&receiver(k, i)->client, SCRIPT_RESET);
}

static void flip_some(kept *k) {
    char path[200];
    u64 offset;
    for (u32 n = (u32)sim_random_range(&k->r->rng, 1, 4); n > 0; n--) {
        if (!disk_sim_flip(k->r->setup.disk, ".seg", path, sizeof(path), &offset)) return;
        sim_note(k->r->world, "a bit of %s flips at %" PRIu64, path, offset);
        kept_total.flips++;
    }
}

static void next_cut(kept *k) {
    sim_random *rng = &k->r->rng;
    bool soon = sim_random_chance(rng, 250);
    u64 operations = k->life < k->lives ? 1 + sim_random_below(rng, soon ? 12 : 200) : UINT64_MAX / 2;
    disk_sim_cut_after(k->r->setup.disk, operations);
}

static void restart(kept *k) {
    rig *r = k->r;
    do {
        all_lost(k);
        rig_halt(r, !disk_sim_is_cut(r->setup.disk));
        if (rig_is_failed(r)) return;
        k->life++;
        kept_total.cuts++;
        sim_note(r->world, "life %u", k->life);
        if (k->flips) flip_some(k);
        if (k->converts && sim_random_chance(&r->rng, 500)) {
            rig_workers_set(r, (u32)sim_random_range(&r->rng, 1, RIG_WORKERS_MAX));
            kept_total.conversions++;
        }
        next_cut(k);
        rig_boot(r);
    } while (!rig_is_failed(r) && disk_sim_is_cut(r->setup.disk));
    for (u32 i = 0; i < r->setup.workers && !rig_is_failed(r); i++) {
        kept_total.damaged += counter_get(&store_metrics_get(r->workers[i].store)->damaged);
    }
}

static void life_run(kept *k) {
    retained_check(k);
    for (u32 i = 0; i < KEPT_RECEIVERS; i++) (void)(script_is_over(k->r) || session_open(k, receiver(k, i)));
    if (!script_is_over(k->r)) (void)session_open(k, &k->watcher);
    for (u32 i = 0; i < DONE_MAX && !script_is_over(k->r); i++) something_do(k);
    if (script_is_over(k->r)) return;
    (void)open_finish(k);
    settle(k);
}

static void session_name(kept_session *s, rig *r, const char *id, const char *filter, char kind) {
    s->client = (script_client){.r = r, .id = id};
    s->filter = filter;
    s->kind = kind;
}

static void on_closed(void *context, const char *peer, close_reason reason) {
    (void)peer;
    bool may = reason == CLOSE_PEER || reason == CLOSE_PEER_RESET || reason == CLOSE_DRAIN ||
               reason == CLOSE_TAKEN_OVER || reason == CLOSE_IO_ERROR;
    rig *r = context;
    RIG_CHECK(r, may || disk_sim_is_cut(r->setup.disk), "closed with reason %s", close_reason_name(reason));
}

// The sessions of clients that had a will.
static void wills_end(kept *k) {
    char id[16];
    for (u32 i = 0; i < k->will_count && !rig_is_failed(k->r); i++) {
        snprintf(id, sizeof(id), "will-%u", i);
        script_client c = {.r = k->r, .id = id};
        script_end(&c);
    }
}

void mq_run_kept(mq_setup *chosen, char *failure, size_t failure_bytes) {
    static const char *const publishers[KEPT_PUBLISHERS] = {"publisher", "other", "third"};
    static const char *const names[KEPT_PLAIN] = {"plain-0", "plain-1", "plain-2", "plain-3"};
    script_setup(chosen);
    rig *r = rig_open(&chosen->setup);
    r->on_closed = on_closed;
    r->on_closed_context = r;
    kept *k = calloc(1, sizeof(*k));
    ASSERT(k != NULL);
    k->r = r;
    k->lives = (u32)sim_random_range(&r->rng, 1, 5);
    k->converts = sim_random_chance(&r->rng, 500);
    k->flips = sim_random_chance(&r->rng, 250);
    for (u32 i = 0; i < KEPT_PUBLISHERS; i++) k->publishers[i].client = (script_client){.r = r, .id = publishers[i]};
    session_name(&k->members[0], r, "member-0", "$share/g/shared/#", 's');
    session_name(&k->members[1], r, "member-1", "$share/g/shared/#", 's');
    session_name(&k->watcher, r, "watcher", "will/#", 'w');
    for (u32 i = 0; i < KEPT_PLAIN; i++) session_name(&k->plain[i], r, names[i], "plain/#", 'p');
    next_cut(k);
    while (!rig_is_failed(r)) {
        if (disk_sim_is_cut(r->setup.disk)) restart(k);
        if (rig_is_failed(r)) break;
        life_run(k);
        if (disk_sim_is_cut(r->setup.disk) || rig_is_failed(r)) continue;
        if (k->life >= k->lives) break;
        restart(k); // in order
    }
    retained_check(k);
    end_check(k);
    for (u32 i = 0; i < KEPT_PUBLISHERS; i++) script_end(&k->publishers[i].client);
    script_end(&k->watcher.client);
    for (u32 i = 0; i < KEPT_RECEIVERS; i++) script_end(&receiver(k, i)->client);
    wills_end(k);
    script_close(chosen, r, failure, failure_bytes);
    free(k);
}

void kept_print_counts(void) {
    const kept_totals *t = &kept_total;
    if (t->looks == 0) return;
    printf("kept: %" PRIu64 " starts, %" PRIu64 " with another number of workers; %" PRIu64 " retained messages set, "
           "looked at %" PRIu64 " times; %" PRIu64 " to shared subscriptions, %" PRIu64 " to plain ones, %" PRIu64
           " wills; %" PRIu64 " bits flipped, %" PRIu64 " damaged places found\n", t->cuts, t->conversions, t->retained,
           t->looks, t->shared, t->plain, t->wills, t->flips, t->damaged);
}
