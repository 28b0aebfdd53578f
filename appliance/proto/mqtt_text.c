// SPDX-License-Identifier: Apache-2.0
// mqtt_text.c: checks of strings, filters and shared subscriptions. Called by the parsers after the
// UTF-8 check, never on the way of a payload.
#include "proto/mqtt_text.h"

#include <string.h>

// One code point of valid UTF-8.
static u32 point_next(cursor *in) {
    u8 lead = cursor_u8(in);
    if (lead < 0x80) return lead;
    u32 more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    u32 point = lead & (0x3fu >> more);
    while (more-- > 0) point = point << 6 | (cursor_u8(in) & 0x3f);
    return point;
}

bool mqtt_text_has_control(mqtt_bytes text) {
    cursor in = cursor_of(text.data, text.len);
    while (cursor_left(&in) > 0) {
        u32 point = point_next(&in);
        if (point < 0x20 || (point >= 0x7f && point <= 0x9f)) return true;
        if ((point >= 0xfdd0 && point <= 0xfdef) || (point & 0xfffe) == 0xfffe) return true;
    }
    return false;
}

bool mqtt_text_has_wildcard(mqtt_bytes text) {
    for (u32 i = 0; i < text.len; i++) {
        if (text.data[i] == '+' || text.data[i] == '#') return true;
    }
    return false;
}

// Eight bytes below 0x80 each: the top bit of every byte that is not c.
static u64 block_differs(u64 block, u8 c) {
    const u64 ones = 0x0101010101010101ull;
    return ((block ^ c * ones) + 0x7f * ones) & 0x80 * ones;
}

// Adds the block's slashes. False when it holds anything but ASCII, or NUL, '+' or '#'.
static bool block_is_plain(u64 block, u64 *slashes) {
    const u64 ones = 0x0101010101010101ull, tops = 0x80 * ones;
    if ((block & tops) != 0) return false;
    *slashes += (((block_differs(block, '/') ^ tops) >> 7) * ones) >> 56;
    u64 others = block_differs(block, 0) & block_differs(block, '+') & block_differs(block, '#');
    return others == tops;
}

bool mqtt_topic_is_plain(mqtt_bytes topic) {
    cursor in = cursor_of(topic.data, topic.len);
    u64 slashes = 0, block;
    while (cursor_left(&in) >= sizeof(block)) {
        memcpy(&block, cursor_take(&in, sizeof(block)), sizeof(block));
        if (!block_is_plain(block, &slashes)) return false;
    }
    u32 left = cursor_left(&in);
    if (left > 0) {
        u8 last[sizeof(block)];
        memset(last, 'a', sizeof(last)); // filled up with what is plain
        memcpy(last, cursor_take(&in, left), left);
        memcpy(&block, last, sizeof(block));
        if (!block_is_plain(block, &slashes)) return false;
    }
    return topic.len > 0 && slashes < LIMIT_TOPIC_LEVELS;
}

u32 mqtt_text_levels(mqtt_bytes text) {
    u32 levels = 1;
    for (u32 i = 0; i < text.len; i++) levels += text.data[i] == '/';
    return levels;
}

bool mqtt_filter_syntax_is_valid(mqtt_bytes filter) {
    for (u32 i = 0; i < filter.len; i++) {
        u8 c = filter.data[i];
        if (c != '+' && c != '#') continue;
        bool first = i == 0 || filter.data[i - 1] == '/';
        bool end = i + 1 == filter.len;
        if (!first) return false;
        if (!end && (c == '#' || filter.data[i + 1] != '/')) return false;
    }
    return filter.len > 0;
}

mqtt_share_state mqtt_share_split(mqtt_bytes text, mqtt_bytes *share, mqtt_bytes *filter) {
    static const char prefix[] = "$share/";
    const u32 prefix_len = sizeof(prefix) - 1;
    *share = (mqtt_bytes){NULL, 0};
    *filter = text;
    cursor in = cursor_of(text.data, text.len);
    const u8 *start = cursor_take(&in, prefix_len);
    if (start == NULL || memcmp(start, prefix, prefix_len) != 0) return MQTT_SHARE_NONE;
    const u8 *slash = in.at < in.end ? memchr(in.at, '/', cursor_left(&in)) : NULL;
    if (slash == NULL) return MQTT_SHARE_MALFORMED;
    u32 name_len = (u32)(slash - in.at);
    mqtt_bytes name = {cursor_take(&in, name_len), name_len};
    cursor_u8(&in);
    u32 rest_len = cursor_left(&in);
    mqtt_bytes rest = {cursor_take(&in, rest_len), rest_len};
    if (name_len == 0 || mqtt_text_has_wildcard(name)) return MQTT_SHARE_MALFORMED;
    if (!mqtt_filter_syntax_is_valid(rest)) return MQTT_SHARE_MALFORMED;
    *share = name;
    *filter = rest;
    return MQTT_SHARE_VALID;
}
