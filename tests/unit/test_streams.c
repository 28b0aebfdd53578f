// SPDX-License-Identifier: Apache-2.0
// test_streams.c: streams on a simulated disk: what is taken, offsets over restarts and power cuts, retention,
// readings, named consumers and the members that share one.
#include <errno.h>

#include "streams_rig.h"

static const stream_from EARLIEST = {.kind = FROM_EARLIEST}, LATEST = {.kind = FROM_LATEST};

static stream_from at_offset(u64 offset) {
    return (stream_from){.kind = FROM_OFFSET, .value = offset};
}

static stream_info info_of(const rig *g, const char *name) {
    stream_info info;
    assert_true(streams_find(g->w.streams, name, 0, &info));
    return info;
}

static void publish_many(rig *g, const char *topic, u32 count) {
    for (u32 i = 0; i < count; i++) {
        char payload[32];
        snprintf(payload, sizeof(payload), "%u", i);
        (void)rig_take(g, topic, payload);
        if (i % 64 == 0) rig_settle(g);
    }
    rig_settle(g);
}

static void test_takes_what_matches(void **state) {
    (void)state;
    rig *g = rig_create(1, 12);
    message_stream refs[LIMIT_STREAM_REFS];
    u32 count;
    rig_stream(g, "a", "a/#\nexact\n", 0, 0);
    rig_stream(g, "b", "+/x\n", 0, 0);
    rig_stream(g, "all", "#\n", 0, 0);
    rig_open(g);
    static const struct {
        const char *topic;
        u32 streams;
    } rows[] = {{"a", 2}, {"a/b/c", 2}, {"a/x", 3}, {"ab/x", 2}, {"exact", 2}, {"exactly", 1}, {"exac", 1},
                {"/x", 2}, {"$SYS/x", 0}, {"$stream/all", 0}};
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(rig_publish(g, rows[i].topic, "", refs, &count), 0);
        if (count != rows[i].streams) fail_msg("%s: %u", rows[i].topic, count);
    }
    assert_int_equal(info_of(g, "a").next, 5);
    assert_int_equal(info_of(g, "all").next, 9);
    assert_int_equal(streams_take(NULL, "a", 1, refs, 4), 0);
    assert_int_equal(streams_take(g->w.streams, "a/x", 3, refs, 2), 2);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_reads_from_anywhere(void **state) {
    (void)state;
    rig *g = rig_create(2, 12);
    u64 first;
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), 0);
    publish_many(g, "a/t", 1000);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), 1000);
    assert_int_equal(first, 1);
    assert_int_equal(rig_read_all(g, "a", LATEST, &first), 0);
    for (u64 offset = 1; offset <= 1000; offset += 97) {
        assert_int_equal(rig_read_all(g, "a", at_offset(offset), &first), 1001 - offset);
        assert_int_equal(first, offset);
    }
    assert_int_equal(rig_read_all(g, "a", (stream_from){.kind = FROM_TIME, .value = 1}, &first), 1000);
    stream_from tomorrow = {.kind = FROM_TIME, .value = clock_real_ns() / NS_PER_MS + 86400000};
    assert_int_equal(rig_read_all(g, "a", tomorrow, &first), 0);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_waits_for_what_comes(void **state) {
    (void)state;
    rig *g = rig_create(3, 12);
    static rig_reader r;
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    publish_many(g, "a/t", 5);
    r.keeps_page = false;
    rig_read(g, &r, "a", LATEST, NULL, true);
    rig_settle(g);
    assert_int_equal(r.pages, 0);
    assert_int_equal(rig_take(g, "a/t", "live"), 6);
    rig_settle(g);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.offsets[0], 6);
    assert_string_equal(r.first_payload, "live");
    stream_ask_close(r.ask);
    // A stream in the middle of others' messages: the reader steps over them.
    rig_close(g, true);
    rig_destroy(g);
}

