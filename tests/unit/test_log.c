// SPDX-License-Identifier: Apache-2.0
// test_log.c: the text of a line, the ring's corners, and each sink: what arrives, what happens
// when it fails or stalls, and that nothing is lost without being counted.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/log_ring.h"
#include "base/log_text.h"
#include "log_lines.h"

static char dir[64], log_path[96];

static void start(log_config config) {
    const char *step = NULL;
    if (config.ring_bytes == 0) config.ring_bytes = 1u << 20;
    int rc = log_start(&config, &step);
    if (rc != 0) print_error("log_start: %s: %s\n", step, errno_name(rc));
    assert_int_equal(rc, 0);
}

static void paths_clean(void) {
    char path[128];
    unlink(log_path);
    for (u32 i = 1; i < 9; i++) {
        snprintf(path, sizeof(path), "%s.%u", log_path, i);
        unlink(path);
    }
}

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

static void read_all(int fd, char *out, size_t bytes) {
    size_t used = 0;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    while (poll(&poll_fd, 1, 100) > 0) {
        ssize_t n = read(fd, out + used, bytes - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    out[used] = '\0';
}

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
    log_stop(1000);
    log_error("after");
    read_all(stderr_pipe.reader, out, sizeof(out));
    const char *running = strstr(out, "Z DEBUG running\n"), *after = strstr(out, "Z ERROR after\n");
    assert_true(running != NULL && after != NULL && running < after);
    assert_int_equal(lines_each(out, NULL, NULL), 0);
    // After the stop a full pipe must not hold up the end of the process.
    stderr_fill();
    u64 before = clock_mono_ns();
    log_error("nobody reads this");
    assert_true(clock_mono_ns() - before < NS_PER_S);
    log_stop(1000); // harmless
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
    log_stop(5000);
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
    assert_true(took_ns >= 250 * NS_PER_MS && took_ns < 2 * NS_PER_S);
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
    stderr_to_pipe();
    start((log_config){.level = LOG_INFO, .to_stderr = true, .ring_bytes = 8u << 20});
    for (u32 i = 0; i < LINES; i++) log_info("line %05u of a late reader", i);
    sleep_ms(300);
    u64 dropped = 0, lines = 0;
    read_all(stderr_pipe.reader, out, sizeof(out));
    log_info("the last");
    log_stop(1000);
    read_all(stderr_pipe.reader, out + strlen(out), sizeof(out) - strlen(out));
    assert_int_equal(lines_each(out, add_dropped, &dropped), 0);
    lines_each(out, count_line, &lines);
    assert_true(dropped > 0);
    assert_int_equal(lines + dropped, LINES);
    assert_non_null(strstr(out, "INFO the last\n"));
    stderr_restore();
}

static void test_stderr_without_a_reader(void **state) {
    (void)state;
    log_stats before = log_stats_get();
    stderr_to_pipe();
    stderr_pipe_break();
    start((log_config){.level = LOG_INFO, .to_stderr = true, .file = log_path});
    log_info("to whom it may concern");
    assert_true(file_gets(log_path, "ERROR log: stderr fails with EPIPE, trying again in 1000 ms"));
    u64 started = clock_mono_ns();
    log_stop(5000); // one more attempt, no waiting
    assert_true(clock_mono_ns() - started < 2 * NS_PER_S);
    u64 errors = log_stats_get().sink_errors - before.sink_errors;
    assert_true(errors >= 1 && errors <= 3);
    stderr_restore();
    paths_clean();
}

// --- file ---

static u64 file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (u64)st.st_size : 0;
}

