// SPDX-License-Identifier: Apache-2.0
// moved.c: a sorted array with binary search. Insertions move what lies behind, which costs little beside the
// 64 KiB of copying that come with each.
#include "store/moved.h"

#include <stdlib.h>
#include <string.h>

void moved_free(moved_table *t) {
    free(t->entries);
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

static bool insert(moved_table *t, store_pos origin, store_pos to) {
    u32 i = lower_bound(t, origin);
    if (i < t->count && t->entries[i].origin == origin) {
        t->entries[i].to = to;
        return true;
    }
    if (t->count == t->room) {
        u32 room = t->room == 0 ? 64 : t->room * 2;
        moved_entry *grown = realloc(t->entries, sizeof(*grown) * room);
        if (grown == NULL) return false;
        t->entries = grown;
        t->room = room;
    }
    memmove(&t->entries[i + 1], &t->entries[i], sizeof(*t->entries) * (t->count - i));
    t->entries[i] = (moved_entry){.origin = origin, .to = to};
    t->count++;
    return true;
}

static void rest_remove(moved_table *t) {
    u32 i = lower_bound(t, t->rest.origin);
    if (t->rest.origin != 0 && i < t->count && t->entries[i].origin == t->rest.origin &&
        t->entries[i].to == t->rest.to) {
        memmove(&t->entries[i], &t->entries[i + 1], sizeof(*t->entries) * (t->count - i - 1));
        t->count--;
    }
    t->rest = (moved_entry){0};
}

void moved_rest(moved_table *t, store_pos origin, store_pos place) {
    if (origin == 0) return;
    u32 i = lower_bound(t, origin);
    if (i < t->count && t->entries[i].origin == origin) return; // its own entry leads there
    if (insert(t, origin, place)) t->rest = (moved_entry){.origin = origin, .to = place};
}

bool moved_add(moved_table *t, store_pos origin, store_pos to, bool new_segment) {
    rest_remove(t);
    const moved_entry *found = moved_find(t, origin);
    // A jump may lead into another segment, over one that is copied later: its entries would hide what follows.
    bool same_run = !new_segment && found != NULL && found->origin == t->run.origin && found->to == t->run.to &&
                    origin > t->last.origin && origin - t->last.origin < LIMIT_STORE_INDEX_STEP &&
                    to - found->to < LIMIT_STORE_INDEX_STEP;
    t->last = (moved_entry){.origin = origin, .to = to};
    if (same_run) return true;
    t->run = t->last;
    return insert(t, origin, to);
}

void moved_forget_places(moved_table *t, store_pos from, store_pos to) {
    u32 kept = 0;
    for (u32 i = 0; i < t->count; i++) {
        if (t->entries[i].to >= from && t->entries[i].to < to) continue;
        t->entries[kept++] = t->entries[i];
    }
    t->count = kept;
}
