// SPDX-License-Identifier: Apache-2.0
// update_env.h: the boot loader's environment: one sector of text, in GRUB's format, that says which slot is
// started (image/grub.cfg). One sector, so that a write of it is done or not done. Pure.
//
//   slot   the slot that has proved itself
//   try    the slot with a system that has not, or none
//   tried  that slot was started once
#ifndef SLUICE_INIT_UPDATE_ENV_H
#define SLUICE_INIT_UPDATE_ENV_H

#include "base/base.h"

#define UPDATE_ENV_BYTES 512u

typedef struct update_env {
    char slot;  // 'a' or 'b'
    char try_slot; // 'a', 'b' or 0
    bool tried;
} update_env;

// Reads a block. 0; -EINVAL: no such block, or slot is neither a nor b. What else is in it is ignored, an
// impossible try counts as none: the loader sees it the same way.
int update_env_read(const u8 *block, update_env *out);
// Makes the block of UPDATE_ENV_BYTES. with_try: bootenv; without: bootgood, which has slot only.
void update_env_write(const update_env *env, bool with_try, u8 *block);
static inline bool update_slot_is_valid(char slot) {
    return slot == 'a' || slot == 'b';
}
static inline char update_slot_other(char slot) {
    return slot == 'a' ? 'b' : 'a';
}

#endif
