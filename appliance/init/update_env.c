// SPDX-License-Identifier: Apache-2.0
// update_env.c: see update_env.h.
#include "init/update_env.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEAD "# GRUB Environment Block\n"

// The value of a line "name=value" when the line at text has this name; NULL otherwise.
static const char *line_value(const char *text, size_t len, const char *name, size_t *value_len) {
    size_t name_len = strlen(name);
    if (len <= name_len || memcmp(text, name, name_len) != 0 || text[name_len] != '=') return NULL;
    *value_len = len - name_len - 1;
    return text + name_len + 1;
}

static char slot_value(const char *value, size_t len) {
    return len == 1 && update_slot_is_valid(value[0]) ? value[0] : 0;
}

static void read_line(const char *text, size_t len, update_env *out) {
    const char *value;
    size_t value_len;
    if ((value = line_value(text, len, "slot", &value_len)) != NULL) out->slot = slot_value(value, value_len);
    if ((value = line_value(text, len, "try", &value_len)) != NULL) out->try_slot = slot_value(value, value_len);
    if ((value = line_value(text, len, "tried", &value_len)) != NULL) {
        out->tried = value_len == 1 && value[0] == '1';
    }
}

int update_env_read(const u8 *block, update_env *out) {
    const char *text = (const char *)block, *end = text + UPDATE_ENV_BYTES;
    *out = (update_env){0};
    if (memcmp(text, HEAD, strlen(HEAD)) != 0) return -EINVAL;
    for (text += strlen(HEAD); text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (newline == NULL) break; // the filling
        read_line(text, (size_t)(newline - text), out);
        text = newline + 1;
    }
    if (!update_slot_is_valid(out->slot)) return -EINVAL;
    if (out->try_slot == out->slot) out->try_slot = 0;
    if (out->try_slot == 0) out->tried = false;
    return 0;
}

void update_env_write(const update_env *env, bool with_try, u8 *block) {
    char text[UPDATE_ENV_BYTES + 1];
    char try_text[2] = {env->try_slot, '\0'};
    int len = with_try ? snprintf(text, sizeof(text), HEAD "slot=%c\ntry=%s\ntried=%s\n", env->slot, try_text,
                                  env->tried ? "1" : "")
                       : snprintf(text, sizeof(text), HEAD "slot=%c\n", env->slot);
    memset(block, '#', UPDATE_ENV_BYTES);
    memcpy(block, text, (size_t)len);
}
