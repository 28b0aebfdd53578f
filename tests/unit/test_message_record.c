// SPDX-License-Identifier: Apache-2.0
// test_message_record.c: message records, there and back, and what the parser refuses.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/message_record.h"

static u8 bytes[65536];

// Writes a record into `bytes`. Returns its length.
static u32 write_record(const message_record *r, const message_stream *streams, const message_waiting *waiting) {
    static u8 head[16384];
    struct iovec parts[4];
    u32 head_bytes = message_record_head_bytes(r), len = 0;
    assert_true(head_bytes > 0 && head_bytes <= sizeof(head));
    message_record_write(r, streams, waiting, head, parts);
    assert_int_equal(parts[0].iov_len, head_bytes);
    for (u32 i = 0; i < 4; i++) {
        if (parts[i].iov_len > 0) memcpy(bytes + len, parts[i].iov_base, parts[i].iov_len);
        len += (u32)parts[i].iov_len;
    }
    return len;
}

static message_record small(void) {
    return (message_record){.topic = "a/b", .topic_len = 3, .payload = (const u8 *)"hello", .payload_len = 5,
                            .published_ms = 1234567890123, .expiry_s = MESSAGE_EXPIRY_NEVER, .qos = 1};
}

static void test_smallest(void **state) {
    (void)state;
    message_record r = small(), back;
    u32 len = write_record(&r, NULL, NULL);
    assert_true(message_record_parse(bytes, len, &back));
    assert_int_equal(back.topic_len, 3);
    assert_memory_equal(back.topic, "a/b", 3);
    assert_memory_equal(back.payload, "hello", 5);
    assert_int_equal(back.published_ms, r.published_ms);
    assert_int_equal(back.expiry_s, MESSAGE_EXPIRY_NEVER);
    assert_int_equal(back.qos, 1);
    assert_false(back.retain);
    assert_int_equal(back.waiting_count + back.stream_count + back.exchange_session + back.source_pos, 0);
}

static void test_everything(void **state) {
    (void)state;
    const u32 ids[] = {7, 268435455, 1};
    const message_stream streams[] = {{.stream = 3, .offset = 1ull << 40}, {.stream = 65535, .offset = 1}};
    const message_waiting waiting[] = {
        {.session = 5, .qos = 1, .packet_id = 77, .ids = ids, .id_count = 2},
        {.session = 6, .qos = 2, .retain = true},
        {.session = UINT64_MAX, .qos = 1, .ids = ids + 2, .id_count = 1},
    };
    message_record r = small(), back;
    r.props = (const u8 *)"\x01\x01";
    r.props_len = 2;
    r.props_present = 2;
    r.retain = true;
    r.qos = 2;
    r.expiry_s = 60;
    r.exchange_session = 9;
    r.exchange_id = 12;
    r.targets = 6;
    r.source_worker = 1;
    r.source_pos = 4711;
    r.stream_count = 2;
    r.waiting_count = 3;
    r.id_count = 3;
    u32 len = write_record(&r, streams, waiting);
    assert_true(message_record_parse(bytes, len, &back));
    assert_true(back.retain && back.qos == 2 && back.expiry_s == 60 && back.props_present == 2);
    assert_true(back.exchange_session == 9 && back.exchange_id == 12 && back.targets == 6);
    assert_true(back.source_worker == 1 && back.source_pos == 4711);
    for (u32 i = 0; i < 2; i++) {
        message_stream s = message_record_stream(&back, i);
        assert_true(s.stream == streams[i].stream && s.offset == streams[i].offset);
    }
    for (u32 i = 0; i < 3; i++) {
        message_waiting w;
        u32 got[2];
        assert_true(message_record_find(&back, waiting[i].session, &w));
        assert_int_equal(w.packet_id, waiting[i].packet_id);
        assert_int_equal(w.qos, waiting[i].qos);
        assert_int_equal(w.retain, waiting[i].retain);
        assert_int_equal(w.id_count, waiting[i].id_count);
        message_record_ids(&back, &w, got);
        for (u32 k = 0; k < w.id_count; k++) assert_int_equal(got[k], waiting[i].ids[k]);
    }
    message_waiting none;
    assert_false(message_record_find(&back, 4, &none));
    assert_false(message_record_find(&back, 7, &none));
    // Cut anywhere, or with a byte more, it is no record.
    for (u32 cut = 0; cut < len; cut++) assert_false(message_record_parse(bytes, cut, &back));
    bytes[len] = 0;
    assert_false(message_record_parse(bytes, len + 1, &back));
}

static void test_refused(void **state) {
    (void)state;
    message_record r = small(), back;
    const message_waiting twice[] = {{.session = 5, .qos = 1}, {.session = 5, .qos = 1}};
    const message_waiting down[] = {{.session = 6, .qos = 1}, {.session = 5, .qos = 1}};
    const message_waiting qos_0 = {.session = 5}, nobody = {.qos = 1};
    r.waiting_count = 2;
    assert_false(message_record_parse(bytes, write_record(&r, NULL, twice), &back));
    assert_false(message_record_parse(bytes, write_record(&r, NULL, down), &back));
    r.waiting_count = 1;
    assert_false(message_record_parse(bytes, write_record(&r, NULL, &qos_0), &back));
    assert_false(message_record_parse(bytes, write_record(&r, NULL, &nobody), &back));
    r = small();
    r.topic = "a/+";
    assert_false(message_record_parse(bytes, write_record(&r, NULL, NULL), &back));
    r = small();
    u32 len = write_record(&r, NULL, NULL);
    bytes[0] = 2; // another format
    assert_false(message_record_parse(bytes, len, &back));
    bytes[0] = 1;
    bytes[1] = 3; // QoS 3
    assert_false(message_record_parse(bytes, len, &back));
    assert_false(message_record_parse(NULL, 0, &back));
}

static void test_too_large(void **state) {
    (void)state;
    message_record r = small();
    r.waiting_count = UINT32_MAX / 8;
    assert_int_equal(message_record_head_bytes(&r), 0);
    r = small();
    r.stream_count = MESSAGE_RECORD_STREAMS_MAX + 1;
    assert_int_equal(message_record_head_bytes(&r), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
