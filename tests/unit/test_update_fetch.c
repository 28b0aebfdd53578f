// SPDX-License-Identifier: Apache-2.0
// test_update_fetch.c: an update from a URL over a link that breaks, from servers of each kind: a thread of this
// program is the server and follows a script, one line for each connection.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cmocka.h>

#include "init/update_fetch.h"

#define CONTENT_BYTES 200000u

typedef enum answer {
    END_OF_SCRIPT,
    RANGE,      // 206 with what was asked for; 200 where no range was
    WHOLE,      // 200 with all of it, whatever was asked for
    CHUNKED,    // as RANGE, in chunks
    NO_LENGTH,  // 200 whose end is the connection's
    OTHER_PART, // 206 of a byte more than was asked for
    BUSY,       // 503
    GONE,       // 404
    MOVED,      // 302 to the same
    SILENT,     // ends before it answers
} answer;

typedef struct line {
    answer what;
    u32 body_max;     // then the connection ends; 0: all
    bool reset;       // with RST
    const char *etag; // NULL: none
} line;

typedef struct server {
    int fd;
    const line *script;
    u32 connections;
    char request[16][512]; // of each connection
    pthread_t thread;
    char url[64];
} server;

static u8 content[CONTENT_BYTES];

static void send_whole(int fd, const void *data, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t n = send(fd, (const char *)data + done, len - done, MSG_NOSIGNAL);
        if (n <= 0) return;
        done += (size_t)n;
    }
}

static void send_body(int fd, const line *l, const u8 *data, size_t len) {
    size_t n = l->body_max > 0 ? MIN(len, (size_t)l->body_max) : len;
    if (l->what != CHUNKED) {
        send_whole(fd, data, n);
        return;
    }
    for (size_t done = 0; done < n;) {
        char head[16];
        size_t piece = MIN(n - done, (size_t)5000);
        send_whole(fd, head, (size_t)snprintf(head, sizeof(head), "%zx\r\n", piece));
        send_whole(fd, data + done, piece);
        send_whole(fd, "\r\n", 2);
        done += piece;
    }
    if (n == len) send_whole(fd, "0\r\n\r\n", 5);
}

static void respond(const server *s, int fd, const line *l, const char *request) {
    static const char *const heads[] = {[BUSY] = "503 Busy", [GONE] = "404 Gone", [MOVED] = "302 Found"};
    const char *range = strstr(request, "Range: bytes=");
    char lines[512] = "";
    int len = 0;
    size_t at = range == NULL || l->what == WHOLE || l->what == NO_LENGTH ? 0 : strtoul(range + 13, NULL, 10);
    if (l->what == OTHER_PART) at++;
#define ADD(...) len += snprintf(lines + len, sizeof(lines) - (size_t)len, __VA_ARGS__)
    ADD("HTTP/1.1 %s\r\n", l->what >= BUSY ? heads[l->what] : at > 0 ? "206 Partial Content" : "200 OK");
    if (l->what == MOVED) ADD("Location: %s\r\n", s->url);
    if (l->etag != NULL) ADD("ETag: %s\r\n", l->etag);
    if (at > 0) ADD("Content-Range: bytes %zu-%u/%u\r\n", at, CONTENT_BYTES - 1, CONTENT_BYTES);
    if (l->what == CHUNKED) ADD("Transfer-Encoding: chunked\r\n");
    else if (l->what != NO_LENGTH) ADD("Content-Length: %zu\r\n", l->what >= BUSY ? 0 : CONTENT_BYTES - at);
    ADD("\r\n");
#undef ADD
    send_whole(fd, lines, (size_t)len);
    if (l->what < BUSY) send_body(fd, l, content + at, CONTENT_BYTES - at);
}

