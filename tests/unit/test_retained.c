// SPDX-License-Identifier: Apache-2.0
// test_retained.c: the retained store: storing, replacing, deleting, limits, expiry; readers with every
// kind of filter, slow subscribers, changes between pages, several workers, no memory, callbacks.
#include "broker/retained.h"
#include "broker_rig.h"

typedef struct reader {
    retained_reader r;
    peer p;
    u32 done;
} reader;

static void reader_done(retained_reader *r) {
    CONTAINER_OF(r, reader, r)->done++;
}

// These readers have no subscription: one to something else, in force everywhere, makes their worker know
// how far the others have come (broker/retained_seen.h).
static void reader_init(reader *r, u32 worker) {
    memset(r, 0, sizeof(*r));
    r->r.done = reader_done;
    peer_init(&r->p, worker);
    subscribe(&r->p, NULL, "else/where");
    net_pump();
    assert_true(unsubscribe(&r->p, NULL, "else/where"));
    net_pump();
}

static int read_start(reader *r, const char *filter) {
    return retained_read_start(at(r->p.worker), &r->r, filter, (u32)strlen(filter), &r->p.s,
                               &(subscription_options){.qos = 1, .id = 5}, NULL);
}

// Everything a filter matches; the sum of the numbers in the payloads.
static u32 read_all(u32 worker, const char *filter, u64 *sum) {
    reader r;
    reader_init(&r, worker);
    assert_int_equal(read_start(&r, filter), 0);
    assert_int_equal(r.p.received, 0); // nothing inside the call
    for (u32 i = 0; i < 4000 && r.done == 0; i++) {
        net_advance_ms(1);
        net_pump();
    }
    assert_int_equal(r.done, 1);
    if (r.p.received > 0) assert_true(r.p.retain && r.p.retained && r.p.id_count == 1);
    if (sum != NULL) *sum = r.p.sum;
    return r.p.received;
}

static void put(u32 worker, const char *topic, const char *payload) {
    assert_int_equal(retain(worker, topic, payload), 0);
    net_pump();
}

static void test_store(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 4; workers++) {
        start(workers);
        u64 sum = 0;
        put(0, "a/b", "1");
        put(workers - 1, "a/c", "2");
        put(0, "a", "4");
        put(0, "$x/a", "8");
        put(0, "a//d", "16");
        put(0, "/", "32");
        assert_int_equal(read_all(0, "#", &sum), 5);
        assert_int_equal(sum, 1 + 2 + 4 + 16 + 32);
        assert_int_equal(read_all(workers - 1, "a/#", &sum), 4);
        assert_int_equal(sum, 1 + 2 + 4 + 16);
        assert_int_equal(read_all(0, "a/+", &sum), 2);
        assert_int_equal(sum, 3);
        assert_int_equal(read_all(0, "+/+", &sum), 3);
        assert_int_equal(sum, 3 + 32);
        assert_int_equal(read_all(0, "$x/#", &sum), 1);
        assert_int_equal(read_all(0, "+/a", &sum), 0);
        assert_int_equal(read_all(0, "a/b", &sum), 1);
        assert_int_equal(read_all(0, "a/b/c", &sum), 0);
        assert_int_equal(read_all(0, "a/+/d", &sum), 1);
        assert_int_equal(read_all(0, "a/b/#", &sum), 1);
        put(0, "a/b", "64"); // replaces
        assert_int_equal(read_all(workers - 1, "a/b", &sum), 1);
        assert_int_equal(sum, 64);
        put(workers - 1, "a/b", "");
        put(0, "a/b", ""); // harmless
        put(0, "never/there", "");
        assert_int_equal(read_all(0, "a/b", &sum), 0);
        put(0, "a/c", "");
        put(0, "a", "");
        put(0, "$x/a", "");
        put(0, "a//d", "");
        put(0, "/", "");
        stop_clean();
    }
}

static void topic_of(char *out, u32 i) {
    snprintf(out, 32, "d/%u/%u/t", i % 17, i);
}

