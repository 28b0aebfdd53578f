// SPDX-License-Identifier: Apache-2.0
// tune_child.h: the gateway as a child process for one measurement: configuration file, ports,
// start, readiness, end. Everything it writes lies in one temporary directory that is removed with
// it.
#ifndef SLUICE_BENCH_TUNE_CHILD_H
#define SLUICE_BENCH_TUNE_CHILD_H

#include <sys/types.h>

#include "base/base.h"

typedef struct tune_child {
    pid_t pid; // 0 when not running
    u16 port;  // its framed listener on 127.0.0.1
    char dir[128];
} tune_child;

typedef struct tune_child_params {
    const char *exe; // the gateway's binary
    const char *engine;
    i32 cpu;         // pinned to it; -1 = not
    u32 frame_bytes; // largest payload it must take
} tune_child_params;

// Starts it and waits until it accepts connections. 0, or -1 with the reason (the last line it
// wrote, if any) in why and nothing left running.
int tune_child_start(tune_child *c, const tune_child_params *p, char *why, size_t why_bytes);
// True while it runs; when it has ended, why says how.
bool tune_child_alive(tune_child *c, char *why, size_t why_bytes);
// SIGTERM, 3 s, SIGKILL; removes its directory.
void tune_child_stop(tune_child *c);

#endif
