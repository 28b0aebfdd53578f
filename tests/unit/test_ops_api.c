// SPDX-License-Identifier: Apache-2.0
// test_ops_api.c: what the API tells and does, with the workers' side played message by message: lists, one
// connection, kick, publish, reload, health, trace, log; and clients that leave while a worker is still asked.
#include "test_ops_fake.h"

#include <unistd.h>

#include "base/log.h"

static yyjson_doc *doc_of(const fake_conn *f) {
    bool complete = true;
    const char *body = fake_body(f);
    char *joined = strstr(f->out, "chunked") != NULL ? fake_unchunk(f, &complete) : strdup(body);
    assert_true(complete);
    yyjson_doc *doc = yyjson_read(joined, strlen(joined), 0);
    if (doc == NULL) fail_msg("not JSON: %s", joined);
    free(joined);
    return doc;
}

// Asks over the unix socket and lets the workers answer.
static yyjson_doc *ask(const char *method, const char *path, int status) {
    char request[1024];
    fake_conn *f = fake_open(AF_UNIX);
    snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", method, path);
    fake_say(f, request);
    fake_deliver();
    if (fake_status(f) != status) fail_msg("%s %s: %s", method, path, f->out);
    yyjson_doc *doc = doc_of(f);
    fake_free(f);
    assert_int_equal(ops_requests_outstanding(), 0);
    return doc;
}

static yyjson_val *member(yyjson_doc *doc, const char *key) {
    return yyjson_obj_get(yyjson_doc_get_root(doc), key);
}

// The ids of a list, separated by spaces.
static const char *ids_of(const char *path) {
    static char out[4096];
    yyjson_doc *doc = ask("GET", path, 200);
    yyjson_val *c;
    size_t i, max;
    out[0] = '\0';
    yyjson_arr_foreach(member(doc, "conns"), i, max, c) {
        size_t len = strlen(out);
        snprintf(out + len, sizeof(out) - len, "%s%s", i > 0 ? " " : "", yyjson_get_str(yyjson_obj_get(c, "id")));
    }
    yyjson_doc_free(doc);
    return out;
}

// 1..3 on worker 0, 4..6 on worker 1 (with the worker in front of their number).
static void make_six(void) {
    for (u32 i = 1; i <= 6; i++) fake_device(i <= 3 ? 0 : 1, i * 7, i, (u8)i);
}

static void test_list_filters(void **state) {
    (void)state;
    make_six();
    conn *slow = fake_conn_table[0][2 * 7];
    slow->out_bytes = 5;
    slow->opened_ns = slow->sent_ns = fake_workers[0].now_ns - 5 * NS_PER_S;
    assert_string_equal(ids_of("/api/conns"), "1 2 3 1000000000004 1000000000005 1000000000006");
    assert_string_equal(ids_of("/api/conns?listener=devices"), "2 1000000000004 1000000000006");
    assert_string_equal(ids_of("/api/conns?listener=none"), "");
    assert_string_equal(ids_of("/api/conns?client=d6"), "1000000000006");
    assert_string_equal(ids_of("/api/conns?client=d"), "1000000000006");
    assert_string_equal(ids_of("/api/conns?client=d66"), "");
    assert_string_equal(ids_of("/api/conns?peer=10.0.0.3"), "3");
    assert_string_equal(ids_of("/api/conns?peer=10.0.0.4/31"), "1000000000004 1000000000005");
    assert_string_equal(ids_of("/api/conns?peer=10.0.0.0/8&limit=2"), "1 2");
    assert_string_equal(ids_of("/api/conns?peer=11.0.0.0/8"), "");
    assert_string_equal(ids_of("/api/conns?peer=0.0.0.0/0&limit=1"), "1");
    assert_string_equal(ids_of("/api/conns?peer=10.0.0.3:100"), "3"); // the start of its text
    assert_string_equal(ids_of("/api/conns?state=sending"), "2");
    assert_string_equal(ids_of("/api/conns?slow=any"), "2");
    assert_string_equal(ids_of("/api/conns?slow=output"), "2");
    assert_string_equal(ids_of("/api/conns?slow=starved"), "");
    fake_devices_free();
}

