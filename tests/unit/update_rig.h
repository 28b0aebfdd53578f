// SPDX-License-Identifier: Apache-2.0
// update_rig.h: an ESP in memory on a disk that can lose power, keys, and update files, for the tests of
// updates and their fuzz target. The file system is laid out here by hand: FAT16, slot a in one piece,
// slot b in pieces.
#ifndef SLUICE_TESTS_UPDATE_RIG_H
#define SLUICE_TESTS_UPDATE_RIG_H

#include <bearssl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init/update_write.h"

#define RIG_SECTOR 512u
#define RIG_CLUSTERS 4200u
#define RIG_FAT_SECTORS 17u
#define RIG_ROOT_ENTRIES 64u
#define RIG_DATA ((1 + 2 * RIG_FAT_SECTORS + RIG_ROOT_ENTRIES * 32 / RIG_SECTOR) * RIG_SECTOR)
#define RIG_BYTES (RIG_DATA + RIG_CLUSTERS * 2 * RIG_SECTOR)
#define RIG_CLUSTER (2 * RIG_SECTOR)
#define RIG_SLOT_BYTES (192u << 10)

typedef struct rig {
    u8 bytes[RIG_BYTES];   // what is read: the disk with its cache
    u8 medium[RIG_BYTES];  // what survives a power cut
    bool dirty[RIG_BYTES / RIG_SECTOR];
    u32 writes, flushes;   // so far
    u32 cut_after;         // operations until the power goes; 0 = never
    u32 bad_write;         // this write does not arrive, and says nothing; 0 = none
    bool off;
    u64 random;
} rig;

static inline u32 rig_random(rig *r) {
    r->random = r->random * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)(r->random >> 33);
}

static inline int rig_read(void *context, u64 offset, void *out, size_t len) {
    rig *r = context;
    if (r->off || offset + len > RIG_BYTES) return -EIO;
    memcpy(out, r->bytes + offset, len);
    return 0;
}

// The power goes in the middle of an operation: each sector that was not flushed has arrived or not.
static inline void rig_cut(rig *r) {
    for (u32 i = 0; i < ARRAY_LEN(r->dirty); i++) {
        if (r->dirty[i] && (rig_random(r) & 1)) {
            memcpy(r->medium + i * RIG_SECTOR, r->bytes + i * RIG_SECTOR, RIG_SECTOR);
        }
        r->dirty[i] = false;
    }
    memcpy(r->bytes, r->medium, RIG_BYTES);
    r->off = true;
}

static inline int rig_write(void *context, u64 offset, const void *data, size_t len) {
    rig *r = context;
    if (r->off || offset + len > RIG_BYTES || offset % RIG_SECTOR != 0 || len % RIG_SECTOR != 0) return -EIO;
    if (++r->writes != r->bad_write) memcpy(r->bytes + offset, data, len);
    for (u64 at = offset; at < offset + len; at += RIG_SECTOR) r->dirty[at / RIG_SECTOR] = true;
    if (r->writes + r->flushes == r->cut_after) rig_cut(r);
    return r->off ? -EIO : 0;
}

static inline int rig_flush(void *context) {
    rig *r = context;
    if (r->off) return -EIO;
    r->flushes++;
    if (r->writes + r->flushes == r->cut_after) rig_cut(r);
    if (r->off) return -EIO;
    for (u32 i = 0; i < ARRAY_LEN(r->dirty); i++) {
        if (r->dirty[i]) memcpy(r->medium + i * RIG_SECTOR, r->bytes + i * RIG_SECTOR, RIG_SECTOR);
        r->dirty[i] = false;
    }
    return 0;
}

static inline update_disk rig_disk(rig *r) {
    return (update_disk){rig_read, rig_write, rig_flush, r};
}

// --- the file system ---

static void rig_put16(u8 *p, u32 v) {
    p[0] = (u8)v;
    p[1] = (u8)(v >> 8);
}

static u8 *rig_cluster(rig *r, u32 cluster) {
    return r->bytes + RIG_DATA + (cluster - 2) * RIG_CLUSTER;
}

static void rig_link(rig *r, u32 cluster, u32 next) {
    rig_put16(r->bytes + RIG_SECTOR + cluster * 2, next);
    rig_put16(r->bytes + (1 + RIG_FAT_SECTORS) * RIG_SECTOR + cluster * 2, next);
}

static void rig_entry(u8 *entry, const char *name, u8 attributes, u32 cluster, u32 size) {
    memcpy(entry, name, 11);
    entry[11] = attributes;
    rig_put16(entry + 26, cluster);
    rig_put16(entry + 28, size);
    rig_put16(entry + 30, size >> 16);
}

// Takes clusters from *next on, every stride-th after each piece of run clusters.
static u32 rig_chain(rig *r, u32 *next, u32 bytes, u32 run, u32 gap) {
    u32 first = *next, count = (bytes + RIG_CLUSTER - 1) / RIG_CLUSTER, at = first;
    for (u32 i = 1; i <= count; i++) {
        u32 following = at + 1 + (i % run == 0 ? gap : 0);
        rig_link(r, at, i == count ? 0xffff : following);
        if (i < count) at = following;
    }
    *next = at + 1;
    return first;
}

static void rig_file_fill(rig *r, u32 cluster, const u8 *data, u32 len) {
    for (u32 done = 0; done < len; done += RIG_CLUSTER) {
        memcpy(rig_cluster(r, cluster), data + done, MIN(len - done, RIG_CLUSTER));
        const u8 *entry = r->bytes + RIG_SECTOR + cluster * 2;
        cluster = (u32)(entry[0] | entry[1] << 8);
    }
}

