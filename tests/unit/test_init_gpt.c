// SPDX-License-Identifier: Apache-2.0
// The partition table that is grown to the disk's end: on tables built here, on files with the writes cut
// anywhere, and on damaged and unusual tables.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init/crc.h"
#include "init/data_helper.h"
#include "init/gpt.h"

#define BLOCK 512u
#define ENTRIES 128u
#define IMAGE_BLOCKS 65536u // 32 MiB
#define DISK_BLOCKS 262144u // 128 MiB

typedef struct table {
    u8 header[BLOCK];
    u8 entries[GPT_ENTRIES_BYTES_MAX];
} table;

static void put32(u8 *at, u32 v) {
    v = htole32(v);
    memcpy(at, &v, 4);
}

static void put64(u8 *at, u64 v) {
    v = htole64(v);
    memcpy(at, &v, 8);
}

static u32 get32(const u8 *at) {
    u32 v;
    memcpy(&v, at, 4);
    return le32toh(v);
}

static u64 get64(const u8 *at) {
    u64 v;
    memcpy(&v, at, 8);
    return le64toh(v);
}

static void seal(table *t) {
    put32(t->header + 88, init_crc32(t->entries, ENTRIES * 128));
    put32(t->header + 16, 0);
    put32(t->header + 16, init_crc32(t->header, 92));
}

static void entry_set(table *t, u32 number, u64 first, u64 last) {
    u8 *e = t->entries + (number - 1) * 128;
    memset(e, 0x11 * (int)number, 32);
    put64(e + 32, first);
    put64(e + 40, last);
}

// Two partitions as in the image: a fixed one and the one that grows.
static void table_make(table *t, u64 first_used) {
    memset(t, 0, sizeof(*t));
    memcpy(t->header, "EFI PART", 8);
    put32(t->header + 8, 0x10000);
    put32(t->header + 12, 92);
    put64(t->header + 24, 1);
    put64(t->header + 32, IMAGE_BLOCKS - 1);
    put64(t->header + 40, 34);
    put64(t->header + 48, IMAGE_BLOCKS - 34);
    memset(t->header + 56, 0x77, 16);
    put64(t->header + 72, 2);
    put32(t->header + 80, ENTRIES);
    put32(t->header + 84, 128);
    entry_set(t, 1, first_used, 4095);
    entry_set(t, 4, 4096, IMAGE_BLOCKS - 2049);
    seal(t);
}

static gpt_plan plan;

static gpt_verdict plan_of(const table *t, u64 disk_blocks, u32 number) {
    return gpt_grow_plan(t->header, t->entries, ENTRIES * 128, disk_blocks, BLOCK, number, &plan);
}

static void header_check(const u8 *h, u64 my, u64 other, u64 entries) {
    u8 copy[BLOCK];
    memcpy(copy, h, BLOCK);
    put32(copy + 16, 0);
    assert_int_equal(init_crc32(copy, 92), get32(h + 16));
    assert_int_equal(get64(h + 24), my);
    assert_int_equal(get64(h + 32), other);
    assert_int_equal(get64(h + 72), entries);
    assert_int_equal(get64(h + 48), DISK_BLOCKS - 34);
    assert_int_equal(get32(h + 88), init_crc32(plan.entries, plan.entries_bytes));
}

static void test_grow(void **state) {
    table t;
    (void)state;
    table_make(&t, 2048);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_GROW);
    assert_int_equal(plan.first_lba, 4096);
    assert_int_equal((plan.last_lba + 1) % 2048, 0);
    assert_in_range(plan.last_lba, DISK_BLOCKS - 34 - 2048, DISK_BLOCKS - 34);
    assert_int_equal(plan.primary_entries_lba, 34); // beside the old ones
    header_check(plan.primary_header, 1, DISK_BLOCKS - 1, 34);
    header_check(plan.backup_header, DISK_BLOCKS - 1, 1, DISK_BLOCKS - 33);
    assert_int_equal(get64(plan.primary_header + 40), 66); // behind the table
    // Nothing but the end of the partition has changed.
    put64(t.entries + 3 * 128 + 40, plan.last_lba);
    assert_memory_equal(plan.entries, t.entries, sizeof(t.entries));
    // And once it is grown there is nothing to gain; a still larger disk goes back to the first place.
    memcpy(t.header, plan.primary_header, BLOCK);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_FULL);
    assert_int_equal(plan_of(&t, DISK_BLOCKS * 2, 4), GPT_GROW);
    assert_int_equal(plan.primary_entries_lba, 2);
}

