// SPDX-License-Identifier: Apache-2.0
// trace_names.h: which connection a flight recorder event belongs to: (worker, slot, generation) -> id and peer.
// Recorders know slots only; the names come from walks over the connections. A trace owns its table.
//
// An entry may also say "looked for and not found", so that one unknown slot costs one walk. When the table is
// full it is emptied: names are found again by later walks.
#ifndef SLUICE_OPS_TRACE_NAMES_H
#define SLUICE_OPS_TRACE_NAMES_H

#include "ops/conn_view.h"

typedef struct trace_name {
    u32 worker, slot, generation;
    bool used, known;
    u64 id;
    char peer[CONN_PEER_TEXT]; // "" = not known
} trace_name;

typedef struct trace_names {
    trace_name *table; // open addressing, a power of two
    u32 size, count;
} trace_names;

void trace_names_free(trace_names *t);
// NULL when nothing is known about it.
const trace_name *trace_names_find(const trace_names *t, u32 from, u32 slot, u32 generation);
// Adds or replaces. peer may be "". False: out of memory.
bool trace_names_put(trace_names *t, u32 from, u32 slot, u32 generation, u64 id, const char *peer);
// Notes that it was looked for and not found.
bool trace_names_put_unknown(trace_names *t, u32 from, u32 slot, u32 generation);

#endif
