// SPDX-License-Identifier: Apache-2.0
// map.c: the rules; see map.h.
#include "uplink/map.h"

#include <errno.h>
#include <string.h>

#include "broker/topic.h"

static const char arrow[] = " -> ";

static map_rule rule_split(const char *text, u32 len) {
    for (u32 i = 0; i + sizeof(arrow) - 1 <= len; i++) {
        if (memcmp(text + i, arrow, sizeof(arrow) - 1) != 0) continue;
        u32 to = i + (u32)sizeof(arrow) - 1;
        return (map_rule){text, text + to, i, len - to};
    }
    return (map_rule){text, text, len, len};
}

static u32 level_end(const char *text, u32 len, u32 at) {
    while (at < len && text[at] != '/') at++;
    return at;
}

// How many levels are `+`; *rest: the last one is `#`.
static u32 wildcards(const char *text, u32 len, bool *rest) {
    u32 plus = 0;
    *rest = false;
    for (u32 at = 0; at <= len;) {
        u32 end = level_end(text, len, at);
        if (end - at == 1 && text[at] == '+') plus++;
        if (end - at == 1 && text[at] == '#') *rest = true;
        at = end + 1;
    }
    return plus;
}

const char *map_rule_check(const char *text) {
    map_rule r = rule_split(text, (u32)strlen(text));
    bool from_rest, to_rest;
    if (!topic_filter_is_valid(r.from, r.from_len)) return "what stands before -> is not a topic filter";
    if (!topic_filter_is_valid(r.to, r.to_len)) return "what stands behind -> is not a topic, + and # included";
    u32 from = wildcards(r.from, r.from_len, &from_rest), to = wildcards(r.to, r.to_len, &to_rest);
    if (from > MAP_WILDCARDS_MAX) return "more than 16 +";
    if (to > from) return "more + behind -> than before it";
    if (to_rest && !from_rest) return "a # behind -> and none before it";
    return NULL;
}

int map_make(uplink_map *map, const char *list) {
    map->count = 0;
    while (*list != '\0') {
        const char *end = strchr(list, '\n');
        u32 len = (u32)(end - list);
        if (map->count == MAP_RULES_MAX) return -E2BIG;
        map->rules[map->count++] = rule_split(list, len);
        list = end + 1;
    }
    return 0;
}

typedef struct captures {
    u32 count;
    struct {
        u32 at, len;
    } plus[MAP_WILDCARDS_MAX];
    bool no_rest; // # matched no level, not even an empty one
    u32 rest_at, rest_len;
} captures;

// Whether the topic matches, and what the wildcards stand for.
static bool match(const map_rule *r, const char *topic, u32 len, captures *c) {
    u32 f = 0, t = 0;
    *c = (captures){0};
    // Topics that begin with $ are for filters that do too (section 4.7.2).
    if (topic[0] == '$' && (r->from[0] == '#' || r->from[0] == '+')) return false;
    for (;;) {
        u32 f_end = level_end(r->from, r->from_len, f);
        if (f_end - f == 1 && r->from[f] == '#') {
            c->no_rest = t > len;
            c->rest_at = MIN(t, len);
            c->rest_len = t <= len ? len - t : 0;
            return true;
        }
        if (t > len) return false;
        u32 t_end = level_end(topic, len, t);
        if (f_end - f == 1 && r->from[f] == '+') {
            c->plus[c->count].at = t;
            c->plus[c->count++].len = t_end - t;
        } else if (f_end - f != t_end - t || memcmp(r->from + f, topic + t, t_end - t) != 0) {
            return false;
        }
        f = f_end + 1;
        t = t_end + 1;
        if (f > r->from_len) return t > len;
        if (t > len && !(r->from_len - f == 1 && r->from[f] == '#')) return false;
    }
}

typedef struct writer {
    char *out;
    u32 used, room;
    bool full;
} writer;

static void put(writer *w, const char *text, u32 len) {
    if (w->room - w->used < len) {
        w->full = true;
        return;
    }
    if (len > 0) memcpy(w->out + w->used, text, len);
    w->used += len;
}

