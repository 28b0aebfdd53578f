// SPDX-License-Identifier: Apache-2.0
// schema_network.h: the rows of `network NAME { ... }` in the table of schema.c, which includes it in their place.
// Not for anybody else.
    {NETWORK(match), TEXT_OF(network_config, match), .key = "match", .check = text_check_match, .def = "any",
     .text = "Which interfaces the block is for: `any`, `name:eth0` (`*` and `?` match), "
             "`mac:52:54:00:12:34:56` or `driver:virtio_net`; several, separated by blanks. An interface "
             "takes the block that names it most exactly: mac, name, name pattern, driver, any. An "
             "interface that no network block matches stays down."},
    {NETWORK(dhcp4), .type = SETTING_BOOL, .key = "dhcp4", .def_note = "`yes` without an IPv4 `address`",
     .text = "Network: asks a DHCP server for an IPv4 address, router, name and time servers."},
    {NETWORK(slaac), .type = SETTING_BOOL, .key = "slaac", .def = "yes",
     .text = "Network: takes IPv6 addresses and routes from router advertisements."},
    {NETWORK(dhcp6), .type = SETTING_WORD, .key = "dhcp6", .words = dhcp6_words, .def = "auto",
     .text = "Network: asks a DHCPv6 server for an address. `auto` does so when the router's advertisement "
             "has its managed flag set."},
    {NETWORK(address), TEXT_OF(network_config, address), .key = "address", .check = text_check_prefixes,
     .def = "", .text = "Network: static addresses with the length of their network, separated by blanks: "
                        "`\"192.0.2.5/24 2001:db8::5/64\"`."},
    {NETWORK(gateway), TEXT_OF(network_config, gateway), .key = "gateway", .check = text_check_addresses, .def = "",
     .text = "Network: default routes that go with `address`: one IPv4 and one IPv6 router."},
    {NETWORK(routes), TEXT_OF(network_config, routes), .key = "routes", .check = text_check_routes,
     .def = "", .text = "Network: more routes, separated by commas: `\"10.0.0.0/8 via 192.0.2.254\"`. "
                        "Without `via` the target is on the link itself."},
    {NETWORK(dns), TEXT_OF(network_config, dns), .key = "dns", .check = text_check_addresses, .def = "",
     .text = "Network: name servers, separated by blanks. They replace those that DHCP and router "
             "advertisements name."},
    {NETWORK(ntp), TEXT_OF(network_config, ntp), .key = "ntp", .check = text_check_hosts, .def = "",
     .text = "Network: time servers, separated by blanks. They replace those that DHCP names."},
    {NETWORK(vlan), .type = SETTING_COUNT, .key = "vlan", .min = 1, .max = 4094, .zero = "none", .def = "none",
     .text = "The network block is for this VLAN (802.1Q) on the matched interface; NAME becomes the VLAN "
             "interface's name."},
    {NETWORK(mtu), .type = SETTING_COUNT, .key = "mtu", .min = 576, .max = 65535, .zero = "auto",
     .def = "auto", .text = "Network: the largest packet. `auto` takes what DHCP says (option 26), or leaves "
                            "the driver's."},
    {NETWORK(queues), .type = SETTING_COUNT, .key = "queues", .max = LIMIT_WORKERS_MAX, .zero = "auto",
     .def = "auto", .text = "Network: receive and send queues of the interface. `auto` is one for each CPU, "
                            "as far as the device has them. docs/network.md tells how interrupts follow."},
