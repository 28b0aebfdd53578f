// SPDX-License-Identifier: Apache-2.0
// bench_error.h: everything that can go wrong in a run, by name, with what to do about it. A run
// with any of them counted ends with a nonzero exit status.
#ifndef SLUICE_BENCH_ERROR_H
#define SLUICE_BENCH_ERROR_H

#include "base/base.h"

typedef enum bench_error {
    BENCH_ERROR_CONNECT_REFUSED,
    BENCH_ERROR_CONNECT_TIMEOUT,
    BENCH_ERROR_CONNECT_FAILED,
    BENCH_ERROR_ADDR_NOT_AVAIL,
    BENCH_ERROR_DESCRIPTORS,
    BENCH_ERROR_NO_MEMORY,
    BENCH_ERROR_RESET,
    BENCH_ERROR_CLOSED_BY_SERVER,
    BENCH_ERROR_SOCKET,
    BENCH_ERROR_HELLO_REFUSED,
    BENCH_ERROR_NOT_READY,
    BENCH_ERROR_UNANSWERED,
    BENCH_ERROR_CONNECTION_GONE,
    BENCH_ERROR_LOST,
    BENCH_ERROR_DUPLICATED,
    BENCH_ERROR_REORDERED,
    BENCH_ERROR_CORRUPTED,
    BENCH_ERROR_UNEXPECTED_FRAME,
    BENCH_ERROR_HEARTBEAT_LATE,
    BENCH_ERROR_OUTSTANDING_LIMIT,
    BENCH_ERROR_OPEN_LIMIT,
    BENCH_ERROR_REFUSED,
    BENCH_ERROR_MALFORMED,
    BENCH_ERROR_PUBLISH_REFUSED,
    BENCH_ERROR_TLS,
    BENCH_ERROR_COUNT,
} bench_error;

typedef struct bench_errors {
    u64 count[BENCH_ERROR_COUNT];
} bench_errors;

// Stable name ("connect_refused") and one sentence of advice.
const char *bench_error_name(bench_error error);
const char *bench_error_advice(bench_error error);

// Name for an errno (either sign) met while connecting, or on a connection that was established.
bench_error bench_error_of_connect(int err);
bench_error bench_error_of_socket(int err);

static inline void bench_error_add(bench_errors *e, bench_error which, u64 n) {
    e->count[which] += n;
}
u64 bench_errors_total(const bench_errors *e);
void bench_errors_merge(bench_errors *into, const bench_errors *from);

#endif
