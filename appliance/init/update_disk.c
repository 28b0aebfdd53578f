// SPDX-License-Identifier: Apache-2.0
// update_disk.c: see update_disk.h. O_DIRECT wants aligned memory and sizes, so everything goes through one
// aligned buffer; a file system that has no O_DIRECT (only in tests) is read through its cache.
#include "init/update_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct real_disk {
    int fd;
    u64 base;
    u8 *bounce; // UPDATE_DISK_CHUNK + UPDATE_DISK_BLOCK bytes
} real_disk;

static int real_read_chunk(const real_disk *r, u64 offset, u8 *out, size_t len) {
    u64 start = (r->base + offset) & ~(u64)(UPDATE_DISK_BLOCK - 1);
    u64 end = align_up_u64(r->base + offset + len, UPDATE_DISK_BLOCK);
    size_t skip = (size_t)(r->base + offset - start), done = 0;
    while (done < skip + len) {
        ssize_t n = pread(r->fd, r->bounce + done, (size_t)(end - start) - done, (off_t)(start + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return -EIO;
        done += (size_t)n;
    }
    memcpy(out, r->bounce + skip, len);
    return 0;
}

static int real_read(void *context, u64 offset, void *out, size_t len) {
    u8 *at = out;
    while (len > 0) {
        size_t part = MIN(len, (size_t)UPDATE_DISK_CHUNK - UPDATE_DISK_BLOCK);
        int err = real_read_chunk(context, offset, at, part);
        if (err < 0) return err;
        offset += part;
        at += part;
        len -= part;
    }
    return 0;
}

static int real_write(void *context, u64 offset, const void *data, size_t len) {
    const real_disk *r = context;
    ASSERT(len <= UPDATE_DISK_CHUNK);
    memcpy(r->bounce, data, len);
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(r->fd, r->bounce + done, len - done, (off_t)(r->base + offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return -EIO;
        done += (size_t)n;
    }
    return 0;
}

static int real_flush(void *context) {
    const real_disk *r = context;
    return fdatasync(r->fd) == 0 ? 0 : -errno;
}

int update_disk_open(const char *path, u64 base, bool writable, update_disk *out) {
    int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY;
    struct stat st;
    if (stat(path, &st) < 0) return -errno;
    if (writable && S_ISBLK(st.st_mode)) flags |= O_EXCL;
    int fd = open(path, flags | O_DIRECT);
    if (fd < 0 && errno == EINVAL) fd = open(path, flags);
    if (fd < 0) return -errno;
    real_disk *r = calloc(1, sizeof(*r));
    void *bounce = NULL;
    if (r == NULL || posix_memalign(&bounce, UPDATE_DISK_BLOCK, UPDATE_DISK_CHUNK + UPDATE_DISK_BLOCK) != 0) {
        free(r);
        close(fd);
        return -ENOMEM;
    }
    *r = (real_disk){.fd = fd, .base = base, .bounce = bounce};
    *out = (update_disk){.read = real_read, .write = real_write, .flush = real_flush, .context = r};
    return 0;
}

void update_disk_close(update_disk *d) {
    real_disk *r = d->context;
    if (r == NULL) return;
    close(r->fd);
    free(r->bounce);
    free(r);
    d->context = NULL;
}

// The part of a file at offset that lies in one piece: *len becomes at most wanted.
static u64 file_piece(const fat_file *f, u64 offset, size_t wanted, size_t *len) {
    for (u32 i = 0; i < f->extent_count; i++) {
        const fat_extent *e = &f->extents[i];
        if (offset < e->bytes) {
            *len = (size_t)MIN((u64)wanted, e->bytes - offset);
            return e->offset + offset;
        }
        offset -= e->bytes;
    }
    *len = 0;
    return 0;
}

int update_file_read(const update_disk *d, const fat_file *f, u64 offset, void *out, size_t len) {
    u8 *at = out;
    while (len > 0) {
        size_t piece;
        u64 where = file_piece(f, offset, len, &piece);
        if (piece == 0) return -EINVAL;
        int err = d->read(d->context, where, at, piece);
        if (err < 0) return err;
        offset += piece;
        at += piece;
        len -= piece;
    }
    return 0;
}

int update_file_write(const update_disk *d, const fat_file *f, u64 offset, const void *data, size_t len) {
    const u8 *at = data;
    while (len > 0) {
        size_t piece;
        u64 where = file_piece(f, offset, MIN(len, (size_t)UPDATE_DISK_CHUNK), &piece);
        if (piece == 0) return -EINVAL;
        int err = d->write(d->context, where, at, piece);
        if (err < 0) return err;
        offset += piece;
        at += piece;
        len -= piece;
    }
    return 0;
}

int update_esp_find(const update_disk *d, update_esp *out, const char **why) {
    static const char directory[] = "SLUICE     ";
    static const char *const names[] = {"A       EFI", "B       EFI", "BOOTENV    ", "BOOTGOOD   "};
    static const char *const missing[] = {"/sluice/a.efi", "/sluice/b.efi", "/sluice/bootenv", "/sluice/bootgood"};
    fat_file *files[] = {&out->slots[0], &out->slots[1], &out->bootenv, &out->bootgood};
    fat_volume v;
    int err = fat_open(&v, d->read, d->context);
    *why = "the ESP's file system";
    for (u32 i = 0; i < ARRAY_LEN(files) && err == 0; i++) {
        err = fat_find(&v, directory, names[i], files[i]);
        if (err < 0) *why = missing[i];
        if (err == 0 && i >= 2 && files[i]->size != UPDATE_ENV_BYTES) {
            *why = missing[i];
            err = -EINVAL;
        }
    }
    return err;
}

static int env_file_read(const update_disk *d, const fat_file *f, update_env *out) {
    u8 block[UPDATE_ENV_BYTES];
    int err = update_file_read(d, f, 0, block, sizeof(block));
    return err < 0 ? err : update_env_read(block, out);
}

int update_esp_env_read(const update_disk *d, const update_esp *esp, update_env *out) {
    if (env_file_read(d, &esp->bootenv, out) == 0) return 0;
    return env_file_read(d, &esp->bootgood, out);
}

static int env_file_write(const update_disk *d, const fat_file *f, const update_env *env, bool with_try) {
    u8 block[UPDATE_ENV_BYTES], back[UPDATE_ENV_BYTES];
    update_env_write(env, with_try, block);
    int err = update_file_write(d, f, 0, block, sizeof(block));
    if (err == 0) err = d->flush(d->context);
    if (err == 0) err = update_file_read(d, f, 0, back, sizeof(back));
    if (err == 0 && memcmp(block, back, sizeof(block)) != 0) err = -EIO;
    return err;
}

// bootenv first: while the two differ, the loader goes by bootenv, and bootgood's slot is still whole.
int update_esp_env_write(const update_disk *d, const update_esp *esp, const update_env *env) {
    update_env good;
    int err = env_file_write(d, &esp->bootenv, env, true);
    if (err < 0) return err;
    if (env_file_read(d, &esp->bootgood, &good) == 0 && good.slot == env->slot) return 0;
    return env_file_write(d, &esp->bootgood, env, false);
}