static void test_rotation(void **state) {
    (void)state;
    enum { LINES = 1000 };
    char path[128];
    start((log_config){
        .level = LOG_INFO, .file = log_path, .file_bytes_max = 10000, .file_keep = 3});
    for (u32 i = 0; i < LINES; i++) {
        log_info("line %05u %s", i, "with something behind it to fill the file");
        if (i % 100 == 0) sleep_ms(3);
    }
    log_stop(5000);
    // The newest file ends with the last line; each continues the one before.
    u32 next = LINES, files = 0;
    for (u32 f = 0; f <= 4; f++) {
        if (f == 0) snprintf(path, sizeof(path), "%s", log_path);
        else snprintf(path, sizeof(path), "%s.%u", log_path, f);
        char *text = file_text(path);
        assert_true(file_size(path) <= 10000);
        assert_int_equal(lines_each(text, NULL, NULL), 0);
        if (text[0] != '\0') {
            const char *first = strstr(text, "INFO line "), *last = NULL;
            for (const char *at = first; at != NULL; at = strstr(at + 1, "INFO line ")) last = at;
            assert_int_equal(strtoul(last + 10, NULL, 10), next - 1);
            next = (u32)strtoul(first + 10, NULL, 10);
            files++;
        }
        free(text);
    }
    assert_int_equal(files, 4); // file, file.1, file.2, file.3
    paths_clean();

    // Without kept files the old one goes.
    start((log_config){
        .level = LOG_INFO, .file = log_path, .file_bytes_max = 1000, .file_keep = 0});
    for (u32 i = 0; i < 100; i++) log_info("line %05u", i);
    log_stop(5000);
    assert_true(file_size(log_path) > 0 && file_size(log_path) <= 1000);
    snprintf(path, sizeof(path), "%s.1", log_path);
    assert_int_equal(file_size(path), 0);
    paths_clean();
}

static void test_rotation_that_fails(void **state) {
    (void)state;
    char path[128];
    u64 errors = log_stats_get().sink_errors;
    snprintf(path, sizeof(path), "%s.1", log_path); // a directory in the way
    assert_int_equal(mkdir(path, 0700), 0);
    start((log_config){
        .level = LOG_INFO, .file = log_path, .file_bytes_max = 1000, .file_keep = 1});
    for (u32 i = 0; i < 100; i++) log_info("line %05u", i);
    sleep_ms(100);
    assert_true(file_size(log_path) <= 1000);
    errors = log_stats_get().sink_errors - errors;
    assert_true(errors >= 1 && errors <= 2); // backs off
    assert_int_equal(rmdir(path), 0);
    log_stop(5000); // one more attempt
    assert_true(file_has(log_path, "line 00099"));
    paths_clean();
}

static void test_disk_full(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip(); // no device to stand for a full disk
    char out[65536];
    log_stats before = log_stats_get();
    stderr_to_pipe();
    start((log_config){.level = LOG_INFO, .to_stderr = true, .file = "/dev/full"});
    for (u32 i = 0; i < 200; i++) log_info("line %u", i);
    sleep_ms(300);
    log_stats stats = log_stats_get();
    assert_int_equal(stats.sink_errors - before.sink_errors, 1); // no spinning
    u64 started = clock_mono_ns();
    log_stop(5000);
    assert_true(clock_mono_ns() - started < 2 * NS_PER_S);
    read_all(stderr_pipe.reader, out, sizeof(out));
    assert_non_null(strstr(out, "ERROR log: file fails with ENOSPC, trying again in 1000 ms\n"));
    assert_non_null(strstr(out, "line 199\n"));
    // All 200 and the log's own line about it.
    assert_true(log_stats_get().dropped - before.dropped >= 200);
    stderr_restore();
}

