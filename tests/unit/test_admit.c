// SPDX-License-Identifier: Apache-2.0
// test_admit.c: messages that a subscriber refuses because its queue is full (broker/admit.c): nobody gets them, on
// whichever worker they are published, and they pass as soon as there is room.
#include "broker_rig.h"

static bool full[64]; // by worker: its rejecting peers are full

static bool peer_refuses(const subscriber *s, const delivery *d) {
    (void)d;
    return full[CONTAINER_OF((uintptr_t)s, peer, s)->worker];
}

static const subscriber_ops rejecting_ops = {.deliver = peer_deliver, .load = peer_load, .refuses = peer_refuses};

static void set_full(u32 worker, bool is_full) {
    if (full[worker] == is_full) return;
    full[worker] = is_full;
    admit_session_full(at(worker), is_full);
}

static void rejecting_init(peer *p, u32 worker) {
    peer_init(p, worker);
    p->s.ops = &rejecting_ops;
}

static int ask_once(u32 worker, const char *topic, bool refusable, u8 qos) {
    publication p = publication_of(topic, "1", qos, false);
    p.refusable = refusable;
    return broker_publish(at(worker), &p, NULL);
}

// As a connection does: it comes again when the loop has run.
static int publish_refusable(u32 worker, const char *topic) {
    int result = ask_once(worker, topic, true, 1);
    for (u32 i = 0; i < 10 && result == -EAGAIN; i++) {
        net_pump();
        result = ask_once(worker, topic, true, 1);
    }
    net_pump();
    return result;
}

static void test_nobody_gets_what_one_refuses(void **state) {
    (void)state;
    enum { WORKERS = 3 };
    start(WORKERS);
    peer picky, plain[WORKERS];
    rejecting_init(&picky, 1);
    subscribe(&picky, NULL, "t/+");
    for (u32 i = 0; i < WORKERS; i++) {
        peer_init(&plain[i], i);
        subscribe(&plain[i], NULL, "#");
    }
    settle();
    for (u32 w = 0; w < WORKERS; w++) assert_int_equal(publish_refusable(w, "t/1"), 0);
    assert_int_equal(picky.received, WORKERS);
    set_full(1, true);
    assert_int_equal(broker_usage_get(at(1)).sessions_full, 1);
    for (u32 w = 0; w < WORKERS; w++) {
        assert_int_equal(publish_refusable(w, "t/1"), -ENOBUFS);
        assert_int_equal(publish_refusable(w, "t/2"), -ENOBUFS);
        assert_int_equal(publish_refusable(w, "other"), 0);
        assert_int_equal(ask_once(w, "t/1", false, 1), 0); // who can not be told
        assert_int_equal(ask_once(w, "t/1", true, 0), 0);
        settle();
    }
    assert_int_equal(picky.received, 3 * WORKERS);
    for (u32 i = 0; i < WORKERS; i++) assert_int_equal(plain[i].received, 4 * WORKERS);
    set_full(1, false);
    for (u32 w = 0; w < WORKERS; w++) assert_int_equal(publish_refusable(w, "t/1"), 0);
    assert_int_equal(picky.received, 4 * WORKERS);
    unsubscribe(&picky, NULL, "t/+");
    for (u32 i = 0; i < WORKERS; i++) unsubscribe(&plain[i], NULL, "#");
    stop_clean();
}

// Full ones on two other workers: both are asked, and either refuses.
static void test_several_workers(void **state) {
    (void)state;
    start(3);
    peer one, two;
    rejecting_init(&one, 1);
    rejecting_init(&two, 2);
    subscribe(&one, NULL, "a");
    subscribe(&two, NULL, "a");
    subscribe(&two, NULL, "b");
    settle();
    set_full(1, true);
    assert_int_equal(publish_refusable(0, "b"), 0);
    assert_int_equal(publish_refusable(0, "a"), -ENOBUFS);
    set_full(2, true);
    assert_int_equal(publish_refusable(0, "b"), -ENOBUFS);
    set_full(1, false);
    settle();
    assert_int_equal(publish_refusable(0, "a"), -ENOBUFS);
    set_full(2, false);
    assert_int_equal(publish_refusable(0, "a"), 0);
    assert_int_equal(one.received, 1);
    assert_int_equal(two.received, 2);
    broker_unsubscribe_all(at(1), &one.s);
    broker_unsubscribe_all(at(2), &two.s);
    stop_clean();
}

// More topics than there are places for answers, asked at the same time: all are answered.
static void test_many_topics_at_once(void **state) {
    (void)state;
    enum { TOPICS = 300 };
    start(2);
    peer picky;
    rejecting_init(&picky, 1);
    subscribe(&picky, NULL, "full/#");
    peer plain;
    peer_init(&plain, 1);
    subscribe(&plain, NULL, "open/#");
    settle();
    set_full(1, true);
    int result[TOPICS];
    for (u32 i = 0; i < TOPICS; i++) result[i] = -EAGAIN;
    u32 left = TOPICS;
    for (u32 round = 0; round < 100 && left > 0; round++) {
        for (u32 i = 0; i < TOPICS; i++) {
            char topic[32];
            snprintf(topic, sizeof(topic), "%s/%u", i % 2 ? "full" : "open", i);
            if (result[i] != -EAGAIN) continue;
            result[i] = ask_once(0, topic, true, 2);
            left -= result[i] != -EAGAIN;
        }
        net_pump();
        net_advance_ms(1);
    }
    assert_int_equal(left, 0);
    for (u32 i = 0; i < TOPICS; i++) assert_int_equal(result[i], i % 2 ? -ENOBUFS : 0);
    settle();
    assert_int_equal(plain.received, TOPICS / 2);
    assert_int_equal(picky.received, 0);
    set_full(1, false);
    unsubscribe(&picky, NULL, "full/#");
    unsubscribe(&plain, NULL, "open/#");
    stop_clean();
}

// An answer that nobody has come for gives its place up, and an old one is not believed.
static void test_answers_grow_old(void **state) {
    (void)state;
    start(2);
    peer picky;
    rejecting_init(&picky, 1);
    subscribe(&picky, NULL, "a");
    settle();
    set_full(1, true);
    assert_int_equal(ask_once(0, "a", true, 1), -EAGAIN);
    net_pump();
    net_advance_ms(1000);
    full[1] = false; // another session there is full yet
    assert_int_equal(ask_once(0, "a", true, 1), -EAGAIN);
    net_pump();
    assert_int_equal(ask_once(0, "a", true, 1), 0);
    full[1] = true;
    set_full(1, false);
    unsubscribe(&picky, NULL, "a");
    stop_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_gets_what_one_refuses),
        cmocka_unit_test(test_several_workers),
        cmocka_unit_test(test_many_topics_at_once),
        cmocka_unit_test(test_answers_grow_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