static void fill(u32 workers, u32 count) {
    char topic[32], payload[16];
    for (u32 i = 0; i < count; i++) {
        topic_of(topic, i);
        snprintf(payload, sizeof(payload), "%u", i + 1);
        put(i % workers, topic, payload);
    }
}

static void clear(u32 count) {
    char topic[32];
    for (u32 i = 0; i < count; i++) {
        topic_of(topic, i);
        put(0, topic, "");
    }
}

// A slow subscriber: it takes some, then refuses, then has room again.
static void test_pages(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    for (u32 workers = 1; workers <= 3; workers++) {
        start(workers);
        fill(workers, COUNT);
        u64 held = memory(0);
        reader r;
        reader_init(&r, 0);
        r.p.room = 7;
        assert_int_equal(read_start(&r, "d/#"), 0);
        u64 turns = 0, most = 0;
        for (; r.done == 0 && turns < 100000; turns++) {
            net_advance_ms(1);
            net_pump();
            most = MAX(most, memory(0));
            if (r.p.room == 0) {
                u32 got = r.p.received;
                if (turns % 5 == 0) {
                    settle(); // nothing comes while it has no room
                    assert_int_equal(r.p.received, got);
                }
                r.p.room = 1 + (u32)(turns % 40);
                retained_read_more(at(0), &r.r);
                retained_read_more(at(0), &r.r); // harmless
                assert_int_equal(r.p.received, got);
            }
        }
        assert_int_equal(r.done, 1);
        assert_int_equal(r.p.received, COUNT);
        assert_int_equal(r.p.sum, (u64)COUNT * (COUNT + 1) / 2);
        assert_true(most < held + 2048); // cursor and filter only: nothing is copied ahead here
        clear(COUNT);
        stop_clean();
    }
}

// Topics come and go between pages: what is there all the time comes exactly once.
static void test_changes_between_pages(void **state) {
    (void)state;
    enum { COUNT = 600 };
    for (u64 seed = 1; seed <= 12; seed++) {
        u32 workers = 1 + (u32)(seed % 3);
        start(workers);
        fill(workers, COUNT);
        reader r;
        reader_init(&r, (u32)seed % workers);
        r.p.room = 5;
        u64 random = seed;
        assert_int_equal(read_start(&r, seed % 2 ? "d/+/+/t" : "#"), 0);
        char topic[32], gone[COUNT] = {0};
        u64 stable = 0;
        for (u32 turns = 0; r.done == 0 && turns < 20000; turns++) {
            net_advance_ms(1);
            net_pump();
            u32 i = random_below(&random, COUNT);
            topic_of(topic, i | 1); // odd ones change, payload 0: not in the sum
            put(0, topic, gone[i | 1] || random_below(&random, 2) ? "0" : "");
            gone[i | 1] = 1;
            snprintf(topic, sizeof(topic), "d/%u/new/t", i);
            put(0, topic, "0");
            if (random_below(&random, 2)) put(0, topic, "");
            if (r.p.room == 0) {
                r.p.room = 9;
                retained_read_more(at(r.p.worker), &r.r);
            }
        }
        assert_int_equal(r.done, 1);
        u64 changed_most = 0;
        for (u32 i = 0; i < COUNT; i++) {
            if (i % 2 == 0) stable += i + 1;
            if (i % 2 == 1) changed_most += i + 1;
        }
        assert_in_range(r.p.sum, stable, stable + changed_most);
        u64 before = 0, sum = 0;
        (void)read_all(0, "#", &before);
        (void)read_all(0, "#", &sum);
        assert_int_equal(sum, before);
        for (u32 i = 0; i < COUNT; i++) {
            snprintf(topic, sizeof(topic), "d/%u/new/t", i);
            put(0, topic, "");
        }
        clear(COUNT);
        stop_clean();
    }
}

