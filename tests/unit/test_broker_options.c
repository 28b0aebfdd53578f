// SPDX-License-Identifier: Apache-2.0
// test_broker_options.c: what MQTT asks of a subscription: options, overlapping filters, identifiers,
// no local; messages kept by reference; callbacks that publish, end subscribers and subscribe.
#include "broker/inspect.h"
#include "broker_rig.h"

static void test_overlap_is_one_delivery(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 2; workers++) {
        start(workers);
        peer a, b;
        peer_init(&a, 0);
        peer_init(&b, 0);
        subscribe_as(&a, NULL, "x/#", &(subscription_options){.qos = 0, .id = 7}, NULL);
        subscribe_as(&a, NULL, "x/+", &(subscription_options){.qos = 1}, NULL);
        subscribe_as(&a, NULL, "x/y", &(subscription_options){.qos = 2, .id = 9}, NULL);
        subscribe_as(&b, NULL, "x/y", &(subscription_options){.qos = 1}, NULL);
        net_pump();
        assert_int_equal(publish(workers - 1, "x/y", "1", 1), 0);
        net_pump();
        assert_int_equal(a.received, 1);
        assert_int_equal(a.qos, 1); // the highest granted, but not above the publisher's
        assert_int_equal(a.id_count, 2);
        assert_int_equal(a.ids[0] + a.ids[1], 16);
        assert_int_equal(b.received, 1);
        assert_int_equal(b.id_count, 0);
        assert_int_equal(publish(workers - 1, "x/z", "1", 2), 0);
        net_pump();
        assert_int_equal(a.received, 2);
        assert_int_equal(a.qos, 1);
        assert_int_equal(a.id_count, 1);
        broker_unsubscribe_all(at(0), &a.s);
        broker_unsubscribe_all(at(0), &a.s); // harmless
        assert_int_equal(a.s.subscription_count, 0);
        assert_true(unsubscribe(&b, NULL, "x/y"));
        assert_false(unsubscribe(&b, NULL, "x/y"));
        stop_clean();
    }
}

// More overlapping filters with identifiers than fit at hand.
static void test_many_identifiers(void **state) {
    (void)state;
    enum { FILTERS = 128 };
    start(1);
    peer a;
    peer_init(&a, 0);
    for (u32 i = 0; i < FILTERS; i++) {
        char filter[16];
        for (u32 bit = 0; bit < 7; bit++) {
            filter[2 * bit] = i & (1u << bit) ? '+' : 'a';
            filter[2 * bit + 1] = bit == 6 ? '\0' : '/';
        }
        assert_int_equal(subscribe_as(&a, NULL, filter, &(subscription_options){.id = 1 + i}, NULL), 0);
    }
    u64 before = memory(0);
    assert_int_equal(publish(0, "a/a/a/a/a/a/a", "1", 0), 0);
    assert_int_equal(a.received, 1);
    assert_int_equal(a.id_count, FILTERS);
    broker_trim(at(0));
    assert_int_equal(memory(0), before);
    hog_memory(0, 256); // no memory to gather: refused before anybody gets it
    assert_int_equal(publish(0, "a/a/a/a/a/a/a", "1", 0), -ENOMEM);
    assert_int_equal(a.received, 1);
    hog_end();
    broker_unsubscribe_all(at(0), &a.s);
    stop_clean();
}

