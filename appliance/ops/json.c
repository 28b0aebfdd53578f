// SPDX-License-Identifier: Apache-2.0
// json.c: see json.h. Allocation goes through malloc; a failure sets json.failed and yyjson goes on without the
// member, which the finishing functions then turn into a refusal.
#include "ops/json.h"

#include <stdlib.h>
#include <string.h>

#include "broker/topic.h"

static void *note(json *j, void *memory) {
    if (memory == NULL) j->failed = true;
    return memory;
}

static void *alc_malloc(void *ctx, size_t size) {
    return note(ctx, malloc(size));
}

static void *alc_realloc(void *ctx, void *memory, size_t old_size, size_t size) {
    (void)old_size;
    return note(ctx, realloc(memory, size));
}

static void alc_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

void json_begin(json *j) {
    *j = (json){.alc = {.malloc = alc_malloc, .realloc = alc_realloc, .free = alc_free, .ctx = j}};
    j->doc = yyjson_mut_doc_new(&j->alc);
    j->root = yyjson_mut_obj(j->doc);
    yyjson_mut_doc_set_root(j->doc, j->root);
}

void json_drop(json *j) {
    yyjson_mut_doc_free(j->doc);
    j->doc = NULL;
    j->root = NULL;
}

static char *write_line(json *j, size_t *len) {
    char *line = NULL;
    if (!j->failed) line = yyjson_mut_write_opts(j->doc, YYJSON_WRITE_NEWLINE_AT_END, &j->alc, len, NULL);
    json_drop(j);
    return line;
}

void json_answer(json *j, http_exchange *x, int status) {
    size_t len;
    char *line = write_line(j, &len);
    if (line == NULL) http_answer_error(x, 503, "no memory for the answer");
    else http_answer(x, status, HTTP_JSON, line, len);
    free(line);
}

void json_append(json *j, text *out) {
    size_t len;
    char *line = write_line(j, &len);
    if (line == NULL) out->failed = true;
    else text_append(out, line, len);
    free(line);
}

static yyjson_mut_val *string_of(json *j, const char *value) {
    size_t len = strlen(value);
    if (utf8_is_valid(value, len)) return yyjson_mut_strncpy(j->doc, value, len);
    char *clean = note(j, malloc(len + 1));
    if (clean == NULL) return NULL;
    for (size_t i = 0; i <= len; i++) clean[i] = (u8)value[i] < 0x80 ? value[i] : '?';
    yyjson_mut_val *val = yyjson_mut_strncpy(j->doc, clean, len);
    free(clean);
    return val;
}

// Keys are string literals: they are not copied.
static void add(json *j, yyjson_mut_val *obj, const char *key, yyjson_mut_val *val) {
    if (!yyjson_mut_obj_add(obj, yyjson_mut_str(j->doc, key), val)) j->failed = true;
}

void json_str(json *j, yyjson_mut_val *obj, const char *key, const char *value) {
    add(j, obj, key, string_of(j, value));
}

void json_u64(json *j, yyjson_mut_val *obj, const char *key, u64 value) {
    add(j, obj, key, yyjson_mut_uint(j->doc, value));
}

void json_int(json *j, yyjson_mut_val *obj, const char *key, i64 value) {
    add(j, obj, key, yyjson_mut_sint(j->doc, value));
}

void json_bool(json *j, yyjson_mut_val *obj, const char *key, bool value) {
    add(j, obj, key, yyjson_mut_bool(j->doc, value));
}

void json_null(json *j, yyjson_mut_val *obj, const char *key) {
    add(j, obj, key, yyjson_mut_null(j->doc));
}

void json_seconds(json *j, yyjson_mut_val *obj, const char *key, u64 ns) {
    add(j, obj, key, yyjson_mut_real(j->doc, (double)(ns / 1000) / 1e6));
}

void json_ms(json *j, yyjson_mut_val *obj, const char *key, u64 ns) {
    add(j, obj, key, yyjson_mut_real(j->doc, (double)(ns / 1000) / 1e3));
}

yyjson_mut_val *json_obj(json *j, yyjson_mut_val *obj, const char *key) {
    yyjson_mut_val *val = yyjson_mut_obj(j->doc);
    add(j, obj, key, val);
    return val;
}

yyjson_mut_val *json_arr(json *j, yyjson_mut_val *obj, const char *key) {
    yyjson_mut_val *val = yyjson_mut_arr(j->doc);
    add(j, obj, key, val);
    return val;
}

yyjson_mut_val *json_arr_obj(json *j, yyjson_mut_val *arr) {
    yyjson_mut_val *val = yyjson_mut_obj(j->doc);
    if (!yyjson_mut_arr_append(arr, val)) j->failed = true;
    return val;
}

void json_arr_str(json *j, yyjson_mut_val *arr, const char *value) {
    if (!yyjson_mut_arr_append(arr, string_of(j, value))) j->failed = true;
}
