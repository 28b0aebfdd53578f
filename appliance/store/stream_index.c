// SPDX-License-Identifier: Apache-2.0
// stream_index.c: see stream_index.h.
#include "store/stream_index.h"

#include <stdlib.h>
#include <string.h>

#define MARKS_FIRST 16u
#define MARK_MESSAGES 64u          // at first one mark for so many messages,
#define MARK_BYTES (4u << 10)      // or for so many bytes of them,
#define MARK_MS 1000u              // or for so long,
#define MARK_GAP_BYTES (256u << 10) // or when so much of the log lies in between: a reader steps over it

void stream_index_free(stream_index *x) {
    free(x->marks);
    *x = (stream_index){0};
}

static const stream_mark *last_mark(const stream_index *x) {
    return x->count == 0 ? NULL : &x->marks[x->count - 1];
}

static bool wants_mark(const stream_index *x, const stream_mark *m) {
    const stream_mark *last = last_mark(x);
    if (last == NULL) return true;
    if (m->offset - last->offset >= (u64)MARK_MESSAGES << x->sparse) return true;
    if (m->bytes_before - last->bytes_before >= (u64)MARK_BYTES << x->sparse) return true;
    if (m->time_ms > last->time_ms && m->time_ms - last->time_ms >= (u64)MARK_MS << x->sparse) return true;
    if (m->time_ms < last->time_ms) return true; // the clock went back
    return m->pos > x->last_pos && m->pos - x->last_pos >= (u64)MARK_GAP_BYTES << x->sparse;
}

// Every second one goes; the first stays.
static void thin(stream_index *x) {
    u32 kept = 0;
    for (u32 i = 0; i < x->count; i += 2) x->marks[kept++] = x->marks[i];
    x->count = kept;
    if (x->sparse < STREAM_SPARSE_MAX) x->sparse++;
}

static bool make_room(stream_index *x) {
    if (x->count < x->size) return true;
    if (x->size == LIMIT_STREAM_MARKS) {
        thin(x);
        return true;
    }
    u32 size = x->size == 0 ? MARKS_FIRST : x->size * 2;
    stream_mark *marks = realloc(x->marks, size * sizeof(*marks));
    if (marks == NULL) return false;
    x->marks = marks;
    x->size = size;
    return true;
}
_Static_assert(LIMIT_STREAM_MARKS % MARKS_FIRST == 0 && IS_POWER_OF_TWO(LIMIT_STREAM_MARKS), "sizes double to it");

bool stream_index_append(stream_index *x, const stream_mark *m, u32 record_bytes) {
    bool made = true;
    if (wants_mark(x, m)) {
        made = make_room(x);
        if (made) x->marks[x->count++] = *m;
    }
    x->last_offset = m->offset;
    x->last_pos = m->pos;
    x->last_time_ms = m->time_ms;
    x->last_bytes_end = m->bytes_before + record_bytes;
    return made;
}

stream_mark *stream_index_restore(stream_index *x, u32 count) {
    ASSERT(count > 0 && count <= LIMIT_STREAM_MARKS);
    stream_index_free(x);
    u32 size = MARKS_FIRST; // sizes double up to the limit
    while (size < count) size *= 2;
    x->marks = malloc(size * sizeof(*x->marks));
    if (x->marks == NULL) return NULL;
    x->count = count;
    x->size = size;
    return x->marks;
}

// How many marks are at or before the offset.
static u32 marks_up_to(const stream_index *x, u64 offset) {
    u32 low = 0, high = x->count;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (x->marks[middle].offset <= offset) low = middle + 1;
        else high = middle;
    }
    return low;
}

const stream_mark *stream_index_find(const stream_index *x, u64 offset) {
    u32 n = marks_up_to(x, offset);
    return n == 0 ? NULL : &x->marks[n - 1];
}

const stream_mark *stream_index_next(const stream_index *x, u64 offset) {
    u32 n = marks_up_to(x, offset);
    return n == x->count ? NULL : &x->marks[n];
}

const stream_mark *stream_index_find_time(const stream_index *x, u64 time_ms) {
    if (x->count == 0) return NULL;
    for (u32 i = 0; i < x->count; i++) {
        if (x->marks[i].time_ms >= time_ms) return &x->marks[i == 0 ? 0 : i - 1];
    }
    return last_mark(x);
}

// Places ascend as the offsets do, but where partitions of several logs became one; then it is a mark too early.
const stream_mark *stream_index_find_pos(const stream_index *x, u64 pos) {
    u32 n = 0;
    while (n < x->count && x->marks[n].pos <= pos) n++;
    return n == 0 ? NULL : &x->marks[n - 1];
}

u64 stream_index_holding(const stream_index *x, u64 bytes) {
    for (u32 i = 0; i < x->count; i++) {
        if (x->last_bytes_end - x->marks[i].bytes_before <= bytes) return x->marks[i].offset;
    }
    return x->last_offset + 1;
}

static u64 retain_bytes(const stream_index *x, u64 max_bytes) {
    for (u32 i = 0; i < x->count; i++) {
        if (x->last_bytes_end - x->marks[i].bytes_before <= max_bytes) return i == 0 ? 0 : x->marks[i].offset;
    }
    return last_mark(x)->offset; // what is behind the last mark stays, if more than allowed
}

// The clock may have been wrong at any time. A time in the future says nothing; the first one that is too young
// ends the search, so that a wrong old time in the middle takes nothing young with it.
static u64 retain_age(const stream_index *x, u64 oldest_ms, u64 now_ms) {
    u64 offset = 0;
    for (u32 i = 1; i < x->count; i++) {
        u64 time_ms = x->marks[i].time_ms;
        if (time_ms > now_ms) continue;
        if (time_ms > oldest_ms) return offset;
        offset = x->marks[i].offset; // all before it are older than the bound
    }
    return x->last_time_ms <= oldest_ms ? x->last_offset + 1 : offset;
}

static u64 age_anew(u64 time_ms, u64 now_ms, bool forward) {
    return forward ? MAX(time_ms, now_ms) : MIN(time_ms, now_ms);
}

void stream_index_ages_anew(stream_index *x, u64 now_ms, bool forward) {
    for (u32 i = 0; i < x->count; i++) x->marks[i].time_ms = age_anew(x->marks[i].time_ms, now_ms, forward);
    if (x->last_offset != 0) x->last_time_ms = age_anew(x->last_time_ms, now_ms, forward);
}

u64 stream_index_retain(const stream_index *x, u64 max_bytes, u64 max_age_ms, u64 now_ms) {
    u64 by_bytes = 0, by_age = 0;
    if (x->count == 0) return 0;
    if (max_bytes != 0) by_bytes = retain_bytes(x, max_bytes);
    if (max_age_ms != 0 && now_ms > max_age_ms) by_age = retain_age(x, now_ms - max_age_ms, now_ms);
    return MAX(by_bytes, by_age);
}

void stream_index_trim(stream_index *x, u64 offset) {
    u32 gone = marks_up_to(x, offset);
    bool all = offset > x->last_offset;
    if (gone > 0 && !all) gone--; // that one is at or before the oldest message
    if (gone == 0) return;
    x->count -= gone;
    memmove(x->marks, x->marks + gone, x->count * sizeof(*x->marks));
    if (x->sparse > 0 && x->count < LIMIT_STREAM_MARKS / 4) x->sparse--;
}
