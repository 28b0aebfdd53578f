// SPDX-License-Identifier: Apache-2.0
// test_outqueue.c: a connection's output queue: copied bytes and references come out in order, whatever a
// send takes; each reference is released once, when its last byte has gone or the queue is freed; what is
// refused for want of memory leaves nothing behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/conn_internal.h"
#include "random.h"

#define STREAM_BYTES (4u << 20)

typedef struct shared_bytes {
    u8 *data;
    u32 len, released;
    u64 end; // offset of the stream where it ends
} shared_bytes;

static worker w;
static conn c;
static u8 *stream;   // everything that was queued
static u64 queued, sent;
static shared_bytes refs[4096];
static u32 ref_count;

static void release(void *context) {
    shared_bytes *s = context;
    s->released++;
    memset(s->data, 0xee, s->len); // nobody may read it any more
}

static void setup(u64 budget_bytes) {
    static const u32 sizes[] = {256, 1024, 4096, 16384};
    memset(&w, 0, sizeof(w));
    memset(&c, 0, sizeof(c));
    for (u32 i = 0; i < 4; i++) w.segment_slabs[i] = slab_create("test", sizes[i], 64u << 20);
    w.memory_budget_bytes = budget_bytes;
    c.owner = &w;
    stream = malloc(STREAM_BYTES);
    assert_non_null(stream);
    queued = sent = 0;
    ref_count = 0;
}

static void teardown(void) {
    outqueue_free(&c);
    assert_int_equal(w.memory_used_bytes, 0);
    for (u32 i = 0; i < ref_count; i++) {
        assert_int_equal(refs[i].released, 1);
        free(refs[i].data);
    }
    for (u32 i = 0; i < 4; i++) slab_destroy(w.segment_slabs[i]);
    free(stream);
}

static void fill_random(u8 *out, u32 len, u64 *random) {
    for (u32 i = 0; i < len; i++) out[i] = (u8)random_below(random, 256);
}

static bool queue_copy(u64 *random, u32 len) {
    u8 *at = stream + queued;
    fill_random(at, len, random);
    u32 head = len == 0 ? 0 : random_below(random, len + 1);
    struct iovec pieces[] = {{at, head}, {at + head, len - head}};
    if (!outqueue_append(&c, pieces, 2, len)) return false;
    queued += len;
    return true;
}

static bool queue_shared(u64 *random, u32 head_len, u32 len) {
    shared_bytes *s = &refs[ref_count];
    *s = (shared_bytes){.data = malloc(len), .len = len, .end = queued + head_len + len};
    assert_non_null(s->data);
    fill_random(stream + queued, head_len + len, random);
    memcpy(s->data, stream + queued + head_len, len);
    if (!outqueue_append_shared(&c, stream + queued, head_len, s->data, len, release, s)) {
        assert_int_equal(s->released, 0);
        free(s->data);
        return false;
    }
    ref_count++;
    queued += head_len + len;
    return true;
}

static void send_some(u64 *random) {
    struct iovec single;
    const struct iovec *list;
    u32 bytes, count = outqueue_gather(&c, &single, &list, &bytes);
    assert_in_range(count, 1, LIMIT_OUT_IOVECS);
    u32 take = random_below(random, 3) == 0 ? bytes : 1 + random_below(random, bytes), left = take;
    u64 at = sent, total = 0;
    for (u32 i = 0; i < count; i++) total += list[i].iov_len;
    assert_int_equal(total, bytes);
    for (u32 i = 0; i < count && left > 0; i++) {
        u32 n = MIN(left, (u32)list[i].iov_len);
        assert_memory_equal(list[i].iov_base, stream + at, n);
        at += n;
        left -= n;
    }
    if (c.out_iov != NULL) worker_buf_free(&w, c.out_iov, OUT_IOVECS_BYTES);
    c.out_iov = NULL;
    outqueue_consume(&c, take);
    sent += take;
    for (u32 i = 0; i < ref_count; i++) assert_int_equal(refs[i].released, refs[i].end <= sent);
}

static void test_random(void **state) {
    (void)state;
    for (u64 seed = 1; seed <= 30; seed++) {
        // Some with a budget that runs out now and then.
        setup(seed % 3 == 0 ? 6000 + 700 * seed : 64u << 20);
        u64 random = seed;
        u32 largest = seed % 2 ? 700 : 20000;
        for (u32 step = 0; step < 1500 && queued + 2 * largest < STREAM_BYTES && ref_count < 1000; step++) {
            u32 act = random_below(&random, 6);
            if (act < 2) {
                (void)queue_copy(&random, random_below(&random, largest));
            } else if (act < 4) {
                (void)queue_shared(&random, random_below(&random, 300), 1 + random_below(&random, largest));
            } else if (c.out_head != NULL && sent < queued) {
                send_some(&random);
            }
        }
        while (seed % 4 != 0 && sent < queued) send_some(&random);
        if (seed % 4 != 0) assert_null(c.out_head);
        teardown();
    }
}

// 1 KiB to 1,000 connections that take nothing: each costs its queue entry.
static void test_fan_out_costs_entries(void **state) {
    (void)state;
    setup(64u << 20);
    static conn conns[1000];
    memset(conns, 0, sizeof(conns));
    u8 head[12] = {0}, payload[1024] = {0};
    shared_bytes s = {.data = payload, .len = sizeof(payload)};
    u64 per_message[3];
    for (u32 round = 0; round < 3; round++) {
        u64 before = w.memory_used_bytes;
        for (u32 i = 0; i < ARRAY_LEN(conns); i++) {
            conns[i].owner = &w;
            bool ok = outqueue_append_shared(&conns[i], head, sizeof(head), payload, sizeof(payload), release, &s);
            assert_true(ok);
        }
        per_message[round] = (w.memory_used_bytes - before) / ARRAY_LEN(conns);
    }
    assert_int_equal(per_message[0], LIMIT_OUT_SEGMENT_MIN_BYTES); // the first segment
    assert_int_equal(per_message[1] + per_message[2], 0);          // has room for the next ones
    for (u32 i = 0; i < ARRAY_LEN(conns); i++) outqueue_free(&conns[i]);
    assert_int_equal(s.released, 3 * ARRAY_LEN(conns));
    teardown();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_fan_out_costs_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