static void *serve(void *context) {
    server *s = context;
    for (; s->script[s->connections].what != END_OF_SCRIPT; s->connections++) {
        const line *l = &s->script[s->connections];
        char *request = s->request[s->connections];
        int fd = accept(s->fd, NULL, NULL);
        size_t len = 0;
        ssize_t n;
        while (strstr(request, "\r\n\r\n") == NULL && (n = recv(fd, request + len, 511 - len, 0)) > 0) len += (size_t)n;
        if (l->what != SILENT) respond(s, fd, l, request);
        const struct linger hard = {.l_onoff = 1};
        if (l->reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        close(fd);
    }
    return NULL;
}

static void server_start(server *s, const line *script) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    *s = (server){.script = script, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(s->fd, 16), 0);
    getsockname(s->fd, (struct sockaddr *)&at, &size);
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/update", ntohs(at.sin_port));
    for (u32 i = 0; i < CONTENT_BYTES; i++) content[i] = (u8)(i * 2654435761u >> 24);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

// Fetches by the script. Returns the bytes that came, all compared, or -errno with the sentence in error.
static ssize_t fetch(server *s, const line *script, char error[192]) {
    update_source source = {0};
    u8 piece[3000];
    ssize_t n, total = 0;
    server_start(s, script);
    update_fetch *f = update_fetch_open(s->url, &source);
    if (f == NULL) n = -ENOENT;
    else {
        while ((n = source.read(source.context, piece, sizeof(piece))) > 0) {
            assert_true((size_t)(total + n) <= CONTENT_BYTES);
            assert_memory_equal(piece, content + total, n);
            total += n;
        }
    }
    snprintf(error, 192, "%s", source.error);
    update_fetch_close(f);
    pthread_join(s->thread, NULL);
    close(s->fd);
    return n < 0 ? n : total;
}

static void expect(const line *script, ssize_t result, const char *words) {
    server s;
    char error[192];
    ssize_t got = fetch(&s, script, error);
    if (strstr(error, words) == NULL) print_error("%s\n", error);
    assert_int_equal(got, result);
    assert_non_null(strstr(error, words));
}

static void test_whole(void **state) {
    (void)state;
    expect((line[]){{.what = RANGE}, {0}}, CONTENT_BYTES, "");
    expect((line[]){{.what = MOVED}, {.what = CHUNKED}, {0}}, CONTENT_BYTES, "");
    expect((line[]){{.what = NO_LENGTH}, {0}}, CONTENT_BYTES, "");
    // Nobody knows whether that was all; the update's header does.
    expect((line[]){{.what = NO_LENGTH, .body_max = 1000}, {0}}, 1000, "");
}

static void test_goes_on(void **state) {
    (void)state;
    server s;
    char error[192];
    const line script[] = {{RANGE, 70001, false, "\"one\""}, {RANGE, 1, true, "\"one\""}, {SILENT, 0, false, NULL},
                           {BUSY, 0, false, NULL}, {RANGE, 60000, false, "\"one\""}, {RANGE, 0, false, "\"one\""}, {0}};
    assert_int_equal(fetch(&s, script, error), CONTENT_BYTES);
    assert_string_equal(error, "");
    assert_null(strstr(s.request[0], "Range"));
    assert_non_null(strstr(s.request[1], "\r\nRange: bytes=70001-\r\nIf-Range: \"one\"\r\n"));
    assert_non_null(strstr(s.request[5], "\r\nRange: bytes=1")); // a reset may take the byte before it along
}

static void test_other_servers(void **state) {
    (void)state;
    server s;
    char error[192];
    // No ranges there: what is known already is skipped.
    expect((line[]){{.what = WHOLE, .body_max = 100000}, {.what = WHOLE, .body_max = 50},
                    {.what = WHOLE, .body_max = 150000}, {.what = WHOLE}, {0}}, CONTENT_BYTES, "");
    expect((line[]){{.what = CHUNKED, .body_max = 12345}, {.what = CHUNKED, .body_max = 54321}, {.what = CHUNKED}, {0}},
           CONTENT_BYTES, "");
    expect((line[]){{.what = RANGE, .body_max = 10}, {.what = MOVED}, {.what = RANGE}, {0}}, CONTENT_BYTES, "");
    // A weak tag does not say that bytes are the same (RFC 9110 section 13.1.5).
    const line weak[] = {{RANGE, 100, false, "W/\"one\""}, {RANGE, 0, false, "W/\"two\""}, {0}};
    assert_int_equal(fetch(&s, weak, error), CONTENT_BYTES);
    assert_null(strstr(s.request[1], "If-Range"));
}

static void test_given_up(void **state) {
    (void)state;
    expect((line[]){{RANGE, 100, false, "\"one\""}, {WHOLE, 0, false, "\"two\""}, {0}}, -EBADMSG, "was changed there");
    expect((line[]){{.what = RANGE, .body_max = 100}, {.what = OTHER_PART}, {0}}, -EBADMSG, "another part");
    expect((line[]){{.what = RANGE, .body_max = 100}, {.what = GONE}, {0}}, -ENOENT, "the server answers 404");
    // Not before the first byte: a wrong URL is told at once.
    expect((line[]){{.what = BUSY}, {0}}, -ENOENT, "the server answers 503");
    expect((line[]){{.what = OTHER_PART}, {0}}, -ENOENT, "the server answers 206");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_other_servers),
        cmocka_unit_test(test_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
