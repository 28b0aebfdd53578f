// SPDX-License-Identifier: Apache-2.0
// test_broker_mt.c: brokers on threads of their own with real rings between them, for the thread
// sanitizer: filters come and go, messages, shared picks and retained pages travel; at the end every
// message was received by whom it should be, once, and everything has come home.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/broker.h"
#include "broker/retained.h"
#include "random.h"
#include "worker.h"

enum { WORKERS = 3, STEPS = 6000, RING = 64, MEMBERS = 4 };

typedef struct sink {
    subscriber s;
    u64 received, sum;
    int load;
    bool in_force;
} sink;

typedef struct place { // all of one thread
    worker w;
    u64 random;
    sink all;              // t/#, all the time
    sink members[MEMBERS]; // of $share/g/s/#; the first stays
    sink passing;          // comes and goes
    bool on[MEMBERS], passing_on;
    retained_reader reader;
    sink reads;
    u32 reads_done;
    u64 published, shared, shared_sum;
} place;

static gateway gw;
static worker workers[WORKERS];
static place places[WORKERS];
static spsc rings[WORKERS][WORKERS];
static u32 finished; // atomic
static u32 quiet;    // atomic: ends the threads

bool worker_post(worker *from, u32 to, const spsc_message *m) {
    return spsc_push(&rings[from->index][to], m);
}

bool worker_post_is_congested(const worker *w) {
    return w->overflow_total > 0;
}

static void require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "test_broker_mt: %s\n", what);
    abort();
}

static delivery_result sink_deliver(subscriber *s, delivery *d) {
    sink *to = CONTAINER_OF(s, sink, s);
    u64 number = 0;
    if (d->publication->payload_len == sizeof(number)) memcpy(&number, d->publication->payload, sizeof(number));
    to->received++;
    to->sum += number;
    return DELIVERY_TAKEN;
}

static int sink_load(const subscriber *s) {
    return CONTAINER_OF((uintptr_t)s, sink, s)->load;
}

static const subscriber_ops sink_ops = {.deliver = sink_deliver, .load = sink_load};

static void sink_subscribed(void *context, int result) {
    require(result == 0, "a subscription was refused");
    ((sink *)context)->in_force = true;
}

static void subscribe(place *p, sink *s, const char *share, const char *filter) {
    subscription_options o = {.qos = 1};
    int result = broker_subscribe(p->w.gw->workers[p->w.index].broker, &s->s, share,
                                  share == NULL ? 0 : (u32)strlen(share), filter, (u32)strlen(filter), &o,
                                  sink_subscribed, s, NULL);
    require(result >= 0, "subscribe");
    if (result == 0) s->in_force = true;
}

static worker *self(const place *p) {
    return &workers[p->w.index];
}

static void sink_init(place *p, sink *s) {
    s->s = (subscriber){.ops = &sink_ops, .number = broker_subscriber_number(self(p)->broker)};
}

static bool publish(place *p, const char *topic, u64 number, bool retain) {
    publication m = {.topic = topic, .topic_len = (u32)strlen(topic), .payload = (const u8 *)&number,
                     .payload_len = sizeof(number), .qos = 1, .retain = retain};
    int result = broker_publish(self(p)->broker, &m, NULL);
    require(result == 0 || result == -EAGAIN, "publish");
    return result == 0;
}

static void turn(place *p) {
    worker *w = self(p);
    for (u32 from = 0; from < WORKERS; from++) {
        spsc_message m;
        while (from != w->index && spsc_pop(&rings[from][w->index], &m)) broker_handle_message(w->broker, &m);
    }
    w->now_ns += NS_PER_MS;
    timer_run(w->wheel, w->now_ns);
}

static void read_done(retained_reader *r) {
    CONTAINER_OF(r, place, reader)->reads_done++;
}

