// SPDX-License-Identifier: Apache-2.0
// report_json.c: the result as JSON. Field names are stable; docs/bench.md defines each. Latencies
// are in microseconds, times in seconds, memory in bytes.
#include "bench/report.h"

#include <string.h>

void report_json_percentiles(json_out *j, const char *key, const hist *h) {
    json_out_object_begin(j, key);
    json_out_u64(j, "count", hist_count(h));
    json_out_double(j, "min", (double)hist_min(h) / 1e3);
    json_out_double(j, "mean", hist_mean(h) / 1e3);
    json_out_double(j, "p50", (double)hist_percentile(h, 50) / 1e3);
    json_out_double(j, "p90", (double)hist_percentile(h, 90) / 1e3);
    json_out_double(j, "p99", (double)hist_percentile(h, 99) / 1e3);
    json_out_double(j, "p99.9", (double)hist_percentile(h, 99.9) / 1e3);
    json_out_double(j, "p99.99", (double)hist_percentile(h, 99.99) / 1e3);
    json_out_double(j, "max", (double)hist_max(h) / 1e3);
    json_out_object_end(j);
}

static void errors_write(json_out *j, const bench_errors *e) {
    json_out_object_begin(j, "errors");
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) {
        if (e->count[i] != 0) json_out_u64(j, bench_error_name((bench_error)i), e->count[i]);
    }
    json_out_object_end(j);
}

static void flow_write(json_out *j, const bench_result *r, const flow_stats *s, double rate,
                       u64 observed) {
    json_out_double(j, "rate_asked", rate);
    json_out_double(j, "rate_due", report_per_second(s->window_due, r->window_ns));
    json_out_double(j, "rate_answered", report_per_second(observed, r->observed_ns));
    json_out_u64(j, "due", s->window_due);
    json_out_u64(j, "answered", s->window_answered);
    json_out_u64(j, "unsent", s->window_unsent);
    json_out_u64(j, "bytes_out", s->bytes_out);
    json_out_u64(j, "bytes_in", s->bytes_in);
    report_json_percentiles(j, "latency_us", &s->latency);
    errors_write(j, &s->errors);
}

static void long_write(json_out *j, const bench_result *r) {
    json_out_object_begin(j, "long");
    json_out_u64(j, "conns", r->conns);
    json_out_u64(j, "active", r->active);
    json_out_u64(j, "alive", r->alive);
    flow_write(j, r, &r->steady, r->steady_rate, r->observed_messages);
    json_out_u64(j, "publications", r->publications);
    json_out_u64(j, "heartbeats_sent", r->heartbeats_sent);
    json_out_u64(j, "heartbeats_answered", r->heartbeats_answered);
    report_json_percentiles(j, "heartbeat_latency_us", &r->heartbeats);
    json_out_object_end(j);
}

static void short_write(json_out *j, const bench_result *r) {
    json_out_object_begin(j, r->has_storm ? "storm" : "short");
    if (r->has_storm) {
        json_out_u64(j, "conns", r->storm_conns);
        json_out_double(j, "all_served_s", (double)r->storm_ns / 1e9);
    }
    json_out_u64(j, "sources", r->sources);
    flow_write(j, r, &r->shorts, r->short_rate, r->observed_shorts);
    json_out_object_end(j);
}

static void slow_write(json_out *j, const bench_options *o, const slow_result *s) {
    json_out_object_begin(j, "slow");
    json_out_u64(j, "count", s->count);
    json_out_u64(j, "read_rate", o->read_rate);
    json_out_u64(j, "back_pressure", s->blocked);
    json_out_u64(j, "sending", s->sending);
    json_out_u64(j, "closed", s->closed);
    json_out_u64(j, "reset", s->reset);
    json_out_u64(j, "bytes_min", s->bytes_min);
    json_out_u64(j, "bytes_max", s->bytes_max);
    if (s->closed + s->reset > 0) {
        json_out_double(j, "closed_first_s", (double)s->closed_first_ns / 1e9);
        json_out_double(j, "closed_last_s", (double)s->closed_last_ns / 1e9);
    }
    json_out_object_end(j);
}

static void threads_write(json_out *j, const observe_delta *d) {
    json_out_array_begin(j, "threads");
    for (u32 i = 0; i < d->thread_count; i++) {
        const observe_thread *t = &d->threads[i];
        json_out_object_begin(j, NULL);
        json_out_u64(j, "pid", t->pid);
        json_out_u64(j, "tid", t->tid);
        json_out_text(j, "name", t->name);
        json_out_double(j, "cpu_s", (double)t->run_ns / 1e9);
        json_out_double(j, "user_s", (double)t->user_ns / 1e9);
        json_out_double(j, "system_s", (double)t->sys_ns / 1e9);
        json_out_double(j, "waited_s", (double)t->wait_ns / 1e9);
        json_out_u64(j, "voluntary_switches", t->voluntary);
        json_out_u64(j, "involuntary_switches", t->involuntary);
        json_out_object_end(j);
    }
    json_out_array_end(j);
}

