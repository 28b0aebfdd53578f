// SPDX-License-Identifier: Apache-2.0
// identity.h: who this machine is (a random id, made once and kept in the state record) and what makes its
// random numbers good early (the seed).
//
// The id is random, not derived from the hardware: DMI and device-tree UUIDs are often absent, all zeros, or
// equal on whole batches and on clones. The hardware's UUID, when it is plausible, is kept beside the id:
// when it differs at a later boot the disk was copied to another machine, and a new id is made, so
// that clones do not share one. Without a state record the id is derived from a plausible hardware UUID
// (so that it stays the same over reboots), else it is random for this boot.
#ifndef SLUICE_INIT_IDENTITY_H
#define SLUICE_INIT_IDENTITY_H

#include "base/base.h"

#define MACHINE_ID_BYTES 16u
#define SEED_BYTES 32u

typedef enum identity_origin {
    IDENTITY_KEPT,
    IDENTITY_NEW,
    IDENTITY_CLONE,
    IDENTITY_HARDWARE,
    IDENTITY_RAM,
} identity_origin;

// Decides the id; hardware_uuid: 16 bytes, NULL = none plausible. Writes the state record. Sets the host
// name when `real`.
identity_origin identity_decide(const u8 *hardware_uuid, bool real);
// The plausible hardware UUID of this machine: false when there is none.
bool identity_hardware_uuid(u8 out[MACHINE_ID_BYTES]);
// text: 32 hexadecimal digits with or without dashes. False for placeholders: all equal bytes, the
// well-known 03000200-0400-0500-..., and what is no UUID.
bool identity_uuid_parse(const char *text, u8 out[MACHINE_ID_BYTES]);
const char *identity_origin_name(identity_origin origin);

// Gives the saved seed to the kernel and writes a new one at once, so that a seed is never used twice: the
// new one is on disk before the old one is credited. It is credited only when the new one was made
// by a generator that was ready, and the record could be flushed. Then the same at shutdown, by seed_save.
void seed_load(void);
void seed_save(void);

#endif
