// SPDX-License-Identifier: Apache-2.0
// test_init_update.c: the header, the FAT reader, the loader's environment, and the writer of updates; the writer on
// a disk that loses power after each of its operations in turn, with what was not flushed arriving in part.
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <string.h>

#include <cmocka.h>

#include "update_rig.h"

static rig *r;
static rig_update *u;
static update_keys keys;
static u8 old_image[100000], new_image[150001];

static int setup(void **state) {
    (void)state;
    u8 sk[32];
    r = calloc(1, sizeof(*r));
    u = calloc(1, sizeof(*u));
    keys.count = 1;
    rig_key(1, sk, keys.points[0]);
    for (u32 i = 0; i < sizeof(old_image); i++) old_image[i] = (u8)(i * 7 + 1);
    for (u32 i = 0; i < sizeof(new_image); i++) new_image[i] = (u8)(i * 13 + (i >> 8) + 5);
    return r == NULL || u == NULL;
}

static int teardown(void **state) {
    (void)state;
    free(r);
    free(u);
    return 0;
}

static void fresh(void) {
    update_env env = {.slot = 'a'};
    rig_make(r, old_image, sizeof(old_image), &env);
    rig_update_make(u, new_image, sizeof(new_image));
}

static int run_as(char running, char *error, update_header *header) {
    update_disk disk = rig_disk(r);
    update_source source = {.read = rig_source_read, .context = u};
    update_job job = rig_job(&disk, &source, &keys);
    job.running = running;
    int err = update_write(&job);
    if (error != NULL) strcpy(error, job.error);
    if (header != NULL) *header = job.header;
    return err;
}

static bool slot_holds(char slot, const u8 *image, size_t len) {
    update_disk disk = rig_disk(r);
    update_esp esp;
    const char *why;
    u8 *content = malloc(len);
    bool same = update_esp_find(&disk, &esp, &why) == 0 &&
                update_file_read(&disk, &esp.slots[slot - 'a'], 0, content, len) == 0 &&
                memcmp(content, image, len) == 0;
    free(content);
    return same;
}

static update_env environment(void) {
    update_disk disk = rig_disk(r);
    update_esp esp;
    update_env env;
    const char *why;
    assert_int_equal(update_esp_find(&disk, &esp, &why), 0);
    assert_int_equal(update_esp_env_read(&disk, &esp, &env), 0);
    return env;
}

static void test_header(void **state) {
    (void)state;
    update_header h;
    fresh();
    assert_int_equal(update_header_read(u->bytes, &keys, &h), UPDATE_FINE);
    assert_int_equal(h.arch, UPDATE_ARCH_X86_64);
    assert_true(h.version == 2ull << 48 && h.build_s == 1000 && h.image_bytes == sizeof(new_image));
    assert_string_equal(h.version_text, "9.8.7-test");
    // No bit of it may be changed.
    for (u32 bit = 0; bit < UPDATE_HEADER_BYTES * 8; bit += 37) {
        u->bytes[bit / 8] ^= (u8)(1u << (bit % 8));
        update_verdict v = update_header_read(u->bytes, &keys, &h);
        assert_int_not_equal(v, UPDATE_FINE);
        u->bytes[bit / 8] ^= (u8)(1u << (bit % 8));
    }
    rig_sign(u->bytes, 2);
    assert_int_equal(update_header_read(u->bytes, &keys, &h), UPDATE_UNKNOWN_KEY);
    keys.count = 0;
    assert_int_equal(update_header_read(u->bytes, &keys, &h), UPDATE_NO_KEY);
    keys.count = 1;
    u->bytes[9] = 2;
    assert_int_equal(update_header_read(u->bytes, &keys, &h), UPDATE_OTHER_FORMAT);
}

