// SPDX-License-Identifier: Apache-2.0
// sim_conform.c: runs the conformance cases on every engine of this machine and on the simulated one, in
// each of its styles, without faults and with those that may not change a result. The transcripts must
// be equal, so that what the simulator shows about the gateway also holds on the real engines.
//
// Prints `ok` or `FAIL` for each case and engine, and the count as the last line.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"

#define SIM_SEEDS 12u

typedef struct tally {
    u32 passed, failed, skipped;
} tally;

// Faults that cut, delay and reorder, but lose nothing.
static const sim_faults harmless_faults = {
    .short_recv = 300, .short_send = 300, .send_pending = 300, .send_silent = 400, .delay = 200, .late_recv = 500,
    .starve = 200, .multishot_end = 200, .spurious_wake = 100, .close_delay = 300,
    .attach_error = 100, .time_jump = 50, .delay_ns_max = 3 * NS_PER_MS, .jump_ns_max = NS_PER_S,
};

static lab_setup sim_setup(u64 seed, sim_style style, bool faults, FILE *trace) {
    lab_setup setup = {.kind = IO_SIM, .recv_bufs = 16};
    setup.sim = (sim_config){.seed = seed, .style = style, .latency_ns_max = faults ? NS_PER_MS : 0,
                             .pipe_bytes_min = faults ? 20000 : 65536, .pipe_bytes_max = 65536,
                             .trace = trace};
    if (faults) setup.sim.faults = harmless_faults;
    return setup;
}

// The transcript of one run, allocated; NULL when the engine is not available or the case failed.
static char *run_case(const conform_case *c, const lab_setup *setup, const char *name, tally *t) {
    lab *l = malloc(sizeof(*l));
    ASSERT(l != NULL);
    const char *step = "";
    int result = lab_open(l, setup, &step);
    if (result < 0) {
        printf("SKIP conform/%s/%s: not available: %s: %s\n", name, c->name, step,
               errno_name(result));
        t->skipped++;
        free(l);
        return NULL;
    }
    c->run(l);
    lab_close(l);
    char *transcript = NULL;
    if (l->failure[0] != '\0') {
        printf("FAIL conform/%s/%s: %s\n%s", name, c->name, l->failure, l->transcript);
        t->failed++;
    } else {
        transcript = strdup(l->transcript);
        ASSERT(transcript != NULL);
    }
    free(l);
    return transcript;
}

// Compares with what the first engine said; takes the transcript.
static void compare(const conform_case *c, const char *name, char *transcript, char **expected,
                    tally *t) {
    if (transcript == NULL) return;
    if (*expected == NULL) {
        *expected = transcript;
        t->passed++;
        return;
    }
    if (strcmp(transcript, *expected) == 0) {
        t->passed++;
    } else {
        t->failed++;
        printf("FAIL conform/%s/%s: differs\n--- expected\n%s--- seen\n%s", name, c->name, *expected,
               transcript);
    }
    free(transcript);
}

static void run_sim(const conform_case *c, u64 seed, bool trace, char **expected, tally *t) {
    static const char *const styles[SIM_STYLES] = {"completion", "readiness", "mixed"};
    for (u32 style = 0; style < SIM_STYLES; style++) {
        lab_setup setup = sim_setup(seed, (sim_style)style, seed != 0, trace ? stdout : NULL);
        char name[64];
        snprintf(name, sizeof(name), "sim-%s-seed-%llu", styles[style], (unsigned long long)seed);
        compare(c, name, run_case(c, &setup, name, t), expected, t);
    }
}

static void usage(void) {
    printf("usage: sim_conform [--case NAME] [--seed N] [--trace]\n"
           "  --case   only this case    --seed   the simulation with this seed only (0: no faults)\n"
           "  --trace  every event of the simulation\n");
}

int main(int argc, char **argv) {
    const char *only = NULL;
    bool one_seed = false, trace = false;
    u64 seed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--case") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            one_seed = true;
            seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else {
            usage();
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    tally t = {0};
    for (u32 i = 0; i < conform_case_count; i++) {
        const conform_case *c = &conform_cases[i];
        if (only != NULL && strcmp(only, c->name) != 0) continue;
        char *expected = NULL;
        for (u32 kind = 0; kind < IO_SIM && !one_seed; kind++) {
            lab_setup setup = {.kind = (io_kind)kind, .recv_bufs = 16};
            const char *name = io_kind_name((io_kind)kind);
            compare(c, name, run_case(c, &setup, name, &t), &expected, &t);
        }
        if (one_seed) {
            run_sim(c, seed, trace, &expected, &t);
        } else {
            for (u64 s = 0; s < SIM_SEEDS; s++) run_sim(c, s, trace, &expected, &t);
        }
        if (one_seed && expected != NULL) printf("%s:\n%s", c->name, expected);
        free(expected);
    }
    printf("%u passed, %u failed, %u skipped\n", t.passed, t.failed, t.skipped);
    return t.failed > 0 ? 1 : 0;
}
