// SPDX-License-Identifier: Apache-2.0
// test_log.c: the text of a line, the ring's corners, and stderr: what arrives, what happens when nobody
// reads it, and that nothing is lost without being counted. Files and syslog: test_log_sinks.c.
#include <errno.h>

#include "log_rig.h"

#include "base/log_ring.h"
#include "base/log_text.h"

// --- text ---

static void assert_escaped(const char *text, size_t len, const char *expected) {
    char out[256];
    u32 n = log_text_escape(text, (u32)len, out);
    assert_true(n < sizeof(out));
    out[n] = '\0';
    assert_string_equal(out, expected);
}

static void test_escaping(void **state) {
    (void)state;
#define ESCAPED(text, expected) assert_escaped(text, sizeof(text) - 1, expected)
    ESCAPED("plain text ~ \\ \"%s\"", "plain text ~ \\ \"%s\"");
    ESCAPED("a\nb\rc\td", "a\\nb\\rc\\td");
    ESCAPED("\x1b[31mred\x7f\x01\0", "\\x1b[31mred\\x7f\\x01\\x00");
    ESCAPED("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\xb0",
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\xb0");
    ESCAPED("\xc0\xaf", "\\xc0\\xaf");                 // overlong
    ESCAPED("\xe0\x80\xaf", "\\xe0\\x80\\xaf");        // overlong
    ESCAPED("\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf"); // overlong
    ESCAPED("\xed\xa0\x80", "\\xed\\xa0\\x80");        // surrogate
    ESCAPED("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); // beyond U+10FFFF
    ESCAPED("\xff\xfe", "\\xff\\xfe");
    ESCAPED("\xe2\x82", "\\xe2\\x82");                 // cut short
    ESCAPED("\xe2\x82z", "\\xe2\\x82z");
    ESCAPED("\xc2\x9b" "31m", "\\xc2\\x9b31m");        // C1 control sequence introducer
    ESCAPED("\xe2\x80\xa8", "\\xe2\\x80\\xa8");        // line separator
    ESCAPED("\xe2\x80\xae", "\\xe2\\x80\\xae");        // right-to-left override
#undef ESCAPED
}

static void test_line_form(void **state) {
    (void)state;
    log_line line;
    // 2026-11-30 10:40:04.123 UTC
    log_line_make(&line, LOG_WARN, 1796035204123456789ull, "hello", 5);
    line.data[line.len] = '\0';
    assert_string_equal(line.data, "2026-11-30T10:40:04.123Z WARN hello\n");
    log_line_make(&line, LOG_ERROR, 0, "", 0);
    line.data[line.len] = '\0';
    assert_string_equal(line.data, "1970-01-01T00:00:00.000Z ERROR \n");
    char worst[LIMIT_LOG_LINE_BYTES];
    memset(worst, 1, sizeof(worst));
    log_line_make(&line, LOG_ERROR, 0, worst, sizeof(worst));
    assert_true(line.len <= LOG_LINE_OUT_BYTES);
}

static u32 format(char *out, const char *text, ...) {
    va_list args;
    va_start(args, text);
    u32 len = log_text_format(out, text, args);
    va_end(args);
    return len;
}

static void test_long_lines_are_cut(void **state) {
    (void)state;
    char out[LIMIT_LOG_LINE_BYTES + 1], text[2 * LIMIT_LOG_LINE_BYTES + 1];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(format(out, "%.*s", (int)LIMIT_LOG_LINE_BYTES, text), LIMIT_LOG_LINE_BYTES);
    assert_int_equal(out[LIMIT_LOG_LINE_BYTES - 1], 'x');
    u32 cut = format(out, "%.*s", (int)LIMIT_LOG_LINE_BYTES + 1, text);
    assert_int_equal(cut, LIMIT_LOG_LINE_BYTES);
    assert_memory_equal(out + LIMIT_LOG_LINE_BYTES - 7, "x [cut]", 7);
    // A three-byte character across the cut goes as a whole, wherever it lies.
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 <= sizeof(text); i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
        text[sizeof(text) - 1] = '\0';
        u32 len = format(out, "%s", text);
        char escaped[LOG_ESCAPED_BYTES_MAX];
        u32 n = log_text_escape(out, len, escaped);
        assert_int_equal(n, len);
        assert_memory_equal(out + len - 6, " [cut]", 6);
    }
}

static void test_levels(void **state) {
    (void)state;
    log_level level;
    for (u32 i = 0; i < LOG_LEVELS; i++) {
        assert_true(log_level_parse(log_level_name((log_level)i), &level));
        assert_int_equal(level, i);
    }
    assert_false(log_level_parse("verbose", &level));
    assert_false(log_level_parse("", &level));
    assert_string_equal(log_level_name((log_level)77), "unknown");
}

// --- ring ---

static void test_ring_full_and_wrapped(void **state) {
    (void)state;
    log_ring ring;
    log_record record;
    char text[LIMIT_LOG_LINE_BYTES];
    u64 pushed = 0, popped = 0;
    assert_int_equal(log_ring_init(&ring, LIMIT_LOG_RING_BYTES_MIN), 0);
    assert_int_equal(log_ring_peek(&ring, &record), LOG_RING_EMPTY);
    for (u32 round = 0; round < 300; round++) {
        u32 len;
        for (;; pushed++) {
            len = (u32)(pushed * 37 % (LIMIT_LOG_LINE_BYTES + 1));
            memset(text, (int)(u8)pushed, len);
            if (!log_ring_push(&ring, pushed % LOG_LEVELS, pushed, text, len)) break;
        }
        u64 used = log_ring_used(&ring);
        assert_true(used + 2 * (LIMIT_LOG_LINE_BYTES + 16) > LIMIT_LOG_RING_BYTES_MIN);
        u64 keep = round * 5 % 90; // the read position drifts over the lap
        while (popped + keep < pushed && log_ring_peek(&ring, &record) == LOG_RING_RECORD) {
            assert_int_equal(record.len, popped * 37 % (LIMIT_LOG_LINE_BYTES + 1));
            assert_int_equal(record.level, popped % LOG_LEVELS);
            assert_int_equal(record.time_ns, popped);
            for (u32 i = 0; i < record.len; i++) {
                if ((u8)record.text[i] != (u8)popped) fail();
            }
            log_ring_consume(&ring, &record);
            popped++;
        }
    }
    assert_true(pushed > 10000);
    assert_true(ring.used_max <= LIMIT_LOG_RING_BYTES_MIN);
    log_ring_free(&ring);
}

// A producer that lost the processor between reserving and committing holds up nobody but the
// reader.
static void test_ring_uncommitted_record(void **state) {
    (void)state;
    log_ring ring;
    log_record record;
    assert_int_equal(log_ring_init(&ring, LIMIT_LOG_RING_BYTES_MIN), 0);
    u64 place = __atomic_fetch_add(&ring.tail, 32, __ATOMIC_RELAXED); // reserved, not committed
    assert_true(log_ring_push(&ring, LOG_INFO, 1, "after", 5));
    assert_int_equal(log_ring_peek(&ring, &record), LOG_RING_BUSY);
    assert_true(log_ring_push(&ring, LOG_INFO, 2, "more", 4));
    assert_int_equal(log_ring_peek(&ring, &record), LOG_RING_BUSY);
    memcpy(ring.memory + place + 16, "first", 5);
    u64 word = 1ull << 63 | 32ull << 24 | (u64)LOG_INFO << 16 | 5;
    __atomic_store_n((u64 *)(void *)(ring.memory + place), word, __ATOMIC_SEQ_CST);
    static const char *const expected[] = {"first", "after", "more"};
    for (u32 i = 0; i < 3; i++) {
        assert_int_equal(log_ring_peek(&ring, &record), LOG_RING_RECORD);
        assert_int_equal(record.len, strlen(expected[i]));
        assert_memory_equal(record.text, expected[i], record.len);
        log_ring_consume(&ring, &record);
    }
    assert_int_equal(log_ring_peek(&ring, &record), LOG_RING_EMPTY);
    log_ring_free(&ring);
}

// --- stderr ---

static void test_direct_before_start_and_after_stop(void **state) {
    (void)state;
    char out[4096];
    stderr_to_pipe();
    errno = 77;
    log_warn("before %d\nnot a line", 1);
    assert_int_equal(errno, 77);
    log_debug("below the level");
    read_all(stderr_pipe.reader, out, sizeof(out));
    assert_non_null(strstr(out, "Z WARN before 1\\nnot a line\n"));
    assert_null(strstr(out, "below"));
    start((log_config){.level = LOG_DEBUG, .to_stderr = true});
    log_debug("running");
    log_stop(GUARD_MS);
    log_error("after");
    read_all(stderr_pipe.reader, out, sizeof(out));
    const char *running = strstr(out, "Z DEBUG running\n"), *after = strstr(out, "Z ERROR after\n");
    assert_true(running != NULL && after != NULL && running < after);
    assert_int_equal(lines_each(out, NULL, NULL), 0);
    // After the stop a full pipe must not hold up the end of the process.
    stderr_fill();
    u64 before = clock_mono_ns();
    log_error("nobody reads this");
    assert_true(clock_mono_ns() - before < GUARD_MS * NS_PER_MS);
    log_stop(GUARD_MS); // harmless
    stderr_restore();
}

// Cost of a call, the best of some rounds: the machine has other work too.
static u64 call_ns(u32 rounds, u32 lines) {
    u64 best = UINT64_MAX;
    for (u32 r = 0; r < rounds; r++) {
        u64 started = clock_mono_ns();
        for (u32 i = 0; i < lines; i++) log_info("line %u of a stalled stderr", r * lines + i);
        best = MIN(best, (clock_mono_ns() - started) / lines);
    }
    return best;
}

// stderr a pipe that nobody reads: callers are not slowed down, other sinks get everything, the
// loss is counted, the stop keeps its deadline; a late reader is told how many lines it missed.
static void test_stalled_stderr(void **state) {
    (void)state;
    enum { LINES = 20000 };
    start((log_config){.level = LOG_INFO, .file = log_path, .ring_bytes = 8u << 20});
    u64 free_ns = call_ns(20, LINES / 20);
    log_stop(GUARD_MS);
    paths_clean();
    log_stats before = log_stats_get();
    stderr_to_pipe();
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    stderr_fill();
    start((log_config){
        .level = LOG_INFO, .to_stderr = true, .file = log_path, .ring_bytes = 8u << 20});
    u64 stalled_ns = call_ns(20, LINES / 20);
    print_message("# a call: %llu ns, with a stalled stderr %llu ns\n", (unsigned long long)free_ns,
                  (unsigned long long)stalled_ns);
    assert_true(stalled_ns < 4 * free_ns + 2000);
    // Shared with other processes: untouched.
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFL), flags);
    assert_true(file_gets(log_path, "line 19999 of"));
    log_stats stats = log_stats_get();
    assert_int_equal(stats.lines - before.lines, LINES);
    assert_true(stats.dropped > before.dropped); // 128 KiB hold about 2,000 of them
    assert_int_equal(stats.ring_bytes, 8u << 20);
    assert_true(stats.ring_used_max > 0 && stats.ring_used_max <= 8u << 20);

    u64 started = clock_mono_ns();
    log_stop(300);
    u64 took_ns = clock_mono_ns() - started;
    assert_true(took_ns >= 250 * NS_PER_MS && took_ns < GUARD_MS * NS_PER_MS);
    // Every line was for stderr too, and none got through.
    assert_int_equal(log_stats_get().dropped - before.dropped, LINES);
    char *text = file_text(log_path);
    assert_int_equal(lines_each(text, NULL, NULL), 0);
    free(text);
    stderr_restore();
    paths_clean();
}

