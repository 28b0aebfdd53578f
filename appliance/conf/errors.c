// SPDX-License-Identifier: Apache-2.0
// errors.c: the list of mistakes, ordered by line. Room for the closing line is kept free, so that
// a reader always learns how many mistakes are not shown.
#include "conf/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_BYTES 1024
#define CLOSING_BYTES 64

void conf_errors_init(conf_errors *e, config_error *out, const char *name) {
    *e = (conf_errors){.out = out, .name = name};
    out->text[0] = '\0';
}

static void make_printable(char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
    }
}

// Behind what has the same line or a lower one. Each message ends with a newline here, but the
// last.
static void insert_by_line(conf_errors *e, u32 line, const char *text, size_t bytes) {
    u32 i = e->shown;
    char *all = e->out->text;
    if (e->used > 0) all[e->used++] = '\n';
    while (i > 0 && e->at[i - 1].line > line) i--;
    size_t offset = i < e->shown ? e->at[i].offset : e->used;
    memmove(all + offset + bytes + 1, all + offset, e->used - offset);
    memcpy(all + offset, text, bytes);
    all[offset + bytes] = '\n';
    for (u32 k = e->shown; k > i; k--) {
        e->at[k] = e->at[k - 1];
        e->at[k].offset += (u32)bytes + 1;
    }
    e->at[i].line = line;
    e->at[i].offset = (u32)offset;
    e->shown++;
    e->used += bytes; // without the last newline
    all[e->used] = '\0';
}

static void say_not_shown(conf_errors *e) {
    u32 more = e->count - e->shown;
    snprintf(e->out->text + e->used, sizeof(e->out->text) - e->used,
             "%s%u more mistake%s not shown", e->used > 0 ? "\n" : "", more, more == 1 ? "" : "s");
}

bool conf_errors_is_full(const conf_errors *e) {
    return e->count > e->shown;
}

void conf_errors_add(conf_errors *e, u32 line, const char *where, const char *format, ...) {
    char text[MESSAGE_BYTES], number[16] = "";
    va_list args;
    bool full = conf_errors_is_full(e);
    e->count++;
    if (full) {
        say_not_shown(e);
        return;
    }
    if (line != 0) snprintf(number, sizeof(number), ":%u", line);
    int head = snprintf(text, sizeof(text), "%s%s: %s%s", e->name, number,
                        where != NULL ? where : "", where != NULL ? ": " : "");
    size_t used = MIN((size_t)MAX(head, 0), sizeof(text) - 1);
    va_start(args, format);
    int tail = vsnprintf(text + used, sizeof(text) - used, format, args);
    va_end(args);
    used = MIN(used + (size_t)MAX(tail, 0), sizeof(text) - 1);
    make_printable(text);

    full = e->shown == CONF_ERRORS_SHOWN_MAX ||
           e->used + 1 + used > sizeof(e->out->text) - CLOSING_BYTES;
    if (full) say_not_shown(e);
    else insert_by_line(e, line, text, used);
}