static void rewrite(const map_rule *r, const char *topic, const captures *c, writer *w) {
    u32 plus = 0;
    for (u32 at = 0; at <= r->to_len;) {
        u32 end = level_end(r->to, r->to_len, at);
        bool one = end - at == 1;
        bool rest = one && r->to[at] == '#';
        // `#` that matched no level takes the separator before it away too.
        bool nothing = rest && c->no_rest && at > 0;
        if (at > 0 && !nothing) put(w, "/", 1);
        if (rest) {
            put(w, topic + c->rest_at, c->rest_len);
        } else if (one && r->to[at] == '+') {
            put(w, topic + c->plus[plus].at, c->plus[plus].len);
            plus++;
        } else {
            put(w, r->to + at, end - at);
        }
        at = end + 1;
    }
}

int map_apply(const uplink_map *map, const char *topic, u32 len, char *out, u32 room) {
    captures c;
    for (u32 i = 0; len > 0 && i < map->count; i++) {
        if (!match(&map->rules[i], topic, len, &c)) continue;
        writer w = {.out = out, .room = room};
        rewrite(&map->rules[i], topic, &c, &w);
        return w.full ? -ENOSPC : (int)w.used;
    }
    return 0;
}

// --- subjects ---

static const char hex[] = "0123456789ABCDEF";

static bool must_escape(char c, bool first) {
    u8 u = (u8)c;
    if (u <= ' ' || u == 0x7f) return true;
    if (first && (c == '$' || c == '_')) return true;
    return c == '.' || c == '%' || c == '*' || c == '>';
}

static void put_token(writer *w, const char *level, u32 len, bool first) {
    if (len == 0) put(w, "%", 1);
    for (u32 i = 0; i < len; i++) {
        if (!must_escape(level[i], first && i == 0)) {
            put(w, level + i, 1);
            continue;
        }
        u8 u = (u8)level[i];
        const char escaped[3] = {'%', hex[u >> 4], hex[u & 15]};
        put(w, escaped, sizeof(escaped));
    }
}

static int subject_of(const char *topic, u32 len, bool is_filter, char *out, u32 room) {
    writer w = {.out = out, .room = room};
    for (u32 at = 0; at <= len;) {
        u32 end = level_end(topic, len, at);
        bool wildcard = is_filter && end - at == 1 && (topic[at] == '+' || topic[at] == '#');
        if (at > 0) put(&w, ".", 1);
        if (wildcard) put(&w, topic[at] == '+' ? "*" : ">", 1);
        else put_token(&w, topic + at, end - at, at == 0);
        at = end + 1;
    }
    return w.full ? -ENOSPC : (int)w.used;
}

int map_subject_of_topic(const char *topic, u32 len, char *out, u32 room) {
    return subject_of(topic, len, false, out, room);
}

int map_subject_of_filter(const char *filter, u32 len, char *out, u32 room) {
    return subject_of(filter, len, true, out, room);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

int map_topic_of_subject(const char *subject, u32 len, char *out, u32 room) {
    writer w = {.out = out, .room = room};
    for (u32 at = 0; at < len; at++) {
        char c = subject[at];
        if (c == '.') {
            put(&w, "/", 1);
            continue;
        }
        if (c != '%') {
            // Subjects that others chose: what would be a wildcard or separator of a topic is no topic.
            if (c == '/' || c == '+' || c == '#') return -EINVAL;
            put(&w, &c, 1);
            continue;
        }
        bool alone = (at == 0 || subject[at - 1] == '.') && (at + 1 == len || subject[at + 1] == '.');
        if (alone) continue;
        int high = at + 2 < len ? hex_digit(subject[at + 1]) : -1;
        int low = high < 0 ? -1 : hex_digit(subject[at + 2]);
        char decoded = (char)(high * 16 + low);
        if (low < 0 || decoded == '\0' || decoded == '/' || decoded == '+' || decoded == '#') return -EINVAL;
        put(&w, &decoded, 1);
        at += 2;
    }
    return w.full ? -ENOSPC : (int)w.used;
}