static inline void rig_sync(rig *r) {
    memcpy(r->medium, r->bytes, RIG_BYTES);
    memset(r->dirty, 0, sizeof(r->dirty));
    r->writes = r->flushes = r->cut_after = r->bad_write = 0;
    r->off = false;
}

// An ESP whose two slots hold image, with the environment env.
static void rig_make(rig *r, const u8 *image, u32 len, const update_env *env) {
    memset(r, 0, sizeof(*r));
    u8 *boot = r->bytes, block[UPDATE_ENV_BYTES];
    rig_put16(boot + 11, RIG_SECTOR);
    boot[13] = RIG_CLUSTER / RIG_SECTOR;
    rig_put16(boot + 14, 1);
    boot[16] = 2;
    rig_put16(boot + 17, RIG_ROOT_ENTRIES);
    rig_put16(boot + 19, RIG_BYTES / RIG_SECTOR);
    rig_put16(boot + 22, RIG_FAT_SECTORS);
    rig_put16(boot + 510, 0xaa55);
    u32 next = 2, directory = rig_chain(r, &next, 2 * RIG_CLUSTER, 1, 3);
    u8 *root = boot + RIG_DATA - RIG_ROOT_ENTRIES * 32, *entries = rig_cluster(r, directory);
    rig_entry(root, "SLUICE     ", 0x08, 0, 0); // the label has the directory's name
    rig_entry(root + 32, "SLUICE     ", 0x10, directory, 0);
    u32 a = rig_chain(r, &next, RIG_SLOT_BYTES, 1000, 0), b = rig_chain(r, &next, RIG_SLOT_BYTES, 31, 2);
    u32 bootenv = rig_chain(r, &next, UPDATE_ENV_BYTES, 1, 0), good = rig_chain(r, &next, UPDATE_ENV_BYTES, 1, 0);
    rig_entry(entries, "B       EFI", 0x20, b, RIG_SLOT_BYTES);
    rig_entry(entries + 32, "BOOTGOOD   ", 0x20, good, UPDATE_ENV_BYTES);
    rig_entry(entries + 64, "A       EFI", 0x20, a, RIG_SLOT_BYTES);
    rig_entry(entries + 96, "BOOTENV    ", 0x20, bootenv, UPDATE_ENV_BYTES);
    rig_file_fill(r, a, image, len);
    rig_file_fill(r, b, image, len);
    update_env_write(env, true, block);
    rig_file_fill(r, bootenv, block, sizeof(block));
    update_env_write(env, false, block);
    rig_file_fill(r, good, block, sizeof(block));
    rig_sync(r);
}

// --- update files ---

// A key pair whose private number is n in every byte.
static inline void rig_key(u8 n, u8 private_key[32], u8 point[UPDATE_KEY_BYTES]) {
    memset(private_key, n, 32);
    br_ec_private_key sk = {BR_EC_secp256r1, private_key, 32};
    br_ec_compute_pub(&br_ec_p256_m31, NULL, point, &sk);
}

typedef struct rig_update {
    u8 bytes[UPDATE_HEADER_BYTES + RIG_SLOT_BYTES + 1];
    size_t len, at;
    size_t read_max; // bytes in one read
} rig_update;

static inline void rig_put(u8 *p, u64 v, u32 bytes) {
    for (u32 i = 0; i < bytes; i++) p[i] = (u8)(v >> (8 * (bytes - 1 - i)));
}

static inline void rig_sign(u8 *header, u8 key) {
    u8 hash[32], sk[32], point[UPDATE_KEY_BYTES], id[32];
    br_sha256_context h;
    rig_key(key, sk, point);
    br_sha256_init(&h);
    br_sha256_update(&h, point, sizeof(point));
    br_sha256_out(&h, id);
    memcpy(header + 136, id, 8);
    br_sha256_init(&h);
    br_sha256_update(&h, header, 448);
    br_sha256_out(&h, hash);
    br_ec_private_key secret = {BR_EC_secp256r1, sk, 32};
    br_ecdsa_i31_sign_raw(&br_ec_p256_m31, &br_sha256_vtable, hash, &secret, header + 448);
}

// Header of the image, unsigned.
static inline void rig_header(u8 *header, u16 arch, u64 version, const u8 *image, size_t len) {
    memset(header, 0, UPDATE_HEADER_BYTES);
    memcpy(header, "SLUICEUP", 8);
    rig_put(header + 8, 1, 2);
    rig_put(header + 10, UPDATE_HEADER_BYTES, 2);
    rig_put(header + 12, arch, 2);
    rig_put(header + 16, version, 8);
    rig_put(header + 24, 1000, 8);
    rig_put(header + 32, len, 8);
    br_sha256_context h;
    br_sha256_init(&h);
    br_sha256_update(&h, image, len);
    br_sha256_out(&h, header + 40);
    memcpy(header + 72, "9.8.7-test", 10);
}

static inline void rig_update_make(rig_update *u, const u8 *image, size_t len) {
    rig_header(u->bytes, UPDATE_ARCH_X86_64, 2ull << 48, image, len);
    rig_sign(u->bytes, 1);
    memcpy(u->bytes + UPDATE_HEADER_BYTES, image, len);
    u->len = UPDATE_HEADER_BYTES + len;
    u->at = 0;
    u->read_max = 10000;
}

static inline ssize_t rig_source_read(void *context, void *out, size_t len) {
    rig_update *u = context;
    size_t n = MIN(MIN(len, u->len - u->at), u->read_max);
    memcpy(out, u->bytes + u->at, n);
    u->at += n;
    return (ssize_t)n;
}

static inline update_job rig_job(update_disk *disk, update_source *source, const update_keys *keys) {
    return (update_job){.disk = disk, .source = source, .keys = keys, .running = 'a',
                        .arch = UPDATE_ARCH_X86_64, .version = 1ull << 48, .build_s = 1000};
}

#endif
