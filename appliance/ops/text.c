// SPDX-License-Identifier: Apache-2.0
// text.c: see text.h. Grows by doubling from 1 KiB, so a page of 32 KiB costs six allocations at most
// and none once the connection has made its first page.
//
// Invariants: data[len] is NUL whenever data is not NULL; len never exceeds max; after a failure the
// text stays as it was before the addition that failed.
#include "ops/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_FIRST_BYTES 1024u

text text_make(size_t max) {
    return (text){.max = max};
}

void text_free(text *t) {
    free(t->data);
    *t = (text){.max = t->max};
}

void text_reset(text *t) {
    t->len = 0;
    t->failed = false;
    if (t->data != NULL) t->data[0] = '\0';
}

// Makes room for more bytes and the NUL.
static bool text_reserve(text *t, size_t more) {
    if (t->failed || more > t->max || t->len > t->max - more) {
        t->failed = true;
        return false;
    }
    size_t need = t->len + more + 1;
    if (need <= t->size) return true;
    size_t size = MAX(t->size, TEXT_FIRST_BYTES);
    while (size < need) size *= 2;
    size = MIN(size, t->max + 1);
    char *data = realloc(t->data, size);
    if (data == NULL) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->size = size;
    return true;
}

void text_append(text *t, const void *bytes, size_t len) {
    if (!text_reserve(t, len)) return;
    if (len > 0) memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_puts(text *t, const char *string) {
    text_append(t, string, strlen(string));
}

void text_vprintf(text *t, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    size_t room = t->size - t->len;
    int n = vsnprintf(t->data == NULL ? NULL : t->data + t->len, t->data == NULL ? 0 : room, format, args);
    if (n < 0) {
        t->failed = true;
    } else if (text_reserve(t, (size_t)n)) {
        if (t->data != NULL && (size_t)n >= room) {
            vsnprintf(t->data + t->len, (size_t)n + 1, format, again);
        }
        t->len += (size_t)n;
    }
    // A failed addition may have written over the NUL.
    if (t->failed && t->data != NULL) t->data[t->len] = '\0';
    va_end(again);
}

void text_printf(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_vprintf(t, format, args);
    va_end(args);
}

void text_truncate(text *t, size_t len) {
    ASSERT(len <= t->len);
    t->len = len;
    if (t->data != NULL) t->data[len] = '\0';
}

const char *text_time(u64 real_ns, char out[TEXT_TIME_BYTES]) {
    time_t seconds = (time_t)(real_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, TEXT_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, TEXT_TIME_BYTES - n, ".%06uZ", (unsigned)(real_ns % NS_PER_S / 1000));
    return out;
}
