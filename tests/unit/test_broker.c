// SPDX-License-Identifier: Apache-2.0
// test_broker.c: subscriptions and messages on one worker and between several, with rings that
// refuse, memory that runs out and callbacks that unsubscribe; at the end of each test nothing is
// left behind.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "broker/clients.h"
#include "fake_net.h"

#define MEMORY (4ull << 20)

typedef struct probe { // a subscriber with one subscription
    subscriber s;
    u32 worker;
    const char *filter;
    u32 received, answered;
    int answer;
    char last[256];    // topic of the last message
    u32 last_len;      // its payload's length
    bool refuse;
    struct probe *unsubscribes; // when it gets something, with its filter
} probe;

static broker *at(u32 worker) {
    return net.workers[worker].broker;
}

static void unsubscribe(probe *s) {
    broker_unsubscribe(at(s->worker), &s->s, NULL, 0, s->filter, (u32)strlen(s->filter));
}

static delivery_result deliver(subscriber *who, delivery *d) {
    probe *s = CONTAINER_OF(who, probe, s);
    const publication *p = d->publication;
    assert_true(p->topic_len < sizeof(s->last));
    memcpy(s->last, p->topic, p->topic_len);
    s->last[p->topic_len] = 0;
    s->last_len = p->payload_len;
    if (p->payload_len > 0) assert_int_equal(p->payload[p->payload_len - 1], 'e');
    s->received++;
    bool refuse = s->refuse;
    if (s->unsubscribes != NULL) unsubscribe(s->unsubscribes);
    return refuse ? DELIVERY_DROPPED : DELIVERY_TAKEN;
}

static const subscriber_ops probe_ops = {.deliver = deliver};

static void subscribed(void *arg, int result) {
    probe *s = arg;
    s->answered++;
    s->answer = result;
}

static int subscribe(probe *s, u32 worker, const char *filter) {
    s->worker = worker;
    s->filter = filter;
    if (s->s.ops == NULL) s->s = (subscriber){.ops = &probe_ops, .number = 1 + worker};
    return broker_subscribe(at(worker), &s->s, NULL, 0, filter, (u32)strlen(filter),
                            &(subscription_options){.qos = 2}, subscribed, s, NULL);
}

static int publish_bytes(u32 worker, const char *topic, u32 payload_len) {
    u8 *payload = malloc(payload_len + 1);
    assert_non_null(payload);
    memset(payload, 'e', payload_len);
    publication p = {.topic = topic, .topic_len = (u32)strlen(topic),
                     .payload = payload, .payload_len = payload_len};
    int result = broker_publish(at(worker), &p, NULL);
    free(payload);
    return result;
}

static int publish(u32 worker, const char *topic) {
    return publish_bytes(worker, topic, 10);
}

// Everything has come home and nothing but the empty tables is left.
static void assert_clean(u64 empty_bytes) {
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        broker_trim(at(i));
        broker_usage usage = broker_usage_get(at(i));
        assert_int_equal(usage.subscriptions, 0);
        assert_int_equal(usage.remote_filters, 0);
        assert_int_equal(usage.in_transit, 0);
        assert_int_equal(usage.memory_bytes, empty_bytes);
    }
}

static u64 start(u32 workers) {
    net_start(workers, MEMORY, 1);
    return broker_usage_get(at(0)).memory_bytes;
}

static void test_one_worker(void **state) {
    (void)state;
    u64 empty = start(1);
    probe a = {0}, b = {0}, c = {0};
    assert_int_equal(subscribe(&a, 0, "x/+"), 0);
    assert_int_equal(subscribe(&b, 0, "x/#"), 0);
    assert_int_equal(subscribe(&c, 0, "x/y"), 0);
    assert_int_equal(subscribe(&c, 0, "x/y"), 0); // again: replaces
    assert_int_equal(broker_usage_get(at(0)).subscriptions, 3);
    assert_int_equal(publish(0, "x/y"), 0);
    assert_int_equal(publish(0, "x"), 0);
    assert_int_equal(publish(0, "z"), 0);
    assert_int_equal(a.received, 1);
    assert_int_equal(b.received, 2);
    assert_int_equal(c.received, 1);
    assert_string_equal(b.last, "x");
    assert_int_equal(c.last_len, 10);
    assert_int_equal(counter_get(&net.workers[0].metrics.published), 3);
    assert_int_equal(counter_get(&net.workers[0].metrics.delivered), 4);
    a.refuse = true;
    assert_int_equal(publish_bytes(0, "x/z", 0), 0);
    assert_int_equal(counter_get(&net.workers[0].metrics.delivery_dropped), 1);
    unsubscribe(&a);
    unsubscribe(&a); // harmless
    unsubscribe(&b);
    unsubscribe(&c);
    assert_int_equal(publish(0, "x/y"), 0);
    assert_int_equal(a.received, 2);
    assert_int_equal(net.posts, 0);
    assert_clean(empty);
    net_stop();
}

