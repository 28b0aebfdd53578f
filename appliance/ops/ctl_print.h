// SPDX-License-Identifier: Apache-2.0
// ctl_print.h: answers of the admin API as people read them. Each function gets the answer's JSON; members that are
// missing (another version of the gateway) show as "-" and are no error.
#ifndef SLUICE_OPS_CTL_PRINT_H
#define SLUICE_OPS_CTL_PRINT_H

#include <yyjson.h>

void ctl_print_status(yyjson_val *root);
void ctl_print_conns(yyjson_val *root);
void ctl_print_conn(yyjson_val *root);
void ctl_print_sessions(yyjson_val *root);
void ctl_print_uplinks(yyjson_val *root);
void ctl_print_tls(yyjson_val *root);
void ctl_print_subs(yyjson_val *root);
void ctl_print_retained(yyjson_val *root);
// One event of a trace, like a line of strace.
void ctl_print_event(yyjson_val *event);

#endif
