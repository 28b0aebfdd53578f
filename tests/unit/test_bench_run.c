// SPDX-License-Identifier: Apache-2.0
// test_bench_run.c: whole runs of the load generator against a server on a thread, on both of its
// engines: a correct server gives no errors in any mode; each way of being wrong is counted under
// its name.
//
// Whether a run is "valid" is not asserted: that depends on how busy the machine is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

#include "bench/find_max.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench_server.h"

static bench_result *result;
static bool has_uring;

static void options(bench_options *o, bench_kind kind, const bench_server *s, cio_engine engine) {
    bench_options_default(o, kind);
    o->to = s->to;
    o->mode = s->mode;
    o->engine = engine;
    o->wait = WAIT_SLEEP; // the server's thread may have to share the CPU
    o->conns = o->active = 20;
    if (kind != BENCH_STORM) o->rate = 2000;
    o->duration_ns = 200 * NS_PER_MS;
    o->warmup_ns = 20 * NS_PER_MS;
    o->drain_ns = 300 * NS_PER_MS;
    o->timeout_ns = 3 * NS_PER_S;
    o->syscalls_ns = 0;
    o->pid_none = true;
}

static void run(const bench_options *o) {
    assert_int_equal(bench_run(o, result), 0);
    if (result->failed) print_message("failure: %s\n", result->failure);
}

static void assert_clean(const flow_stats *f) {
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) {
        if (i == BENCH_ERROR_HEARTBEAT_LATE)
            continue; // a busy machine may stall longer than a beat
        if (f->errors.count[i] != 0) print_message("%s\n", bench_error_name((bench_error)i));
        assert_int_equal(f->errors.count[i], 0);
    }
    assert_int_equal(f->outstanding, 0);
    assert_true(f->window_due > 0);
    assert_int_equal(f->window_answered, f->window_due - f->window_unsent);
    assert_int_equal(hist_count(&f->latency), f->window_answered);
}

static const cio_engine engines[] = {CIO_URING, CIO_EPOLL};

static u32 engine_count(u32 *first) {
    *first = has_uring ? 0 : 1;
    return ARRAY_LEN(engines);
}

static void test_clean_server_all_modes(void **state) {
    (void)state;
    const wire_mode modes[] = {WIRE_ECHO, WIRE_ACK, WIRE_PUBLISH};
    const u32 sizes[] = {16, 64, 3000};
    for (u32 m = 0; m < ARRAY_LEN(modes); m++) {
        bench_server s;
        u32 first;
        server_start(&s, modes[m], FAULT_NONE);
        for (u32 e = engine_count(&first), i = first; i < e; i++) {
            for (u32 z = 0; z < ARRAY_LEN(sizes); z++) {
                bench_options o;
                options(&o, BENCH_FRAME, &s, engines[i]);
                o.size = sizes[z];
                o.heartbeat_ns = modes[m] == WIRE_ECHO ? 50 * NS_PER_MS : 0;
                run(&o);
                assert_false(result->failed);
                assert_clean(&result->steady);
                assert_int_equal(result->alive, 20);
                assert_int_equal(result->heartbeats_sent, result->heartbeats_answered);
                if (o.heartbeat_ns) assert_true(result->heartbeats_sent > 60);
            }
        }
        server_stop(&s);
    }
}

static void test_short_storm_slow_idle(void **state) {
    (void)state;
    bench_server s;
    u32 first;
    server_start(&s, WIRE_ECHO, FAULT_NONE);
    for (u32 e = engine_count(&first), i = first; i < e; i++) {
        bench_options o;
        for (u32 reset = 0; reset < 2; reset++) {
            options(&o, BENCH_CONN, &s, engines[i]);
            o.rate = 500;
            o.size = 32;
            o.close = reset ? CLOSE_RST : CLOSE_FIN;
            run(&o);
            assert_clean(&result->shorts);
        }
        options(&o, BENCH_FRAME, &s, engines[i]);
        o.short_rate = 300;
        run(&o);
        assert_clean(&result->steady);
        assert_clean(&result->shorts);
        options(&o, BENCH_STORM, &s, engines[i]);
        o.conns = 100;
        o.steady_conns = 10;
        o.steady_rate = 500;
        o.duration_ns = 3 * NS_PER_S; // ends when all are served
        run(&o);
        assert_int_equal(result->shorts.answered, 100);
        assert_int_equal(bench_result_errors(result), 0);
        assert_true(result->window_ns < 3 * NS_PER_S);
        options(&o, BENCH_IDLE, &s, engines[i]);
        run(&o);
        assert_int_equal(result->alive, 20);
        assert_int_equal(bench_result_errors(result), 0);
    }
    server_stop(&s);
}

