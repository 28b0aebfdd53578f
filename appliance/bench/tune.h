// SPDX-License-Identifier: Apache-2.0
// tune.h: `sluice tune`: runs the user's own load profile against every engine of this very binary
// on this machine, and recommends one with its reasons.
#ifndef SLUICE_BENCH_TUNE_H
#define SLUICE_BENCH_TUNE_H

// argv[0] is "tune". Returns the exit status: 0 at least one engine was measured in full; 1 none; 2
// usage; 130 stopped.
int tune_main(int argc, char **argv);

#endif
