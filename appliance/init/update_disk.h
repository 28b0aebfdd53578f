// SPDX-License-Identifier: Apache-2.0
// update_disk.h: the bytes of the ESP, past the page cache: what is read back after a write has been on
// the medium. A set of functions, so that tests can put a disk that loses power under the same code.
// Blocking: for helper processes of init, never for its loop.
#ifndef SLUICE_INIT_UPDATE_DISK_H
#define SLUICE_INIT_UPDATE_DISK_H

#include "base/base.h"
#include "init/update_env.h"
#include "init/update_fat.h"

#define UPDATE_DISK_CHUNK 65536u // at most this much in one read or write
#define UPDATE_DISK_BLOCK 4096u

typedef struct update_disk {
    // All of len bytes, or -errno. Writes: offset and len are multiples of 512, len at most UPDATE_DISK_CHUNK.
    int (*read)(void *context, u64 offset, void *out, size_t len);
    int (*write)(void *context, u64 offset, const void *data, size_t len);
    int (*flush)(void *context); // what was written survives a power cut from here on
    void *context;
} update_disk;

// A block device, or a file in which the ESP begins at base. Claims a device for itself (O_EXCL) when
// writable: -EBUSY while it is mounted. 0 or -errno.
int update_disk_open(const char *path, u64 base, bool writable, update_disk *out);
void update_disk_close(update_disk *d);

// A file of the ESP, at an offset in it; len must stay within the file. 0 or -errno.
int update_file_read(const update_disk *d, const fat_file *f, u64 offset, void *out, size_t len);
int update_file_write(const update_disk *d, const fat_file *f, u64 offset, const void *data, size_t len);

typedef struct update_esp {
    fat_file slots[2];       // a, b
    fat_file bootenv, bootgood;
} update_esp;

// Finds the files. 0, or -errno with what is wrong in *why.
int update_esp_find(const update_disk *d, update_esp *out, const char **why);
// The loader's environment. With bootenv damaged: what bootgood says; -EINVAL when that is damaged too.
int update_esp_env_read(const update_disk *d, const update_esp *esp, update_env *out);
// Writes bootenv and, when the proved slot differs from what bootgood says, bootgood; each flushed and
// read back. The order leaves a bootable choice at every instant. 0 or -errno.
int update_esp_env_write(const update_disk *d, const update_esp *esp, const update_env *env);

#endif
