// SPDX-License-Identifier: Apache-2.0
// test_mqtt_write.c: what the writers put out, byte for byte; their sizes and errors; and random
// packets of every type, version and sender that must come back as they went, whole, and without
// harm when damaged.
#include "mqtt_random.h"
#include "mqtt_rows.h"

#define SEED 0x51u
#define ROUNDS 20000u

static mqtt_bytes text_of(const char *text) {
    return (mqtt_bytes){(const u8 *)text, (u32)strlen(text)};
}

static void assert_written(const u8 *buf, int size, const char *notation) {
    u8 expected[4096];
    u32 len = row_assemble(&notation, expected);
    assert_int_equal(size, len);
    assert_memory_equal(buf, expected, len);
}

static void test_connect_bytes(void **state) {
    (void)state;
    u8 buf[256];
    mqtt_connect c = {.version = MQTT_3_1_1, .clean_start = true, .keep_alive_s = 60,
                      .client_id = text_of("id")};
    assert_written(buf, mqtt_write_connect(&c, buf, sizeof(buf)), "10(s'MQTT' 04 02 003c s'id')");
    c.version = MQTT_3_1;
    assert_written(buf, mqtt_write_connect(&c, buf, sizeof(buf)), "10(s'MQIsdp' 03 02 003c s'id')");
    c.version = MQTT_5;
    c.user_name = text_of("u");
    c.password = text_of("");
    c.has_will = c.will_retain = true;
    c.will_qos = 1;
    c.will_topic = text_of("w");
    c.will_payload = text_of("p");
    assert_written(buf, mqtt_write_connect(&c, buf, sizeof(buf)),
                   "10(s'MQTT' 05 ee 003c () s'id' () s'w' s'p' s'u' s'')");
    c.will_qos = 3;
    assert_int_equal(mqtt_write_connect(&c, buf, sizeof(buf)), -EINVAL);
    c.will_qos = 0;
    c.user_name.data = NULL;
    assert_true(mqtt_write_connect(&c, buf, sizeof(buf)) > 0);
    c.version = MQTT_3_1_1;
    assert_int_equal(mqtt_write_connect(&c, buf, sizeof(buf)), -EINVAL); // MQTT-3.1.2-22
    c.version = 6;
    assert_int_equal(mqtt_write_connect(&c, buf, sizeof(buf)), -EINVAL);
}

static void test_small_bytes(void **state) {
    (void)state;
    u8 buf[256], memory[64];
    mqtt_property_list list = {memory, sizeof(memory), 0, 0};
    mqtt_property_put_bytes(&list, MQTT_REASON_STRING, text_of("no"));
    mqtt_properties why = mqtt_property_list_end(&list);
    mqtt_connack k = {true, 0, why};
    assert_written(buf, mqtt_write_connack(5, &k, buf, 256), "20(01 00 (1f s'no'))");
    assert_written(buf, mqtt_write_connack(4, &k, buf, 256), "20(01 00)");
    assert_written(buf, mqtt_write_connack(3, &k, buf, 256), "20(00 00)");
    k.code = MQTT_REASON_BANNED;
    assert_int_equal(mqtt_write_connack(4, &k, buf, 256), -EINVAL);
    mqtt_ack a = {.packet_id = 0x0102};
    assert_written(buf, mqtt_write_ack(5, MQTT_PUBACK, &a, buf, 256), "40(0102)");
    assert_written(buf, mqtt_write_ack(5, MQTT_PUBREL, &a, buf, 256), "62(0102)");
    a.reason = 0x92;
    assert_written(buf, mqtt_write_ack(5, MQTT_PUBREL, &a, buf, 256), "62(0102 92)");
    assert_written(buf, mqtt_write_ack(4, MQTT_PUBREL, &a, buf, 256), "62(0102)");
    a.props = why;
    assert_written(buf, mqtt_write_ack(5, MQTT_PUBCOMP, &a, buf, 256), "70(0102 92 (1f s'no'))");
    a.reason = 0;
    assert_written(buf, mqtt_write_ack(5, MQTT_PUBREC, &a, buf, 256), "50(0102 00 (1f s'no'))");
    mqtt_goodbye g = {.reason = 0};
    assert_written(buf, mqtt_write_goodbye(5, MQTT_DISCONNECT, &g, buf, 256), "e0()");
    g.reason = 0x8e;
    assert_written(buf, mqtt_write_goodbye(5, MQTT_DISCONNECT, &g, buf, 256), "e0(8e)");
    assert_written(buf, mqtt_write_goodbye(4, MQTT_DISCONNECT, &g, buf, 256), "e0()");
    g.props = why;
    assert_written(buf, mqtt_write_goodbye(5, MQTT_DISCONNECT, &g, buf, 256), "e0(8e (1f s'no'))");
    assert_written(buf, mqtt_write_goodbye(5, MQTT_AUTH, &g, buf, 256), "f0(8e (1f s'no'))");
    assert_int_equal(mqtt_write_goodbye(4, MQTT_AUTH, &g, buf, 256), -EINVAL);
    assert_written(buf, mqtt_write_ping(MQTT_PINGREQ, buf, 256), "c0()");
    assert_written(buf, mqtt_write_ping(MQTT_PINGRESP, buf, MQTT_PING_BYTES), "d0()");
    assert_int_equal(mqtt_write_ping(MQTT_PINGRESP, buf, 1), -ENOSPC);
    mqtt_suback s = {7, why, {(const u8 *)"\x01\x80", 2}};
    assert_written(buf, mqtt_write_suback(5, MQTT_SUBACK, &s, buf, 256),
                   "90(0007 (1f s'no') 0180)");
    assert_written(buf, mqtt_write_suback(4, MQTT_SUBACK, &s, buf, 256), "90(0007 0180)");
    assert_written(buf, mqtt_write_suback(5, MQTT_UNSUBACK, &s, buf, 256),
                   "b0(0007 (1f s'no') 0180)");
    assert_written(buf, mqtt_write_suback(3, MQTT_UNSUBACK, &s, buf, 256), "b0(0007)");
    assert_int_equal(mqtt_write(&(mqtt_packet){.type = 0, .version = 5}, buf, 256), -EINVAL);
}

