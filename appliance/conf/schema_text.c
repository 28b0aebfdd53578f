// SPDX-License-Identifier: Apache-2.0
// schema_text.c: checks of text settings, and the search for the key a wrong one was meant to be.
#include "conf/schema_text.h"

#include <string.h>

#include "conf/bind.h"
#include "conf/schema.h"

const char *text_check_path(const char *text) {
    return text[0] == '\0' ? "a path is expected" : NULL;
}

const char *text_check_optional_path(const char *text) {
    size_t len = strlen(text);
    return len > 0 && text[len - 1] == '/' ? "a file is expected, not a directory" : NULL;
}

const char *text_check_syslog(const char *text) {
    static const char form[] = "empty, unix:/path or udp:ADDRESS:PORT with an IP address is expected";
    bind_address parsed;
    if (text[0] == '\0') return NULL;
    if (strncmp(text, "unix:", 5) == 0) return config_parse_bind(text, &parsed) == 0 ? NULL : form;
    if (strncmp(text, "udp:", 4) != 0 || config_parse_bind(text + 4, &parsed) != 0) return form;
    return bind_port(&parsed) == 0 ? form : NULL;
}

static const char *check_topic(const char *text) {
    u32 levels = 1;
    if (text[0] == '\0') return "a topic is expected";
    if (text[0] == '$') return "topics that begin with $ belong to the broker";
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '/') levels++;
        if (*p == '%' && p[1] != 'i') return "only %i, the device's id, may follow a %";
    }
    return levels > LIMIT_TOPIC_LEVELS ? "too many levels" : NULL;
}

const char *text_check_up_topic(const char *text) {
    if (strpbrk(text, "+#") != NULL) return "wildcards (+ and #) can not stand in a topic to publish on";
    return check_topic(text);
}

const char *text_check_down_topic(const char *text) {
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '+' && *p != '#') continue;
        bool whole_level = (p == text || p[-1] == '/') && (p[1] == '\0' || p[1] == '/');
        if (!whole_level) return "a wildcard (+ or #) must be a whole level";
        if (*p == '#' && p[1] != '\0') return "# must be the last level";
    }
    return check_topic(text);
}


const setting *schema_find(section_kind section, const char *key, size_t key_len) {
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        if (s->section == section && strlen(s->key) == key_len && memcmp(s->key, key, key_len) == 0) return s;
    }
    return NULL;
}

u32 schema_index(section_kind section, const char *key) {
    const setting *s = schema_find(section, key, strlen(key));
    ASSERT(s != NULL);
    return (u32)(s - schema_settings);
}

#define SUGGEST_BYTES_MAX 40

// Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment).
static u32 edit_distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    u32 rows[3][SUGGEST_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_len; j++) rows[0][j] = (u32)j;
    for (size_t i = 1; i <= a_len; i++) {
        u32 *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (u32)i;
        for (size_t j = 1; j <= b_len; j++) {
            u32 best = MIN(row[j - 1], above[j]) + 1;
            best = MIN(best, above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) best = MIN(best, two_above[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

// Keeps the nearest of the names offered one after the other; too far is not near.
static void offer(const char *word, size_t word_len, const char *name, u32 *best, const char **found) {
    size_t name_len = strlen(name);
    if (word_len == 0 || word_len > SUGGEST_BYTES_MAX || name_len > SUGGEST_BYTES_MAX) return;
    u32 distance = edit_distance(word, word_len, name, name_len);
    if (distance > MAX(name_len / 3, 1) || distance >= *best) return;
    *best = distance;
    *found = name;
}

const char *schema_suggest_key(section_kind section, const char *key, size_t key_len) {
    const char *found = NULL;
    u32 best = UINT32_MAX;
    for (u32 i = 0; i < schema_setting_count; i++) {
        if (schema_settings[i].section == section) offer(key, key_len, schema_settings[i].key, &best, &found);
    }
    return found;
}

const char *schema_suggest_section(const char *name, size_t name_len) {
    const char *found = NULL;
    u32 best = UINT32_MAX;
    for (u32 i = SECTION_TOP + 1; i < SECTIONS; i++) offer(name, name_len, schema_sections[i].name, &best, &found);
    return found;
}