static void test_options_and_existed(void **state) {
    (void)state;
    start(1);
    peer a;
    peer_init(&a, 0);
    bool existed = true;
    assert_int_equal(subscribe_as(&a, NULL, "t", &(subscription_options){.qos = 0}, &existed), 0);
    assert_false(existed);
    assert_int_equal(subscribe_as(&a, "g", "t", &(subscription_options){.qos = 0}, &existed), 0);
    assert_false(existed); // another subscription
    subscription_options o = {.qos = 2, .retain_as_published = true, .id = 3};
    assert_int_equal(subscribe_as(&a, NULL, "t", &o, &existed), 0);
    assert_true(existed);
    assert_true(unsubscribe(&a, "g", "t"));
    assert_int_equal(retain(0, "t", "1"), 0);
    assert_int_equal(a.received, 1);
    assert_true(a.retain && !a.retained);
    o.retain_as_published = false;
    subscribe_as(&a, NULL, "t", &o, NULL);
    assert_int_equal(retain(0, "t", ""), 0); // deletes
    assert_false(a.retain);
    // No local, one of two overlapping ones.
    o.no_local = true;
    subscribe_as(&a, NULL, "t", &o, NULL);
    subscribe_as(&a, NULL, "+", &(subscription_options){.qos = 0, .id = 4}, NULL);
    publication p = publication_of("t", "1", 2, false);
    p.publisher = a.s.number;
    bool matched = false;
    assert_int_equal(broker_publish(at(0), &p, &matched), 0);
    assert_int_equal(a.received, 3);
    assert_int_equal(a.qos, 0);
    assert_int_equal(a.ids[0], 4);
    assert_int_equal(a.id_count, 1);
    assert_true(matched);
    assert_true(unsubscribe(&a, NULL, "+"));
    assert_int_equal(broker_publish(at(0), &p, &matched), 0);
    assert_int_equal(a.received, 3);
    assert_int_equal(subscribe_as(&a, "", "t", &o, NULL), -EINVAL);
    assert_int_equal(subscribe_as(&a, "a/b", "t", &o, NULL), -EINVAL);
    assert_int_equal(subscribe_as(&a, "a+", "t", &o, NULL), -EINVAL);
    broker_unsubscribe_all(at(0), &a.s);
    assert_int_equal(broker_publish(at(0), &p, &matched), 0);
    assert_false(matched);
    stop_clean();
}

static void test_matched_elsewhere(void **state) {
    (void)state;
    start(2);
    peer a;
    peer_init(&a, 1);
    subscribe(&a, NULL, "m");
    net_pump();
    publication p = publication_of("m", "1", 1, false);
    bool matched = false;
    assert_int_equal(broker_publish(at(0), &p, &matched), 0);
    assert_true(matched);
    broker_unsubscribe_all(at(1), &a.s);
    net_pump();
    assert_int_equal(broker_publish(at(0), &p, &matched), 0);
    assert_false(matched);
    stop_clean();
}

static void count_visit(const subscription_view *view, void *context) {
    u32 *count = context;
    assert_true(view->in_force);
    if (view->share != NULL) {
        assert_memory_equal(view->share, "g", 1);
        assert_int_equal(view->share_len, 1);
    }
    assert_int_equal(view->filter_len, 3);
    *count += view->options.id;
}

static void test_enumeration(void **state) {
    (void)state;
    start(1);
    peer a;
    peer_init(&a, 0);
    subscribe_as(&a, NULL, "a/b", &(subscription_options){.id = 1}, NULL);
    subscribe_as(&a, NULL, "a/+", &(subscription_options){.id = 10}, NULL);
    subscribe_as(&a, "g", "a/#", &(subscription_options){.id = 100}, NULL);
    u32 sum = 0;
    assert_int_equal(broker_subscriptions(at(0), &a.s, count_visit, &sum), 0);
    assert_int_equal(sum, 111);
    broker_unsubscribe_all(at(0), &a.s);
    stop_clean();
}

