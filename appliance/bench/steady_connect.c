// SPDX-License-Identifier: Apache-2.0
// steady_connect.c: opens the long connections: a bounded number of connects at once, at a bounded
// rate, and then one exchange on each, because a connect that succeeded says only that the kernel
// has it in the listener's queue.
#include <errno.h>
#include <unistd.h>

#include "bench/steady_conn.h"

typedef struct connecting {
    int fds[BENCH_CONNECT_WINDOW];
    u32 first, count; // ring; connection index of the oldest is reached
    u32 reached;
} connecting;

static int fail(steady *s, bench_error error, bench_error *out) {
    bench_error_add(&s->stats.errors, error, 1);
    *out = error;
    return -1;
}

// Finishes the oldest connect, hands it to the event loop and asks the server for a first answer.
static int oldest_finish(steady *s, connecting *p, bench_error *error) {
    int fd = p->fds[p->first];
    p->first = (p->first + 1) % BENCH_CONNECT_WINDOW;
    p->count--;
    int rc = dial_finish(fd, (int)(s->load->options->timeout_ns / NS_PER_MS));
    steady_conn *c = &s->conn[p->reached];
    if (rc == 0) rc = cio_attach(s->load->io, &c->io, fd, &s->events, false);
    if (rc != 0) {
        close(fd);
        return fail(s, bench_error_of_connect(rc), error);
    }
    p->reached++;
    s->alive++;
    if (s->mode == WIRE_PUBLISH) {
        c->hello_pending = true;
        steady_conn_send(s, c);
    } else {
        steady_conn_heartbeat(s, c, clock_mono_ns());
    }
    return 0;
}

static void all_close(connecting *p) {
    for (; p->count > 0; p->count--) {
        close(p->fds[p->first]);
        p->first = (p->first + 1) % BENCH_CONNECT_WINDOW;
    }
}

// Waits until connection number index may be started, working on the answers meanwhile.
static void pace(steady *s, u64 start_ns, u32 index) {
    u64 at = start_ns + (u64)((double)index * 1e9 / s->load->options->connect_rate);
    do {
        cio_poll(s->load->io);
        if (clock_mono_ns() >= at) return;
        cio_wait(s->load->io, at);
    } while (!bench_stop);
}

static int connect_all(steady *s, connecting *p, bench_error *error) {
    u64 start_ns = clock_mono_ns();
    for (u32 i = 0; i < s->conns; i++) {
        // Whoever is connected already and gets lost ends the set-up: the run would not be what was
        // asked.
        if (s->alive != p->reached) {
            *error = s->last_error;
            return -1;
        }
        pace(s, start_ns, i);
        if (bench_stop) return -EINTR;
        if (p->count == BENCH_CONNECT_WINDOW && oldest_finish(s, p, error) != 0) return -1;
        int fd;
        int rc = dial_start(s->params.dial, i, &fd);
        if (rc != 0) return fail(s, bench_error_of_connect(rc), error);
        p->fds[(p->first + p->count) % BENCH_CONNECT_WINDOW] = fd;
        p->count++;
    }
    while (p->count > 0) {
        if (oldest_finish(s, p, error) != 0) return -1;
    }
    return 0;
}

static int ready_wait(steady *s, bench_error *error) {
    u64 until_ns = clock_mono_ns() + s->load->options->timeout_ns;
    while (s->ready_count < s->conns) {
        if (bench_stop) return -EINTR;
        if (s->alive < s->conns) {
            *error = s->last_error;
            return -1;
        }
        if (clock_mono_ns() >= until_ns) return fail(s, BENCH_ERROR_NOT_READY, error);
        cio_poll(s->load->io);
        cio_wait(s->load->io, MIN(until_ns, clock_mono_ns() + 10 * NS_PER_MS));
    }
    return 0;
}

int steady_connect(steady *s, bench_error *error, u32 *reached) {
    connecting p = {.count = 0};
    int rc = connect_all(s, &p, error);
    all_close(&p);
    *reached = p.reached;
    if (rc == 0) {
        rc = ready_wait(s, error);
        *reached = s->ready_count;
    }
    // The set-up's own heartbeats are not part of what is reported.
    s->heartbeats_sent = s->heartbeats_answered = 0;
    s->stats.bytes_in = s->stats.bytes_out = 0;
    return rc;
}
