// SPDX-License-Identifier: Apache-2.0
// conform_cases.c: what every engine promises, as small scripts against a lab (lab.h). Each writes what
// it saw into the transcript, in terms that may not depend on the engine: streams of bytes, results that
// end something, order. How the bytes were cut, and when, is left out.
#include "conform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static u8 *pattern(lab *l, size_t len, u64 seed) {
    u8 *bytes = lab_alloc(l, len);
    sim_random r = {.state = seed};
    for (size_t i = 0; i < len; i++) bytes[i] = (u8)sim_random_next(&r);
    return bytes;
}

static bool near_has(const near_end *n, const u8 *data, size_t len) {
    return n->data_len == len && memcmp(n->data, data, len) == 0;
}

static void case_receive_stream(lab *l) {
    static const size_t sizes[] = {1, 2, 3, 4095, 4096, 4097, 65535, 65536, 65537, 300000};
    for (u32 i = 0; i < ARRAY_LEN(sizes); i++) {
        far_end far;
        near_end *n = lab_connect(l, &far);
        LAB_CHECK(l, n != NULL);
        near_recv(n, true);
        u8 *data = pattern(l, sizes[i], i);
        far_write_all(l, &far, data, sizes[i]);
        far_shutdown(&far);
        LAB_UNTIL(l, n->recv_ends == 1);
        lab_say(l, "size %zu: whole %d, end %d, armed %d", sizes[i], near_has(n, data, sizes[i]),
                n->recv_end, io_recv_is_armed(&n->io));
        far_close(&far);
        near_close(n, false);
        LAB_UNTIL(l, n->closed);
    }
}

static void case_receive_one_shot(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    u8 *data = pattern(l, 20000, 1);
    far_write_all(l, &far, data, 10000);
    u32 shots = 0;
    bool once = true;
    while (n->data_len < 10000) {
        near_recv(n, false);
        u32 before = n->recv_calls;
        LAB_UNTIL(l, n->recv_calls > before);
        lab_settle(l);
        once = once && n->recv_calls == before + 1 && !io_recv_is_armed(&n->io);
        LAB_CHECK(l, ++shots <= 10000);
    }
    lab_say(l, "one callback a shot %d, bytes %zu", once, n->data_len);
    far_write_all(l, &far, data + 10000, 10000);
    lab_settle(l);
    lab_say(l, "not armed, bytes %zu", n->data_len);
    near_recv(n, true);
    LAB_UNTIL(l, n->data_len == 20000);
    lab_say(l, "then the rest: whole %d", near_has(n, data, 20000));
    far_close(&far);
}

static void case_half_close(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    near_recv(n, true);
    far_write_all(l, &far, (const u8 *)"bye", 3);
    far_shutdown(&far);
    LAB_UNTIL(l, n->recv_ends == 1);
    u8 *data = pattern(l, 100000, 2), *back = lab_alloc(l, 100000);
    int result = near_send(n, data, 1000);
    if (result == IO_PENDING) {
        LAB_UNTIL(l, n->send_calls == 1);
        result = n->send_result;
    }
    int end;
    LAB_CHECK(l, result > 0);
    size_t got = far_read_all(l, &far, back, (size_t)result, &end);
    lab_say(l, "end %d, %zu bytes, then the other way works: %d", n->recv_end, n->data_len,
            got == (size_t)result && memcmp(data, back, got) == 0);
    near_close(n, false);
    LAB_UNTIL(l, n->closed);
    got = far_read_all(l, &far, back, 1, &end);
    lab_say(l, "closed: %zu bytes, end %d", got, end);
    far_close(&far);
}

static void case_reset_by_peer(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    near_recv(n, true);
    far_write_all(l, &far, (const u8 *)"abc", 3);
    LAB_UNTIL(l, n->data_len == 3);
    far_reset(&far);
    LAB_UNTIL(l, n->recv_ends == 1);
    lab_say(l, "reset seen by receive: %s, armed %d", errno_name(n->recv_end),
            io_recv_is_armed(&n->io));
    int result = near_send(n, (const u8 *)"x", 1);
    if (result == IO_PENDING) {
        LAB_UNTIL(l, n->send_calls == 1);
        result = n->send_result;
    }
    lab_say(l, "send after it: %s", errno_name(result));
}

