// SPDX-License-Identifier: Apache-2.0
// mqtt_report_json.c: the result as JSON. Field names are documented in docs/bench.md; latencies in
// microseconds, names with _s in seconds, memory in bytes.
#include "bench/json_out.h"
#include "bench/mqtt_report.h"
#include "bench/report.h"

static void latency_object(json_out *j, const char *key, const hist *h) {
    static const struct {
        const char *name;
        double percent;
    } rows[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};
    json_out_object_begin(j, key);
    json_out_u64(j, "count", hist_count(h));
    json_out_double(j, "min", (double)hist_min(h) / 1e3);
    json_out_double(j, "mean", hist_mean(h) / 1e3);
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        json_out_double(j, rows[i].name, (double)hist_percentile(h, rows[i].percent) / 1e3);
    }
    json_out_double(j, "max", (double)hist_max(h) / 1e3);
    json_out_object_end(j);
}

static void generator_object(json_out *j, const mq_result *r) {
    json_out_object_begin(j, "generator");
    json_out_text(j, "engine", r->engine);
    json_out_text(j, "note", r->engine_note);
    json_out_text(j, "wait", r->spinning ? "spin" : "sleep");
    json_out_double(j, "busy_share", r->busy_share);
    json_out_double(j, "cpu_s", (double)r->self_run_ns / 1e9);
    json_out_double(j, "waited_s", (double)r->self_wait_ns / 1e9);
    json_out_double(j, "steal_share", r->steal_share);
    json_out_u64(j, "sources", r->sources);
    latency_object(j, "lag_us", &r->lag);
    latency_object(j, "turn_us", &r->turns);
    json_out_object_end(j);
}

static void messages_object(json_out *j, const mq_options *o, const mq_result *r) {
    json_out_object_begin(j, "messages");
    json_out_u64(j, "pubs", o->pubs);
    json_out_u64(j, "subs", o->subs);
    json_out_u64(j, "qos", o->qos);
    json_out_u64(j, "sub_qos", o->sub_qos);
    json_out_u64(j, "burst", o->burst);
    json_out_double(j, "rate_asked", o->rate);
    json_out_double(j, "rate_due",
                    report_per_second(r->window_published + r->window_unsent, r->window_ns));
    json_out_double(j, "rate_published",
                    report_per_second(r->observed_published, r->observed_ns));
    json_out_double(j, "rate_delivered",
                    report_per_second(r->observed_delivered, r->observed_ns));
    json_out_u64(j, "stalled", o->stalled);
    json_out_u64(j, "stalled_closed", r->stalled_closed);
    json_out_u64(j, "unsent", r->window_unsent);
    json_out_u64(j, "published", r->published);
    json_out_u64(j, "expected", r->expected);
    json_out_u64(j, "delivered", r->delivered);
    json_out_u64(j, "window_expected", r->window_expected);
    json_out_u64(j, "window_delivered", r->window_delivered);
    latency_object(j, "latency_us", &r->latency);
    latency_object(j, "ack_us", &r->acks);
    json_out_object_end(j);
}

static void storm_object(json_out *j, const mq_options *o, const mq_result *r) {
    json_out_object_begin(j, "storm");
    json_out_u64(j, "at_once", o->at_once);
    json_out_bool(j, "held", o->hold);
    json_out_u64(j, "started", r->storm_started);
    json_out_u64(j, "served", r->storm_served);
    json_out_double(j, "served_s", (double)r->storm_ns / 1e9);
    json_out_double(j, "rate", report_per_second(r->storm_served, r->storm_ns));
    json_out_object_end(j);
}

static void retained_object(json_out *j, const mq_options *o, const mq_result *r) {
    json_out_object_begin(j, "retained");
    json_out_u64(j, "messages", o->messages);
    json_out_double(j, "stored_s", (double)r->stored_ns / 1e9);
    json_out_double(j, "rate_stored", report_per_second(o->messages, r->stored_ns));
    latency_object(j, "first_us", &r->first_ns);
    latency_object(j, "all_us", &r->flood_ns);
    json_out_u64(j, "cleared", r->cleared);
    json_out_object_end(j);
}