static void test_malformed(void **state) {
    (void)state;
    u64 empty = start(1);
    probe a = {0};
    assert_int_equal(subscribe(&a, 0, "x/#/y"), -EINVAL);
    assert_int_equal(subscribe(&a, 0, ""), -EINVAL);
    unsubscribe(&a);
    assert_int_equal(publish(0, "x/+"), -EINVAL);
    assert_int_equal(publish(0, ""), -EINVAL);
    assert_int_equal(publish(0, "\xff"), -EINVAL);
    assert_int_equal(counter_get(&net.workers[0].metrics.published), 0);
    assert_clean(empty);
    net_stop();
}

static void test_between_workers(void **state) {
    (void)state;
    u64 empty = start(3);
    probe a = {0}, b = {0}, c = {0};
    assert_int_equal(subscribe(&a, 0, "t/#"), BROKER_PENDING);
    assert_int_equal(publish(0, "t/1"), 0); // not in force yet, not even here
    assert_int_equal(a.received, 0);
    net_pump();
    assert_int_equal(a.answered, 1);
    assert_int_equal(a.answer, 0);
    u64 posts = net.posts;
    assert_int_equal(subscribe(&b, 0, "t/#"), 0); // the filter is known already
    assert_int_equal(net.posts, posts);
    assert_int_equal(subscribe(&c, 1, "t/2"), BROKER_PENDING);
    net_pump();
    assert_int_equal(broker_usage_get(at(2)).remote_filters, 2);

    posts = net.posts;
    assert_int_equal(publish_bytes(2, "t/2", 100000), 0);
    assert_int_equal(net.posts, posts + 2); // one to each interested worker, whatever matches there
    assert_int_equal(broker_usage_get(at(2)).in_transit, 1);
    net_pump();
    assert_int_equal(net.posts, posts + 4);
    assert_int_equal(a.received, 1);
    assert_int_equal(b.received, 1);
    assert_int_equal(c.received, 1);
    assert_int_equal(a.last_len, 100000);
    assert_string_equal(c.last, "t/2");
    assert_int_equal(broker_usage_get(at(2)).in_transit, 0);
    assert_int_equal(publish(1, "t/3"), 0);
    assert_int_equal(publish(0, "u"), 0);
    net_pump();
    assert_int_equal(a.received, 2);
    assert_int_equal(c.received, 1);

    unsubscribe(&a);
    posts = net.posts;
    assert_int_equal(publish(1, "t/4"), 0);
    net_pump();
    assert_int_equal(b.received, 3);
    assert_int_equal(a.received, 2);
    unsubscribe(&b);
    unsubscribe(&c);
    net_pump();
    posts = net.posts;
    assert_int_equal(publish(2, "t/2"), 0);
    assert_int_equal(net.posts, posts);
    assert_clean(empty);
    net_stop();
}

// Subscribe, unsubscribe and subscribe again before the first announcement has come back.
static void test_flapping(void **state) {
    (void)state;
    u64 empty = start(2);
    probe a = {0}, b = {0};
    assert_int_equal(subscribe(&a, 0, "f"), BROKER_PENDING);
    unsubscribe(&a);
    assert_int_equal(subscribe(&b, 0, "f"), BROKER_PENDING);
    assert_int_equal(net.posts, 1); // one in flight at most
    net_pump();
    assert_int_equal(a.answered, 0);
    assert_int_equal(b.answered, 1);
    unsubscribe(&b);
    assert_int_equal(subscribe(&a, 0, "f"), BROKER_PENDING); // the removal is under way
    assert_true(net_pump_one());                             // the other worker removes it
    assert_int_equal(a.answered, 0);
    net_pump();
    assert_int_equal(a.answered, 1);
    assert_int_equal(publish(1, "f"), 0);
    net_pump();
    assert_int_equal(a.received, 1);
    unsubscribe(&a);
    net_pump();
    assert_clean(empty);
    net_stop();
}

