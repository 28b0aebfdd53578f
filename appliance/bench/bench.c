// SPDX-License-Identifier: Apache-2.0
// bench.c: entry of `sluice bench`: picks the mode, runs it, prints the result.
#include "bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/find_max.h"
#include "bench/log_bench.h"
#include "bench/mqtt.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/run.h"

static const char usage[] =
    "usage: sluice bench frame|conn|storm|slow|idle|mqtt|log [options]\n"
    "\n"
    "  frame   long connections that send frames on a fixed schedule and wait for the replies\n"
    "  conn    short connections: connect, one frame, its reply, close\n"
    "  storm   many connections at once, optionally beside a steady load\n"
    "  slow    readers that do not read, beside normal connections\n"
    "  idle    memory of the server for each idle connection\n"
    "  mqtt    scenarios for MQTT brokers: see `sluice bench mqtt --help`\n"
    "  log     ways to put batches on a disk: see `sluice bench log --help`\n"
    "\n"
    "The load is open loop: the schedule is fixed by rate and seed before the first message, and\n"
    "latency counts from the time a message was due, so a server that stalls is charged for all\n"
    "that fell due meanwhile. If the generator itself is late, that is measured too, and a run in\n"
    "which it was is marked invalid.\n"
    "\n"
    "`sluice bench MODE --help` lists the options. Example:\n"
    "  sluice bench frame --to 127.0.0.1:7000 --conns 3000 --rate 20k --size 64 --pin 1\n"
    "\n"
    "Exit status: 0 measured without errors; 1 errors were counted, the run is invalid, or "
    "nothing\n"
    "could be measured; 2 usage; 130 stopped before anything was measured.\n";

// Writes the JSON to --out, if asked for. 0 or 1 (after a message).
static int json_file_write(const bench_options *o, const bench_result *r) {
    if (o->out == NULL) return 0;
    FILE *f = fopen(o->out, "we");
    if (f != NULL) report_json(f, o, r);
    bool failed = f == NULL || ferror(f) != 0;
    if (f != NULL && fclose(f) != 0) failed = true;
    if (failed) fprintf(stderr, "sluice bench: --out %s: %s\n", o->out, errno_name(errno));
    return failed ? 1 : 0;
}

static int result_print(const bench_options *o, const bench_result *r) {
    if (o->json) {
        report_json(stdout, o, r);
    } else {
        report_table(stdout, o, r);
    }
    fflush(stdout);
    int status = json_file_write(o, r);
    if (r->failed || !r->valid || bench_result_errors(r) > 0) status = 1;
    return status;
}

static int find_max_print(bench_options *o, bench_result *r) {
    double rate;
    const char *limited_by;
    int rc = find_max_run(o, r, &rate, &limited_by);
    o->rate = rate;
    int status = result_print(o, r);
    if (!r->failed) {
        fprintf(o->json ? stderr : stdout,
                "highest rate with p99 under %.3f ms: %.0f/s; limited by: %s\n",
                (double)o->p99_limit_ns / 1e6, rate, limited_by);
    }
    return rc == -EINTR && r->failed ? 130 : status;
}

int bench_main(int argc, char **argv) {
    bench_options o;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "mqtt") == 0) return mq_bench_main(argc - 1, argv + 1);
    if (strcmp(argv[1], "log") == 0) return log_bench_main(argc - 1, argv + 1);
    u32 kind = 0;
    while (kind < BENCH_KINDS && strcmp(argv[1], bench_kind_name((bench_kind)kind)) != 0) kind++;
    if (kind == BENCH_KINDS) {
        fprintf(stderr,
                "sluice bench: \"%s\" is no mode; allowed: frame, conn, storm, slow, idle, mqtt, log\n",
                argv[1]);
        return 2;
    }
    bench_options_default(&o, (bench_kind)kind);
    int rc = bench_options_parse(&o, argc - 1, argv + 1);
    if (rc != 0) return rc > 0 ? 0 : 2;
    bench_result *r = calloc(1, sizeof(*r));
    if (r == NULL) base_out_of_memory("the result", sizeof(*r));
    bench_signals_install();
    int status;
    if (o.find_max) {
        status = find_max_print(&o, r);
    } else {
        rc = bench_run(&o, r);
        if (rc == -EINTR) fprintf(stderr, "stopped before anything was measured\n");
        status = rc == -EINTR ? 130 : result_print(&o, r);
    }
    free(r);
    return status;
}
