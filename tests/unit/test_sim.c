// SPDX-License-Identifier: Apache-2.0
// test_sim.c: the simulated world and engine by themselves: the pipe's promises, time, faults that really
// happen, equal runs from equal seeds, and that a caller who breaks the rules of io.h is stopped.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io.h"
#include "io/sim.h"

typedef struct bench {
    sim *world;
    io_engine *engine;
    u64 now_ns;
    recorder rec;
    io_handle listener;
    int listen_fd;
    int accepted;
} bench;

// The near end of the one connection of most tests.
typedef struct end {
    io_handle io;
    u8 data[65536];
    u32 len, calls;
    int last, sent, closed;
    const u8 *kept; // of the last on_recv
    bool keep;
} end;

static end *end_of(io_handle *h) {
    return CONTAINER_OF(h, end, io);
}

static void on_accept(io_handle *h, int result, const struct sockaddr_storage *peer) {
    (void)peer;
    CONTAINER_OF(h, bench, listener)->accepted = result;
}

static void on_recv(io_handle *h, int result, u8 *data) {
    end *n = end_of(h);
    n->calls++;
    n->last = result;
    if (result <= 0) return;
    memcpy(n->data + n->len, data, (size_t)result);
    n->len += (u32)result;
    if (n->keep) n->kept = data;
}

static void on_send(io_handle *h, int result) {
    end_of(h)->sent = result;
}

static void on_closed(io_handle *h) {
    end_of(h)->closed++;
}

static void on_listener_closed(io_handle *h) {
    (void)h;
}

static const io_callbacks end_callbacks = {.on_recv = on_recv, .on_send = on_send, .on_closed = on_closed};
static const io_callbacks listener_callbacks = {.on_accept = on_accept, .on_closed = on_listener_closed};

static void bench_open(bench *b, const sim_config *config) {
    memset(b, 0, sizeof(*b));
    b->world = sim_create(config);
    assert_int_equal(recorder_init(&b->rec, &b->now_ns), 0);
    io_config io = {.kind = IO_SIM, .handles_max = 64, .recv_bufs = 8, .rec = &b->rec, .now_ns = &b->now_ns};
    const char *step = "";
    assert_int_equal(io_create(&io, &b->engine, &step), 0);
    assert_int_equal(io_enable(b->engine), 0);
    b->listen_fd = sim_listen(b->world, NULL, 0, 16);
    assert_true(b->listen_fd >= SIM_FD_BASE);
    assert_int_equal(io_attach(b->engine, &b->listener, b->listen_fd, &listener_callbacks), 0);
    io_accept_start(b->engine, &b->listener);
}

static void bench_settle(bench *b) {
    for (u32 i = 0; i < 10000; i++) {
        int done = io_run(b->engine, 0); // tells silent sends too
        done += io_run(b->engine, UINT64_MAX);
        if (done > 0 || sim_has_work(b->world)) continue;
        if (sim_next_ns(b->world) == UINT64_MAX) return;
        sim_step(b->world, NS_PER_S);
    }
    fail();
}

static sim_peer *bench_connect(bench *b, end *n) {
    b->accepted = -1;
    memset(n, 0, sizeof(*n));
    sim_peer *p = sim_connect(b->world, b->listen_fd, NULL);
    assert_non_null(p);
    for (u32 i = 0; i < 1000 && b->accepted < 0; i++) bench_settle(b);
    assert_true(sim_fd_is_fake(b->accepted));
    assert_true(sim_peer_is_accepted(p));
    assert_int_equal(io_attach(b->engine, &n->io, b->accepted, &end_callbacks), 0);
    return p;
}

static void bench_close(bench *b) {
    io_close(b->engine, &b->listener, false);
    bench_settle(b);
    io_destroy(b->engine);
    recorder_free(&b->rec);
    assert_int_equal(sim_fds_open(b->world), 0);
    sim_destroy(b->world);
}

static void test_no_world_no_engine(void **state) {
    (void)state;
    recorder rec;
    u64 now_ns = 0;
    assert_int_equal(recorder_init(&rec, &now_ns), 0);
    io_config io = {.kind = IO_SIM, .handles_max = 4, .rec = &rec, .now_ns = &now_ns};
    io_engine *engine = NULL;
    const char *step = NULL;
    assert_int_equal(io_create(&io, &engine, &step), -ENODEV);
    assert_non_null(step);
    recorder_free(&rec);
}

