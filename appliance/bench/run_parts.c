// SPDX-License-Identifier: Apache-2.0
// run_parts.c: composes a run out of flows: frame = long connections (and short ones beside them),
// conn = short ones, storm = many at once beside a steady load, slow = slow readers beside normal
// ones, idle = long ones that only beat. Checks descriptors before anything is opened.
#include "bench/run_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// A source address is good for about 28,000 ports; 16,000 leaves room for those in TIME_WAIT.
#define CONNS_PER_SOURCE 16000u
// Short connections leave their port in TIME_WAIT for 60 s: 256 addresses x 28,000 ports carry
// 100,000 connections a second.
#define SOURCES_FOR_SHORT 256u

PRINTF_LIKE(2, 3) static int refuse(run *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->result->failure, sizeof(r->result->failure), format, args);
    va_end(args);
    return -EINVAL;
}

static u32 long_conns(const bench_options *o) {
    return o->kind == BENCH_CONN ? 0 : o->kind == BENCH_STORM ? o->steady_conns : o->conns;
}

static bool wants_short(const bench_options *o) {
    return o->kind == BENCH_CONN || o->kind == BENCH_STORM || o->short_rate > 0;
}

// Raises the soft limit to the hard one; *short_max is what is left for short connections.
static int descriptors_prepare(run *r, u32 *short_max) {
    const bench_options *o = r->load.options;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return refuse(r, "getrlimit: %s", errno_name(errno));
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    u64 fixed = (u64)long_conns(o) + (o->kind == BENCH_SLOW ? o->slow : 0) +
                BENCH_DESCRIPTORS_SPARE;
    u64 wanted = o->kind == BENCH_STORM ? o->conns : wants_short(o) ? BENCH_SHORT_OPEN_MAX : 0;
    u64 least = o->kind == BENCH_STORM ? o->conns : wants_short(o) ? 100 : 0;
    if (fixed + least > limit.rlim_cur) {
        return refuse(
            r,
            "too_many_descriptors: %llu are needed, %llu are allowed: raise the hard limit (ulimit "
            "-Hn) or use fewer connections",
            (unsigned long long)(fixed + least), (unsigned long long)limit.rlim_cur);
    }
    *short_max = (u32)MIN(wanted, limit.rlim_cur - fixed);
    return 0;
}

static int target_prepare(run *r) {
    const bench_options *o = r->load.options;
    char why[160];
    if (dial_resolve(&r->dial, o->to, why, sizeof(why)) != 0) return refuse(r, "--to %s", why);
    if (o->src_addrs > 0 && !r->dial.loopback) {
        return refuse(r, "--src-addrs needs a target in 127.0.0.0/8, which %s is not", o->to);
    }
    r->short_dial = r->slow_dial = r->dial;
    u32 auto_long = (long_conns(o) + CONNS_PER_SOURCE - 1) / CONNS_PER_SOURCE;
    u32 auto_short = o->kind == BENCH_STORM ? o->conns / CONNS_PER_SOURCE + 1 : SOURCES_FOR_SHORT;
    r->dial.sources = o->src_addrs ? o->src_addrs : auto_long;
    r->short_dial.sources = o->src_addrs ? o->src_addrs : auto_short;
    r->short_dial.reset = o->close == CLOSE_RST;
    r->short_dial.one_frame = true;
    if (o->kind != BENCH_SLOW) r->dial.rcvbuf = r->short_dial.rcvbuf = o->rcvbuf;
    r->slow_dial.rcvbuf = o->rcvbuf;
    r->slow_dial.sndbuf = BENCH_SLOW_SNDBUF_BYTES;
    r->result->sources = r->dial.loopback
                             ? (wants_short(o) ? r->short_dial.sources : r->dial.sources)
                             : 1;
    snprintf(r->result->target, sizeof(r->result->target), "%s", r->dial.text);
    return 0;
}

static u32 receive_buffer_bytes(const bench_options *o) {
    u32 bytes = BENCH_RECV_BUF_BYTES_MIN;
    while (bytes < 2 * o->size && bytes < BENCH_RECV_BUF_BYTES_MAX) bytes *= 2;
    return bytes;
}

static int steady_prepare(run *r) {
    const bench_options *o = r->load.options;
    char why[160];
    steady_params p = {
        .conns = long_conns(o), .active = long_conns(o), .size = o->size, .dial = &r->dial};
    p.heartbeat_ns = o->heartbeat_ns;
    p.rate = o->kind == BENCH_STORM ? o->steady_rate : o->kind == BENCH_IDLE ? 0 : o->rate;
    if (o->kind == BENCH_FRAME) p.active = o->active;
    r->steady = steady_open(&r->load, &p, why, sizeof(why));
    if (r->steady == NULL) return refuse(r, "%s", why);
    r->actors[r->actor_count++] = steady_send_actor(r->steady);
    r->actors[r->actor_count++] = steady_heartbeat_actor(r->steady);
    r->result->has_steady = true;
    r->result->conns = p.conns;
    r->result->active = p.active;
    r->result->steady_rate = p.rate;
    return 0;
}

