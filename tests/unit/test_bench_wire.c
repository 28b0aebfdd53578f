// SPDX-License-Identifier: Apache-2.0
// test_bench_wire.c: frames of the load generator: built and read back split at every byte, damaged
// at every byte, heartbeats, acks, oversize lengths, the hello's escapes.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/bench_limits.h"
#include "bench/wire.h"

// Feeds data in two pieces; returns the kind of the first complete event, which must consume
// everything.
static wire_event feed_split(wire_mode mode, const u8 *data, size_t len, size_t split) {
    wire_rx rx = {0};
    wire_event ev = {.kind = WIRE_MORE};
    size_t at = 0;
    const size_t ends[] = {split, len};
    for (u32 part = 0; part < 2; part++) {
        while (at < ends[part]) {
            // A copy of exact size: reading beyond the piece is then found by the address
            // sanitizer.
            size_t n = ends[part] - at;
            u8 *piece = malloc(n);
            memcpy(piece, data + at, n);
            size_t used = wire_rx_feed(&rx, mode, piece, n, &ev);
            free(piece);
            assert_true(used > 0 && used <= n);
            at += used;
            if (ev.kind != WIRE_MORE) {
                assert_int_equal(at, len);
                return ev;
            }
        }
    }
    return ev;
}

static void test_echo_split_at_every_byte(void **state) {
    (void)state;
    const u32 sizes[] = {BENCH_FRAME_BYTES_MIN, 17, 32, 64, 200};
    u8 frame[200];
    for (u32 s = 0; s < ARRAY_LEN(sizes); s++) {
        wire_build(frame, sizes[s], 77, 5);
        for (size_t split = 0; split <= sizes[s]; split++) {
            wire_event ev = feed_split(WIRE_ECHO, frame, sizes[s], split);
            assert_int_equal(ev.kind, WIRE_REPLY);
            assert_int_equal(ev.number, 77);
            assert_int_equal(ev.conn_id, 5);
            assert_true(ev.intact);
        }
    }
}

// Any single wrong byte behind the length shows: as another number, another connection, or wrong
// filler.
static void test_echo_damage_is_seen(void **state) {
    (void)state;
    u8 frame[64];
    for (u32 at = WIRE_LENGTH_BYTES; at < sizeof(frame); at++) {
        wire_build(frame, sizeof(frame), 1000, 9);
        frame[at] ^= 0x40;
        wire_event ev = feed_split(WIRE_ECHO, frame, sizeof(frame), 30);
        assert_int_equal(ev.kind, WIRE_REPLY);
        assert_true(!ev.intact || ev.number != 1000 || ev.conn_id != 9);
    }
}

static void test_neighbours_differ(void **state) {
    (void)state;
    u8 a[64], b[64];
    wire_build(a, 64, 10, 3);
    wire_build(b, 64, 11, 3);
    assert_memory_not_equal(a + WIRE_HEAD_BYTES, b + WIRE_HEAD_BYTES, 48);
    wire_build(b, 64, 10, 4);
    assert_memory_not_equal(a + WIRE_HEAD_BYTES, b + WIRE_HEAD_BYTES, 48);
}

static void test_largest_frame(void **state) {
    (void)state;
    u8 *frame = malloc(BENCH_FRAME_BYTES_MAX);
    assert_non_null(frame);
    wire_build(frame, BENCH_FRAME_BYTES_MAX, UINT64_MAX, UINT32_MAX);
    wire_event ev = feed_split(WIRE_ECHO, frame, BENCH_FRAME_BYTES_MAX, 65536);
    assert_int_equal(ev.kind, WIRE_REPLY);
    assert_true(ev.intact && ev.number == UINT64_MAX);
    frame[BENCH_FRAME_BYTES_MAX - 1] ^= 1;
    assert_false(feed_split(WIRE_ECHO, frame, BENCH_FRAME_BYTES_MAX, 1).intact);
    free(frame);
}

static void test_coalesced_stream(void **state) {
    (void)state;
    u8 stream[64 * 3 + 8];
    wire_build_heartbeat(stream);
    for (u32 i = 0; i < 3; i++) wire_build(stream + 4 + 64 * i, 64, i + 1, 2);
    wire_build_heartbeat(stream + 4 + 64 * 3);
    const wire_event_kind expected[] = {WIRE_HEARTBEAT, WIRE_REPLY, WIRE_REPLY, WIRE_REPLY,
                                        WIRE_HEARTBEAT};
    wire_rx rx = {0};
    size_t at = 0;
    for (u32 i = 0; i < ARRAY_LEN(expected); i++) {
        wire_event ev;
        at += wire_rx_feed(&rx, WIRE_ECHO, stream + at, sizeof(stream) - at, &ev);
        assert_int_equal(ev.kind, expected[i]);
        if (ev.kind == WIRE_REPLY) assert_int_equal(ev.number, i);
    }
    assert_int_equal(at, sizeof(stream));
}

static void test_acks(void **state) {
    (void)state;
    const u8 ack[WIRE_ACK_BYTES] = {0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 1, 2};
    for (size_t split = 0; split <= sizeof(ack); split++) {
        wire_event ev = feed_split(WIRE_ACK, ack, sizeof(ack), split);
        assert_int_equal(ev.kind, WIRE_REPLY);
        assert_int_equal(ev.number, 258);
    }
    assert_int_equal(feed_split(WIRE_ECHO, ack, sizeof(ack), 3).kind, WIRE_OTHER);
    u8 longer[32];
    wire_build(longer, sizeof(longer), 1, 1);
    assert_int_equal(feed_split(WIRE_PUBLISH, longer, sizeof(longer), 8).kind, WIRE_OTHER);
    const u8 one[] = {0, 0, 0, 1, 0xff};
    assert_int_equal(feed_split(WIRE_ACK, one, sizeof(one), 4).kind, WIRE_OTHER);
}

static void test_oversize(void **state) {
    (void)state;
    const u8 huge[] = {0xff, 0xff, 0xff, 0xff};
    wire_rx rx = {0};
    wire_event ev;
    assert_int_equal(wire_rx_feed(&rx, WIRE_ECHO, huge, sizeof(huge), &ev), 4);
    assert_int_equal(ev.kind, WIRE_OVERSIZE);
}

static void test_hello(void **state) {
    (void)state;
    u8 out[128];
    int n = wire_build_hello(out, sizeof(out), "a\"b\\", 7, "t\n");
    const char expected[] = "{\"id\":\"a\\\"b\\\\7\",\"token\":\"t\\u000a\"}";
    assert_int_equal(n, 4 + strlen(expected));
    assert_memory_equal(out + 4, expected, strlen(expected));
    assert_int_equal(out[3], strlen(expected));
    for (u32 room = 4; room < (u32)n; room++) {
        u8 *small = malloc(room);
        assert_true(wire_build_hello(small, room, "a\"b\\", 7, "t\n") < 0);
        free(small);
    }
}

static int setup(void **state) {
    (void)state;
    wire_init();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo_split_at_every_byte),
        cmocka_unit_test(test_echo_damage_is_seen),
        cmocka_unit_test(test_neighbours_differ),
        cmocka_unit_test(test_largest_frame),
        cmocka_unit_test(test_coalesced_stream),
        cmocka_unit_test(test_acks),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_hello),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
