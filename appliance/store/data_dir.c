// SPDX-License-Identifier: Apache-2.0
// data_dir.c: lock and layout. The layout is one sector with a checksum in two files that are written in turn,
// so that a torn write leaves the other; it is written at the first start and when the number of workers
// changes, never else.
#include "store/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "store/crc32c.h"
#include "store/disk.h"
#include "store/record.h"

#define LAYOUT_MAGIC 0x54554f59414c4c53ull // "SLLAYOUT"
#define LAYOUT_VERSION 1u
#define AUTO_BYTES_MAX (16ull << 30)
#define SEGMENTS_WANTED 128u

typedef struct layout {
    u64 magic;
    u32 version, workers;
    u64 generation;
    u32 first_log, next_log;
    u8 key[16];
    u8 unused[460];
    u32 crc;
} layout;
_Static_assert(sizeof(layout) == SECTOR_BYTES, "one sector");

// --- lock ---

static long holder_of(int fd) {
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    return n > 0 ? strtol(text, NULL, 10) : 0;
}

static int lock_failed(const char *path, int fd, int error, char *why, size_t why_bytes) {
    long pid = holder_of(fd);
    close(fd);
    if (error == EWOULDBLOCK) {
        snprintf(why, why_bytes,
                 "data_dir %s is in use by another gateway, process %ld: stop it, or give this one a data_dir "
                 "of its own",
                 path, pid);
        return -EBUSY;
    }
    snprintf(why, why_bytes, "data_dir %s: can not be locked: %s", path, errno_name(error));
    return -error;
}

int data_dir_lock(const char *path, char *why, size_t why_bytes) {
    char name[320], text[32];
    snprintf(name, sizeof(name), "%s/lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) {
        int error = errno;
        snprintf(why, why_bytes, "data_dir %s: its lock can not be opened: %s", path, errno_name(error));
        return -error;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) return lock_failed(path, fd, errno, why, why_bytes);
    int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    bool written = ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n;
    (void)written; // only for people: the lock itself holds
    return 0;      // the descriptor stays open as long as the process lives
}

int data_dir_lock_reading(const char *path, char *why, size_t why_bytes) {
    char name[320];
    snprintf(name, sizeof(name), "%s/lock", path);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0) return 0;
    return lock_failed(path, fd, errno, why, why_bytes);
}

// --- layout ---

static void layout_path(const data_dir *d, u32 slot, char out[340]) {
    snprintf(out, 340, "%s/log/layout.%u", d->path, slot);
}

void data_dir_log_path(const data_dir *d, u32 log_number, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "%s/log/%04u", d->path, log_number);
}

static bool layout_read(const data_dir *d, u32 slot, layout *out) {
    char path[340];
    layout_path(d, slot, path);
    int file = d->disk->ops->open(d->disk, path, false);
    if (file < 0) return false;
    i64 n = d->disk->ops->read(d->disk, file, out, sizeof(*out), 0);
    d->disk->ops->close(d->disk, file);
    return n == (i64)sizeof(*out) && out->magic == LAYOUT_MAGIC && out->version == LAYOUT_VERSION &&
           out->crc == crc32c(0, out, offsetof(layout, crc)) && out->workers >= 1 &&
           out->workers <= LIMIT_WORKERS_MAX && out->first_log >= 1 && out->first_log <= LOG_NUMBER_MAX;
}

static int layout_write(data_dir *d) {
    char path[340], dir[320];
    layout l = {.magic = LAYOUT_MAGIC,
                .version = LAYOUT_VERSION,
                .workers = d->workers,
                .generation = ++d->generation,
                .first_log = d->first_log,
                .next_log = d->next_log};
    memcpy(l.key, d->key, sizeof(l.key));
    l.crc = crc32c(0, &l, offsetof(layout, crc));
    layout_path(d, (u32)(d->generation & 1), path);
    snprintf(dir, sizeof(dir), "%s/log", d->path);
    int file = d->disk->ops->open(d->disk, path, true);
    if (file < 0) return file;
    int result = d->disk->ops->write(d->disk, file, &l, sizeof(l), 0);
    if (result == 0) result = d->disk->ops->sync(d->disk, file);
    d->disk->ops->close(d->disk, file);
    return result == 0 ? d->disk->ops->sync_dir(d->disk, dir) : result;
}

