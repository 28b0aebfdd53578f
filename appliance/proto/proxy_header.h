// SPDX-License-Identifier: Apache-2.0
// proxy_header.h: the header that a proxy puts in front of a connection to tell whose it is: the PROXY protocol,
// version 1 (a line of text) and version 2 (binary), sections 2.1 and 2.2 of its specification of 2020 (HAProxy).
// Bytes in, an address out; no I/O and no memory of its own.
#ifndef SLUICE_PROTO_PROXY_HEADER_H
#define SLUICE_PROTO_PROXY_HEADER_H

#include "base/base.h"

#define PROXY_V1_BYTES_MAX 107u // the line with its end
#define PROXY_V2_BYTES_MAX 4096u // after the first 16 bytes: addresses and extensions (TLVs), which are skipped

typedef enum proxy_fault {
    PROXY_OK,
    PROXY_NO_HEADER,   // the bytes begin with neither signature
    PROXY_LINE_LONG,   // version 1: no end within PROXY_V1_BYTES_MAX
    PROXY_LINE,        // version 1: not the words, spaces, addresses and ports of section 2.1
    PROXY_VERSION,     // version 2: another version in the upper half of byte 13
    PROXY_COMMAND,     // version 2: neither LOCAL nor PROXY
    PROXY_FAMILY,      // version 2: a reserved family or protocol, or one that is no stream
    PROXY_LENGTH,      // version 2: no room for the addresses, or more than PROXY_V2_BYTES_MAX
    PROXY_FAULTS
} proxy_fault;

typedef struct proxy_parser {
    u8 len;       // bytes in head
    bool skipping;
    u16 skip;     // bytes of the header that are of no interest and have not come
    u8 head[PROXY_V1_BYTES_MAX + 1];
    u8 addr[16];  // result: IPv6 or v4-mapped
    u16 port;
    u8 family;    // AF_INET, AF_INET6; 0: the proxy speaks for itself (LOCAL), or does not say (UNKNOWN, unix)
} proxy_parser;

typedef enum proxy_progress { PROXY_NEED_MORE, PROXY_READY, PROXY_REFUSED } proxy_progress;

// A zeroed parser is a fresh one. Feeds bytes; *used receives how many belong to the header, never one behind
// it. PROXY_REFUSED: *fault tells why. Not to be called again after PROXY_READY or PROXY_REFUSED.
proxy_progress proxy_header_feed(proxy_parser *p, const u8 *data, u32 len, u32 *used, proxy_fault *fault);

// What was wrong, for people. Never NULL.
const char *proxy_fault_text(proxy_fault fault);

#endif
