// SPDX-License-Identifier: Apache-2.0
// scenario.h: what is simulated: kinds of runs, each made from a seed.
#ifndef SLUICE_TESTS_SCENARIO_H
#define SLUICE_TESTS_SCENARIO_H

#include <stdio.h>

#include "base/base.h"

typedef struct scenario {
    const char *name;
    const char *what;
    // Runs one seed; failure is empty when all was right. Leaves nothing behind unless it failed.
    void (*run)(u64 seed, FILE *trace, char *failure, size_t failure_bytes);
} scenario;

extern const scenario scenarios[];
extern const u32 scenario_count;

// Digest of the last run, and what the simulator did in all runs of this process.
u64 scenario_digest(void);
// Closes a rig and adds what happened in it to the counts; for scenarios in other files.
struct rig;
void scenario_close(struct rig *r, char *failure, size_t failure_bytes);
void scenario_print_counts(void);

#endif
