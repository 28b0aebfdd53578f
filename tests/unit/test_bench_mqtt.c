// SPDX-License-Identifier: Apache-2.0
// test_bench_mqtt.c: the parts of the MQTT load generator that decide what is an error: following
// messages by number, the short way through a PUBLISH against the codec's long one, packets that
// come in any pieces, and the command line.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/mqtt_flow.h"
#include "bench/mqtt_net_read.h"
#include "bench/mqtt_options.h"
#include "bench/schedule.h"
#include "proto/mqtt_write.h"

static void test_track_in_order(void **state) {
    (void)state;
    mq_track t = {0};
    for (u32 i = 0; i < 1000; i++) assert_int_equal(mq_track_take(&t, i), MQ_ARRIVED);
    assert_int_equal(t.missing, 0);
    assert_int_equal(mq_track_take(&t, 999), MQ_DUPLICATED);
    assert_int_equal(mq_track_take(&t, 940), MQ_DUPLICATED);
    assert_int_equal(mq_track_take(&t, 3), MQ_DUPLICATED); // beyond what the bits remember
}

static void test_track_gap_and_late(void **state) {
    (void)state;
    mq_track t = {0};
    assert_int_equal(mq_track_take(&t, 0), MQ_ARRIVED);
    assert_int_equal(mq_track_take(&t, 3), MQ_ARRIVED);
    assert_int_equal(t.missing, 2);
    assert_int_equal(mq_track_take(&t, 2), MQ_REORDERED);
    assert_int_equal(mq_track_take(&t, 2), MQ_DUPLICATED);
    assert_int_equal(mq_track_take(&t, 1), MQ_REORDERED);
    assert_int_equal(t.missing, 0);
    assert_int_equal(mq_track_take(&t, 200), MQ_ARRIVED); // the whole window is passed over
    assert_int_equal(t.missing, 196);
    assert_int_equal(mq_track_take(&t, 3), MQ_REORDERED); // too old to tell: something is missing
}

// Against a plain list, from seeds.
static void test_track_agrees_with_a_list(void **state) {
    (void)state;
    u64 random = 7;
    for (u32 round = 0; round < 200; round++) {
        mq_track t = {0};
        bool seen[256] = {0};
        u32 top = 0;
        for (u32 i = 0; i < 300; i++) {
            u32 low = top > 60 ? top - 60 : 0;
            u32 seq = low + (u32)(random_next(&random) % (top - low + 4));
            if (seq >= ARRAY_LEN(seen)) break;
            mq_arrival want = seen[seq] ? MQ_DUPLICATED : seq < top ? MQ_REORDERED : MQ_ARRIVED;
            assert_int_equal(mq_track_take(&t, seq), want);
            seen[seq] = true;
            top = MAX(top, seq + 1);
        }
    }
}

static void test_map(void **state) {
    (void)state;
    mq_map m = {0};
    bool failed;
    assert_true(mq_map_take(&m, 5, &failed));
    assert_false(mq_map_take(&m, 5, &failed));
    assert_false(failed);
    assert_true(mq_map_take(&m, 1000000, &failed));
    assert_true(mq_map_take(&m, 999999, &failed));
    assert_false(mq_map_take(&m, 1000000, &failed));
    assert_true(mq_map_take(&m, 0, &failed));
    mq_map_free(&m);
}

static void test_filler(void **state) {
    (void)state;
    static u8 filler[10000];
    mq_payload_fill(filler, sizeof(filler));
    assert_true(mq_payload_filler_is_right(filler, sizeof(filler)));
    assert_true(mq_payload_filler_is_right(filler, 0));
    filler[9999] ^= 1;
    assert_false(mq_payload_filler_is_right(filler, sizeof(filler)));
    assert_true(mq_payload_filler_is_right(filler, 9999));
    assert_false(mq_payload_filler_is_right(filler + 1, 100));
}