static void test_list_sorts_and_windows(void **state) {
    (void)state;
    make_six();
    assert_string_equal(ids_of("/api/conns?sort=bytes_in&limit=2"), "1000000000006 1000000000005");
    assert_string_equal(ids_of("/api/conns?sort=bytes_in&order=asc&limit=2"), "1 2");
    assert_string_equal(ids_of("/api/conns?sort=bytes&limit=2&offset=2"), "1000000000004 3");
    assert_string_equal(ids_of("/api/conns?limit=0"), "");
    assert_string_equal(ids_of("/api/conns?offset=6"), "");
    yyjson_doc *doc = ask("GET", "/api/conns?limit=2&listener=devices", 200);
    assert_int_equal(yyjson_get_uint(member(doc, "total")), 3);
    yyjson_doc_free(doc);
    fake_devices_free();
}

// Of many connections the heap keeps exactly the first in order, whatever order they are met in.
static void test_list_keeps_the_first_of_many(void **state) {
    (void)state;
    u64 seed = 5;
    for (u32 i = 0; i < 700; i++) {
        conn *c = fake_device(i % 2, i, i + 1, 1);
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        c->bytes_in = (seed >> 33) % 1000;
        c->bytes_out = 0;
    }
    yyjson_doc *doc = ask("GET", "/api/conns?sort=bytes_in&limit=100&offset=50", 200);
    yyjson_val *c;
    size_t i, max;
    u64 last = UINT64_MAX, above = 0, equal_last = 0;
    assert_int_equal(yyjson_arr_size(member(doc, "conns")), 100);
    yyjson_arr_foreach(member(doc, "conns"), i, max, c) {
        u64 bytes = yyjson_get_uint(yyjson_obj_get(c, "bytes_in"));
        assert_true(bytes <= last);
        last = bytes;
    }
    for (u32 k = 0; k < 700; k++) {
        u64 bytes = fake_conn_table[k % 2][k]->bytes_in;
        above += bytes > last;
        equal_last += bytes == last;
    }
    assert_true(above < 150 && above + equal_last >= 150);
    yyjson_doc_free(doc);
    fake_devices_free();
}

static void test_wrong_parameters(void **state) {
    (void)state;
    static const char *const paths[] = {
        "/api/conns?sort=x",     "/api/conns?limit=10001", "/api/conns?limit=9999&offset=2", "/api/conns?limit=-1",
        "/api/conns?state=none", "/api/conns?slow=",       "/api/conns?peer=",
        "/api/conns?peer=10.0.0.0/33",
        "/api/conns?unknown=1",  "/api/conns?admin=maybe", "/api/trace?conn=x",              "/api/trace?worker=2",
        "/api/trace?peer=a&conn=1", "/api/trace?follow=yes", "/api/log?level=loud",          "/api/log?x=1",
        "/api/config?format=xml", "/api/conns/xyz",
    };
    for (u32 i = 0; i < ARRAY_LEN(paths); i++) {
        yyjson_doc *doc = ask("GET", paths[i], 400);
        assert_true(yyjson_is_str(member(doc, "error")));
        yyjson_doc_free(doc);
    }
    yyjson_doc_free(ask("POST", "/api/publish", 400));
    yyjson_doc_free(ask("POST", "/api/publish?topic=a/%23", 400));
}