// Rows for operators: everything once, however many steps it takes.
static void test_inspection(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    start(1);
    static peer peers[COUNT];
    static u8 data[INSPECT_ROW_BYTES_MAX + 65536];
    char text[32];
    for (u32 i = 0; i < COUNT; i++) {
        peer_init(&peers[i], 0);
        snprintf(text, sizeof(text), "i/%u/+", i);
        subscribe(&peers[i], i % 10 == 0 ? "g" : NULL, text);
        snprintf(text, sizeof(text), "k/%u/x", i);
        assert_int_equal(retain(0, text, "1"), 0);
    }
    for (u32 list = 0; list < 4; list++) {
        inspect_rows rows = {.data = data, .size = sizeof(data)};
        u32 count = 0, steps = 0, shared = 0;
        do {
            rows.used = rows.count = 0;
            if (list < 2) inspect_subscriptions(at(0), list == 0 ? "" : "/77", "", &rows);
            else inspect_retained(at(0), list == 2 ? "" : "/77", &rows);
            count += rows.count;
            steps++;
            for (u32 i = 0; i < rows.used;) {
                inspect_row row;
                memcpy(&row, data + i, sizeof(row));
                const char *topic = (const char *)data + i + sizeof(row);
                assert_memory_equal(topic, list < 2 ? "i/" : "k/", 2);
                assert_int_equal(topic[row.topic_len - 1], list < 2 ? '+' : 'x');
                shared += row.share_len;
                i += row.bytes;
            }
        } while (rows.more);
        assert_int_equal(count, list % 2 == 0 ? COUNT : 11); // 77 and 770 to 779
        if (list == 0) assert_int_equal(shared, COUNT / 10);
        assert_true(steps > 1);
    }
    inspect_rows rows = {.data = data, .size = sizeof(data)};
    inspect_subscriptions(at(0), "", "nobody", &rows);
    assert_int_equal(rows.count, 0);
    for (u32 i = 0; i < COUNT; i++) {
        broker_unsubscribe_all(at(0), &peers[i].s);
        snprintf(text, sizeof(text), "k/%u/x", i);
        assert_int_equal(retain(0, text, ""), 0);
    }
    stop_clean();
}

// A message is stored once a worker, however many keep it.
static void test_kept_by_reference(void **state) {
    (void)state;
    enum { PEERS = 200 };
    static peer peers[PEERS];
    start(2);
    for (u32 i = 0; i < PEERS; i++) {
        peer_init(&peers[i], i % 2);
        peers[i].keeps = true;
        subscribe(&peers[i], NULL, "k/#");
    }
    net_pump();
    u64 before = memory(0) + memory(1);
    static char payload[1025];
    memset(payload, '1', 1024);
    assert_int_equal(publish(0, "k/1", payload, 1), 0);
    net_pump();
    assert_int_equal(broker_usage_get(at(0)).messages, 1);
    assert_int_equal(broker_usage_get(at(1)).messages, 1);
    assert_true(memory(0) + memory(1) - before < 4096);
    for (u32 i = 0; i < PEERS; i++) {
        assert_non_null(peers[i].kept);
        assert_int_equal(peers[i].kept->payload_len, 1024);
        assert_memory_equal(message_payload(peers[i].kept), payload, 1024);
        assert_memory_equal(message_topic(peers[i].kept), "k/1", 3);
        assert_ptr_equal(peers[i].kept, peers[i % 2].kept);
    }
    for (u32 i = 0; i < PEERS; i++) {
        message_unref(peers[i].kept);
        broker_unsubscribe_all(at(i % 2), &peers[i].s);
    }
    stop_clean();
}

static peer *hook_other;

static void hook_publish(peer *p) {
    p->hook = NULL;
    assert_int_equal(publish(p->worker, "n/b", "2", 0), 0);
}

static void hook_end_other(peer *p) {
    broker_unsubscribe_all(at(p->worker), &hook_other->s);
    memset(hook_other, 0xa5, sizeof(*hook_other)); // its memory is gone
    p->hook = NULL;
}

static void hook_end_self(peer *p) {
    broker_unsubscribe_all(at(p->worker), &p->s);
    p->hook = NULL;
}

static void hook_subscribe(peer *p) {
    p->hook = NULL;
    subscribe(p, NULL, "n/+");
    subscribe(p, NULL, "n/#");
    subscribe(hook_other, NULL, "n/a");
}

// A callback publishes to subscribers that the outer message has not reached yet.
static void test_publish_inside(void **state) {
    (void)state;
    start(1);
    peer peers[5];
    for (u32 i = 0; i < 5; i++) {
        peer_init(&peers[i], 0);
        subscribe(&peers[i], NULL, "n/+");
        subscribe(&peers[i], NULL, "n/#");
    }
    peers[1].hook = hook_publish;
    assert_int_equal(publish(0, "n/a", "1", 0), 0);
    for (u32 i = 0; i < 5; i++) {
        assert_int_equal(peers[i].received, 2);
        assert_int_equal(peers[i].sum, 3);
        broker_unsubscribe_all(at(0), &peers[i].s);
    }
    stop_clean();
}

