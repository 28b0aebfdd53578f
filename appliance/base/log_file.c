// SPDX-License-Identifier: Apache-2.0
// log_file.c: the file sink of the log: append, rotate by size, survive a full or missing disk.
//
// The file never grows beyond its bound (a single line longer than the bound excepted): lines are
// written in whole up to it, then file becomes file.1, file.1 becomes file.2, and the oldest goes.
// A line that was written in part (disk full) is finished in the same file before anything else, so
// no line is torn over two files. Any failure is returned to log_sink_flush, which counts it and
// backs off; the lines stay pending. A failed rename holds the lines back too: on a small flash the
// bound matters more than the newest lines, and the loss is counted and told.
#include "base/log_sinks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROTATED_SUFFIX_BYTES 8u // ".1000" and the end
_Static_assert(LOG_ROTATED_MAX <= 9999, "the suffix has room for four digits");

static int file_open(const char *path, struct stat *st) {
    // O_NONBLOCK: opening a FIFO without a reader must fail, not wait.
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (fd < 0) return -errno;
    if (fstat(fd, st) == 0) return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

int log_file_open_check(const char *path) {
    struct stat st;
    int fd = file_open(path, &st);
    if (fd < 0) return fd;
    close(fd);
    return 0;
}

static void file_append(log_sink *sink, const log_line *line) {
    log_pending_append(sink, line->data, line->len);
}

static void file_close(log_sink *sink) {
    if (sink->fd >= 0) close(sink->fd);
    sink->fd = -1;
}

static int file_ensure_open(log_sink *sink) {
    if (sink->fd >= 0) return 0;
    struct stat st;
    int fd = file_open(sink->path, &st);
    if (fd < 0) return fd;
    sink->fd = fd;
    sink->regular = S_ISREG(st.st_mode);
    sink->file_bytes = (u64)st.st_size;
    return 0;
}

// Renames the chain from its old end. A missing link is no error: files may have been taken away.
static int file_rotate(log_sink *sink) {
    size_t bytes = strlen(sink->path) + ROTATED_SUFFIX_BYTES;
    char *from = malloc(bytes), *to = malloc(bytes);
    int rc = from == NULL || to == NULL ? -ENOMEM : 0;
    for (u32 i = sink->file_keep; rc == 0 && i > 0; i--) {
        snprintf(to, bytes, "%s.%u", sink->path, i);
        if (i > 1) snprintf(from, bytes, "%s.%u", sink->path, i - 1);
        else snprintf(from, bytes, "%s", sink->path);
        if (rename(from, to) != 0 && errno != ENOENT) rc = -errno;
    }
    if (rc == 0 && sink->file_keep == 0 && unlink(sink->path) != 0 && errno != ENOENT) rc = -errno;
    free(from);
    free(to);
    if (rc != 0) return rc;
    file_close(sink);
    return file_ensure_open(sink);
}

// How much may be written now: 0 means rotate first.
static u32 file_bytes_allowed(const log_sink *sink) {
    if (sink->mid_line) return log_pending_first_line(sink);
    if (sink->file_bytes_max == 0 || !sink->regular) return sink->pending_len;
    u64 max = sink->file_bytes_max;
    u64 left = sink->file_bytes < max ? max - sink->file_bytes : 0;
    u32 lines = log_pending_lines(sink, (u32)MIN(left, LOG_PENDING_BYTES));
    if (lines == 0 && sink->file_bytes == 0) return log_pending_first_line(sink);
    return lines;
}

static int file_write(log_sink *sink) {
    int rc = file_ensure_open(sink);
    while (rc == 0 && sink->pending_len > 0) {
        u32 bytes = file_bytes_allowed(sink);
        if (bytes == 0) {
            rc = file_rotate(sink);
            // After a rotation that left bytes in place (another process appends to it) do not
            // loop.
            if (rc == 0 && sink->file_bytes > 0 && file_bytes_allowed(sink) == 0) rc = -EBUSY;
            continue;
        }
        ssize_t written = write(sink->fd, log_pending_data(sink), bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            rc = written == 0 ? -EIO : -errno;
            break;
        }
        sink->file_bytes += (u64)written;
        log_pending_consume(sink, (u32)written);
    }
    // The next attempt opens anew: a descriptor on a file system that went away stays dead. A full
    // disk and a slow FIFO leave it good, and closing would lose the place of a line written in
    // part.
    bool keep = rc == 0 || rc == -EAGAIN || rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG;
    if (!keep) file_close(sink);
    return rc;
}

const log_sink_kind log_sink_file = {"file", file_append, file_write, file_close};
