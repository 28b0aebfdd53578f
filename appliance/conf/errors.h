// SPDX-License-Identifier: Apache-2.0
// errors.h: collects the mistakes of one file, one line each: "FILE:LINE: WHERE: WHAT". All are
// counted; those that no longer fit the caller's buffer are summed up in its last line. Used by one
// parse, one thread.
#ifndef SLUICE_CONF_ERRORS_H
#define SLUICE_CONF_ERRORS_H

#include "conf/config.h"

#define CONF_ERRORS_SHOWN_MAX 256 // more than messages of the shortest kind have room

typedef struct conf_errors {
    config_error *out;
    const char *name; // of the file
    u32 count;        // mistakes found
    u32 shown;        // of these, in the text, ordered by line
    size_t used;
    struct {
        u32 line;
        u32 offset; // in the text
    } at[CONF_ERRORS_SHOWN_MAX];
} conf_errors;

void conf_errors_init(conf_errors *e, config_error *out, const char *name);
// line 0: the file as a whole. where may be NULL. Control characters in the message are shown as
// '?'.
void conf_errors_add(conf_errors *e, u32 line, const char *where, const char *format, ...)
    PRINTF_LIKE(4, 5);

// Whether there is no room for another message: it would only be counted, and need not be put
// together.
bool conf_errors_is_full(const conf_errors *e);

#endif
