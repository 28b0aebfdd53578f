// SPDX-License-Identifier: Apache-2.0
// log_sinks.c: what all sinks share (pending bytes, losses, back-off), and the stderr sink.
//
// A pipe that nobody reads must not stop the writer. O_NONBLOCK on descriptor 2 itself would also
// change it for every other process that has the pipe, so the sink opens a description of its own
// through /proc/self/fd/2 and sets it there; a socket is written with MSG_DONTWAIT; where neither
// works it polls first and writes at most LOG_PIPE_BYTES, which a pipe that polls writable takes
// without blocking.
#include "base/log_sinks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// --- pending bytes ---

const char *log_pending_data(const log_sink *sink) {
    return sink->pending + sink->pending_start;
}

void log_pending_append(log_sink *sink, const char *data, u32 len) {
    ASSERT(sink->pending_len + len <= LOG_PENDING_BYTES);
    if (sink->pending_start + sink->pending_len + len > LOG_PENDING_BYTES) {
        memmove(sink->pending, log_pending_data(sink), sink->pending_len);
        sink->pending_start = 0;
    }
    memcpy(sink->pending + sink->pending_start + sink->pending_len, data, len);
    sink->pending_len += len;
}

u32 log_pending_first_line(const log_sink *sink) {
    const char *data = log_pending_data(sink);
    const char *newline = memchr(data, '\n', sink->pending_len);
    ASSERT(newline != NULL); // only whole lines are appended
    return (u32)(newline - data) + 1;
}

u32 log_pending_lines(const log_sink *sink, u32 max) {
    if (sink->pending_len <= max) return sink->pending_len;
    const char *data = log_pending_data(sink);
    const char *newline = memrchr(data, '\n', max);
    return newline == NULL ? 0 : (u32)(newline - data) + 1;
}

void log_pending_consume(log_sink *sink, u32 bytes) {
    ASSERT(bytes > 0 && bytes <= sink->pending_len);
    sink->mid_line = log_pending_data(sink)[bytes - 1] != '\n';
    sink->pending_start += bytes;
    sink->pending_len -= bytes;
    if (sink->pending_len == 0) sink->pending_start = 0;
}

// --- lines in, bytes out ---

// Room for a line and for the note about lost ones that may have to precede it.
static bool sink_has_room(const log_sink *sink, u32 bytes_used_max) {
    return sink->pending_len + 2 * (LOG_LINE_OUT_BYTES + sizeof(sink->hostname)) <= bytes_used_max;
}

// Half of the buffer must be free before a sink that lost lines takes new ones: else a slow reader
// would get a note for every other line.
static void sink_tell_lost(log_sink *sink) {
    if (sink->lost == 0 || !sink_has_room(sink, LOG_PENDING_BYTES / 2)) return;
    char text[64];
    unsigned long long lost = sink->lost;
    int len = snprintf(text, sizeof(text), "log: %llu lines dropped", lost);
    log_line line;
    log_line_make(&line, LOG_WARN, clock_real_ns(), text, (u32)len);
    sink->lost = 0;
    sink->kind->append(sink, &line);
}

void log_sink_put(log_sink *sink, const log_line *line, log_sink_counters *counters) {
    sink_tell_lost(sink);
    if (sink->lost > 0 || !sink_has_room(sink, LOG_PENDING_BYTES)) {
        sink->lost++;
        counter_add(&counters->lost, 1);
        return;
    }
    sink->kind->append(sink, line);
}

void log_sink_flush(log_sink *sink, u64 now_ns, bool writable, log_sink_counters *counters) {
    sink_tell_lost(sink);
    if (sink->pending_len == 0 || now_ns < sink->retry_ns) return;
    u32 before = sink->pending_len;
    u64 lost_before = sink->lost;
    int rc = sink->kind->write(sink);
    counter_add(&counters->lost, sink->lost - lost_before);
    sink->stalled = rc == -EAGAIN;
    if (rc == -EAGAIN) {
        // Polled writable and yet took nothing: without a pause that would spin.
        bool stuck = writable && sink->pending_len == before;
        sink->retry_ns = stuck ? now_ns + LOG_STALL_PAUSE_MS * NS_PER_MS : 0;
    } else if (rc != 0) {
        counter_add(&counters->errors, 1);
        sink->error = -rc;
        sink->backoff_ms = MIN(MAX(sink->backoff_ms * 2, LOG_BACKOFF_MIN_MS), LOG_BACKOFF_MAX_MS);
        sink->retry_ns = now_ns + sink->backoff_ms * NS_PER_MS;
        return;
    }
    if (sink->pending_len == before) return; // no news about its health
    sink->error = 0;
    sink->backoff_ms = 0;
    sink_tell_lost(sink);
}

// --- stderr ---

static void stderr_append(log_sink *sink, const log_line *line) {
    log_pending_append(sink, line->data, line->len);
}

