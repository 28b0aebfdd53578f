// SPDX-License-Identifier: Apache-2.0
// state.h: the state record: a few small named values that survive a power cut at any instant, on a raw
// partition (`sluice-state`) without a file system. Two slots of STATE_SLOT_BYTES; a write goes to the
// slot that is not the current one, with the next generation and a CRC32C over all of it, past the page
// cache (O_DIRECT), and is flushed before it counts. So one slot is always whole.
//
// Values live in memory; state_put changes them there and a write follows LIMIT_STATE_DELAY_MS later,
// so that several changes cost one write of the flash. state_flush writes at once: for what must be
// on disk before the next step (an update's flag, a used seed).
// Without a device, or with one that fails, everything works in RAM and state_health says so.
//
// Names in use: machine_id, saved_time, seed, boot.* (init.c), lease.<nic>, config.*, update.*
// Not thread-safe: init's loop only.
#ifndef SLUICE_INIT_STATE_H
#define SLUICE_INIT_STATE_H

#include "base/base.h"
#include "limits.h"

#define STATE_SLOT_BYTES 8192u     // a slot with its header
#define STATE_SLOTS 2u
#define STATE_SLOT_STRIDE 65536u   // distance of the slots: in different erase blocks of most cards
#define STATE_NAME_BYTES_MAX 31u
#define STATE_VALUE_BYTES_MAX 1024u

typedef enum state_health {
    STATE_OK,         // both slots good, or one and a fresh device
    STATE_EMPTY,      // a device that was never written
    STATE_RECOVERED,  // one slot damaged or torn; the other was used
    STATE_LOST,       // both damaged: started empty
    STATE_NO_DEVICE,  // RAM only
    STATE_FAILED,     // a write failed: RAM from there on; tried again at the next write
    STATE_HEALTHS
} state_health;

// Reads the record. path: the block device, or a file in tests; NULL = none. Never fails: what is wrong is
// state_health_get's, and *why (static or NULL) is for the log.
state_health state_open(const char *path, const char **why);
void state_close(void);

// Copies at most size bytes to out and returns the value's length (also when it is longer than size),
// or -ENOENT. out may be NULL with size 0.
int state_get(const char *name, void *out, size_t size);
// Returns 0; -EINVAL for a bad name or an over-long value, -ENOSPC when the record is full: nothing has
// changed then. An equal value costs no write.
int state_put(const char *name, const void *value, size_t len);
int state_delete(const char *name); // 0 also when there was none
// Numbers, stored as decimal text. missing: what state_get_u64 returns when there is none or it is no number.
u64 state_get_u64(const char *name, u64 missing);
int state_put_u64(const char *name, u64 value);

// Writes what has changed and waits for the disk; nothing to do when nothing has. 0 or -errno.
int state_flush(void);
bool state_is_dirty(void);
// Called after each change that makes the record dirty; init.c arms the delayed write with it.
void state_on_dirty(void (*callback)(void));

state_health state_health_get(void);
const char *state_health_name(state_health h); // "ok", "empty", ...
u64 state_generation(void);
u64 state_writes(void);                         // since state_open

#endif