static void test_goes_on_after_a_restart(void **state) {
    (void)state;
    rig *g = rig_create(4, 12);
    u64 first;
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_stream(g, "b", "b/#\n", 0, 0);
    rig_open(g);
    for (u32 round = 0; round < 4; round++) {
        publish_many(g, "a/t", 300);
        publish_many(g, "b/t", 10);
        rig_close(g, round % 2 == 0);
        disk_sim_restart(g->sim);
        rig_open(g);
        assert_int_equal(info_of(g, "a").next, 300 * (round + 1) + 1);
        assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), 300 * (round + 1));
        assert_int_equal(rig_read_all(g, "b", EARLIEST, &first), 10 * (round + 1));
    }
    rig_close(g, true);
    rig_destroy(g);
}

static void test_bounds_are_kept(void **state) {
    (void)state;
    rig *g = rig_create(5, 8);
    u64 first;
    rig_stream(g, "a", "a/#\n", 100000, 0);
    rig_open(g);
    // Far more than the log has room for: what is given up is reclaimed.
    for (u32 round = 0; round < 60; round++) {
        publish_many(g, "a/t", 1500);
        for (u32 i = 0; i < 4; i++) {
            rig_turn(g, NS_PER_S);
            rig_settle(g);
        }
    }
    stream_info info = info_of(g, "a");
    assert_int_equal(info.next, 90001);
    assert_true(info.first > 80000);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), info.next - info.first);
    assert_int_equal(first, info.first);
    assert_int_equal(rig_read_all(g, "a", at_offset(1), &first), info.next - info.first);
    rig_close(g, true);
    disk_sim_restart(g->sim);
    rig_open(g);
    assert_int_equal(info_of(g, "a").first, info.first);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), info.next - info.first);
    rig_close(g, true);
    rig_destroy(g);
}

// Two partitions whose oldest messages came in the same millisecond: one of them gives, whatever order they look in.
static void test_of_one_age_one_gives(void **state) {
    (void)state;
    rig *g = rig_create(11, 8);
    streams *other = calloc(1, sizeof(*other));
    stream_part *part = calloc(1, sizeof(*part));
    rig_stream(g, "first", "first/#\n", 0, 0);
    rig_stream(g, "a", "a/#\n", 100000, 0);
    rig_open(g);
    stream_part *own = g->w.streams->parts[1];
    worker pair[2] = {g->w, {.streams = other}};
    *part = (stream_part){.name = "a", .number = (u16)(own->number - 1)};
    other->parts[other->count++] = part;
    g->gw.workers = pair;
    g->gw.worker_count = 2;
    counter_set(&part->counters.bytes, 100000);
    counter_set(&part->counters.first_ms, 1); // older
    publish_many(g, "a/t", 1500);
    assert_int_equal(own->first, 1);
    counter_set(&part->counters.first_ms, counter_get(&own->counters.first_ms));
    stream_part_retain(g->w.streams, own, 0);
    assert_int_equal(own->first, 1);
    part->number = (u16)(own->number + 1);
    stream_part_retain(g->w.streams, own, 0);
    assert_true(own->first > 1);
    rig_close(g, true);
    rig_destroy(g);
    free(part);
    free(other);
}

// --- discard = new ---

static u64 sent_pos;

static u64 sent(worker *w, u16 number) {
    (void)w;
    (void)number;
    return sent_pos;
}

// Publishes until it is refused, all in one moment; how many were taken. Who was refused is for a millisecond.
static u32 fill(rig *g) {
    rig_turn(g, NS_PER_MS);
    for (u32 n = 0;; n++) {
        assert_true(n < 10000);
        int result = streams_refusal(g->w.streams, "a/t", 3, 1);
        if (result == -EXFULL) return n;
        assert_int_equal(result, 0);
        (void)rig_take(g, "a/t", "one of those that fill it");
    }
}