// Log numbers are taken in order and begin anew after the last: a run never wraps within itself.
static u32 numbers_take(data_dir *d, u32 count) {
    u32 first = d->next_log;
    if (first < 1 || first + count - 1 > LOG_NUMBER_MAX) first = 1;
    d->next_log = first + count;
    return first;
}

typedef struct found {
    u32 numbers[64], count;
} found;

static bool visit_log(void *context, const char *name) {
    found *f = context;
    unsigned number;
    char rest;
    if (strlen(name) == 4 && sscanf(name, "%4u%c", &number, &rest) == 1 && f->count < ARRAY_LEN(f->numbers)) {
        f->numbers[f->count++] = number;
    }
    return true;
}

// No layout can be read: the directories there are, if they are one run, are what it named.
static void layout_guess(data_dir *d) {
    char dir[320];
    found f = {.count = 0};
    snprintf(dir, sizeof(dir), "%s/log", d->path);
    d->disk->ops->list(d->disk, dir, visit_log, &f);
    u32 low = UINT32_MAX, high = 0;
    for (u32 i = 0; i < f.count; i++) {
        low = MIN(low, f.numbers[i]);
        high = MAX(high, f.numbers[i]);
    }
    if (getrandom(d->key, sizeof(d->key), 0) != (ssize_t)sizeof(d->key)) {
        u64 seed[2] = {clock_real_ns(),
                       (u64)getpid()}; // a sandbox without getrandom: unpredictable enough for a hash's seed
        memcpy(d->key, seed, sizeof(d->key));
    }
    d->next_log = 1;
    if (f.count == 0 || high - low + 1 > LIMIT_WORKERS_MAX) return;
    log_error("data_dir %s: the layout of its logs can not be read; made anew from the %u logs that are there",
              d->path, f.count);
    d->old_first = low;
    d->old_workers = high - low + 1;
    d->next_log = high + 1;
}

static int dirs_make(const data_dir *d, char *why, size_t why_bytes) {
    char dir[340];
    int result = 0;
    for (u32 i = 0; i < d->workers && result == 0; i++) {
        data_dir_log_path(d, d->first_log + i, dir, sizeof(dir));
        result = d->disk->ops->make_dir(d->disk, dir);
        if (result == -EEXIST) result = 0;
    }
    snprintf(dir, sizeof(dir), "%s/log", d->path);
    if (result == 0) result = d->disk->ops->sync_dir(d->disk, dir);
    if (result < 0) snprintf(why, why_bytes, "data_dir %s: directories of the log: %s", d->path, errno_name(result));
    return result;
}

static bool layout_newest(data_dir *d) {
    layout slots[2], *newest = NULL;
    for (u32 i = 0; i < 2; i++) {
        if (layout_read(d, i, &slots[i]) && (newest == NULL || slots[i].generation > newest->generation))
            newest = &slots[i];
    }
    if (newest == NULL) return false;
    d->generation = newest->generation;
    d->next_log = newest->next_log;
    d->workers = newest->workers;
    d->first_log = newest->first_log;
    memcpy(d->key, newest->key, sizeof(d->key));
    return true;
}

bool data_dir_look(data_dir *d, const char *path, disk *from) {
    *d = (data_dir){.disk = from};
    snprintf(d->path, sizeof(d->path), "%s", path);
    return layout_newest(d);
}

