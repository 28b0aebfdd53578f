// SPDX-License-Identifier: Apache-2.0
// source.c: runs the guard, then libucl without macros, variables, file variables and time parsing,
// and flattens its tree.
//
// Lines: libucl keeps none after parsing, but in its zero-copy mode keys are pointers into our copy
// of the text, so a key's offset gives its line. A key written with escapes is the library's own
// copy: it takes the line of the block around it. Invariant: the copy has a blank before and zeros
// after the text; libucl looks one or two bytes beyond both.
#include "conf/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ucl.h>

#include "conf/guard.h"

#define PAD_BYTES 16
// The guard allows two words for each open block; see guard.c.
#define TREE_DEPTH_MAX (2 * LIMIT_CONFIG_DEPTH + 2)

static int index_lines(conf_source *s) {
    u32 lines = 1;
    for (size_t i = 0; i < s->len; i++) lines += s->buf[1 + i] == '\n';
    s->line_starts = malloc(lines * sizeof(*s->line_starts));
    if (s->line_starts == NULL) return -ENOMEM;
    s->line_starts[s->lines++] = 0;
    for (size_t i = 0; i < s->len; i++) {
        if (s->buf[1 + i] == '\n') s->line_starts[s->lines++] = (u32)i + 1;
    }
    return 0;
}

static bool is_inside(const conf_source *s, const char *p) {
    return p >= s->buf + 1 && p < s->buf + 1 + s->len;
}

