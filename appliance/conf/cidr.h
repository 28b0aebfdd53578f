// SPDX-License-Identifier: Apache-2.0
// cidr.h: address ranges: "192.0.2.0/24", "2001:db8::/32", or a single address. Pure; any thread.
#ifndef SLUICE_CONF_CIDR_H
#define SLUICE_CONF_CIDR_H

#include "base/base.h"

// addr: IPv6, or IPv4 mapped into it; bits count from its first bit (an IPv4 range has 96 and more).
typedef struct cidr {
    u8 addr[16];
    u32 bits;
} cidr;

// False when the text is no range, or has bits set behind its prefix.
bool cidr_parse(const char *text, size_t len, cidr *out);
bool cidr_has(const cidr *range, const u8 addr[16]);
// Whether a list of ranges, each ended by a newline, has the address.
bool cidr_list_has(const char *list, const u8 addr[16]);

#endif
