// SPDX-License-Identifier: Apache-2.0
// fuzz_session_record.c: the input is a record of a durable session as it might lie on a damaged disk. Changes and
// blocks that are accepted are written again and must give the same bytes; a whole is read to its end.
#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_record.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static void check_changes(cursor at) {
    mqtt_change c;
    for (const u8 *start = at.at; mqtt_change_next(&at, &c) == 1; start = at.at) {
        u32 bytes = mqtt_change_bytes(&c);
        CHECK(bytes == (u32)(at.at - start));
        u8 *again = malloc(bytes);
        CHECK(again != NULL && mqtt_change_write(again, &c) == again + bytes);
        CHECK(memcmp(again, start, bytes) == 0);
        free(again);
    }
}

static void check_block(cursor at, const u8 *data, size_t size) {
    backlog_ref refs[BACKLOG_CHUNK];
    u8 again[MQTT_BLOCK_BYTES];
    u64 session;
    if (!mqtt_block_parse(&at, &session, refs)) return;
    mqtt_block_write(again, session, refs);
    CHECK(size == sizeof(again) && memcmp(again, data, size) == 0);
}

static void check_whole(const u8 *data, u32 len) {
    mqtt_session_record r;
    if (!mqtt_session_parse(data, len, &r)) return;
    cursor lists = r.lists;
    mqtt_flight_record f;
    backlog_chunk chunk;
    backlog_ref refs[BACKLOG_CHUNK];
    mqtt_subscription_record s;
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) CHECK(mqtt_session_id(&lists) != 0);
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) mqtt_session_flight(&lists, &f);
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) (void)mqtt_session_chunk(&lists, &chunk, refs);
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) {
        mqtt_session_subscription(&lists, &s);
        CHECK(s.filter_len > 0);
    }
    CHECK(!lists.overrun && cursor_left(&lists) == 0);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    cursor at = cursor_of(data, size);
    mqtt_snapshot_part part;
    switch (cursor_u8(&at)) {
        case MQTT_RECORD_CHANGES: check_changes(at); break;
        case MQTT_RECORD_BLOCK: check_block(at, data, size); break;
        case MQTT_RECORD_SNAPSHOT:
            if (mqtt_snapshot_parse(&at, &part)) check_whole(part.data, part.len);
            break;
        default: check_whole(data, (u32)size);
    }
    return 0;
}
