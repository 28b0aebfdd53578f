// SPDX-License-Identifier: Apache-2.0
// mqtt_retained.c: a flood of retained messages. They are stored, as fast as the broker takes them
// and acknowledges (QoS 0: as a PINGRESP behind the last shows); then each subscriber subscribes to
// all of them at once, and every one must come, once; then they are cleared, unless --keep.
//
// Publisher p stores the topics p, p + pubs, p + 2 pubs ...; the payload's sequence number is the
// topic's.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/mqtt_flow.h"
#include "bench/run.h"
#include "proto/mqtt_write.h"

#define PUMP_BYTES_MAX (64u << 10) // queued on one publisher before the loop turns

typedef struct store { // of one publisher
    u32 next;    // topic
    u32 open;    // not acknowledged
    u16 next_id;
    bool pinged, done;
} store;

typedef struct receiver { // of one subscriber
    mq_map seen;
    u64 subscribed_ns;
    u32 count;
    bool first;
} receiver;

typedef struct flood {
    mq_world *world;
    store *stores;
    receiver *receivers;
    u8 *payload;
    u32 stores_done, receivers_done;
    u64 delivered;
    u64 progress_ns;
    bool clearing;
} flood;

static flood *the_flood; // one run at a time, one thread

static u32 publisher_number(const mq_client *c) {
    return (u32)(c - the_flood->world->clients);
}

static void store_finish(store *s) {
    s->done = true;
    the_flood->stores_done++;
}

static bool store_one(mq_client *c, store *s) {
    flood *f = the_flood;
    mq_world *w = f->world;
    const mq_options *o = &w->options;
    char topic[MQ_TOPIC_BYTES_MAX];
    int topic_len = snprintf(topic, sizeof(topic), "%s/%u", w->result->prefix, s->next);
    u64 now_ns = clock_mono_ns();
    u32 number = publisher_number(c);
    memcpy(f->payload, &number, 4);
    memcpy(f->payload + 4, &s->next, 4);
    memcpy(f->payload + 8, &now_ns, 8);
    mqtt_publish p = {.retain = true,
                      .qos = (u8)o->qos,
                      .packet_id = o->qos > 0 ? s->next_id : 0,
                      .topic = {(const u8 *)topic, (u32)topic_len},
                      .payload = {f->payload, f->clearing ? 0 : o->size}};
    int len = mqtt_write_publish(mq_net_version(&w->net), &p, NULL, 0);
    ASSERT(len > 0);
    u8 *room = mq_client_room(c, (u32)len);
    if (room == NULL) return false;
    (void)mqtt_write_publish(mq_net_version(&w->net), &p, room, (u32)len);
    if (o->qos > 0) {
        s->open++;
        s->next_id = s->next_id == 65535 ? 1 : (u16)(s->next_id + 1);
    }
    s->next += o->pubs;
    return true;
}

static void store_pump(mq_client *c, store *s) {
    const mq_options *o = &the_flood->world->options;
    u32 window = MIN(o->inflight, c->receive_max);
    while (s->next < o->messages && c->fill.used < PUMP_BYTES_MAX &&
           (o->qos == 0 || s->open < window)) {
        if (!store_one(c, s)) return;
    }
    if (s->next < o->messages || s->done) return;
    if (o->qos > 0 && s->open == 0) store_finish(s);
    if (o->qos == 0 && !s->pinged) {
        s->pinged = true;
        mq_client_ping(c);
    }
}

static bool stores_fire(mq_world *w, u64 now_ns) {
    (void)now_ns;
    bool any = false;
    for (u32 i = 0; i < w->options.pubs; i++) {
        mq_client *c = &w->clients[i];
        if (c->state != MQ_READY || the_flood->stores[i].done || c->io.sending) continue;
        u32 before = c->fill.used;
        store_pump(c, &the_flood->stores[i]);
        any |= c->fill.used != before;
    }
    return any;
}

static void store_ack(mq_client *c, u8 type, const mqtt_ack *ack, u64 now_ns) {
    mq_world *w = the_flood->world;
    store *s = &the_flood->stores[publisher_number(c)];
    the_flood->progress_ns = now_ns;
    if (ack->reason >= 0x80) {
        bench_error_add(&w->net.errors, BENCH_ERROR_PUBLISH_REFUSED, 1);
    } else if (type == MQTT_PUBREC) {
        mq_client_ack(c, MQTT_PUBREL, ack->packet_id);
        return;
    }
    if (s->open > 0) s->open--;
    store_pump(c, s);
}

static void store_pong(mq_client *c, u64 now_ns) {
    store *s = &the_flood->stores[publisher_number(c)];
    the_flood->progress_ns = now_ns;
    if (s->pinged && !s->done) store_finish(s);
}

static const mq_role store_role = {.ready = mq_world_ready, .ack = store_ack, .pong = store_pong};

// --- subscribers ---

static void receiver_subscribe(mq_client *c) {
    char filter[MQ_TOPIC_BYTES_MAX];
    mq_world *w = the_flood->world;
    snprintf(filter, sizeof(filter), "%s/#", w->result->prefix);
    the_flood->receivers[c - w->clients - w->options.pubs].subscribed_ns = clock_mono_ns();
    mq_client_subscribe(c, filter, (u8)w->options.sub_qos);
}

static bool content_is_right(const mq_options *o, const mq_message *m, u32 *topic) {
    u32 publisher;
    if (m->payload_len != o->size) return false;
    memcpy(&publisher, m->payload, 4);
    memcpy(topic, m->payload + 4, 4);
    return *topic < o->messages && *topic % o->pubs == publisher && m->retain &&
           mq_payload_filler_is_right(m->payload + MQ_PAYLOAD_BYTES_MIN,
                                      o->size - MQ_PAYLOAD_BYTES_MIN);
}