static void test_random(void **state) {
    (void)state;
    sim_random a = {.state = 7}, b = {.state = 7}, c = {.state = 8};
    u32 equal = 0, hits = 0;
    for (u32 i = 0; i < 10000; i++) {
        u64 x = sim_random_next(&a);
        assert_true(x == sim_random_next(&b));
        equal += x == sim_random_next(&c);
        u64 r = sim_random_range(&a, 10, 13);
        assert_true(r >= 10 && r <= 13);
        sim_random_next(&b);
        hits += sim_random_chance(&c, 250);
    }
    assert_int_equal(equal, 0);
    assert_true(hits > 2200 && hits < 2800);
    assert_true(sim_random_below(&a, 0) == 0 && sim_random_below(&a, 1) == 0);
    assert_false(sim_random_chance(&a, 0));
}

// Bytes arrive after their latency, in order, and the clock moves only when told.
static void test_time(void **state) {
    (void)state;
    bench b;
    end n;
    sim_config config = {.seed = 3, .latency_ns_max = 10 * NS_PER_MS};
    bench_open(&b, &config);
    sim_peer *p = bench_connect(&b, &n);
    io_recv_start(b.engine, &n.io, true);
    u64 start = sim_now_ns(b.world);
    for (u32 i = 0; i < 50; i++) {
        u8 byte = (u8)i;
        assert_int_equal(sim_peer_write(p, &byte, 1), 1);
    }
    assert_int_equal(io_run(b.engine, start + NS_PER_S), (int)n.calls);
    assert_true(sim_now_ns(b.world) == start);
    bench_settle(&b);
    assert_int_equal(n.len, 50);
    for (u32 i = 0; i < 50; i++) assert_int_equal(n.data[i], i);
    u64 took = sim_now_ns(b.world) - start;
    assert_true(took > 0 && took <= 10 * NS_PER_MS);
    assert_true(b.now_ns == sim_now_ns(b.world));
    // A deadline is an event too, and one that has struck is now.
    io_run(b.engine, sim_now_ns(b.world) + 5);
    assert_true(sim_next_ns(b.world) == sim_now_ns(b.world) + 5);
    assert_true(sim_step(b.world, NS_PER_S) == 5);
    io_run(b.engine, 0);
    assert_true(sim_next_ns(b.world) == sim_now_ns(b.world));
    io_close(b.engine, &n.io, false);
    bench_settle(&b);
    assert_int_equal(n.closed, 1);
    sim_peer_close(p);
    bench_close(&b);
}

static void test_pipe_is_bounded(void **state) {
    (void)state;
    bench b;
    end n;
    sim_config config = {.seed = 4, .pipe_bytes_min = 100, .pipe_bytes_max = 100};
    bench_open(&b, &config);
    sim_peer *p = bench_connect(&b, &n);
    u8 data[300];
    memset(data, 9, sizeof(data));
    assert_int_equal(sim_peer_write(p, data, sizeof(data)), 100);
    assert_int_equal(sim_peer_write(p, data, 1), -EAGAIN);
    struct iovec iov = {data, sizeof(data)};
    int result = io_send(b.engine, &n.io, &iov, 1);
    bench_settle(&b);
    assert_true(result == 100 || (result == IO_PENDING && n.sent == 100));
    iov.iov_len = 10;
    n.sent = 0;
    assert_int_equal(io_send(b.engine, &n.io, &iov, 1), IO_PENDING);
    bench_settle(&b);
    assert_int_equal(n.sent, 0); // full
    u8 back[64];
    assert_int_equal(sim_peer_read(p, back, sizeof(back)), 64);
    bench_settle(&b);
    assert_int_equal(n.sent, 10);
    io_close(b.engine, &n.io, false);
    bench_settle(&b);
    sim_peer_close(p);
    bench_close(&b);
}

// The peer's view of the ways a connection ends.
static void test_ends(void **state) {
    (void)state;
    bench b;
    end n;
    u8 back[16];
    sim_config config = {.seed = 5};
    bench_open(&b, &config);
    sim_peer *p = bench_connect(&b, &n);
    io_close(b.engine, &n.io, false);
    bench_settle(&b);
    assert_true(sim_peer_is_gone(p));
    assert_int_equal(sim_peer_read(p, back, 1), 0);
    assert_int_equal(sim_peer_write(p, "x", 1), 1); // taken, and answered by an RST
    assert_int_equal(sim_peer_write(p, "x", 1), -ECONNRESET);
    assert_int_equal(sim_peer_write(p, "x", 1), -EPIPE);
    sim_peer_close(p);

    p = bench_connect(&b, &n);
    io_close(b.engine, &n.io, true);
    bench_settle(&b);
    assert_int_equal(sim_peer_read(p, back, 1), -ECONNRESET);
    assert_int_equal(sim_peer_read(p, back, 1), 0);
    sim_peer_close(p);

    p = bench_connect(&b, &n);
    assert_int_equal(sim_peer_write(p, "unread", 6), 6);
    io_close(b.engine, &n.io, false);
    bench_settle(&b);
    assert_int_equal(sim_peer_read(p, back, 1), -ECONNRESET);
    sim_peer_close(p);

    p = bench_connect(&b, &n);
    io_recv_start(b.engine, &n.io, true);
    assert_int_equal(sim_peer_write(p, "abc", 3), 3);
    sim_peer_shutdown(p);
    assert_int_equal(sim_peer_write(p, "x", 1), -EPIPE);
    bench_settle(&b);
    assert_int_equal(n.len, 3);
    assert_int_equal(n.last, 0);
    sim_peer_reset(p);
    io_close(b.engine, &n.io, false);
    bench_settle(&b);
    bench_close(&b);
}

