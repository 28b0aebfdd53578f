// SPDX-License-Identifier: Apache-2.0
// broker_rig.h: subscribers for the tests of routing. A peer counts what it gets, may refuse, be
// offline, and run a hook inside deliver().
#ifndef SLUICE_TESTS_BROKER_RIG_H
#define SLUICE_TESTS_BROKER_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "broker/message.h"
#include "fake_net.h"

#define RIG_MEMORY (8ull << 20)

typedef struct peer peer;
struct peer {
    subscriber s;
    u32 worker;
    u32 received, answered, refused;
    int answer;
    int load;                 // as in subscriber_ops
    u32 room;                 // takes so many more, then refuses; UINT32_MAX = any number
    u8 qos;                   // of the last delivery
    bool retain, retained;
    u32 share;
    u32 ids[64], id_count;
    char topic[64];
    char payload[64];
    u64 sum;                  // of the numbers in payloads
    message *kept;            // a reference to the last one, when it keeps
    bool keeps;
    void (*hook)(peer *p);    // inside deliver
};

static UNUSED broker *at(u32 worker) {
    return net.workers[worker].broker;
}

static delivery_result peer_deliver(subscriber *who, delivery *d) {
    peer *p = CONTAINER_OF(who, peer, s);
    if (p->room == 0) {
        p->refused++;
        return DELIVERY_REFUSED;
    }
    if (p->room != UINT32_MAX) p->room--;
    p->received++;
    p->qos = d->qos;
    p->retain = d->retain;
    p->retained = d->retained;
    p->share = d->share;
    p->id_count = d->subscription_id_count;
    for (u32 i = 0; i < p->id_count && i < ARRAY_LEN(p->ids); i++) p->ids[i] = d->subscription_ids[i];
    const publication *m = d->publication;
    snprintf(p->topic, sizeof(p->topic), "%.*s", (int)m->topic_len, m->topic);
    snprintf(p->payload, sizeof(p->payload), "%.*s", (int)m->payload_len, (const char *)m->payload);
    p->sum += strtoull(p->payload, NULL, 10);
    if (p->keeps) {
        if (p->kept != NULL) message_unref(p->kept);
        p->kept = delivery_message(d);
    }
    if (p->hook != NULL) p->hook(p);
    return DELIVERY_TAKEN;
}

static int peer_load(const subscriber *s) {
    return CONTAINER_OF((uintptr_t)s, peer, s)->load;
}

static const subscriber_ops peer_ops = {.deliver = peer_deliver, .load = peer_load};

static void peer_subscribed(void *context, int result) {
    peer *p = context;
    p->answered++;
    p->answer = result;
}

static UNUSED void peer_init(peer *p, u32 worker) {
    *p = (peer){.worker = worker, .room = UINT32_MAX};
    p->s = (subscriber){.ops = &peer_ops, .number = broker_subscriber_number(at(worker))};
}

static UNUSED int subscribe_as(peer *p, const char *share, const char *filter,
                               const subscription_options *o, bool *existed) {
    return broker_subscribe(at(p->worker), &p->s, share, share == NULL ? 0 : (u32)strlen(share), filter,
                            (u32)strlen(filter), o, peer_subscribed, p, existed);
}

static UNUSED void subscribe(peer *p, const char *share, const char *filter) {
    int result = subscribe_as(p, share, filter, &(subscription_options){.qos = 2}, NULL);
    assert_true(result == 0 || result == BROKER_PENDING);
}

static UNUSED bool unsubscribe(peer *p, const char *share, const char *filter) {
    return broker_unsubscribe(at(p->worker), &p->s, share, share == NULL ? 0 : (u32)strlen(share), filter,
                              (u32)strlen(filter));
}

static UNUSED publication publication_of(const char *topic, const char *payload, u8 qos, bool retain) {
    return (publication){.topic = topic, .topic_len = (u32)strlen(topic), .payload = (const u8 *)payload,
                         .payload_len = (u32)strlen(payload), .qos = qos, .retain = retain};
}

static UNUSED int publish(u32 worker, const char *topic, const char *payload, u8 qos) {
    publication p = publication_of(topic, payload, qos, false);
    return broker_publish(at(worker), &p, NULL);
}

static UNUSED int retain(u32 worker, const char *topic, const char *payload) {
    publication p = publication_of(topic, payload, 1, true);
    return broker_publish(at(worker), &p, NULL);
}

static UNUSED u64 memory(u32 worker) {
    return broker_usage_get(at(worker)).memory_bytes;
}

// Lets everything come to rest: timers too.
static UNUSED void settle(void) {
    for (u32 i = 0; i < 12; i++) {
        net_advance_ms(20);
        net_pump();
    }
}

static u64 rig_empty_bytes;

static UNUSED void start(u32 workers) {
    net_start(workers, RIG_MEMORY, 1);
    rig_empty_bytes = memory(0);
}

// Everything has come home and nothing but the empty tables is left.
static UNUSED void stop_clean(void) {
    settle();
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        broker_trim(at(i));
        broker_usage usage = broker_usage_get(at(i));
        assert_int_equal(usage.subscriptions, 0);
        assert_int_equal(usage.shared, 0);
        assert_int_equal(usage.remote_filters, 0);
        assert_int_equal(usage.in_transit, 0);
        assert_int_equal(usage.messages, 0);
        assert_int_equal(usage.shared_waiting, 0);
        assert_int_equal(usage.retained, 0);
        assert_int_equal(usage.memory_bytes, rig_empty_bytes);
    }
    net_stop();
}

// Uses a worker's memory up to a rest of at most rest_bytes, in pieces.
typedef struct rig_hog {
    u32 worker, count;
    void *pieces[4096];
    size_t bytes[4096];
} rig_hog;
static rig_hog hog;

static UNUSED void hog_memory(u32 worker, u64 rest_bytes) {
    hog.worker = worker;
    hog.count = 0;
    for (size_t piece = 1 << 20; piece >= 32; piece /= 2) {
        while (RIG_MEMORY - memory(worker) > rest_bytes + piece + 16) {
            void *p = pool_alloc(broker_pool(at(worker)), piece);
            if (p == NULL) break;
            assert_true(hog.count < ARRAY_LEN(hog.pieces));
            hog.pieces[hog.count] = p;
            hog.bytes[hog.count++] = piece;
        }
    }
}

static UNUSED void hog_end(void) {
    while (hog.count > 0) {
        hog.count--;
        pool_free(broker_pool(at(hog.worker)), hog.pieces[hog.count], hog.bytes[hog.count]);
    }
}

#endif
