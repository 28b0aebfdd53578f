// SPDX-License-Identifier: Apache-2.0
// log_path.c: one batch at a time, as the log commits: the next one begins when the last is on disk.
#include "bench/log_path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <liburing.h>

#include "store/lane.h"

#define DIRECT_ALIGN 4096u
#define FILL_BYTES (1u << 20)
#define RING_ENTRIES 8u

static const char *const path_names[] = {"call", "thread", "thread-direct", "ring", "ring-direct"};
static const char *const file_names[] = {"written", "reserved", "growing"};
_Static_assert(ARRAY_LEN(path_names) == LOG_PATHS && ARRAY_LEN(file_names) == LOG_FILES, "a name for each");

const char *log_path_name(log_path path) {
    return path_names[path];
}

const char *log_file_name(log_file file) {
    return file_names[file];
}

typedef struct bench_log {
    const log_point *point;
    log_figures *figures;
    u64 file_bytes;
    int file;
    u8 *batch;
    u64 at;          // where the next one goes
    // LOG_PATH_THREAD*
    lane *lane;
    lane_op op;
    int bell;        // eventfd that the lane's thread rings
    int result;
    bool ended;
    // LOG_PATH_RING*
    struct io_uring ring;
    bool ring_open;
} bench_log;

static bool is_direct(const bench_log *b) {
    return b->point->path == LOG_PATH_THREAD_DIRECT || b->point->path == LOG_PATH_RING_DIRECT;
}

static int fail(bench_log *b, const char *step, int error) {
    b->figures->step = step;
    b->figures->error = error;
    return error;
}

// --- files ---

static void file_path(const char *dir, log_file kind, char *out, size_t room) {
    snprintf(out, room, "%.480s/sluice-bench-log-%s", dir, file_names[kind]);
}

static int fill(bench_log *b, int fd) {
    u8 *block = calloc(1, FILL_BYTES);
    if (block == NULL) return -ENOMEM;
    int result = 0;
    for (u64 at = 0; at < b->file_bytes && result == 0; at += FILL_BYTES) {
        result = disk_real()->ops->write(disk_real(), fd, block, (size_t)MIN(b->file_bytes - at, (u64)FILL_BYTES), at);
    }
    free(block);
    return result < 0 ? result : fsync(fd) < 0 ? -errno : 0;
}

// Makes the file as its kind says; a written one that is there already is kept.
static int file_prepare(bench_log *b, const char *path) {
    log_file kind = b->point->file;
    if (kind != LOG_FILE_WRITTEN) unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail(b, "open", -errno);
    int result = 0;
    bool there = kind == LOG_FILE_WRITTEN && lseek(fd, 0, SEEK_END) == (off_t)b->file_bytes;
    if (kind != LOG_FILE_GROWING && !there) {
        result = disk_real()->ops->reserve(disk_real(), fd, b->file_bytes);
        if (result == 0 && kind == LOG_FILE_WRITTEN) result = fill(b, fd);
    }
    if (result == 0 && fsync(fd) < 0) result = -errno;
    close(fd);
    return result < 0 ? fail(b, "preparing the file", result) : 0;
}

static int file_open(bench_log *b, const char *dir) {
    char path[512];
    file_path(dir, b->point->file, path, sizeof(path));
    int result = file_prepare(b, path);
    if (result < 0) return result;
    b->file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (is_direct(b) ? O_DIRECT | O_DSYNC : 0));
    return b->file < 0 ? fail(b, is_direct(b) ? "open with O_DIRECT" : "open", -errno) : 0;
}

void log_path_clean(const char *dir) {
    char path[512];
    for (u32 kind = 0; kind < LOG_FILES; kind++) {
        file_path(dir, (log_file)kind, path, sizeof(path));
        unlink(path);
    }
}

// --- the ways ---

static int batch_write(const bench_log *b, bool sync) {
    disk *d = disk_real();
    int result = d->ops->write(d, b->file, b->batch, b->point->batch_bytes, b->at);
    return result < 0 || !sync ? result : d->ops->sync(d, b->file);
}

static int lane_run(lane_op *op, disk *d) {
    (void)d;
    const bench_log *b = CONTAINER_OF(op, bench_log, op);
    return batch_write(b, !is_direct(b));
}

static void lane_done(lane_op *op, int result) {
    bench_log *b = CONTAINER_OF(op, bench_log, op);
    b->result = result;
    b->ended = true;
}

static void lane_wake(void *context) {
    const bench_log *b = context;
    u64 one = 1;
    (void)!write(b->bell, &one, sizeof(one));
}

static int by_lane(bench_log *b, u64 *handed_ns) {
    b->ended = false;
    lane_submit(b->lane, &b->op);
    *handed_ns = clock_mono_ns();
    while (!b->ended) {
        struct pollfd p = {.fd = b->bell, .events = POLLIN};
        u64 count;
        if (poll(&p, 1, -1) < 0 && errno != EINTR) return -errno;
        if ((p.revents & POLLIN) != 0) (void)!read(b->bell, &count, sizeof(count));
        lane_take(b->lane);
    }
    return b->result;
}

