// SPDX-License-Identifier: Apache-2.0
// describe.h: what init tells of itself: the requests "appliance" (everything in one object), "clock",
// "log", "pstore", "requests", and "restart" and "poweroff", which act.
#ifndef SLUICE_INIT_DESCRIBE_H
#define SLUICE_INIT_DESCRIBE_H

#include "base/base.h"

void describe_register(void);
// How the last boot ended, as it was recorded; len 0 = unknown.
void describe_last_end(const char *text, u32 len);

#endif
