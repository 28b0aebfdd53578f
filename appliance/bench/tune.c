// SPDX-License-Identifier: Apache-2.0
// tune.c: `sluice tune`: options, CPUs, and the interleaved rounds.
//
// Every measurement starts a gateway of its own (this binary, one engine, one worker, one core) and
// drives it with the load generator of `sluice bench` from another core. Engines take turns,
// forwards and backwards, so that a slow drift of the machine falls on all of them alike.
#include "bench/tune.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report.h"
#include "bench/run.h"
#include "bench/tune_child.h"
#include "bench/tune_report.h"

#define ATTEMPTS_MAX 3u     // at one round, when the generator itself was disturbed
#define BUSY_SATURATED 0.90 // of the generator's loop: then it is not disturbed but too slow

static const char usage[] =
    "usage: sluice tune --conns N [options]\n"
    "\n"
    "Runs your load against every engine (uring, epoll-et, epoll-lt, poll, select) of this binary "
    "on\n"
    "this machine, prints a table and recommends one.\n"
    "\n"
    "  --conns N          long connections; default 1000 (0: short connections only)\n"
    "  --active N | N%    how many of them send; default 100%\n"
    "  --rate N           messages/s over all of them; default 10k\n"
    "  --size BYTES       frame with its 4-byte header; default 64\n"
    "  --heartbeat TIME   every long connection sends a heartbeat each TIME; default off\n"
    "  --short N          short connections/s beside them; default 0\n"
    "  --duration TIME    of one measurement; default 4s (about 1.5 s of set-up come to it)\n"
    "  --warmup TIME      default 1s\n"
    "  --rounds N         3 to 15; default 3. All engines are measured once in each\n"
    "  --engines A,B,...  only these; epoll-et is always among them\n"
    "  --server-cpu N     default: the first CPU this process may use\n"
    "  --bench-cpu N      default: the last one\n"
    "  --exe FILE         another gateway binary; default this one\n"
    "  --json             the result as JSON on stdout\n"
    "\n"
    "With one CPU, gateway and generator share it, and the figures say so.\n"
    "Exit status: 0 at least one engine was measured in full; 1 none; 2 usage; 130 stopped.\n";

static const char *const engine_names[TUNE_ENGINES] = {"uring", "epoll-et", "epoll-lt", "poll",
                                                       "select"};

typedef struct tune_options {
    bench_options bench;
    double active_share; // of conns; 0 = a number in bench.active
    u32 rounds;
    i32 server_cpu, bench_cpu;
    bool enabled[TUNE_ENGINES];
    const char *exe;
    bool json;
} tune_options;

static int complain(const char *name, const char *text, const char *allowed) {
    fprintf(stderr, "sluice tune: %s: \"%s\" is not allowed; allowed: %s\n", name, text, allowed);
    return -EINVAL;
}

static int engines_parse(tune_options *t, const char *text) {
    memset(t->enabled, 0, sizeof(t->enabled));
    t->enabled[TUNE_BASELINE] = true;
    for (const char *p = text; *p != 0;) {
        size_t len = strcspn(p, ",");
        u32 i = 0;
        while (i < TUNE_ENGINES &&
               (strlen(engine_names[i]) != len || memcmp(engine_names[i], p, len) != 0))
            i++;
        if (i == TUNE_ENGINES)
            return complain("--engines", text, "uring, epoll-et, epoll-lt, poll, select");
        t->enabled[i] = true;
        p += len;
        if (*p == ',') p++;
    }
    return 0;
}

static int whole_parse(const char *name, const char *text, double min, double max, double *out) {
    char allowed[64];
    if (bench_parse_number(text, out) == 0 && *out >= min && *out <= max && *out == floor(*out))
        return 0;
    snprintf(allowed, sizeof(allowed), "%.0f to %.0f", min, max);
    return complain(name, text, allowed);
}

