// SPDX-License-Identifier: Apache-2.0
// sim_conn.c: runs scenarios (scenario.h) over ranges of seeds. Each scenario runs in a child process; a
// seed that fails or dies (an assertion, the address sanitizer) is reported with the command that
// repeats it, and a new child goes on behind it.
//
// With one scenario and one seed it runs in this process, for the debugger, and prints the digest.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define STATUS_REPORTED 3 // the address sanitizer uses 1
#define FAILURES_MAX 5u // of one scenario; then it is given up

typedef struct progress {
    u64 seed; // being run
    u64 done;
} progress;

typedef struct options {
    const char *scenario;
    const char *program;
    u64 first, count;
    bool one, trace;
} options;

static void report(const options *o, const scenario *s, u64 seed, const char *what) {
    printf("FAIL sim/%s/%" PRIu64 ": %s\n    repeat: %s --scenario %s --seed %" PRIu64 " --trace\n", s->name,
           seed, what, o->program, s->name, seed);
    fflush(stdout);
}

// In the child. Exit status 0: all done; STATUS_REPORTED: the seed in progress failed and was reported.
static void child_run(const options *o, const scenario *s, u64 first, u64 end, progress *p) {
    char failure[1024];
    for (u64 seed = first; seed < end; seed++) {
        p->seed = seed;
        failure[0] = '\0';
        s->run(seed, NULL, failure, sizeof(failure));
        if (failure[0] != '\0') {
            report(o, s, seed, failure);
            _exit(STATUS_REPORTED);
        }
        p->done++;
    }
    scenario_print_counts();
    fflush(stdout);
    exit(0); // leaks are looked for here
}

// Returns the number of failed seeds; *done: how many ran well.
static u32 scenario_run(const options *o, const scenario *s, u64 *done) {
    progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) base_out_of_memory("progress", sizeof(*p));
    u32 failures = 0;
    u64 next = o->first, end = o->first + o->count;
    while (next < end && failures < FAILURES_MAX) {
        p->seed = UINT64_MAX;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) child_run(o, s, next, end, p);
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
            printf("FAIL sim/%s: no child process\n", s->name);
            failures++;
            break;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        failures++;
        char what[128];
        if (p->seed == UINT64_MAX || p->done == o->count) { // after its last seed
            snprintf(what, sizeof(what), "the process ended with status %d (a leak)", status);
            report(o, s, end - 1, what);
            break;
        }
        bool reported = WIFEXITED(status) && WEXITSTATUS(status) == STATUS_REPORTED;
        if (WIFSIGNALED(status)) snprintf(what, sizeof(what), "died of signal %d", WTERMSIG(status));
        else snprintf(what, sizeof(what), "the process ended with status %d", WEXITSTATUS(status));
        if (!reported) report(o, s, p->seed, what);
        next = p->seed + 1;
    }
    *done = p->done;
    munmap(p, sizeof(*p));
    return failures;
}

static int run_one(const options *o, const scenario *s) {
    char failure[1024] = "";
    s->run(o->first, o->trace ? stdout : NULL, failure, sizeof(failure));
    if (failure[0] == '\0') {
        printf("%s, seed %" PRIu64 ": ok, digest %016" PRIx64 "\n", s->name, o->first, scenario_digest());
        scenario_print_counts();
        return 0;
    }
    report(o, s, o->first, failure);
    fflush(stdout);
    _exit(1);
}

static void usage(void) {
    printf("usage: sim_conn [--scenario NAME] [--seed N [--trace]] [--first N] [--count N]\n"
           "  --seed N   one seed of one scenario, in this process; --trace prints every event\n"
           "  --first N, --count N   the seeds of each scenario (default 1, 40)\nscenarios:\n");
    for (u32 i = 0; i < scenario_count; i++) printf("  %-10s %s\n", scenarios[i].name, scenarios[i].what);
}

static bool options_read(options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--trace") == 0) {
            o->trace = true;
        } else if (strcmp(argv[i], "--scenario") == 0 && has_value) {
            o->scenario = argv[++i];
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            o->one = true;
            o->first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--first") == 0 && has_value) {
            o->first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0 && has_value) {
            o->count = strtoull(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return !o->one || o->scenario != NULL;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    options o = {.program = "sim_conn", .first = 1, .count = 40};
    if (!options_read(&o, argc, argv)) {
        usage();
        return 2;
    }
    u32 passed = 0, failed = 0;
    for (u32 i = 0; i < scenario_count; i++) {
        const scenario *s = &scenarios[i];
        if (o.scenario != NULL && strcmp(o.scenario, s->name) != 0) continue;
        if (o.one) return run_one(&o, s);
        u64 done = 0;
        u32 failures = scenario_run(&o, s, &done);
        printf("%s sim/%s: %" PRIu64 " of %" PRIu64 " seeds, %s\n", failures == 0 ? "ok" : "not ok", s->name,
               done, o.count, s->what);
        if (failures == 0) passed++;
        failed += failures;
    }
    if (passed + failed == 0) {
        usage();
        return 2;
    }
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed > 0 ? 1 : 0;
}
