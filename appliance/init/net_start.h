// SPDX-License-Identifier: Apache-2.0
// net_start.h: the network of the appliance, as the rest of init sees it. Interfaces, addresses and
// routes go through rtnetlink; IPv4 addresses come from our own DHCP client (dhcp4.h), so no other program
// is needed in the image. Interrupts, queues and workers are laid out by layout.h, kernel settings by
// sysctl_table.h. Registers the request "net". Init's loop only.
#ifndef SLUICE_INIT_NET_START_H
#define SLUICE_INIT_NET_START_H

#include "conf/config.h"

// Opens rtnetlink, brings the loopback up, sets the kernel's settings, begins to watch interfaces. Nothing
// is configured before init_net_configure. Returns 0, or -errno (the box then runs without a network,
// which is logged).
int init_net_start(void);
// The network blocks of a checked configuration; none = DHCP and autoconfiguration on every Ethernet
// interface. Again at any time: interfaces whose block did not change are left alone. c is copied.
void init_net_configure(const config *c);
// Whether an interface has an address and a default route.
bool init_net_is_up(void);
// Ends DHCP clients and watches; leaves addresses as they are.
void init_net_stop(void);

#endif
