// SPDX-License-Identifier: Apache-2.0
// base.c: the clocks, errno names, and the two ways the process ends on purpose.
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static u64 clock_read_ns(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (u64)ts.tv_sec * NS_PER_S + (u64)ts.tv_nsec;
}

u64 clock_mono_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC);
}

u64 clock_real_ns(void) {
    return clock_read_ns(CLOCK_REALTIME);
}

void base_assert_fail(const char *file, int line, const char *cond) {
    char text[512];
    int n = snprintf(text, sizeof(text), "sluice: assertion failed at %s:%d: %s\n", file, line, cond);
    if (n > 0) (void)!write(STDERR_FILENO, text, MIN((size_t)n, sizeof(text) - 1));
    abort();
}

void base_out_of_memory(const char *what, size_t bytes) {
    fprintf(stderr, "sluice: out of memory: %s needs %zu bytes\n", what, bytes);
    exit(70);
}

#define ERRNO_ROW(e) [e] = #e
static const char *const errno_names[] = {
    ERRNO_ROW(EPERM),        ERRNO_ROW(ENOENT),       ERRNO_ROW(EINTR),         ERRNO_ROW(EIO),
    ERRNO_ROW(ENXIO),        ERRNO_ROW(EBADF),        ERRNO_ROW(EAGAIN),        ERRNO_ROW(ENOMEM),
    ERRNO_ROW(EACCES),       ERRNO_ROW(EFAULT),       ERRNO_ROW(EBUSY),         ERRNO_ROW(EEXIST),
    ERRNO_ROW(ENODEV),       ERRNO_ROW(ENOTDIR),      ERRNO_ROW(EISDIR),        ERRNO_ROW(EINVAL),
    ERRNO_ROW(ENFILE),       ERRNO_ROW(EMFILE),       ERRNO_ROW(EFBIG),         ERRNO_ROW(ENOSPC),
    ERRNO_ROW(ESPIPE),       ERRNO_ROW(EROFS),        ERRNO_ROW(EPIPE),         ERRNO_ROW(ERANGE),
    ERRNO_ROW(ENAMETOOLONG), ERRNO_ROW(ENOSYS),       ERRNO_ROW(ELOOP),         ERRNO_ROW(ENODATA),
    ERRNO_ROW(ETIME),        ERRNO_ROW(EPROTO),       ERRNO_ROW(EBADMSG),       ERRNO_ROW(EOVERFLOW),
    ERRNO_ROW(EBADFD),       ERRNO_ROW(ENOTSOCK),     ERRNO_ROW(EMSGSIZE),      ERRNO_ROW(EPROTONOSUPPORT),
    ERRNO_ROW(EOPNOTSUPP),   ERRNO_ROW(EAFNOSUPPORT), ERRNO_ROW(EADDRINUSE),    ERRNO_ROW(EADDRNOTAVAIL),
    ERRNO_ROW(ENETDOWN),     ERRNO_ROW(ENETUNREACH),  ERRNO_ROW(ENETRESET),     ERRNO_ROW(ECONNABORTED),
    ERRNO_ROW(ECONNRESET),   ERRNO_ROW(ENOBUFS),      ERRNO_ROW(EISCONN),       ERRNO_ROW(ENOTCONN),
    ERRNO_ROW(ETIMEDOUT),    ERRNO_ROW(ECONNREFUSED), ERRNO_ROW(EHOSTUNREACH),  ERRNO_ROW(EHOSTDOWN),
    ERRNO_ROW(EALREADY),     ERRNO_ROW(EINPROGRESS),  ERRNO_ROW(ESTALE),        ERRNO_ROW(EDQUOT),
    ERRNO_ROW(EXFULL),
    ERRNO_ROW(ECANCELED),    ERRNO_ROW(E2BIG),        ERRNO_ROW(EBADR),         ERRNO_ROW(EILSEQ),
    ERRNO_ROW(ESRCH),        ERRNO_ROW(ECHILD),       ERRNO_ROW(EXDEV),         ERRNO_ROW(ENOTEMPTY),
};

const char *errno_name(int err) {
    size_t index = (size_t)(err < 0 ? -err : err);
    if (index < ARRAY_LEN(errno_names) && errno_names[index] != NULL) return errno_names[index];
    return "E?";
}
