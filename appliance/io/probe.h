// SPDX-License-Identifier: Apache-2.0
// probe.h: which engine works here, and why. The probe of io_uring is end to end: a ring with the real
// flags, buffer ring and restrictions, a multishot receive on a socket pair, a send, and a doorbell,
// through the same code that the gateway runs. It is done in a child process, so that a seccomp policy
// that kills is a finding and not the end.
#ifndef SLUICE_IO_PROBE_H
#define SLUICE_IO_PROBE_H

#include "io/io.h"

typedef struct io_probe_result {
    int error;        // 0 = works; -errno of the failed step; -ENOTRECOVERABLE: the probe was killed
    int signal;       // signal that killed it
    char step[64];    // step that failed: "io_uring_setup"
    char cause[160];  // likely cause in words: "a seccomp filter refuses io_uring (containers do)"
    char fix[200];    // what to do about it
} io_probe_result;

// Runs the probe. Main thread, before other threads exist. Returns result->error.
int io_probe_uring(io_probe_result *result);

// Whether an error means "not available here" (so `auto` falls back) and not "something is wrong that
// must be told" (ENOMEM, EMFILE, ENFILE).
bool io_probe_is_refusal(int error);

// Chooses: automatic: uring if the probe passes, else epoll-et; explicit kinds are taken as they are,
// an explicit uring is probed and never falls back. Writes the reason into why. Returns 0, or -errno
// when the wanted engine can not be had.
int io_engine_choose(bool automatic, io_kind wanted, io_kind *chosen, char *why, size_t why_bytes);

// `sluice probe`: prints the choice, the cause and the fix. Returns the exit status: 0 when io_uring
// works, 1 when auto falls back, 2 for usage, 3 when something is wrong.
int probe_main(int argc, char **argv);

#endif
