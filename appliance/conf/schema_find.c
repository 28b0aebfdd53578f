// SPDX-License-Identifier: Apache-2.0
// schema_find.c: looks into the table: a key's row, and the key that a mistyped one was meant to
// be.
#include <string.h>

#include "conf/schema.h"
#include "conf/suggest.h"

const setting *schema_find(section_kind section, const char *key, size_t key_len) {
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        if (s->section == section && strlen(s->key) == key_len && memcmp(s->key, key, key_len) == 0)
            return s;
    }
    return NULL;
}

u32 schema_index(section_kind section, const char *key) {
    const setting *s = schema_find(section, key, strlen(key));
    ASSERT(s != NULL);
    return (u32)(s - schema_settings);
}

const char *schema_suggest_key(section_kind section, const char *key, size_t key_len) {
    const char *found = NULL;
    u32 best = UINT32_MAX;
    for (u32 i = 0; i < schema_setting_count; i++) {
        if (schema_settings[i].section == section)
            suggest_offer(key, key_len, schema_settings[i].key, &best, &found);
    }
    return found;
}

const char *schema_suggest_section(const char *name, size_t name_len) {
    const char *found = NULL;
    u32 best = UINT32_MAX;
    for (u32 i = SECTION_TOP + 1; i < SECTIONS; i++) {
        if (i == SECTION_TLS) continue;
        suggest_offer(name, name_len, schema_sections[i].name, &best, &found);
    }
    return found;
}