static void test_refuses_what_has_no_room(void **state) {
    (void)state;
    rig *g = rig_create(31, 12);
    message_stream refs[LIMIT_STREAM_REFS];
    u32 count;
    u64 first;
    rig_stream(g, "a", "a/#\n", 64 << 10, 0);
    rig_stream(g, "old", "a/#\n", 64 << 10, 0);
    g->conf.streams[0].discard = STREAM_DISCARD_NEW;
    g->conf.stream_count = 1;
    rig_open(g);
    streams_configure(g->w.streams, &g->conf);
    stream_part *p = g->w.streams->parts[0];
    u32 held = fill(g);
    assert_true(held > 200 && held < 2000);
    assert_true(counter_get(&p->counters.bytes) >= 64u << 10); // not before it is full
    rig_turn(g, 2 * NS_PER_S);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), held); // nobody has taken anything: nothing goes
    // QoS 0 is refused as well, and then not taken; other topics are not concerned; another stream takes what this one
    // does not.
    assert_int_equal(streams_refusal(g->w.streams, "a/t", 3, 0), -EXFULL);
    assert_int_equal(rig_publish(g, "a/t", "", refs, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(streams_refusal(g->w.streams, "b", 1, 1), 0);
    g->conf.stream_count = 2;
    streams_configure(g->w.streams, &g->conf);
    assert_int_equal(streams_refusal(g->w.streams, "a/t", 3, 0), -EXFULL);
    assert_int_equal(streams_take(g->w.streams, "a/t", 3, refs, 4), 1);
    assert_int_equal(refs[0].stream, g->w.streams->parts[1]->number);
    g->conf.stream_count = 1;
    streams_configure(g->w.streams, &g->conf);
    assert_int_equal(counter_get(&p->counters.refused), 3);

    streams_on_sent(g->w.streams, sent, NULL);
    sent_pos = 0;
    assert_int_equal(fill(g), 0);
    assert_int_equal(p->first, 1);
    sent_pos = p->index.marks[p->index.count / 16].pos; // less than the eighth that is to be free
    u32 more = fill(g);
    assert_true(more > 0 && more < held / 8);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), p->next - p->first);
    assert_int_equal(first, p->index.marks[0].offset);
    assert_true(p->index.marks[0].pos == sent_pos);
    assert_int_equal(fill(g), 0);
    sent_pos = UINT64_MAX - 1; // all of it: an eighth goes at a time, so it goes on and on
    for (u32 n = 0; n < 3 * held; n++) {
        rig_turn(g, NS_PER_MS);
        assert_int_equal(streams_refusal(g->w.streams, "a/t", 3, 1), 0);
        (void)rig_take(g, "a/t", "one of those that fill it");
        assert_true(counter_get(&p->counters.bytes) <= (64u << 10) + 512);
    }
    rig_close(g, true);
    // One that has left the configuration goes by its last settings.
    g->conf.stream_count = 0;
    rig_open(g);
    p = g->w.streams->parts[0];
    assert_int_equal(p->conf.discard, STREAM_DISCARD_NEW);
    assert_int_equal(p->conf.sync, STREAM_SYNC_COMMIT);
    rig_turn(g, 2 * NS_PER_S);
    assert_int_equal(p->first, info_of(g, "a").first);
    rig_close(g, true);
    rig_destroy(g);
}

// Publishes so many, waiting where the log has no room. False: it gets none.
static bool publish_through(rig *g, u32 count, const char *payload) {
    message_stream refs[LIMIT_STREAM_REFS];
    for (u32 n = 0, waited = 0; n < count;) {
        u32 taken;
        int result = rig_publish(g, "a/t", payload, refs, &taken);
        rig_turn(g, result == 0 ? NS_PER_MS : NS_PER_S / 4);
        while (store_step(g->w.store)) {
        }
        waited = result == 0 ? 0 : waited + 1;
        n += result == 0;
        if (waited == 200) return false;
    }
    return true;
}

