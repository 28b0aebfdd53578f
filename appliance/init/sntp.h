// SPDX-License-Identifier: Apache-2.0
// sntp.h: asks time servers in rounds and hands what a majority says to clock.c.
//
// Servers: the configuration's; else those of DHCP, filled up with LIMIT_NTP_FALLBACK public ones when there
// are fewer than three. A name may give several addresses; each counts as a server. Two must agree, and they must be
// the majority of those that answered. Where only one server exists at all it is believed when it has said the same
// LIMIT_NTP_SINGLE_ROUNDS times, which the log says. A server that asks not to be asked (kiss of death)
// is not asked again until the list changes; one that asks for fewer requests is left out for an hour.
#ifndef SLUICE_INIT_SNTP_H
#define SLUICE_INIT_SNTP_H

#include <yyjson.h>

#include "base/base.h"

// The network is up (again): ask soon. Names are looked up anew.
void sntp_begin(void);
void sntp_end(void);
void sntp_describe(yyjson_mut_doc *doc, yyjson_mut_val *to);

// "192.0.2.1", "192.0.2.1:1123", "[2001:db8::1]:1123", "2001:db8::1", "time.example", "time.example:1123":
// splits off the port ("123" when there is none). False for what is too long or empty.
bool sntp_server_split(const char *text, char *host, size_t host_size, char *port, size_t port_size);

#endif
