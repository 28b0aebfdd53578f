// SPDX-License-Identifier: Apache-2.0
// json_out.h: writes JSON (RFC 8259) to a stream: commas and escapes in one place, nothing else.
#ifndef SLUICE_BENCH_JSON_OUT_H
#define SLUICE_BENCH_JSON_OUT_H

#include <stdio.h>

#include "base/base.h"

typedef struct json_out {
    FILE *file;
    u32 depth;
    bool comma; // the next member of this level needs one
} json_out;

// key is NULL inside arrays and at the top.
void json_out_object_begin(json_out *j, const char *key);
void json_out_object_end(json_out *j);
void json_out_array_begin(json_out *j, const char *key);
void json_out_array_end(json_out *j);
void json_out_text(json_out *j, const char *key, const char *value);
void json_out_u64(json_out *j, const char *key, u64 value);
// Not finite is written as null: JSON has no word for it.
void json_out_double(json_out *j, const char *key, double value);
void json_out_bool(json_out *j, const char *key, bool value);
void json_out_null(json_out *j, const char *key);

#endif
