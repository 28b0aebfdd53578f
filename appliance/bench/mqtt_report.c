// SPDX-License-Identifier: Apache-2.0
// mqtt_report.c: the table for people.
#include "bench/mqtt_report.h"

#include "bench/report.h"

static double ratio(double a, double b) {
    return b == 0 ? 0 : a / b;
}

double mq_report_cpu_us(const mq_options *o, const mq_result *r) {
    if (!r->server.available) return 0;
    return ratio((double)r->server.total.run_ns / 1e3, (double)mq_result_exchanges(o, r));
}

static void latency_row(FILE *f, const char *name, const hist *h) {
    static const double percents[] = {50, 90, 99, 99.9, 99.99, 100};
    if (hist_count(h) == 0) return;
    fprintf(f, "  %-18s", name);
    for (u32 i = 0; i < ARRAY_LEN(percents); i++) {
        double us = (double)hist_percentile(h, percents[i]) / 1e3;
        fprintf(f, us < 1000 ? " %9.1f" : " %9.0f", us);
    }
    fprintf(f, " %9.1f %10llu\n", hist_mean(h) / 1e3, (unsigned long long)hist_count(h));
}

static void latencies_print(FILE *f, const mq_result *r) {
    fprintf(f, "\n  %-18s %9s %9s %9s %9s %9s %9s %9s %10s\n", "microseconds", "p50", "p90", "p99",
            "p99.9", "p99.99", "max", "mean", "count");
    latency_row(f, "delivery", &r->latency);
    latency_row(f, "acknowledgement", &r->acks);
    latency_row(f, "handshake", &r->handshakes);
    latency_row(f, "first retained", &r->first_ns);
    latency_row(f, "all retained", &r->flood_ns);
    latency_row(f, "generator's lag", &r->lag);
    latency_row(f, "generator's turns", &r->turns);
}

static void head_print(FILE *f, const mq_options *o, const mq_result *r) {
    fprintf(f, "mqtt %s to %s, MQTT %s, window %.2f s%s\n", mq_kind_name(o->kind), r->target,
            o->version == 1 ? "5.0" : "3.1.1", (double)r->window_ns / 1e9,
            r->interrupted ? " (interrupted)" : "");
    switch (o->kind) {
    case MQ_IDLE:
        fprintf(f, "  %u connections, %u subscriptions each, %u at the end\n", r->clients,
                o->filters, r->alive);
        break;
    case MQ_STORM:
        fprintf(f, "  %u handshakes at once at most, from %u source addresses%s\n", o->at_once,
                r->sources, o->hold ? ", held open" : "");
        break;
    default:
        fprintf(f, "  %u publishers, %u subscribers, payload %u bytes, QoS %u, subscriptions QoS "
                   "%u; %u of %u connections at the end\n",
                o->pubs, o->subs, o->size, o->qos, o->sub_qos, r->alive, r->clients);
    }
    fprintf(f, "  generator: %s, %s, busy %.0f %%, waited for a CPU %.1f %%; hypervisor took "
               "%.1f %%\n",
            r->engine, r->spinning ? "spinning" : "sleeping", 100 * r->busy_share,
            100 * ratio((double)r->self_wait_ns, (double)r->observed_ns), 100 * r->steal_share);
    if (r->engine_note[0] != 0) fprintf(f, "  note: %s\n", r->engine_note);
}

static void counts_print(FILE *f, const mq_options *o, const mq_result *r) {
    if (o->kind == MQ_STORM) {
        fprintf(f, "  %llu of %llu connections served in %.3f s: %.0f/s\n",
                (unsigned long long)r->storm_served, (unsigned long long)r->storm_started,
                (double)r->storm_ns / 1e9, report_per_second(r->storm_served, r->storm_ns));
        return;
    }
    if (o->kind == MQ_IDLE) return;
    fprintf(f, "  published %llu, deliveries expected %llu, delivered %llu\n",
            (unsigned long long)r->published, (unsigned long long)r->expected,
            (unsigned long long)r->delivered);
    if (o->kind == MQ_RETAINED) {
        fprintf(f, "  stored in %.3f s: %.0f/s; delivered at %.0f/s; cleared %llu\n",
                (double)r->stored_ns / 1e9, report_per_second(o->messages, r->stored_ns),
                report_per_second(r->observed_delivered, r->observed_ns),
                (unsigned long long)r->cleared);
        return;
    }
    if (o->stalled > 0) {
        fprintf(f, "  %u stalled subscribers, %u of them cut off by the broker\n", o->stalled,
                r->stalled_closed);
    }
    fprintf(f, "  in the window: due %.0f/s of %.0f/s asked for, published %.0f/s, delivered "
               "%.0f/s (%.2f %% of what was expected)\n",
            report_per_second(r->window_published + r->window_unsent, r->window_ns), o->rate,
            report_per_second(r->observed_published, r->observed_ns),
            report_per_second(r->observed_delivered, r->observed_ns),
            100 * ratio((double)r->window_delivered, (double)r->window_expected));
}

