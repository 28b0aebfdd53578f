// SPDX-License-Identifier: Apache-2.0
// network.h: the texts of `network NAME { ... }` taken apart: addresses, prefixes, routes, and which
// interfaces a block is for. Used by the checks of the schema, and by init when it sets the interfaces
// up; so what a file may say and what init understands can not differ. Pure; any thread.
#ifndef SLUICE_CONF_NETWORK_H
#define SLUICE_CONF_NETWORK_H

#include "conf/check.h"

#define NETWORK_LIST_MAX 16u // addresses, routes or servers in one setting

typedef struct net_addr {
    u8 family; // AF_INET or AF_INET6; 0 = none
    u8 prefix; // bits
    u8 bytes[16];
} net_addr;

typedef struct net_route {
    net_addr to;
    net_addr via; // family 0 = on the link itself
} net_route;

// One interface as far as a block's `match` can ask.
typedef struct network_candidate {
    const char *name, *driver; // "eth0", "virtio_net"; driver may be ""
    u8 mac[6];
} network_candidate;

// "192.0.2.1", "2001:db8::1"; prefix is 32 or 128. 0 or -EINVAL.
int network_parse_address(const char *text, net_addr *out);
// "192.0.2.1/24"; without /BITS a host's own. 0 or -EINVAL.
int network_parse_prefix(const char *text, net_addr *out);
// Lists, separated by blanks or commas. Return how many, -EINVAL, or -E2BIG beyond NETWORK_LIST_MAX.
int network_parse_addresses(const char *text, net_addr out[NETWORK_LIST_MAX]);
int network_parse_prefixes(const char *text, net_addr out[NETWORK_LIST_MAX]);
// "10.0.0.0/8 via 192.0.2.254, 198.51.100.0/24": separated by commas.
int network_parse_routes(const char *text, net_route out[NETWORK_LIST_MAX]);
// Whether a block with this `match` is for the interface. How exactly it says so: 0 not at all, 1 "any",
// 2 by driver, 3 by name pattern, 4 by exact name, 5 by hardware address. The most exact block wins, the
// first of equals.
int network_match_rank(const char *match, const network_candidate *candidate);
// "192.0.2.1" or, with_prefix, "192.0.2.1/24". Returns out.
#define NETWORK_TEXT_BYTES 64
const char *network_print(const net_addr *a, bool with_prefix, char out[NETWORK_TEXT_BYTES]);
bool network_is_same(const net_addr *a, const net_addr *b);
// Whether addr lies in the network of prefix.
bool network_contains(const net_addr *prefix, const net_addr *addr);

// Checks of the schema: NULL, or what is wrong.
const char *text_check_match(const char *text);
const char *text_check_prefixes(const char *text);
const char *text_check_addresses(const char *text);
const char *text_check_routes(const char *text);
const char *text_check_hosts(const char *text); // addresses or host names

// The rules between the settings of all network blocks (conf_check calls it).
void conf_check_networks(const config *c, const conf_lines *lines, conf_errors *errors);

#endif
