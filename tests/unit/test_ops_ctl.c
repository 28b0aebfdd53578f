// SPDX-License-Identifier: Apache-2.0
// test_ops_ctl.c: `sluice ctl` against a gateway that is one thread with prepared answers: exit statuses, what is
// asked, what is printed, and answers that break off or make no sense.
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "ops/ctl.h"

#define SOCKET_NAME "ctl-test.sock"

typedef struct server {
    int listen_fd;
    const char *answer;
    char request[4096];
    pthread_t thread;
} server;

static void *serve(void *argument) {
    server *s = argument;
    int fd = accept(s->listen_fd, NULL, NULL);
    size_t len = 0;
    ssize_t n;
    // Until the head is there, and the body that these tests send.
    while (len + 1 < sizeof(s->request) && (n = read(fd, s->request + len, sizeof(s->request) - 1 - len)) > 0) {
        len += (size_t)n;
        s->request[len] = '\0';
        const char *end = strstr(s->request, "\r\n\r\n"), *length = strstr(s->request, "Content-Length: ");
        size_t body = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
        if (end != NULL && strlen(end + 4) >= body) break;
    }
    for (const char *at = s->answer; *at != '\0';) { // in small pieces
        size_t take = MIN(strlen(at), 7u);
        if (send(fd, at, take, MSG_NOSIGNAL) < 0) break;
        at += take;
    }
    close(fd);
    return NULL;
}

static void server_start(server *s, const char *answer) {
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = SOCKET_NAME};
    memset(s, 0, sizeof(*s));
    s->answer = answer;
    unlink(SOCKET_NAME);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(s->listen_fd, 1), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(server *s) {
    pthread_join(s->thread, NULL);
    close(s->listen_fd);
    unlink(SOCKET_NAME);
}

static char printed[65536], complained[65536];

static void read_file(const char *name, char *out, size_t size) {
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(name);
}

