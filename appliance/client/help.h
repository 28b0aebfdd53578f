// SPDX-License-Identifier: Apache-2.0
// help.h: the pages of `sluice pub` and `sluice sub`.
#ifndef SLUICE_CLIENT_HELP_H
#define SLUICE_CLIENT_HELP_H

extern const char client_help_pub[], client_help_sub[];

#endif
