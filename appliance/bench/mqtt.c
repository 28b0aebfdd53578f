// SPDX-License-Identifier: Apache-2.0
// mqtt.c: entry of `sluice bench mqtt`: picks the scenario, runs it, prints the result.
#include "bench/mqtt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/mqtt_find.h"
#include "bench/mqtt_report.h"
#include "bench/report.h"
#include "bench/run.h"

static const char usage[] =
    "usage: sluice bench mqtt idle|storm|fan-in|fan-out|pairs|shared|retained|ingest [options]\n"
    "\n"
    "  idle      memory of the broker for each idle connection\n"
    "  storm     connect, CONNACK, disconnect; or all at once, held open\n"
    "  fan-in    many publishers, few subscribers of everything\n"
    "  fan-out   few publishers, many subscribers of everything\n"
    "  pairs     one publisher to one subscriber, many times\n"
    "  shared    subscribers that share a subscription\n"
    "  retained  many retained messages, stored and then delivered to new subscribers\n"
    "  ingest    publishers alone: how fast, and when, their messages are acknowledged\n"
    "\n"
    "Works against any broker by address (--to), which is observed by process id (--pid). The load "
    "is open\n"
    "loop: latency counts from the time a message was due, and every message is followed by its "
    "number:\n"
    "lost, duplicated and reordered ones are errors.\n"
    "\n"
    "`sluice bench mqtt SCENARIO --help` lists the options. Examples:\n"
    "  sluice bench mqtt fan-in --pubs 100 --rate 20k --size 64 --pin 1\n"
    "  sluice bench mqtt fan-in --rate 50k --burst 10 --find-max --p99 50ms --pin 1\n"
    "\n"
    "Exit status: 0 measured without errors; 1 errors were counted, the run is invalid, or "
    "nothing\n"
    "could be measured; 2 usage; 130 stopped before anything was measured.\n";

static int result_print(const mq_options *o, const mq_result *r) {
    int status = r->failed || !r->valid || bench_errors_total(&r->errors) > 0 ? 1 : 0;
    if (o->json) {
        mq_report_json(stdout, o, r);
    } else {
        mq_report_table(stdout, o, r);
    }
    fflush(stdout);
    if (o->out == NULL) return status;
    FILE *f = fopen(o->out, "we");
    if (f != NULL) mq_report_json(f, o, r);
    bool failed = f == NULL || ferror(f) != 0;
    if (f != NULL && fclose(f) != 0) failed = true;
    if (failed) fprintf(stderr, "sluice bench mqtt: --out %s: %s\n", o->out, errno_name(errno));
    return failed ? 1 : status;
}

static int find_max_print(mq_options *o, mq_result *r) {
    double rate;
    const char *limited_by;
    int rc = mq_find_max(o, r, &rate, &limited_by);
    o->rate = rate;
    int status = result_print(o, r);
    if (!r->failed) {
        fprintf(o->json ? stderr : stdout,
                "highest rate with p99 under %.3f ms: %.0f/s published, %.0f/s delivered; limited "
                "by: %s\n",
                (double)o->p99_limit_ns / 1e6, rate,
                report_per_second(r->observed_delivered, r->observed_ns), limited_by);
    }
    return rc == -EINTR && r->failed ? 130 : status;
}

int mq_bench_main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    u32 kind = 0;
    while (kind < MQ_KINDS && strcmp(argv[1], mq_kind_name((mq_kind)kind)) != 0) kind++;
    if (kind == MQ_KINDS) {
        fprintf(stderr,
                "sluice bench mqtt: \"%s\" is no scenario; allowed: idle, storm, fan-in, fan-out, "
                "pairs, shared, retained, ingest\n",
                argv[1]);
        return 2;
    }
    mq_options o;
    mq_options_default(&o, (mq_kind)kind);
    int rc = mq_options_parse(&o, argc - 1, argv + 1);
    if (rc != 0) return rc > 0 ? 0 : 2;
    mq_result *r = calloc(1, sizeof(*r));
    if (r == NULL) base_out_of_memory("the result", sizeof(*r));
    bench_signals_install();
    int status;
    if (o.find_max) {
        status = find_max_print(&o, r);
    } else {
        rc = mq_run(&o, r);
        if (rc == -EINTR) fprintf(stderr, "stopped before anything was measured\n");
        status = rc == -EINTR ? 130 : result_print(&o, r);
    }
    free(r);
    return status;
}