static void test_limits(void **state) {
    (void)state;
    start(1);
    net.conf.retained_messages_max = 3;
    put(0, "l/1", "1");
    put(0, "l/2", "1");
    put(0, "l/3", "1");
    assert_int_equal(retain(0, "l/4", "1"), -ENOSPC);
    put(0, "l/3", "2"); // replacing needs no room
    put(0, "l/3", "");
    put(0, "l/4", "1");
    net.conf.retained_messages_max = 0;
    net.conf.retained_bytes_max = broker_usage_get(at(0)).retained_bytes + 100;
    put(0, "l/5", "1");
    assert_int_equal(retain(0, "l/6", "0123456789012345678901234567890123456789"), -ENOSPC);
    assert_int_equal(retain(0, "l/5", "012345678901234567890123456789"), 0);
    assert_int_equal(publish(0, "l/6", "not retained", 1), 0);
    put(0, "l/1", "");
    put(0, "l/2", "");
    put(0, "l/4", "");
    put(0, "l/5", "");
    stop_clean();

    start(2); // the limit is that of both; a full part refuses from afar too
    net.conf.retained_messages_max = 2;
    char topic[16];
    u32 taken = 0, refused = 0;
    for (u32 i = 0; i < 40; i++) {
        snprintf(topic, sizeof(topic), "l/%u", i);
        int result = retain(i % 2, topic, "1");
        net_pump(); // a full part that is far has to be asked
        if (result == -EAGAIN) result = retain(i % 2, topic, "1");
        assert_true(result == 0 || result == -ENOSPC);
        taken += result == 0;
        refused += result == -ENOSPC;
        net_pump();
    }
    assert_int_equal(taken, 2);
    assert_int_equal(refused, 38);
    // What replaces one is taken, from near and far.
    u32 replaced = 0;
    for (u32 i = 0; i < 40; i++) {
        snprintf(topic, sizeof(topic), "l/%u", i);
        for (u32 from = 0; from < 2; from++) {
            net_advance_ms(1100); // answers are forgotten
            int result = retain(from, topic, "2");
            net_pump();
            if (result == -EAGAIN) result = retain(from, topic, "2");
            net_pump();
            assert_true(result == 0 || result == -ENOSPC);
            replaced += result == 0;
        }
    }
    assert_int_equal(replaced, 4);
    u64 sum = 0;
    assert_int_equal(read_all(0, "l/#", &sum), 2);
    assert_int_equal(sum, 4);
    for (u32 i = 0; i < 40; i++) {
        snprintf(topic, sizeof(topic), "l/%u", i);
        put(0, topic, "");
    }
    stop_clean();
}

static void test_expiry(void **state) {
    (void)state;
    start(2);
    char topic[16];
    for (u32 i = 0; i < 100; i++) {
        snprintf(topic, sizeof(topic), "e/%u", i);
        publication p = publication_of(topic, "1", 1, true);
        p.expires_ns = i % 2 ? net.workers[0].now_ns + NS_PER_S : 0;
        assert_int_equal(broker_publish(at(0), &p, NULL), 0);
        net_pump();
    }
    assert_int_equal(read_all(1, "#", NULL), 100);
    net_advance_ms(1100);
    assert_int_equal(read_all(1, "e/+", NULL), 50);
    u64 left = broker_usage_get(at(0)).retained + broker_usage_get(at(1)).retained;
    assert_int_equal(left, 50); // the reader has met and deleted them
    for (u32 i = 0; i < 100; i++) {
        snprintf(topic, sizeof(topic), "e/%u", i);
        publication p = publication_of(topic, "1", 1, true);
        p.expires_ns = net.workers[0].now_ns + NS_PER_S;
        assert_int_equal(broker_publish(at(0), &p, NULL), 0);
        net_pump();
    }
    net_advance_ms(1100);
    for (u32 i = 0; i < 4; i++) { // nobody reads: they are found all the same
        broker_trim(at(0));
        broker_trim(at(1));
    }
    left = broker_usage_get(at(0)).retained + broker_usage_get(at(1)).retained;
    assert_int_equal(left, 0);
    stop_clean();
}

static reader *hook_reader;

static void hook_stop(peer *p) {
    p->hook = NULL;
    retained_read_stop(at(p->worker), &hook_reader->r);
}

static void hook_delete_all(peer *p) {
    p->hook = NULL;
    clear(50);
}

