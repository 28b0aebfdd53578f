// SPDX-License-Identifier: Apache-2.0
// ctl_net.h: `sluice ctl net` and, on an appliance, `sluice ctl config`: answers of init's requests "net" and
// "config" as tables. Members that are missing show as "-".
#ifndef SLUICE_OPS_CTL_NET_H
#define SLUICE_OPS_CTL_NET_H

#include <yyjson.h>

void ctl_print_net(yyjson_val *root);
void ctl_print_appliance_config(yyjson_val *root);

#endif