static void test_subscribe_bytes(void **state) {
    (void)state;
    u8 buf[256], memory[32];
    mqtt_subscribe s = {.packet_id = 9, .filters = {.options = true}};
    mqtt_filter f = {.text = text_of("a/#"), .qos = 1, .no_local = true, .retain_handling = 2};
    assert_int_equal(mqtt_filter_put(&s.filters, memory, sizeof(memory), &f), 0);
    f = (mqtt_filter){.text = text_of("b"), .qos = 2, .retain_as_published = true};
    assert_int_equal(mqtt_filter_put(&s.filters, memory, sizeof(memory), &f), 0);
    assert_written(buf, mqtt_write_subscribe(5, MQTT_SUBSCRIBE, &s, buf, 256),
                   "82(0009 () s'a/#' 25 s'b' 0a)");
    u32 len = s.filters.len;
    assert_int_equal(mqtt_filter_put(&s.filters, memory, len + 3, &f), -ENOSPC);
    f.qos = 3;
    assert_int_equal(mqtt_filter_put(&s.filters, memory, sizeof(memory), &f), -EINVAL);
    f.qos = 0;
    f.text.len = MQTT_STRING_BYTES_MAX + 1;
    assert_int_equal(mqtt_filter_put(&s.filters, memory, sizeof(memory), &f), -EINVAL);
    assert_int_equal(s.filters.len, len);
    assert_int_equal(s.filters.count, 2);
    mqtt_subscribe u = {.packet_id = 9};
    f = (mqtt_filter){.text = text_of("b")};
    assert_int_equal(mqtt_filter_put(&u.filters, memory, sizeof(memory), &f), 0);
    assert_written(buf, mqtt_write_subscribe(4, MQTT_UNSUBSCRIBE, &u, buf, 256), "a2(0009 s'b')");
}

static void test_publish_bytes(void **state) {
    (void)state;
    u8 buf[256], shared[64], own[64];
    mqtt_property_list list = {shared, sizeof(shared), 0, 0};
    mqtt_property_put_number(&list, MQTT_PAYLOAD_FORMAT, 1);
    mqtt_property_list more = {own, sizeof(own), 0, 0};
    mqtt_property_put_number(&more, MQTT_SUBSCRIPTION_ID, 5);
    mqtt_property_put_number(&more, MQTT_TOPIC_ALIAS, 6);
    mqtt_publish p = {.dup = true, .retain = true, .topic = text_of("t"), .packet_id = 3,
                      .payload = text_of("hello"), .props = mqtt_property_list_end(&list),
                      .more_props = mqtt_property_list_end(&more)};
    assert_written(buf, mqtt_write_publish(5, &p, buf, 256), "31(s't' (0101 0b05 230006) 'hello')");
    assert_written(buf, mqtt_write_publish(4, &p, buf, 256), "31(s't' 'hello')");
    p.qos = 1;
    assert_written(buf, mqtt_write_publish(4, &p, buf, 256), "3b(s't' 0003 'hello')");
    // Without the payload: the same bytes up to it.
    u8 whole[256];
    int size = mqtt_write_publish(5, &p, whole, 256);
    memset(buf, 0, sizeof(buf));
    int head = mqtt_write_publish_head(5, &p, buf, (u32)size - 5);
    assert_int_equal(head, size - 5);
    assert_memory_equal(buf, whole, (size_t)head);
    assert_int_equal(buf[head], 0);
    assert_int_equal(mqtt_write_publish_head(5, &p, NULL, 0), head);
    assert_int_equal(mqtt_write_publish_head(5, &p, buf, (u32)head - 1), -ENOSPC);
    // Bounds.
    p.topic.len = 0;
    assert_true(mqtt_write_publish(5, &p, buf, 256) > 0);
    assert_int_equal(mqtt_write_publish(4, &p, buf, 256), -EINVAL);
    p.topic.len = MQTT_STRING_BYTES_MAX + 1;
    assert_int_equal(mqtt_write_publish(5, &p, NULL, 0), -EINVAL);
    p.topic.len = 1;
    p.qos = 3;
    assert_int_equal(mqtt_write_publish(5, &p, buf, 256), -EINVAL);
    p.qos = 0;
    p.payload.len = MQTT_REMAINING_LENGTH_MAX - 3;
    assert_int_equal(mqtt_write_publish(4, &p, NULL, 0), MQTT_PACKET_BYTES_MAX);
    assert_int_equal(mqtt_write_publish(4, &p, buf, 256), -ENOSPC);
    assert_written(buf, mqtt_write_publish_head(4, &p, buf, 256), "31 ffffff7f s't'");
    p.payload.len++;
    assert_int_equal(mqtt_write_publish(4, &p, NULL, 0), -EMSGSIZE);
    p.props.len = MQTT_VARINT_MAX + 1;
    assert_int_equal(mqtt_write_publish(5, &p, NULL, 0), -EMSGSIZE);
    p.props.len = 2;
    p.payload.len = UINT32_MAX;
    assert_int_equal(mqtt_write_publish_head(4, &p, buf, 256), -EMSGSIZE);
}

