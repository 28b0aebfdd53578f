// SPDX-License-Identifier: Apache-2.0
// process.h: what the kernel says about this process: memory, descriptors, processor time. Read from /proc and
// by system calls; only the operations worker calls it, since some of it takes milliseconds with many
// descriptors open on old kernels.
#ifndef SLUICE_OPS_PROCESS_H
#define SLUICE_OPS_PROCESS_H

#include "base/base.h"

typedef struct process_usage {
    u64 resident_bytes, virtual_bytes; // 0 when /proc is not there
    u64 user_ns, system_ns;
    u64 fds_open;                      // 0 when /proc is not there
    u64 fds_max;                       // soft RLIMIT_NOFILE
} process_usage;

process_usage process_usage_get(void);

#endif