static void stderr_open(log_sink *sink) {
    struct stat st;
    sink->fd = STDERR_FILENO;
    if (fstat(STDERR_FILENO, &st) != 0) return; // closed: write tells EBADF
    sink->is_socket = S_ISSOCK(st.st_mode);
    if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)) return;
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", STDERR_FILENO);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0) return; // no /proc, or no right to: poll first then
    sink->fd = own;
    sink->nonblocking = true;
}

static ssize_t stderr_write_some(log_sink *sink, u32 bytes) {
    if (sink->is_socket) {
        return send(sink->fd, log_pending_data(sink), bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (!sink->nonblocking) {
        struct pollfd poll_fd = {.fd = sink->fd, .events = POLLOUT};
        if (poll(&poll_fd, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
    }
    return write(sink->fd, log_pending_data(sink), bytes);
}

static int stderr_write(log_sink *sink) {
    if (sink->fd < 0) stderr_open(sink);
    while (sink->pending_len > 0) {
        u32 bytes = log_pending_lines(sink, LOG_PIPE_BYTES);
        if (bytes == 0) bytes = MIN(log_pending_first_line(sink), LOG_PIPE_BYTES);
        ssize_t written = stderr_write_some(sink, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -errno;
        if (written == 0) return -EAGAIN;
        log_pending_consume(sink, (u32)written);
    }
    return 0;
}

static void stderr_close(log_sink *sink) {
    if (sink->fd >= 0 && sink->fd != STDERR_FILENO) close(sink->fd);
    sink->fd = -1;
}

const log_sink_kind log_sink_stderr = {"stderr", stderr_append, stderr_write, stderr_close};

// --- the set ---

static log_sink *sinks_add(log_sinks *sinks, const log_sink_kind *kind) {
    log_sink *sink = &sinks->list[sinks->count];
    *sink = (log_sink){.kind = kind, .fd = -1};
    // Mapped: pages that no backlog ever reached cost nothing.
    void *memory = mmap(NULL, LOG_PENDING_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    sink->pending = memory;
    sinks->count++;
    return sink;
}

static int sinks_add_file(log_sinks *sinks, const log_config *config, const char **step) {
    log_sink *sink = sinks_add(sinks, &log_sink_file);
    if (sink == NULL || (sink->path = strdup(config->file)) == NULL) return -ENOMEM;
    sink->file_bytes_max = config->file_bytes_max;
    sink->file_keep = config->file_keep;
    *step = "log file: rotated files kept";
    if (config->file_keep > LOG_ROTATED_MAX) return -EINVAL;
    *step = "log file";
    return log_file_open_check(config->file);
}

int log_sinks_create(const log_config *config, log_sinks **out, const char **step) {
    *step = "log memory";
    log_sinks *sinks = calloc(1, sizeof(*sinks));
    if (sinks == NULL) return -ENOMEM;
    int rc = 0;
    if (config->to_stderr && sinks_add(sinks, &log_sink_stderr) == NULL) rc = -ENOMEM;
    if (rc == 0 && config->file != NULL && config->file[0] != '\0') {
        rc = sinks_add_file(sinks, config, step);
    }
    if (rc == 0 && config->syslog != NULL && config->syslog[0] != '\0') {
        *step = "log memory";
        log_sink *sink = sinks_add(sinks, &log_sink_syslog);
        if (sink != NULL) *step = "log syslog address";
        rc = sink == NULL ? -ENOMEM : log_syslog_parse(sink, config);
    }
    if (rc != 0) {
        log_sinks_free(sinks);
        return rc;
    }
    *out = sinks;
    return 0;
}

void log_sinks_free(log_sinks *sinks) {
    if (sinks == NULL) return;
    for (u32 i = 0; i < sinks->count; i++) {
        log_sink *sink = &sinks->list[i];
        sink->kind->close(sink);
        munmap(sink->pending, LOG_PENDING_BYTES);
        free(sink->path);
        free(sink->address);
    }
    free(sinks);
}

void log_sinks_replace(log_sinks *fresh, log_sinks *old, log_sink_counters *counters) {
    for (u32 o = 0; old != NULL && o < old->count; o++) {
        log_sink *from = &old->list[o];
        for (u32 f = 0; f < fresh->count; f++) {
            log_sink *to = &fresh->list[f];
            if (to->kind != from->kind) continue;
            char *memory = to->pending;
            to->pending = from->pending;
            to->pending_start = from->pending_start;
            to->pending_len = from->pending_len;
            to->mid_line = from->mid_line;
            to->lost = from->lost;
            from->pending = memory;
            from->pending_len = 0;
        }
        // Whatever is left belongs to a kind that is no longer configured.
        for (; from->pending_len > 0; log_pending_consume(from, log_pending_first_line(from))) {
            counter_add(&counters->lost, 1);
        }
    }
    log_sinks_free(old);
}
