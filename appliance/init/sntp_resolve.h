// SPDX-License-Identifier: Apache-2.0
// sntp_resolve.h: names of time servers to addresses, in a helper process: a lookup may take as long as it
// likes and the C library's resolver blocks.
#ifndef SLUICE_INIT_SNTP_RESOLVE_H
#define SLUICE_INIT_SNTP_RESOLVE_H

#include <netinet/in.h>

#include "base/base.h"
#include "limits.h"

typedef struct sntp_address {
    u32 server;      // index in the list of names
    u32 len;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } addr;
} sntp_address;

// Looks up `count` names; done(addresses, n) is called from the loop, n = 0 when none was found or the helper
// took longer than LIMIT_NTP_RESOLVE_MS. One lookup at a time: -EBUSY. 0 or -errno.
int sntp_resolve(const char (*names)[LIMIT_NTP_NAME_BYTES], u32 count, void (*done)(const sntp_address *list, u32 n));
bool sntp_resolve_is_running(void);

#endif