static void case_send_to_closed(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    far_close(&far);
    lab_settle(l);
    u8 byte = 1;
    ssize_t result = 0;
    for (u32 i = 0; i < 100 && result >= 0; i++) {
        result = near_send_all(n, &byte, 1);
        lab_settle(l);
    }
    bool gone = result == -EPIPE || result == -ECONNRESET;
    lab_say(l, "send to a closed peer ends: %d", gone);
}

static void case_back_pressure(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    enum { CHUNK = 65536, LIMIT = 256 };
    u8 *data = pattern(l, (size_t)CHUNK * LIMIT, 3);
    size_t sent = 0;
    int result = 0;
    for (u32 i = 0; i < LIMIT && n->send_calls == n->recv_calls; i++) { // fill until a send stays pending
        result = near_send(n, data + sent, CHUNK);
        if (result == IO_PENDING) {
            lab_settle(l);
            if (n->send_calls == 0) break;
            result = n->send_result;
            n->send_calls = 0;
        }
        LAB_CHECK(l, result > 0);
        sent += (size_t)result;
        result = 0;
    }
    lab_say(l, "a send waits: %d", result == IO_PENDING);
    u8 *back = lab_alloc(l, (size_t)CHUNK * LIMIT);
    size_t got = 0;
    u64 deadline = lab_patience(l);
    while (n->send_calls == 0 && lab_is_patient(l, deadline)) {
        ssize_t r = far_read(&far, back + got, CHUNK);
        if (r > 0) got += (size_t)r;
        lab_turn(l);
    }
    LAB_CHECK(l, n->send_calls == 1 && n->send_result > 0);
    sent += (size_t)n->send_result;
    int end;
    got += far_read_all(l, &far, back + got, sent - got, &end);
    lab_say(l, "it goes on when the peer reads: whole %d", got == sent && memcmp(data, back, got) == 0);
    far_close(&far);
}

static void case_close_with_send_pending(lab *l) {
    for (u32 reset = 0; reset < 2; reset++) {
        far_end far;
        near_end *n = lab_connect(l, &far);
        LAB_CHECK(l, n != NULL);
        near_recv(n, true);
        u8 *data = pattern(l, 65536, 4);
        int result = 0;
        for (u32 i = 0; i < 256 && result != IO_PENDING; i++) {
            n->send_calls = 0;
            result = near_send(n, data, 65536);
            if (result == IO_PENDING) lab_settle(l);
            if (n->send_calls > 0) result = n->send_result;
        }
        LAB_CHECK(l, result == IO_PENDING && n->send_calls == 0);
        near_close(n, reset != 0);
        near_close(n, reset != 0); // harmless again
        LAB_UNTIL(l, n->closed);
        lab_settle(l);
        lab_say(l, "closed: %u send callbacks, %u receive ends", n->send_calls, n->recv_ends);
        u8 *back = lab_alloc(l, (size_t)256 * 65536);
        int end;
        (void)far_read_all(l, &far, back, (size_t)256 * 65536, &end);
        lab_say(l, "reset %u, the peer's end: %s", reset, end == 0 ? "end of stream" : errno_name(end));
        far_close(&far);
    }
}

// What was not read when a connection closes turns the FIN into an RST.
static void case_close_unread(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    far_write_all(l, &far, (const u8 *)"unread", 6);
    lab_settle(l);
    near_close(n, false);
    LAB_UNTIL(l, n->closed);
    u8 back[8];
    int end;
    (void)far_read_all(l, &far, back, sizeof(back), &end);
    lab_say(l, "closed with bytes unread: %s", errno_name(end));
    far_close(&far);
}