static void test_ended_inside(void **state) {
    (void)state;
    for (u32 both = 0; both < 2; both++) { // one filter matches, or several
        start(1);
        peer peers[4];
        for (u32 i = 0; i < 4; i++) {
            peer_init(&peers[i], 0);
            subscribe(&peers[i], NULL, "n/a");
            if (both) subscribe(&peers[i], NULL, "n/#");
        }
        hook_other = &peers[2];
        peers[0].hook = hook_end_self;
        peers[1].hook = hook_end_other;
        assert_int_equal(publish(0, "n/a", "1", 0), 0);
        assert_int_equal(peers[0].received, 1);
        assert_int_equal(peers[1].received, 1);
        assert_int_equal(peers[2].s.number, 0xa5a5a5a5a5a5a5a5ull);
        assert_int_equal(peers[3].received, 1);
        broker_unsubscribe_all(at(0), &peers[1].s);
        broker_unsubscribe_all(at(0), &peers[3].s);
        stop_clean();
    }
}

static void test_subscribed_inside(void **state) {
    (void)state;
    start(1);
    peer a, b;
    peer_init(&a, 0);
    peer_init(&b, 0);
    subscribe(&a, NULL, "n/a");
    hook_other = &b;
    a.hook = hook_subscribe;
    assert_int_equal(publish(0, "n/a", "1", 0), 0);
    assert_int_equal(a.received, 1);
    assert_int_equal(b.received, 0);
    assert_int_equal(publish(0, "n/a", "1", 0), 0);
    assert_int_equal(a.received, 2);
    assert_int_equal(b.received, 1);
    broker_unsubscribe_all(at(0), &a.s);
    broker_unsubscribe_all(at(0), &b.s);
    stop_clean();
}

// Topics met again and again are remembered: whatever is subscribed or removed in between counts at once.
static void test_remembered_topics(void **state) {
    (void)state;
    start(2);
    peer a, b, c;
    peer_init(&a, 0);
    peer_init(&b, 0);
    peer_init(&c, 1);
    u32 want_a = 0, want_b = 0, want_c = 0;
    for (u32 round = 0; round < 600; round++) {
        if (round % 7 == 0) subscribe(&a, NULL, "r/#");
        if (round % 7 == 4) broker_unsubscribe_all(at(0), &a.s);
        if (round % 11 == 2) subscribe(&b, "g", "r/1");
        if (round % 11 == 6) broker_unsubscribe_all(at(0), &b.s);
        if (round % 13 == 3) subscribe(&c, NULL, round % 2 ? "r/1" : "r/#");
        if (round % 13 == 9) broker_unsubscribe_all(at(1), &c.s);
        net_pump();
        for (u32 i = 0; i < 5; i++) {
            publish(i % 2, "r/1", "1", 1);
            publish(0, "r/2", "1", 1);
            assert_int_equal(publish(0, "r/+", "1", 1), -EINVAL);
        }
        net_pump();
        want_a += round % 7 < 4 ? 10 : 0;
        want_b += round % 11 >= 2 && round % 11 < 6 ? 5 : 0;
        if (round % 13 >= 3 && round % 13 < 9) want_c += (round - round % 13 + 3) % 2 ? 5 : 10;
        assert_int_equal(a.received, want_a);
        assert_int_equal(b.received, want_b);
        assert_int_equal(c.received, want_c);
    }
    broker_unsubscribe_all(at(0), &a.s);
    broker_unsubscribe_all(at(0), &b.s);
    broker_unsubscribe_all(at(1), &c.s);
    stop_clean();
}

