// SPDX-License-Identifier: Apache-2.0
// state_slot.h: one slot of the state record as bytes; no I/O. All integers little-endian.
//   0  "SLUICEST"      8  u32 format (1)      12  u32 bytes of entries
//  16  u64 generation  24  u32 CRC32C of the header (this field 0) and the entries   28  u32 0
//  32  entries: u8 length of name, u16 length of value, name, value
// A slot with an entry that the reader does not know is kept as it is: an older system may run again.
#ifndef SLUICE_INIT_STATE_SLOT_H
#define SLUICE_INIT_STATE_SLOT_H

#include "init/state.h"

#define STATE_HEADER_BYTES 32u

typedef struct state_entry {
    char name[STATE_NAME_BYTES_MAX + 1];
    u16 len;
    u8 value[STATE_VALUE_BYTES_MAX];
} state_entry;

typedef struct state_table {
    u64 generation;
    u32 count;
    state_entry entries[LIMIT_STATE_ENTRIES];
} state_table;

typedef enum slot_verdict { SLOT_GOOD, SLOT_BLANK, SLOT_DAMAGED } slot_verdict;

// Reads a slot of STATE_SLOT_BYTES. out is written only when good.
slot_verdict state_slot_read(const u8 *slot, state_table *out);
// Writes all STATE_SLOT_BYTES. The table must fit (state_slot_bytes).
void state_slot_write(const state_table *table, u8 *slot);
// Bytes that the table takes in a slot, header included.
u32 state_slot_bytes(const state_table *table);

#endif
