// SPDX-License-Identifier: Apache-2.0
// window.c: see window.h. A ring; a place is its index.
#include "uplink/window.h"

#include <errno.h>
#include <stdlib.h>

int window_init(window *w, u32 size) {
    ASSERT(size > 0 && size <= WINDOW_MAX);
    *w = (window){.entries = calloc(size, sizeof(*w->entries)), .size = size};
    return w->entries == NULL ? -ENOMEM : 0;
}

void window_free(window *w) {
    free(w->entries);
    *w = (window){0};
}

u32 window_next_place(const window *w) {
    return (w->first + w->count) % w->size;
}

void window_push(window *w, const window_entry *entry) {
    ASSERT(!window_is_full(w));
    window_entry *to = &w->entries[window_next_place(w)];
    *to = *entry;
    to->done = false;
    w->count++;
}

bool window_ack(window *w, u32 place) {
    if (place >= w->size) return false;
    u32 behind = place >= w->first ? place - w->first : place + w->size - w->first;
    if (behind >= w->count || w->entries[place].done) return false;
    w->entries[place].done = true;
    return true;
}

bool window_find_subject(const window *w, u64 subject, u32 *place) {
    for (u32 i = 0; i < w->count; i++) {
        *place = (w->first + i) % w->size;
        if (w->entries[*place].subject == subject && !w->entries[*place].done) return true;
    }
    return false;
}

bool window_pop(window *w, window_entry *out) {
    if (w->count == 0 || !w->entries[w->first].done) return false;
    *out = w->entries[w->first];
    w->first = (w->first + 1) % w->size;
    w->count--;
    return true;
}

bool window_has(const window *w, u64 pos) {
    for (u32 i = 0; i < w->count; i++) {
        if (w->entries[(w->first + i) % w->size].pos == pos) return true;
    }
    return false;
}
