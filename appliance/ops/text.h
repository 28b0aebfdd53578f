// SPDX-License-Identifier: Apache-2.0
// text.h: a growing text with an upper bound, in which answers are put together page by page.
//
// Failure is sticky: when memory is short or the bound is reached, nothing more is added, `failed` is set
// and the caller looks once at the end. Not thread-safe; the owner frees it.
#ifndef SLUICE_OPS_TEXT_H
#define SLUICE_OPS_TEXT_H

#include <stdarg.h>

#include "base/base.h"

typedef struct text {
    char *data;       // always NUL-terminated once something was added
    size_t len, size; // used without the NUL; allocated
    size_t max;       // bound of len
    bool failed;
} text;

// An empty text that will never hold more than max bytes.
text text_make(size_t max);
void text_free(text *t);
// Empties it and clears `failed`; keeps the memory.
void text_reset(text *t);

void text_append(text *t, const void *bytes, size_t len);
void text_puts(text *t, const char *string);
void text_printf(text *t, const char *format, ...) PRINTF_LIKE(2, 3);
void text_vprintf(text *t, const char *format, va_list args) PRINTF_LIKE(2, 0);
// Cuts back to len, for an addition that turned out not to be wanted.
void text_truncate(text *t, size_t len);

// Wall time as RFC 3339 with microseconds, UTC: "2026-03-01T12:00:00.000001Z". Returns out.
#define TEXT_TIME_BYTES 32
const char *text_time(u64 real_ns, char out[TEXT_TIME_BYTES]);

#endif