static void threads_print(FILE *f, const mq_result *r) {
    fprintf(f, "\n  %-8s %-18s %9s %9s\n", "thread", "name", "CPU %", "waited %");
    for (u32 i = 0; i < r->server.thread_count; i++) {
        const observe_thread *t = &r->server.threads[i];
        fprintf(f, "  %-8u %-18s %9.2f %9.2f\n", t->tid, t->name,
                100 * ratio((double)t->run_ns, (double)r->server.window_ns),
                100 * ratio((double)t->wait_ns, (double)r->server.window_ns));
    }
}

static void server_print(FILE *f, const mq_options *o, const mq_result *r) {
    const observe_delta *d = &r->server;
    const observe_thread *t = &d->total;
    if (!d->available) {
        fprintf(f, "\nbroker: not observed: %s\n", r->observe_note);
        return;
    }
    fprintf(f, "\nbroker pid %u%s: %u threads, CPU %.2f %% of one core (io_uring workers %.2f)\n",
            r->pids[0], r->pid_count > 1 ? " and others" : "", d->thread_count,
            100 * ratio((double)t->run_ns, (double)d->window_ns),
            100 * ratio((double)d->workers_ns, (double)d->window_ns));
    if (mq_result_exchanges(o, r) > 0) {
        fprintf(f, "  CPU %.3f s per million %s; context switches %.4f voluntary, %.4f "
                   "involuntary each\n",
                mq_report_cpu_us(o, r), o->kind == MQ_STORM ? "connections" : "deliveries",
                ratio((double)t->voluntary, (double)mq_result_exchanges(o, r)),
                ratio((double)t->involuntary, (double)mq_result_exchanges(o, r)));
    }
    fprintf(f, "  memory: RSS %.2f MiB, private %.2f MiB; threads waited for a CPU %.2f %%\n",
            (double)d->rss_bytes / 1048576, (double)d->private_bytes / 1048576,
            100 * ratio((double)t->wait_ns, (double)d->window_ns));
    if (r->rss_after > 0) {
        double n = o->kind == MQ_RETAINED ? o->messages : MAX(r->clients, 1u);
        double top = r->rss_peak > 0 ? (double)r->rss_peak : (double)r->rss_after;
        double top_private = r->private_peak > 0 ? (double)r->private_peak
                                                 : (double)r->private_after;
        fprintf(f, "  RSS before %.2f, at most %.2f, after %.2f MiB: %.0f bytes per %s, private "
                   "%.0f\n",
                (double)r->rss_before / 1048576, top / 1048576, (double)r->rss_after / 1048576,
                (top - (double)r->rss_before) / n,
                o->kind == MQ_RETAINED ? "retained message" : "connection",
                (top_private - (double)r->private_before) / n);
    }
    if (d->ended > 0) {
        fprintf(f, "  note: %u threads ended in the window, their time is missing\n", d->ended);
    }
    if (o->verbose) threads_print(f, r);
}

void mq_report_table(FILE *f, const mq_options *o, const mq_result *r) {
    if (r->failed) {
        fprintf(f, "not measured: %s\n", r->failure);
        return;
    }
    head_print(f, o, r);
    counts_print(f, o, r);
    latencies_print(f, r);
    server_print(f, o, r);
    u64 errors = bench_errors_total(&r->errors);
    fprintf(f, "\nerrors: %llu\n", (unsigned long long)errors);
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) {
        if (r->errors.count[i] == 0) continue;
        fprintf(f, "  %s %llu: %s\n", bench_error_name((bench_error)i),
                (unsigned long long)r->errors.count[i], bench_error_advice((bench_error)i));
    }
    if (r->first_refusal[0] != 0) fprintf(f, "  the broker said: %s\n", r->first_refusal);
    if (r->verdict[0] != 0) fprintf(f, "%s%s\n", r->valid ? "" : "INVALID: ", r->verdict);
}
