// SPDX-License-Identifier: Apache-2.0
// trace_names.c: see trace_names.h. Linear probing, at most half full; keys are small numbers given by us, so a
// multiplicative mix suffices.
#include "ops/trace_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 256u

void trace_names_free(trace_names *t) {
    free(t->table);
    *t = (trace_names){0};
}

static u32 place_of(const trace_names *t, u32 from, u32 slot, u32 generation) {
    u64 h = ((u64)slot << 32 | (u64)generation << 8 | from) * 0x9e3779b97f4a7c15ull;
    u32 i = (u32)(h >> 32) & (t->size - 1);
    while (t->table[i].used && (t->table[i].worker != from || t->table[i].slot != slot ||
                                t->table[i].generation != generation)) {
        i = (i + 1) & (t->size - 1);
    }
    return i;
}

const trace_name *trace_names_find(const trace_names *t, u32 from, u32 slot, u32 generation) {
    if (t->size == 0) return NULL;
    const trace_name *n = &t->table[place_of(t, from, slot, generation)];
    return n->used ? n : NULL;
}

// Makes room for one more.
static bool grow(trace_names *t) {
    if (t->size > 0 && t->count < t->size / 2) return true;
    if (t->size >= LIMIT_OPS_TRACE_CONNS * 2) {
        memset(t->table, 0, t->size * sizeof(*t->table));
        t->count = 0;
        return true;
    }
    trace_names bigger = {.size = t->size == 0 ? FIRST_SIZE : t->size * 2};
    bigger.table = calloc(bigger.size, sizeof(*bigger.table));
    if (bigger.table == NULL) return false;
    for (u32 i = 0; i < t->size; i++) {
        const trace_name *n = &t->table[i];
        if (!n->used) continue;
        bigger.table[place_of(&bigger, n->worker, n->slot, n->generation)] = *n;
        bigger.count++;
    }
    free(t->table);
    *t = bigger;
    return true;
}

static trace_name *put(trace_names *t, u32 from, u32 slot, u32 generation) {
    if (!grow(t)) return NULL;
    trace_name *n = &t->table[place_of(t, from, slot, generation)];
    if (!n->used) t->count++;
    *n = (trace_name){.worker = from, .slot = slot, .generation = generation, .used = true};
    return n;
}

bool trace_names_put(trace_names *t, u32 from, u32 slot, u32 generation, u64 id, const char *peer) {
    trace_name *n = put(t, from, slot, generation);
    if (n == NULL) return false;
    n->known = true;
    n->id = id;
    snprintf(n->peer, sizeof(n->peer), "%s", peer);
    return true;
}

bool trace_names_put_unknown(trace_names *t, u32 from, u32 slot, u32 generation) {
    return put(t, from, slot, generation) != NULL;
}
