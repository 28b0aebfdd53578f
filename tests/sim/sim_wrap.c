// SPDX-License-Identifier: Apache-2.0
// sim_wrap.c: see sim_wrap.h. While no simulated world exists the real functions are used.
#include "sim_wrap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "io/sim.h"

u64 __real_clock_mono_ns(void);
u64 __real_clock_real_ns(void);
int __real_close(int fd);
u64 __wrap_clock_mono_ns(void);
u64 __wrap_clock_real_ns(void);
int __wrap_close(int fd);
const u8 *__wrap_siphash_process_key(void);
bool __wrap_log_enabled(log_level level);
void __wrap_log_write(log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

static sim_log_hook log_hook;
static void *log_context;
static i64 wall_ns;

u64 __wrap_clock_mono_ns(void) {
    sim *s = sim_world();
    return s != NULL ? sim_now_ns(s) : __real_clock_mono_ns();
}

u64 __wrap_clock_real_ns(void) {
    sim *s = sim_world();
    return s != NULL ? sim_now_ns(s) + 1000000000ull * NS_PER_S + (u64)wall_ns : __real_clock_real_ns();
}

void sim_wall_set(i64 ns) {
    wall_ns = ns;
}

int __wrap_close(int fd) {
    if (!sim_fd_is_fake(fd)) return __real_close(fd);
    int result = sim_fd_close(sim_world(), fd);
    ASSERT(result == 0); // closed twice, or never open
    return 0;
}

const u8 *__wrap_siphash_process_key(void) {
    static const u8 key[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    return key;
}

void sim_log_set(sim_log_hook hook, void *context) {
    log_hook = hook;
    log_context = context;
}

bool __wrap_log_enabled(log_level level) {
    (void)level;
    return true;
}

void __wrap_log_write(log_level level, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (log_hook != NULL) log_hook(log_context, level, line);
}