// Signed, but not sensible.
static void test_header_malformed(void **state) {
    (void)state;
    static const struct {
        u32 at;
        u8 value;
    } changes[] = {{11, 1}, {15, 1}, {36, 1}, {37, 0x81}, {72, ' '}, {73, '"'}, {90, 'x'}, {144, 1}, {447, 9}};
    update_header h;
    for (u32 i = 0; i < ARRAY_LEN(changes); i++) {
        fresh();
        u->bytes[changes[i].at] = changes[i].value;
        rig_sign(u->bytes, 1);
        assert_int_equal(update_header_read(u->bytes, &keys, &h), UPDATE_MALFORMED);
    }
    fresh();
    memset(u->bytes + 32, 0, 8); // an empty image
    rig_sign(u->bytes, 1);
    assert_int_equal(update_header_read(u->bytes, &keys, &h), UPDATE_MALFORMED);
}

static void test_fits(void **state) {
    (void)state;
    update_header h = {.arch = 1, .version = 5, .build_s = 100};
    assert_int_equal(update_header_fits(&h, 1, 5, 100, false), UPDATE_FINE);
    assert_int_equal(update_header_fits(&h, 1, 4, 900, false), UPDATE_FINE);
    assert_int_equal(update_header_fits(&h, 1, 5, 101, false), UPDATE_OLDER);
    assert_int_equal(update_header_fits(&h, 1, 6, 0, false), UPDATE_OLDER);
    assert_int_equal(update_header_fits(&h, 1, 6, 0, true), UPDATE_FINE);
    assert_int_equal(update_header_fits(&h, 2, 1, 0, true), UPDATE_OTHER_ARCH);
    assert_true(update_version_number("1.2.3") == (1ull << 48 | 2ull << 32 | 3ull << 16));
    assert_true(update_version_number("0.1.0-dev") == 1ull << 32);
    assert_true(update_version_number("1.2") == 0 && update_version_number("x") == 0);
    assert_true(update_version_number("1.70000.1") == 0);
    assert_true(update_own_version() != 0);
}