// Whole packets through both readers; cut short, the short one must never read beyond.
static void test_publish_read(void **state) {
    (void)state;
    u8 payload[300] = {1, 2, 3};
    for (u32 i = 0; i < 3 * 2 * 3; i++) {
        u8 qos = (u8)(i % 3);
        bool v5 = i / 3 % 2;
        u32 len = (u32[]){0, 20, 300}[i / 6];
        mqtt_publish p = {.qos = qos, .packet_id = qos > 0 ? 4660 : 0, .retain = qos == 1,
                          .topic = {(const u8 *)"a/b", 3}, .payload = {payload, len}};
        u8 packet[400];
        int size = mqtt_write_publish(v5 ? MQTT_5 : MQTT_3_1_1, &p, packet, sizeof(packet));
        assert_true(size > 0);
        mq_message m;
        assert_true(mq_publish_read(packet, (u32)size, v5, &m));
        assert_int_equal(m.qos, qos);
        assert_int_equal(m.packet_id, qos > 0 ? 4660 : 0);
        assert_int_equal(m.retain, qos == 1);
        assert_int_equal(m.payload_len, len);
        assert_memory_equal(m.payload, payload, len);
        for (u32 cut = 2; cut < (u32)size - len; cut++) {
            u8 *exact = malloc(cut);
            memcpy(exact, packet, cut);
            assert_false(mq_publish_read(exact, cut, v5, &m));
            free(exact);
        }
    }
}

// --- pieces ---

typedef struct seen {
    u32 messages, acks, pongs, bytes, readies, ended;
} seen;
static seen now_seen;

static void on_message(mq_client *c, const mq_message *m, u64 now_ns) {
    (void)c, (void)now_ns;
    now_seen.messages++;
    now_seen.bytes += m->payload_len;
}
static void on_ack(mq_client *c, u8 type, const mqtt_ack *ack, u64 now_ns) {
    (void)c, (void)type, (void)now_ns;
    assert_int_equal(ack->packet_id, 7);
    now_seen.acks++;
}
static void on_pong(mq_client *c, u64 now_ns) {
    (void)c, (void)now_ns;
    now_seen.pongs++;
}
static void on_ready(mq_client *c, u64 now_ns) {
    (void)c, (void)now_ns;
    now_seen.readies++;
}
static void on_ended(mq_client *c, u64 now_ns) {
    (void)c, (void)now_ns;
    now_seen.ended++;
}
static const mq_role role = {.ready = on_ready, .message = on_message, .ack = on_ack,
                             .pong = on_pong, .ended = on_ended};

static u32 stream_make(u8 *out, u32 capacity) {
    static u8 payload[700];
    u32 used = 0;
    mqtt_connack connack = {0};
    mqtt_ack ack = {.packet_id = 7};
    used += (u32)mqtt_write_connack(MQTT_3_1_1, &connack, out + used, capacity - used);
    for (u32 i = 0; i < 5; i++) {
        mqtt_publish p = {.topic = {(const u8 *)"t", 1}, .payload = {payload, i * 170}};
        used += (u32)mqtt_write_publish(MQTT_3_1_1, &p, out + used, capacity - used);
        used += (u32)mqtt_write_ack(MQTT_3_1_1, MQTT_PUBACK, &ack, out + used, capacity - used);
        used += (u32)mqtt_write_ping(MQTT_PINGRESP, out + used, capacity - used);
    }
    return used;
}

static void client_make(mq_net *net, mq_client *c, const mq_options *o) {
    mq_net_prepare(net, o, NULL, NULL);
    *c = (mq_client){.net = net, .role = &role, .state = MQ_OPENING};
    now_seen = (seen){0};
}

static void test_any_pieces(void **state) {
    (void)state;
    u8 stream[4096];
    u32 bytes = stream_make(stream, sizeof(stream));
    mq_options o;
    mq_options_default(&o, MQ_FAN_IN);
    for (u32 piece = 1; piece < bytes; piece++) {
        mq_net net;
        mq_client c;
        client_make(&net, &c, &o);
        for (u32 at = 0; at < bytes; at += piece) {
            u32 len = MIN(piece, bytes - at);
            u8 *exact = malloc(len);
            memcpy(exact, stream + at, len);
            mq_client_read(&c, exact, len, 1);
            free(exact);
        }
        assert_int_equal(now_seen.readies, 1);
        assert_int_equal(now_seen.messages, 5);
        assert_int_equal(now_seen.bytes, 1700);
        assert_int_equal(now_seen.acks, 5);
        assert_int_equal(now_seen.pongs, 5);
        assert_int_equal(now_seen.ended, 0);
        mq_client_free(&c);
    }
}

