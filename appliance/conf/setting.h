// SPDX-License-Identifier: Apache-2.0
// setting.h: one row of the schema applied to one struct: text to field, field to text, and the
// sentence that says what is allowed. base is the config, or the listener_config, that the row's
// offset is in. Pure; any thread.
#ifndef SLUICE_CONF_SETTING_H
#define SLUICE_CONF_SETTING_H

#include "conf/schema.h"

#define SETTING_TEXT_BYTES 2560 // room for every printed value and every sentence

// Sets the field. Returns 0, or -EINVAL with what is wrong in problem; the field is then unchanged.
int setting_apply(const setting *s, void *base, const char *text, size_t len, char *problem,
                  size_t problem_bytes);
// Adds one element to a SETTING_FILTERS or SETTING_LIST field, as setting_apply.
int setting_append(const setting *s, void *base, const char *text, size_t len, char *problem,
                   size_t problem_bytes);
// The value in the syntax of the file, quotes included where needed. Returns out.
const char *setting_print(const setting *s, const void *base, char out[SETTING_TEXT_BYTES]);
// "a size such as 64k, 2k to 64m; or auto". Returns out.
const char *setting_describe(const setting *s, char out[SETTING_TEXT_BYTES]);

#endif
