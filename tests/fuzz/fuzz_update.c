// SPDX-License-Identifier: Apache-2.0
// fuzz_update.c: what an update reads from others: the header (also signed, so that what lies behind the
// signature is reached), the keys, the loader's environment, and the FAT file system of the ESP.
//
// Checked: what is accepted is sensible, and the pieces of a file lie on the disk and cover its size.
#include "../unit/update_rig.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static rig r;
static u8 image[3000];

static void check_header(const u8 *data, size_t size, bool sign) {
    u8 bytes[UPDATE_HEADER_BYTES], sk[32];
    update_keys keys = {.count = 1};
    update_header h;
    rig_key(1, sk, keys.points[0]);
    rig_header(bytes, UPDATE_ARCH_X86_64, 1, image, sizeof(image));
    // Pairs of position and value change a good header.
    for (size_t i = 0; i + 2 < size; i += 3) bytes[(data[i] << 8 | data[i + 1]) % sizeof(bytes)] ^= data[i + 2];
    if (sign) rig_sign(bytes, 1);
    update_verdict v = update_header_read(bytes, &keys, &h);
    CHECK(v < UPDATE_VERDICTS && update_verdict_text(v)[0] != '\0');
    if (v != UPDATE_FINE) return;
    CHECK(sign);
    CHECK(h.image_bytes > 0 && h.image_bytes <= LIMIT_UPDATE_IMAGE_BYTES);
    CHECK(strlen(h.version_text) > 0);
}

static void check_keys(const u8 *data, size_t size) {
    update_keys keys;
    if (update_keys_read((const char *)data, size, &keys) == 0) CHECK(keys.count <= LIMIT_UPDATE_KEYS);
}

static void check_env(const u8 *data, size_t size) {
    u8 block[UPDATE_ENV_BYTES], again[UPDATE_ENV_BYTES];
    update_env env, back;
    memset(block, '#', sizeof(block));
    memcpy(block, "# GRUB Environment Block\n", 25);
    memcpy(block + 25, data, MIN(size, sizeof(block) - 25));
    if (update_env_read(block, &env) < 0) return;
    CHECK(update_slot_is_valid(env.slot) && env.try_slot != env.slot);
    update_env_write(&env, true, again);
    CHECK(update_env_read(again, &back) == 0);
    CHECK(back.slot == env.slot && back.try_slot == env.try_slot && back.tried == env.tried);
}

static void check_file(const fat_file *f) {
    u64 covered = 0;
    CHECK(f->extent_count <= LIMIT_UPDATE_EXTENTS);
    for (u32 i = 0; i < f->extent_count; i++) covered += f->extents[i].bytes;
    CHECK(covered >= f->size);
}

static void check_fat(const u8 *data, size_t size) {
    update_env env = {.slot = 'a'};
    update_esp esp;
    const char *why;
    rig_make(&r, image, sizeof(image), &env);
    for (size_t i = 0; i + 3 < size; i += 4) {
        r.bytes[(u32)(data[i] << 16 | data[i + 1] << 8 | data[i + 2]) % (RIG_DATA + 8 * RIG_CLUSTER)] ^= data[i + 3];
    }
    update_disk disk = rig_disk(&r);
    if (update_esp_find(&disk, &esp, &why) < 0) return;
    for (u32 i = 0; i < 2; i++) check_file(&esp.slots[i]);
    check_file(&esp.bootenv);
    if (update_esp_env_read(&disk, &esp, &env) == 0) CHECK(update_slot_is_valid(env.slot));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    if (size == 0) return 0;
    switch (data[0] % 5) {
    case 0: check_header(data + 1, size - 1, false); break;
    case 1: check_header(data + 1, size - 1, true); break;
    case 2: check_keys(data + 1, size - 1); break;
    case 3: check_env(data + 1, size - 1); break;
    default: check_fat(data + 1, size - 1);
    }
    return 0;
}