static int by_ring(bench_log *b, u64 *handed_ns) {
    struct io_uring_sqe *write = io_uring_get_sqe(&b->ring);
    io_uring_prep_write(write, b->file, b->batch, b->point->batch_bytes, b->at);
    u32 wanted = 1;
    if (!is_direct(b)) {
        write->flags |= IOSQE_IO_LINK;
        io_uring_prep_fsync(io_uring_get_sqe(&b->ring), b->file, IORING_FSYNC_DATASYNC);
        wanted = 2;
    }
    int result = io_uring_submit(&b->ring);
    *handed_ns = clock_mono_ns();
    if (result < 0) return result;
    result = 0;
    for (u32 i = 0; i < wanted; i++) {
        struct io_uring_cqe *cqe;
        int waited;
        do {
            waited = io_uring_wait_cqe(&b->ring, &cqe);
        } while (waited == -EINTR);
        if (waited < 0) return waited;
        bool is_write = i == 0;
        if (result == 0 && cqe->res < 0) result = cqe->res;
        if (result == 0 && is_write && (u32)cqe->res != b->point->batch_bytes) result = -EIO;
        io_uring_cqe_seen(&b->ring, cqe);
    }
    return result;
}

static int commit(bench_log *b, u64 *handed_ns) {
    switch (b->point->path) {
    case LOG_PATH_THREAD:
    case LOG_PATH_THREAD_DIRECT:
        return by_lane(b, handed_ns);
    case LOG_PATH_RING:
    case LOG_PATH_RING_DIRECT:
        return by_ring(b, handed_ns);
    default: {
        int result = batch_write(b, true);
        *handed_ns = clock_mono_ns();
        return result;
    }
    }
}

static int way_open(bench_log *b) {
    if (b->point->path == LOG_PATH_RING || b->point->path == LOG_PATH_RING_DIRECT) {
        struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
        int result = io_uring_queue_init_params(RING_ENTRIES, &b->ring, &params);
        b->ring_open = result == 0;
        return result < 0 ? fail(b, "io_uring_setup", result) : 0;
    }
    if (b->point->path == LOG_PATH_CALL) return 0;
    b->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->bell < 0) return fail(b, "eventfd", -errno);
    b->op = (lane_op){.run = lane_run, .done = lane_done};
    int result = lane_create("bench-log", disk_real(), 1, LANE_THREAD | LANE_URGENT, NULL, lane_wake, b, &b->lane);
    return result < 0 ? fail(b, "thread", result) : 0;
}

static void way_close(bench_log *b) {
    lane_destroy(b->lane);
    if (b->ring_open) io_uring_queue_exit(&b->ring);
    if (b->bell >= 0) close(b->bell);
    if (b->file >= 0) close(b->file);
    free(b->batch);
}

// --- the measurement ---

static u64 process_cpu_ns(void) {
    struct rusage r;
    if (getrusage(RUSAGE_SELF, &r) < 0) return 0;
    return ((u64)r.ru_utime.tv_sec + (u64)r.ru_stime.tv_sec) * NS_PER_S +
           ((u64)r.ru_utime.tv_usec + (u64)r.ru_stime.tv_usec) * 1000;
}

// Where the next batch goes. False: the file is full and may not be written again.
static bool place_next(bench_log *b) {
    b->at += b->point->batch_bytes;
    if (b->at + b->point->batch_bytes <= b->file_bytes) return true;
    if (b->point->file == LOG_FILE_RESERVED) return false;
    b->at = 0;
    return b->point->file != LOG_FILE_GROWING || ftruncate(b->file, 0) == 0;
}

static void run(bench_log *b, u64 time_ns) {
    log_figures *f = b->figures;
    u64 cpu_ns = process_cpu_ns(), begin_ns = clock_mono_ns(), now_ns = begin_ns;
    bool more = true;
    while (more && now_ns < begin_ns + time_ns) {
        u64 started_ns = now_ns, handed_ns = now_ns;
        memset(b->batch, (int)(f->commits & 0xff), 64); // each batch differs
        int result = commit(b, &handed_ns);
        now_ns = clock_mono_ns();
        if (result < 0) {
            fail(b, "commit", result);
            break;
        }
        hist_record(&f->commit, now_ns - started_ns);
        hist_record(&f->held, handed_ns - started_ns);
        f->commits++;
        f->bytes += b->point->batch_bytes;
        more = place_next(b);
    }
    f->ns += now_ns - begin_ns;
    f->cpu_ns += process_cpu_ns() - cpu_ns;
}

void log_path_measure(const log_point *point, const char *dir, u64 file_bytes, u64 time_ns, log_figures *f) {
    ASSERT(point->batch_bytes > 0 && point->batch_bytes % DIRECT_ALIGN == 0 && point->batch_bytes <= file_bytes);
    bench_log b = {.point = point, .figures = f, .file_bytes = file_bytes, .file = -1, .bell = -1};
    b.batch = aligned_alloc(DIRECT_ALIGN, point->batch_bytes);
    if (b.batch == NULL) {
        fail(&b, "memory", -ENOMEM);
        return;
    }
    memset(b.batch, 0x5a, point->batch_bytes);
    if (file_open(&b, dir) == 0 && way_open(&b) == 0) run(&b, time_ns);
    way_close(&b);
}
