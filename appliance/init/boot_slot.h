// SPDX-License-Identifier: Apache-2.0
// boot_slot.h: how this system was started: from which slot, by which loader, as a trial or not. The loader
// (image/grub.cfg) says so on the kernel's command line. Pure but for init_cmdline_get.
#ifndef SLUICE_INIT_BOOT_SLOT_H
#define SLUICE_INIT_BOOT_SLOT_H

#include "base/base.h"

typedef struct boot_slot {
    char slot;      // 'a', 'b', or 0: not from an image's slot
    bool can_fall_back; // the loader counts trials
    bool trial;     // the first and only start of a new system
    bool fallback;  // the slot that was meant could not be loaded
} boot_slot;

void boot_slot_read(boot_slot *out);

#endif
