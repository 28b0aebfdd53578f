// SPDX-License-Identifier: Apache-2.0
// report.c: the table for people.
#include "bench/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

double report_per_second(u64 count, u64 ns) {
    return ns == 0 ? 0 : (double)count * 1e9 / (double)ns;
}

static double ratio(double a, double b) {
    return b == 0 ? 0 : a / b;
}

double report_cpu_us_per_exchange(const bench_result *r) {
    return ratio((double)r->server.total.run_ns / 1e3, (double)bench_result_exchanges(r));
}

double report_switches_per_exchange(const bench_result *r) {
    const observe_thread *t = &r->server.total;
    return ratio((double)(t->voluntary + t->involuntary), (double)bench_result_exchanges(r));
}

// "1,234,567" for people. Four buffers in turn, so that one printf may hold four numbers.
static const char *grouped(u64 value) {
    static char buffers[4][32];
    static u32 turn;
    char digits[24], *out = buffers[turn++ % 4];
    int n = snprintf(digits, sizeof(digits), "%" PRIu64, value), at = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

static const char *latency_text(u64 ns, char *out, size_t out_bytes) {
    double us = (double)ns / 1e3;
    snprintf(out, out_bytes, us < 1000 ? "%.1f" : "%.0f", us);
    return out;
}

static void latency_row(FILE *f, const char *name, const hist *h) {
    static const double percents[] = {50, 90, 99, 99.9, 99.99};
    char text[24];
    if (hist_count(h) == 0) return;
    fprintf(f, "  %-18s", name);
    for (u32 i = 0; i < ARRAY_LEN(percents); i++) {
        fprintf(f, " %9s", latency_text(hist_percentile(h, percents[i]), text, sizeof(text)));
    }
    fprintf(f, " %9s", latency_text(hist_max(h), text, sizeof(text)));
    fprintf(f, " %9s\n", latency_text((u64)hist_mean(h), text, sizeof(text)));
}

static void latency_table(FILE *f, const bench_result *r) {
    fprintf(f, "\n  %-18s %9s %9s %9s %9s %9s %9s %9s\n", "microseconds", "p50", "p90", "p99",
            "p99.9", "p99.99", "max", "mean");
    if (r->has_steady) latency_row(f, "messages", &r->steady.latency);
    if (r->has_steady) latency_row(f, "heartbeats", &r->heartbeats);
    if (r->has_short)
        latency_row(f, r->has_storm ? "storm" : "short connections", &r->shorts.latency);
    latency_row(f, "generator's lag", &r->lag);
    latency_row(f, "generator's turns", &r->turns);
}

static void rate_row(FILE *f, const char *name, const flow_stats *s, const bench_result *r,
                     u64 observed) {
    if (s->started == 0 && s->window_due == 0) return; // no such load was asked for
    double due = report_per_second(s->window_due, r->window_ns);
    double done = report_per_second(observed, r->observed_ns);
    fprintf(f, "  %-18s due %s (%.0f/s), answered %s; answered in the window %.0f/s", name,
            grouped(s->window_due), due, grouped(s->window_answered), done);
    if (due > 0) fprintf(f, " (%.1f %%)", 100 * done / due);
    if (s->window_unsent > 0)
        fprintf(f, "; never sent by the generator: %s", grouped(s->window_unsent));
    fprintf(f, "\n");
}

static void head_print(FILE *f, const bench_options *o, const bench_result *r) {
    fprintf(f, "%s %s to %s, frames of %u bytes, window %.2f s%s\n", bench_kind_name(o->kind),
            bench_mode_name(o->mode), r->target, o->size, (double)r->window_ns / 1e9,
            r->interrupted ? " (interrupted)" : "");
    if (r->has_steady) {
        fprintf(f, "  %s long connections, %s active, %s at the end; %.0f messages/s %s\n",
                grouped(r->conns), grouped(r->active), grouped(r->alive), r->steady_rate,
                o->arrival == ARRIVAL_POISSON ? "poisson" : "uniform");
    }
    if (r->has_short && !r->has_storm) {
        fprintf(f, "  %.0f short connections/s, closed by %s, from %u source addresses\n",
                r->short_rate, o->close == CLOSE_RST ? "RST" : "FIN", r->sources);
    }
    fprintf(f,
            "  generator: %s, %s, tick %.0f us, busy %.0f %%, waited for a CPU %.1f %%; hypervisor "
            "took %.1f %%\n",
            r->engine, r->spinning ? "spinning" : "sleeping", (double)r->tick_ns / 1e3,
            100 * r->busy_share, 100 * ratio((double)r->self_wait_ns, (double)r->observed_ns),
            100 * r->steal_share);
    if (r->engine_note[0] != 0) fprintf(f, "  note: %s\n", r->engine_note);
    if (!r->spinning && bench_cpu_count() == 1) {
        fprintf(f,
                "  note: one CPU: generator and server share it, and these figures contain both\n");
    }
}

static void server_threads(FILE *f, const bench_result *r) {
    fprintf(f, "\n  %-8s %-18s %9s %9s %9s %12s %12s\n", "thread", "name", "CPU %", "user %",
            "waited %", "voluntary", "involuntary");
    double window = (double)r->server.window_ns;
    for (u32 i = 0; i < r->server.thread_count; i++) {
        const observe_thread *t = &r->server.threads[i];
        fprintf(f, "  %-8u %-18s %9.2f %9.2f %9.2f %12s %12s\n", t->tid, t->name,
                100 * ratio((double)t->run_ns, window), 100 * ratio((double)t->user_ns, window),
                100 * ratio((double)t->wait_ns, window), grouped(t->voluntary),
                grouped(t->involuntary));
    }
}

static void server_print(FILE *f, const bench_options *o, const bench_result *r) {
    const observe_delta *d = &r->server;
    const observe_thread *t = &d->total;
    if (!d->available) {
        fprintf(f, "\nserver: not observed: %s\n", r->observe_note);
        return;
    }
    double window = (double)d->window_ns, n = (double)bench_result_exchanges(r);
    double split = ratio((double)t->user_ns, (double)(t->user_ns + t->sys_ns));
    double cpu = 100 * ratio((double)t->run_ns, window);
    fprintf(f,
            "\nserver pid %u%s: CPU %.2f %% of one core (user %.2f, system %.2f, io_uring workers "
            "%.2f)\n",
            r->pids[0], r->pid_count > 1 ? " and others" : "", cpu, cpu * split, cpu * (1 - split),
            100 * ratio((double)d->workers_ns, window));
    if (n > 0) {
        const char *unit = !r->has_steady ? "connection"
                           : r->has_short ? "message or short connection"
                                          : "message";
        fprintf(f,
                "  per %s: CPU %.3f us, context switches %.4f voluntary %.4f involuntary, system "
                "calls ",
                unit, report_cpu_us_per_exchange(r), (double)t->voluntary / n,
                (double)t->involuntary / n);
        if (r->syscalls_available) {
            fprintf(f, "%.4f\n", ratio((double)r->syscalls, (double)r->syscalls_exchanges));
        } else {
            fprintf(f, "not available (%s)\n", r->syscalls_note);
        }
    }
    fprintf(f,
            "  memory: RSS %.2f MiB, private %.2f MiB; threads waited for a CPU %.2f %% of the "
            "window\n",
            (double)d->rss_bytes / 1048576, (double)d->private_bytes / 1048576,
            100 * ratio((double)t->wait_ns, window));
    if (d->ended > 0)
        fprintf(f, "  note: %u threads ended in the window, their time is missing\n", d->ended);
    if (o->verbose) server_threads(f, r);
}

static void idle_print(FILE *f, const bench_result *r) {
    if (r->pid_count == 0) return;
    double n = (double)r->conns;
    fprintf(f,
            "\nmemory of %s idle connections: RSS %.2f -> %.2f MiB = %.0f bytes each; private %.0f "
            "bytes each;\n"
            "  kernel TCP buffers (both ends, whole machine) %.0f bytes each\n",
            grouped(r->conns), (double)r->rss_before / 1048576, (double)r->rss_after / 1048576,
            ((double)r->rss_after - (double)r->rss_before) / n,
            ((double)r->private_after - (double)r->private_before) / n,
            ((double)r->tcp_after - (double)r->tcp_before) / n);
}

static void slow_print(FILE *f, const bench_options *o, const bench_result *r) {
    const slow_result *s = &r->slow;
    fprintf(f,
            "\nslow readers: %u, reading %" PRIu64
            " bytes/s each: %u held back by back-pressure, %u still "
            "sending, %u closed (FIN), %u reset\n",
            s->count, o->read_rate, s->blocked, s->sending, s->closed, s->reset);
    fprintf(f, "  taken from each: %s to %s bytes", grouped(s->bytes_min), grouped(s->bytes_max));
    if (s->closed + s->reset > 0) {
        fprintf(f, "; closed after %.2f to %.2f s", (double)s->closed_first_ns / 1e9,
                (double)s->closed_last_ns / 1e9);
    }
    fprintf(f, "\n");
}

static void errors_print(FILE *f, const char *flow, const bench_errors *e) {
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) {
        if (e->count[i] == 0) continue;
        fprintf(f, "  %s: %s %s: %s\n", flow, bench_error_name((bench_error)i),
                grouped(e->count[i]), bench_error_advice((bench_error)i));
    }
}