static void test_directory_away(void **state) {
    (void)state;
    char nested[96], away[96], file[128], path[160];
    snprintf(nested, sizeof(nested), "%s/nested", dir);
    snprintf(away, sizeof(away), "%s/away", dir);
    snprintf(file, sizeof(file), "%s/x.log", nested);
    assert_int_equal(mkdir(nested, 0700), 0);
    start((log_config){.level = LOG_INFO, .file = file, .file_bytes_max = 100, .file_keep = 9});
    log_info("a first line, and it is not too short, so that the next one no longer fits");
    assert_true(file_gets(file, "a first line"));
    // The rotation finds nothing to rename, and can not open the new file.
    assert_int_equal(rename(nested, away), 0);
    for (u32 i = 0; i < 3; i++) log_info("while it was away %u, and some more to fill the file", i);
    sleep_ms(100);
    assert_int_equal(rename(away, nested), 0);
    assert_true(file_gets(file, "log: file works again")); // after the back-off, by itself
    log_stop(1000);
    u32 found = 0;
    for (u32 f = 0; f <= 9; f++) {
        snprintf(path, sizeof(path), f == 0 ? "%s" : "%s.%u", file, f);
        found += file_has(path, "away 0,") + file_has(path, "away 1,") + file_has(path, "away 2,");
        assert_true(file_size(path) <= 108); // one line, the first being longer than the bound
        unlink(path);
    }
    assert_int_equal(found, 3);
    assert_int_equal(rmdir(nested), 0);
}

static void test_reload(void **state) {
    (void)state;
    char second[128], moved[128];
    const char *step = NULL;
    snprintf(second, sizeof(second), "%s/second.log", dir);
    snprintf(moved, sizeof(moved), "%s/moved.log", dir);
    start((log_config){.level = LOG_INFO, .file = log_path});
    log_info("one");
    assert_true(file_gets(log_path, "INFO one"));
    // logrotate: the file is renamed, then the reload opens a new one.
    assert_int_equal(rename(log_path, moved), 0);
    log_info("two");
    assert_true(file_gets(moved, "INFO two"));
    log_config config = {
        .level = LOG_DEBUG, .file = log_path, .ring_bytes = LIMIT_LOG_RING_BYTES_MIN};
    assert_int_equal(log_reload(&config, &step), 0);
    assert_true(log_enabled(LOG_DEBUG));
    for (u32 i = 0; i < 500 && file_has(log_path, "three") == false; i++) {
        log_debug("three");
        sleep_ms(5);
    }
    assert_true(file_has(log_path, "DEBUG three"));
    // A mistake leaves everything as it was.
    config.file = "/nonexistent/x.log";
    config.level = LOG_ERROR;
    assert_int_equal(log_reload(&config, &step), -ENOENT);
    assert_string_equal(step, "log file");
    assert_true(log_enabled(LOG_DEBUG));
    log_info("four");
    assert_true(file_gets(log_path, "INFO four"));
    // Many reloads in a row lose nothing.
    config.level = LOG_INFO;
    for (u32 i = 0; i < 200; i++) {
        config.file = i % 2 == 0 ? second : log_path;
        log_info("number %03u", i);
        assert_int_equal(log_reload(&config, &step), 0);
    }
    log_stop(2000);
    char *a = file_text(log_path), *b = file_text(second), part[32];
    for (u32 i = 0; i < 200; i++) {
        snprintf(part, sizeof(part), "number %03u\n", i);
        assert_int_equal((strstr(a, part) != NULL) + (strstr(b, part) != NULL), 1);
    }
    free(a);
    free(b);
    unlink(second);
    unlink(moved);
    paths_clean();
}

static void test_configuration_errors(void **state) {
    (void)state;
    const char *step = NULL;
    log_config config = {.ring_bytes = 100000};
    assert_int_equal(log_start(&config, &step), -EINVAL);
    assert_string_equal(step, "log ring size");
    config.ring_bytes = LIMIT_LOG_RING_BYTES_MIN / 2;
    assert_int_equal(log_start(&config, &step), -EINVAL);
    config.ring_bytes = LIMIT_LOG_RING_BYTES_MIN;
    config.file = "/nonexistent/x.log";
    assert_int_equal(log_start(&config, &step), -ENOENT);
    assert_string_equal(step, "log file");
    config.file = NULL;
    static const char *const wrong[] = {
        "tcp:127.0.0.1:514", "udp:localhost:514",   "udp:127.0.0.1",    "udp:127.0.0.1:0",
        "udp:127.0.0.1:",    "udp:127.0.0.1:65536", "udp:127.0.0.1:5x", "udp:127.0.0.1:+5",
        "udp::514",          "udp:[::1:514",        "unix:",            "/dev/log",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        config.syslog = wrong[i];
        assert_int_equal(log_start(&config, &step), -EINVAL);
        assert_string_equal(step, "log syslog address");
    }
}

