// SPDX-License-Identifier: Apache-2.0
// log_lines.h: what the tests of the log share: reading files back, checking a line's form, a
// stderr that is a pipe (read, or full and never read).
#ifndef SLUICE_TESTS_LOG_LINES_H
#define SLUICE_TESTS_LOG_LINES_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

static inline void sleep_ms(u32 ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000 * NS_PER_MS)};
    nanosleep(&t, NULL);
}

// The whole file, terminated; "" when it is missing. The caller frees it.
static inline char *file_text(const char *path) {
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) != 0) abort();
    char *text = calloc(1, (size_t)st.st_size + 1);
    if (text == NULL) abort();
    ssize_t n = fd >= 0 ? read(fd, text, (size_t)st.st_size) : 0;
    if (n < 0) abort();
    text[n] = '\0';
    if (fd >= 0) close(fd);
    return text;
}

static inline bool file_has(const char *path, const char *part) {
    char *text = file_text(path);
    bool found = strstr(text, part) != NULL;
    free(text);
    return found;
}

// How long a test waits for the writer, which may be without a processor for a while: a guard and no measure.
#define GUARD_MS 30000u

// Waits for a file to contain something.
static inline bool file_gets(const char *path, const char *part) {
    for (u32 ms = 0; ms < GUARD_MS; ms += 5) {
        if (file_has(path, part)) return true;
        sleep_ms(5);
    }
    return false;
}

// "2026-11-30T10:40:04.123Z LEVEL text\n": the form of time and level, and nothing unprintable.
static inline bool line_is_wellformed(const char *line, size_t len) {
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
    if (len < sizeof(form) || line[len - 1] != '\n') return false;
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        bool digit = line[i] >= '0' && line[i] <= '9';
        if (form[i] == 'd' ? !digit : line[i] != form[i]) return false;
    }
    const char *level = line + sizeof(form) - 1;
    bool known = strncmp(level, "ERROR ", 6) == 0 || strncmp(level, "WARN ", 5) == 0 ||
                 strncmp(level, "INFO ", 5) == 0 || strncmp(level, "DEBUG ", 6) == 0;
    for (size_t i = 0; i < len - 1; i++) {
        if ((u8)line[i] < 0x20 || line[i] == 0x7f) return false;
    }
    return known;
}

// Calls back for each line; returns how many are not well formed.
typedef void (*line_look)(const char *line, size_t len, void *context);
static inline u64 lines_each(const char *text, line_look each, void *context) {
    u64 malformed = 0;
    while (*text != '\0') {
        const char *newline = strchr(text, '\n');
        size_t len = newline == NULL ? strlen(text) : (size_t)(newline - text) + 1;
        malformed += !line_is_wellformed(text, len);
        if (each != NULL) each(text, len, context);
        text += len;
    }
    return malformed;
}

// The number in a line "... N lines dropped", else 0.
static inline u64 line_dropped(const char *line, size_t len) {
    char text[64] = {0};
    const char *at = memmem(line, len, "WARN log: ", 10);
    unsigned long long n = 0;
    int end = 0;
    if (at == NULL) return 0;
    memcpy(text, at, MIN((size_t)(line + len - at), sizeof(text) - 1));
    return sscanf(text, "WARN log: %llu lines dropped%n", &n, &end) == 1 && end > 0 ? n : 0;
}

// stderr put aside and replaced by a pipe.
static struct {
    bool active;
    int saved, reader;
} stderr_pipe;

static inline void stderr_to_pipe(void) {
    int ends[2];
    fflush(stderr);
    stderr_pipe.saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (stderr_pipe.saved < 0 || pipe2(ends, O_CLOEXEC) != 0) abort();
    if (dup2(ends[1], STDERR_FILENO) < 0) abort();
    close(ends[1]);
    stderr_pipe.reader = ends[0];
    stderr_pipe.active = true;
}

// Until not even one byte fits.
static inline void stderr_fill(void) {
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    static const char zeroes[4096];
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    while (write(STDERR_FILENO, zeroes, sizeof(zeroes)) > 0) {
    }
    fcntl(STDERR_FILENO, F_SETFL, flags);
}

// The reader goes away.
static inline void stderr_pipe_break(void) {
    close(stderr_pipe.reader);
    stderr_pipe.reader = -1;
}

// Harmless when nothing was replaced.
static inline void stderr_restore(void) {
    if (!stderr_pipe.active) return;
    stderr_pipe.active = false;
    dup2(stderr_pipe.saved, STDERR_FILENO);
    close(stderr_pipe.saved);
    if (stderr_pipe.reader >= 0) close(stderr_pipe.reader);
}

#endif
