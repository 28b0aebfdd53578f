// SPDX-License-Identifier: Apache-2.0
// metrics.c: /metrics in the Prometheus text format, version 0.0.4, made page by page: one family of one worker is
// the smallest piece, so that the answer of a machine with 64 workers never lies in memory as a whole.
//
// Invariants: a family's lines are together and follow its HELP and TYPE; a histogram's buckets, sum and count
// come from one snapshot, so they agree.
#include "ops/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "ops/routes.h"

typedef struct bound {
    u64 value;
    const char *text;
} bound;

// 10 us to 10 s: the loop and the reply of a healthy gateway lie below 1 ms, a stalled one above 100 ms.
static const bound bounds_ns[] = {
    {10000, "0.00001"},    {25000, "0.000025"},   {50000, "0.00005"},     {100000, "0.0001"},
    {250000, "0.00025"},   {500000, "0.0005"},    {1000000, "0.001"},     {2500000, "0.0025"},
    {5000000, "0.005"},    {10000000, "0.01"},    {25000000, "0.025"},    {50000000, "0.05"},
    {100000000, "0.1"},    {250000000, "0.25"},   {500000000, "0.5"},     {1000000000, "1"},
    {2500000000, "2.5"},   {10000000000, "10"},
};
static const bound bounds_one[] = {
    {1, "1"},   {2, "2"},   {4, "4"},     {8, "8"},     {16, "16"},     {32, "32"},
    {64, "64"}, {128, "128"}, {256, "256"}, {512, "512"}, {1024, "1024"}, {4096, "4096"},
};
#define BOUNDS_MAX 18u
_Static_assert(ARRAY_LEN(bounds_ns) <= BOUNDS_MAX && ARRAY_LEN(bounds_one) <= BOUNDS_MAX, "room for both");

void metric_label(text *out, const char *key, const char *value) {
    text_printf(out, "%s=\"", key);
    for (const char *s = value; *s != '\0'; s++) {
        if (*s == '\\') text_puts(out, "\\\\");
        else if (*s == '"') text_puts(out, "\\\"");
        else if (*s == '\n') text_puts(out, "\\n");
        else text_append(out, s, 1);
    }
    text_puts(out, "\"");
}

// {worker="0",labels}, or nothing when there is no label.
static void print_labels(text *out, const worker *w, const char *labels) {
    if (w == NULL && labels[0] == '\0') return;
    text_puts(out, "{");
    if (w != NULL && w->is_ops) text_puts(out, "worker=\"ops\"");
    else if (w != NULL) text_printf(out, "worker=\"%u\"", w->index);
    if (w != NULL && labels[0] != '\0') text_puts(out, ",");
    text_puts(out, labels);
    text_puts(out, "}");
}

static void print_seconds(text *out, u64 ns) {
    text_printf(out, " %llu.%09llu\n", (unsigned long long)(ns / NS_PER_S),
                (unsigned long long)(ns % NS_PER_S));
}

void metric_sample(text *out, const metric_family *f, const worker *w, const char *labels, u64 value) {
    text_puts(out, f->name);
    print_labels(out, w, labels);
    text_printf(out, " %llu\n", (unsigned long long)value);
}

void metric_sample_ns(text *out, const metric_family *f, const worker *w, const char *labels, u64 ns) {
    text_puts(out, f->name);
    print_labels(out, w, labels);
    print_seconds(out, ns);
}

static void print_histogram(text *out, const metric_family *f, const worker *w, const hist *live,
                            hist *scratch) {
    const bound *bounds = f->unit == UNIT_NS ? bounds_ns : bounds_one;
    u32 count = f->unit == UNIT_NS ? ARRAY_LEN(bounds_ns) : ARRAY_LEN(bounds_one);
    u64 values[BOUNDS_MAX], below[BOUNDS_MAX];
    for (u32 i = 0; i < count; i++) values[i] = bounds[i].value;
    hist_snapshot(live, scratch);
    hist_cumulative(scratch, values, count, below);
    u64 total = hist_count(scratch);
    for (u32 i = 0; i <= count; i++) {
        char le[32];
        snprintf(le, sizeof(le), "le=\"%s\"", i < count ? bounds[i].text : "+Inf");
        text_printf(out, "%s_bucket", f->name);
        print_labels(out, w, le);
        text_printf(out, " %llu\n", (unsigned long long)(i < count ? below[i] : total));
    }
    text_printf(out, "%s_sum", f->name);
    print_labels(out, w, "");
    if (f->unit == UNIT_NS) print_seconds(out, scratch->sum);
    else text_printf(out, " %llu\n", (unsigned long long)scratch->sum);
    text_printf(out, "%s_count", f->name);
    print_labels(out, w, "");
    text_printf(out, " %llu\n", (unsigned long long)total);
}

void metric_print_head(text *out, const metric_family *f) {
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, types[f->type]);
}

void metric_print(text *out, const metric_family *f, const gateway *gw, const worker *w, hist *scratch) {
    const char *base = NULL;
    switch (f->source) {
    case SOURCE_WORKER: base = (const char *)&w->metrics; break;
    case SOURCE_IO: base = (const char *)io_engine_stats(w->engine); break;
    case SOURCE_STORE:
        if (w->store == NULL) return;
        base = (const char *)store_metrics_get(w->store);
        break;
    case SOURCE_EMIT: f->emit(out, f, gw, w); return;
    }
    if (f->type == METRIC_HISTOGRAM) {
        print_histogram(out, f, w, (const hist *)(const void *)(base + f->offset), scratch);
        return;
    }
    u64 value = counter_get((const counter *)(const void *)(base + f->offset));
    if (f->unit == UNIT_NS) metric_sample_ns(out, f, w, "", value);
    else metric_sample(out, f, w, "", value);
}

// --- the answer ---

typedef struct metrics_state {
    u32 family, worker;
    hist scratch;
} metrics_state;

static u32 workers_of(const metric_family *f, const gateway *gw) {
    switch (f->scope) {
    case SCOPE_PROCESS: return 1;
    case SCOPE_DEVICE: return gw->worker_count;
    case SCOPE_ALL: return gw->worker_count + 1;
    }
    return 0;
}

static http_page metrics_page(http_exchange *x, text *out) {
    metrics_state *s = x->state;
    const gateway *gw = x->worker->gw;
    while (s->family < metric_family_count) {
        const metric_family *f = &metric_families[s->family];
        if (s->worker == 0) metric_print_head(out, f);
        const worker *w = f->scope == SCOPE_PROCESS ? NULL : &gw->workers[s->worker];
        metric_print(out, f, gw, w, &s->scratch);
        if (++s->worker >= workers_of(f, gw)) {
            s->worker = 0;
            s->family++;
        }
        if (out->len >= LIMIT_HTTP_PAGE_BYTES) return HTTP_PAGE_MORE;
    }
    return HTTP_PAGE_END;
}

void metrics_handle(http_exchange *x, const char *rest) {
    (void)rest;
    metrics_state *s = malloc(sizeof(*s));
    if (s == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    s->family = 0;
    s->worker = 0;
    http_set_state(x, s, free);
    http_answer_pages(x, HTTP_METRICS, metrics_page, false);
}
