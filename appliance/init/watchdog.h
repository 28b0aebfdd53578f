// SPDX-License-Identifier: Apache-2.0
// watchdog.h: the hardware watchdog. Opened first thing at boot; fed from the main loop, four times within
// its timeout, and only while `may_feed` agrees; so a loop that hangs, a gateway that stands still and can
// not be restarted, and a shutdown that does not end all lead to a reset. It is never closed in the way
// that stops it. Without a device everything works the same, unguarded, and the request says so.
#ifndef SLUICE_INIT_WATCHDOG_H
#define SLUICE_INIT_WATCHDOG_H

#include <yyjson.h>

#include "base/base.h"

// Which device: hardware before the kernel's software one, which does not outlive a kernel that hangs.
void watchdog_find(char *out, size_t size);
// Opens it and sets the timeout (seconds; what the device makes of it is taken). Returns
// the timeout in force, or -errno (-ENOENT: there is none).
int watchdog_open(const char *path, u32 timeout_s);
// Feeds now and then by a timer, as long as may_feed() returns true.
void watchdog_start(bool (*may_feed)(void));
// Feeds now, under the same condition: between the steps of the start, before the loop runs.
void watchdog_turn(void);
// The last feed: from now on the machine has budget_s to go down by itself.
void watchdog_shutdown(u32 budget_s);
const char *watchdog_identity(void); // "" without a device
void watchdog_describe(yyjson_mut_doc *doc, yyjson_mut_val *to);

#endif
