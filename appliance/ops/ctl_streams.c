// SPDX-License-Identifier: Apache-2.0
// ctl_streams.c: see ctl_streams.h. A message is shown as its time, partition:offset, topic and payload; a payload
// that is not text as its size. Where a reading may go on is told on stderr, so that stdout has messages only.
#include "ops/ctl_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ctl_table.h"

#define LINE_BYTES_MAX (64u << 20)

static const char *str(yyjson_val *obj, const char *key) {
    const char *s = yyjson_get_str(yyjson_obj_get(obj, key));
    return s != NULL ? s : "-";
}

static u64 num(yyjson_val *obj, const char *key) {
    return yyjson_get_uint(yyjson_obj_get(obj, key));
}

static void cell_num(ctl_table *t, yyjson_val *obj, const char *key) {
    ctl_table_cell(t, "%llu", (unsigned long long)num(obj, key));
}

static void cell_bytes(ctl_table *t, yyjson_val *obj, const char *key) {
    char out[CTL_UNIT_BYTES];
    yyjson_val *val = yyjson_obj_get(obj, key);
    if (yyjson_is_int(val)) ctl_table_cell(t, "%s", ctl_bytes(yyjson_get_uint(val), out));
    else ctl_table_cell(t, "-");
}

// The time without its fraction.
static void cell_time(ctl_table *t, yyjson_val *obj, const char *key) {
    ctl_table_cell(t, "%.19s", str(obj, key));
}

void ctl_print_streams(yyjson_val *root) {
    static const char *const heads[] = {"STREAM", "STATE", ">MESSAGES", ">BYTES", ">BOUND", "OLDEST", "NEWEST"};
    ctl_table t;
    size_t i, max;
    yyjson_val *list = yyjson_obj_get(root, "streams"), *s;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(list, i, max, s) {
        ctl_table_cell(&t, "%s", str(s, "name"));
        ctl_table_cell(&t, "%s", yyjson_get_bool(yyjson_obj_get(s, "configured")) ? "taking" : "not configured");
        cell_num(&t, s, "messages");
        cell_bytes(&t, s, "bytes");
        cell_bytes(&t, s, "max_bytes");
        cell_time(&t, s, "oldest");
        cell_time(&t, s, "newest");
    }
    ctl_table_end(&t, 0);
}

static void print_partitions(yyjson_val *root) {
    static const char *const heads[] = {">PARTITION", ">WORKER", ">FIRST", ">NEXT", ">BYTES", "OLDEST", "NEWEST"};
    ctl_table t;
    size_t i, max;
    yyjson_val *p;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "partitions"), i, max, p) {
        cell_num(&t, p, "partition");
        cell_num(&t, p, "worker");
        cell_num(&t, p, "first");
        cell_num(&t, p, "next");
        cell_bytes(&t, p, "bytes");
        cell_time(&t, p, "oldest");
        cell_time(&t, p, "newest");
    }
    ctl_table_end(&t, 2);
}

static void print_consumers(yyjson_val *root) {
    static const char *const heads[] = {"CONSUMER", ">PARTITION", ">NEXT", ">LAG", ">READERS", "ACKNOWLEDGED"};
    ctl_table t;
    size_t i, max;
    yyjson_val *c;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "consumers"), i, max, c) {
        ctl_table_cell(&t, "%s", str(c, "name"));
        cell_num(&t, c, "partition");
        cell_num(&t, c, "next");
        cell_num(&t, c, "lag");
        cell_num(&t, c, "members");
        cell_time(&t, c, "acknowledged");
    }
    ctl_table_end(&t, 2);
}

void ctl_print_stream(yyjson_val *root) {
    char bytes[CTL_UNIT_BYTES];
    printf("stream      %s%s\n", str(root, "name"),
           yyjson_get_bool(yyjson_obj_get(root, "configured")) ? "" : ", not configured: takes nothing");
    printf("messages    %llu, %s\n", (unsigned long long)num(root, "messages"), ctl_bytes(num(root, "bytes"), bytes));
    printf("partitions\n");
    print_partitions(root);
    if (yyjson_arr_size(yyjson_obj_get(root, "consumers")) == 0) return;
    printf("consumers\n");
    print_consumers(root);
}

void ctl_print_forgotten(yyjson_val *root) {
    printf("consumer %s has been forgotten\n", str(root, "forgotten"));
}

// --- messages ---

void ctl_stream_lines_begin(ctl_stream_lines *s, bool json) {
    *s = (ctl_stream_lines){.line = text_make(LINE_BYTES_MAX), .json = json};
}

void ctl_stream_lines_end(ctl_stream_lines *s) {
    text_free(&s->line);
}

// Control characters are not for a terminal.
static void print_clean(const char *value) {
    char *copy = strdup(value);
    if (copy == NULL) base_out_of_memory("a message", strlen(value));
    ctl_clean(copy);
    fputs(copy, stdout);
    free(copy);
}

static void print_message(yyjson_val *m) {
    yyjson_val *payload = yyjson_obj_get(m, "payload");
    printf("%.23sZ %llu:%llu ", str(m, "time"), (unsigned long long)num(m, "partition"),
           (unsigned long long)num(m, "offset"));
    print_clean(str(m, "topic"));
    putchar(' ');
    if (payload != NULL) print_clean(yyjson_get_str(payload));
    else printf("(%zu bytes)", yyjson_get_len(yyjson_obj_get(m, "payload_base64")) / 4 * 3);
    putchar('\n');
}

static void print_line(const ctl_stream_lines *s) {
    yyjson_doc *doc = yyjson_read(s->line.data, s->line.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc), *next = yyjson_obj_get(root, "next");
    bool end = yyjson_get_bool(yyjson_obj_get(root, "end"));
    if (next != NULL && !end) fprintf(stderr, "there is more: --from %s\n", yyjson_get_str(next));
    else if (next == NULL && doc != NULL) print_message(root);
    yyjson_doc_free(doc);
}

bool ctl_stream_lines_part(void *context, const char *bytes, size_t len) {
    ctl_stream_lines *s = context;
    if (s->json) return fwrite(bytes, 1, len, stdout) == len && fflush(stdout) == 0;
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t part = end == NULL ? len : (size_t)(end - bytes);
        text_append(&s->line, bytes, part);
        if (s->line.failed) return false;
        if (end == NULL) break;
        print_line(s);
        text_reset(&s->line);
        bytes += part + 1;
        len -= part + 1;
    }
    return fflush(stdout) == 0;
}