static void test_slow_readers_are_pushed_back(void **state) {
    (void)state;
    bench_server s;
    bench_options o;
    server_start(&s, WIRE_ECHO, FAULT_STOP_READING);
    options(&o, BENCH_SLOW, &s, CIO_EPOLL);
    o.slow = 2;
    o.conns = o.active = 1;
    o.rate = 10;
    o.duration_ns = 3 * NS_PER_S;
    run(&o);
    assert_int_equal(result->slow.blocked, 2);
    assert_true(result->slow.bytes_min > 0);
    server_stop(&s);
}

static void test_each_fault_has_its_name(void **state) {
    (void)state;
    static const struct {
        wire_mode mode;
        server_fault fault;
        bench_error error;
        bool once; // once for each connection
    } cases[] = {
        {WIRE_ECHO, FAULT_DUPLICATE, BENCH_ERROR_DUPLICATED, true},
        {WIRE_ACK, FAULT_DUPLICATE, BENCH_ERROR_DUPLICATED, true},
        {WIRE_ECHO, FAULT_CORRUPT, BENCH_ERROR_CORRUPTED, true},
        {WIRE_ECHO, FAULT_SWALLOW, BENCH_ERROR_LOST, true},
        {WIRE_PUBLISH, FAULT_SWALLOW, BENCH_ERROR_LOST, true},
        {WIRE_ECHO, FAULT_SWAP, BENCH_ERROR_REORDERED, true},
        {WIRE_ACK, FAULT_SWAP, BENCH_ERROR_REORDERED, true},
        {WIRE_ECHO, FAULT_CLOSE, BENCH_ERROR_CLOSED_BY_SERVER, false},
        {WIRE_ECHO, FAULT_RESET, BENCH_ERROR_RESET, false},
    };
    for (u32 i = 0; i < ARRAY_LEN(cases); i++) {
        u32 first;
        for (u32 e = engine_count(&first), k = first; k < e; k++) {
            bench_server s;
            bench_options o;
            server_start(&s, cases[i].mode, cases[i].fault);
            options(&o, BENCH_FRAME, &s, engines[k]);
            o.arrival = ARRIVAL_UNIFORM;
            run(&o);
            u64 n = result->steady.errors.count[cases[i].error];
            // One for each connection that got as far as its bad frame: all 20, unless the machine
            // stalled.
            if (cases[i].once) {
                assert_in_range(n, 1, 20);
            } else {
                // A close with unread data makes the kernel send RST: either name is right there.
                n = result->steady.errors.count[BENCH_ERROR_RESET] +
                    result->steady.errors.count[BENCH_ERROR_CLOSED_BY_SERVER];
                assert_in_range(n, 1, 20);
                assert_int_equal(result->alive, 20 - n);
                assert_true(result->steady.errors.count[BENCH_ERROR_CONNECTION_GONE] > 0);
            }
            server_stop(&s);
        }
    }
}

static void test_setup_failures_are_named(void **state) {
    (void)state;
    bench_server s;
    bench_options o;
    server_start(&s, WIRE_ECHO, FAULT_SILENT);
    options(&o, BENCH_FRAME, &s, CIO_EPOLL);
    o.timeout_ns = 200 * NS_PER_MS;
    run(&o);
    assert_true(result->failed);
    assert_non_null(strstr(result->failure, "not_ready"));
    options(&o, BENCH_CONN, &s, CIO_EPOLL);
    o.rate = 100;
    o.timeout_ns = 100 * NS_PER_MS;
    run(&o);
    assert_true(result->shorts.errors.count[BENCH_ERROR_UNANSWERED] > 0);
    assert_true(hist_max(&result->shorts.latency) >=
                100 * NS_PER_MS); // counted with the time it waited
    server_stop(&s);

    server_start(&s, WIRE_PUBLISH, FAULT_REFUSE);
    options(&o, BENCH_FRAME, &s, CIO_EPOLL);
    run(&o);
    assert_true(result->failed);
    assert_non_null(strstr(result->failure, "hello_refused"));
    server_stop(&s);

    options(&o, BENCH_FRAME, &s, CIO_EPOLL); // nobody listens there any more
    run(&o);
    assert_true(result->failed);
    assert_non_null(strstr(result->failure, "connect_refused"));
    options(&o, BENCH_CONN, &s, CIO_AUTO);
    run(&o);
    assert_true(result->shorts.errors.count[BENCH_ERROR_CONNECT_REFUSED] > 0);
    options(&o, BENCH_FRAME, &s, CIO_AUTO);
    o.conns = 900000;
    run(&o);
    assert_true(result->failed);
    assert_non_null(strstr(result->failure, "too_many_descriptors"));
    options(&o, BENCH_FRAME, &s, CIO_AUTO);
    o.to = "nowhere";
    run(&o);
    assert_true(result->failed);
}