static void test_full_rings_lose_nothing(void **state) {
    (void)state;
    u64 empty = start(3);
    probe a = {0}, b = {0};
    net.refuse[0] = true;
    assert_int_equal(subscribe(&a, 0, "r"), BROKER_PENDING);
    net_pump();
    net_advance_ms(100);
    assert_int_equal(a.answered, 0);
    assert_int_equal(net.posts, 0);
    net.refuse[0] = false;
    net_advance_ms(100);
    net_pump();
    assert_int_equal(a.answered, 1);

    // A message arrives while the receiver can not send it home.
    assert_int_equal(subscribe(&b, 1, "r"), BROKER_PENDING);
    net_pump();
    net.refuse[0] = true;
    assert_int_equal(publish(2, "r"), 0);
    net_pump();
    assert_int_equal(a.received + b.received, 2);
    assert_int_equal(broker_usage_get(at(2)).in_transit, 1);
    unsubscribe(&a);
    net_pump();
    assert_int_equal(broker_usage_get(at(2)).remote_filters, 1);
    net.refuse[0] = false;
    net_advance_ms(100);
    net_pump();
    assert_int_equal(broker_usage_get(at(2)).in_transit, 0);
    unsubscribe(&b);
    net_pump();
    assert_clean(empty);
    net_stop();
}

static void test_congestion_delivers_nothing(void **state) {
    (void)state;
    u64 empty = start(2);
    probe a = {0}, b = {0};
    assert_int_equal(subscribe(&a, 0, "c"), BROKER_PENDING);
    assert_int_equal(subscribe(&b, 1, "c"), BROKER_PENDING);
    net_pump();
    net.congested[0] = true;
    assert_int_equal(publish(0, "c"), -EAGAIN);
    net_pump();
    assert_int_equal(a.received + b.received, 0);
    net.congested[0] = false;
    assert_int_equal(publish(0, "c"), 0);
    net_pump();
    assert_int_equal(a.received, 1);
    assert_int_equal(b.received, 1);
    unsubscribe(&b);
    net_pump();
    net.congested[0] = true;
    assert_int_equal(publish(0, "c"), 0); // local only: no ring is needed
    assert_int_equal(a.received, 2);
    unsubscribe(&a);
    net.congested[0] = false;
    net_pump();
    assert_clean(empty);
    net_stop();
}

static void test_transit_budget(void **state) {
    (void)state;
    u64 empty = start(2);
    probe a = {0}, b = {0};
    assert_int_equal(subscribe(&a, 1, "b"), BROKER_PENDING);
    assert_int_equal(subscribe(&b, 0, "b"), BROKER_PENDING);
    net_pump();
    assert_int_equal(publish_bytes(0, "b", MEMORY), -ENOMEM); // can never pass
    u32 sent = 0;
    int result = 0;
    while ((result = publish_bytes(0, "b", 500000)) == 0) sent++;
    assert_int_equal(result, -EAGAIN);
    assert_in_range(sent, 4, 8);
    assert_int_equal(b.received, sent);
    net_pump();
    assert_int_equal(a.received, sent);
    assert_int_equal(publish_bytes(0, "b", 500000), 0);
    net_pump();
    unsubscribe(&a);
    unsubscribe(&b);
    net_pump();
    assert_clean(empty);
    net_stop();
}

// A worker without memory for a filter refuses it; the subscriber is told and nobody keeps it.
static void test_refused_filter(void **state) {
    (void)state;
    u64 empty = start(3);
    probe a = {0}, b = {0};
    void *rest = NULL;
    size_t rest_bytes = MEMORY - broker_usage_get(at(1)).memory_bytes - 1024;
    assert_non_null(rest = pool_alloc(broker_pool(at(1)), rest_bytes));
    void *small[64];
    u32 count = 0;
    while ((small[count] = pool_alloc(broker_pool(at(1)), 32)) != NULL) count++;
    assert_int_equal(subscribe(&a, 0, "q"), BROKER_PENDING);
    net_pump();
    assert_int_equal(a.answered, 1);
    assert_int_equal(a.answer, -ENOMEM);
    assert_int_equal(broker_usage_get(at(0)).subscriptions, 0);
    assert_int_equal(broker_usage_get(at(2)).remote_filters, 0);
    assert_int_equal(broker_usage_get(at(0)).memory_bytes, empty);
    assert_int_equal(subscribe(&b, 1, "q"), -ENOMEM);
    for (u32 i = 0; i < count; i++) pool_free(broker_pool(at(1)), small[i], 32);
    pool_free(broker_pool(at(1)), rest, rest_bytes);
    assert_int_equal(subscribe(&a, 0, "q"), BROKER_PENDING);
    net_pump();
    assert_int_equal(a.answered, 2);
    assert_int_equal(a.answer, 0);
    unsubscribe(&a);
    net_pump();
    assert_clean(empty);
    net_stop();
}

