// SPDX-License-Identifier: Apache-2.0
// resolve.h: a host's name to addresses without blocking: getaddrinfo runs on a thread of its own, because a
// name server that does not answer holds it for many seconds. The owner asks from time to time whether it is
// done, and may leave a job behind: the thread then frees it. At most RESOLVE_THREADS_MAX threads at once,
// those left behind included.
#ifndef SLUICE_UPLINK_RESOLVE_H
#define SLUICE_UPLINK_RESOLVE_H

#include <sys/socket.h>

#include "base/base.h"

#define RESOLVE_THREADS_MAX 32u
#define RESOLVE_ADDRESSES_MAX 8u

typedef struct resolve_address {
    struct sockaddr_storage addr;
    socklen_t len;
} resolve_address;

typedef struct resolve_job resolve_job;

// An address as it stands, "192.0.2.1" or "2001:db8::1". False: it is a name.
bool resolve_literal(const char *host, u16 port, resolve_address *out);
// Starts a look-up. 0; -EAGAIN: too many threads; -ENOMEM.
int resolve_start(const char *host, u16 port, resolve_job **out);
// Whether it has ended; any number of times.
bool resolve_is_done(const resolve_job *job);
// Whether it is about that name and port: one that hangs is waited for again instead of starting another.
bool resolve_is_of(const resolve_job *job, const char *host, u16 port);
// Of one that has ended: how many addresses, in the order of RFC 6724; or with the reason in *why (static) -ENOENT, or
// -ETIMEDOUT: no name server has said anything about it.
int resolve_result(const resolve_job *job, const resolve_address **addresses, const char **why);
// The owner is done with it, ended or not. NULL is allowed.
void resolve_drop(resolve_job *job);

#endif
