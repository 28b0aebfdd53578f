// SPDX-License-Identifier: Apache-2.0
// log_rig.h: set-up and teardown of the tests of a running log: a directory of their own, a start with
// defaults, and what is done away with after each test.
#ifndef SLUICE_TESTS_LOG_RIG_H
#define SLUICE_TESTS_LOG_RIG_H

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "log_lines.h"

static char dir[64], log_path[96];

static inline void start(log_config config) {
    const char *step = NULL;
    if (config.ring_bytes == 0) config.ring_bytes = 1u << 20;
    int rc = log_start(&config, &step);
    if (rc != 0) print_error("log_start: %s: %s\n", step, errno_name(rc));
    assert_int_equal(rc, 0);
}

// Waits for so many failures of sinks, or lost lines.
static inline bool sink_errors_reach(u64 count) {
    for (u32 ms = 0; ms < GUARD_MS && log_stats_get().sink_errors < count; ms += 2) sleep_ms(2);
    return log_stats_get().sink_errors >= count;
}

static inline bool dropped_reach(u64 count) {
    for (u32 ms = 0; ms < GUARD_MS && log_stats_get().dropped < count; ms += 2) sleep_ms(2);
    return log_stats_get().dropped >= count;
}

static inline void paths_clean(void) {
    char path[128];
    unlink(log_path);
    for (u32 i = 1; i < 9; i++) {
        snprintf(path, sizeof(path), "%s.%u", log_path, i);
        unlink(path);
    }
}

// Everything that can be read now, terminated.
static inline void read_all(int fd, char *out, size_t bytes) {
    size_t used = 0;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    while (poll(&poll_fd, 1, 100) > 0) {
        ssize_t n = read(fd, out + used, bytes - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    out[used] = '\0';
}

// What a failed test left running.
static inline int finish(void **state) {
    (void)state;
    log_stop(100);
    stderr_restore();
    paths_clean();
    return 0;
}

static inline int setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/log-XXXXXX", base == NULL || strlen(base) > 40 ? "/tmp" : base);
    if (mkdtemp(dir) == NULL) return -1;
    snprintf(log_path, sizeof(log_path), "%s/x.log", dir);
    return 0;
}

static inline int teardown(void **state) {
    (void)state;
    paths_clean();
    return rmdir(dir);
}

#endif
