// SPDX-License-Identifier: Apache-2.0
// test_log_mt.c: many threads log at once, followers read, the configuration is reloaded: each line
// is either in the file, whole and in its thread's order, or counted as dropped.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/log_ring.h"
#include "log_lines.h"

#define PRODUCERS 6u
#define LINES 8000u

static char log_path[96];
static u32 stop; // atomic

// At once where the other side has a processor; where it has none, spinning would keep it from one.
static void wait_turn(u64 looks) {
    if (looks < 100) sched_yield();
    else nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

// --- the ring alone ---

typedef struct ring_producer {
    log_ring *ring;
    u32 id;
} ring_producer;

static void *ring_push_all(void *argument) {
    ring_producer *p = argument;
    char text[128], fill[90 + 1] = {0};
    u64 refused = 0;
    memset(fill, '#', 90);
    for (u32 i = 0; i < LINES;) {
        int fill_len = (int)(i * 7 % 90);
        u32 len = (u32)snprintf(text, sizeof(text), "%u %u %.*s", p->id, i, fill_len, fill);
        if (log_ring_push(p->ring, p->id % LOG_LEVELS, i, text, len)) {
            i++;
            refused = 0;
        } else {
            wait_turn(++refused);
        }
    }
    return NULL;
}

static void test_ring(void **state) {
    (void)state;
    log_ring ring;
    pthread_t threads[PRODUCERS];
    ring_producer producers[PRODUCERS];
    u32 next[PRODUCERS] = {0};
    u64 wrong = 0, seen = 0, looks = 0, progress_ns = clock_mono_ns();
    assert_int_equal(log_ring_init(&ring, LIMIT_LOG_RING_BYTES_MIN), 0);
    for (u32 i = 0; i < PRODUCERS; i++) {
        producers[i] = (ring_producer){.ring = &ring, .id = i};
        assert_int_equal(pthread_create(&threads[i], NULL, ring_push_all, &producers[i]), 0);
    }
    while (seen < PRODUCERS * LINES && clock_mono_ns() - progress_ns < GUARD_MS * NS_PER_MS) {
        log_record record;
        if (log_ring_peek(&ring, &record) != LOG_RING_RECORD) {
            wait_turn(++looks);
            continue;
        }
        looks = 0;
        progress_ns = clock_mono_ns();
        char text[256];
        unsigned id = 0, number = 0;
        memcpy(text, record.text, record.len);
        text[record.len] = '\0';
        int got = sscanf(text, "%u %u", &id, &number);
        if (got != 2 || id >= PRODUCERS || number != next[id] || record.time_ns != number ||
            record.level != id % LOG_LEVELS ||
            strspn(strrchr(text, ' ') + 1, "#") != number * 7 % 90) {
            wrong++;
        } else {
            next[id]++;
        }
        log_ring_consume(&ring, &record);
        seen++;
    }
    for (u32 i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(seen, PRODUCERS * LINES);
    log_ring_free(&ring);
}

// --- the whole log ---

static void *log_all(void *argument) {
    u32 id = (u32)(uintptr_t)argument;
    for (u32 i = 0; i < LINES; i++) {
        log_info("producer %u line %u end", id, i);
        if (i % 64 == id) sched_yield();
    }
    return NULL;
}

static void *follow(void *argument) {
    static char out[64u << 10];
    u64 *malformed = argument, after = 0;
    while (__atomic_load_n(&stop, __ATOMIC_ACQUIRE) == 0) {
        size_t n = log_tail_read(&after, out, sizeof(out) - 1);
        out[n] = '\0';
        *malformed += lines_each(out, NULL, NULL);
        log_stats_get();
        sleep_ms(1);
    }
    return NULL;
}

typedef struct found {
    u32 next[PRODUCERS]; // lowest number that may come
    u64 lines, told, wrong;
} found;

static void look_at(const char *line, size_t len, void *context) {
    found *f = context;
    unsigned id = 0, number = 0;
    const char *at = memmem(line, len, "INFO producer ", 14);
    if (at == NULL) {
        f->told += line_dropped(line, len);
        return;
    }
    int end = 0;
    if (sscanf(at, "INFO producer %u line %u end%n", &id, &number, &end) != 2 || end == 0 ||
        at + end + 1 != line + len || id >= PRODUCERS || number < f->next[id]) {
        f->wrong++;
        return;
    }
    f->next[id] = number + 1;
    f->lines++;
}

// ring_bytes: small, so that lines are dropped, or large, so that none is.
static void run_all(u64 ring_bytes, bool reload) {
    log_stats before = log_stats_get();
    log_config config = {.level = LOG_INFO, .file = log_path, .ring_bytes = ring_bytes};
    const char *step = NULL;
    pthread_t threads[PRODUCERS], follower;
    u64 malformed = 0;
    assert_int_equal(log_start(&config, &step), 0);
    __atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
    assert_int_equal(pthread_create(&follower, NULL, follow, &malformed), 0);
    for (u32 i = 0; i < PRODUCERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, log_all, (void *)(uintptr_t)i), 0);
    }
    for (u32 i = 0; i < 20 && reload; i++) {
        assert_int_equal(log_reload(&config, &step), 0);
        sleep_ms(2);
    }
    for (u32 i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
    log_stop(GUARD_MS);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(follower, NULL);

    found f = {0};
    char *text = file_text(log_path);
    assert_int_equal(lines_each(text, look_at, &f), 0);
    free(text);
    unlink(log_path);
    log_stats after = log_stats_get();
    u64 dropped = after.dropped - before.dropped;
    assert_int_equal(malformed, 0);
    assert_int_equal(f.wrong, 0);
    assert_int_equal(f.lines + dropped, PRODUCERS * LINES);
    assert_int_equal(f.told, dropped);
    assert_int_equal(after.lines - before.lines, f.lines);
    if (ring_bytes >= 8u << 20) assert_int_equal(dropped, 0);
}

static void test_nothing_lost(void **state) {
    (void)state;
    run_all(8u << 20, true);
}

static void test_small_ring_drops_and_tells(void **state) {
    (void)state;
    run_all(LIMIT_LOG_RING_BYTES_MIN, false);
}

// The writer sleeps between lines: each must wake it, without a time-out to fall back on.
static void test_no_wake_up_is_lost(void **state) {
    (void)state;
    log_config config = {.level = LOG_INFO, .ring_bytes = LIMIT_LOG_RING_BYTES_MIN};
    const char *step = NULL;
    assert_int_equal(log_start(&config, &step), 0);
    u64 lines = log_stats_get().lines;
    for (u32 i = 0; i < 1000; i++) {
        log_info("wake %u", i);
        u64 deadline = clock_mono_ns() + GUARD_MS * NS_PER_MS;
        for (u32 looks = 0; log_stats_get().lines == lines + i && clock_mono_ns() < deadline; looks++) wait_turn(looks);
        assert_int_equal(log_stats_get().lines, lines + i + 1);
        // Sometimes while it dozes, sometimes just as it falls asleep, sometimes long after.
        struct timespec pause = {.tv_nsec = (long)(i * 37 % 40) * 100000};
        if (i % 3 != 0) nanosleep(&pause, NULL);
    }
    log_stop(GUARD_MS);
}

static int setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    if (base == NULL || strlen(base) > 40) base = "/tmp";
    snprintf(log_path, sizeof(log_path), "%s/log-mt-XXXXXX", base);
    int fd = mkstemp(log_path);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink(log_path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_nothing_lost),
        cmocka_unit_test(test_small_ring_drops_and_tells),
        cmocka_unit_test(test_no_wake_up_is_lost),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
