// SPDX-License-Identifier: Apache-2.0
// log_bench.h: `sluice bench log`: how fast this machine puts batches on a disk, for each way there is (log_path.h),
// so that the choice the log writer makes can be checked where it runs.
#ifndef SLUICE_BENCH_LOG_BENCH_H
#define SLUICE_BENCH_LOG_BENCH_H

// argv[0] is "log". Exit status: 0 measured; 1 something could not be measured (it is named in the table); 2 usage.
int log_bench_main(int argc, char **argv);

#endif
