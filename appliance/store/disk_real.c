// SPDX-License-Identifier: Apache-2.0
// disk_real.c: the disk by system calls. EINTR and short transfers are dealt with here, so that nobody above
// sees them.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/disk.h"

#define ZEROS_BYTES 65536u
#define IO_BYTES_MAX (1u << 30) // of one call: the kernel takes no more than 2 GiB

static int real_list(disk *d, const char *dir, bool (*visit)(void *context, const char *name), void *context) {
    (void)d;
    DIR *stream = opendir(dir);
    if (stream == NULL) return -errno;
    int result = 0;
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(stream);
        if (e == NULL) {
            result = -errno;
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (!visit(context, e->d_name)) break;
    }
    closedir(stream);
    return result;
}

static int real_make_dir(disk *d, const char *dir) {
    (void)d;
    return mkdir(dir, 0750) < 0 ? -errno : 0;
}

static int real_sync_dir(disk *d, const char *dir) {
    (void)d;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int result = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return result;
}

static int real_open(disk *d, const char *path, bool create) {
    (void)d;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0640);
    return fd < 0 ? -errno : fd;
}

static int real_close(disk *d, int file) {
    (void)d;
    return close(file) < 0 && errno != EINTR ? -errno : 0;
}

static i64 real_size(disk *d, int file) {
    (void)d;
    struct stat st;
    return fstat(file, &st) < 0 ? -errno : st.st_size;
}

static int real_write(disk *d, int file, const void *data, size_t bytes, u64 offset) {
    (void)d;
    const u8 *at = data;
    while (bytes > 0) {
        ssize_t n = pwrite(file, at, MIN(bytes, (size_t)IO_BYTES_MAX), (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        at += n;
        bytes -= (size_t)n;
        offset += (u64)n;
    }
    return 0;
}

// A file system without fallocate gets its blocks by writing them.
static int reserve_by_zeros(disk *d, int file, u64 bytes) {
    static u8 zeros[ZEROS_BYTES]; // not const: that would be 64 KiB of the file
    i64 have = real_size(d, file);
    if (have < 0) return (int)have;
    for (u64 at = (u64)have; at < bytes; at += ZEROS_BYTES) {
        int result = real_write(d, file, zeros, (size_t)MIN(bytes - at, (u64)ZEROS_BYTES), at);
        if (result < 0) return result;
    }
    return 0;
}

static int real_reserve(disk *d, int file, u64 bytes) {
    int result;
    do {
        result = fallocate(file, 0, 0, (off_t)bytes) < 0 ? -errno : 0;
    } while (result == -EINTR);
    return result == -EOPNOTSUPP || result == -ENOSYS ? reserve_by_zeros(d, file, bytes) : result;
}

static int real_truncate(disk *d, int file, u64 bytes) {
    (void)d;
    return ftruncate(file, (off_t)bytes) < 0 ? -errno : 0;
}

static i64 real_read(disk *d, int file, void *data, size_t bytes, u64 offset) {
    (void)d;
    u8 *at = data;
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = pread(file, at + got, MIN(bytes - got, (size_t)IO_BYTES_MAX), (off_t)(offset + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) break;
        got += (size_t)n;
    }
    return (i64)got;
}

static int real_sync(disk *d, int file) {
    (void)d;
    return fdatasync(file) < 0 ? -errno : 0;
}

static int real_rename(disk *d, const char *from, const char *to) {
    (void)d;
    return rename(from, to) < 0 ? -errno : 0;
}

static int real_unlink(disk *d, const char *path) {
    (void)d;
    if (unlink(path) == 0) return 0;
    if (errno == EISDIR || errno == EPERM) return rmdir(path) < 0 ? -errno : 0;
    return -errno;
}

static i64 real_free_bytes(disk *d, const char *dir) {
    (void)d;
    struct statvfs v;
    if (statvfs(dir, &v) < 0) return -errno;
    return (i64)((u64)v.f_bavail * v.f_frsize);
}

static int reading_open(disk *d, const char *path, bool create) {
    (void)d;
    if (create) return -EROFS;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

static const disk_operations real_operations = {
    .list = real_list,
    .make_dir = real_make_dir,
    .sync_dir = real_sync_dir,
    .open = real_open,
    .close = real_close,
    .size = real_size,
    .reserve = real_reserve,
    .truncate = real_truncate,
    .write = real_write,
    .read = real_read,
    .sync = real_sync,
    .rename = real_rename,
    .unlink = real_unlink,
    .free_bytes = real_free_bytes,
};

disk *disk_real(void) {
    static disk real = {.ops = &real_operations};
    return &real;
}

disk *disk_real_reading(void) {
    static disk_operations operations;
    static disk reading = {.ops = &operations};
    operations = real_operations;
    operations.open = reading_open;
    return &reading;
}
