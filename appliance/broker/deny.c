// SPDX-License-Identifier: Apache-2.0
// deny.c: does a topic, or anything a filter could match, fall under a filter that is refused? The
// lists are short and written by the operator, so they are walked level by level each time; a
// listener without a list pays for one comparison.
//
// A topic name is compared like a filter without wildcards.
#include "broker/deny.h"

#include <string.h>

#include "broker/topic.h"

bool deny_filter(const char *list, const char *filter, u32 len) {
    for (const char *line = list; *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (topic_filters_overlap(line, (u32)(end - line), filter, len)) return true;
        line = end + 1;
    }
    return false;
}

bool deny_topic(const char *list, const char *topic, u32 len) {
    return list[0] != '\0' && deny_filter(list, topic, len);
}