static void memory_object(json_out *j, const mq_options *o, const mq_result *r) {
    double n = o->kind == MQ_RETAINED ? o->messages : MAX(r->clients, 1u);
    u64 rss = r->rss_peak > 0 ? r->rss_peak : r->rss_after;
    u64 own = r->private_peak > 0 ? r->private_peak : r->private_after;
    json_out_object_begin(j, "memory");
    json_out_u64(j, "rss_before", r->rss_before);
    json_out_u64(j, "rss_most", rss);
    json_out_u64(j, "rss_after", r->rss_after);
    json_out_u64(j, "private_before", r->private_before);
    json_out_u64(j, "private_most", own);
    json_out_u64(j, "private_after", r->private_after);
    json_out_double(j, "rss_each", ((double)rss - (double)r->rss_before) / n);
    json_out_double(j, "private_each", ((double)own - (double)r->private_before) / n);
    json_out_double(j, "kernel_tcp_each",
                    ((double)r->tcp_after - (double)r->tcp_before) / MAX(r->clients, 1u));
    json_out_object_end(j);
}

static void server_object(json_out *j, const mq_options *o, const mq_result *r) {
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
    json_out_u64(j, "threads", d->thread_count);
    json_out_double(j, "cpu_s", (double)d->total.run_ns / 1e9);
    json_out_double(j, "io_uring_workers_s", (double)d->workers_ns / 1e9);
    json_out_double(j, "waited_s", (double)d->total.wait_ns / 1e9);
    json_out_u64(j, "voluntary_switches", d->total.voluntary);
    json_out_u64(j, "involuntary_switches", d->total.involuntary);
    json_out_u64(j, "exchanges", mq_result_exchanges(o, r));
    json_out_double(j, "cpu_us_per_exchange", mq_report_cpu_us(o, r));
    json_out_u64(j, "rss_bytes", d->rss_bytes);
    json_out_u64(j, "private_bytes", d->private_bytes);
    json_out_object_end(j);
}

static void errors_object(json_out *j, const mq_result *r) {
    json_out_object_begin(j, "errors");
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) {
        if (r->errors.count[i] == 0) continue;
        json_out_u64(j, bench_error_name((bench_error)i), r->errors.count[i]);
    }
    json_out_object_end(j);
}

void mq_report_json(FILE *f, const mq_options *o, const mq_result *r) {
    json_out j = {.file = f};
    json_out_object_begin(&j, NULL);
    json_out_u64(&j, "format", 1);
    json_out_text(&j, "kind", mq_kind_name(o->kind));
    json_out_text(&j, "version", o->version == 1 ? "5.0" : "3.1.1");
    json_out_text(&j, "target", r->target);
    json_out_u64(&j, "size", o->size);
    json_out_bool(&j, "measured", !r->failed);
    if (r->failed) {
        json_out_text(&j, "failure", r->failure);
        json_out_object_end(&j);
        return;
    }
    json_out_double(&j, "window_s", (double)r->window_ns / 1e9);
    json_out_bool(&j, "interrupted", r->interrupted);
    json_out_bool(&j, "valid", r->valid);
    json_out_text(&j, "verdict", r->verdict);
    json_out_u64(&j, "clients", r->clients);
    json_out_u64(&j, "alive", r->alive);
    json_out_u64(&j, "errors_total", bench_errors_total(&r->errors));
    errors_object(&j, r);
    json_out_text(&j, "broker_said", r->first_refusal);
    latency_object(&j, "handshake_us", &r->handshakes);
    if (o->tls_ca != NULL) {
        json_out_object_begin(&j, "tls");
        json_out_u64(&j, "full", r->tls_full);
        json_out_u64(&j, "resumed", r->tls_resumed);
        json_out_object_end(&j);
    }
    if (o->kind == MQ_STORM) storm_object(&j, o, r);
    if (o->kind == MQ_RETAINED) retained_object(&j, o, r);
    if (o->kind != MQ_STORM && o->kind != MQ_IDLE) messages_object(&j, o, r);
    if (r->rss_after > 0) memory_object(&j, o, r);
    server_object(&j, o, r);
    generator_object(&j, r);
    json_out_object_end(&j);
}