static void case_stop_and_start(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    u8 *data = pattern(l, 60000, 5);
    near_recv(n, true);
    far_write_all(l, &far, data, 1000);
    LAB_UNTIL(l, n->data_len == 1000);
    near_recv_stop(n);
    near_recv_stop(n); // harmless again
    lab_settle(l);
    far_write_all(l, &far, data + 1000, 1000);
    lab_settle(l);
    bool quiet = n->data_len == 1000 || n->data_len == 2000; // at most what was under way
    size_t before = n->data_len;
    far_write_all(l, &far, data + 2000, 1000);
    lab_settle(l);
    lab_say(l, "stopped: %d %d", quiet, n->data_len == before);
    near_recv(n, true);
    LAB_UNTIL(l, n->data_len == 3000);
    n->stop_in_recv = true; // back-pressure from inside the callback
    far_write_all(l, &far, data + 3000, 10000);
    u32 rounds = 0;
    while (n->data_len < 13000) {
        lab_settle(l);
        if (n->data_len < 13000 && !io_recv_is_armed(&n->io)) near_recv(n, true);
        LAB_CHECK(l, ++rounds < 20000);
    }
    n->stop_in_recv = false;
    lab_settle(l);
    for (u32 i = 0; i < 50; i++) { // stop and start at once
        if (io_recv_is_armed(&n->io)) near_recv_stop(n);
        near_recv(n, true);
        far_write_all(l, &far, data + 13000 + i * 100, 100);
        lab_turn(l);
    }
    LAB_UNTIL(l, n->data_len == 18000);
    lab_say(l, "all in order: %d", near_has(n, data, 18000));
    near_recv_stop(n);
    far_shutdown(&far);
    lab_settle(l);
    if (n->recv_ends == 0) near_recv(n, true);
    LAB_UNTIL(l, n->recv_ends == 1);
    lab_say(l, "end %d", n->recv_end);
    far_close(&far);
}

static void case_lent_echo(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    n->lend = true;
    near_recv(n, true);
    u8 back[512];
    u8 *data = pattern(l, 100 * 200, 6);
    bool same = true;
    size_t done = 0;
    for (u32 i = 0; i < 100; i++) { // small ones, one at a time: the socket has room
        far_write_all(l, &far, data + done, 200);
        size_t want = n->data_len;
        LAB_UNTIL(l, n->data_len >= done + 200);
        LAB_UNTIL(l, !(n->io.armed & IO_ARMED_SEND));
        (void)want;
        size_t missing = done + 200 - n->lent_sent; // short sends are the callee's to finish
        if (missing > 0) {
            n->lend = false;
            ssize_t r = near_send_all(n, n->data + n->lent_sent, missing);
            n->lend = true;
            LAB_CHECK(l, r == (ssize_t)missing);
            n->lent_sent += missing;
        }
        int end;
        size_t got = far_read_all(l, &far, back, 200, &end);
        same = same && got == 200 && memcmp(back, data + done, 200) == 0;
        done += 200;
    }
    lab_say(l, "lent echo: %d", same);
    far_close(&far);
}

static void case_move(lab *l) {
    far_end far;
    near_end *n = lab_connect(l, &far);
    LAB_CHECK(l, n != NULL);
    u8 *data = pattern(l, 50000, 7);
    far_write_all(l, &far, data, 8000);
    near_recv(n, false);
    LAB_UNTIL(l, n->recv_calls == 1);
    LAB_CHECK(l, n->io.armed == 0);
    near_move(n);
    near_recv(n, true);
    far_write_all(l, &far, data + 8000, 42000);
    LAB_UNTIL(l, n->data_len == 50000);
    lab_say(l, "moved with bytes unread: whole %d", near_has(n, data, 50000));
    ssize_t sent = near_send_all(n, data, 50);
    u8 back[50];
    int end;
    size_t got = far_read_all(l, &far, back, 50, &end);
    lab_say(l, "and sends there: %d", sent == 50 && got == 50 && memcmp(back, data, 50) == 0);
    far_close(&far);
}

static void case_connect(lab *l) {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int fd = far_listen(l, &addr, &addr_len);
    LAB_CHECK(l, fd >= 0);
    near_end *n = lab_near(l, 1, lab_socket(l));
    near_connect(n, (struct sockaddr *)&addr, addr_len);
    LAB_UNTIL(l, n->connect_result != 1);
    lab_say(l, "connect %d", n->connect_result);
    far_end far = far_accept(l, fd);
    near_recv(n, true);
    far_write_all(l, &far, (const u8 *)"hello", 5);
    LAB_UNTIL(l, n->data_len == 5);
    far_close(&far);
    LAB_UNTIL(l, n->recv_ends == 1);
    lab_say(l, "end %d", n->recv_end);
    far_listen_close(l, fd);
    near_end *m = lab_near(l, 1, lab_socket(l));
    near_connect(m, (struct sockaddr *)&addr, addr_len);
    LAB_UNTIL(l, m->connect_result != 1);
    lab_say(l, "nobody there: %s", errno_name(m->connect_result));
}