static void test_search_for_the_highest_rate(void **state) {
    (void)state;
    bench_server s;
    bench_options o;
    double rate;
    const char *limited_by;
    server_start(&s, WIRE_ECHO, FAULT_NONE);
    options(&o, BENCH_FRAME, &s, CIO_AUTO);
    o.rate = 1e6; // a few halvings above what one thread can do
    o.duration_ns = 50 * NS_PER_MS;
    o.drain_ns = 50 * NS_PER_MS;
    o.p99_limit_ns = NS_PER_S;
    assert_int_equal(find_max_run(&o, result, &rate, &limited_by), 0);
    assert_true(rate < 1e6);
    assert_true(rate == 0 ? result->failed : !result->failed);
    assert_non_null(limited_by);
    server_stop(&s);
    assert_int_equal(find_max_run(&o, result, &rate, &limited_by), 0); // nobody listens any more
    assert_true(result->failed && rate == 0);
    assert_non_null(strstr(result->failure, "connect_refused"));
}

// A server that stalls is charged for everything that fell due meanwhile: no coordinated omission.
static void test_stall_is_charged(void **state) {
    (void)state;
    bench_server s;
    bench_options o;
    server_start(&s, WIRE_ECHO,
                 FAULT_STOP_READING); // each connection is served 20 frames, then no more
    options(&o, BENCH_FRAME, &s, CIO_EPOLL);
    o.conns = o.active = 1;
    o.rate = 1000;
    run(&o);
    // About 200 are due in the window and few are answered; the rest counts with its waiting time.
    assert_true(result->steady.errors.count[BENCH_ERROR_UNANSWERED] > 0);
    const flow_stats *f = &result->steady;
    assert_int_equal(hist_count(&f->latency), f->window_due - f->window_unsent);
    assert_true(hist_percentile(&f->latency, 90) > 200 * NS_PER_MS);
    server_stop(&s);
}

static void test_observer_sees_this_process(void **state) {
    (void)state;
    bench_server s;
    char why[160];
    u32 pids[BENCH_PIDS_MAX], self = (u32)getpid();
    observe_sample *from = malloc(sizeof(*from)), *to = malloc(sizeof(*to));
    observe_delta *d = malloc(sizeof(*d));
    server_start(&s, WIRE_ECHO, FAULT_NONE);
    assert_int_equal(observe_take(&self, 1, from), 0);
    assert_true(from->count >= 2);                 // this thread, the server's, a sanitizer's
    clock_t until = clock() + CLOCKS_PER_SEC / 20; // 50 ms of CPU, however long that takes
    while (clock() < until) {
    }
    assert_int_equal(observe_take(&self, 1, to), 0);
    observe_difference(from, to, d);
    assert_in_range(d->total.run_ns, 40 * NS_PER_MS, 500 * NS_PER_MS);
    assert_true(d->rss_bytes > 0);
    assert_int_equal(observe_find_listeners(s.port, pids, why, sizeof(why)),
                     0); // itself is never the server
    assert_non_null(strstr(why, "port"));
    u32 nobody = 0x3ffffff;
    assert_true(observe_take(&nobody, 1, from) < 0);
    server_stop(&s);
    free(from);
    free(to);
    free(d);
}

static void test_json_is_balanced(void **state) {
    (void)state;
    bench_server s;
    bench_options o;
    char *text = NULL;
    size_t bytes = 0;
    server_start(&s, WIRE_ECHO, FAULT_NONE);
    options(&o, BENCH_FRAME, &s, CIO_AUTO);
    o.short_rate = 50;
    run(&o);
    FILE *f = open_memstream(&text, &bytes);
    report_json(f, &o, result);
    report_table(stderr, &o, result);
    fclose(f);
    i32 depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"' && text[i - 1] != '\\') quoted = !quoted;
        if (quoted) continue;
        depth += text[i] == '{' || text[i] == '[' ? 1 : text[i] == '}' || text[i] == ']' ? -1 : 0;
        assert_true(depth >= 0);
    }
    assert_int_equal(depth, 0);
    assert_false(quoted);
    assert_non_null(strstr(text, "\"p99.99\""));
    free(text);
    server_stop(&s);
}

static int setup(void **state) {
    (void)state;
    char why[160];
    result = calloc(1, sizeof(*result));
    cio *io = cio_open(CIO_URING, 4, 4096, why, sizeof(why));
    has_uring = io != NULL;
    if (io != NULL) cio_free(io);
    if (!has_uring) print_message("only epoll is tested: %s\n", why);
    bench_signals_install();
    return result == NULL;
}

static int teardown(void **state) {
    (void)state;
    free(result);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_server_all_modes),
        cmocka_unit_test(test_short_storm_slow_idle),
        cmocka_unit_test(test_slow_readers_are_pushed_back),
        cmocka_unit_test(test_each_fault_has_its_name),
        cmocka_unit_test(test_setup_failures_are_named),
        cmocka_unit_test(test_search_for_the_highest_rate),
        cmocka_unit_test(test_stall_is_charged),
        cmocka_unit_test(test_observer_sees_this_process),
        cmocka_unit_test(test_json_is_balanced),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