// Every fault of the table happens, and none of those that only cut and delay loses a byte.
static void test_faults_happen(void **state) {
    (void)state;
    bench b;
    end n;
    sim_config config = {
        .seed = 6, .style = SIM_STYLE_MIXED, .latency_ns_max = NS_PER_MS,
        .faults = {.short_recv = 300, .short_send = 300, .send_pending = 300, .send_silent = 300, .delay = 300,
                   .late_recv = 900, .starve = 300, .multishot_end = 300, .accept_error = 300,
                   .spurious_wake = 100, .close_delay = 500, .time_jump = 300,
                   .delay_ns_max = NS_PER_MS, .jump_ns_max = NS_PER_MS},
    };
    bench_open(&b, &config);
    u32 errors = 0;
    for (u32 round = 0; round < 60; round++) {
        io_accept_start(b.engine, &b.listener);
        sim_peer *p = sim_connect(b.world, b.listen_fd, NULL);
        assert_non_null(p);
        memset(&n, 0, sizeof(n));
        b.accepted = 0;
        for (u32 i = 0; i < 1000 && b.accepted <= 0; i++) {
            if (b.accepted < 0) {
                errors++;
                assert_int_equal(b.listener.armed, 0);
                if (b.accepted == -ECONNABORTED) break;
                b.accepted = 0;
                io_accept_start(b.engine, &b.listener);
            }
            bench_settle(&b);
        }
        if (b.accepted < 0) { // that peer is gone
            sim_peer_close(p);
            continue;
        }
        assert_int_equal(io_attach(b.engine, &n.io, b.accepted, &end_callbacks), 0);
        io_recv_start(b.engine, &n.io, true);
        u8 data[5000];
        for (u32 i = 0; i < sizeof(data); i++) data[i] = (u8)(i * 7 + round);
        for (u32 at = 0; at < sizeof(data); at += 500) {
            assert_int_equal(sim_peer_write(p, data + at, 500), 500);
            if (at % 1000 == 0 && io_recv_is_armed(&n.io)) {
                sim_advance(b.world, NS_PER_MS);
                io_recv_stop(b.engine, &n.io);
                io_run(b.engine, UINT64_MAX);
                io_recv_start(b.engine, &n.io, true);
            }
            io_run(b.engine, UINT64_MAX);
        }
        bench_settle(&b);
        assert_int_equal(n.len, sizeof(data));
        assert_memory_equal(n.data, data, sizeof(data));
        u32 sent = 0;
        while (sent < sizeof(data)) {
            struct iovec iov[2] = {{data + sent, 1}, {data + sent + 1, sizeof(data) - sent - 1}};
            n.sent = 0;
            int result = io_send(b.engine, &n.io, iov, iov[1].iov_len > 0 ? 2 : 1);
            if (result == IO_PENDING) bench_settle(&b);
            result = result == IO_PENDING ? n.sent : result;
            assert_true(result > 0);
            sent += (u32)result;
        }
        bench_settle(&b);
        u8 back[5000];
        u32 got = 0;
        for (ssize_t r = 1; r > 0 && got < sizeof(back); got += r > 0 ? (u32)r : 0) {
            r = sim_peer_read(p, back + got, sizeof(back) - got);
        }
        assert_int_equal(got, sizeof(back));
        assert_memory_equal(back, data, sizeof(back));
        io_close(b.engine, &n.io, false);
        bench_settle(&b);
        assert_int_equal(n.closed, 1);
        sim_peer_close(p);
    }
    sim_counts c = sim_counts_get(b.world);
    assert_true(errors > 0 && c.accept_errors == errors);
    assert_true(c.short_recvs > 0 && c.short_sends > 0 && c.silent_sends > 0 && c.delays > 0);
    assert_true(c.late_recvs > 0 && c.starved > 0 && c.multishot_ends > 0 && c.spurious_wakes > 0);
    assert_true(c.close_delays > 0 && c.time_jumps > 0 && c.poisoned > 0);
    bench_close(&b);
}

