// SPDX-License-Identifier: Apache-2.0
// tune_report.c: medians, ratios and the recommendation.
//
// Engines are compared within a round, because a machine drifts more between rounds than inside
// one. What counts as a difference: more than 5 % and more than half the spread that epoll-et shows
// against itself over the rounds, and every round on the same side.
#include "bench/tune_report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench/json_out.h"

#define NOISE_LEAST 0.05
#define IDLE_SHARE 0.05 // of a core: below it the engine cannot be the bottleneck

static int compare_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, u32 n) {
    if (n == 0) return 0;
    qsort(values, n, sizeof(*values), compare_double); // sorted after: callers read the ends
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double point_median(const tune_engine *e, u32 rounds, size_t offset) {
    double values[TUNE_ROUNDS_MAX];
    u32 n = 0;
    for (u32 i = 0; i < rounds; i++) {
        if (!e->rounds[i].ok) continue;
        memcpy(&values[n++], (const char *)&e->rounds[i] + offset, sizeof(double));
    }
    return median(values, n);
}

// Ratio to the baseline of the same round; *low and *high over the rounds.
static double ratio_median(const tune_figures *t, u32 engine, size_t offset, double *low,
                           double *high) {
    double values[TUNE_ROUNDS_MAX];
    u32 n = 0;
    for (u32 i = 0; i < t->rounds; i++) {
        const tune_point *p = &t->engines[engine].rounds[i],
                         *base = &t->engines[TUNE_BASELINE].rounds[i];
        double a, b;
        if (!p->ok || !base->ok) continue;
        memcpy(&a, (const char *)p + offset, sizeof(a));
        memcpy(&b, (const char *)base + offset, sizeof(b));
        if (b > 0) values[n++] = a / b;
    }
    double m = median(values, n);
    *low = n ? values[0] : 0;
    *high = n ? values[n - 1] : 0;
    return m;
}

void tune_summarize(const tune_figures *t, tune_summary out[TUNE_ENGINES]) {
    for (u32 i = 0; i < TUNE_ENGINES; i++) {
        const tune_engine *e = &t->engines[i];
        tune_summary *s = &out[i];
        memset(s, 0, sizeof(*s));
        s->usable = e->why_not[0] == 0 && t->rounds > 0;
        for (u32 r = 0; r < t->rounds; r++) {
            s->usable = s->usable && e->rounds[r].ok;
            s->disturbed += e->rounds[r].disturbed;
        }
        tune_point *m = &s->median;
        m->cpu_us = point_median(e, t->rounds, offsetof(tune_point, cpu_us));
        m->cpu_share = point_median(e, t->rounds, offsetof(tune_point, cpu_share));
        m->p50_us = point_median(e, t->rounds, offsetof(tune_point, p50_us));
        m->p99_us = point_median(e, t->rounds, offsetof(tune_point, p99_us));
        m->p999_us = point_median(e, t->rounds, offsetof(tune_point, p999_us));
        m->max_us = point_median(e, t->rounds, offsetof(tune_point, max_us));
        m->switches = point_median(e, t->rounds, offsetof(tune_point, switches));
        m->syscalls = point_median(e, t->rounds, offsetof(tune_point, syscalls));
        s->cpu_ratio = ratio_median(t, i, offsetof(tune_point, cpu_us), &s->cpu_ratio_low,
                                    &s->cpu_ratio_high);
        s->p99_ratio = ratio_median(t, i, offsetof(tune_point, p99_us), &s->p99_ratio_low,
                                    &s->p99_ratio_high);
    }
}

static double noise_of(const tune_figures *t) {
    double low = 0, high = 0;
    for (u32 r = 0; r < t->rounds; r++) {
        const tune_point *p = &t->engines[TUNE_BASELINE].rounds[r];
        if (!p->ok) continue;
        if (low == 0 || p->cpu_us < low) low = p->cpu_us;
        if (p->cpu_us > high) high = p->cpu_us;
    }
    double half_spread = low > 0 ? (high / low - 1) / 2 : 0;
    return MAX(NOISE_LEAST, half_spread);
}

PRINTF_LIKE(2, 3) static void say(tune_advice *a, const char *format, ...) {
    size_t at = strlen(a->text);
    va_list args;
    va_start(args, format);
    vsnprintf(a->text + at, sizeof(a->text) - at, format, args);
    va_end(args);
}

// Lowest CPU among the usable engines; TUNE_ENGINES if there is none.
static u32 cheapest(const tune_summary *s) {
    u32 best = TUNE_ENGINES;
    for (u32 i = 0; i < TUNE_ENGINES; i++) {
        if (!s[i].usable) continue;
        if (best == TUNE_ENGINES || s[i].median.cpu_us < s[best].median.cpu_us) best = i;
    }
    return best;
}

static void conclude_against_baseline(const tune_figures *t, const tune_summary *s, u32 best,
                                      tune_advice *out) {
    const tune_summary *b = &s[best];
    const char *name = t->engines[best].name;
    bool cheaper = b->cpu_ratio < 1 - out->noise && b->cpu_ratio_high < 1;
    if (!cheaper) {
        out->kind = TUNE_TIE;
        out->engine = TUNE_BASELINE;
        if (best == TUNE_BASELINE) {
            say(out, "The engines tie: none needs less CPU per message than epoll-et. ");
            return;
        }
        say(out,
            "The engines tie: the cheapest, %s, needs %.2f of epoll-et's CPU per message (%.2f to "
            "%.2f over the rounds), and differences up to %.0f %% are noise here. ",
            name, b->cpu_ratio, b->cpu_ratio_low, b->cpu_ratio_high, 100 * out->noise);
        return;
    }
    out->engine = best;
    out->kind = TUNE_CLEAR;
    say(out,
        "%s needs %.2f of epoll-et's CPU per message (%.2f to %.2f over the rounds), beyond the "
        "noise of %.0f %%. ",
        name, b->cpu_ratio, b->cpu_ratio_low, b->cpu_ratio_high, 100 * out->noise);
    if (b->disturbed + s[TUNE_BASELINE].disturbed > 0) {
        say(out, "Latencies can not be compared: other work on this machine disturbed them. ");
        return;
    }
    // Tails scatter more than CPU: worse means a quarter more at the median and worse in every
    // round.
    if (b->p99_ratio > 1.25 && b->p99_ratio_low > 1) {
        out->kind = TUNE_TRADE;
        say(out,
            "But its p99 is %.2f of epoll-et's (%.2f to %.2f): choose %s if CPU is what you lack, "
            "epoll-et if latency is. ",
            b->p99_ratio, b->p99_ratio_low, b->p99_ratio_high, name);
    } else {
        say(out, "Its p99 is no worse (%.2f of epoll-et's, %.2f to %.2f). ", b->p99_ratio,
            b->p99_ratio_low, b->p99_ratio_high);
    }
}

void tune_conclude(const tune_figures *t, tune_advice *out) {
    tune_summary s[TUNE_ENGINES];
    *out = (tune_advice){.noise = noise_of(t)};
    tune_summarize(t, s);
    u32 best = cheapest(s);
    if (best == TUNE_ENGINES) {
        out->kind = TUNE_NOTHING;
        say(out, "No engine was measured in full: see the reasons above. ");
        return;
    }
    u32 usable = 0;
    for (u32 i = 0; i < TUNE_ENGINES; i++) usable += s[i].usable;
    if (!s[TUNE_BASELINE].usable || usable == 1) {
        out->kind = TUNE_ONLY;
        out->engine = best;
        say(out,
            usable == 1 ? "Only %s could be measured, so there is nothing to compare. "
                        : "epoll-et could not be measured, so nothing can be compared with it; of "
                          "the others %s needs the least CPU per message. ",
            t->engines[best].name);
        return;
    }
    conclude_against_baseline(t, s, best, out);
    for (u32 i = 0; i < TUNE_ENGINES; i++) {
        if (!s[i].usable || s[i].cpu_ratio_low <= 1 + out->noise) continue;
        say(out, "%s needs %.2f of epoll-et's CPU. ", t->engines[i].name, s[i].cpu_ratio);
    }
    double share = s[out->engine].median.cpu_share;
    if (share < IDLE_SHARE) {
        say(out, "The gateway used %.1f %% of one core at this load: the bottleneck is elsewhere. ",
            100 * share);
    }
    if (out->kind == TUNE_TIE) say(out, "Choose auto. ");
    if (out->noise > 0.15) {
        say(out,
            "This machine was not quiet (epoll-et differs from itself by %.0f %% between rounds): "
            "repeat with more --rounds, or when nothing else runs. ",
            200 * out->noise);
    }
    if (t->cpus < 2)
        say(out, "Generator and gateway shared one CPU: its share includes their competition. ");
}

void tune_print(FILE *f, const tune_figures *t) {
    tune_summary s[TUNE_ENGINES];
    tune_advice advice;
    tune_summarize(t, s);
    fprintf(f,
            "\n%u connections, %u active, %.0f messages/s of %u bytes, %.0f short connections/s; "
            "medians of %u "
            "rounds, one worker\n\n",
            t->conns, t->active, t->rate, t->size, t->short_rate, t->rounds);
    fprintf(f, "%-9s %9s %17s %7s %9s %9s %9s %9s %9s %9s\n", "engine", "CPU us", "ratio (range)",
            "CPU %", "p50 us", "p99 us", "p99.9 us", "max us", "switches", "syscalls");
    for (u32 i = 0; i < TUNE_ENGINES; i++) {
        const tune_point *m = &s[i].median;
        if (!s[i].usable) {
            fprintf(f, "%-9s not available: %s\n", t->engines[i].name, t->engines[i].why_not);
            continue;
        }
        char range[32], calls[16] = "-";
        snprintf(range, sizeof(range), "%.2f (%.2f-%.2f)", s[i].cpu_ratio, s[i].cpu_ratio_low,
                 s[i].cpu_ratio_high);
        if (m->syscalls >= 0) snprintf(calls, sizeof(calls), "%.3f", m->syscalls);
        fprintf(f, "%-9s %9.3f %17s %7.2f %9.1f %9.1f %9.1f %9.1f %9.4f %9s\n", t->engines[i].name,
                m->cpu_us, range, 100 * m->cpu_share, m->p50_us, m->p99_us, m->p999_us, m->max_us,
                m->switches, calls);
    }
    u32 disturbed = 0;
    for (u32 i = 0; i < TUNE_ENGINES; i++) disturbed += s[i].disturbed;
    if (disturbed > 0) {
        fprintf(f,
                "\nIn %u measurements other work held the generator up: their latencies are too "
                "high.\n",
                disturbed);
    }
    tune_conclude(t, &advice);
    const char *choice = advice.kind == TUNE_TIE ? "auto" : t->engines[advice.engine].name;
    fprintf(f,
            "\nCPU, switches and system calls are per message or short connection; ratio: to "
            "epoll-et of the "
            "same round.\n\nrecommendation: %s\n%s\n",
            advice.kind == TUNE_NOTHING ? "none" : choice, advice.text);
}

static void engine_json(json_out *j, const tune_figures *t, u32 index, const tune_summary *s) {
    const tune_engine *e = &t->engines[index];
    json_out_object_begin(j, NULL);
    json_out_text(j, "engine", e->name);
    json_out_bool(j, "usable", s->usable);
    if (!s->usable) json_out_text(j, "why_not", e->why_not);
    json_out_double(j, "cpu_us", s->median.cpu_us);
    json_out_double(j, "cpu_share", s->median.cpu_share);
    json_out_double(j, "p50_us", s->median.p50_us);
    json_out_double(j, "p99_us", s->median.p99_us);
    json_out_double(j, "p99.9_us", s->median.p999_us);
    json_out_double(j, "max_us", s->median.max_us);
    json_out_double(j, "switches", s->median.switches);
    if (s->median.syscalls >= 0) {
        json_out_double(j, "syscalls", s->median.syscalls);
    } else {
        json_out_null(j, "syscalls");
    }
    json_out_double(j, "cpu_ratio", s->cpu_ratio);
    json_out_double(j, "cpu_ratio_low", s->cpu_ratio_low);
    json_out_double(j, "cpu_ratio_high", s->cpu_ratio_high);
    json_out_double(j, "p99_ratio", s->p99_ratio);
    json_out_double(j, "p99_ratio_low", s->p99_ratio_low);
    json_out_double(j, "p99_ratio_high", s->p99_ratio_high);
    json_out_array_begin(j, "rounds");
    for (u32 r = 0; r < t->rounds; r++) {
        const tune_point *p = &e->rounds[r];
        json_out_object_begin(j, NULL);
        json_out_bool(j, "ok", p->ok);
        if (p->ok) {
            json_out_bool(j, "disturbed", p->disturbed);
            json_out_double(j, "cpu_us", p->cpu_us);
            json_out_double(j, "p50_us", p->p50_us);
            json_out_double(j, "p99_us", p->p99_us);
            json_out_double(j, "p99.9_us", p->p999_us);
            json_out_double(j, "max_us", p->max_us);
        }
        json_out_object_end(j);
    }
    json_out_array_end(j);
    json_out_object_end(j);
}

void tune_print_json(FILE *f, const tune_figures *t) {
    static const char *const kinds[] = {"nothing", "tie", "clear", "trade", "only"};
    tune_summary s[TUNE_ENGINES];
    tune_advice advice;
    tune_summarize(t, s);
    tune_conclude(t, &advice);
    json_out j = {.file = f};
    json_out_object_begin(&j, NULL);
    json_out_u64(&j, "format", 1);
    json_out_u64(&j, "conns", t->conns);
    json_out_u64(&j, "active", t->active);
    json_out_double(&j, "rate", t->rate);
    json_out_u64(&j, "size", t->size);
    json_out_double(&j, "short_rate", t->short_rate);
    json_out_u64(&j, "rounds", t->rounds);
    json_out_u64(&j, "cpus", t->cpus);
    json_out_array_begin(&j, "engines");
    for (u32 i = 0; i < TUNE_ENGINES; i++) engine_json(&j, t, i, &s[i]);
    json_out_array_end(&j);
    json_out_text(&j, "conclusion", kinds[advice.kind]);
    json_out_text(&j, "recommendation",
                  advice.kind == TUNE_NOTHING ? ""
                  : advice.kind == TUNE_TIE   ? "auto"
                                              : t->engines[advice.engine].name);
    json_out_double(&j, "noise", advice.noise);
    json_out_text(&j, "reasons", advice.text);
    json_out_object_end(&j);
}
