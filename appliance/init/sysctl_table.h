// SPDX-License-Identifier: Apache-2.0
// sysctl_table.h: the kernel settings of the appliance, one table, each with its reason; what depends on
// the machine is computed from its memory. docs/network.md shows the same table.
#ifndef SLUICE_INIT_SYSCTL_TABLE_H
#define SLUICE_INIT_SYSCTL_TABLE_H

#include "base/base.h"

#define SYSCTL_VALUE_BYTES 64u

typedef struct sysctl_row {
    const char *name;             // below /proc/sys
    char value[SYSCTL_VALUE_BYTES];
    const char *why;
} sysctl_row;

#define SYSCTL_ROWS_MAX 40u
// Pure: the rows for a machine with so much memory. Returns how many.
u32 sysctl_plan(u64 ram_bytes, sysctl_row out[SYSCTL_ROWS_MAX]);

// SYSCTL_COMMAND_LINE: the kernel's command line has `sysctl.NAME=...`, which the kernel has put into force before
// PID 1 ran: the operator's word stands.
typedef enum sysctl_result { SYSCTL_SET, SYSCTL_ABSENT, SYSCTL_FAILED, SYSCTL_COMMAND_LINE } sysctl_result;
// Pure: whether a word of the command line sets this row. The kernel takes '.' and '/' alike (fs/proc/proc_sysctl.c).
bool sysctl_word_names(const char *word, const char *name);
// Writes all of them; what the command line sets is left alone, what this kernel does not have is skipped, what
// it refuses is logged.
void sysctl_apply(void);
// The rows as applied, for the request "net".
u32 sysctl_applied(const sysctl_row **rows, const sysctl_result **results);

#endif
