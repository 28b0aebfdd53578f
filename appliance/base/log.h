// SPDX-License-Identifier: Apache-2.0
// log.h: asynchronous logging. Any thread puts a formatted text into a lock-free ring (8 MiB unless
// configured); one writer thread takes lines out and gives them to the sinks: stderr, a rotated
// file, syslog (RFC 5424). A caller never blocks and never waits for a sink: when the ring is full
// the line is dropped and counted, and the writer says how many were lost when there is room again.
//
// Before log_start (and in the short-lived subcommands) lines go to stderr directly; after log_stop
// too, but then a line that stderr does not take at once is lost.
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include "base/base.h"

typedef enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVELS } log_level;

typedef struct log_config {
    log_level level;
    u64 ring_bytes;          // power of two
    bool to_stderr;
    const char *file;        // NULL or "" = none
    u64 file_bytes_max;      // rotate beyond this; 0 = never
    u32 file_keep;           // rotated files kept: file.1 ... file.N
    const char *syslog;      // NULL, "unix:/dev/log", "udp:host-address:port"; IP addresses only
    const char *hostname;    // for RFC 5424; NULL = gethostname
    void (*thread_begin)(void); // first thing of the writer thread; NULL = none
} log_config;

// Starts the writer thread. Returns 0 or -errno with the failing step in *step. Strings are copied.
// A file is created and opened once to check it; syslog need not be reachable yet. May be called
// again after log_stop, while no other thread logs.
int log_start(const log_config *config, const char **step);
// Applies a new configuration without losing lines (SIGHUP; also re-opens the file). ring_bytes
// stays. On an error (named as above) the old configuration stays. Returns before the writer has
// taken over.
int log_reload(const log_config *config, const char **step);
// Writes what is in the ring (waits at most deadline_ms for the sinks, 200 ms more for a system
// call that is under way) and ends the thread. Lines that no sink took in time are counted as
// dropped.
void log_stop(u32 deadline_ms);

// Cheap test before building arguments.
bool log_enabled(log_level level);
// One line, without newline. Control characters are escaped: a peer can not forge a line. Longer
// than LIMIT_LOG_LINE_BYTES is cut and marked.
void log_write(log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) \
    do { \
        if (log_enabled(LOG_DEBUG)) log_write(LOG_DEBUG, __VA_ARGS__); \
    } while (0)

typedef struct log_stats {
    u64 lines;    // taken out of the ring by the writer
    u64 dropped;  // ring full, or (once per sink) the buffer of a stalled or failing sink full
    u64 sink_errors; // failed writes, opens, renames and connects
    u64 ring_bytes, ring_used_max;
} log_stats;
log_stats log_stats_get(void); // any thread

// Following (sluice ctl log): the last lines are also kept in a small in-memory tail of 256 KiB
// owned by the writer. Copies complete lines with number > *after, oldest first, newline separated,
// into out; returns bytes, sets *after. Any thread.
size_t log_tail_read(u64 *after, char *out, size_t out_bytes);

const char *log_level_name(log_level level);           // "error" ...
bool log_level_parse(const char *name, log_level *out);

#endif
