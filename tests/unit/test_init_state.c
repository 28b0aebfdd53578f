// SPDX-License-Identifier: Apache-2.0
// The state record: values, both slots, and every way in which a power cut or a bad card can leave it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init/crc.h"
#include "init/state_slot.h"

#define DEVICE_BYTES (STATE_SLOT_STRIDE + STATE_SLOT_BYTES)

static char path[64];

static int make_device(void **state) {
    (void)state;
    snprintf(path, sizeof(path), "/tmp/sluice-state-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, DEVICE_BYTES), 0);
    close(fd);
    return 0;
}

static int remove_device(void **state) {
    (void)state;
    state_on_dirty(NULL);
    state_close();
    unlink(path);
    return 0;
}

static state_health reopen(void) {
    const char *why;
    return state_open(path, &why);
}

static void device_read(u8 *image) {
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, image, DEVICE_BYTES, 0), DEVICE_BYTES);
    close(fd);
}

static void device_write(const u8 *image) {
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, image, DEVICE_BYTES, 0), DEVICE_BYTES);
    close(fd);
}

static void test_crc(void **state) {
    (void)state;
    assert_int_equal(init_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(init_crc32("123456789", 9), 0xcbf43926u);
    assert_int_equal(init_crc32("", 0), 0);
}

static void test_values(void **state) {
    char out[8];
    (void)state;
    assert_int_equal(reopen(), STATE_EMPTY);
    assert_int_equal(state_get("name", out, sizeof(out)), -ENOENT);
    assert_int_equal(state_put("name", "value", 5), 0);
    assert_true(state_is_dirty());
    assert_int_equal(state_flush(), 0);
    assert_int_equal(state_writes(), 1);
    assert_int_equal(state_put("name", "value", 5), 0);
    assert_false(state_is_dirty()); // the same again costs no write
    assert_int_equal(state_put_u64("count", 41), 0);
    assert_int_equal(state_put_u64("count", 42), 0);
    assert_int_equal(state_put("empty", "", 0), 0);
    assert_int_equal(state_flush(), 0);
    assert_int_equal(reopen(), STATE_OK);
    assert_int_equal(state_generation(), 2);
    assert_int_equal(state_get("name", out, 3), 5);
    assert_memory_equal(out, "val", 3);
    assert_int_equal(state_get("empty", NULL, 0), 0);
    assert_int_equal(state_get_u64("count", 7), 42);
    assert_int_equal(state_get_u64("name", 7), 7);
    assert_int_equal(state_get_u64("nothing", 7), 7);
    assert_int_equal(state_delete("name"), 0);
    assert_int_equal(state_delete("name"), 0);
    assert_int_equal(state_flush(), 0);
    assert_int_equal(reopen(), STATE_OK);
    assert_int_equal(state_get("name", out, sizeof(out)), -ENOENT);
}

static void test_bounds(void **state) {
    static u8 big[STATE_VALUE_BYTES_MAX + 1];
    char name[40];
    (void)state;
    reopen();
    assert_int_equal(state_put("", "x", 1), -EINVAL);
    assert_int_equal(state_put("name-that-is-longer-than-31-bytes", "x", 1), -EINVAL);
    assert_int_equal(state_put("big", big, sizeof(big)), -EINVAL);
    int full = 0;
    for (int i = 0; i < 20 && full == 0; i++) {
        snprintf(name, sizeof(name), "big%d", i);
        full = state_put(name, big, STATE_VALUE_BYTES_MAX);
    }
    assert_int_equal(full, -ENOSPC);
    assert_int_equal(state_flush(), 0);
    assert_int_equal(reopen(), STATE_OK);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "big%d", i);
        state_delete(name);
    }
    for (u32 i = 0; i < LIMIT_STATE_ENTRIES; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(state_put(name, "", 0), 0);
    }
    assert_int_equal(state_put("one-more", "", 0), -ENOSPC);
}

// A power cut after any number of bytes of a write leaves the old values or the new ones.
static void test_torn_at_every_byte(void **state) {
    static u8 before[DEVICE_BYTES], after[DEVICE_BYTES], cut[DEVICE_BYTES];
    (void)state;
    reopen();
    for (u64 i = 1; i <= 3; i++) { // both slots are in use
        state_put_u64("count", i);
        assert_int_equal(state_flush(), 0);
    }
    device_read(before);
    state_put_u64("count", 4);
    state_put("other", "something longer than a number", 30);
    assert_int_equal(state_flush(), 0);
    device_read(after);
    size_t first = 0, last = 0;
    for (size_t i = 0; i < DEVICE_BYTES; i++) {
        if (before[i] == after[i]) continue;
        if (first == 0) first = i;
        last = i;
    }
    assert_true(first >= STATE_SLOT_STRIDE); // only the older slot was written
    for (size_t at = STATE_SLOT_STRIDE; at <= last + 1; at++) {
        memcpy(cut, before, DEVICE_BYTES);
        memcpy(cut + STATE_SLOT_STRIDE, after + STATE_SLOT_STRIDE, at - STATE_SLOT_STRIDE);
        device_write(cut);
        state_health health = reopen();
        u64 count = state_get_u64("count", 0);
        if (memcmp(cut, after, DEVICE_BYTES) == 0) assert_int_equal(count, 4);
        else assert_true(count == 3 || count == 4);
        assert_true(health == STATE_OK || (health == STATE_RECOVERED && count == 3));
        // And the next write repairs it, without touching the slot that is good.
        if (at % 97 != 0) continue;
        state_put_u64("count", count + 10);
        assert_int_equal(state_flush(), 0);
        assert_int_equal(reopen(), STATE_OK);
        assert_int_equal(state_get_u64("count", 0), count + 10);
    }
}