static void server_write(json_out *j, const bench_result *r) {
    const observe_delta *d = &r->server;
    json_out_object_begin(j, "server");
    json_out_bool(j, "observed", d->available);
    if (!d->available) {
        json_out_text(j, "why_not", r->observe_note);
        json_out_object_end(j);
        return;
    }
    json_out_array_begin(j, "pids");
    for (u32 i = 0; i < r->pid_count; i++) json_out_u64(j, NULL, r->pids[i]);
    json_out_array_end(j);
    json_out_double(j, "window_s", (double)d->window_ns / 1e9);
    json_out_double(j, "cpu_s", (double)d->total.run_ns / 1e9);
    json_out_double(j, "user_s", (double)d->total.user_ns / 1e9);
    json_out_double(j, "system_s", (double)d->total.sys_ns / 1e9);
    json_out_double(j, "io_uring_workers_s", (double)d->workers_ns / 1e9);
    json_out_double(j, "waited_s", (double)d->total.wait_ns / 1e9);
    json_out_u64(j, "voluntary_switches", d->total.voluntary);
    json_out_u64(j, "involuntary_switches", d->total.involuntary);
    json_out_u64(j, "exchanges", bench_result_exchanges(r));
    json_out_double(j, "cpu_us_per_exchange", report_cpu_us_per_exchange(r));
    json_out_double(j, "switches_per_exchange", report_switches_per_exchange(r));
    if (r->syscalls_available && r->syscalls_exchanges > 0) {
        json_out_double(j, "syscalls_per_exchange",
                        (double)r->syscalls / (double)r->syscalls_exchanges);
    } else {
        json_out_null(j, "syscalls_per_exchange");
        json_out_text(j, "syscalls_why_not", r->syscalls_note);
    }
    json_out_u64(j, "rss_bytes", d->rss_bytes);
    json_out_u64(j, "private_bytes", d->private_bytes);
    threads_write(j, d);
    json_out_object_end(j);
}

static void idle_write(json_out *j, const bench_result *r) {
    json_out_object_begin(j, "idle");
    json_out_u64(j, "rss_before", r->rss_before);
    json_out_u64(j, "rss_after", r->rss_after);
    json_out_u64(j, "private_before", r->private_before);
    json_out_u64(j, "private_after", r->private_after);
    json_out_double(j, "rss_per_conn",
                    ((double)r->rss_after - (double)r->rss_before) / (double)r->conns);
    json_out_double(j, "private_per_conn",
                    ((double)r->private_after - (double)r->private_before) / (double)r->conns);
    json_out_double(j, "kernel_tcp_per_conn",
                    ((double)r->tcp_after - (double)r->tcp_before) / (double)r->conns);
    json_out_object_end(j);
}

static void generator_write(json_out *j, const bench_options *o, const bench_result *r) {
    json_out_object_begin(j, "generator");
    json_out_text(j, "engine", r->engine);
    json_out_text(j, "note", r->engine_note);
    json_out_text(j, "wait", r->spinning ? "spin" : "sleep");
    json_out_double(j, "tick_us", (double)r->tick_ns / 1e3);
    json_out_text(j, "arrival", o->arrival == ARRIVAL_POISSON ? "poisson" : "uniform");
    json_out_u64(j, "seed", o->seed);
    json_out_double(j, "busy_share", r->busy_share);
    json_out_double(j, "cpu_s", (double)r->self_run_ns / 1e9);
    json_out_double(j, "waited_s", (double)r->self_wait_ns / 1e9);
    json_out_double(j, "steal_share", r->steal_share);
    report_json_percentiles(j, "lag_us", &r->lag);
    report_json_percentiles(j, "turn_us", &r->turns);
    json_out_object_end(j);
}

void report_json_into(json_out *j, const char *key, const bench_options *o, const bench_result *r) {
    json_out_object_begin(j, key);
    json_out_u64(j, "format", 1);
    json_out_text(j, "kind", bench_kind_name(o->kind));
    json_out_bool(j, "measured", !r->failed);
    if (r->failed) {
        json_out_text(j, "failure", r->failure);
        json_out_object_end(j);
        return;
    }
    json_out_bool(j, "valid", r->valid);
    json_out_text(j, "verdict", r->verdict);
    json_out_u64(j, "errors_total", bench_result_errors(r));
    json_out_bool(j, "interrupted", r->interrupted);
    json_out_text(j, "target", r->target);
    json_out_text(j, "mode", bench_mode_name(o->mode));
    json_out_u64(j, "size", o->size);
    json_out_double(j, "window_s", (double)r->window_ns / 1e9);
    generator_write(j, o, r);
    if (r->has_steady) long_write(j, r);
    if (r->has_short) short_write(j, r);
    if (r->has_slow) slow_write(j, o, &r->slow);
    if (o->kind == BENCH_IDLE) idle_write(j, r);
    server_write(j, r);
    json_out_object_end(j);
}

void report_json(FILE *f, const bench_options *o, const bench_result *r) {
    json_out j = {.file = f};
    report_json_into(&j, NULL, o, r);
}
