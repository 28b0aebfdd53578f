// SPDX-License-Identifier: Apache-2.0
// test_shared.c: shared subscriptions between workers: each message to exactly one member, evenly,
// to online members only while there are any, handed on when members are full or leave, nothing
// lost and nothing given twice.
#include "broker_rig.h"

enum { PEERS_MAX = 24 };
static peer peers[PEERS_MAX];

static u32 total_received(u32 count) {
    u32 total = 0;
    for (u32 i = 0; i < count; i++) total += peers[i].received;
    return total;
}

static u64 total_sum(u32 count) {
    u64 total = 0;
    for (u32 i = 0; i < count; i++) total += peers[i].sum;
    return total;
}

static void members(u32 count, u32 workers) {
    for (u32 i = 0; i < count; i++) {
        peer_init(&peers[i], i % workers);
        subscribe(&peers[i], "g", "s/#");
        net_pump();
    }
}

static void presence(peer *p, int load) {
    p->load = load;
    broker_subscriber_changed(at(p->worker), &p->s);
}

static void end_all(u32 count) {
    for (u32 i = 0; i < count; i++) broker_unsubscribe_all(at(peers[i].worker), &peers[i].s);
    stop_clean();
}

static void test_in_turn(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 4; workers++) {
        start(workers);
        members(7, workers);
        peer plain; // gets everything, besides
        peer_init(&plain, 0);
        subscribe(&plain, NULL, "s/a");
        net_pump();
        u64 posts = net.posts;
        for (u32 i = 0; i < 700; i++) {
            assert_int_equal(publish(i % workers, "s/a", "1", 1), 0);
            net_pump();
        }
        for (u32 i = 0; i < 7; i++) assert_in_range(peers[i].received, 95, 105);
        assert_int_equal(total_received(7), 700);
        assert_int_equal(plain.received, 700);
        assert_true(peers[0].share != 0 && plain.share == 0);
        // One message to each worker concerned, and its return.
        assert_true(net.posts - posts <= 700 * 2 * 2);
        broker_unsubscribe_all(at(0), &plain.s);
        end_all(7);
    }
}

static void test_two_groups_and_both_kinds(void **state) {
    (void)state;
    start(2);
    peer a;
    peer_init(&a, 1);
    subscribe(&a, "g", "s/+");
    subscribe(&a, "h", "s/+");
    subscribe(&a, NULL, "s/+");
    net_pump();
    publish(0, "s/1", "1", 1);
    net_pump();
    assert_int_equal(a.received, 3); // a shared match is a delivery of its own
    assert_true(unsubscribe(&a, "g", "s/+"));
    assert_true(unsubscribe(&a, NULL, "s/+"));
    publish(0, "s/1", "1", 1);
    net_pump();
    assert_int_equal(a.received, 4);
    broker_unsubscribe_all(at(1), &a.s);
    stop_clean();
}

static void test_sticky(void **state) {
    (void)state;
    start(3);
    net.conf.shared_strategy = SHARED_STICKY;
    members(6, 3);
    for (u32 i = 0; i < 30; i++) publish(i % 3, "s/a", "1", 1);
    net_pump();
    u32 holder = 0;
    while (peers[holder].received == 0) holder++;
    assert_int_equal(peers[holder].received, 30);
    presence(&peers[holder], -1);
    net_pump();
    for (u32 i = 0; i < 30; i++) publish(i % 3, "s/a", "1", 1);
    net_pump();
    u32 others = 0;
    for (u32 i = 0; i < 6; i++) others += peers[i].received == 30;
    assert_int_equal(others, 2);
    end_all(6);
}

static void test_least_in_flight(void **state) {
    (void)state;
    start(2);
    net.conf.shared_strategy = SHARED_LEAST_IN_FLIGHT;
    members(4, 2);
    peers[0].load = 50;
    peers[1].load = 50;
    peers[2].load = 1;  // worker 0
    peers[3].load = 20; // worker 1
    for (u32 i = 0; i < 100; i++) {
        publish(0, "s/a", "1", 1);
        net_pump();
    }
    assert_int_equal(peers[0].received + peers[1].received, 0);
    assert_true(peers[2].received >= 99); // the other worker's load is known after one
    assert_int_equal(total_received(4), 100);
    end_all(4);
}

// QoS 1 goes to an offline member only when nobody is online anywhere; QoS 0 to none.
static void test_offline_members(void **state) {
    (void)state;
    start(3);
    members(3, 3);
    presence(&peers[0], -1);
    presence(&peers[1], -1);
    net_pump();
    for (u32 i = 0; i < 30; i++) publish(i % 3, "s/a", "1", 1);
    net_pump();
    assert_int_equal(peers[2].received, 30);
    presence(&peers[2], -1);
    net_pump();
    for (u32 i = 0; i < 30; i++) publish(i % 3, "s/a", "1", 1);
    net_pump();
    assert_int_equal(total_received(3), 60);
    publish(0, "s/a", "1", 0);
    net_pump();
    assert_int_equal(total_received(3), 60);
    assert_int_equal(broker_usage_get(at(0)).shared_dropped, 1);
    presence(&peers[1], 0);
    net_pump();
    for (u32 i = 0; i < 30; i++) publish(i % 3, "s/a", "1", 0);
    net_pump();
    assert_int_equal(total_received(3), 90);
    end_all(3);
}