static void test_one_connection(void **state) {
    (void)state;
    make_six();
    conn *c = fake_conn_table[1][5 * 7];
    c->flags = CONN_PAUSED_OUT | CONN_DIRTY;
    c->io.armed = IO_ARMED_SEND;
    worker *w = &fake_workers[1];
    for (u32 i = 0; i < 100; i++) recorder_add(&w->rec, REC_RECV, i % 2 == 0 ? c->io.slot : 99, 1, (i32)i, 0);
    recorder_add(&w->rec, REC_RECV, c->io.slot, 2, 0, 0); // another generation
    recorder_add(&w->rec, REC_SENT, c->io.slot, 1, -ECONNRESET, 0);
    yyjson_doc *doc = ask("GET", "/api/conns/1000000000005", 200);
    assert_string_equal(yyjson_get_str(member(doc, "peer")), "10.0.0.5:1005");
    assert_string_equal(yyjson_get_str(member(doc, "state")), "paused");
    assert_string_equal(yyjson_get_str(yyjson_arr_get(member(doc, "flags"), 0)), "paused_out");
    assert_string_equal(yyjson_get_str(yyjson_arr_get(member(doc, "flags"), 1)), "dirty");
    assert_string_equal(yyjson_get_str(yyjson_arr_get(member(doc, "armed"), 0)), "send");
    yyjson_val *events = member(doc, "events");
    assert_int_equal(yyjson_arr_size(events), LIMIT_OPS_CONN_EVENTS);
    yyjson_val *last = yyjson_arr_get_last(events), *before = yyjson_arr_get(events, LIMIT_OPS_CONN_EVENTS - 2);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(last, "event")), "sent");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(last, "result_name")), "ECONNRESET");
    assert_int_equal(yyjson_get_int(yyjson_obj_get(before, "result")), 98);
    yyjson_doc_free(doc);
    // Found on a worker that its id does not name: it has moved.
    fake_conn_table[0][7]->id = 1ull << 48 | 77;
    doc = ask("GET", "/api/conns/100000000004d", 200);
    assert_int_equal(yyjson_get_uint(member(doc, "worker")), 0);
    yyjson_doc_free(doc);
    yyjson_doc_free(ask("GET", "/api/conns/4e", 404));
    yyjson_doc_free(ask("GET", "/api/conns/ffffffffffffffff", 404));
    yyjson_doc_free(ask("GET", "/api/conns/18446744073709551615", 404));
    fake_devices_free();
}

static void test_kick(void **state) {
    (void)state;
    make_six();
    // A device stands in for conn_close's fake_conn: only its flag is looked at here, so one is made whole.
    fake_conn *victim = calloc(1, sizeof(*victim));
    victim->c = *fake_conn_table[0][14];
    free(fake_conn_table[0][14]);
    fake_conn_table[0][14] = &victim->c;
    yyjson_doc *doc = ask("DELETE", "/api/conns/2", 200);
    assert_string_equal(yyjson_get_str(member(doc, "kicked")), "2");
    assert_int_equal(victim->closed, CLOSE_KICKED);
    yyjson_doc_free(doc);
    // Its own connection is not ended under it.
    yyjson_doc_free(ask("DELETE", "/api/conns/2000000000001", 409));
    fake_devices_free();
}

static void test_publish(void **state) {
    (void)state;
    static const struct {
        int result, status;
    } rows[] = {{0, 200}, {-EAGAIN, 503}, {-EINVAL, 400}, {-ENOMEM, 503}, {-EIO, 500}};
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        fake_publish_result = rows[i].result;
        yyjson_doc_free(ask("POST", "/api/publish?topic=devices/d%2F1/down", rows[i].status));
        assert_string_equal(fake_published, "devices/d/1/down=");
    }
}

static void test_config_and_status(void **state) {
    (void)state;
    yyjson_doc *doc = ask("GET", "/api/config?format=json", 200);
    assert_string_equal(yyjson_get_str(member(doc, "source")), "test.conf");
    yyjson_doc_free(doc);
    doc = ask("GET", "/api/status", 200);
    assert_int_equal(yyjson_arr_size(member(doc, "workers")), FAKE_DEVICES);
    assert_int_equal(yyjson_get_int(member(doc, "pid")), getpid());
    assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_arr_get(member(doc, "listeners"), 1), "bind")),
                        "127.0.0.1:7001");
    yyjson_doc_free(doc);
}

