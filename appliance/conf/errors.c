// SPDX-License-Identifier: Apache-2.0
// errors.c: the list of mistakes. Room for the closing line is kept free, so that a reader always
// learns how many mistakes are not shown.
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

void conf_errors_add(conf_errors *e, u32 line, const char *where, const char *format, ...) {
    char text[MESSAGE_BYTES], number[16] = "";
    va_list args;
    e->count++;
    if (line != 0) snprintf(number, sizeof(number), ":%u", line);
    int head = snprintf(text, sizeof(text), "%s%s: %s%s", e->name, number,
                        where != NULL ? where : "", where != NULL ? ": " : "");
    size_t used = MIN((size_t)MAX(head, 0), sizeof(text) - 1);
    va_start(args, format);
    int tail = vsnprintf(text + used, sizeof(text) - used, format, args);
    va_end(args);
    used = MIN(used + (size_t)MAX(tail, 0), sizeof(text) - 1);
    make_printable(text);

    size_t room = sizeof(e->out->text) - CLOSING_BYTES;
    size_t newline = e->used > 0 ? 1 : 0;
    if (e->not_shown == 0 && e->used + newline + used < room) {
        if (newline != 0) e->out->text[e->used++] = '\n';
        memcpy(e->out->text + e->used, text, used + 1);
        e->used += used;
        return;
    }
    e->not_shown++;
    snprintf(e->out->text + e->used, sizeof(e->out->text) - e->used,
             "%s%u more mistake%s not shown", newline != 0 ? "\n" : "", e->not_shown,
             e->not_shown == 1 ? "" : "s");
}
