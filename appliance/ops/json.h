// SPDX-License-Identifier: Apache-2.0
// json.h: JSON answers on top of yyjson. Its builder ignores a failed allocation and would leave the
// member out; here the allocator notes it, so that an answer is complete or refused.
//
// Strings are copied, and bytes that are not UTF-8 become '?': the output is always valid JSON.
#ifndef SLUICE_OPS_JSON_H
#define SLUICE_OPS_JSON_H

#include <yyjson.h>

#include "ops/http.h"

typedef struct json {
    yyjson_alc alc;
    yyjson_mut_doc *doc;
    yyjson_mut_val *root; // an object
    bool failed;
} json;

// j must stay where it is until it is finished: yyjson keeps a pointer to its allocator.
void json_begin(json *j);
// Finish: exactly one of these. An answer with 503 when memory was short.
void json_answer(json *j, http_exchange *x, int status);
// One line with a newline at its end; sets out->failed when memory was short.
void json_append(json *j, text *out);
void json_drop(json *j);

// Members. obj: j->root or what json_obj and json_arr_obj returned.
void json_str(json *j, yyjson_mut_val *obj, const char *key, const char *value);
void json_u64(json *j, yyjson_mut_val *obj, const char *key, u64 value);
void json_int(json *j, yyjson_mut_val *obj, const char *key, i64 value);
void json_bool(json *j, yyjson_mut_val *obj, const char *key, bool value);
void json_null(json *j, yyjson_mut_val *obj, const char *key);
// Nanoseconds as seconds with all their digits that matter (a JSON number).
void json_seconds(json *j, yyjson_mut_val *obj, const char *key, u64 ns);
// Milliseconds with fraction, from nanoseconds.
void json_ms(json *j, yyjson_mut_val *obj, const char *key, u64 ns);
yyjson_mut_val *json_obj(json *j, yyjson_mut_val *obj, const char *key);
yyjson_mut_val *json_arr(json *j, yyjson_mut_val *obj, const char *key);
// Elements of an array.
yyjson_mut_val *json_arr_obj(json *j, yyjson_mut_val *arr);
void json_arr_str(json *j, yyjson_mut_val *arr, const char *value);

#endif