int data_dir_open(data_dir *d, const char *path, disk *from, u32 workers, char *why, size_t why_bytes) {
    char dir[340];
    ASSERT(workers >= 1 && workers <= LIMIT_WORKERS_MAX);
    *d = (data_dir){.disk = from};
    snprintf(d->path, sizeof(d->path), "%s", path);
    snprintf(dir, sizeof(dir), "%s/log", path);
    int result = from->ops->make_dir(from, dir);
    if (result < 0 && result != -EEXIST) {
        snprintf(why, why_bytes, "data_dir %s: directory log: %s", path, errno_name(result));
        return result;
    }
    if (result == 0) from->ops->sync_dir(from, path);
    if (!layout_newest(d)) layout_guess(d);
    if (d->workers == workers) {
        data_dir_clean(d);
        return dirs_make(d, why, why_bytes);
    }
    if (d->workers != 0) {
        d->old_workers = d->workers;
        d->old_first = d->first_log;
    }
    d->workers = workers;
    d->first_log = numbers_take(d, workers);
    if (d->old_workers == 0) { // a new one: it counts at once
        result = dirs_make(d, why, why_bytes);
        if (result == 0 && (result = layout_write(d)) < 0) {
            snprintf(why, why_bytes, "data_dir %s: layout of the log: %s", path, errno_name(result));
        }
        return result;
    }
    data_dir_clean(d); // what a conversion left that was cut off
    return dirs_make(d, why, why_bytes);
}

bool data_dir_before(const data_dir *d, data_dir *out) {
    if (d->old_workers == 0 || d->generation == 0) return false; // no layout could be read: layout_guess
    *out = *d;
    out->workers = d->old_workers;
    out->first_log = d->old_first;
    out->old_workers = 0;
    return true;
}

int data_dir_converted(data_dir *d) {
    int result = layout_write(d);
    if (result < 0) return result;
    d->old_workers = d->old_first = 0;
    data_dir_clean(d);
    return 0;
}

// --- cleaning ---

typedef struct remove_job {
    const data_dir *d;
    char dir[340];
} remove_job;

static bool visit_remove(void *context, const char *name) {
    const remove_job *job = context;
    char path[700];
    snprintf(path, sizeof(path), "%s/%s", job->dir, name);
    job->d->disk->ops->unlink(job->d->disk, path); // a directory goes when it is empty
    return true;
}

static bool is_named(const data_dir *d, u32 number) {
    bool is_new = d->old_workers == 0 && number >= d->first_log && number < d->first_log + d->workers;
    bool is_old = d->old_workers != 0 && number >= d->old_first && number < d->old_first + d->old_workers;
    return is_new || is_old;
}

void data_dir_clean(const data_dir *d) {
    char dir[320];
    found f = {.count = 0};
    snprintf(dir, sizeof(dir), "%s/log", d->path);
    d->disk->ops->list(d->disk, dir, visit_log, &f);
    for (u32 i = 0; i < f.count; i++) {
        if (is_named(d, f.numbers[i])) continue;
        remove_job job = {.d = d};
        data_dir_log_path(d, f.numbers[i], job.dir, sizeof(job.dir));
        // Damage that was set aside there stays: the directory is then not empty and stays too.
        d->disk->ops->list(d->disk, job.dir, visit_remove, &job);
        d->disk->ops->unlink(d->disk, job.dir);
    }
}

// --- sizes ---

data_dir_sizes data_dir_size(const data_dir *d, u64 log_max) {
    data_dir_sizes out;
    if (log_max == 0) {
        i64 available = d->disk->ops->free_bytes(d->disk, d->path);
        log_max = available < 0 ? AUTO_BYTES_MAX : MIN((u64)available / 2, AUTO_BYTES_MAX);
    }
    out.log_bytes = MAX(log_max / d->workers, (u64)LIMIT_STORE_SEGMENTS_MIN * SEGMENT_UNIT_BYTES);
    u64 segment = out.log_bytes / SEGMENTS_WANTED;
    segment = MIN(MAX(segment, (u64)LIMIT_STORE_SEGMENT_MIN_BYTES), 256ull << 20);
    segment = MIN(segment, out.log_bytes / LIMIT_STORE_SEGMENTS_MIN); // a small log has small segments
    out.segment_bytes = (u32)MAX(segment / SEGMENT_UNIT_BYTES * SEGMENT_UNIT_BYTES, (u64)SEGMENT_UNIT_BYTES);
    out.files = (u32)(out.log_bytes / out.segment_bytes) + 4;
    return out;
}
