// SPDX-License-Identifier: Apache-2.0
// source.h: the text of a configuration file as a flat list of what stands in it, each with its
// line. The only file that knows the parsing library. Values are kept as they were written ("64k",
// not a number): the library's own idea of suffixes (k = 1000, times as floating point seconds)
// never reaches a setting.
#ifndef SLUICE_CONF_SOURCE_H
#define SLUICE_CONF_SOURCE_H

#include "conf/errors.h"

typedef enum conf_node_kind { NODE_VALUE, NODE_BLOCK, NODE_LIST } conf_node_kind;

// A block or list stands before what it contains; depth 0 is the file itself. Elements of a list have
// no name (key_len 0); one that is not a text is a NODE_LIST. Entries of one name stand
// together, at the place of the first. Text is not terminated and is valid until conf_source_free.
typedef struct conf_node {
    conf_node_kind kind;
    u32 depth;
    u32 line;
    u32 key_len, text_len;
    const char *key;
    const char *text; // NODE_VALUE only
} conf_node;

typedef struct conf_source {
    char *buf; // padded copy of the text
    size_t len;
    u32 *line_starts;
    u32 lines;
    conf_node *nodes;
    u32 count, capacity;
    void *parser, *top; // the library's
} conf_source;

// Parses. Returns 0, -EINVAL with mistakes added to errors, or -ENOMEM. Call conf_source_free in
// any case.
int conf_source_read(conf_source *s, const char *text, size_t bytes, conf_errors *errors);
void conf_source_free(conf_source *s);

#endif
