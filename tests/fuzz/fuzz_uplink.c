// SPDX-License-Identifier: Apache-2.0
// fuzz_uplink.c: any bytes as what a NATS server sends, as JSON of it, as rules and topics, and as the body of
// an offset's record. The first byte chooses.
#include <stdlib.h>
#include <string.h>

#include "broker/topic.h"
#include "uplink/endpoint.h"
#include "uplink/map.h"
#include "uplink/nats_write.h"
#include "uplink/ranges.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

#define PAYLOAD_MAX 4096u

static void operations(const u8 *data, u32 len) {
    for (u32 at = 0; at < len;) {
        nats_op op;
        nats_text name, value;
        u32 need = 0, header = 0;
        int taken = nats_parse(data + at, len - at, PAYLOAD_MAX, &op, &need);
        if (taken < 0) {
            CHECK(strcmp(nats_fault_text(taken), "unknown") != 0);
            return;
        }
        if (taken == 0) {
            CHECK(need > len - at);
            return;
        }
        CHECK((u32)taken <= len - at);
        CHECK(op.payload_len <= PAYLOAD_MAX && op.subject.len <= NATS_SUBJECT_BYTES_MAX);
        if (op.payload_len > 0) CHECK(op.payload >= data + at && op.payload + op.payload_len <= data + at + taken);
        char subject[64];
        u32 subject_len = 0;
        nats_denial denial = nats_denied(op.text, subject, sizeof(subject), &subject_len);
        if (denial != NATS_DENIED_NOTHING) CHECK(subject_len > 0 && subject_len <= sizeof(subject));
        (void)nats_header_status(op.headers);
        while (nats_header_next(op.headers, &header, &name, &value)) CHECK(header <= op.headers.len);
        at += (u32)taken;
    }
}

static void documents(const u8 *data, u32 len) {
    nats_info info;
    nats_puback ack;
    (void)nats_info_parse((nats_text){(const char *)data, len}, &info);
    (void)nats_puback_parse(data, len, &ack);
    CHECK(memchr(info.server, '\0', sizeof(info.server)) != NULL && memchr(ack.text, '\0', sizeof(ack.text)) != NULL);
}

// A rule, and a topic behind a zero byte.
static void rules(const u8 *data, u32 len) {
    static char list[65536 + 2], out[3 * 65536 + 2], back[3 * 65536 + 2];
    const u8 *zero = len == 0 ? NULL : memchr(data, 0, len);
    uplink_map map;
    if (zero == NULL || len > 65536) return;
    u32 rule_len = (u32)(zero - data), topic_len = len - rule_len - 1;
    const char *topic = (const char *)zero + 1;
    memcpy(list, data, rule_len + 1);
    if (strchr(list, '\n') == NULL && map_rule_check(list) == NULL && topic_name_is_valid(topic, topic_len)) {
        list[rule_len] = '\n';
        list[rule_len + 1] = '\0';
        CHECK(map_make(&map, list) == 0 && map.count == 1);
        int mapped = map_apply(&map, topic, topic_len, out, sizeof(out));
        CHECK(mapped >= 0);
    }
    if (topic_name_is_valid(topic, topic_len)) {
        int subject = map_subject_of_topic(topic, topic_len, out, sizeof(out));
        CHECK(subject > 0);
        for (int i = 0; i < subject; i++) CHECK((u8)out[i] > ' ' && strchr("*>", out[i]) == NULL);
        CHECK(out[0] != '$' && out[0] != '_' && out[0] != '.' && strstr(out, "..") != out);
        int again = map_topic_of_subject(out, (u32)subject, back, sizeof(back));
        CHECK(again == (int)topic_len && memcmp(back, topic, topic_len) == 0);
    }
    (void)map_topic_of_subject(topic, topic_len, out, sizeof(out));
    list[rule_len] = '\0';
    (void)endpoint_check(list);
}

static void offsets(const u8 *data, u32 len) {
    uplink_ranges r;
    u8 again[RANGES_BYTES_MAX];
    if (ranges_decode(&r, data, len) != 0) return;
    CHECK(ranges_encode(&r, again) == len && memcmp(again, data, len) == 0);
    CHECK(ranges_open(&r)->to == UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static void (*const targets[])(const u8 *data, u32 len) = {operations, documents, rules, offsets};
    if (size == 0 || size > 1u << 20) return 0;
    // A copy of exactly its size: reading beyond it is seen.
    u32 len = (u32)size - 1;
    u8 *copy = malloc(MAX(len, 1u));
    CHECK(copy != NULL);
    memcpy(copy, data + 1, len);
    targets[data[0] % ARRAY_LEN(targets)](copy, len);
    free(copy);
    return 0;
}