static int active_parse(tune_options *t, const char *text) {
    size_t len = strlen(text);
    char number[32];
    double value;
    if (len == 0 || len >= sizeof(number)) return complain("--active", text, "N or N%");
    memcpy(number, text, len + 1);
    bool share = number[len - 1] == '%';
    if (share) number[len - 1] = 0;
    if (bench_parse_number(number, &value) != 0 || value <= 0 ||
        value > (share ? 100 : BENCH_CONNS_MAX)) {
        return complain("--active", text, "1 to --conns, or 1% to 100%");
    }
    t->active_share = share ? value / 100 : 0;
    t->bench.active = share ? 0 : (u32)value;
    return 0;
}

static int time_parse(const char *name, const char *text, u64 *out) {
    if (bench_parse_time_ns(text, out) == 0 && *out <= BENCH_DURATION_NS_MAX) return 0;
    return complain(name, text, "a time such as 500ms, 10s");
}

static int option_take(tune_options *t, const char *name, const char *text) {
    double value = 0;
    int rc = 0;
    if (strcmp(name, "--conns") == 0) {
        rc = whole_parse(name, text, 0, BENCH_CONNS_MAX, &value);
        t->bench.conns = (u32)value;
    } else if (strcmp(name, "--active") == 0) {
        rc = active_parse(t, text);
    } else if (strcmp(name, "--rate") == 0) {
        rc = whole_parse(name, text, 0, BENCH_RATE_MAX, &t->bench.rate);
    } else if (strcmp(name, "--short") == 0) {
        rc = whole_parse(name, text, 0, BENCH_RATE_MAX, &t->bench.short_rate);
    } else if (strcmp(name, "--size") == 0) {
        rc = whole_parse(name, text, BENCH_FRAME_BYTES_MIN, BENCH_FRAME_BYTES_MAX, &value);
        t->bench.size = (u32)value;
    } else if (strcmp(name, "--rounds") == 0) {
        rc = whole_parse(name, text, 3, TUNE_ROUNDS_MAX, &value);
        t->rounds = (u32)value;
    } else if (strcmp(name, "--server-cpu") == 0) {
        rc = whole_parse(name, text, 0, CPU_SETSIZE - 1, &value);
        t->server_cpu = (i32)value;
    } else if (strcmp(name, "--bench-cpu") == 0) {
        rc = whole_parse(name, text, 0, CPU_SETSIZE - 1, &value);
        t->bench_cpu = (i32)value;
    } else if (strcmp(name, "--duration") == 0) {
        rc = time_parse(name, text, &t->bench.duration_ns);
    } else if (strcmp(name, "--warmup") == 0) {
        rc = time_parse(name, text, &t->bench.warmup_ns);
    } else if (strcmp(name, "--heartbeat") == 0) {
        rc = time_parse(name, text, &t->bench.heartbeat_ns);
    } else if (strcmp(name, "--engines") == 0) {
        rc = engines_parse(t, text);
    } else if (strcmp(name, "--exe") == 0) {
        t->exe = text;
    } else {
        fprintf(stderr, "sluice tune: unknown option %s; see --help\n", name);
        rc = -EINVAL;
    }
    return rc;
}

static void cpus_choose(tune_options *t) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return;
    i32 first = -1, last = -1;
    for (i32 i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((u32)i, &set)) continue;
        if (first < 0) first = i;
        last = i;
    }
    if (t->server_cpu < 0) t->server_cpu = first;
    if (t->bench_cpu < 0) t->bench_cpu = last;
}