// A member that goes offline while a message is on its way to its worker.
static void test_leaves_on_the_way(void **state) {
    (void)state;
    for (u32 way = 0; way < 3; way++) {
        start(3);
        members(3, 3);
        presence(&peers[0], -1);
        net_pump();
        u32 first = peers[1].received;
        for (u32 i = 0; i < 2; i++) publish(0, "s/a", "1", 1); // one to each of 1 and 2
        if (way == 0) presence(&peers[1], -1);
        if (way == 1) broker_unsubscribe_all(at(1), &peers[1].s);
        if (way == 2) peers[1].room = 0;
        settle();
        assert_int_equal(peers[1].received, first);
        assert_int_equal(peers[2].received, 2);
        assert_int_equal(broker_usage_get(at(0)).shared_handed_on, 1);
        // The last one online: then the offline one gets them.
        publish(0, "s/a", "1", 1);
        publish(0, "s/a", "1", 1);
        broker_unsubscribe_all(at(1), &peers[1].s);
        broker_unsubscribe_all(at(2), &peers[2].s);
        settle();
        assert_int_equal(total_received(3), 4);
        assert_int_equal(peers[0].received, 2);
        end_all(3);
    }
}

// All online members full: QoS 1 waits and comes in order, QoS 0 is dropped; nothing to the offline one.
static void test_all_full(void **state) {
    (void)state;
    start(2);
    members(3, 2);
    presence(&peers[2], -1);
    peers[0].room = peers[1].room = 0;
    net_pump();
    for (u32 i = 1; i <= 200; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%u", i);
        publish(i % 2, "s/a", text, i == 200 ? 0 : 1);
    }
    settle();
    assert_int_equal(total_received(3), 0);
    u64 waiting = broker_usage_get(at(0)).shared_waiting + broker_usage_get(at(1)).shared_waiting;
    assert_int_equal(waiting, 199);
    assert_int_equal(broker_usage_get(at(0)).shared_dropped, 1);
    peers[1].room = UINT32_MAX;
    broker_subscriber_changed(at(1), &peers[1].s);
    settle();
    assert_int_equal(peers[1].received, 199);
    assert_int_equal(peers[1].sum, 199 * 200 / 2);
    assert_int_equal(peers[2].received, 0);
    end_all(3);
}

static void test_waiting_is_bounded(void **state) {
    (void)state;
    start(1);
    members(1, 1);
    peers[0].room = 0;
    for (u32 i = 0; i < LIMIT_SHARED_WAITING + 10; i++) publish(0, "s/a", "1", 1);
    assert_int_equal(broker_usage_get(at(0)).shared_waiting, LIMIT_SHARED_WAITING);
    assert_int_equal(broker_usage_get(at(0)).shared_dropped, 10);
    publication p = publication_of("s/b", "1", 1, false);
    p.expires_ns = net.workers[0].now_ns + NS_PER_MS;
    peers[0].room = 5;
    broker_subscriber_changed(at(0), &peers[0].s);
    settle();
    assert_int_equal(peers[0].received, 5);
    assert_int_equal(broker_usage_get(at(0)).shared_waiting, LIMIT_SHARED_WAITING - 5);
    assert_int_equal(broker_publish(at(0), &p, NULL), 0);
    settle();
    peers[0].room = UINT32_MAX; // what has expired meanwhile is not delivered
    broker_subscriber_changed(at(0), &peers[0].s);
    settle();
    assert_int_equal(peers[0].received, LIMIT_SHARED_WAITING);
    end_all(1); // and with it what waits, if anything did
}

// What a member that left for good had not acknowledged goes to others, once.
static void test_redistribute(void **state) {
    (void)state;
    start(2);
    members(2, 2);
    peers[0].keeps = peers[1].keeps = true;
    presence(&peers[1], -1);
    net_pump();
    publish(0, "s/a", "5", 1);
    net_pump();
    assert_int_equal(peers[0].received, 1);
    message *m = peers[0].kept;
    u32 share = peers[0].share;
    presence(&peers[1], 0);
    broker_unsubscribe_all(at(0), &peers[0].s);
    assert_int_equal(broker_redistribute(at(0), share, m), 0);
    message_unref(m);
    settle();
    assert_int_equal(peers[1].received, 1);
    assert_int_equal(peers[1].sum, 5);
    m = peers[1].kept;
    share = peers[1].share;
    broker_unsubscribe_all(at(1), &peers[1].s);
    settle();
    assert_int_equal(broker_redistribute(at(1), share, m), -ENOENT); // nobody is left
    message_unref(m);
    stop_clean();
}

static void hook_leave(peer *p) {
    p->hook = NULL;
    presence(p, -1);
}

static void hook_end(peer *p) {
    p->hook = NULL;
    broker_unsubscribe_all(at(p->worker), &p->s);
}

static void hook_publish_more(peer *p) {
    p->hook = NULL;
    assert_int_equal(publish(p->worker, "s/a", "1", 1), 0);
}

