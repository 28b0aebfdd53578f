// SPDX-License-Identifier: Apache-2.0
// base.h: what every file may use: fixed-width names, assertions that stay on in release builds, the
// two clocks, and a few arithmetic helpers. Nothing here allocates or does I/O except the two
// functions that end the process.
//
// Invariant: an ASSERT is for a programmer's error; nothing a peer, a file or the kernel can send may
// reach one.
#ifndef SLUICE_BASE_BASE_H
#define SLUICE_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define IS_POWER_OF_TWO(x) ((x) != 0 && ((x) & ((x) - 1)) == 0)
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))
#define CACHE_LINE 64

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

// Ends the process with SIGABRT after writing file, line and condition to stderr; the crash handler
// (base/crash.h) then dumps the flight recorders. Async-signal-safe.
NORETURN void base_assert_fail(const char *file, int line, const char *cond);
#define ASSERT(cond) \
    do { \
        if (UNLIKELY(!(cond))) base_assert_fail(__FILE__, __LINE__, #cond); \
    } while (0)

// Out of memory outside the data path (start-up, configuration): prints what was being allocated and
// exits with status 70. The data path never calls it: there a failed allocation is a named refusal.
NORETURN void base_out_of_memory(const char *what, size_t bytes);

// CLOCK_MONOTONIC in nanoseconds: every timeout, latency and timer. Never jumps.
u64 clock_mono_ns(void);
// CLOCK_REALTIME in nanoseconds since 1970: only for what people read (log lines) and record times.
u64 clock_real_ns(void);

// Name of an errno value ("ECONNRESET"); "E?" for an unknown one. Accepts either sign.
const char *errno_name(int err);

static inline u64 align_up_u64(u64 v, u64 to_power_of_two) {
    return (v + to_power_of_two - 1) & ~(to_power_of_two - 1);
}

// Single-writer counter that other threads may read: the owner adds, anyone loads. Compiles to plain
// moves on x86-64 and arm64; keeps the thread sanitizer satisfied without a locked instruction.
typedef struct counter {
    u64 value;
} counter;
static inline void counter_add(counter *c, u64 n) {
    __atomic_store_n(&c->value, __atomic_load_n(&c->value, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}
static inline void counter_sub(counter *c, u64 n) {
    __atomic_store_n(&c->value, __atomic_load_n(&c->value, __ATOMIC_RELAXED) - n, __ATOMIC_RELAXED);
}
static inline void counter_set(counter *c, u64 n) {
    __atomic_store_n(&c->value, n, __ATOMIC_RELAXED);
}
static inline u64 counter_get(const counter *c) {
    return __atomic_load_n(&c->value, __ATOMIC_RELAXED);
}

#endif
