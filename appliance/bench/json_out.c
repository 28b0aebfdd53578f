// SPDX-License-Identifier: Apache-2.0
// json_out.c: see json_out.h. Bytes above 0x7f are written as they are: what is printed here (names
// of threads, addresses, messages) is taken to be UTF-8, and anything below 0x20 is escaped.
#include "bench/json_out.h"

#include <inttypes.h>
#include <math.h>

static void string_write(FILE *f, const char *text) {
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
        if (*p == '"' || *p == '\\') {
            fprintf(f, "\\%c", *p);
        } else if (*p < 0x20) {
            fprintf(f, "\\u%04x", *p);
        } else {
            fputc(*p, f);
        }
    }
    fputc('"', f);
}

static void member_begin(json_out *j, const char *key) {
    if (j->depth > 0) fprintf(j->file, "%s\n%*s", j->comma ? "," : "", (int)(2 * j->depth), "");
    j->comma = true;
    if (key == NULL) return;
    string_write(j->file, key);
    fputs(": ", j->file);
}

static void level_begin(json_out *j, const char *key, char bracket) {
    member_begin(j, key);
    fputc(bracket, j->file);
    j->depth++;
    j->comma = false;
}

static void level_end(json_out *j, char bracket) {
    ASSERT(j->depth > 0);
    j->depth--;
    if (j->comma) fprintf(j->file, "\n%*s", (int)(2 * j->depth), "");
    fputc(bracket, j->file);
    j->comma = true;
    if (j->depth == 0) fputc('\n', j->file);
}

void json_out_object_begin(json_out *j, const char *key) {
    level_begin(j, key, '{');
}

void json_out_object_end(json_out *j) {
    level_end(j, '}');
}

void json_out_array_begin(json_out *j, const char *key) {
    level_begin(j, key, '[');
}

void json_out_array_end(json_out *j) {
    level_end(j, ']');
}

void json_out_text(json_out *j, const char *key, const char *value) {
    member_begin(j, key);
    string_write(j->file, value);
}

void json_out_u64(json_out *j, const char *key, u64 value) {
    member_begin(j, key);
    fprintf(j->file, "%" PRIu64, value);
}

void json_out_double(json_out *j, const char *key, double value) {
    if (!isfinite(value)) {
        json_out_null(j, key);
        return;
    }
    member_begin(j, key);
    fprintf(j->file, "%.9g", value);
}

void json_out_bool(json_out *j, const char *key, bool value) {
    member_begin(j, key);
    fputs(value ? "true" : "false", j->file);
}

void json_out_null(json_out *j, const char *key) {
    member_begin(j, key);
    fputs("null", j->file);
}
