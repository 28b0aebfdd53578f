// SPDX-License-Identifier: Apache-2.0
// ctl_table.h: tables on a terminal: columns as wide as they need to be, numbers to the right. Bytes of a cell
// that could drive a terminal are shown as '?'.
#ifndef SLUICE_OPS_CTL_TABLE_H
#define SLUICE_OPS_CTL_TABLE_H

#include "base/base.h"

#define CTL_TABLE_COLUMNS 16u

typedef struct ctl_table {
    const char *const *heads;  // column names; one that starts with '>' is aligned to the right
    u32 columns;
    char **cells;
    u32 count, size;
} ctl_table;

// heads must outlive the table.
void ctl_table_begin(ctl_table *t, const char *const *heads, u32 columns);
// The next cell, row by row. Exits with the usual message when memory is short.
void ctl_table_cell(ctl_table *t, const char *format, ...) PRINTF_LIKE(2, 3);
// Prints with the given indent and frees it.
void ctl_table_end(ctl_table *t, u32 indent);

// "1.2M", "980"; "3m12s", "250ms". Return out.
#define CTL_UNIT_BYTES 24
const char *ctl_bytes(u64 bytes, char out[CTL_UNIT_BYTES]);
const char *ctl_duration(double seconds, char out[CTL_UNIT_BYTES]);
// Replaces control characters by '?', in place.
void ctl_clean(char *string);

#endif
