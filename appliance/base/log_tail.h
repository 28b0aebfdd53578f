// SPDX-License-Identifier: Apache-2.0
// log_tail.h: the last lines in memory, for those who follow the log (log_tail_read in log.h).
// Private to base/log*.c.
#ifndef SLUICE_BASE_LOG_TAIL_H
#define SLUICE_BASE_LOG_TAIL_H

#include "base/log_text.h"

#define LOG_TAIL_BYTES (256u << 10)
_Static_assert(LOG_LINE_OUT_BYTES < LOG_TAIL_BYTES / 4, "the tail holds several long lines");

// Log writer only.
void log_tail_put(const log_line *line);

#endif