// The log runs full before the stream does: what all have taken goes then, and nothing else.
static void test_gives_the_log_its_room(void **state) {
    (void)state;
    static char payload[10000];
    memset(payload, 'x', sizeof(payload) - 1);
    rig *g = rig_create(34, 8);
    rig_stream(g, "a", "a/#\n", 0, 0);
    g->conf.streams[0].discard = STREAM_DISCARD_NEW;
    rig_open(g);
    streams_on_sent(g->w.streams, sent, NULL);
    stream_part *p = g->w.streams->parts[0];
    sent_pos = UINT64_MAX - 1;
    assert_true(publish_through(g, 3000, payload)); // 30 MB
    assert_true(p->first > 1000);
    sent_pos = p->index.marks[p->index.count / 2].pos;
    u64 unsent = p->index.marks[p->index.count / 2].offset;
    assert_false(publish_through(g, 3000, payload));
    assert_true(p->first <= unsent);
    sent_pos = UINT64_MAX - 1;
    assert_true(publish_through(g, 1000, payload));
    assert_true(p->first > unsent);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_a_consumer_keeps_what_it_has_not_acknowledged(void **state) {
    (void)state;
    rig *g = rig_create(32, 12);
    rig_stream(g, "a", "a/#\n", 64 << 10, 0);
    g->conf.streams[0].discard = STREAM_DISCARD_NEW;
    rig_open(g);
    streams_configure(g->w.streams, &g->conf);
    streams_on_sent(g->w.streams, sent, NULL);
    stream_part *p = g->w.streams->parts[0];
    stream_consumer *c = stream_consumer_get(p, "one", 3);
    sent_pos = UINT64_MAX; // no uplink
    c->acked = 1;
    u32 held = fill(g);
    c->acked = held / 2;
    assert_true(fill(g) > 0);
    assert_true(p->first <= held / 2 && p->first > 1);
    c->acked = p->next;
    sent_pos = p->index.marks[1].pos; // an uplink is further behind: that counts
    (void)fill(g);
    assert_true(p->first < held / 2);
    c->acked = p->next;
    sent_pos = UINT64_MAX;
    assert_true(fill(g) > 0);
    c->forgotten = true; // nobody is left
    assert_int_equal(fill(g), 0);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_removed_and_back(void **state) {
    (void)state;
    rig *g = rig_create(6, 12);
    message_stream refs[LIMIT_STREAM_REFS];
    u64 first;
    u32 count;
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    publish_many(g, "a/t", 10);
    static config none, changed;
    streams_configure(g->w.streams, &none);
    assert_int_equal(streams_taking(g->w.streams), 0);
    assert_int_equal(rig_publish(g, "a/t", "no", refs, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), 10);
    changed = g->conf;
    snprintf(changed.streams[0].topics, sizeof(changed.streams[0].topics), "other\n");
    streams_configure(g->w.streams, &changed);
    assert_int_equal(rig_take(g, "other", "yes"), 11);
    rig_settle(g);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), 11);
    g->conf = none;
    rig_close(g, true);
    disk_sim_restart(g->sim);
    rig_open(g);
    assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), 11);
    rig_close(g, true);
    rig_destroy(g);
}

