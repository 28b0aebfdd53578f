// SPDX-License-Identifier: Apache-2.0
// bench.h: `sluice bench`: the load generator's command.
#ifndef SLUICE_BENCH_BENCH_H
#define SLUICE_BENCH_BENCH_H

// argv[0] is "bench". Returns the exit status: 0 measured without errors; 1 errors were counted,
// the run is invalid, or nothing could be measured; 2 usage; 130 stopped before anything was
// measured.
int bench_main(int argc, char **argv);

#endif
