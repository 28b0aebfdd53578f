// SPDX-License-Identifier: Apache-2.0
// deny.c: does a topic, or anything a filter could match, fall under a filter that is refused? The
// lists are short and written by the operator, so they are walked level by level each time; a
// listener without a list pays for one comparison.
//
// A topic name is compared like a filter without wildcards.
#include "broker/deny.h"

#include <string.h>

typedef struct level_cursor {
    const char *at, *end;
    bool more;
} level_cursor;

static level_cursor levels_of(const char *text, u32 len) {
    return (level_cursor){text, text + len, true};
}

// The next level; false behind the last one.
static bool level_next(level_cursor *c, const char **level, u32 *len) {
    if (!c->more) return false;
    const char *slash = memchr(c->at, '/', (size_t)(c->end - c->at));
    *level = c->at;
    *len = (u32)((slash != NULL ? slash : c->end) - c->at);
    c->more = slash != NULL;
    if (slash != NULL) c->at = slash + 1;
    return true;
}

static bool is_wildcard(const char *level, u32 len, char which) {
    return len == 1 && level[0] == which;
}

// Whether some topic matches both (MQTT 5.0 section 4.7; a wildcard in the first level does not
// match a topic that begins with '$').
static bool overlaps(const char *a, u32 a_len, const char *b, u32 b_len) {
    bool a_wild = a[0] == '+' || a[0] == '#', b_wild = b[0] == '+' || b[0] == '#';
    if ((a_wild && b[0] == '$') || (b_wild && a[0] == '$')) return false;
    level_cursor ca = levels_of(a, a_len), cb = levels_of(b, b_len);
    for (;;) {
        const char *la, *lb;
        u32 na, nb;
        bool has_a = level_next(&ca, &la, &na), has_b = level_next(&cb, &lb, &nb);
        // "a/#" matches "a" too.
        if (has_a && is_wildcard(la, na, '#')) return true;
        if (has_b && is_wildcard(lb, nb, '#')) return true;
        if (!has_a || !has_b) return has_a == has_b;
        if (is_wildcard(la, na, '+') || is_wildcard(lb, nb, '+')) continue;
        if (na != nb || memcmp(la, lb, na) != 0) return false;
    }
}

bool deny_filter(const char *list, const char *filter, u32 len) {
    for (const char *line = list; *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (overlaps(line, (u32)(end - line), filter, len)) return true;
        line = end + 1;
    }
    return false;
}

bool deny_topic(const char *list, const char *topic, u32 len) {
    return list[0] != '\0' && deny_filter(list, topic, len);
}
