// SPDX-License-Identifier: Apache-2.0
// state_slot.c: see state_slot.h. What is read comes from a disk that may hold anything: nothing is used
// before the checksum agreed, and lengths are bounded even then.
#include "init/state_slot.h"

#include <endian.h>
#include <string.h>

#include "init/crc.h"

#define FORMAT 1u
#define ENTRY_HEAD_BYTES 3u

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'S', 'T'};

typedef struct slot_header {
    char magic[8];
    u32 format, bytes;
    u64 generation;
    u32 crc, zero;
} slot_header;
_Static_assert(sizeof(slot_header) == STATE_HEADER_BYTES, "on disk");

static u32 slot_crc(const u8 *slot, u32 bytes) {
    u8 copy[STATE_SLOT_BYTES];
    memcpy(copy, slot, bytes);
    memset(copy + offsetof(slot_header, crc), 0, sizeof(u32));
    return init_crc32c(copy, bytes);
}

// Flash that was erased reads as zeros or as ones.
static bool slot_is_blank(const u8 *slot) {
    if (slot[0] != 0 && slot[0] != 0xff) return false;
    return memcmp(slot, slot + 1, STATE_SLOT_BYTES - 1) == 0;
}

static bool entries_read(const u8 *at, u32 bytes, state_table *out) {
    out->count = 0;
    while (bytes > 0) {
        if (bytes < ENTRY_HEAD_BYTES || out->count == LIMIT_STATE_ENTRIES) return false;
        u32 name_len = at[0];
        u32 value_len = (u32)at[1] | (u32)at[2] << 8;
        if (name_len == 0 || name_len > STATE_NAME_BYTES_MAX || value_len > STATE_VALUE_BYTES_MAX) return false;
        u32 whole = ENTRY_HEAD_BYTES + name_len + value_len;
        if (whole > bytes) return false;
        state_entry *e = &out->entries[out->count++];
        memset(e->name, 0, sizeof(e->name));
        memcpy(e->name, at + ENTRY_HEAD_BYTES, name_len);
        memcpy(e->value, at + ENTRY_HEAD_BYTES + name_len, value_len);
        e->len = (u16)value_len;
        at += whole;
        bytes -= whole;
    }
    return true;
}

slot_verdict state_slot_read(const u8 *slot, state_table *out) {
    static state_table table;
    slot_header h;
    if (slot_is_blank(slot)) return SLOT_BLANK;
    memcpy(&h, slot, sizeof(h));
    u32 bytes = le32toh(h.bytes);
    if (memcmp(h.magic, magic, sizeof(magic)) != 0 || le32toh(h.format) != FORMAT) return SLOT_DAMAGED;
    if (bytes > STATE_SLOT_BYTES - STATE_HEADER_BYTES) return SLOT_DAMAGED;
    if (slot_crc(slot, STATE_HEADER_BYTES + bytes) != le32toh(h.crc)) return SLOT_DAMAGED;
    table.generation = le64toh(h.generation);
    if (!entries_read(slot + STATE_HEADER_BYTES, bytes, &table)) return SLOT_DAMAGED;
    *out = table;
    return SLOT_GOOD;
}

u32 state_slot_bytes(const state_table *table) {
    u32 bytes = STATE_HEADER_BYTES;
    for (u32 i = 0; i < table->count; i++) {
        bytes += ENTRY_HEAD_BYTES + (u32)strlen(table->entries[i].name) + table->entries[i].len;
    }
    return bytes;
}

void state_slot_write(const state_table *table, u8 *slot) {
    u32 bytes = state_slot_bytes(table);
    ASSERT(bytes <= STATE_SLOT_BYTES);
    memset(slot, 0, STATE_SLOT_BYTES);
    u8 *at = slot + STATE_HEADER_BYTES;
    for (u32 i = 0; i < table->count; i++) {
        const state_entry *e = &table->entries[i];
        u32 name_len = (u32)strlen(e->name);
        at[0] = (u8)name_len;
        at[1] = (u8)(e->len & 0xff);
        at[2] = (u8)(e->len >> 8);
        memcpy(at + ENTRY_HEAD_BYTES, e->name, name_len);
        memcpy(at + ENTRY_HEAD_BYTES + name_len, e->value, e->len);
        at += ENTRY_HEAD_BYTES + name_len + e->len;
    }
    slot_header h = {.format = htole32(FORMAT), .bytes = htole32(bytes - STATE_HEADER_BYTES),
                     .generation = htole64(table->generation)};
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(slot, &h, sizeof(h));
    h.crc = htole32(slot_crc(slot, bytes));
    memcpy(slot, &h, sizeof(h));
}