static void test_refused(void **state) {
    table t;
    (void)state;
    table_make(&t, 2048);
    assert_int_equal(plan_of(&t, IMAGE_BLOCKS, 4), GPT_FULL);
    assert_int_equal(plan_of(&t, 10, 4), GPT_FULL); // smaller than the image
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 1), GPT_NOT_LAST);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 2), GPT_UNUSUAL);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 0), GPT_UNUSUAL);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 129), GPT_UNUSUAL);
    table_make(&t, 40);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_NO_ROOM);
    table_make(&t, 2048);
    put32(t.header + 84, 256);
    seal(&t);
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_UNUSUAL);
    for (u32 i = 0; i < 92; i++) {
        table_make(&t, 2048);
        t.header[i] ^= 0x40;
        assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_DAMAGED);
    }
    table_make(&t, 2048);
    t.entries[300] ^= 1;
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_DAMAGED);
}

static void file_put(int fd, const void *data, size_t len, u64 at) {
    assert_int_equal(pwrite(fd, data, len, (off_t)at), (ssize_t)len);
}

// What the kernel would make of the disk: the end of partition 4 by a primary table that checks, 0 = no table.
static u64 kernel_sees(int fd) {
    table t;
    assert_int_equal(pread(fd, t.header, BLOCK, BLOCK), BLOCK);
    u64 lba;
    u32 bytes;
    if (!gpt_entries(t.header, &lba, &bytes)) return 0;
    assert_int_equal(pread(fd, t.entries, bytes, (off_t)(lba * BLOCK)), (ssize_t)bytes);
    if (init_crc32(t.entries, bytes) != get32(t.header + 88)) return 0;
    return get64(t.entries + 3 * 128 + 40);
}

static void test_file_and_cuts(void **state) {
    char path[] = "/tmp/sluice-gpt-XXXXXX";
    table t;
    u64 first, blocks, old_end = IMAGE_BLOCKS - 2049;
    u32 block_bytes;
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(ftruncate(fd, (off_t)DISK_BLOCKS * BLOCK), 0);
    table_make(&t, 2048);
    file_put(fd, t.header, BLOCK, BLOCK);
    file_put(fd, t.entries, sizeof(t.entries), 2 * BLOCK);
    // The writes one after another, by hand, cut after each: the kernel sees the old table or the new one.
    assert_int_equal(plan_of(&t, DISK_BLOCKS, 4), GPT_GROW);
    file_put(fd, plan.entries, plan.entries_bytes, plan.backup_entries_lba * BLOCK);
    file_put(fd, plan.backup_header, BLOCK, plan.backup_header_lba * BLOCK);
    assert_int_equal(kernel_sees(fd), old_end);
    for (u32 i = 0; i < 32; i++) {
        file_put(fd, plan.entries + i * BLOCK, BLOCK, (plan.primary_entries_lba + i) * BLOCK);
        assert_int_equal(kernel_sees(fd), old_end);
    }
    // The next boot after such a cut does it all again.
    assert_int_equal(data_table_grow(path, 4, &first, &blocks, &block_bytes), 1);
    assert_int_equal(first, 4096);
    assert_int_equal(block_bytes, 512);
    assert_int_equal(kernel_sees(fd), first + blocks - 1);
    assert_int_equal(data_table_grow(path, 4, &first, &blocks, &block_bytes), 0);
    assert_int_equal(data_table_grow("/nowhere/at/all", 4, &first, &blocks, &block_bytes), -ENOENT);
    close(fd);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_file_and_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