static void test_bits_flipped(void **state) {
    static u8 image[DEVICE_BYTES];
    (void)state;
    reopen();
    for (u64 i = 1; i <= 2; i++) {
        state_put_u64("count", i);
        state_flush();
    }
    device_read(image);
    for (u32 bit = 0; bit < 8 * 64; bit++) {
        image[bit / 8] ^= (u8)(1u << bit % 8); // the slot with generation 1
        device_write(image);
        state_health health = reopen();
        assert_int_equal(state_get_u64("count", 0), 2);
        assert_true(health == STATE_RECOVERED || health == STATE_OK);
        image[bit / 8] ^= (u8)(1u << bit % 8);
    }
    memset(image + 40, 0x55, 4);
    memset(image + STATE_SLOT_STRIDE + 40, 0x55, 4);
    device_write(image);
    assert_int_equal(reopen(), STATE_LOST);
    assert_int_equal(state_get_u64("count", 0), 0);
    state_put_u64("count", 9);
    assert_int_equal(state_flush(), 0);
    assert_int_equal(reopen(), STATE_RECOVERED); // the other slot is still the damaged one
    assert_int_equal(state_get_u64("count", 0), 9);
}

// A checksum that is right over lengths that are wrong: another program's bytes, or a bug of ours.
static void test_hostile_entries(void **state) {
    static u8 slot[STATE_SLOT_BYTES];
    static state_table table;
    (void)state;
    for (u32 lie = 0; lie < 4; lie++) {
        state_table good = {.generation = 1, .count = 1};
        strcpy(good.entries[0].name, "name");
        good.entries[0].len = 4;
        state_slot_write(&good, slot);
        u8 *entry = slot + STATE_HEADER_BYTES;
        if (lie == 0) entry[0] = 0;
        if (lie == 1) entry[0] = 200;
        if (lie == 2) entry[2] = 0xff;
        if (lie == 3) entry[1] = 5;
        u32 bytes = state_slot_bytes(&good);
        memset(slot + 24, 0, 4);
        u32 crc = init_crc32c(slot, bytes);
        memcpy(slot + 24, &crc, 4);
        assert_int_equal(state_slot_read(slot, &table), SLOT_DAMAGED);
    }
    memset(slot, 0xff, sizeof(slot));
    assert_int_equal(state_slot_read(slot, &table), SLOT_BLANK);
}

static void test_no_device(void **state) {
    const char *why;
    (void)state;
    assert_int_equal(state_open(NULL, &why), STATE_NO_DEVICE);
    assert_non_null(why);
    assert_int_equal(state_put_u64("count", 5), 0);
    assert_int_equal(state_get_u64("count", 0), 5);
    assert_int_equal(state_flush(), -ENODEV);
    assert_false(state_is_dirty());
    assert_int_equal(state_open("/nowhere/at/all", &why), STATE_NO_DEVICE);
    assert_string_equal(why, "ENOENT");
}

// A device that is full at once stands for one that fails: the values stay in memory, the write is owed.
static void test_write_fails(void **state) {
    const char *why;
    (void)state;
    state_open("/dev/full", &why);
    state_put_u64("count", 5);
    assert_true(state_flush() < 0);
    assert_int_equal(state_health_get(), STATE_FAILED);
    assert_true(state_is_dirty());
    assert_int_equal(state_get_u64("count", 0), 5);
}

static u32 dirty_calls;

static void count_dirty(void) {
    dirty_calls++;
}

static void test_dirty_callback(void **state) {
    (void)state;
    reopen();
    state_on_dirty(count_dirty);
    dirty_calls = 0;
    state_put_u64("a", 1);
    state_put_u64("a", 1);
    state_delete("b");
    state_delete("a");
    assert_int_equal(dirty_calls, 2);
}

#define DEVICE_TEST(f) cmocka_unit_test_setup_teardown(f, make_device, remove_device)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        DEVICE_TEST(test_values),
        DEVICE_TEST(test_bounds),
        DEVICE_TEST(test_torn_at_every_byte),
        DEVICE_TEST(test_bits_flipped),
        cmocka_unit_test(test_hostile_entries),
        DEVICE_TEST(test_no_device),
        DEVICE_TEST(test_write_fails),
        DEVICE_TEST(test_dirty_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