static void add_dropped(const char *line, size_t len, void *context) {
    *(u64 *)context += line_dropped(line, len);
}

static void count_line(const char *line, size_t len, void *context) {
    *(u64 *)context += memmem(line, len, " of a late reader", 17) != NULL;
}

static void test_stalled_stderr_recovers(void **state) {
    (void)state;
    enum { LINES = 8000 };
    static char out[4u << 20];
    u64 before = log_stats_get().dropped;
    stderr_to_pipe();
    start((log_config){.level = LOG_INFO, .to_stderr = true, .ring_bytes = 8u << 20});
    for (u32 i = 0; i < LINES; i++) log_info("line %05u of a late reader", i);
    assert_true(dropped_reach(before + 1));
    u64 dropped = 0, lines = 0;
    read_all(stderr_pipe.reader, out, sizeof(out));
    log_info("the last");
    log_stop(GUARD_MS);
    read_all(stderr_pipe.reader, out + strlen(out), sizeof(out) - strlen(out));
    assert_int_equal(lines_each(out, add_dropped, &dropped), 0);
    lines_each(out, count_line, &lines);
    assert_true(dropped > 0);
    assert_int_equal(lines + dropped, LINES);
    assert_non_null(strstr(out, "INFO the last\n"));
    stderr_restore();
}

