// SPDX-License-Identifier: Apache-2.0
// topic.h: topic names and topic filters as MQTT 5.0 defines them: UTF-8 strings (section 1.5.4),
// levels separated by '/', wildcards '+' and '#' in filters (section 4.7). Pure functions: no
// state, any thread.
#ifndef SLUICE_BROKER_TOPIC_H
#define SLUICE_BROKER_TOPIC_H

#include "base/base.h"
#include "limits.h"

// Whether the bytes are well-formed UTF-8 without U+0000: no surrogates, no overlong forms, nothing
// above U+10FFFF (MQTT 5.0 section 1.5.4). An empty string is valid.
bool utf8_is_valid(const char *text, size_t len);

// A topic name: 1 to LIMIT_TOPIC_BYTES of valid UTF-8, no wildcard, at most LIMIT_TOPIC_LEVELS
// levels. Empty levels are levels: "/" has two.
bool topic_name_is_valid(const char *topic, size_t len);

// A topic filter: as a name, but '+' may stand for a whole level and '#' for the last one.
bool topic_filter_is_valid(const char *filter, size_t len);

// Whether some topic matches both filters (MQTT 5.0 section 4.7; a wildcard in the first level does not match a
// topic that begins with '$'). A topic name is a filter that matches itself only. Both are valid and not empty.
bool topic_filters_overlap(const char *a, u32 a_len, const char *b, u32 b_len);

// Whether all topics that match `narrow` match `wide`. Both are valid and not empty.
bool topic_filter_covers(const char *wide, u32 wide_len, const char *narrow, u32 narrow_len);

// One level: points into the topic, not terminated.
typedef struct topic_level {
    const char *text;
    u32 len;
} topic_level;

// Splits a valid name or filter into its levels. Returns how many.
u32 topic_split(const char *topic, u32 len, topic_level levels[LIMIT_TOPIC_LEVELS]);

// How many levels a valid name or filter has.
static inline u32 topic_level_count(const char *topic, u32 len) {
    u32 levels = 1;
    for (u32 i = 0; i < len; i++) levels += topic[i] == '/';
    return levels;
}

#endif