// --- syslog ---

static void expect_datagram(int fd, const char *priority, const char *text) {
    char got[8192], *at = got;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, 5000), 1);
    ssize_t n = recv(fd, got, sizeof(got) - 1, 0);
    assert_true(n > 0);
    got[n] = '\0';
    char tail[256];
    snprintf(tail, sizeof(tail), "Z box-1 sluice %d - - %s", (int)getpid(), text);
    assert_memory_equal(at, priority, strlen(priority));
    at += strlen(priority);
    assert_true(strlen(at) > 23);
    assert_string_equal(at + 23, tail); // behind the time
    assert_null(strchr(got, '\n'));
}

static void test_syslog_udp(void **state) {
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    char where[64];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(where, sizeof(where), "udp:127.0.0.1:%u", ntohs(address.sin_port));
    start((log_config){.level = LOG_DEBUG, .syslog = where, .hostname = "box 1"});
    log_error("an error\n<0>1 forged");
    log_warn("a warning");
    log_info("an information");
    log_debug("a detail");
    expect_datagram(fd, "<27>1 ", "an error\\n<0>1 forged");
    expect_datagram(fd, "<28>1 ", "a warning");
    expect_datagram(fd, "<30>1 ", "an information");
    expect_datagram(fd, "<31>1 ", "a detail");
    log_stop(1000);
    close(fd);
}

static void test_syslog_udp_v6(void **state) {
    (void)state;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t bytes = sizeof(address);
    char where[64];
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0) skip(); // no IPv6 here
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(where, sizeof(where), "udp:[::1]:%u", ntohs(address.sin6_port));
    start((log_config){.level = LOG_INFO, .syslog = where, .hostname = "box-1"});
    log_info("six");
    expect_datagram(fd, "<30>1 ", "six");
    log_stop(1000);
    close(fd);
}

static int unix_listen(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

// The daemon comes late, stalls, and goes away and comes back.
static void test_syslog_unix(void **state) {
    (void)state;
    char path[96], where[128];
    snprintf(path, sizeof(path), "%s/log", dir);
    snprintf(where, sizeof(where), "unix:%s", path);
    start((log_config){.level = LOG_INFO, .syslog = where, .hostname = "box-1", .file = log_path});
    log_info("before the daemon");
    assert_true(file_gets(log_path, "log: syslog fails with ENOENT"));
    int fd = unix_listen(path);
    expect_datagram(fd, "<30>1 ", "before the daemon");
    char got[256];
    assert_true(recv(fd, got, sizeof(got), 0) > 0); // "syslog fails"
    assert_true(recv(fd, got, sizeof(got), 0) > 0); // "syslog works again"
    // Its queue (ten datagrams or so) fills: lines wait, and all come once it reads again.
    for (u32 i = 0; i < 200; i++) log_info("burst %u", i);
    assert_true(file_gets(log_path, "burst 199"));
    for (u32 i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof(text), "burst %u", i);
        expect_datagram(fd, "<30>1 ", text);
    }
    close(fd);
    unlink(path);
    log_info("while it was away");
    assert_true(file_gets(log_path, "log: syslog fails with ECONNREFUSED"));
    fd = unix_listen(path);
    expect_datagram(fd, "<30>1 ", "while it was away");
    log_stop(1000);
    close(fd);
    unlink(path);
    paths_clean();
}

// --- followers ---

