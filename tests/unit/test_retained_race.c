// SPDX-License-Identifier: Apache-2.0
// test_retained_race.c: retained messages that are published while a subscription comes into force: each
// reaches the subscriber once, live or from the store, in whatever order the rings between the workers
// are emptied. First the orders that matter, one by one, then any.
#include "broker/retained.h"
#include "broker/retained_store.h"
#include "broker/route.h"
#include "broker_rig.h"

enum { A, B, C };
enum { MESSAGES = 200, WATCHERS = 6 };

// Subscribes, and reads what is retained when the subscription comes into force.
typedef struct watcher {
    peer p;
    retained_reader r;
    const char *filter;
    retained_mark *mark;
    bool subscribed, in_force, reads, late; // late: does not read at once
    u32 done, live, retained;
    u8 got[MESSAGES];
} watcher;

static void watcher_take(peer *p) {
    watcher *w = CONTAINER_OF(p, watcher, p);
    u32 i = (u32)strtoul(p->payload, NULL, 10);
    assert_true(i < MESSAGES);
    w->got[i]++;
    *(p->retained ? &w->retained : &w->live) += 1;
}

static void watcher_done(retained_reader *r) {
    CONTAINER_OF(r, watcher, r)->done++;
}

static void watcher_read(watcher *w) {
    w->reads = true;
    w->r.done = watcher_done;
    assert_int_equal(retained_read_start(at(w->p.worker), &w->r, w->filter, (u32)strlen(w->filter), &w->p.s,
                                         &(subscription_options){.qos = 1}, w->mark), 0);
    retained_mark_release(at(w->p.worker), w->mark);
}

static void watcher_in_force(void *context, int result) {
    watcher *w = context;
    assert_int_equal(result, 0);
    w->in_force = true;
    w->mark = retained_mark_take(at(w->p.worker));
    assert_non_null(w->mark);
    if (!w->late) watcher_read(w);
}

static void watcher_init(watcher *w, u32 worker, const char *filter) {
    memset(w, 0, sizeof(*w));
    peer_init(&w->p, worker);
    w->p.hook = watcher_take;
    w->filter = filter;
}

static void watcher_subscribe(watcher *w) {
    int result = broker_subscribe(at(w->p.worker), &w->p.s, NULL, 0, w->filter, (u32)strlen(w->filter),
                                  &(subscription_options){.qos = 1}, watcher_in_force, w, NULL);
    w->subscribed = true;
    assert_true(result == 0 || result == BROKER_PENDING);
    if (result == 0) watcher_in_force(w, 0);
}

static void watcher_end(watcher *w) {
    retained_read_stop(at(w->p.worker), &w->r);
    broker_unsubscribe_all(at(w->p.worker), &w->p.s);
}

// Hands over what one worker has posted to another. Returns how many messages.
static u32 hand_over(u32 from, u32 to) {
    fake_queue *queue = &net.queues[from][to];
    u32 count = 0;
    while (queue->head < queue->tail) {
        spsc_message m = queue->items[queue->head++];
        broker_handle_message(at(to), &m);
        count++;
    }
    queue->head = queue->tail = 0;
    return count;
}

// A topic that a worker keeps.
static const char *topic_kept_by(u32 keeper) {
    static char topic[32];
    for (u32 i = 0;; i++) {
        snprintf(topic, sizeof(topic), "m/%u", i);
        if (retained_keeper(&net.workers[0], topic, (u32)strlen(topic)) == keeper) return topic;
    }
}

static void finish(watcher *w, const char *topic) {
    settle();
    assert_int_equal(w->done, 1);
    watcher_end(w);
    assert_int_equal(retain(A, topic, ""), 0);
    stop_clean();
}

// C and B talk at leisure while B has not yet looked at what A sent.
static void read_without_a(const watcher *w) {
    for (u32 i = 0; i < 50; i++) {
        net_advance_ms(1);
        hand_over(C, A);
        hand_over(A, C);
        hand_over(C, B);
        hand_over(B, C);
    }
    assert_true(w->in_force);
    assert_int_equal(w->live, 0);
}

static void test_store_is_late_at_its_keeper(void **state) {
    (void)state;
    for (u32 known = 0; known < 2; known++) {
        for (u32 wild = 0; wild < 2; wild++) {
            start(3);
            const char *topic = topic_kept_by(B);
            watcher w;
            watcher_init(&w, C, wild ? "m/+" : topic);
            if (!known) assert_int_equal(retain(A, topic, "7"), 0); // A does not know the filter
            watcher_subscribe(&w);
            hand_over(C, A);
            if (known) assert_int_equal(retain(A, topic, "7"), 0); // it does, but B has not confirmed it
            hand_over(A, C);
            assert_false(w.in_force);
            read_without_a(&w);
            assert_int_equal(w.done, 0);
            hand_over(A, B);
            settle();
            assert_int_equal(w.got[7], 1);
            assert_int_equal(w.retained, 1);
            finish(&w, topic);
        }
    }
}