// Sizes of the remaining length around each step, written and read again.
static void test_length_steps(void **state) {
    (void)state;
    static const u32 lengths[] = {0, 1, 127, 128, 16383, 16384, 2097151, 2097152};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        u32 remaining = MAX(lengths[i], 3u);
        mqtt_publish p = {.topic = text_of("t"), .payload = {NULL, remaining - 3}};
        u8 head[8];
        int size = mqtt_write_publish_head(MQTT_3_1_1, &p, head, sizeof(head));
        mqtt_codec codec = {MQTT_3_1_1, MQTT_FROM_SERVER, 0, MQTT_PACKET_BYTES_MAX};
        u32 packet_bytes;
        assert_int_equal(mqtt_packet_size(&codec, head, (u32)size, &packet_bytes), 0);
        assert_int_equal(packet_bytes, (u32)size + remaining - 3);
    }
}

// A damaged packet is refused, or is another valid one that can be written and read again.
static void damage(mqtt_random *r, const mqtt_codec *codec, u8 *bytes, u32 len) {
    u32 first = codec->version == MQTT_UNKNOWN ? 1 : 0;
    u32 at = first + random_of(r, len - first);
    u8 before = bytes[at];
    bytes[at] ^= (u8)(1u << random_of(r, 8));
    u8 *exact;
    mqtt_packet packet;
    if (row_read(codec, bytes, len, &exact, &packet) == MQTT_FAULT_NONE) {
        row_write_again(codec, &packet);
    }
    free(exact);
    bytes[at] = before;
}

static void test_random(void **state) {
    (void)state;
    mqtt_random *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->state = SEED;
    u32 seen[3][2][16] = {0};
    for (u32 round = 0; round < ROUNDS; round++) {
        mqtt_packet sent = random_packet(r);
        mqtt_codec codec = random_codec(r, &sent);
        seen[r->version - 3][r->sender][sent.type]++;
        u8 bytes[8192];
        int size = mqtt_write(&sent, bytes, sizeof(bytes));
        assert_true(size >= 2);
        assert_int_equal(mqtt_write(&sent, NULL, 0), size);
        u8 *exact;
        mqtt_packet got;
        mqtt_fault fault = row_read(&codec, bytes, (u32)size, &exact, &got);
        if (fault != MQTT_FAULT_NONE || !mqtt_same(&sent, &got)) {
            fail_msg("round %u: %s of version %u: %s", round, mqtt_type_name(sent.type),
                     sent.version, mqtt_fault_name(fault));
        }
        free(exact);
        for (u32 i = 0; i < 4; i++) damage(r, &codec, bytes, (u32)size);
    }
    for (u32 version = 0; version < 3; version++) {
        assert_true(seen[version][0][MQTT_CONNECT] > 100);
        assert_true(seen[version][1][MQTT_CONNACK] > 100);
        for (u32 type = MQTT_PUBLISH; type <= MQTT_PUBCOMP; type++) {
            assert_true(seen[version][0][type] > 100 && seen[version][1][type] > 100);
        }
    }
    assert_true(seen[2][0][MQTT_AUTH] > 100 && seen[2][1][MQTT_AUTH] > 100);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connect_bytes),   cmocka_unit_test(test_small_bytes),
        cmocka_unit_test(test_subscribe_bytes), cmocka_unit_test(test_publish_bytes),
        cmocka_unit_test(test_length_steps),    cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