static void test_tail(void **state) {
    (void)state;
    static char out[LIMIT_LOG_LINE_BYTES * 4 + 64], all[300u << 10];
    u64 after = 0, skipped = 0;
    start((log_config){.level = LOG_INFO}); // no sink at all: followers still see everything
    log_info("mark");
    log_stop(1000);
    while (log_tail_read(&skipped, out, sizeof(out)) > 0) { // up to now
    }
    after = skipped;
    start((log_config){.level = LOG_INFO});
    log_info("first");
    log_info("second");
    size_t n = 0;
    for (u32 i = 0; i < 1000 && n < 60; i++, sleep_ms(2)) {
        n += log_tail_read(&after, out + n, sizeof(out) - n);
    }
    out[n] = '\0';
    assert_int_equal(after, skipped + 2);
    assert_non_null(strstr(out, "INFO first\n"));
    assert_non_null(strstr(out, "INFO second\n"));
    assert_int_equal(lines_each(out, NULL, NULL), 0);
    assert_int_equal(log_tail_read(&after, out, sizeof(out)), 0);
    assert_int_equal(after, skipped + 2);
    u64 again = skipped + 1;
    n = log_tail_read(&again, out, sizeof(out));
    out[n] = '\0';
    assert_null(strstr(out, "first"));
    assert_non_null(strstr(out, "second"));
    again = skipped;
    assert_int_equal(log_tail_read(&again, out, 10), 0); // no room for a whole line
    assert_int_equal(again, skipped);
    // More than it holds: the newest stay, whole and in order, up to 256 KiB.
    for (u32 i = 0; i < 10000; i++) {
        log_info("number %05u of many lines", i);
        if (i % 200 == 0) sleep_ms(2);
    }
    log_stop(2000);
    u64 from_start = 0;
    n = log_tail_read(&from_start, all, sizeof(all) - 1);
    all[n] = '\0';
    assert_true(n > 250u << 10 && n <= 256u << 10);
    assert_int_equal(lines_each(all, NULL, NULL), 0);
    assert_non_null(strstr(all, "number 09999 of many lines\n"));
    assert_int_equal(log_tail_read(&from_start, all, sizeof(all)), 0);
    u64 ahead = from_start + 1000; // of another life
    assert_true(log_tail_read(&ahead, all, sizeof(all)) > 0);
    assert_int_equal(ahead, from_start);
}

// What a failed test left running.
static int finish(void **state) {
    (void)state;
    log_stop(100);
    stderr_restore();
    paths_clean();
    return 0;
}

static int setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/log-XXXXXX", base == NULL || strlen(base) > 40 ? "/tmp" : base);
    if (mkdtemp(dir) == NULL) return -1;
    snprintf(log_path, sizeof(log_path), "%s/x.log", dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    paths_clean();
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_escaping, finish),
        cmocka_unit_test_teardown(test_line_form, finish),
        cmocka_unit_test_teardown(test_long_lines_are_cut, finish),
        cmocka_unit_test_teardown(test_levels, finish),
        cmocka_unit_test_teardown(test_ring_full_and_wrapped, finish),
        cmocka_unit_test_teardown(test_ring_uncommitted_record, finish),
        cmocka_unit_test_teardown(test_configuration_errors, finish),
        cmocka_unit_test_teardown(test_direct_before_start_and_after_stop, finish),
        cmocka_unit_test_teardown(test_stalled_stderr, finish),
        cmocka_unit_test_teardown(test_stalled_stderr_recovers, finish),
        cmocka_unit_test_teardown(test_stderr_without_a_reader, finish),
        cmocka_unit_test_teardown(test_rotation, finish),
        cmocka_unit_test_teardown(test_rotation_that_fails, finish),
        cmocka_unit_test_teardown(test_disk_full, finish),
        cmocka_unit_test_teardown(test_directory_away, finish),
        cmocka_unit_test_teardown(test_reload, finish),
        cmocka_unit_test_teardown(test_syslog_udp, finish),
        cmocka_unit_test_teardown(test_syslog_udp_v6, finish),
        cmocka_unit_test_teardown(test_syslog_unix, finish),
        cmocka_unit_test_teardown(test_tail, finish),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
