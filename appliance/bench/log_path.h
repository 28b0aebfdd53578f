// SPDX-License-Identifier: Apache-2.0
// log_path.h: ways to put a batch on disk, measured one at a time by `sluice bench log`: which thread or ring does
// it, with which system calls, and what kind of file it goes to. The log writer's own way is one of them
// (LOG_PATH_THREAD: lane.h and the disk's operations, as store/log.c uses them).
#ifndef SLUICE_BENCH_LOG_PATH_H
#define SLUICE_BENCH_LOG_PATH_H

#include "base/base.h"
#include "base/hist.h"

typedef enum log_path {
    LOG_PATH_CALL,          // pwrite + fdatasync by the caller: the disk's own figure
    LOG_PATH_THREAD,        // the same on a lane's thread, which wakes the caller
    LOG_PATH_THREAD_DIRECT, // one pwrite, O_DIRECT | O_DSYNC, on a lane's thread
    LOG_PATH_RING,          // io_uring: write, linked to an fdatasync
    LOG_PATH_RING_DIRECT,   // io_uring: one write, O_DIRECT | O_DSYNC
    LOG_PATHS
} log_path;

typedef enum log_file {
    LOG_FILE_WRITTEN,  // of fixed size, all blocks written before
    LOG_FILE_RESERVED, // of fixed size by fallocate, blocks not written yet
    LOG_FILE_GROWING,  // grows with each write
    LOG_FILES
} log_file;

typedef struct log_point {
    log_path path;
    log_file file;
    u32 batch_bytes;    // a multiple of 4,096
} log_point;

// Merged over rounds; hists in ns.
typedef struct log_figures {
    hist commit;        // from handing over until the caller knows that the batch is on disk
    hist held;          // of it, how long the hand-over held the caller up
    u64 commits, bytes, ns;
    u64 cpu_ns;         // of this process, its io_uring workers included, kernel threads not
    int error;          // why nothing (more) was measured: -errno
    const char *step;   // and doing what
} log_figures;

const char *log_path_name(log_path path);
const char *log_file_name(log_file file);

// Measures one point for time_ns in a file `sluice-bench-log-KIND` of dir, adding to *f. file_bytes: size of a fixed
// file and the most that a growing one gets (one that is full: a reserved one ends the measurement, the others begin
// anew). The written file stays for the next point. Blocks.
void log_path_measure(const log_point *point, const char *dir, u64 file_bytes, u64 time_ns, log_figures *f);
// Removes what was made in dir.
void log_path_clean(const char *dir);

#endif