// With nothing left to write there is nothing to wait for, the deadline least of all.
static void test_stop_of_an_idle_log(void **state) {
    (void)state;
    start((log_config){.level = LOG_INFO, .file = log_path});
    log_info("all there is");
    assert_true(file_gets(log_path, "all there is"));
    sleep_ms(100); // it sleeps by now; if it does not, there is nothing to see
    u64 started = clock_mono_ns();
    log_stop(GUARD_MS);
    assert_true(clock_mono_ns() - started < GUARD_MS * NS_PER_MS / 2);
    paths_clean();
}

static void test_stderr_without_a_reader(void **state) {
    (void)state;
    log_stats before = log_stats_get();
    stderr_to_pipe();
    stderr_pipe_break();
    u64 started = clock_mono_ns();
    start((log_config){.level = LOG_INFO, .to_stderr = true, .file = log_path});
    log_info("to whom it may concern");
    assert_true(file_gets(log_path, "ERROR log: stderr fails with EPIPE, trying again in 1000 ms"));
    log_stop(UINT32_MAX); // one more attempt, no waiting
    u64 errors = log_stats_get().sink_errors - before.sink_errors;
    assert_true(errors >= 1 && errors <= 3 + (clock_mono_ns() - started) / NS_PER_S);
    stderr_restore();
    paths_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_escaping, finish),
        cmocka_unit_test_teardown(test_line_form, finish),
        cmocka_unit_test_teardown(test_long_lines_are_cut, finish),
        cmocka_unit_test_teardown(test_levels, finish),
        cmocka_unit_test_teardown(test_ring_full_and_wrapped, finish),
        cmocka_unit_test_teardown(test_ring_uncommitted_record, finish),
        cmocka_unit_test_teardown(test_direct_before_start_and_after_stop, finish),
        cmocka_unit_test_teardown(test_stop_of_an_idle_log, finish),
        cmocka_unit_test_teardown(test_stalled_stderr, finish),
        cmocka_unit_test_teardown(test_stalled_stderr_recovers, finish),
        cmocka_unit_test_teardown(test_stderr_without_a_reader, finish),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
