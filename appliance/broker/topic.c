// SPDX-License-Identifier: Apache-2.0
// topic.c: checks of topic names and filters, and the cut into levels.
//
// Everything a peer names goes through here once, before the trie sees it: what is behind this file
// may assume valid UTF-8, no NUL, wildcards only where they belong and at most LIMIT_TOPIC_LEVELS
// levels.
#include "broker/topic.h"

#include <string.h>

// Length of the UTF-8 sequence that starts text (len > 0 bytes left), 0 when it is malformed.
// Ranges of the second byte as in the Unicode standard, table 3-7: they exclude overlong forms and
// surrogates.
static size_t utf8_sequence_bytes(const u8 *text, size_t len) {
    u8 lead = text[0];
    if (lead < 0x80) return lead != 0;
    size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || len < bytes) return 0;
    u8 low = 0x80, high = 0xbf;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (text[1] < low || text[1] > high) return 0;
    for (size_t i = 2; i < bytes; i++) {
        if (text[i] < 0x80 || text[i] > 0xbf) return 0;
    }
    return bytes;
}

// Eight bytes at once: all of them ASCII and none zero.
static bool ascii_block_is_plain(const u8 *text) {
    u64 block;
    memcpy(&block, text, sizeof(block));
    const u64 ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
    return ((block | (block - ones)) & tops) == 0;
}

bool utf8_is_valid(const char *text, size_t len) {
    const u8 *bytes = (const u8 *)text;
    size_t at = 0;
    while (at < len) {
        if (len - at >= 8 && ascii_block_is_plain(bytes + at)) {
            at += 8;
            continue;
        }
        size_t step = utf8_sequence_bytes(bytes + at, len - at);
        if (step == 0) return false;
        at += step;
    }
    return true;
}

bool topic_name_is_valid(const char *topic, size_t len) {
    if (len == 0 || len > LIMIT_TOPIC_BYTES) return false;
    u32 levels = 1;
    for (size_t i = 0; i < len; i++) {
        if (topic[i] == '+' || topic[i] == '#') return false;
        levels += topic[i] == '/';
    }
    return levels <= LIMIT_TOPIC_LEVELS && utf8_is_valid(topic, len);
}

bool topic_filter_is_valid(const char *filter, size_t len) {
    if (len == 0 || len > LIMIT_TOPIC_BYTES) return false;
    u32 levels = 1;
    for (size_t i = 0; i < len; i++) {
        bool first = i == 0 || filter[i - 1] == '/';
        bool last = i + 1 == len || filter[i + 1] == '/';
        if (filter[i] == '+' && !(first && last)) return false;
        if (filter[i] == '#' && !(first && i + 1 == len)) return false;
        levels += filter[i] == '/';
    }
    return levels <= LIMIT_TOPIC_LEVELS && utf8_is_valid(filter, len);
}

u32 topic_split(const char *topic, u32 len, topic_level levels[LIMIT_TOPIC_LEVELS]) {
    u32 count = 0, start = 0;
    for (u32 i = 0; i <= len; i++) {
        if (i < len && topic[i] != '/') continue;
        ASSERT(count < LIMIT_TOPIC_LEVELS);
        levels[count++] = (topic_level){topic + start, i - start};
        start = i + 1;
    }
    return count;
}

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

bool topic_filter_covers(const char *wide, u32 wide_len, const char *narrow, u32 narrow_len) {
    bool wild = wide[0] == '+' || wide[0] == '#';
    if (wild && narrow[0] == '$') return false;
    level_cursor cw = levels_of(wide, wide_len), cn = levels_of(narrow, narrow_len);
    for (;;) {
        const char *lw, *ln;
        u32 nw, nn;
        bool has_w = level_next(&cw, &lw, &nw), has_n = level_next(&cn, &ln, &nn);
        if (has_w && is_wildcard(lw, nw, '#')) return true;
        if (!has_w || !has_n) return has_w == has_n;
        if (is_wildcard(ln, nn, '#')) return false;
        if (is_wildcard(lw, nw, '+')) continue;
        if (is_wildcard(ln, nn, '+') || nw != nn || memcmp(lw, ln, nw) != 0) return false;
    }
}

bool topic_filters_overlap(const char *a, u32 a_len, const char *b, u32 b_len) {
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