static int options_finish(tune_options *t) {
    bench_options *o = &t->bench;
    if (o->conns == 0 && o->short_rate <= 0) {
        fprintf(stderr, "sluice tune: nothing to run: --conns or --short must be above 0\n");
        return -EINVAL;
    }
    if (o->conns > 0 && o->rate <= 0 && o->heartbeat_ns == 0 && o->short_rate <= 0) {
        fprintf(stderr,
                "sluice tune: nothing to run: --rate, --heartbeat or --short must be above 0\n");
        return -EINVAL;
    }
    if (t->active_share > 0) o->active = MAX(1u, (u32)(t->active_share * o->conns));
    if (o->active == 0) o->active = o->conns;
    if (o->active > o->conns) {
        fprintf(stderr, "sluice tune: --active %u is more than --conns %u\n", o->active, o->conns);
        return -EINVAL;
    }
    if (o->conns == 0) {
        o->kind = BENCH_CONN;
        o->rate = o->short_rate;
        o->size = MIN(o->size, 32u);
    }
    cpus_choose(t);
    // Sharing a core on purpose: a spinning generator would starve the gateway.
    o->wait = t->server_cpu == t->bench_cpu ? WAIT_SLEEP : WAIT_SPIN;
    o->pin_cpu = t->bench_cpu;
    return 0;
}

// 0, 1 (help printed) or -EINVAL.
static int options_parse(tune_options *t, int argc, char **argv) {
    bench_options_default(&t->bench, BENCH_FRAME);
    t->bench.duration_ns = 4 * NS_PER_S;
    t->bench.warmup_ns = NS_PER_S;
    t->bench.syscalls_ns = NS_PER_S / 2;
    t->rounds = 3;
    t->server_cpu = t->bench_cpu = -1;
    t->exe = "/proc/self/exe";
    memset(t->enabled, 1, sizeof(t->enabled));
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return 1;
        }
        if (strcmp(argv[i], "--json") == 0) {
            t->json = true;
            continue;
        }
        if (i + 1 == argc) return complain(argv[i], "", "see --help");
        if (option_take(t, argv[i], argv[i + 1]) != 0) return -EINVAL;
        i++;
    }
    return options_finish(t);
}

static void point_fill(tune_point *p, const bench_result *r) {
    const hist *h = r->has_steady && hist_count(&r->steady.latency) > 0 ? &r->steady.latency
                    : hist_count(&r->shorts.latency) > 0                ? &r->shorts.latency
                                                                        : &r->heartbeats;
    p->ok = true;
    p->cpu_us = report_cpu_us_per_exchange(r);
    p->cpu_share = r->server.window_ns == 0
                       ? 0
                       : (double)r->server.total.run_ns / (double)r->server.window_ns;
    p->p50_us = (double)hist_percentile(h, 50) / 1e3;
    p->p99_us = (double)hist_percentile(h, 99) / 1e3;
    p->p999_us = (double)hist_percentile(h, 99.9) / 1e3;
    p->max_us = (double)hist_max(h) / 1e3;
    p->switches = report_switches_per_exchange(r);
    p->syscalls = r->syscalls_available && r->syscalls_exchanges > 0
                      ? (double)r->syscalls / (double)r->syscalls_exchanges
                      : -1;
}

static void errors_describe(const bench_result *r, char *out, size_t out_bytes) {
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) {
        u64 n = r->steady.errors.count[i] + r->shorts.errors.count[i];
        if (n == 0) continue;
        snprintf(out, out_bytes, "%s %llu times: %s", bench_error_name((bench_error)i),
                 (unsigned long long)n, bench_error_advice((bench_error)i));
        return;
    }
}