static void test_bad_bytes_end_the_connection(void **state) {
    (void)state;
    static const struct {
        u8 bytes[8];
        u32 len;
        bench_error error;
    } rows[] = {
        {{0x20, 2, 0, 5}, 4, BENCH_ERROR_REFUSED},           // CONNACK: not authorized
        {{0x20, 2, 2, 0}, 4, BENCH_ERROR_MALFORMED},         // reserved flags
        {{0x10, 0}, 2, BENCH_ERROR_MALFORMED},               // CONNECT from a broker
        {{0x30, 0xff, 0xff, 0xff, 0xff}, 5, BENCH_ERROR_MALFORMED}, // length of five bytes
        {{0x30, 3, 0, 1, 't'}, 5, BENCH_ERROR_UNEXPECTED_FRAME},    // PUBLISH before CONNACK
    };
    mq_options o;
    mq_options_default(&o, MQ_FAN_IN);
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        mq_net net;
        mq_client c;
        client_make(&net, &c, &o);
        mq_client_read(&c, rows[i].bytes, rows[i].len, 1);
        assert_int_equal(c.state, MQ_ENDED);
        assert_int_equal(now_seen.ended, 1);
        assert_int_equal(net.errors.count[rows[i].error], 1);
        mq_client_free(&c);
    }
}

static int parse(mq_options *o, mq_kind kind, const char *words) {
    char text[256], *argv[32] = {(char[]){"x"}}, *save = NULL;
    int argc = 1;
    snprintf(text, sizeof(text), "%s", words);
    for (char *w = strtok_r(text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        argv[argc++] = w;
    }
    mq_options_default(o, kind);
    return mq_options_parse(o, argc, argv);
}

static void test_options(void **state) {
    (void)state;
    mq_options o;
    assert_int_equal(parse(&o, MQ_FAN_IN, "--rate 20k --qos 2 --version 5.0 --size=128 --pin 0"), 0);
    assert_true(o.rate == 20000 && o.qos == 2 && o.sub_qos == 2 && o.version == 1 && o.size == 128);
    assert_int_equal(parse(&o, MQ_PAIRS, "--pairs 300 --qos 1 --sub-qos 0"), 0);
    assert_true(o.pubs == 300 && o.subs == 300 && o.sub_qos == 0);
    assert_int_equal(parse(&o, MQ_STORM, "--conns 100 --hold --at-once 10"), 0);
    static const struct {
        mq_kind kind;
        const char *words;
    } bad[] = {{MQ_FAN_IN, "--size 15"},       {MQ_FAN_IN, "--rate 0"},    {MQ_FAN_IN, "--qos 3"},
               {MQ_FAN_IN, "--hold"},          {MQ_FAN_IN, "--nonsense"},  {MQ_STORM, "--hold"},
               {MQ_SHARED, "--groups 50"},     {MQ_FAN_IN, "--prefix a/#"}, {MQ_FAN_IN, "--rate"},
               {MQ_FAN_IN, "--password x"},    {MQ_IDLE, "--conns 0"},     {MQ_FAN_IN, "rate"},
               {MQ_FAN_OUT, "--pubs 100k --subs 100k"}, {MQ_FAN_IN, "--find-max=1"}};
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(parse(&o, bad[i].kind, bad[i].words) < 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_track_in_order),
        cmocka_unit_test(test_track_gap_and_late),
        cmocka_unit_test(test_track_agrees_with_a_list),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_filler),
        cmocka_unit_test(test_publish_read),
        cmocka_unit_test(test_any_pieces),
        cmocka_unit_test(test_bad_bytes_end_the_connection),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