// A callback closes another handle whose completion may be the next one.
static void case_close_each_other(lab *l) {
    enum { PAIRS = 12 };
    far_end fars[2 * PAIRS];
    near_end *nears[2 * PAIRS];
    for (u32 i = 0; i < 2 * PAIRS; i++) {
        nears[i] = lab_connect(l, &fars[i]);
        LAB_CHECK(l, nears[i] != NULL);
    }
    for (u32 i = 0; i < PAIRS; i++) {
        nears[2 * i]->close_in_recv = nears[2 * i + 1];
        nears[2 * i + 1]->close_in_recv = nears[2 * i];
    }
    for (u32 i = 0; i < 2 * PAIRS; i++) {
        near_recv(nears[i], true);
        far_write_all(l, &fars[i], (const u8 *)"x", 1);
    }
    lab_settle(l);
    u32 closed = 0;
    bool one_each = true;
    for (u32 i = 0; i < PAIRS; i++) {
        one_each = one_each && nears[2 * i]->closed != nears[2 * i + 1]->closed;
        closed += nears[2 * i]->closed + nears[2 * i + 1]->closed;
    }
    lab_say(l, "closed %u, one of each pair %d", closed, one_each);
    for (u32 i = 0; i < 2 * PAIRS; i++) far_close(&fars[i]);
}

// More data than there are buffers, on many connections at once.
static void case_buffers_run_out(lab *l) {
    enum { CONNS = 20, BYTES = 30000 };
    far_end fars[CONNS];
    near_end *nears[CONNS];
    u8 *data = pattern(l, BYTES, 8);
    for (u32 i = 0; i < CONNS; i++) {
        nears[i] = lab_connect(l, &fars[i]);
        LAB_CHECK(l, nears[i] != NULL);
        near_recv(nears[i], true);
    }
    size_t sent[CONNS] = {0};
    size_t left = (size_t)CONNS * BYTES;
    u64 deadline = lab_patience(l);
    while (left > 0 && lab_is_patient(l, deadline)) {
        for (u32 i = 0; i < CONNS; i++) {
            if (sent[i] == BYTES) continue;
            ssize_t n = far_write(&fars[i], data + sent[i], BYTES - sent[i]);
            if (n <= 0) continue;
            sent[i] += (size_t)n;
            left -= (size_t)n;
        }
        lab_turn(l);
    }
    bool whole = left == 0;
    for (u32 i = 0; i < CONNS; i++) {
        LAB_UNTIL(l, nears[i]->data_len == BYTES);
        whole = whole && near_has(nears[i], data, BYTES);
        far_close(&fars[i]);
    }
    lab_say(l, "all of %u streams whole: %d", CONNS, whole);
}

static void case_slots_again(lab *l) {
    for (u32 i = 0; i < 30; i++) {
        far_end far;
        near_end *n = lab_connect(l, &far);
        LAB_CHECK(l, n != NULL);
        near_recv(n, true);
        far_write_all(l, &far, (const u8 *)"hi", 2);
        LAB_UNTIL(l, n->data_len == 2);
        near_close(n, i % 2 == 1);
        far_close(&far);
        LAB_UNTIL(l, n->closed);
    }
    lab_say(l, "30 connections one after the other");
}

static void case_wake(lab *l) {
    u64 before = counter_get(&io_engine_stats(l->engines[1])->wakes_received);
    io_wake(l->engines[1]);
    LAB_UNTIL(l, counter_get(&io_engine_stats(l->engines[1])->wakes_received) > before);
    lab_say(l, "rung and woken");
}

// A wait ends at its deadline, not before and not much later; a deadline of 0 does not wait.
static void case_deadline(lab *l) {
    lab_settle(l);
    u64 start = lab_now(l);
    int none = io_run(l->engines[0], 0);
    bool at_once = lab_now(l) - start < 100 * NS_PER_MS;
    u64 deadline = lab_now(l) + 20 * NS_PER_MS;
    u32 turns = 0;
    while (lab_now(l) < deadline && turns < 1000) {
        turns++;
        io_run(l->engines[0], deadline);
        if (l->world != NULL && !sim_has_work(l->world)) sim_step(l->world, NS_PER_S);
    }
    u64 late_ns = lab_now(l) - deadline;
    lab_say(l, "at once %d %d, deadline kept %d, few turns %d", none, at_once,
            late_ns < (l->world != NULL ? 2 * NS_PER_S : 200 * NS_PER_MS), turns < 100);
    lab_say(l, "clock set %d", l->now_ns[0] + NS_PER_S > lab_now(l));
}

