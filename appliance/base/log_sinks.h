// SPDX-License-Identifier: Apache-2.0
// log_sinks.h: where the log writer's lines go: stderr, a rotated file, syslog. Each sink has a
// bounded buffer of pending lines, so that one that is stalled or failing holds up neither the
// others nor the shutdown; what does not fit is lost for that sink, counted, and told there once it
// has room again. A failing sink is tried again after a back-off that doubles from 1 s to 60 s.
// Private to base/log*.c and its tests. All functions but log_sinks_create belong to the log
// writer.
#ifndef SLUICE_BASE_LOG_SINKS_H
#define SLUICE_BASE_LOG_SINKS_H

#include "base/log.h"
#include "base/log_text.h"

#define LOG_PENDING_BYTES (128u << 10)
#define LOG_PIPE_BYTES 4096u   // PIPE_BUF (pipe(7)): a pipe that polls writable takes it whole
#define LOG_BACKOFF_MIN_MS 1000u
#define LOG_BACKOFF_MAX_MS 60000u
#define LOG_STALL_PAUSE_MS 20u // a descriptor that polls writable but takes nothing
#define LOG_ROTATED_MAX 1000u  // file_keep may not exceed it
_Static_assert(LOG_LINE_OUT_BYTES < LOG_PENDING_BYTES / 8, "pending holds several long lines");

typedef struct log_sink log_sink;

typedef struct log_sink_kind {
    const char *name;
    // Appends the line in the sink's own form to its pending bytes; there is room.
    void (*append)(log_sink *sink, const log_line *line);
    // Writes pending lines. 0 = all written; -EAGAIN = wait until sink->fd is writable; else
    // -errno.
    int (*write)(log_sink *sink);
    void (*close)(log_sink *sink);
} log_sink_kind;

struct log_sink {
    const log_sink_kind *kind;
    int fd;                    // -1 = to be opened by the next write
    char *pending;             // LOG_PENDING_BYTES; whole lines, the first perhaps written in part
    u32 pending_start, pending_len;
    bool mid_line;             // part of the first pending line is written
    bool stalled;              // the last write ended with -EAGAIN: poll fd for POLLOUT
    int error;                 // the last write's errno, 0 = well
    u64 retry_ns;              // not before (monotonic)
    u32 backoff_ms;
    u64 lost;                  // lines lost and not yet told
    // stderr
    bool nonblocking, is_socket;
    // file
    char *path;
    u64 file_bytes, file_bytes_max;
    u32 file_keep;
    bool regular;
    // syslog
    char *address;             // what to connect to: path, or host
    u16 port;                  // 0 = unix
    char hostname[256];
};

typedef struct log_sinks {
    log_sink list[3];
    u32 count;
} log_sinks;

typedef struct log_sink_counters { // single writer: the log writer
    counter lost, errors;
} log_sink_counters;

extern const log_sink_kind log_sink_stderr, log_sink_file, log_sink_syslog;

// Checks the configuration and makes its sinks; a file is opened once to see that it can be. Any
// thread. Returns 0 or -errno with the failing step in *step.
int log_sinks_create(const log_config *config, log_sinks **out, const char **step);
void log_sinks_free(log_sinks *sinks);
// Hands pending lines of the old sinks over to those of the same kind; frees the old ones.
void log_sinks_replace(log_sinks *fresh, log_sinks *old, log_sink_counters *counters);

// Adds a line; lost and counted when the sink's buffer is full.
void log_sink_put(log_sink *sink, const log_line *line, log_sink_counters *counters);
// Writes what is pending unless the sink backs off. now_ns: monotonic. writable: poll said so.
void log_sink_flush(log_sink *sink, u64 now_ns, bool writable, log_sink_counters *counters);

// --- for the kinds ---
void log_pending_append(log_sink *sink, const char *data, u32 len);
// Bytes of the first whole lines that fit into max; the first line alone may exceed it, then 0.
u32 log_pending_lines(const log_sink *sink, u32 max);
// Bytes up to and including the first newline.
u32 log_pending_first_line(const log_sink *sink);
const char *log_pending_data(const log_sink *sink);
void log_pending_consume(log_sink *sink, u32 bytes);
int log_file_open_check(const char *path);
int log_syslog_parse(log_sink *sink, const log_config *config);

#endif
