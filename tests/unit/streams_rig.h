// SPDX-License-Identifier: Apache-2.0
// streams_rig.h: one worker with a log on a simulated disk, its streams and its desk, and a keeper of message
// records that knows nothing but streams. Time is the test's.
#ifndef SLUICE_TEST_STREAMS_RIG_H
#define SLUICE_TEST_STREAMS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/timer.h"
#include "store/disk_sim.h"
#include "store/log.h"
#include "store/message_record.h"
#include "store/stream_ask.h"
#include "store/stream_feed.h"
#include "store/streams_state.h"
#include "worker.h"

#define RIG_SEGMENT (1u << 20)

typedef struct rig {
    disk_sim *sim;
    gateway gw;
    worker w;
    config conf;
    u32 log_bytes;
} rig;

static void rig_wake(void *context) {
    (void)context;
}

static u32 rig_refs(const store_record *r, message_stream *refs) {
    message_record m;
    assert_true(message_record_parse(r->data, r->len, &m));
    for (u32 i = 0; i < m.stream_count; i++) refs[i] = message_record_stream(&m, i);
    return m.stream_count;
}

static void rig_replay(void *context, const store_record *r) {
    rig *g = context;
    message_stream refs[LIMIT_STREAM_REFS];
    u32 count = rig_refs(r, refs);
    stream_place place = {.origin = r->origin, .time_ms = r->time_ms, .bytes = r->len};
    streams_replay_message(g->w.streams, refs, count, &place);
}

static bool rig_is_live(void *context, const store_record *r) {
    rig *g = context;
    message_stream refs[LIMIT_STREAM_REFS];
    return streams_need(g->w.streams, refs, rig_refs(r, refs));
}

static void rig_released(worker *w, const store_record *r) {
    store_drop(w->store, r->origin, r->len);
}

static void rig_stream(rig *g, const char *name, const char *topics, u64 max_bytes, u64 max_age_ms) {
    stream_config *c = &g->conf.streams[g->conf.stream_count++];
    snprintf(c->name, sizeof(c->name), "%s", name);
    snprintf(c->topics, sizeof(c->topics), "%s", topics);
    c->max_bytes = max_bytes;
    c->max_age_ms = max_age_ms;
}

static void rig_open(rig *g) {
    worker *w = &g->w;
    *w = (worker){.gw = &g->gw, .conf = &g->conf, .now_ns = w->now_ns};
    g->gw.worker_count = 1;
    g->gw.workers = w;
    w->wheel = timer_wheel_create(w->now_ns, w);
    assert_non_null(w->wheel);
    store_config config = {.worker = 0, .workers = 1, .dir = "/log", .log_number = 1, .disk = disk_sim_disk(g->sim),
                           .bytes_max = g->log_bytes, .segment_bytes = RIG_SEGMENT, .wake = rig_wake};
    const char *step;
    assert_int_equal(store_create(&config, &w->store, &step), 0);
    store_keeper keeper = {.context = g, .replay = rig_replay, .is_live = rig_is_live};
    store_register(w->store, STORE_MESSAGE, &keeper);
    w->streams = streams_create(w);
    w->stream_desk = stream_desk_create(w);
    streams_on_release(w->streams, rig_released);
    assert_true(w->streams != NULL && w->stream_desk != NULL);
    assert_int_equal(store_start(w->store), 0);
}

static void rig_close(rig *g, bool clean) {
    worker *w = &g->w;
    stream_desk_destroy(w->stream_desk);
    if (clean) streams_stop(w->streams);
    if (clean) store_stop(w->store);
    streams_destroy(w->streams);
    store_destroy(w->store);
    timer_wheel_destroy(w->wheel);
}

static rig *rig_create(u64 seed, u32 log_segments) {
    rig *g = calloc(1, sizeof(*g));
    assert_non_null(g);
    disk_sim_config config = {.seed = seed};
    g->sim = disk_sim_create(&config);
    assert_non_null(g->sim);
    g->log_bytes = log_segments * RIG_SEGMENT;
    g->w.now_ns = clock_mono_ns(); // as the log takes it at its start
    return g;
}

static void rig_destroy(rig *g) {
    disk_sim_destroy(g->sim);
    free(g);
}

static void rig_turn(rig *g, u64 step_ns) {
    g->w.now_ns += step_ns;
    store_turn(g->w.store, g->w.now_ns);
    timer_run(g->w.wheel, g->w.now_ns);
}