// Without memory to announce a removal it is announced later.
static void test_removal_waits_for_memory(void **state) {
    (void)state;
    u64 empty = start(2);
    probe a = {0};
    assert_int_equal(subscribe(&a, 0, "w"), BROKER_PENDING);
    net_pump();
    size_t rest_bytes = MEMORY - broker_usage_get(at(0)).memory_bytes - 2048;
    void *rest = pool_alloc(broker_pool(at(0)), rest_bytes);
    assert_non_null(rest);
    void *small[128];
    u32 count = 0;
    while ((small[count] = pool_alloc(broker_pool(at(0)), 32)) != NULL) count++;
    unsubscribe(&a);
    net_pump();
    // The subscription's own 64 bytes came free only after the attempt.
    assert_int_equal(broker_usage_get(at(1)).remote_filters, 1);
    for (u32 i = 0; i < count; i++) pool_free(broker_pool(at(0)), small[i], 32);
    pool_free(broker_pool(at(0)), rest, rest_bytes);
    net_advance_ms(100);
    net_pump();
    assert_clean(empty);
    net_stop();
}

static void test_callback_unsubscribes(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 2; workers++) {
        u64 empty = start(workers);
        probe a = {0}, b = {0}, c = {0}, d = {0}, e = {0};
        subscribe(&a, 0, "s/#");
        subscribe(&b, 0, "s/#");
        subscribe(&c, 0, "s/+");
        subscribe(&d, 0, "s/x");
        subscribe(&e, 0, "s/x");
        net_pump();
        a.unsubscribes = &b; // the next in the list
        c.unsubscribes = &c; // itself, the only one of its filter
        d.unsubscribes = &a; // of a filter that was visited before
        e.unsubscribes = &d;
        assert_int_equal(publish(workers - 1, "s/x"), 0);
        net_pump();
        assert_int_equal(a.received, 1);
        assert_int_equal(b.received, 0);
        assert_int_equal(c.received, 1);
        assert_int_equal(d.received, 1);
        assert_int_equal(e.received, 1);
        assert_int_equal(publish(workers - 1, "s/x"), 0);
        net_pump();
        assert_int_equal(a.received + c.received + d.received, 3);
        assert_int_equal(e.received, 2);
        unsubscribe(&e);
        net_pump();
        assert_clean(empty);
        net_stop();
    }
}

// What the walk stands on goes away behind it: itself with others following, and the only
// subscriptions of filters that the walk has still to visit.
static void test_callback_removes_what_comes(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 2; workers++) {
        u64 empty = start(workers);
        probe self = {0}, next = {0}, plus = {0}, root = {0}, hash = {0};
        subscribe(&self, 0, "s/x");
        subscribe(&next, 0, "s/x");
        subscribe(&plus, 0, "s/+");
        subscribe(&root, 0, "+/+/#");
        subscribe(&hash, 0, "#");
        net_pump();
        hash.unsubscribes = &plus; // the first to be visited
        self.unsubscribes = &self;
        next.unsubscribes = &root;
        assert_int_equal(publish(workers - 1, "s/x"), 0);
        net_pump();
        assert_int_equal(hash.received, 1);
        assert_int_equal(self.received, 1);
        assert_int_equal(next.received, 1);
        assert_int_equal(plus.received + root.received, 0);
        unsubscribe(&next);
        unsubscribe(&hash);
        net_pump();
        assert_clean(empty);
        net_stop();
    }
}

// More matching filters than the publisher remembers from its first walk.
static void test_many_matching_filters(void **state) {
    (void)state;
    enum { FILTERS = 128 };
    u64 empty = start(1);
    static probe all[FILTERS];
    static char filters[FILTERS][32];
    memset(all, 0, sizeof(all));
    for (u32 i = 0; i < FILTERS; i++) {
        char *out = filters[i];
        for (u32 bit = 0; bit < 7; bit++) {
            *out++ = i & (1u << bit) ? '+' : 'a';
            *out++ = bit == 6 ? '\0' : '/';
        }
        assert_int_equal(subscribe(&all[i], 0, filters[i]), 0);
    }
    all[0].unsubscribes = &all[1];
    assert_int_equal(publish(0, "a/a/a/a/a/a/a"), 0);
    u32 received = 0;
    for (u32 i = 0; i < FILTERS; i++) received += all[i].received;
    assert_int_equal(received, FILTERS - 1);
    for (u32 i = 0; i < FILTERS; i++) unsubscribe(&all[i]);
    assert_clean(empty);
    net_stop();
}

// Messages on their way when the process ends are freed with the broker (the leak check sees to
// it).
static void test_destroy_with_messages_in_transit(void **state) {
    (void)state;
    start(2);
    probe a = {0}, b = {0};
    subscribe(&a, 1, "d");
    net_pump();
    assert_int_equal(publish_bytes(0, "d", 100000), 0);
    assert_int_equal(publish_bytes(0, "d", 10), 0);
    subscribe(&b, 0, "d/e/f");
    net_stop();
}