static void act(place *p, u32 step) {
    broker *b = self(p)->broker;
    u32 i = 1 + random_below(&p->random, MEMBERS - 1);
    char topic[24];
    switch (random_below(&p->random, 12)) {
    case 0:
        if (p->on[i]) broker_unsubscribe_all(b, &p->members[i].s);
        else subscribe(p, &p->members[i], "g", "s/#");
        p->on[i] = !p->on[i];
        break;
    case 1:
        p->members[i].load = p->members[i].load < 0 ? 1 : -1;
        broker_subscriber_changed(b, &p->members[i].s);
        break;
    case 2:
        if (p->passing_on) broker_unsubscribe_all(b, &p->passing.s);
        else subscribe(p, &p->passing, NULL, "s/+");
        p->passing_on = !p->passing_on;
        break;
    case 3:
        snprintf(topic, sizeof(topic), "k/%u", random_below(&p->random, 500));
        publish(p, topic, step, true);
        break;
    case 4:
        if (p->reader.started) break;
        p->reader.done = read_done;
        subscription_options o = {.qos = 1};
        (void)retained_read_start(b, &p->reader, "k/#", 3, &p->reads.s, &o, NULL);
        break;
    case 5:
    case 6:
        p->published += publish(p, "t/x", step, false);
        break;
    case 7:
    case 8:
        if (!publish(p, "s/y", step, false)) break;
        p->shared++;
        p->shared_sum += step;
        break;
    default: turn(p);
    }
}

static void *run(void *context) {
    place *p = context;
    sink_init(p, &p->all);
    sink_init(p, &p->passing);
    sink_init(p, &p->reads);
    for (u32 i = 0; i < MEMBERS; i++) sink_init(p, &p->members[i]);
    subscribe(p, &p->all, NULL, "t/#");
    subscribe(p, &p->members[0], "g", "s/#");
    // In force everywhere before anybody publishes.
    while (!p->all.in_force || !p->members[0].in_force) {
        turn(p);
        sched_yield();
    }
    __atomic_fetch_add(&finished, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < WORKERS) turn(p);
    for (u32 step = 0; step < STEPS; step++) act(p, step);
    __atomic_fetch_add(&finished, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&quiet, __ATOMIC_SEQ_CST)) {
        turn(p);
        sched_yield();
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static config conf;
    pthread_t threads[WORKERS];
    gw = (gateway){.conf = &conf, .worker_count = WORKERS, .workers = workers};
    for (u32 i = 0; i < WORKERS; i++) {
        for (u32 k = 0; k < WORKERS; k++) assert_int_equal(spsc_init(&rings[i][k], RING), 0);
        workers[i].index = i;
        workers[i].gw = &gw;
        workers[i].conf = &conf;
        workers[i].now_ns = NS_PER_S;
        workers[i].wheel = timer_wheel_create(NS_PER_S, &workers[i]);
        workers[i].broker = broker_create(&(broker_config){.owner = &workers[i], .memory_bytes = 64u << 20});
        assert_non_null(workers[i].broker);
        places[i].w.index = i;
        places[i].w.gw = &gw;
        places[i].random = 77 + i;
    }
    for (u32 i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run, &places[i]), 0);
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < 2 * WORKERS) sched_yield();
    // Everything comes to rest: nothing in transit on any worker, looked at several times.
    for (u32 still = 0, tries = 0; still < 50 && tries < 100000; tries++) {
        u64 moving = 0;
        for (u32 i = 0; i < WORKERS; i++) {
            broker_usage u = broker_usage_get(workers[i].broker);
            moving += u.in_transit + u.shared_waiting;
        }
        still = moving == 0 ? still + 1 : 0;
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
    __atomic_store_n(&quiet, 1, __ATOMIC_SEQ_CST);
    u64 published = 0, shared = 0, shared_sum = 0, got = 0, got_sum = 0, dropped = 0;
    for (u32 i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        published += places[i].published;
        shared += places[i].shared;
        shared_sum += places[i].shared_sum;
        for (u32 k = 0; k < MEMBERS; k++) {
            got += places[i].members[k].received;
            got_sum += places[i].members[k].sum;
        }
        dropped += broker_usage_get(workers[i].broker).shared_dropped;
    }
    for (u32 i = 0; i < WORKERS; i++) assert_int_equal(places[i].all.received, published);
    assert_int_equal(dropped, 0);
    assert_int_equal(got, shared);
    assert_int_equal(got_sum, shared_sum);
    assert_true(published > 1000 && shared > 1000);
    for (u32 i = 0; i < WORKERS; i++) assert_true(places[i].reads_done > 0);
    for (u32 i = 0; i < WORKERS; i++) broker_destroy(workers[i].broker);
    for (u32 i = 0; i < WORKERS; i++) {
        timer_wheel_destroy(workers[i].wheel);
        for (u32 k = 0; k < WORKERS; k++) spsc_free(&rings[i][k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