static void test_callbacks(void **state) {
    (void)state;
    void (*const hooks[])(peer *p) = {hook_leave, hook_end, hook_publish_more};
    for (u32 strategy = 0; strategy < 3; strategy++) {
        for (u32 i = 0; i < 3; i++) {
            start(2);
            net.conf.shared_strategy = (shared_strategy)strategy;
            members(6, 2);
            for (u32 k = 0; k < 6; k++) peers[k].hook = hooks[i];
            for (u32 k = 0; k < 20; k++) publish(k % 2, "s/a", "1", 1);
            settle();
            if (i == 0) assert_int_equal(total_received(6), 20); // the last of them to offline members
            if (i == 1) assert_in_range(total_received(6), 6, 20);
            if (i == 2) assert_int_equal(total_received(6), 20 + (strategy == SHARED_STICKY ? 1 : 6));
            end_all(6);
        }
    }
}

// Everything at random; then each QoS 1 message is either received once, dropped and counted, or the
// publisher was told.
static void test_random(void **state) {
    (void)state;
    for (u64 seed = 1; seed <= 6; seed++) {
        start(4);
        net.random = seed;
        net.conf.shared_strategy = (shared_strategy)(seed % 3);
        u64 random = seed * 77;
        u64 accepted = 0, expected = 0;
        bool on[PEERS_MAX] = {false};
        for (u32 i = 0; i < PEERS_MAX; i++) peer_init(&peers[i], i % 4);
        subscribe(&peers[0], "g", "s/#"); // one stays, so the group does
        on[0] = true;
        settle();
        for (u32 step = 0; step < 20000; step++) {
            u32 i = 1 + random_below(&random, PEERS_MAX - 1), act = random_below(&random, 12);
            net.refuse[random_below(&random, 4)] = random_below(&random, 4) == 0;
            net.congested[random_below(&random, 4)] = random_below(&random, 8) == 0;
            if (act == 0 && !on[i]) {
                subscribe(&peers[i], "g", "s/#");
                on[i] = true;
            } else if (act == 1 && on[i]) {
                broker_unsubscribe_all(at(peers[i].worker), &peers[i].s);
                on[i] = false;
            } else if (act == 2) {
                peers[i].load = peers[i].load < 0 ? 3 : -1;
                broker_subscriber_changed(at(peers[i].worker), &peers[i].s);
            } else if (act == 3) {
                peers[i].room = random_below(&random, 2) == 0 ? 0 : UINT32_MAX;
                broker_subscriber_changed(at(peers[i].worker), &peers[i].s);
            } else if (act < 7) {
                char text[16];
                snprintf(text, sizeof(text), "%u", step);
                int result = publish(random_below(&random, 4), "s/a", text, 1);
                assert_true(result == 0 || result == -EAGAIN);
                if (result == 0) {
                    accepted++;
                    expected += step;
                }
            } else if (act < 11) {
                net_pump_one();
            } else {
                net_advance_ms(10);
            }
        }
        memset(net.refuse, 0, sizeof(net.refuse));
        memset(net.congested, 0, sizeof(net.congested));
        for (u32 i = 0; i < PEERS_MAX; i++) peers[i].room = UINT32_MAX;
        presence(&peers[0], 0);
        for (u32 i = 0; i < 20; i++) settle();
        u64 dropped = 0, waiting = 0;
        for (u32 i = 0; i < 4; i++) {
            dropped += broker_usage_get(at(i)).shared_dropped;
            waiting += broker_usage_get(at(i)).shared_waiting;
        }
        assert_int_equal(waiting, 0);
        assert_int_equal(total_received(PEERS_MAX) + dropped, accepted);
        if (dropped == 0) assert_int_equal(total_sum(PEERS_MAX), expected);
        assert_true(dropped < accepted / 20);
        end_all(PEERS_MAX);
    }
}

// No memory, at each amount that is left: the message is with one member or the publisher was told, or
// it is counted as dropped.
static void test_without_memory(void **state) {
    (void)state;
    for (u32 rest = 0; rest < 4000; rest += 61) {
        start(2);
        members(2, 2);
        presence(&peers[0], -1);
        net_pump();
        hog_memory(rest % 2, rest);
        u32 accepted = 0;
        for (u32 i = 0; i < 4; i++) accepted += publish(0, "s/a", "1", 1) == 0;
        broker_unsubscribe_all(at(1), &peers[1].s); // handed on to the offline one
        settle();
        hog_end();
        settle();
        u64 dropped = broker_usage_get(at(0)).shared_dropped + broker_usage_get(at(1)).shared_dropped;
        assert_int_equal(total_received(2) + dropped, accepted);
        end_all(2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_turn),
        cmocka_unit_test(test_two_groups_and_both_kinds),
        cmocka_unit_test(test_sticky),
        cmocka_unit_test(test_least_in_flight),
        cmocka_unit_test(test_offline_members),
        cmocka_unit_test(test_leaves_on_the_way),
        cmocka_unit_test(test_all_full),
        cmocka_unit_test(test_waiting_is_bounded),
        cmocka_unit_test(test_redistribute),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
