// SPDX-License-Identifier: Apache-2.0
// test_mqtt_record.c: the records of durable sessions, there and back, and cut anywhere.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mqtt_record.h"

static void test_changes(void **state) {
    (void)state;
    const mqtt_change changes[] = {
        {.kind = MQTT_CHANGE_GONE, .session = 1},
        {.kind = MQTT_CHANGE_SENT, .session = 2, .origin = 1ull << 60, .number = 77, .id = 65535, .qos = 2},
        {.kind = MQTT_CHANGE_DROPPED, .session = 3, .number = 4},
        {.kind = MQTT_CHANGE_RELEASED, .session = 3, .id = 5},
        {.kind = MQTT_CHANGE_LEFT, .session = 3, .time_ms = 1ull << 41, .number = 3600, .flag = true},
        {.kind = MQTT_CHANGE_SUBSCRIBED, .session = 4,
         .subscription = {.share = "g", .share_len = 1, .filter = "a/#", .filter_len = 3, .id = 9, .qos = 1,
                          .retain_handling = 2, .no_local = false, .retain_as_published = true}},
        {.kind = MQTT_CHANGE_UNSUBSCRIBED, .session = 4, .subscription = {.filter = "b", .filter_len = 1}},
        {.kind = MQTT_CHANGE_EXCHANGE, .origin = 8, .number = 9, .time_ms = 3},
        {.kind = MQTT_CHANGE_WILL_DUE, .session = 5, .origin = 7, .time_ms = 11,
         .will = {.bytes = (const u8 *)"a/bpayload", .topic_len = 3, .payload_len = 7, .delay_s = 4,
                  .expiry_s = UINT32_MAX, .props_present = 1ull << 40, .qos = 2, .retain = true}},
        {.kind = MQTT_CHANGE_WILL_DONE, .session = 5, .origin = 7},
    };
    u8 bytes[512], *to = bytes;
    for (u32 i = 0; i < ARRAY_LEN(changes); i++) {
        u8 *end = mqtt_change_write(to, &changes[i]);
        assert_int_equal(end - to, mqtt_change_bytes(&changes[i]));
        to = end;
    }
    cursor at = cursor_of(bytes, (size_t)(to - bytes));
    mqtt_change c;
    for (u32 i = 0; i < ARRAY_LEN(changes); i++) {
        const mqtt_change *w = &changes[i];
        assert_int_equal(mqtt_change_next(&at, &c), 1);
        assert_true(c.kind == w->kind && c.session == w->session && c.origin == w->origin && c.number == w->number);
        assert_true(c.id == w->id && c.qos == w->qos && c.time_ms == w->time_ms && c.flag == w->flag);
        assert_int_equal(c.subscription.filter_len, w->subscription.filter_len);
        assert_int_equal(c.subscription.share == NULL, w->subscription.share == NULL);
        assert_int_equal(c.subscription.retain_handling, w->subscription.retain_handling);
        assert_int_equal(c.will.payload_len, w->will.payload_len);
        if (w->will.bytes != NULL) assert_memory_equal(c.will.bytes, w->will.bytes, 10);
        assert_true(c.will.expiry_s == w->will.expiry_s && c.will.props_present == w->will.props_present);
        assert_true(c.will.qos == w->will.qos && c.will.retain == w->will.retain && c.will.delay_s == w->will.delay_s);
    }
    assert_int_equal(mqtt_change_next(&at, &c), 0);
    for (u32 cut = 1; cut < (u32)(to - bytes); cut++) {
        at = cursor_of(bytes, cut);
        int result;
        while ((result = mqtt_change_next(&at, &c)) == 1) {
        }
        assert_true(result <= 0);
    }
}

static void test_block(void **state) {
    (void)state;
    backlog_ref refs[BACKLOG_CHUNK], back[BACKLOG_CHUNK];
    u8 bytes[MQTT_BLOCK_BYTES];
    u64 session;
    for (u32 i = 0; i < BACKLOG_CHUNK; i++) refs[i] = (backlog_ref){.origin = 10 + i, .bytes = i, .part = 2 * i};
    mqtt_block_write(bytes, 99, refs);
    cursor at = cursor_of(bytes + 1, sizeof(bytes) - 1);
    assert_true(mqtt_block_parse(&at, &session, back));
    assert_int_equal(session, 99);
    assert_memory_equal(refs, back, sizeof(refs));
    at = cursor_of(bytes + 1, sizeof(bytes) - 2);
    assert_false(mqtt_block_parse(&at, &session, back));
    refs[3].origin = refs[2].origin; // not ascending
    mqtt_block_write(bytes, 99, refs);
    at = cursor_of(bytes + 1, sizeof(bytes) - 1);
    assert_false(mqtt_block_parse(&at, &session, back));
}

