// SPDX-License-Identifier: Apache-2.0
// bind.h: questions about a parsed bind address. config_parse_bind (config.h) is defined in bind.c:
// it takes IP addresses and paths only, never a host name, so that it needs neither DNS nor a file.
// Any thread.
#ifndef SLUICE_CONF_BIND_H
#define SLUICE_CONF_BIND_H

#include "conf/config.h"

// Whether only this machine can reach it: 127.0.0.0/8, ::1, the mapped form of the first, a unix
// socket.
bool bind_is_local(const bind_address *b);
// Whether both name the same socket. Port 0 (any free port) is never the same.
bool bind_is_same(const bind_address *a, const bind_address *b);
// The port; 0 for a unix socket.
u16 bind_port(const bind_address *b);

#endif
