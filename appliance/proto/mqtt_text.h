// SPDX-License-Identifier: Apache-2.0
// mqtt_text.h: what the codec knows of strings beyond broker/topic.h: discouraged characters, the
// syntax of a topic filter apart from the limit on levels, and shared subscriptions (5.0 sections
// 1.5.4, 4.7 and 4.8.2). Pure functions.
#ifndef SLUICE_PROTO_MQTT_TEXT_H
#define SLUICE_PROTO_MQTT_TEXT_H

#include "proto/mqtt_packet.h"

// Whether valid UTF-8 holds one of the code points that 5.0 section 1.5.4 advises against: U+0001
// to U+001F, U+007F to U+009F, and the non-characters U+FDD0 to U+FDEF and U+xxFFFE, U+xxFFFF.
bool mqtt_text_has_control(mqtt_bytes text);

bool mqtt_text_has_wildcard(mqtt_bytes text);

// A topic name of ASCII only that is valid in every respect (topic_name_is_valid), told in one pass
// of eight bytes at a time. False says only that it has to be looked at closely.
bool mqtt_topic_is_plain(mqtt_bytes topic);

// One more than the slashes.
u32 mqtt_text_levels(mqtt_bytes text);

// A filter's wildcards are where they may be, and it is not empty (sections 4.7.1 and 4.7.3). UTF-8
// is checked elsewhere.
bool mqtt_filter_syntax_is_valid(mqtt_bytes filter);

typedef enum mqtt_share_state {
    MQTT_SHARE_NONE,
    MQTT_SHARE_VALID,
    MQTT_SHARE_MALFORMED,
} mqtt_share_state;

// Splits "$share/name/filter". MALFORMED: it starts with "$share/" but has no name of one or more
// characters without wildcards, or no valid filter behind it (section 4.8.2).
mqtt_share_state mqtt_share_split(mqtt_bytes text, mqtt_bytes *share, mqtt_bytes *filter);

#endif
