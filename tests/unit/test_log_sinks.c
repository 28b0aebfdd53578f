// SPDX-License-Identifier: Apache-2.0
// test_log_sinks.c: the log's files and syslog, reloads, and the tail for followers: what arrives, what
// happens when a sink fails, and that nothing is lost without being counted.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "limits.h"
#include "log_rig.h"

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
    log_stop(GUARD_MS);
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
    log_stop(GUARD_MS);
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
    u64 started = clock_mono_ns();
    start((log_config){
        .level = LOG_INFO, .file = log_path, .file_bytes_max = 1000, .file_keep = 1});
    for (u32 i = 0; i < 100; i++) log_info("line %05u", i);
    assert_true(sink_errors_reach(errors + 1));
    sleep_ms(100);
    assert_true(file_size(log_path) <= 1000);
    errors = log_stats_get().sink_errors - errors;
    assert_true(errors <= 2 + (clock_mono_ns() - started) / NS_PER_S); // backs off
    assert_int_equal(rmdir(path), 0);
    log_stop(GUARD_MS); // one more attempt
    assert_true(file_has(log_path, "line 00099"));
    paths_clean();
}

static void test_disk_full(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip(); // no device to stand for a full disk
    char out[65536];
    log_stats before = log_stats_get();
    stderr_to_pipe();
    u64 started = clock_mono_ns();
    start((log_config){.level = LOG_INFO, .to_stderr = true, .file = "/dev/full"});
    for (u32 i = 0; i < 200; i++) log_info("line %u", i);
    assert_true(sink_errors_reach(before.sink_errors + 1));
    sleep_ms(300);
    u64 errors = log_stats_get().sink_errors - before.sink_errors;
    assert_true(errors <= 1 + (clock_mono_ns() - started) / NS_PER_S); // no spinning
    log_stop(UINT32_MAX); // one more attempt, no waiting
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
    u64 errors = log_stats_get().sink_errors;
    for (u32 i = 0; i < 3; i++) log_info("while it was away %u, and some more to fill the file", i);
    assert_true(sink_errors_reach(errors + 1));
    assert_int_equal(rename(away, nested), 0);
    assert_true(file_gets(file, "log: file works again")); // after the back-off, by itself
    log_stop(GUARD_MS);
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
    for (u32 ms = 0; ms < GUARD_MS && file_has(log_path, "three") == false; ms += 5) {
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
    log_stop(GUARD_MS);
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
    log_stop(GUARD_MS);
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
    log_stop(GUARD_MS);
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
    log_stop(GUARD_MS);
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
    log_stop(GUARD_MS);
    while (log_tail_read(&skipped, out, sizeof(out)) > 0) { // up to now
    }
    after = skipped;
    start((log_config){.level = LOG_INFO});
    log_info("first");
    log_info("second");
    size_t n = 0;
    for (u32 ms = 0; ms < GUARD_MS && n < 60; ms += 2, sleep_ms(2)) {
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
    log_stop(GUARD_MS);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_configuration_errors, finish),
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
