// SPDX-License-Identifier: Apache-2.0
// map.h: under which topic a message goes to the remote, and under which one a message of the remote is
// published here; and the translation between MQTT topics and NATS subjects. Pure; any thread.
//
// A rule is "FILTER" or "FILTER -> TOPIC". FILTER is a topic filter (MQTT 5.0 section 4.7). In TOPIC each `+`
// stands for what the filter's `+` of the same number matched, a last `#` for what the filter's `#` did. The
// first rule that matches counts.
//
// Topic and subject: levels and tokens correspond, `/` and `.`. What a token may not contain, or what means
// something to the server, is written %XX: `.`, `%`, `*`, `>`, blanks and control characters anywhere; `$` and
// `_` as the first character of a subject, so that no device reaches $JS.API, $SYS or an _INBOX. An empty level
// is `%` alone. A filter's `+` is `*`, its last `#` is `>` (which, unlike `#`, does not match the level above).
#ifndef SLUICE_UPLINK_MAP_H
#define SLUICE_UPLINK_MAP_H

#include "base/base.h"

#define MAP_RULES_MAX 32u
#define MAP_WILDCARDS_MAX 16u // `+` of one rule

typedef struct map_rule {
    const char *from, *to;
    u32 from_len, to_len;
} map_rule;

typedef struct uplink_map {
    u32 count;
    map_rule rules[MAP_RULES_MAX];
} uplink_map;

// The check of one rule of a list: NULL, or what is wrong with it (static).
const char *map_rule_check(const char *text);
// Rules of a list, each ended by a newline, that have passed the check; the map points into it.
// Returns 0 or -E2BIG.
int map_make(uplink_map *map, const char *list);
// The topic under the first rule that matches: its length, written to out. 0: no rule matches. -ENOSPC: longer
// than room (at most 65,535 bytes make sense).
int map_apply(const uplink_map *map, const char *topic, u32 len, char *out, u32 room);

// Each returns the length written, or -ENOSPC. out needs at most three times the length, plus 1.
int map_subject_of_topic(const char *topic, u32 len, char *out, u32 room);
int map_subject_of_filter(const char *filter, u32 len, char *out, u32 room);
// -EINVAL: a broken escape, or one for a character that no topic has.
int map_topic_of_subject(const char *subject, u32 len, char *out, u32 room);

#endif