// A removal that is late must not let the message it removes be read.
static void test_removal_is_late_at_the_keeper(void **state) {
    (void)state;
    start(3);
    const char *topic = topic_kept_by(B);
    assert_int_equal(retain(A, topic, "7"), 0);
    net_pump();
    assert_int_equal(retain(A, topic, ""), 0);
    watcher w;
    watcher_init(&w, C, "#");
    watcher_subscribe(&w);
    read_without_a(&w);
    hand_over(A, B);
    settle();
    assert_int_equal(w.live + w.retained, 0);
    finish(&w, topic);
}

// Published behind the confirmation that brings the subscription into force, and stored before the read.
static void test_live_is_not_read_again(void **state) {
    (void)state;
    for (u32 workers = 2; workers <= 3; workers++) {
        for (u32 keeper = 0; keeper < workers; keeper++) {
            u32 to = workers - 1;
            start(workers);
            const char *topic = topic_kept_by(keeper);
            watcher w;
            watcher_init(&w, to, "m/#");
            watcher_subscribe(&w);
            for (u32 i = 0; i < to; i++) hand_over(to, i);
            assert_int_equal(retain(A, topic, "7"), 0);
            if (workers == 3) hand_over(A, B);
            if (workers == 3) hand_over(B, to);
            assert_false(w.in_force);
            hand_over(A, to);
            assert_true(w.in_force);
            assert_int_equal(w.live, 1);
            settle();
            assert_int_equal(w.retained, 0);
            finish(&w, topic);
        }
    }
}

// A page of the keeper is on its way with a message that a live one, which arrives before it, has replaced.
static void test_page_comes_behind_what_replaces_it(void **state) {
    (void)state;
    for (u32 removed = 0; removed < 2; removed++) {
        start(3);
        const char *topic = topic_kept_by(B);
        assert_int_equal(retain(A, topic, "5"), 0);
        settle();
        watcher w;
        watcher_init(&w, C, "m/#");
        w.late = true;
        watcher_subscribe(&w);
        settle();
        watcher_read(&w);
        for (u32 i = 0; i < 5; i++) {
            net_advance_ms(1);
            hand_over(C, A);
            hand_over(A, C);
            hand_over(C, B); // B's page stays in the ring
        }
        assert_int_equal(w.done, 0);
        assert_true(net.queues[B][C].head < net.queues[B][C].tail);
        assert_int_equal(retain(A, topic, "6"), 0);
        if (removed) assert_int_equal(retain(A, topic, ""), 0);
        hand_over(A, C);
        assert_int_equal(w.got[6], 1);
        settle();
        assert_int_equal(w.got[5], 0);
        assert_int_equal(w.retained, 0);
        assert_int_equal(at(C)->retained.abroad, 0);
        assert_int_equal(at(C)->retained.overtaken.count, 0);
        finish(&w, topic);
    }
}

enum { PEERS = 80, GATHERED = 1500 }; // so many that gathering them takes more memory than that
static peer peers[PEERS];

static void peers_start(u32 worker, const char *topic) {
    start(3);
    for (u32 i = 0; i < PEERS; i++) {
        peer_init(&peers[i], worker);
        subscribe(&peers[i], NULL, "m/+");
        subscribe(&peers[i], NULL, topic);
    }
    net_pump();
}

static void peers_finish(watcher *w, const char *topic) {
    assert_int_equal(peers[0].received, 0); // the message waits for memory
    assert_int_equal(w->done, 0);
    hog_end();
    settle();
    assert_int_equal(w->got[7], 1);
    for (u32 i = 0; i < PEERS; i++) {
        assert_int_equal(peers[i].received, 1);
        broker_unsubscribe_all(at(peers[i].worker), &peers[i].s);
    }
    finish(w, topic);
}

// A confirmation does not overtake a message that waits for memory: it would come live and be read.
static void test_confirmed_behind_what_waits(void **state) {
    (void)state;
    start(3);
    const char *topic = topic_kept_by(B);
    stop_clean();
    peers_start(C, topic);
    watcher w;
    watcher_init(&w, C, "m/#");
    watcher_subscribe(&w);
    hog_memory(C, GATHERED);
    assert_int_equal(retain(A, topic, "7"), 0);
    hand_over(A, C);
    net_pump();
    settle();
    assert_false(w.in_force);
    peers_finish(&w, topic);
    assert_int_equal(w.live, 0);
}