static void case_accept_stop(lab *l) {
    l->starting = true;
    io_accept_stop(l->engines[0], &l->listener);
    io_accept_stop(l->engines[0], &l->listener);
    l->starting = false;
    lab_settle(l);
    far_end fars[3];
    for (u32 i = 0; i < 3; i++) fars[i] = far_connect(l);
    lab_settle(l);
    u32 stopped = l->accepted_count;
    l->starting = true;
    io_accept_start(l->engines[0], &l->listener);
    io_accept_start(l->engines[0], &l->listener); // harmless again
    l->starting = false;
    LAB_UNTIL(l, l->accepted_count == 3);
    lab_say(l, "stopped %u, then %u", stopped, l->accepted_count);
    while (l->accepted_count > 0) lab_near(l, 0, l->accepted[--l->accepted_count]);
    for (u32 i = 0; i < 3; i++) far_close(&fars[i]);
}

// A listener closes while connections are on their way to it: they end, and nobody is told of them.
static void case_close_listener(lab *l) {
    far_end fars[5];
    for (u32 i = 0; i < 5; i++) fars[i] = far_connect(l);
    lab_close_listener(l);
    lab_settle(l);
    u32 ended = 0;
    for (u32 i = 0; i < 5; i++) {
        u8 byte;
        int end;
        (void)far_read_all(l, &fars[i], &byte, 1, &end);
        ended += end == 0 || end == -ECONNRESET;
        far_close(&fars[i]);
    }
    lab_say(l, "accepted %u, ended %u", l->accepted_count, ended);
}

// One by one: a stop inside on_accept leaves all others waiting.
static void case_accept_single(lab *l) {
    l->starting = true;
    io_accept_stop(l->engines[0], &l->listener);
    l->starting = false;
    lab_settle(l);
    far_end fars[5];
    for (u32 i = 0; i < 5; i++) fars[i] = far_connect(l);
    l->stop_in_accept = true;
    for (u32 i = 0; i < 5; i++) {
        io_accept_start_single(l->engines[0], &l->listener);
        LAB_UNTIL(l, l->accepted_count > i);
        lab_settle(l);
        lab_say(l, "accepted %u, armed %d", l->accepted_count, l->listener.armed);
    }
    while (l->accepted_count > 0) lab_near(l, 0, l->accepted[--l->accepted_count]);
    for (u32 i = 0; i < 5; i++) far_close(&fars[i]);
}

// No descriptor for a new connection: told once, accepting stops, and the connection is still there later.
static void case_descriptors_run_out(lab *l) {
    l->starting = true;
    io_accept_stop(l->engines[0], &l->listener);
    l->starting = false;
    lab_settle(l);
    far_end far = far_connect(l);
    lab_limit_descriptors(l, true);
    io_accept_start(l->engines[0], &l->listener);
    for (u32 i = 0; i < 100 && l->accept_error == 0; i++) lab_turn(l);
    lab_settle(l);
    lab_limit_descriptors(l, false);
    lab_say(l, "%s, accepted %u, armed %d", errno_name(l->accept_error), l->accepted_count,
            l->listener.armed);
    io_accept_start(l->engines[0], &l->listener);
    LAB_UNTIL(l, l->accepted_count == 1);
    lab_near(l, 0, l->accepted[--l->accepted_count]);
    lab_say(l, "later accepted");
    far_close(&far);
}

const conform_case conform_cases[] = {
    {"receive_stream", case_receive_stream},
    {"receive_one_shot", case_receive_one_shot},
    {"half_close", case_half_close},
    {"reset_by_peer", case_reset_by_peer},
    {"send_to_closed", case_send_to_closed},
    {"back_pressure", case_back_pressure},
    {"close_with_send_pending", case_close_with_send_pending},
    {"close_unread", case_close_unread},
    {"stop_and_start", case_stop_and_start},
    {"lent_echo", case_lent_echo},
    {"move", case_move},
    {"connect", case_connect},
    {"close_each_other", case_close_each_other},
    {"buffers_run_out", case_buffers_run_out},
    {"slots_again", case_slots_again},
    {"wake", case_wake},
    {"deadline", case_deadline},
    {"accept_stop", case_accept_stop},
    {"close_listener", case_close_listener},
    {"accept_single", case_accept_single},
    {"descriptors_run_out", case_descriptors_run_out},
};
const u32 conform_case_count = ARRAY_LEN(conform_cases);
