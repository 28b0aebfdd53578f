// SPDX-License-Identifier: Apache-2.0
// update_fat.c: see update_fat.h.
#include "init/update_fat.h"

#include <errno.h>
#include <string.h>

#define ENTRY_BYTES 32u
#define NAME_BYTES 11u
#define ATTR_VOLUME 0x08u
#define ATTR_DIRECTORY 0x10u
#define CLUSTER_FIRST 2u
#define CLUSTER_END 0xfff8u
#define FAT16_CLUSTERS_MIN 4085u
#define FAT16_CLUSTERS_MAX 65524u
#define DIRECTORY_ENTRIES_MAX 4096u

// FAT is little-endian.
static u32 le16(const u8 *p) {
    return (u32)(p[0] | p[1] << 8);
}

static u32 le32(const u8 *p) {
    return le16(p) | le16(p + 2) << 16;
}

int fat_open(fat_volume *v, fat_read read, void *context) {
    u8 boot[512];
    int err = read(context, 0, boot, sizeof(boot));
    if (err < 0) return err;
    *v = (fat_volume){.read = read, .context = context, .sector_bytes = le16(boot + 11)};
    u32 per_cluster = boot[13], reserved = le16(boot + 14), fats = boot[16], fat_sectors = le16(boot + 22);
    u32 total = le16(boot + 19) != 0 ? le16(boot + 19) : le32(boot + 32);
    v->root_entries = le16(boot + 17);
    if (boot[510] != 0x55 || boot[511] != 0xaa) return -EINVAL;
    if (!IS_POWER_OF_TWO(v->sector_bytes) || v->sector_bytes < 512 || v->sector_bytes > 4096) return -EINVAL;
    if (!IS_POWER_OF_TWO(per_cluster) || reserved == 0 || fats == 0 || fat_sectors == 0) return -EINVAL;
    if (v->root_entries == 0) return -EINVAL; // FAT32
    u32 root_sectors = (v->root_entries * ENTRY_BYTES + v->sector_bytes - 1) / v->sector_bytes;
    u64 before = (u64)reserved + (u64)fats * fat_sectors + root_sectors;
    if (before >= total) return -EINVAL;
    v->cluster_bytes = per_cluster * v->sector_bytes;
    v->cluster_count = (u32)((total - before) / per_cluster);
    if (v->cluster_count < FAT16_CLUSTERS_MIN || v->cluster_count > FAT16_CLUSTERS_MAX) return -EINVAL;
    if ((u64)(v->cluster_count + CLUSTER_FIRST) * 2 > (u64)fat_sectors * v->sector_bytes) return -EINVAL;
    v->fat_offset = (u64)reserved * v->sector_bytes;
    v->root_offset = v->fat_offset + (u64)fats * fat_sectors * v->sector_bytes;
    v->data_offset = before * v->sector_bytes;
    return 0;
}

static bool cluster_is_valid(const fat_volume *v, u32 cluster) {
    return cluster >= CLUSTER_FIRST && cluster < v->cluster_count + CLUSTER_FIRST;
}

static u64 cluster_offset(const fat_volume *v, u32 cluster) {
    return v->data_offset + (u64)(cluster - CLUSTER_FIRST) * v->cluster_bytes;
}

static int cluster_next(const fat_volume *v, u32 cluster, u32 *next) {
    u8 entry[2];
    int err = v->read(v->context, v->fat_offset + (u64)cluster * 2, entry, sizeof(entry));
    *next = le16(entry);
    return err;
}

// One entry: 1 = the one wanted, 0 = another, -ENOENT = the directory ends here.
static int entry_match(const u8 *entry, const char *name, bool directory) {
    if (entry[0] == 0) return -ENOENT;
    if ((entry[11] & ATTR_VOLUME) != 0) return 0; // the label, or a part of a long name
    bool is_directory = (entry[11] & ATTR_DIRECTORY) != 0;
    return is_directory == directory && memcmp(entry, name, NAME_BYTES) == 0 ? 1 : 0;
}

// Looks through bytes of a directory at offset. Returns like entry_match.
static int scan(const fat_volume *v, u64 offset, u32 bytes, const char *name, bool directory, u8 *entry) {
    for (u32 at = 0; at + ENTRY_BYTES <= bytes; at += ENTRY_BYTES) {
        int err = v->read(v->context, offset + at, entry, ENTRY_BYTES);
        if (err < 0) return err;
        int found = entry_match(entry, name, directory);
        if (found != 0) return found;
    }
    return 0;
}

static int find_in_root(const fat_volume *v, const char *name, bool directory, u8 *entry) {
    int found = scan(v, v->root_offset, v->root_entries * ENTRY_BYTES, name, directory, entry);
    return found == 0 ? -ENOENT : found;
}

static int find_in_chain(const fat_volume *v, u32 cluster, const char *name, u8 *entry) {
    for (u32 seen = 0; seen < DIRECTORY_ENTRIES_MAX; seen += v->cluster_bytes / ENTRY_BYTES) {
        if (!cluster_is_valid(v, cluster)) return cluster >= CLUSTER_END ? -ENOENT : -EUCLEAN;
        int found = scan(v, cluster_offset(v, cluster), v->cluster_bytes, name, false, entry);
        if (found != 0) return found;
        int err = cluster_next(v, cluster, &cluster);
        if (err < 0) return err;
    }
    return -EUCLEAN;
}

static int extents_collect(const fat_volume *v, u32 cluster, fat_file *out) {
    u64 covered = 0;
    out->extent_count = 0;
    while (covered < out->size) {
        if (!cluster_is_valid(v, cluster)) return -EUCLEAN;
        fat_extent *last = out->extent_count == 0 ? NULL : &out->extents[out->extent_count - 1];
        u64 offset = cluster_offset(v, cluster);
        if (last != NULL && last->offset + last->bytes == offset) {
            last->bytes += v->cluster_bytes;
        } else {
            if (out->extent_count == LIMIT_UPDATE_EXTENTS) return -EFBIG;
            out->extents[out->extent_count++] = (fat_extent){offset, v->cluster_bytes};
        }
        covered += v->cluster_bytes;
        if (covered > (u64)v->cluster_count * v->cluster_bytes) return -EUCLEAN; // a loop
        int err = cluster_next(v, cluster, &cluster);
        if (err < 0) return err;
    }
    return 0;
}

int fat_find(const fat_volume *v, const char *directory, const char *name, fat_file *out) {
    u8 entry[ENTRY_BYTES];
    int found = find_in_root(v, directory, true, entry);
    if (found < 0) return found;
    found = find_in_chain(v, le16(entry + 26), name, entry);
    if (found < 0) return found;
    out->size = le32(entry + 28);
    if (out->size > (u64)v->cluster_count * v->cluster_bytes) return -EUCLEAN;
    return extents_collect(v, le16(entry + 26), out);
}
