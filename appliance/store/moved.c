// SPDX-License-Identifier: Apache-2.0
// moved.c: a sorted array with binary search. Insertions move what lies behind, which costs little beside the
// 64 KiB of copying that come with each.
#include "store/moved.h"

#include <stdlib.h>
#include <string.h>

void moved_free(moved_table *t) {
    free(t->entries);
    free(t->lasts);
    *t = (moved_table){0};
}

// Index of the first entry whose origin is at or above.
static u32 lower_bound(const moved_table *t, store_pos origin) {
    u32 low = 0, high = t->count;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (t->entries[middle].origin < origin) low = middle + 1;
        else high = middle;
    }
    return low;
}

const moved_entry *moved_from(const moved_table *t, store_pos origin) {
    u32 i = lower_bound(t, origin);
    return i < t->count ? &t->entries[i] : NULL;
}

const moved_entry *moved_find(const moved_table *t, store_pos origin) {
    u32 i = lower_bound(t, origin);
    if (i < t->count && t->entries[i].origin == origin) return &t->entries[i];
    return i > 0 ? &t->entries[i - 1] : NULL;
}

static bool grow(moved_table *t) {
    u32 room = t->room == 0 ? 64 : t->room * 2;
    moved_entry *entries = realloc(t->entries, sizeof(*entries) * room);
    if (entries == NULL) return false;
    t->entries = entries;
    u64 *lasts = realloc(t->lasts, sizeof(*lasts) * room);
    if (lasts == NULL) return false;
    t->lasts = lasts;
    t->room = room;
    return true;
}

static bool insert(moved_table *t, store_pos origin, store_pos to, u64 last) {
    u32 i = lower_bound(t, origin);
    if (i == t->count || t->entries[i].origin != origin) {
        if (t->count == t->room && !grow(t)) return false;
        memmove(&t->entries[i + 1], &t->entries[i], sizeof(*t->entries) * (t->count - i));
        memmove(&t->lasts[i + 1], &t->lasts[i], sizeof(*t->lasts) * (t->count - i));
        t->count++;
    }
    t->entries[i] = (moved_entry){.origin = origin, .to = to};
    t->lasts[i] = last;
    return true;
}

static void rest_remove(moved_table *t) {
    u32 i = lower_bound(t, t->rest.origin);
    if (t->rest.origin != 0 && i < t->count && t->entries[i].origin == t->rest.origin &&
        t->entries[i].to == t->rest.to) {
        memmove(&t->entries[i], &t->entries[i + 1], sizeof(*t->entries) * (t->count - i - 1));
        memmove(&t->lasts[i], &t->lasts[i + 1], sizeof(*t->lasts) * (t->count - i - 1));
        t->count--;
    }
    t->rest = (moved_entry){0};
}

void moved_rest(moved_table *t, store_pos origin, store_pos place) {
    if (origin == 0) return;
    u32 i = lower_bound(t, origin);
    if (i < t->count && t->entries[i].origin == origin) return; // its own entry leads there
    if (insert(t, origin, place, origin)) t->rest = (moved_entry){.origin = origin, .to = place};
}

bool moved_add(moved_table *t, store_pos origin, store_pos to, bool new_segment, bool foreign) {
    rest_remove(t);
    const moved_entry *found = moved_find(t, origin);
    u64 *last = found == NULL ? NULL : &t->lasts[found - t->entries];
    // A jump may lead into another segment, over one that is copied later: its entries would hide what follows.
    bool same_run = !new_segment && found != NULL && found->origin == t->run.origin && found->to == t->run.to &&
                    origin > t->last.origin && origin - t->last.origin < LIMIT_STORE_INDEX_STEP &&
                    to - found->to < LIMIT_STORE_INDEX_STEP;
    t->last = (moved_entry){.origin = origin, .to = to};
    if (same_run) {
        *last = origin;
        return true;
    }
    // Reclaim moves the run itself, and what of it has not moved yet is found by moved_rest.
    moved_entry tail = {.origin = origin + 1, .to = found == NULL ? 0 : found->to};
    u64 tail_last = found == NULL ? 0 : *last;
    const moved_entry *next = moved_from(t, tail.origin);
    bool splits = foreign && tail_last > origin && (next == NULL || next->origin > tail.origin);
    t->run = t->last;
    return insert(t, origin, to, origin) && (!splits || insert(t, tail.origin, tail.to, tail_last));
}

bool moved_restore(moved_table *t, moved_entry e) {
    return insert(t, e.origin, e.to, e.origin);
}

void moved_restore_last(moved_table *t, u64 last) {
    if (t->lasts_known < t->count) t->lasts[t->lasts_known++] = last;
}

void moved_forget_places(moved_table *t, store_pos from, store_pos to) {
    u32 kept = 0;
    for (u32 i = 0; i < t->count; i++) {
        if (t->entries[i].to >= from && t->entries[i].to < to) continue;
        t->entries[kept] = t->entries[i];
        t->lasts[kept++] = t->lasts[i];
    }
    t->count = kept;
}