void report_table(FILE *f, const bench_options *o, const bench_result *r) {
    if (r->failed) {
        fprintf(f, "not measured: %s\n", r->failure);
        return;
    }
    head_print(f, o, r);
    if (r->has_steady) rate_row(f, "messages", &r->steady, r, r->observed_messages);
    if (r->has_short)
        rate_row(f, r->has_storm ? "storm" : "short connections", &r->shorts, r,
                 r->observed_shorts);
    latency_table(f, r);
    if (r->has_storm) {
        fprintf(f, "\nstorm: %s connections, last reply %.3f s after the first connect\n",
                grouped(r->storm_conns), (double)r->storm_ns / 1e9);
    }
    if (r->has_slow) slow_print(f, o, r);
    server_print(f, o, r);
    if (o->kind == BENCH_IDLE) idle_print(f, r);
    if (r->publications > 0)
        fprintf(f, "publications to the devices: %s\n", grouped(r->publications));
    u64 errors = bench_result_errors(r);
    fprintf(f, "\nerrors: %s\n", errors == 0 ? "none" : grouped(errors));
    errors_print(f, "messages", &r->steady.errors);
    errors_print(f, r->has_storm ? "storm" : "short connections", &r->shorts.errors);
    if (r->verdict[0] != 0) fprintf(f, "%s%s\n", r->valid ? "" : "INVALID: ", r->verdict);
}
