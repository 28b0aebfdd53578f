// SPDX-License-Identifier: Apache-2.0
// gpt.c: see gpt.h. Nothing of the disk is trusted before its checksums agree.
#include "init/gpt.h"

#include <endian.h>
#include <string.h>

#include "init/crc.h"

typedef struct gpt_header {
    char signature[8];
    u32 revision, header_bytes, header_crc, reserved;
    u64 my_lba, other_lba, first_usable_lba, last_usable_lba;
    u8 disk_guid[16];
    u64 entries_lba;
    u32 entry_count, entry_bytes, entries_crc;
} __attribute__((packed)) gpt_header;
_Static_assert(sizeof(gpt_header) == 92, "UEFI specification, table 5-5");

typedef struct gpt_entry {
    u8 type[16], guid[16];
    u64 first_lba, last_lba, attributes;
    u16 name[36];
} __attribute__((packed)) gpt_entry;
_Static_assert(sizeof(gpt_entry) == 128, "UEFI specification, table 5-6");

#define PRIMARY_LBA 1u
#define ALIGN_BYTES (1u << 20) // the partition's end stays on a whole MiB: flash pages, and file system blocks

static const char *const verdict_names[] = {
    [GPT_GROW] = "grow", [GPT_FULL] = "full", [GPT_DAMAGED] = "damaged", [GPT_NOT_LAST] = "not the last partition",
    [GPT_UNUSUAL] = "unusual layout", [GPT_NO_ROOM] = "no room for a second table",
};

const char *gpt_verdict_name(gpt_verdict v) {
    ASSERT(v < ARRAY_LEN(verdict_names));
    return verdict_names[v];
}

static u32 header_crc(const gpt_header *h) {
    gpt_header copy = *h;
    copy.header_crc = 0;
    return init_crc32(&copy, sizeof(copy));
}

static bool header_is_good(const gpt_header *h) {
    return memcmp(h->signature, "EFI PART", 8) == 0 && le32toh(h->header_bytes) == sizeof(gpt_header) &&
           le32toh(h->header_crc) == header_crc(h);
}

bool gpt_entries(const u8 *header, u64 *lba, u32 *bytes) {
    gpt_header h;
    memcpy(&h, header, sizeof(h));
    if (!header_is_good(&h) || le32toh(h.entry_bytes) != sizeof(gpt_entry)) return false;
    u32 count = le32toh(h.entry_count);
    if (count == 0 || count > GPT_ENTRIES_BYTES_MAX / sizeof(gpt_entry)) return false;
    *lba = le64toh(h.entries_lba);
    *bytes = count * (u32)sizeof(gpt_entry);
    return true;
}

static bool entry_is_used(const gpt_entry *e) {
    static const u8 none[16];
    return memcmp(e->type, none, sizeof(none)) != 0;
}

// The first block that a partition uses, and whether one lies behind `from`.
static u64 first_used_lba(const gpt_entry *entries, u32 count) {
    u64 first = UINT64_MAX;
    for (u32 i = 0; i < count; i++) {
        if (entry_is_used(&entries[i])) first = MIN(first, le64toh(entries[i].first_lba));
    }
    return first;
}

static bool any_behind(const gpt_entry *entries, u32 count, u32 index) {
    u64 start = le64toh(entries[index].first_lba);
    for (u32 i = 0; i < count; i++) {
        if (i != index && entry_is_used(&entries[i]) && le64toh(entries[i].last_lba) > start) return true;
    }
    return false;
}

// A place for `blocks` blocks of entries other than the present one, before the first partition. 0 = none.
static u64 other_place(u64 present, u64 blocks, u64 first_used) {
    u64 places[] = {PRIMARY_LBA + 1, PRIMARY_LBA + 1 + blocks};
    for (u32 i = 0; i < ARRAY_LEN(places); i++) {
        bool overlaps = places[i] < present + blocks && present < places[i] + blocks;
        if (!overlaps && places[i] + blocks <= first_used) return places[i];
    }
    return 0;
}

static void headers_write(gpt_plan *out, gpt_header h, u64 last_usable, u32 entries_crc) {
    u64 blocks = out->backup_header_lba - out->backup_entries_lba;
    h.first_usable_lba = htole64(MAX(le64toh(h.first_usable_lba), out->primary_entries_lba + blocks));
    h.entries_crc = htole32(entries_crc);
    h.last_usable_lba = htole64(last_usable);
    h.my_lba = htole64(PRIMARY_LBA);
    h.other_lba = htole64(out->backup_header_lba);
    h.entries_lba = htole64(out->primary_entries_lba);
    h.header_crc = htole32(header_crc(&h));
    memcpy(out->primary_header, &h, sizeof(h));
    h.my_lba = htole64(out->backup_header_lba);
    h.other_lba = htole64(PRIMARY_LBA);
    h.entries_lba = htole64(out->backup_entries_lba);
    h.header_crc = htole32(header_crc(&h));
    memcpy(out->backup_header, &h, sizeof(h));
}

gpt_verdict gpt_grow_plan(const u8 *header, const u8 *entries, u32 entries_bytes, u64 disk_blocks, u32 block_bytes,
                          u32 number, gpt_plan *out) {
    gpt_header h;
    u64 entries_lba;
    u32 bytes;
    memcpy(&h, header, sizeof(h));
    if (!header_is_good(&h)) return GPT_DAMAGED;
    if (!gpt_entries(header, &entries_lba, &bytes) || bytes != entries_bytes) return GPT_UNUSUAL;
    if (init_crc32(entries, entries_bytes) != le32toh(h.entries_crc)) return GPT_DAMAGED;
    memset(out, 0, sizeof(*out));
    memcpy(out->entries, entries, entries_bytes);
    out->entries_bytes = entries_bytes;
    gpt_entry *list = (gpt_entry *)(void *)out->entries;
    u32 count = entries_bytes / (u32)sizeof(gpt_entry);
    if (number == 0 || number > count || !entry_is_used(&list[number - 1])) return GPT_UNUSUAL;
    gpt_entry *e = &list[number - 1];
    if (any_behind(list, count, number - 1)) return GPT_NOT_LAST;
    u64 blocks = (entries_bytes + block_bytes - 1) / block_bytes;
    if (disk_blocks < le64toh(e->last_lba) + blocks + 2) return GPT_FULL;
    u64 last_usable = disk_blocks - blocks - 2;
    u64 align = ALIGN_BYTES / block_bytes;
    u64 end = (last_usable + 1) / align * align; // one behind the last block
    out->first_lba = le64toh(e->first_lba);
    if (end <= le64toh(e->last_lba) + align) return GPT_FULL;
    out->last_lba = end - 1;
    out->backup_header_lba = disk_blocks - 1;
    out->backup_entries_lba = disk_blocks - 1 - blocks;
    out->primary_entries_lba = other_place(entries_lba, blocks, first_used_lba(list, count));
    if (out->primary_entries_lba == 0) return GPT_NO_ROOM;
    e->last_lba = htole64(out->last_lba);
    headers_write(out, h, last_usable, init_crc32(out->entries, entries_bytes));
    return GPT_GROW;
}