static void test_random(void **state) {
    (void)state;
    enum { SUBSCRIBERS = 24, STEPS = 20000 };
    static const char *const filters[] = {"a", "a/b", "a/+", "#", "+/b", "a/#", "c/#", "+"};
    static const char *const topics[] = {"a", "a/b", "a/c", "c", "c/b"};
    static const u8 match[5][8] = {{1, 0, 0, 1, 0, 1, 0, 1}, {0, 1, 1, 1, 1, 1, 0, 0},
                                   {0, 0, 1, 1, 0, 1, 0, 0}, {0, 0, 0, 1, 0, 0, 1, 1},
                                   {0, 0, 0, 1, 1, 0, 1, 0}};
    for (u64 seed = 1; seed <= 4; seed++) {
        u64 empty = start(4), random = seed;
        net.random = seed;
        static probe all[SUBSCRIBERS];
        bool on[SUBSCRIBERS] = {false};
        memset(all, 0, sizeof(all));
        for (u32 step = 0; step < STEPS; step++) {
            u32 i = random_below(&random, SUBSCRIBERS), act = random_below(&random, 10);
            net.refuse[random_below(&random, 4)] = random_below(&random, 3) == 0;
            if (act < 3 && !on[i]) {
                all[i].answered = 0;
                const char *filter = filters[random_below(&random, 8)];
                if (subscribe(&all[i], i % 4, filter) == 0) all[i].answered = 1;
                on[i] = true;
            } else if (act < 5 && on[i]) {
                unsubscribe(&all[i]);
                on[i] = false;
            } else if (act < 9) {
                net_pump_one();
            } else {
                net_advance_ms(30);
            }
            if (step % 50 != 0) continue;
            // Everything settles; then one message reaches exactly the matching subscribers, once
            // each.
            memset(net.refuse, 0, sizeof(net.refuse));
            net_advance_ms(100);
            net_pump();
            u32 topic = random_below(&random, 5), before[SUBSCRIBERS];
            for (u32 k = 0; k < SUBSCRIBERS; k++) before[k] = all[k].received;
            assert_int_equal(publish(random_below(&random, 4), topics[topic]), 0);
            net_pump();
            for (u32 k = 0; k < SUBSCRIBERS; k++) {
                u32 expected = 0;
                for (u32 f = 0; on[k] && f < 8; f++) {
                    if (all[k].filter == filters[f]) expected = match[topic][f];
                }
                assert_int_equal(all[k].received - before[k], expected);
                if (on[k]) assert_int_equal(all[k].answered, 1);
            }
        }
        memset(net.refuse, 0, sizeof(net.refuse));
        for (u32 k = 0; k < SUBSCRIBERS; k++) {
            if (on[k]) unsubscribe(&all[k]);
        }
        net_advance_ms(100);
        net_pump();
        assert_clean(empty);
        net_stop();
    }
}

typedef struct owner {
    client client;
    u32 lost;
} owner;

static void owner_taken_over(client *c) {
    CONTAINER_OF(c, owner, client)->lost++;
}

static void test_clients(void **state) {
    (void)state;
    start(1);
    owner a = {.client = {.id = "one", .id_len = 3, .taken_over = owner_taken_over}}, b = a, c = a;
    c.client.id_len = 2;
    client_claim(at(0), &a.client);
    client_claim(at(0), &c.client);
    assert_int_equal(client_count(at(0)), 2);
    client_claim(at(0), &b.client);
    assert_int_equal(a.lost, 1);
    assert_int_equal(b.lost + c.lost, 0);
    client_release(at(0), &a.client); // has lost it: b keeps it
    assert_int_equal(client_count(at(0)), 2);
    client_release(at(0), &b.client);
    client_release(at(0), &b.client);
    client_release(at(0), &c.client);
    assert_int_equal(client_count(at(0)), 0);
    net_stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_between_workers),
        cmocka_unit_test(test_flapping),
        cmocka_unit_test(test_full_rings_lose_nothing),
        cmocka_unit_test(test_congestion_delivers_nothing),
        cmocka_unit_test(test_transit_budget),
        cmocka_unit_test(test_refused_filter),
        cmocka_unit_test(test_removal_waits_for_memory),
        cmocka_unit_test(test_callback_unsubscribes),
        cmocka_unit_test(test_callback_removes_what_comes),
        cmocka_unit_test(test_many_matching_filters),
        cmocka_unit_test(test_destroy_with_messages_in_transit),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