// Measures one engine once. 0, -EINTR, or -EAGAIN when the generator was late: the round says
// nothing.
static int engine_measure(const tune_options *t, tune_engine *e, tune_point *p, bench_result *r) {
    tune_child child;
    tune_child_params params = {
        .exe = t->exe, .engine = e->name, .cpu = t->server_cpu, .frame_bytes = t->bench.size};
    if (tune_child_start(&child, &params, e->why_not, sizeof(e->why_not)) != 0)
        return bench_stop ? -EINTR : 0;
    char to[32], why[160];
    bench_options o = t->bench;
    snprintf(to, sizeof(to), "127.0.0.1:%u", child.port);
    o.to = to;
    o.pids[0] = (u32)child.pid;
    o.pid_count = 1;
    int rc = bench_run(&o, r);
    if (rc == 0 && r->interrupted) rc = -EINTR;
    if (!tune_child_alive(&child, why, sizeof(why))) {
        snprintf(e->why_not, sizeof(e->why_not), "the gateway ended during the run: %s", why);
    } else if (rc == 0 && r->failed) {
        snprintf(e->why_not, sizeof(e->why_not), "%.250s", r->failure);
    } else if (rc == 0 && !r->valid) {
        snprintf(e->why_not, sizeof(e->why_not), "%.250s", r->verdict);
        rc = -EAGAIN;
        bool sent_all = r->steady.window_unsent + r->shorts.window_unsent == 0;
        if (sent_all && r->busy_share < BUSY_SATURATED && bench_result_errors(r) == 0) {
            point_fill(p, r);
            p->disturbed = true;
        }
    } else if (rc == 0 && bench_result_errors(r) > 0) {
        errors_describe(r, e->why_not, sizeof(e->why_not));
    } else if (rc == 0) {
        point_fill(p, r);
    }
    tune_child_stop(&child);
    return rc;
}

static int round_run(const tune_options *t, tune_figures *figures, bench_result *r) {
    u32 round = figures->rounds;
    for (u32 k = 0; k < TUNE_ENGINES; k++) {
        u32 i = round % 2 == 0 ? k : TUNE_ENGINES - 1 - k;
        tune_engine *e = &figures->engines[i];
        if (e->why_not[0] != 0) continue; // out for good: the others still need comparable rounds
        int rc = -EAGAIN;
        for (u32 attempt = 0; attempt < ATTEMPTS_MAX && rc == -EAGAIN; attempt++) {
            e->why_not[0] = 0;
            e->rounds[round] = (tune_point){.ok = false};
            rc = engine_measure(t, e, &e->rounds[round], r);
        }
        if (rc == -EAGAIN && e->rounds[round].ok) e->why_not[0] = 0;
        if (rc == -EINTR) return rc;
        if (e->why_not[0] != 0) {
            fprintf(stderr, "round %u: %-9s %s\n", round + 1, e->name, e->why_not);
        } else {
            fprintf(stderr, "round %u: %-9s CPU %.3f us each, p99 %.0f us%s\n", round + 1, e->name,
                    e->rounds[round].cpu_us, e->rounds[round].p99_us,
                    e->rounds[round].disturbed ? " (disturbed)" : "");
        }
    }
    return 0;
}

static void figures_prepare(const tune_options *t, tune_figures *f) {
    f->cpus = t->server_cpu == t->bench_cpu ? 1 : bench_cpu_count();
    f->conns = t->bench.conns;
    f->active = t->bench.conns == 0 ? 0 : t->bench.active;
    f->size = t->bench.size;
    f->rate = t->bench.conns == 0 ? 0 : t->bench.rate;
    f->short_rate = t->bench.short_rate;
    for (u32 i = 0; i < TUNE_ENGINES; i++) {
        f->engines[i].name = engine_names[i];
        if (!t->enabled[i])
            snprintf(f->engines[i].why_not, sizeof(f->engines[i].why_not), "not asked for");
    }
}

int tune_main(int argc, char **argv) {
    tune_options t = {0};
    int rc = options_parse(&t, argc, argv);
    if (rc != 0) return rc > 0 ? 0 : 2;
    tune_figures *figures = calloc(1, sizeof(*figures));
    bench_result *r = calloc(1, sizeof(*r));
    if (figures == NULL || r == NULL) base_out_of_memory("tune", sizeof(*r));
    figures_prepare(&t, figures);
    bench_signals_install();
    while (rc == 0 && figures->rounds < t.rounds) {
        rc = round_run(&t, figures, r);
        if (rc == 0) figures->rounds++;
    }
    if (figures->rounds > 0) {
        t.json ? tune_print_json(stdout, figures) : tune_print(stdout, figures);
    }
    tune_advice advice;
    tune_conclude(figures, &advice);
    free(figures);
    free(r);
    return rc != 0 ? 130 : advice.kind == TUNE_NOTHING ? 1 : 0;
}