static u64 rig_delivered(const rig *g) {
    u64 count = 0;
    for (u32 i = 0; i < g->w.streams->count; i++) count += counter_get(&g->w.streams->parts[i]->counters.delivered);
    return count;
}

// Runs until the disk and everybody have nothing more to do.
static void rig_settle(rig *g) {
    u64 before = 0;
    for (u32 idle = 0; idle < 24;) { // acknowledgements are gathered for 50 ms
        rig_turn(g, 5 * NS_PER_MS);
        u64 now = rig_delivered(g);
        bool any = now != before;
        before = now;
        while (store_step(g->w.store)) any = true;
        idle = any ? 0 : idle + 1;
    }
}

// What the publisher's path does. Returns 0 with the refs, or the log's error.
static int rig_publish(rig *g, const char *topic, const char *payload, message_stream *refs, u32 *count) {
    worker *w = &g->w;
    *count = streams_take(w->streams, topic, (u32)strlen(topic), refs, LIMIT_STREAM_REFS);
    if (*count == 0) return 0;
    message_record m = {.topic = topic, .topic_len = (u32)strlen(topic), .payload = (const u8 *)payload,
                        .payload_len = (u32)strlen(payload), .expiry_s = MESSAGE_EXPIRY_NEVER, .qos = 1,
                        .stream_count = *count, .props = (const u8 *)""};
    u8 head[512];
    struct iovec parts[4];
    assert_true(message_record_head_bytes(&m) <= sizeof(head));
    message_record_write(&m, refs, NULL, head, parts);
    u32 bytes = 0;
    for (u32 i = 0; i < 4; i++) bytes += (u32)parts[i].iov_len;
    store_pos pos;
    int result = store_append(w->store, STORE_MESSAGE, STORE_KEEP, parts, 4, &pos);
    if (result < 0) return result;
    stream_place place = {.origin = pos, .time_ms = clock_real_ns() / NS_PER_MS, .bytes = bytes};
    streams_appended(w->streams, refs, *count, &place);
    return 0;
}

// One that must be taken by one stream; its offset.
static u64 rig_take(rig *g, const char *topic, const char *payload) {
    message_stream refs[LIMIT_STREAM_REFS];
    u32 count;
    assert_int_equal(rig_publish(g, topic, payload, refs, &count), 0);
    assert_int_equal(count, 1);
    return refs[0].offset;
}

// --- a reader ---

typedef struct rig_reader {
    stream_ask *ask;
    u64 offsets[4096];
    char first_payload[64];
    u32 count, pages;
    bool ended, keeps_page; // the next page is asked for by the test
    int result;
} rig_reader;

static void rig_arrived(stream_ask *a) {
    rig_reader *r = a->context;
    stream_message m;
    u32 at = 0;
    r->pages++;
    r->result = a->result;
    r->ended = a->end;
    while (stream_page_next(a, &at, &m)) {
        assert_true(r->count < ARRAY_LEN(r->offsets));
        if (r->count == 0) {
            snprintf(r->first_payload, sizeof(r->first_payload), "%.*s", (int)m.entry.payload_len,
                     (const char *)m.payload);
        }
        r->offsets[r->count++] = m.entry.offset;
    }
    if (!r->keeps_page && a->result == 0 && (a->wait || !a->end)) stream_ask_next(a);
}

static void rig_read(rig *g, rig_reader *r, const char *stream, stream_from from, const char *consumer, bool wait) {
    stream_partition parts[4];
    bool keeps = r->keeps_page;
    *r = (rig_reader){.keeps_page = keeps};
    assert_int_equal(stream_partitions(&g->w, stream, (u32)strlen(stream), parts, ARRAY_LEN(parts)), 1);
    stream_ask settings = {.arrived = rig_arrived, .context = r, .messages_max = 10, .wait = wait};
    r->ask = stream_ask_open(&g->w, &parts[0], &settings, from, consumer,
                             consumer == NULL ? 0 : (u32)strlen(consumer));
    assert_non_null(r->ask);
}

// Reads to the end and closes: how many, the first offset in *first.
static u32 rig_read_all(rig *g, const char *stream, stream_from from, u64 *first) {
    static rig_reader r;
    r.keeps_page = false;
    rig_read(g, &r, stream, from, NULL, false);
    rig_settle(g);
    assert_true(r.ended);
    for (u32 i = 1; i < r.count; i++) assert_int_equal(r.offsets[i], r.offsets[i - 1] + 1);
    *first = r.count == 0 ? 0 : r.offsets[0];
    stream_ask_close(r.ask);
    return r.count;
}

#endif