static void test_reload(void **state) {
    (void)state;
    static const char *const results[] = {"", "file:3: wrong"};
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    fake_gw.control_fd = pipe_fds[1];
    for (u32 i = 0; i < 2; i++) {
        fake_conn *f = fake_open(AF_UNIX);
        fake_say(f, "POST /api/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        u64 one;
        assert_int_equal(read(pipe_fds[0], &one, sizeof(one)), sizeof(one));
        assert_int_equal(fake_gw.reload_request, 1);
        fake_pass_ms(200);
        assert_string_equal(f->out, "");
        snprintf(fake_gw.reload_result, sizeof(fake_gw.reload_result), "%s", results[i]);
        fake_gw.reload_generation++;
        fake_pass_ms(200);
        assert_int_equal(fake_status(f), i == 0 ? 200 : 409);
        if (i == 1) assert_non_null(strstr(f->out, "file:3: wrong"));
        fake_free(f);
    }
    // The control thread does not answer.
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "POST /api/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    fake_pass_ms(31000);
    assert_int_equal(fake_status(f), 503);
    fake_free(f);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void test_health(void **state) {
    (void)state;
    yyjson_doc_free(ask("GET", "/healthz", 200));
    // A worker that has not turned for long is asked, and answers.
    counter_set(&fake_workers[1].metrics.heartbeat_ns, clock_mono_ns() - 60 * NS_PER_S);
    yyjson_doc_free(ask("GET", "/healthz", 200));
    // It does not answer.
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_pass_ms(2500);
    assert_int_equal(fake_status(f), 503);
    assert_non_null(strstr(f->out, "\"worker\":1,"));
    assert_null(strstr(f->out, "\"worker\":0,"));
    assert_int_equal(ops_requests_outstanding(), 1);
    fake_deliver(); // late: dropped
    assert_int_equal(ops_requests_outstanding(), 0);
    fake_free(f);
    fake_gw.draining = 1;
    yyjson_doc_free(ask("GET", "/readyz", 503));
}

// A client leaves while a worker is asked: the reply finds nobody and is dropped.
static void test_client_gone_while_asked(void **state) {
    (void)state;
    static const char *const requests[] = {
        "GET /api/conns HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/conns/1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "DELETE /api/conns/1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/trace HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /api/publish?topic=a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    };
    for (u32 i = 0; i < ARRAY_LEN(requests); i++) {
        fake_conn *f = fake_open(AF_UNIX);
        fake_say(f, requests[i]);
        assert_int_equal(ops_requests_outstanding(), 1);
        fake_free(f);
        fake_deliver();
        assert_int_equal(ops_requests_outstanding(), 0);
    }
}

static void test_worker_does_not_answer(void **state) {
    (void)state;
    static const char *const paths[] = {"/api/conns", "/api/conns/1", "/api/trace"};
    for (u32 i = 0; i < ARRAY_LEN(paths); i++) {
        char request[128];
        fake_conn *f = fake_open(AF_UNIX);
        snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        fake_say(f, request);
        fake_pass_ms(LIMIT_OPS_REPLY_MS + 100);
        assert_int_equal(fake_status(f), 503);
        assert_non_null(strstr(f->out, "worker 0 did not answer"));
        fake_deliver();
        assert_int_equal(ops_requests_outstanding(), 0);
        fake_free(f);
    }
}

static void test_questions_are_bounded(void **state) {
    (void)state;
    fake_conn *all[LIMIT_OPS_REQUESTS + 1];
    for (u32 i = 0; i <= LIMIT_OPS_REQUESTS; i++) {
        all[i] = fake_open(AF_UNIX);
        fake_say(all[i], "GET /api/conns HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_int_equal(fake_status(all[i]), i < LIMIT_OPS_REQUESTS ? 0 : 503);
    }
    fake_deliver();
    for (u32 i = 0; i <= LIMIT_OPS_REQUESTS; i++) fake_free(all[i]);
    fake_rings_full = true;
    yyjson_doc_free(ask("GET", "/api/conns", 503));
}

// The ring back is full: the reply is found later, and does not leak.
static void test_reply_that_could_not_be_posted(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "GET /api/conns/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_rings_full = true;
    fake_deliver();
    fake_rings_full = false;
    assert_int_equal(ops_requests_outstanding(), 1);
    fake_pass_ms(LIMIT_OPS_REPLY_MS + 100);
    assert_int_equal(fake_status(f), 503);
    fake_free(f);
    f = fake_open(AF_UNIX);
    fake_say(f, "GET /api/conns HTTP/1.1\r\nHost: a\r\n\r\n"); // sends, so it tidies up
    assert_int_equal(ops_requests_outstanding(), 1);
    fake_deliver();
    assert_int_equal(fake_status(f), 200);
    assert_int_equal(ops_requests_outstanding(), 0);
    fake_free(f);
}

// --- trace ---

static char *trace_text(const char *query) {
    char request[256];
    bool complete;
    fake_conn *f = fake_open(AF_UNIX);
    snprintf(request, sizeof(request), "GET /api/trace%s HTTP/1.1\r\nHost: a\r\n\r\n", query);
    fake_say(f, request);
    fake_deliver();
    for (u32 i = 0; i < 10; i++) { // later walks
        fake_pass_ms(120);
        fake_deliver();
    }
    if (fake_status(f) != 200) fail_msg("%s: %s", query, f->out);
    char *out = fake_unchunk(f, &complete);
    assert_true(complete);
    fake_free(f);
    return out;
}

static u32 lines_of(const char *text) {
    u32 n = 0;
    for (; *text != '\0'; text++) n += *text == '\n';
    return n;
}

static void test_trace_merges_by_time(void **state) {
    (void)state;
    make_six();
    for (u32 i = 0; i < 500; i++) {
        worker *w = &fake_workers[i % 2];
        w->now_ns += 1000 + i;
        u64 now = w->now_ns;
        fake_workers[0].now_ns = fake_workers[1].now_ns = now;
        recorder_add(&w->rec, REC_RECV, i % 2 == 0 ? 7 : 28, 1, (i32)i, 0);
    }
    char *text = trace_text("");
    assert_int_equal(lines_of(text), 500);
    char *save = NULL;
    i64 expected = 0;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        yyjson_doc *doc = yyjson_read(line, strlen(line), 0);
        assert_non_null(doc);
        assert_int_equal(yyjson_get_int(member(doc, "result")), expected);
        assert_string_equal(yyjson_get_str(member(doc, "conn")), expected % 2 == 0 ? "1" : "1000000000004");
        expected++;
        yyjson_doc_free(doc);
    }
    free(text);
    fake_devices_free();
}

static void test_trace_of_a_peer(void **state) {
    (void)state;
    make_six();
    recorder_add(&fake_workers[0].rec, REC_RECV, 7, 1, 10, 0);
    recorder_add(&fake_workers[0].rec, REC_RECV, 14, 1, 20, 0);
    recorder_add(&fake_workers[0].rec, REC_RECV, 555, 1, 30, 0); // nobody's now
    recorder_add(&fake_workers[0].rec, REC_SENT, 14, 1, -EPIPE, 0);
    recorder_add(&fake_workers[0].rec, REC_WAKE, UINT32_MAX, 0, 1, 0);
    char *text = trace_text("?peer=10.0.0.2");
    assert_int_equal(lines_of(text), 2);
    assert_non_null(strstr(text, "\"conn\":\"2\",\"peer\":\"10.0.0.2:1002\",\"slot\":14,\"generation\":1,"
                                 "\"result\":20,"));
    assert_non_null(strstr(text, "\"result\":-32,\"result_name\":\"EPIPE\""));
    free(text);
    fake_devices_free();
}

// A connection that moved and has closed: its first events name it, on both workers.
static void test_trace_of_a_closed_connection(void **state) {
    (void)state;
    recorder *a = &fake_workers[0].rec, *b = &fake_workers[1].rec;
    counter_set(&fake_workers[0].metrics.conns_opened, 9);
    recorder_add(a, REC_ADOPT, 3, 1, 20, 8);
    recorder_add(a, REC_RECV, 3, 1, 11, 0);
    recorder_add(a, REC_MOVE_OUT, 3, 1, 1, 0);
    recorder_add(a, REC_ADOPT, 3, 2, 20, 9); // the slot's next user
    fake_workers[1].now_ns = fake_workers[0].now_ns + 1000;
    recorder_add(b, REC_ADOPT, 5, 1, 20, 70);
    recorder_add(b, REC_MOVE_IN, 5, 1, 0, 8);
    recorder_add(b, REC_CLOSE, 5, 1, CLOSE_PEER, 0);
    recorder_add(b, REC_CLOSED, 5, 1, 0, 0);
    recorder_add(b, REC_RECV, 5, 2, 0, 0);
    for (u32 follow = 0; follow < 2; follow++) {
        char *text = trace_text(follow != 0 ? "?conn=8&follow=1" : "?conn=8");
        static const char *const order[] = {"\"adopt\"",   "\"recv\"",  "\"move_out\"", "\"adopt\"",
                                            "\"move_in\"", "\"close\"", "\"closed\""};
        const char *at = text;
        for (u32 i = 0; i < ARRAY_LEN(order); i++) {
            at = strstr(at, order[i]);
            if (at == NULL) fail_msg("%s is missing in %s", order[i], text);
            at++;
        }
        assert_int_equal(lines_of(text), ARRAY_LEN(order));
        assert_non_null(strstr(text, "\"result_name\":\"peer_closed\""));
        free(text);
    }
    yyjson_doc_free(ask("GET", "/api/trace?conn=12", 404));
}

static void test_trace_follows_and_tells_losses(void **state) {
    (void)state;
    fake_conn *f = fake_open(AF_UNIX);
    fake_say(f, "GET /api/trace?follow=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_deliver();
    assert_int_equal(fake_status(f), 200);
    fake_forget(f);
    recorder_add(&fake_workers[1].rec, REC_WAKE, UINT32_MAX, 0, 42, 0);
    fake_pass_ms(100);
    assert_non_null(strstr(f->out, "\"event\":\"wake\",\"result\":42"));
    assert_null(strstr(f->out, "\"conn\""));
    fake_forget(f);
    for (u32 i = 0; i < 2 * LIMIT_RECORDER_EVENTS; i++) {
        recorder_add(&fake_workers[1].rec, REC_WAKE, UINT32_MAX, 0, (i32)i, 0);
    }
    fake_pass_ms(100);
    assert_non_null(strstr(f->out, "{\"worker\":1,\"event\":\"lost\",\"result\":"));
    assert_non_null(strstr(f->out, "\"result\":8191"));
    fake_free(f);
}

// --- log ---

static void test_log_tail(void **state) {
    (void)state;
    const char *step;
    log_config conf = {.level = LOG_DEBUG, .ring_bytes = LIMIT_LOG_RING_BYTES_MIN, .file = "tail.log"};
    assert_int_equal(log_start(&conf, &step), 0);
    u64 lines = log_stats_get().lines;
    log_info("one line");
    log_error("bad line");
    // The writer may be without a processor for a while.
    for (u32 i = 0; i < 6000 && log_stats_get().lines < lines + 2; i++) usleep(5000);
    fake_conn *f = fake_open(AF_UNIX), *errors = fake_open(AF_UNIX);
    fake_say(errors, "GET /api/log?follow=1&level=error HTTP/1.1\r\nHost: a\r\n\r\n");
    for (u32 i = 0; i < 200 && strstr(errors->out, "bad line") == NULL; i++) {
        usleep(5000);
        fake_pass_ms(60);
    }
    assert_non_null(strstr(errors->out, "bad line"));
    assert_null(strstr(errors->out, "one line"));
    fake_say(f, "GET /api/log HTTP/1.1\r\nHost: a\r\n\r\n");
    bool complete;
    char *text = fake_unchunk(f, &complete);
    assert_true(complete && strstr(text, "one line\n") != NULL && strstr(text, "bad line\n") != NULL);
    free(text);
    fake_free(f);
    fake_free(errors);
    log_stop(1000);
    unlink("tail.log");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(test_list_filters),
        T(test_list_sorts_and_windows),
        T(test_list_keeps_the_first_of_many),
        T(test_wrong_parameters),
        T(test_one_connection),
        T(test_kick),
        T(test_publish),
        T(test_config_and_status),
        T(test_reload),
        T(test_health),
        T(test_client_gone_while_asked),
        T(test_worker_does_not_answer),
        T(test_questions_are_bounded),
        T(test_reply_that_could_not_be_posted),
        T(test_trace_merges_by_time),
        T(test_trace_of_a_peer),
        T(test_trace_of_a_closed_connection),
        T(test_trace_follows_and_tells_losses),
        T(test_log_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