static int short_prepare(run *r, u32 open_max) {
    const bench_options *o = r->load.options;
    char why[160];
    short_params p = {.size = o->size, .open_max = open_max, .dial = &r->short_dial};
    p.rate = o->kind == BENCH_FRAME ? o->short_rate : o->rate;
    if (o->kind == BENCH_FRAME) p.size = MIN(o->size, 32u);
    if (o->kind == BENCH_STORM) {
        p.total = o->conns;
        p.hold = true;
    }
    r->shorts = short_open(&r->load, &p, why, sizeof(why));
    if (r->shorts == NULL) return refuse(r, "%s", why);
    r->actors[r->actor_count++] = short_start_actor(r->shorts);
    r->actors[r->actor_count++] = short_expire_actor(r->shorts);
    r->result->has_short = true;
    r->result->has_storm = p.hold;
    r->result->storm_conns = p.total;
    r->result->short_rate = p.rate;
    return 0;
}

static int connect_long(run *r) {
    bench_error error = BENCH_ERROR_CONNECT_FAILED;
    u32 reached = 0, conns = r->result->conns;
    if (isatty(2)) fprintf(stderr, "opening %u connections to %s ...\n", conns, r->dial.text);
    int rc = steady_connect(r->steady, &error, &reached);
    if (rc == -EINTR) return rc;
    if (rc == 0) return 0;
    return refuse(r, "set-up failed at connection %u of %u: %s: %s", MIN(reached + 1, conns), conns,
                  bench_error_name(error), bench_error_advice(error));
}

static int slow_prepare(run *r) {
    const bench_options *o = r->load.options;
    char why[256];
    r->slow = slow_open(&r->load, &r->slow_dial, o->slow, o->read_rate, why, sizeof(why));
    if (r->slow == NULL) return refuse(r, "%s", why);
    r->actors[r->actor_count++] = slow_actor(r->slow);
    r->result->has_slow = true;
    return 0;
}

int run_parts_open(run *r, void (*observe)(run *r)) {
    const bench_options *o = r->load.options;
    bench_result *out = r->result;
    u32 short_max = 0;
    int rc = target_prepare(r);
    if (rc == 0) rc = descriptors_prepare(r, &short_max);
    if (rc != 0) return rc;
    r->before = malloc(sizeof(*r->before));
    r->after = malloc(sizeof(*r->after));
    if (r->before == NULL || r->after == NULL)
        base_out_of_memory("server samples", sizeof(*r->after));
    observe(r);
    r->load.io = cio_open((cio_engine)o->engine, long_conns(o) + short_max, receive_buffer_bytes(o),
                          out->engine_note, sizeof(out->engine_note));
    if (r->load.io == NULL) return refuse(r, "%s", out->engine_note);
    snprintf(out->engine, sizeof(out->engine), "%s", cio_engine_name(r->load.io));
    if (long_conns(o) > 0) {
        rc = steady_prepare(r);
        if (rc == 0) rc = connect_long(r);
    }
    if (rc == 0 && wants_short(o)) rc = short_prepare(r, short_max);
    if (rc == 0 && o->kind == BENCH_SLOW) rc = slow_prepare(r);
    return rc;
}

void run_parts_start(run *r, u64 start_ns) {
    if (r->steady != NULL) steady_start(r->steady, start_ns);
    if (r->slow != NULL) slow_start(r->slow, start_ns);
    // The steady load beside a storm warms up; the storm itself begins with the window.
    if (r->shorts != NULL)
        short_start(r->shorts, r->result->has_storm ? r->load.window_begin_ns : start_ns);
}

void run_parts_stop(run *r) {
    if (r->steady != NULL) steady_stop(r->steady);
    if (r->shorts != NULL) short_stop(r->shorts);
    if (r->slow != NULL) slow_stop(r->slow);
}

bool run_parts_done(const run *r) {
    return r->result->has_storm && r->shorts != NULL && short_all_served(r->shorts);
}

u64 run_parts_outstanding(run *r) {
    u64 n = 0;
    if (r->steady != NULL) n += steady_outstanding(r->steady);
    if (r->shorts != NULL) n += short_stats(r->shorts)->outstanding;
    return n;
}

bool run_parts_behind(const run *r) {
    u64 end_ns = r->load.window_end_ns;
    if (r->steady != NULL && steady_send_actor(r->steady)->due_ns < end_ns) return true;
    if (r->shorts == NULL || r->result->has_storm) return false;
    return short_start_actor(r->shorts)->due_ns < end_ns;
}

void run_parts_finish(run *r, u64 now_ns) {
    bench_result *out = r->result;
    if (r->steady != NULL) {
        steady_finish(r->steady, now_ns);
        out->steady = *steady_stats(r->steady);
        out->heartbeats = *steady_heartbeats(r->steady, &out->heartbeats_sent,
                                             &out->heartbeats_answered);
        out->publications = steady_publications(r->steady);
        out->alive = steady_alive(r->steady);
    }
    if (r->shorts != NULL) {
        short_finish(r->shorts, now_ns);
        out->shorts = *short_stats(r->shorts);
        u64 first = short_first_start_ns(r->shorts), last = short_last_answer_ns(r->shorts);
        out->storm_ns = last > first ? last - first : 0;
    }
    if (r->slow != NULL) slow_report(r->slow, now_ns, &out->slow);
}

void run_parts_free(run *r) {
    if (r->load.io != NULL) cio_free(r->load.io);
    if (r->steady != NULL) steady_free(r->steady);
    if (r->shorts != NULL) short_free(r->shorts);
    if (r->slow != NULL) slow_free(r->slow);
    free(r->before);
    free(r->after);
    free(r);
}
