// SPDX-License-Identifier: Apache-2.0
// boot_slot.c: see boot_slot.h.
#include "init/boot_slot.h"

#include <string.h>

#include "init/control.h"
#include "init/update_env.h"

static bool flag(const char *key) {
    const char *value = init_cmdline_get(key);
    return value != NULL && strcmp(value, "1") == 0;
}

void boot_slot_read(boot_slot *out) {
    const char *slot = init_cmdline_get("sluice.slot"), *loader = init_cmdline_get("sluice.loader");
    *out = (boot_slot){0};
    if (slot == NULL || strlen(slot) != 1 || !update_slot_is_valid(slot[0])) return;
    out->slot = slot[0];
    out->can_fall_back = loader != NULL && strcmp(loader, "grub") == 0;
    out->trial = out->can_fall_back && flag("sluice.try");
    out->fallback = out->can_fall_back && flag("sluice.fallback");
}
