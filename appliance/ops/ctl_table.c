// SPDX-License-Identifier: Apache-2.0
// ctl_table.c: see ctl_table.h. A table is kept whole until its end, because widths are known only then; the lists that
// are printed this way are bounded by the API.
#include "ops/ctl_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ctl_clean(char *string) {
    for (u8 *c = (u8 *)string; *c != '\0'; c++) {
        if (*c < 0x20 || *c == 0x7f) *c = '?';
    }
}

void ctl_table_begin(ctl_table *t, const char *const *heads, u32 columns) {
    ASSERT(columns <= CTL_TABLE_COLUMNS);
    *t = (ctl_table){.heads = heads, .columns = columns};
}

void ctl_table_cell(ctl_table *t, const char *format, ...) {
    char value[512];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    ctl_clean(value);
    if (t->count == t->size) {
        t->size = MAX(t->size * 2, 256u);
        t->cells = realloc(t->cells, t->size * sizeof(*t->cells));
        if (t->cells == NULL) base_out_of_memory("table", t->size * sizeof(*t->cells));
    }
    t->cells[t->count] = strdup(value);
    if (t->cells[t->count++] == NULL) base_out_of_memory("table cell", strlen(value));
}

// Length in characters of UTF-8.
static u32 width_of(const char *s) {
    u32 n = 0;
    for (; *s != '\0'; s++) n += ((u8)*s & 0xc0) != 0x80;
    return n;
}

static const char *head_of(const ctl_table *t, u32 column, bool *right) {
    *right = t->heads[column][0] == '>';
    return t->heads[column] + (*right ? 1 : 0);
}

static void print_cell(const ctl_table *t, u32 column, const char *value, u32 width) {
    bool right, last = column + 1 == t->columns;
    head_of(t, column, &right);
    int pad = (int)(width - width_of(value));
    if (right) printf("%*s%s", pad, "", value);
    else printf("%s%*s", value, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", stdout);
}

void ctl_table_end(ctl_table *t, u32 indent) {
    u32 widths[CTL_TABLE_COLUMNS];
    bool right;
    for (u32 c = 0; c < t->columns; c++) {
        widths[c] = width_of(head_of(t, c, &right));
        for (u32 i = c; i < t->count; i += t->columns) widths[c] = MAX(widths[c], width_of(t->cells[i]));
    }
    printf("%*s", (int)indent, "");
    for (u32 c = 0; c < t->columns; c++) print_cell(t, c, head_of(t, c, &right), widths[c]);
    for (u32 i = 0; i < t->count; i++) {
        u32 c = i % t->columns;
        if (c == 0) printf("%*s", (int)indent, "");
        print_cell(t, c, t->cells[i], widths[c]);
        free(t->cells[i]);
    }
    free(t->cells);
    *t = (ctl_table){0};
}

const char *ctl_bytes(u64 bytes, char out[CTL_UNIT_BYTES]) {
    static const char units[] = "kMGTP";
    if (bytes < 1024) {
        snprintf(out, CTL_UNIT_BYTES, "%u", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes;
    u32 unit = 0;
    for (value /= 1024; value >= 1000 && unit + 1 < sizeof(units) - 1; value /= 1024) unit++;
    snprintf(out, CTL_UNIT_BYTES, value < 10 ? "%.1f%c" : "%.0f%c", value, units[unit]);
    return out;
}

const char *ctl_duration(double seconds, char out[CTL_UNIT_BYTES]) {
    u64 s = (u64)seconds;
    if (seconds < 0.001) snprintf(out, CTL_UNIT_BYTES, "%.0fus", seconds * 1e6);
    else if (seconds < 1) snprintf(out, CTL_UNIT_BYTES, "%.0fms", seconds * 1e3);
    else if (seconds < 60) snprintf(out, CTL_UNIT_BYTES, "%.1fs", seconds);
    else if (s < 3600) snprintf(out, CTL_UNIT_BYTES, "%um%02us", (unsigned)(s / 60), (unsigned)(s % 60));
    else if (s < 86400) snprintf(out, CTL_UNIT_BYTES, "%uh%02um", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
    else snprintf(out, CTL_UNIT_BYTES, "%ud%02uh", (unsigned)(s / 86400), (unsigned)(s / 3600 % 24));
    return out;
}
