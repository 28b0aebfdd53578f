// SPDX-License-Identifier: Apache-2.0
// log_tail.c: a ring of finished lines, 256 KiB, shared by the log writer and those who follow.
//
// Guarded by a mutex that only helper threads take (the writer, the operations worker); who logs
// never does. Held for one pass over at most 256 KiB. Lines are numbered from 1 since the process
// started. Lines begin anywhere and may go round the end; a newline ends each, and there is none
// inside a line.
#include "base/log_tail.h"

#include <pthread.h>
#include <string.h>

_Static_assert(IS_POWER_OF_TWO(LOG_TAIL_BYTES), "offsets are masked");

// By itself, because what stands beside an initial value is stored in the file.
static char tail_data[LOG_TAIL_BYTES];

static struct {
    pthread_mutex_t lock;
    u64 start, end;   // bytes since the process started; [start, end) are kept
    u64 first_number; // of the line at start
    u64 next_number;
} tail = {.lock = PTHREAD_MUTEX_INITIALIZER, .first_number = 1, .next_number = 1};

// Offset behind the newline of the line that begins at `from`; there is one before tail.end.
static u64 line_end(u64 from) {
    u32 at = (u32)(from & (LOG_TAIL_BYTES - 1));
    u64 to_wrap = MIN(tail.end - from, LOG_TAIL_BYTES - at);
    const char *newline = memchr(tail_data + at, '\n', to_wrap);
    if (newline != NULL) return from + (u64)(newline - (tail_data + at)) + 1;
    newline = memchr(tail_data, '\n', tail.end - from - to_wrap);
    ASSERT(newline != NULL);
    return from + to_wrap + (u64)(newline - tail_data) + 1;
}

void log_tail_put(const log_line *line) {
    pthread_mutex_lock(&tail.lock);
    while (tail.end + line->len - tail.start > LOG_TAIL_BYTES) {
        tail.start = line_end(tail.start);
        tail.first_number++;
    }
    u32 at = (u32)(tail.end & (LOG_TAIL_BYTES - 1));
    u32 first = MIN(line->len, LOG_TAIL_BYTES - at);
    memcpy(tail_data + at, line->data, first);
    memcpy(tail_data, line->data + first, line->len - first);
    tail.end += line->len;
    tail.next_number++;
    pthread_mutex_unlock(&tail.lock);
}

size_t log_tail_read(u64 *after, char *out, size_t out_bytes) {
    pthread_mutex_lock(&tail.lock);
    u64 number = tail.first_number;
    u64 from = tail.start;
    // A number from before a restart of the process is larger than any here: start over.
    u64 skip_to = *after >= tail.next_number ? 0 : *after;
    if (skip_to + 1 == tail.next_number) from = tail.end; // the common case: nothing new
    while (from < tail.end && number <= skip_to) {
        from = line_end(from);
        number++;
    }
    size_t copied = 0;
    while (from < tail.end) {
        u64 end = line_end(from);
        if (end - from > out_bytes - copied) break;
        for (; from < end; copied++, from++) out[copied] = tail_data[from & (LOG_TAIL_BYTES - 1)];
        *after = number++;
    }
    pthread_mutex_unlock(&tail.lock);
    return copied;
}