static void test_callbacks(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 2; workers++) {
        start(workers);
        fill(workers, 50);
        reader r, other;
        reader_init(&r, 0);
        reader_init(&other, 0);
        hook_reader = &r;
        r.p.hook = hook_stop; // itself
        assert_int_equal(read_start(&r, "#"), 0);
        settle();
        assert_int_equal(r.p.received, 1);
        assert_int_equal(r.done, 0);
        retained_read_stop(at(0), &r.r); // harmless
        retained_read_more(at(0), &r.r);
        reader_init(&r, 0);
        other.p.hook = hook_stop; // another, which waits in the same turn
        assert_int_equal(read_start(&other, "#"), 0);
        assert_int_equal(read_start(&r, "#"), 0);
        settle();
        assert_int_equal(other.p.received, 50);
        assert_int_equal(r.p.received, 0);
        reader_init(&r, 0);
        if (workers == 1) {
            r.p.hook = hook_delete_all;
            assert_int_equal(read_start(&r, "#"), 0);
            settle();
            assert_int_equal(r.p.received, 1);
            assert_int_equal(r.done, 1);
        } else {
            clear(50);
        }
        stop_clean();
    }
}

// Stopped while a page is on its way, while one is being delivered, and before it asked.
static void test_stop_at_any_time(void **state) {
    (void)state;
    for (u32 messages = 0; messages < 40; messages++) {
        start(3);
        fill(3, 300);
        reader r;
        reader_init(&r, 1);
        r.p.room = 1 + messages * 5;
        assert_int_equal(read_start(&r, "d/#"), 0);
        for (u32 i = 0; i < messages; i++) {
            net_advance_ms(1);
            (void)net_pump_one();
        }
        retained_read_stop(at(1), &r.r);
        clear(300);
        stop_clean();
    }
}

static void test_without_memory(void **state) {
    (void)state;
    for (u32 rest = 0; rest < 3000; rest += 83) {
        start(2);
        fill(2, 200);
        reader r;
        reader_init(&r, 0);
        hog_memory(1, rest); // of the other part
        int result = read_start(&r, "d/#");
        assert_int_equal(result, 0);
        settle();
        hog_end();
        for (u32 i = 0; i < 10; i++) settle();
        assert_int_equal(r.done, 1);
        assert_int_equal(r.p.received, 200);
        reader_init(&r, 0);
        hog_memory(0, rest); // of its own
        result = read_start(&r, "d/#");
        assert_true(result == 0 || result == -ENOMEM);
        settle();
        hog_end();
        for (u32 i = 0; i < 10; i++) settle();
        if (result == 0) assert_int_equal(r.p.received, 200);
        clear(200);
        stop_clean();
    }
}

// A local reader hands out the stored message itself.
static void test_kept_is_the_stored_one(void **state) {
    (void)state;
    start(1);
    put(0, "k", "7");
    reader r;
    reader_init(&r, 0);
    r.p.keeps = true;
    assert_int_equal(read_start(&r, "k"), 0);
    settle();
    assert_int_equal(broker_usage_get(at(0)).messages, 1);
    put(0, "k", "");
    assert_int_equal(broker_usage_get(at(0)).messages, 1); // the reader's reference
    assert_memory_equal(message_payload(r.p.kept), "7", 1);
    message_unref(r.p.kept);
    stop_clean();
}

// Many topics: bounded work a turn, and memory that does not grow with the walk.
static void test_many_topics(void **state) {
    (void)state;
    enum { COUNT = 9000 };
    start(1);
    fill(1, COUNT);
    reader r;
    reader_init(&r, 0);
    u64 before = memory(0);
    assert_int_equal(read_start(&r, "+/+/+/t"), 0);
    u32 turns = 0, most = 0;
    while (r.done == 0) {
        u32 got = r.p.received;
        net_advance_ms(1);
        most = MAX(most, r.p.received - got);
        turns++;
        assert_true(memory(0) < before + 1024);
    }
    assert_int_equal(r.p.received, COUNT);
    assert_true(most <= LIMIT_RETAINED_TURN && turns > COUNT / LIMIT_RETAINED_TURN);
    clear(COUNT);
    stop_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_changes_between_pages),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_stop_at_any_time),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_kept_is_the_stored_one),
        cmocka_unit_test(test_many_topics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