// A read does not overtake, at the keeper, a message that waits for memory: it would be missed.
static void test_read_behind_what_waits(void **state) {
    (void)state;
    start(3);
    const char *topic = topic_kept_by(B);
    stop_clean();
    peers_start(B, topic);
    peer other;
    peer_init(&other, C);
    subscribe(&other, NULL, "m/#"); // so that the filter is known
    net_pump();
    hog_memory(B, GATHERED);
    assert_int_equal(retain(C, topic, "7"), 0);
    watcher w;
    watcher_init(&w, C, "m/#");
    watcher_subscribe(&w);
    assert_true(w.in_force);
    net_pump();
    settle();
    assert_int_equal(other.received, 1);
    broker_unsubscribe_all(at(C), &other.s);
    peers_finish(&w, topic);
    assert_int_equal(w.live, 0);
}

// In one worker: published in the turn of the loop in which the subscription came into force.
static void test_one_worker(void **state) {
    (void)state;
    start(1);
    watcher w;
    watcher_init(&w, 0, "m/#");
    assert_int_equal(retain(0, "m/1", "1"), 0);
    watcher_subscribe(&w);
    assert_int_equal(retain(0, "m/2", "2"), 0);
    assert_int_equal(retain(0, "m/1", "3"), 0); // replaced before it was read: live is enough
    settle();
    assert_int_equal(w.live, 2);
    assert_int_equal(w.retained, 0);
    assert_int_equal(retain(0, "m/1", ""), 0);
    finish(&w, "m/2");
}

static void random_step(watcher *watchers, u32 workers, u32 *published) {
    char topic[32], payload[16];
    u32 what = random_below(&net.random, 16);
    if (what == 0) {
        watcher *w = &watchers[random_below(&net.random, WATCHERS)];
        if (!w->subscribed) watcher_subscribe(w);
    } else if (what < 4 && *published < MESSAGES) {
        snprintf(topic, sizeof(topic), "m/%u", *published);
        snprintf(payload, sizeof(payload), "%u", *published);
        *published += retain(random_below(&net.random, workers), topic, payload) == 0;
    } else if (what == 4) {
        u32 one = random_below(&net.random, workers); // its rings fill up, or are free again
        net.refuse[one] = !net.refuse[one];
    } else if (what == 5) {
        watcher *w = &watchers[random_below(&net.random, WATCHERS)];
        if (w->in_force && !w->reads) watcher_read(w);
        net_advance_ms(1);
    } else {
        (void)net_pump_one();
    }
}

static void test_any_order(void **state) {
    (void)state;
    static watcher watchers[WATCHERS];
    u64 live = 0, retained = 0;
    for (u64 seed = 1; seed <= 400; seed++) {
        u32 workers = 1 + (u32)(seed % FAKE_WORKERS_MAX), published = 0;
        start(workers);
        net.random = seed;
        for (u32 i = 0; i < WATCHERS; i++) {
            watcher_init(&watchers[i], i % workers, i % 2 ? "m/#" : "m/+");
            watchers[i].late = i < 2;
        }
        while (published < MESSAGES) random_step(watchers, workers, &published);
        memset(net.refuse, 0, sizeof(net.refuse));
        for (u32 i = 0; i < WATCHERS; i++) {
            if (!watchers[i].subscribed) watcher_subscribe(&watchers[i]);
        }
        settle();
        for (u32 i = 0; i < 2; i++) {
            if (!watchers[i].reads) watcher_read(&watchers[i]);
        }
        for (u32 i = 0; i < 4; i++) settle();
        for (u32 i = 0; i < WATCHERS; i++) {
            assert_int_equal(watchers[i].done, 1);
            for (u32 k = 0; k < MESSAGES; k++) assert_int_equal(watchers[i].got[k], 1);
            live += watchers[i].live;
            retained += watchers[i].retained;
            watcher_end(&watchers[i]);
        }
        for (u32 k = 0; k < MESSAGES; k++) {
            char topic[32];
            snprintf(topic, sizeof(topic), "m/%u", k);
            assert_int_equal(retain(k % workers, topic, ""), 0);
        }
        stop_clean();
    }
    assert_true(live > 10000 && retained > 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_is_late_at_its_keeper),
        cmocka_unit_test(test_removal_is_late_at_the_keeper),
        cmocka_unit_test(test_live_is_not_read_again),
        cmocka_unit_test(test_page_comes_behind_what_replaces_it),
        cmocka_unit_test(test_confirmed_behind_what_waits),
        cmocka_unit_test(test_read_behind_what_waits),
        cmocka_unit_test(test_one_worker),
        cmocka_unit_test(test_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