static u32 line_of(const conf_source *s, const char *p, u32 otherwise) {
    if (!is_inside(s, p)) return otherwise;
    u32 offset = (u32)(p - (s->buf + 1)), low = 0, high = s->lines;
    while (high - low > 1) {
        u32 middle = low + (high - low) / 2;
        if (s->line_starts[middle] <= offset) low = middle;
        else high = middle;
    }
    return low + 1;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

// What was written as the value of an unquoted number or word: from behind the = to the end of the
// statement.
static bool written_value(const conf_source *s, conf_node *n) {
    if (!is_inside(s, n->key)) return false;
    const char *end = s->buf + 1 + s->len, *p = n->key + n->key_len;
    if (p < end && *p == '"') p++;
    while (p < end && is_space(*p)) p++;
    if (p < end && (*p == '=' || *p == ':')) p++;
    while (p < end && is_space(*p)) p++;
    const char *start = p;
    while (p < end && strchr(";,\n}]", *p) == NULL) p++;
    while (p > start && is_space(p[-1])) p--;
    n->text = start;
    n->text_len = (u32)(p - start);
    return p > start;
}

static conf_node *node_add(conf_source *s) {
    if (s->count == s->capacity) {
        u32 capacity = s->capacity == 0 ? 64 : s->capacity * 2;
        conf_node *grown = realloc(s->nodes, capacity * sizeof(*grown));
        if (grown == NULL) return NULL;
        s->nodes = grown;
        s->capacity = capacity;
    }
    return &s->nodes[s->count++];
}

static int flatten(conf_source *s, const ucl_object_t *block, u32 depth, u32 line,
                   conf_errors *errors);

static int flatten_one(conf_source *s, const ucl_object_t *o, u32 depth, u32 line,
                       conf_errors *errors) {
    size_t key_len = 0, text_len = 0;
    const char *key = ucl_object_keyl(o, &key_len);
    conf_node *n = node_add(s);
    if (n == NULL) return -ENOMEM;
    *n = (conf_node){
        .depth = depth, .line = line_of(s, key, line), .key = key, .key_len = (u32)key_len};
    switch (ucl_object_type(o)) {
    case UCL_OBJECT: n->kind = NODE_BLOCK; return flatten(s, o, depth + 1, n->line, errors);
    case UCL_ARRAY: n->kind = NODE_LIST; return flatten(s, o, depth + 1, n->line, errors);
    case UCL_STRING:
        n->kind = NODE_VALUE;
        n->text = ucl_object_tolstring(o, &text_len);
        n->text_len = (u32)text_len;
        return 0;
    default: n->kind = NODE_VALUE; break;
    }
    if (key_len == 0) { // an element of a list that is not a quoted text
        n->kind = NODE_LIST;
        return 0;
    }
    if (written_value(s, n)) return 0;
    conf_errors_add(errors, n->line, NULL, "%.*s: write the key without escapes",
                    (int)MIN(key_len, 64u), key);
    return -EINVAL;
}

// The elements of a list are entries without a name, one level below it.
// A key that stands several times in a block is one entry of libucl's table with a chain of values.
static int flatten(conf_source *s, const ucl_object_t *block, u32 depth, u32 line,
                   conf_errors *errors) {
    ucl_object_iter_t it = NULL;
    const ucl_object_t *head;
    int failed = 0, rc = 0;
    ASSERT(depth <= TREE_DEPTH_MAX);
    // To the end in any case: the iterator frees itself there.
    while ((head = ucl_object_iterate_with_error(block, &it, true, &failed)) != NULL) {
        for (const ucl_object_t *o = head; o != NULL && rc == 0; o = o->next) {
            rc = flatten_one(s, o, depth, line, errors);
        }
    }
    return failed != 0 ? -ENOMEM : rc;
}

// The library's messages, for what the guard has let through: only the part between its quotes is
// ours to show.
static void add_library_error(conf_source *s, conf_errors *errors) {
    const char *text = ucl_parser_get_error(s->parser);
    unsigned line = ucl_parser_get_linenum(s->parser);
    if (text == NULL) text = "not readable";
    const char *start = strstr(text, " - '");
    start = start != NULL ? start + 4 : text;
    const char *end = strstr(start, "', character");
    size_t len = end != NULL ? (size_t)(end - start) : strlen(start);
    conf_errors_add(errors, line, NULL, "syntax: %.*s", (int)MIN(len, 200u), start);
}

static int run_library(conf_source *s, conf_errors *errors) {
    int flags = UCL_PARSER_ZEROCOPY | UCL_PARSER_NO_TIME | UCL_PARSER_DISABLE_MACRO |
                UCL_PARSER_NO_FILEVARS;
    s->parser = ucl_parser_new(flags);
    if (s->parser == NULL) return -ENOMEM;
    bool ok = ucl_parser_add_chunk_full(s->parser, (const unsigned char *)s->buf + 1, s->len, 0,
                                        UCL_DUPLICATE_APPEND, UCL_PARSE_UCL);
    if (!ok) {
        add_library_error(s, errors);
        return -EINVAL;
    }
    s->top = ucl_parser_get_object(s->parser);
    if (s->top == NULL) return 0; // nothing but blanks and comments
    if (ucl_object_type(s->top) != UCL_OBJECT) {
        conf_errors_add(errors, 1, NULL, "keys and sections are expected, not a list");
        return -EINVAL;
    }
    return flatten(s, s->top, 0, 1, errors);
}

int conf_source_read(conf_source *s, const char *text, size_t bytes, conf_errors *errors) {
    *s = (conf_source){.len = bytes};
    if (bytes > LIMIT_CONFIG_BYTES) {
        conf_errors_add(errors, 0, NULL, "longer than %u bytes", LIMIT_CONFIG_BYTES);
        return -EINVAL;
    }
    s->buf = calloc(1, 1 + bytes + PAD_BYTES);
    if (s->buf == NULL) return -ENOMEM;
    s->buf[0] = ' ';
    if (bytes > 0) memcpy(s->buf + 1, text, bytes);
    int rc = index_lines(s);
    if (rc == 0) rc = guard_check(s->buf + 1, bytes, errors);
    if (rc == 0 && bytes > 0) rc = run_library(s, errors);
    return rc;
}

void conf_source_free(conf_source *s) {
    if (s->top != NULL) ucl_object_unref(s->top);
    if (s->parser != NULL) ucl_parser_free(s->parser);
    free(s->nodes);
    free(s->line_starts);
    free(s->buf);
    *s = (conf_source){0};
}