static void test_keys(void **state) {
    (void)state;
    char text[2000], hex[131];
    update_keys k;
    for (u32 i = 0; i < UPDATE_KEY_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", keys.points[0][i]);
    int len = snprintf(text, sizeof(text), "# first\n%s\r\n\n%s", hex, hex);
    assert_int_equal(update_keys_read(text, (size_t)len, &k), 0);
    assert_int_equal(k.count, 2);
    assert_memory_equal(k.points[1], keys.points[0], UPDATE_KEY_BYTES);
    assert_int_equal(update_keys_read("", 0, &k), 0);
    assert_int_equal(k.count, 0);
    assert_int_equal(update_keys_read(text + 9, 130, &k), -EINVAL);
    len = snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%s\n", hex, hex, hex, hex, hex);
    assert_int_equal(update_keys_read(text, (size_t)len, &k), -EINVAL);
}

static void test_env(void **state) {
    (void)state;
    u8 block[UPDATE_ENV_BYTES];
    update_env env = {'b', 'a', true}, back;
    update_env_write(&env, true, block);
    assert_int_equal(update_env_read(block, &back), 0);
    assert_true(back.slot == 'b' && back.try_slot == 'a' && back.tried);
    update_env_write(&env, false, block);
    assert_int_equal(update_env_read(block, &back), 0);
    assert_true(back.slot == 'b' && back.try_slot == 0 && !back.tried);
    memset(block + 25, '#', sizeof(block) - 25);
    assert_int_equal(update_env_read(block, &back), -EINVAL);
    block[0] = 'x';
    assert_int_equal(update_env_read(block, &back), -EINVAL);
}

static void test_update(void **state) {
    (void)state;
    char error[256];
    update_header h;
    fresh();
    u8 before[RIG_DATA];
    memcpy(before, r->bytes, sizeof(before));
    assert_int_equal(run_as('a', error, &h), 0);
    assert_string_equal(error, "");
    assert_true(slot_holds('a', old_image, sizeof(old_image)));
    assert_true(slot_holds('b', new_image, sizeof(new_image)));
    update_env env = environment();
    assert_true(env.slot == 'a' && env.try_slot == 'b' && !env.tried);
    assert_memory_equal(before, r->bytes, sizeof(before)); // neither the FATs nor the root directory
    assert_memory_equal(r->bytes, r->medium, RIG_BYTES);   // all of it flushed
    // And from b back into a, whatever the environment still says.
    rig_update_make(u, new_image, 4097);
    assert_int_equal(run_as('b', error, &h), 0);
    env = environment();
    assert_true(env.slot == 'b' && env.try_slot == 'a');
    assert_true(slot_holds('a', new_image, 4097));
}

static void expect_refused(const char *text, bool slot_untouched) {
    char error[256];
    assert_true(run_as('a', error, NULL) < 0);
    assert_non_null(strstr(error, text));
    update_env env = environment();
    assert_true(env.slot == 'a' && env.try_slot == 0);
    assert_true(slot_holds('a', old_image, sizeof(old_image)));
    assert_int_equal(slot_holds('b', old_image, sizeof(old_image)), slot_untouched);
}

static void test_refused(void **state) {
    (void)state;
    fresh();
    u->bytes[500] ^= 1;
    expect_refused("signature is wrong", true);
    fresh();
    rig_header(u->bytes, UPDATE_ARCH_AARCH64, 2ull << 48, new_image, sizeof(new_image));
    rig_sign(u->bytes, 1);
    expect_refused("another architecture", true);
    fresh();
    rig_header(u->bytes, UPDATE_ARCH_X86_64, 1ull << 40, new_image, sizeof(new_image));
    rig_sign(u->bytes, 1);
    expect_refused("older", true);
    fresh();
    u->len = 300;
    expect_refused("ended early", true);
    fresh();
    u->len -= 70000;
    expect_refused("ended early", false);
    fresh();
    u->bytes[70000] ^= 4;
    expect_refused("damaged on its way", false);
    fresh();
    u->len++;
    expect_refused("longer than its header says", false);
    fresh();
    rig_put(u->bytes + 32, RIG_SLOT_BYTES + 1, 8);
    rig_sign(u->bytes, 1);
    expect_refused("needs 196609", true);
}

static void test_bad_medium(void **state) {
    (void)state;
    fresh();
    assert_int_equal(run_as('a', NULL, NULL), 0);
    u32 writes = r->writes; // the last is the environment's, the one before it the slot's first block
    fresh();
    r->bad_write = 3;
    expect_refused("did not keep what was written", false);
    fresh();
    r->bad_write = writes - 1;
    expect_refused("did not keep the slot's first block", false);
    fresh();
    r->bad_write = writes;
    expect_refused("the trial could not be written", false);
}

// What the loader would start, by the rules of image/grub.cfg, and that it is whole.
static void check_bootable(u32 cut) {
    update_env env = environment();
    char slot = env.try_slot != 0 && !env.tried ? env.try_slot : env.slot;
    bool is_old = slot_holds(slot, old_image, sizeof(old_image));
    bool is_new = slot_holds(slot, new_image, sizeof(new_image));
    if (!is_old && !is_new) fail_msg("cut after %u operations: slot %c is neither", cut, slot);
    // And when the trial fails, the old one is there.
    if (!slot_holds(env.slot, old_image, sizeof(old_image))) fail_msg("cut after %u: no old system", cut);
}

static void test_power_cuts(void **state) {
    (void)state;
    u32 cut = 1, tried = 0;
    for (;; cut++) {
        for (u32 seed = 0; seed < 3; seed++) {
            fresh();
            r->random = cut * 1000 + seed;
            r->cut_after = cut;
            int err = run_as('a', NULL, NULL);
            bool was_cut = r->off;
            rig_sync(r);
            check_bootable(cut);
            if (!was_cut) {
                assert_int_equal(err, 0);
                assert_true(tried > 10);
                return;
            }
            tried++;
            // The update is simply done again, and the system that is there takes it.
            u->at = 0;
            assert_int_equal(run_as('a', NULL, NULL), 0);
            assert_true(slot_holds('b', new_image, sizeof(new_image)));
        }
    }
}

// Confirming the trial, with the power cut at each operation.
static void test_confirm_power_cuts(void **state) {
    (void)state;
    update_env wanted = {.slot = 'b'};
    for (u32 cut = 1;; cut++) {
        update_env env = {.slot = 'a', .try_slot = 'b', .tried = true};
        rig_make(r, old_image, sizeof(old_image), &env);
        r->random = cut;
        r->cut_after = cut;
        update_disk disk = rig_disk(r);
        update_esp esp;
        const char *why;
        assert_int_equal(update_esp_find(&disk, &esp, &why), 0);
        int err = update_esp_env_write(&disk, &esp, &wanted);
        bool was_cut = r->off;
        rig_sync(r);
        env = environment();
        assert_true(env.slot == 'a' || env.slot == 'b');
        if (!was_cut) {
            assert_int_equal(err, 0);
            assert_true(env.slot == 'b' && env.try_slot == 0);
            // The copy agrees.
            memset(r->bytes + esp.bootenv.extents[0].offset, 0, UPDATE_ENV_BYTES);
            assert_true(environment().slot == 'b');
            return;
        }
    }
}

static void test_damaged_file_system(void **state) {
    (void)state;
    update_esp esp;
    const char *why;
    fresh();
    update_disk disk = rig_disk(r);
    assert_int_equal(update_esp_find(&disk, &esp, &why), 0);
    assert_int_equal(esp.slots[0].extent_count, 1);
    assert_true(esp.slots[1].extent_count > 3);
    u8 *entry = r->bytes + RIG_SECTOR + ((esp.slots[0].extents[0].offset - RIG_DATA) / RIG_CLUSTER + 2 + 5) * 2;
    u8 keep[2] = {entry[0], entry[1]};
    rig_put16(entry, 4); // a loop, or another file's
    assert_true(update_esp_find(&disk, &esp, &why) < 0 || esp.slots[0].extent_count > 1);
    rig_put16(entry, 0); // a hole
    assert_int_equal(update_esp_find(&disk, &esp, &why), -EUCLEAN);
    rig_put16(entry, 0xffff); // too short
    assert_int_equal(update_esp_find(&disk, &esp, &why), -EUCLEAN);
    assert_string_equal(why, "/sluice/a.efi");
    memcpy(entry, keep, 2);
    assert_int_equal(update_esp_find(&disk, &esp, &why), 0);
    r->bytes[510] = 0;
    assert_int_equal(update_esp_find(&disk, &esp, &why), -EINVAL);
}

// The same through a file: alignment, a base within it, and what is on it afterwards.
static void test_real_disk(void **state) {
    (void)state;
    fresh();
    char path[] = "update-disk-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    u64 base = 8192, size = align_up_u64(base + RIG_BYTES, UPDATE_DISK_BLOCK);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, r->bytes, RIG_BYTES, (off_t)base), RIG_BYTES);
    update_disk disk;
    assert_int_equal(update_disk_open(path, base, true, &disk), 0);
    update_source source = {.read = rig_source_read, .context = u};
    update_job job = rig_job(&disk, &source, &keys);
    assert_int_equal(update_write(&job), 0);
    update_disk_close(&disk);
    assert_int_equal(pread(fd, r->bytes, RIG_BYTES, (off_t)base), RIG_BYTES);
    assert_true(slot_holds('b', new_image, sizeof(new_image)));
    assert_int_equal(environment().try_slot, 'b');
    close(fd);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_header_malformed),
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_medium),
        cmocka_unit_test(test_power_cuts),
        cmocka_unit_test(test_confirm_power_cuts),
        cmocka_unit_test(test_damaged_file_system),
        cmocka_unit_test(test_real_disk),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