// Runs ctl with the given words; its output goes to `printed` and `complained`.
static int run(const char *words) {
    char line[512], *argv[32] = {"ctl"}, *save = NULL;
    int argc = 1;
    snprintf(line, sizeof(line), "%s", words);
    for (char *word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) argv[argc++] = word;
    fflush(stdout);
    fflush(stderr);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    int to_out = open("ctl-out", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    int to_err = open("ctl-err", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(dup2(to_out, STDOUT_FILENO) >= 0 && dup2(to_err, STDERR_FILENO) >= 0);
    int status = ctl_main(argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(to_out);
    close(to_err);
    read_file("ctl-out", printed, sizeof(printed));
    read_file("ctl-err", complained, sizeof(complained));
    return status;
}

// One command against one answer. Returns the exit status; what was asked is in *s.
static int exchange(server *s, const char *words, const char *answer) {
    char line[512];
    server_start(s, answer);
    snprintf(line, sizeof(line), "--socket %s %s", SOCKET_NAME, words);
    int status = run(line);
    server_stop(s);
    return status;
}

#define OK_JSON(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body

static void test_wrong_command_lines(void **state) {
    (void)state;
    static const char *const lines[] = {
        "",             "nonsense",          "status extra",        "conn",          "conn 1 2",
        "--bogus",      "status --follow",   "conns --limit",       "log --conn 1",  "publish",
        "publish a b c", "--socket",          "--socket a --addr b:1 status", "--addr nonsense status",
        "trace --level x",
        "-c no-such-file.conf status",
    };
    for (u32 i = 0; i < ARRAY_LEN(lines); i++) {
        if (run(lines[i]) != CTL_USAGE) fail_msg("%s: %s", lines[i], complained);
        assert_string_equal(printed, "");
        assert_true(strlen(complained) > 10);
    }
    assert_int_equal(run("--help"), CTL_OK);
    assert_non_null(strstr(printed, "usage: sluice ctl"));
}

static void test_no_gateway(void **state) {
    (void)state;
    assert_int_equal(run("--socket none.sock status"), CTL_NO_GATEWAY);
    assert_non_null(strstr(complained, "none.sock"));
    assert_non_null(strstr(complained, "--socket"));
    assert_int_equal(run("status"), CTL_NO_GATEWAY); // the default's place
    assert_non_null(strstr(complained, "sluice-data/ctl.sock"));
    assert_int_equal(run("--addr 127.0.0.1:1 status"), CTL_NO_GATEWAY);
    assert_non_null(strstr(complained, "127.0.0.1:1"));
    char long_path[300];
    snprintf(long_path, sizeof(long_path), "--socket %0200d status", 0);
    assert_int_equal(run(long_path), CTL_USAGE);
}

static void test_what_is_asked(void **state) {
    (void)state;
    static const struct {
        const char *words, *line;
    } rows[] = {
        {"status", "GET /api/status HTTP/1.1\r\n"},
        {"conns --peer 10.0.0.0/8 --sort idle --admin",
         "GET /api/conns?peer=10.0.0.0/8&sort=idle&admin=1 HTTP/1.1\r\n"},
        {"conns --json --listener a&b=c", "GET /api/conns?listener=a%26b%3Dc HTTP/1.1\r\n"},
        {"conn 2a/../x", "GET /api/conns/2a/../x HTTP/1.1\r\n"},
        {"kick 2a", "DELETE /api/conns/2a HTTP/1.1\r\n"},
        {"trace --conn 2a -f", "GET /api/trace?conn=2a&follow=1 HTTP/1.1\r\n"},
        {"log --level warn --follow", "GET /api/log?follow=1&level=warn HTTP/1.1\r\n"},
        {"reload", "POST /api/reload HTTP/1.1\r\n"},
        {"config", "GET /api/appliance/config HTTP/1.1\r\n"},
        {"config --json", "GET /api/appliance/config HTTP/1.1\r\n"},
        {"metrics", "GET /metrics HTTP/1.1\r\n"},
        {"publish a/b#c hello", "POST /api/publish?topic=a/b%23c HTTP/1.1\r\n"},
        {"publish -- -a --help", "POST /api/publish?topic=-a HTTP/1.1\r\n"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        server s;
        int status = exchange(&s, rows[i].words, OK_JSON("{}"));
        if (status != CTL_OK || strncmp(s.request, rows[i].line, strlen(rows[i].line)) != 0) {
            fail_msg("%s: status %d, asked %s", rows[i].words, status, s.request);
        }
        assert_non_null(strstr(s.request, "\r\nX-Sluice-Admin: 1\r\n"));
        assert_non_null(strstr(s.request, "\r\nHost: localhost\r\n"));
        if (strcmp(rows[i].words, "publish a/b#c hello") == 0) {
            assert_non_null(strstr(s.request, "\r\nContent-Length: 5\r\n"));
            assert_string_equal(strstr(s.request, "\r\n\r\n") + 4, "hello");
        }
    }
}

static void test_answers_that_are_no_success(void **state) {
    (void)state;
    static const struct {
        const char *answer;
        int status;
        const char *complaint;
    } rows[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 28\r\n\r\n{\"error\":\"no connection 2a\"}", CTL_REFUSED,
         "no connection 2a"},
        {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy", CTL_REFUSED, "status 503"},
        {"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", CTL_REFUSED, "status 302"},
        {"", CTL_BROKEN, "ended before"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", CTL_BROKEN, "ended before"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", CTL_BROKEN, "ended before"},
        {"SSH-2.0-OpenSSH\r\n", CTL_BROKEN, "not HTTP"},
        {OK_JSON("not json"), CTL_BROKEN, "not JSON"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        server s;
        int status = exchange(&s, "conn 2a", rows[i].answer);
        if (status != rows[i].status) fail_msg("%s: %d %s", rows[i].answer, status, complained);
        if (strstr(complained, rows[i].complaint) == NULL) fail_msg("%s: %s", rows[i].answer, complained);
        assert_string_equal(printed, "");
    }
}

static void test_what_is_printed(void **state) {
    (void)state;
    server s;
    assert_int_equal(exchange(&s, "conns", OK_JSON("{\"total\":7,\"offset\":0,\"conns\":[{\"id\":\"2a\",\"peer\":"
                                                   "\"192.0.2.1:5\",\"state\":\"open\\u001b[2J\",\"slow\":null,"
                                                   "\"bytes_in\":2048,\"age_seconds\":90}]}")),
                     CTL_OK);
    assert_non_null(strstr(printed, "2a  192.0.2.1:5"));
    assert_non_null(strstr(printed, "2.0k"));
    assert_non_null(strstr(printed, "1m30s"));
    assert_non_null(strstr(printed, "open?[2J")); // what a gateway says can not drive the terminal
    assert_non_null(strstr(printed, "1 of 7 shown"));
    assert_int_equal(exchange(&s, "conns --json", OK_JSON("{\"total\":0}\n")), CTL_OK);
    assert_string_equal(printed, "{\"total\":0}\n");
    assert_int_equal(exchange(&s, "status", OK_JSON("{}")), CTL_OK); // another version: nothing known is there
    assert_int_equal(exchange(&s, "conn 1", OK_JSON("[]")), CTL_OK);
    assert_int_equal(exchange(&s, "trace", OK_JSON("{\"time\":\"2026-03-01T12:00:00.000001Z\",\"worker\":1,\"event\":"
                                                   "\"sent\",\"conn\":\"2a\",\"result\":-32,"
                                                   "\"result_name\":\"EPIPE\"}\n"
                                                   "not json\n{\"worker\":0,\"event\":\"lost\",\"result\":812}\n")),
                     CTL_OK);
    assert_non_null(strstr(printed, "12:00:00.000001 w1 2a sent = -32 EPIPE\n"));
    assert_non_null(strstr(printed, "lost = 812\n"));
    assert_int_equal(exchange(&s, "metrics --json", OK_JSON("# HELP a b\na{x=\"1\"} 5\nb 0.5\n")), CTL_OK);
    assert_string_equal(printed, "{\"a{x=\\\"1\\\"}\":5.0,\"b\":0.5}\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_command_lines),
        cmocka_unit_test(test_no_gateway),
        cmocka_unit_test(test_what_is_asked),
        cmocka_unit_test(test_answers_that_are_no_success),
        cmocka_unit_test(test_what_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