// The same filter again before the first is in force: both are answered, the first one at once.
static void test_again_while_it_waits(void **state) {
    (void)state;
    start(3);
    peer a;
    peer_init(&a, 0);
    bool existed;
    assert_int_equal(subscribe_as(&a, NULL, "w/+", &(subscription_options){.qos = 1}, &existed), BROKER_PENDING);
    assert_false(existed);
    assert_int_equal(subscribe_as(&a, NULL, "w/+", &(subscription_options){.qos = 2}, &existed), BROKER_PENDING);
    assert_true(existed);
    assert_int_equal(a.answered, 1);
    assert_int_equal(a.answer, BROKER_PENDING);
    net_pump();
    assert_int_equal(a.answered, 2);
    assert_int_equal(a.answer, 0);
    assert_int_equal(publish(1, "w/1", "1", 2), 0);
    net_pump();
    assert_int_equal(a.received, 1);
    assert_int_equal(a.qos, 2);
    broker_unsubscribe_all(at(0), &a.s);
    stop_clean();
}

// A receiving worker without memory to gather keeps the message and delivers it later, in order.
static void test_receiver_without_memory(void **state) {
    (void)state;
    enum { PEERS = 80 };
    static peer peers[PEERS];
    start(2);
    for (u32 i = 0; i < PEERS; i++) {
        peer_init(&peers[i], 1);
        subscribe(&peers[i], NULL, "s/+");
        subscribe(&peers[i], NULL, "s/#");
    }
    net_pump();
    hog_memory(1, 64);
    assert_int_equal(publish(0, "s/1", "1", 1), 0);
    assert_int_equal(publish(0, "s/2", "2", 1), 0);
    settle();
    assert_int_equal(broker_usage_get(at(0)).in_transit, 2);
    for (u32 i = 0; i < PEERS; i++) assert_int_equal(peers[i].received, 0);
    hog_end();
    settle();
    for (u32 i = 0; i < PEERS; i++) {
        assert_int_equal(peers[i].received, 2);
        assert_string_equal(peers[i].payload, "2");
        broker_unsubscribe_all(at(1), &peers[i].s);
    }
    stop_clean();
}

// The same set of messages whatever memory is left: an error delivers nothing, success everything.
static void test_every_refusal_is_clean(void **state) {
    (void)state;
    for (u32 rest = 0; rest < 6000; rest += 97) {
        start(2);
        peer a, b, c;
        peer_init(&a, 0);
        peer_init(&b, 1);
        peer_init(&c, 0);
        subscribe(&a, NULL, "e/#");
        subscribe(&a, NULL, "e/+");
        subscribe(&b, NULL, "e/x");
        subscribe(&c, "g", "e/x");
        net_pump();
        hog_memory(0, rest);
        int result = retain(0, "e/x", "1");
        assert_true(result == 0 || result == -ENOMEM || result == -EAGAIN);
        net_pump();
        u32 want = result == 0;
        assert_int_equal(a.received, want);
        assert_int_equal(b.received, want);
        assert_int_equal(c.received, want);
        peer d;
        peer_init(&d, 0);
        result = subscribe_as(&d, rest % 2 ? "h" : NULL, "f/x", &(subscription_options){.qos = 1}, NULL);
        assert_true(result == BROKER_PENDING || result == -ENOMEM);
        hog_end();
        settle();
        if (d.answered == 1 && result == -ENOMEM) fail_msg("answered twice");
        assert_int_equal(retain(0, "e/x", ""), 0);
        settle();
        broker_unsubscribe_all(at(0), &a.s);
        broker_unsubscribe_all(at(1), &b.s);
        broker_unsubscribe_all(at(0), &c.s);
        broker_unsubscribe_all(at(0), &d.s);
        stop_clean();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap_is_one_delivery),
        cmocka_unit_test(test_many_identifiers),
        cmocka_unit_test(test_options_and_existed),
        cmocka_unit_test(test_matched_elsewhere),
        cmocka_unit_test(test_enumeration),
        cmocka_unit_test(test_inspection),
        cmocka_unit_test(test_kept_by_reference),
        cmocka_unit_test(test_publish_inside),
        cmocka_unit_test(test_ended_inside),
        cmocka_unit_test(test_subscribed_inside),
        cmocka_unit_test(test_remembered_topics),
        cmocka_unit_test(test_again_while_it_waits),
        cmocka_unit_test(test_receiver_without_memory),
        cmocka_unit_test(test_every_refusal_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
