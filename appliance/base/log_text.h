// SPDX-License-Identifier: Apache-2.0
// log_text.h: makes a finished line out of what was logged: time, level, and the text with
// everything escaped that could forge a line or drive a terminal. Private to base/log*.c and its
// tests.
#ifndef SLUICE_BASE_LOG_TEXT_H
#define SLUICE_BASE_LOG_TEXT_H

#include <stdarg.h>

#include "base/base.h"
#include "base/log.h"
#include "limits.h"

#define LOG_TIME_BYTES 24u // "2026-11-30T10:40:04.123Z"
#define LOG_ESCAPED_BYTES_MAX (4u * LIMIT_LOG_LINE_BYTES) // \xNN for every byte
#define LOG_LINE_OUT_BYTES (LOG_TIME_BYTES + 8u + LOG_ESCAPED_BYTES_MAX + 1u)

typedef struct log_line {
    log_level level;
    u32 len;        // with the newline
    u32 text_start; // where the text begins, behind time and level
    char data[LOG_LINE_OUT_BYTES]; // not terminated
} log_line;

// "TIME LEVEL text\n". text_len beyond LIMIT_LOG_LINE_BYTES is not read.
void log_line_make(log_line *line, log_level level, u64 time_ns, const char *text, u32 text_len);

// Escapes into out (room for 4 * len bytes), returns the length. Left as they are: printable ASCII
// and valid UTF-8 (RFC 3629) except C1 controls, line and paragraph separators and bidirectional
// controls. Newline, carriage return and tab become \n, \r, \t, every other byte \xNN.
u32 log_text_escape(const char *text, u32 len, char *out);

// Formats into out (room for LIMIT_LOG_LINE_BYTES + 1), cut at a character's edge and marked when
// longer. Returns the length, at most LIMIT_LOG_LINE_BYTES.
u32 log_text_format(char *out, const char *format, va_list args) PRINTF_LIKE(2, 0);

#endif
