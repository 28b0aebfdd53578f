// SPDX-License-Identifier: Apache-2.0
// cmdline.h: the kernel's command line, split into words. Double quotes keep spaces together, as the kernel
// has it; the last of several equal keys wins. init_cmdline_get is in control.h.
#ifndef SLUICE_INIT_CMDLINE_H
#define SLUICE_INIT_CMDLINE_H

#include "base/base.h"

// Takes a line in place of /proc/cmdline: tests, and runs that are not PID 1.
void init_cmdline_set(const char *line);
// Reads /proc/cmdline once; 0 or -errno.
int init_cmdline_read(void);
// Calls f for each key and value ("" for a bare word) in order.
void init_cmdline_each(void (*f)(void *context, const char *key, const char *value), void *context);

#endif