static void test_whole(void **state) {
    (void)state;
    pool *memory = pool_create(1 << 20);
    backlog l = {0};
    for (u64 i = 1; i <= 3 * BACKLOG_CHUNK + 5; i++) {
        backlog_ref ref = {.origin = i, .bytes = 10, .part = 3};
        assert_true(backlog_push(&l, memory, &ref));
    }
    backlog_spilled(backlog_spillable(&l, 0), memory, 4711, 1037);
    mqtt_session_record r = {.id = "me", .id_len = 2, .left_ms = 12, .expiry_s = 60, .queued_bytes_max = 1000,
                             .queued_messages_max = 10, .window = 20, .last_id = 7, .version = 5, .has_will = true,
                             .will = {.bytes = (const u8 *)"t!", .topic_len = 1, .payload_len = 1, .delay_s = 4,
                                      .expiry_s = 5, .qos = 1, .retain = true}};
    mqtt_flight_record f = {.origin = 5, .part = 6, .id = 7, .qos = 2, .state = 1};
    mqtt_subscription_record sub = {.filter = "x/+", .filter_len = 3, .qos = 1};
    mqtt_snapshot whole = {.memory = memory};
    mqtt_snapshot_session(&whole, &r);
    mqtt_snapshot_count(&whole, 2);
    mqtt_snapshot_id(&whole, 3);
    mqtt_snapshot_id(&whole, 9);
    mqtt_snapshot_count(&whole, 1);
    mqtt_snapshot_flight(&whole, &f);
    mqtt_snapshot_count(&whole, l.used);
    for (u32 i = 0; i < l.used; i++) mqtt_snapshot_chunk(&whole, backlog_chunk_at(&l, i));
    mqtt_snapshot_count(&whole, 1);
    mqtt_snapshot_subscription(&whole, &sub);
    assert_false(whole.failed);

    mqtt_session_record back;
    for (u32 cut = 0; cut < whole.used; cut++) assert_false(mqtt_session_parse(whole.data, cut, &back));
    assert_true(mqtt_session_parse(whole.data, whole.used, &back));
    assert_true(back.id_len == 2 && back.left_ms == 12 && back.expiry_s == 60);
    assert_true(back.window == 20 && back.last_id == 7);
    assert_true(back.has_will && back.will.retain && back.will.delay_s == 4 && back.will.bytes[0] == 't');
    cursor lists = back.lists;
    assert_int_equal(mqtt_session_count(&lists), 2);
    assert_int_equal(mqtt_session_id(&lists), 3);
    assert_int_equal(mqtt_session_id(&lists), 9);
    assert_int_equal(mqtt_session_count(&lists), 1);
    mqtt_flight_record flight;
    mqtt_session_flight(&lists, &flight);
    assert_true(flight.origin == 5 && flight.part == 6 && flight.id == 7 && flight.qos == 2 && flight.state == 1);
    backlog copy = {0};
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) {
        backlog_chunk chunk;
        backlog_ref refs[BACKLOG_CHUNK];
        bool in_memory = mqtt_session_chunk(&lists, &chunk, refs);
        assert_true(backlog_restore(&copy, memory, &chunk, in_memory ? refs : NULL));
    }
    assert_true(copy.count == l.count && copy.bytes == l.bytes && copy.used == l.used);
    assert_true(backlog_has_block(&copy, 4711));
    assert_int_equal(mqtt_session_count(&lists), 1);
    mqtt_subscription_record got;
    mqtt_session_subscription(&lists, &got);
    assert_memory_equal(got.filter, "x/+", 3);
    backlog_free(&copy, memory);
    backlog_free(&l, memory);
    mqtt_snapshot_free(&whole);
    assert_int_equal(pool_used_bytes(memory), 0);
    pool_destroy(memory);
}

static void test_no_memory(void **state) {
    (void)state;
    pool *memory = pool_create(256);
    mqtt_snapshot whole = {.memory = memory};
    for (u32 i = 0; i < 1000; i++) mqtt_snapshot_id(&whole, 1);
    assert_true(whole.failed);
    mqtt_snapshot_free(&whole);
    pool_destroy(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