static void receiver_message(mq_client *c, const mq_message *m, u64 now_ns) {
    flood *f = the_flood;
    mq_world *w = f->world;
    receiver *r = &f->receivers[c - w->clients - w->options.pubs];
    u32 topic;
    bool failed;
    if (m->qos > 0) mq_client_ack(c, m->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, m->packet_id);
    if (!content_is_right(&w->options, m, &topic)) {
        bench_error_add(&w->net.errors, BENCH_ERROR_CORRUPTED, 1);
        return;
    }
    if (!mq_map_take(&r->seen, topic, &failed)) {
        bench_error_add(&w->net.errors, failed ? BENCH_ERROR_NO_MEMORY : BENCH_ERROR_DUPLICATED, 1);
        return;
    }
    f->progress_ns = now_ns;
    f->delivered++;
    u64 since_ns = now_ns - MIN(now_ns, r->subscribed_ns);
    if (!r->first) hist_record(&w->result->first_ns, since_ns);
    r->first = true;
    if (++r->count == w->options.messages) {
        hist_record(&w->result->flood_ns, since_ns);
        f->receivers_done++;
    }
}

static const mq_role receiver_role = {.ready = mq_world_ready, .message = receiver_message};

// --- the course ---

static bool stores_are_done(const mq_world *w) {
    return the_flood->stores_done == w->options.pubs ||
           clock_mono_ns() - the_flood->progress_ns > w->options.timeout_ns;
}

static bool receivers_are_done(const mq_world *w) {
    return the_flood->receivers_done == w->options.subs ||
           clock_mono_ns() - MIN(clock_mono_ns(), the_flood->progress_ns) > w->options.timeout_ns;
}

static void flood_counts(const mq_world *w, u64 *published, u64 *delivered) {
    (void)w;
    *published = 0;
    *delivered = the_flood->delivered;
}

// Publishes all topics. False: the broker stopped answering.
static bool stores_run(mq_world *w, bool clearing) {
    flood *f = the_flood;
    f->clearing = clearing;
    f->stores_done = 0;
    for (u32 i = 0; i < w->options.pubs; i++) {
        f->stores[i] = (store){.next = i, .next_id = 1};
    }
    f->progress_ns = clock_mono_ns();
    w->fire = stores_fire;
    w->done = stores_are_done;
    mq_loop_until(w, UINT64_MAX);
    w->fire = NULL;
    w->done = NULL;
    return f->stores_done == w->options.pubs;
}

static void deliver_run(mq_world *w) {
    const mq_options *o = &w->options;
    flood *f = the_flood;
    mq_result *r = w->result;
    f->progress_ns = clock_mono_ns();
    w->window_begin_ns = f->progress_ns;
    w->window_end_ns = f->progress_ns + BENCH_DURATION_NS_MAX;
    w->done = receivers_are_done;
    for (u32 i = 0; i < o->subs; i++) receiver_subscribe(&w->clients[o->pubs + i]);
    mq_world_window(w, flood_counts);
    w->done = NULL;
    r->published = o->messages;
    r->expected = (u64)o->messages * o->subs;
    r->delivered = f->delivered;
    mq_world_memory(w, &r->rss_after, &r->private_after);
    if (r->expected > r->delivered) {
        bench_error_add(&w->net.errors, BENCH_ERROR_LOST, r->expected - r->delivered);
    }
    // What comes twice comes now, if ever.
    mq_loop_until(w, clock_mono_ns() + NS_PER_S / 2);
}

static int flood_run(mq_world *w, flood *f) {
    const mq_options *o = &w->options;
    mq_result *r = w->result;
    f->stores = calloc(o->pubs, sizeof(*f->stores));
    f->receivers = calloc(o->subs, sizeof(*f->receivers));
    f->payload = malloc(o->size);
    if (f->stores == NULL || f->receivers == NULL || f->payload == NULL) {
        return mq_world_refuse(w, "no memory for the flood");
    }
    mq_payload_fill(f->payload + MQ_PAYLOAD_BYTES_MIN, o->size - MQ_PAYLOAD_BYTES_MIN);
    int rc = mq_world_open(w, 0, o->pubs, &store_role);
    if (rc == 0) rc = mq_world_open(w, o->pubs, o->subs, &receiver_role);
    if (rc != 0) return rc;
    u64 begin_ns = clock_mono_ns();
    if (!stores_run(w, false)) {
        return bench_stop ? -EINTR
                          : mq_world_refuse(w, "the broker stopped acknowledging: %s",
                                            w->net.first_refusal);
    }
    r->stored_ns = clock_mono_ns() - begin_ns;
    mq_world_memory(w, &r->rss_peak, &r->private_peak);
    deliver_run(w);
    if (o->keep) return 0;
    for (u32 i = 0; i < o->subs; i++) mq_client_leave(&w->clients[o->pubs + i]);
    if (stores_run(w, true)) r->cleared = o->messages;
    return 0;
}

int mq_scenario_retained(mq_world *w) {
    flood f = {.world = w};
    the_flood = &f;
    int rc = flood_run(w, &f);
    for (u32 i = 0; f.receivers != NULL && i < w->options.subs; i++) {
        mq_map_free(&f.receivers[i].seen);
    }
    free(f.stores);
    free(f.receivers);
    free(f.payload);
    the_flood = NULL;
    return rc;
}