static u64 digest_of(u64 seed) {
    bench b;
    end n;
    sim_config config = {.seed = seed, .style = SIM_STYLE_MIXED, .latency_ns_max = NS_PER_MS,
                         .faults = {.short_recv = 500, .delay = 500, .delay_ns_max = NS_PER_MS}};
    bench_open(&b, &config);
    sim_peer *p = bench_connect(&b, &n);
    io_recv_start(b.engine, &n.io, true);
    u8 data[3000] = {1};
    sim_peer_write(p, data, sizeof(data));
    bench_settle(&b);
    io_close(b.engine, &n.io, false);
    bench_settle(&b);
    u64 digest = sim_digest(b.world);
    sim_peer_close(p);
    bench_close(&b);
    return digest;
}

static void test_equal_seeds_equal_runs(void **state) {
    (void)state;
    assert_true(digest_of(11) == digest_of(11));
    assert_true(digest_of(12) == digest_of(12));
    assert_true(digest_of(11) != digest_of(12));
}

// --- rules of io.h that the simulator enforces ---

// Runs what breaks a rule in a child; true when it was stopped by an assertion or the sanitizer.
static bool is_stopped(void (*broken)(bench *b, end *n, sim_peer *p), sim_style style) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        (void)!freopen("/dev/null", "w", stderr);
        bench b;
        static end n;
        sim_config config = {.seed = 1, .style = style};
        bench_open(&b, &config);
        sim_peer *p = bench_connect(&b, &n);
        broken(&b, &n, p);
        _exit(42);
    }
    int status;
    assert_true(waitpid(pid, &status, 0) == pid);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static void keeps_rules(bench *b, end *n, sim_peer *p) {
    io_recv_start(b->engine, &n->io, true);
    sim_peer_write(p, "abc", 3);
    bench_settle(b);
}

static void writes_kept_pointer(bench *b, end *n, sim_peer *p) {
    n->keep = true;
    io_recv_start(b->engine, &n->io, true);
    for (u32 i = 0; i < 20; i++) { // every buffer of the pool comes round
        sim_peer_write(p, "abc", 3);
        bench_settle(b);
        if (i == 0) *(volatile u8 *)(uintptr_t)n->kept = 1;
    }
}

static void changes_memory_being_sent(bench *b, end *n, sim_peer *p) {
    (void)p;
    static u8 data[200000];
    static struct iovec iov = {data, sizeof(data)};
    int result = io_send(b->engine, &n->io, &iov, 1); // more than there is room for
    if (result != IO_PENDING) result = io_send(b->engine, &n->io, &iov, 1);
    data[100] = 1;
    io_close(b->engine, &n->io, false);
    bench_settle(b);
}

static void sends_twice(bench *b, end *n, sim_peer *p) {
    (void)p;
    static u8 data[200000];
    static struct iovec iov = {data, sizeof(data)};
    while (io_send(b->engine, &n->io, &iov, 1) != IO_PENDING) {
    }
    io_send(b->engine, &n->io, &iov, 1);
}

static void sends_on_closed(bench *b, end *n, sim_peer *p) {
    (void)p;
    static u8 byte = 1;
    static struct iovec iov = {&byte, 1};
    io_close(b->engine, &n->io, false);
    io_send(b->engine, &n->io, &iov, 1);
}

static void lends_outside(bench *b, end *n, sim_peer *p) {
    (void)p;
    static u8 byte = 1;
    static struct iovec iov = {&byte, 1};
    io_send_lent(b->engine, &n->io, &iov);
}

static void detaches_armed(bench *b, end *n, sim_peer *p) {
    (void)p;
    io_recv_start(b->engine, &n->io, true);
    io_detach(b->engine, &n->io);
}

static void attaches_twice(bench *b, end *n, sim_peer *p) {
    (void)p;
    static io_handle other;
    io_attach(b->engine, &other, n->io.fd, &end_callbacks);
}

static void closes_fd_of_engine(bench *b, end *n, sim_peer *p) {
    (void)p;
    sim_fd_close(b->world, n->io.fd);
}

static void test_rules_are_enforced(void **state) {
    (void)state;
    static void (*const broken[])(bench *, end *, sim_peer *) = {
        writes_kept_pointer, changes_memory_being_sent, sends_twice,    sends_on_closed,
        lends_outside,       detaches_armed,            attaches_twice, closes_fd_of_engine,
    };
    for (sim_style style = SIM_STYLE_COMPLETION; style <= SIM_STYLE_READINESS; style++) {
        assert_false(is_stopped(keeps_rules, style));
        for (u32 i = 0; i < ARRAY_LEN(broken); i++) {
            if (!is_stopped(broken[i], style)) fail_msg("rule %u is not enforced in style %u", i, style);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_world_no_engine),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_pipe_is_bounded),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_faults_happen),
        cmocka_unit_test(test_equal_seeds_equal_runs),
        cmocka_unit_test(test_rules_are_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