// A stream that is new while the disk takes nothing: what it would have had is refused, not promised.
static void test_new_on_a_bad_disk(void **state) {
    (void)state;
    rig *g = rig_create(7, 12);
    streams *s = (rig_open(g), g->w.streams);
    disk_sim_configure(g->sim, &(disk_sim_config){.write_error_per_mille = 1000});
    static const struct iovec one = {.iov_base = (void *)(uintptr_t)"x", .iov_len = 1};
    store_pos pos;
    assert_int_equal(store_append(g->w.store, STORE_MESSAGE, 0, &one, 1, &pos), 0);
    rig_settle(g);
    rig_stream(g, "new", "a/#\n", 0, 0);
    streams_configure(s, &g->conf);
    assert_int_equal(streams_taking(s), 0);
    assert_int_equal(streams_refusal(s, "other", 5, 1), 0);
    assert_int_equal(streams_refusal(s, "a/t", 3, 1), -EIO);
    assert_int_equal(streams_refusal(s, "a/t", 3, 0), -EIO);
    assert_int_equal(counter_get(&s->parts[0]->counters.refused), 2);
    assert_int_equal(streams_refusal(NULL, "a/t", 3, 1), 0);
    disk_sim_configure(g->sim, &(disk_sim_config){0});
    for (u32 i = 0; i < 100 && streams_taking(s) == 0; i++) {
        rig_turn(g, NS_PER_S);
        rig_settle(g);
    }
    assert_int_equal(streams_refusal(s, "a/t", 3, 1), 0);
    assert_int_equal(rig_take(g, "a/t", "yes"), 1);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_a_consumer_goes_on(void **state) {
    (void)state;
    rig *g = rig_create(7, 12);
    static rig_reader r;
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    publish_many(g, "a/t", 100);
    r.keeps_page = false;
    rig_read(g, &r, "a", EARLIEST, "c", true);
    rig_settle(g);
    assert_int_equal(r.count, 100);
    r.ask->acked = 42;
    stream_ask_done(r.ask);
    rig_settle(g);
    rig_close(g, false);
    disk_sim_restart(g->sim);
    rig_open(g);
    rig_read(g, &r, "a", EARLIEST, "c", true);
    rig_settle(g);
    assert_int_equal(r.count, 58);
    assert_int_equal(r.offsets[0], 43);
    r.ask->acked = 58;
    assert_int_equal(stream_consumer_forget(g->w.streams, "a", "c"), -EBUSY);
    stream_ask_close(r.ask); // tells what is acknowledged
    rig_settle(g);
    stream_consumer_view view;
    assert_int_equal(stream_consumers_view(g->w.streams, "a", &view, 1), 1);
    assert_int_equal(view.acked, 101);
    assert_int_equal(view.lag, 0);
    assert_int_equal(stream_consumer_forget(g->w.streams, "a", "c"), 0);
    assert_int_equal(stream_consumer_forget(g->w.streams, "a", "c"), -ENOENT);
    rig_settle(g);
    rig_close(g, true);
    disk_sim_restart(g->sim);
    rig_open(g);
    assert_int_equal(stream_consumers_view(g->w.streams, "a", &view, 1), 0);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_an_ask_older_than_what_was_told(void **state) {
    (void)state;
    rig *g = rig_create(10, 12);
    static rig_reader r;
    stream_consumer_view view;
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    publish_many(g, "a/t", 20);
    r.keeps_page = true;
    rig_read(g, &r, "a", EARLIEST, "c", true);
    rig_settle(g);
    assert_int_equal(r.count, 10);
    stream_ask_next(r.ask); // on its way, with nothing acknowledged
    r.ask->acked = 7;
    stream_ask_done(r.ask);
    rig_settle(g);
    assert_int_equal(stream_consumers_view(g->w.streams, "a", &view, 1), 1);
    assert_int_equal(view.acked, 8);
    stream_ask_close(r.ask);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_members_share(void **state) {
    (void)state;
    rig *g = rig_create(8, 12);
    static rig_reader r[3];
    static u8 seen[401];
    memset(seen, 0, sizeof(seen));
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    publish_many(g, "a/t", 200);
    for (u32 i = 0; i < 3; i++) {
        r[i].keeps_page = true;
        rig_read(g, &r[i], "a", EARLIEST, "team", true);
    }
    rig_settle(g);
    // Each has got one page of ten, and nobody has what another one has.
    for (u32 i = 0; i < 3; i++) {
        assert_int_equal(r[i].count, 10);
        for (u32 k = 0; k < r[i].count; k++) assert_int_equal(seen[r[i].offsets[k]]++, 0);
    }
    // One leaves with half of its page acknowledged: the other half comes again, first of all.
    u64 left = r[1].offsets[5];
    r[1].ask->acked = 5;
    stream_ask_close(r[1].ask);
    r[0].keeps_page = false;
    r[0].ask->acked = 10;
    stream_ask_next(r[0].ask);
    rig_settle(g);
    assert_int_equal(r[0].offsets[10], left);
    for (u32 k = 10; k < r[0].count; k++) seen[r[0].offsets[k]]++;
    for (u32 offset = 1; offset <= 200; offset++) {
        bool twice = offset >= left && offset < left + 5;
        assert_int_equal(seen[offset], twice ? 2 : 1);
    }
    // What the third has is not acknowledged: the consumer's place is there.
    stream_consumer_view view;
    r[0].ask->acked = r[0].count;
    stream_ask_done(r[0].ask);
    rig_settle(g);
    assert_int_equal(stream_consumers_view(g->w.streams, "a", &view, 1), 1);
    assert_int_equal(view.acked, r[2].offsets[0]);
    assert_int_equal(view.members, 2);
    r[2].ask->acked = 10;
    stream_ask_close(r[2].ask);
    rig_settle(g);
    stream_consumers_view(g->w.streams, "a", &view, 1);
    assert_int_equal(view.acked, 201);
    stream_ask_close(r[0].ask);
    rig_close(g, true);
    rig_destroy(g);
}

static void test_refusals(void **state) {
    (void)state;
    rig *g = rig_create(9, 12);
    static rig_reader r;
    stream_partition parts[4];
    rig_stream(g, "a", "a/#\n", 0, 0);
    rig_open(g);
    assert_int_equal(stream_partitions(&g->w, "none", 4, parts, 4), 0);
    stream_partition gone = {.number = 77};
    stream_ask settings = {.arrived = rig_arrived, .context = &r, .messages_max = 10};
    r = (rig_reader){.keeps_page = true};
    r.ask = stream_ask_open(&g->w, &gone, &settings, EARLIEST, NULL, 0);
    rig_settle(g);
    assert_int_equal(r.result, -ENOENT);
    stream_ask_close(r.ask);
    // As many as a worker allows, and one more.
    assert_int_equal(stream_partitions(&g->w, "a", 1, parts, 4), 1);
    static stream_ask *asks[LIMIT_STREAM_ASKS];
    settings.wait = true;
    for (u32 i = 0; i < LIMIT_STREAM_ASKS; i++) {
        asks[i] = stream_ask_open(&g->w, &parts[0], &settings, LATEST, NULL, 0);
        assert_non_null(asks[i]);
    }
    assert_null(stream_ask_open(&g->w, &parts[0], &settings, LATEST, NULL, 0));
    for (u32 i = 0; i < LIMIT_STREAM_ASKS; i++) stream_ask_close(asks[i]); // none has been answered yet
    rig_settle(g);
    asks[0] = stream_ask_open(&g->w, &parts[0], &settings, LATEST, NULL, 0);
    assert_non_null(asks[0]);
    rig_close(g, true); // with a reading open
    rig_destroy(g);
}

// Power cuts at any moment: what was on disk is there under its offset, and offsets go on.
static void test_power_cuts(void **state) {
    (void)state;
    for (u64 seed = 100; seed < 140; seed++) {
        rig *g = rig_create(seed, 12);
        u64 first, durable = 0;
        rig_stream(g, "a", "a/#\n", 0, 0);
        rig_open(g);
        for (u32 cut = 0; cut < 4; cut++) {
            disk_sim_cut_after(g->sim, 1 + disk_sim_random(g->sim) % 60);
            for (u32 i = 0; i < 400 && !disk_sim_is_cut(g->sim); i++) {
                char payload[32];
                snprintf(payload, sizeof(payload), "%llu", (unsigned long long)info_of(g, "a").next);
                message_stream refs[LIMIT_STREAM_REFS];
                u32 count;
                if (rig_publish(g, "a/t", payload, refs, &count) < 0 || count == 0) break;
                if (i % 7 == 0) {
                    rig_turn(g, NS_PER_MS);
                    store_step(g->w.store);
                }
                static rig_reader r;
                if (i % 50 != 49) continue;
                r.keeps_page = true;
                rig_read(g, &r, "a", at_offset(MAX(durable, 1u)), NULL, false);
                for (u32 k = 0; k < 4; k++) {
                    rig_turn(g, 20 * NS_PER_MS);
                    store_step(g->w.store);
                }
                if (r.count > 0) durable = MAX(durable, r.offsets[r.count - 1]); // read: it is on disk
                stream_ask_close(r.ask);
            }
            rig_close(g, false);
            disk_sim_restart(g->sim);
            rig_open(g);
            stream_info info = info_of(g, "a");
            if (info.next <= durable) fail_msg("seed %llu: %llu was read and is lost", (unsigned long long)seed,
                                               (unsigned long long)durable);
            assert_int_equal(rig_read_all(g, "a", EARLIEST, &first), info.next - info.first);
        }
        rig_close(g, false);
        rig_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_what_matches), cmocka_unit_test(test_reads_from_anywhere),
        cmocka_unit_test(test_waits_for_what_comes), cmocka_unit_test(test_goes_on_after_a_restart),
        cmocka_unit_test(test_bounds_are_kept), cmocka_unit_test(test_of_one_age_one_gives),
        cmocka_unit_test(test_refuses_what_has_no_room), cmocka_unit_test(test_gives_the_log_its_room),
        cmocka_unit_test(test_a_consumer_keeps_what_it_has_not_acknowledged),
        cmocka_unit_test(test_removed_and_back),
        cmocka_unit_test(test_new_on_a_bad_disk),
        cmocka_unit_test(test_a_consumer_goes_on), cmocka_unit_test(test_an_ask_older_than_what_was_told),
        cmocka_unit_test(test_members_share),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_power_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
