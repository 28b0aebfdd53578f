// SPDX-License-Identifier: Apache-2.0
// peer.h: who is at the other end of a unix socket of the admin API, as the kernel says it (SO_PEERCRED, unix(7)): the
// user that called connect, which no message can pretend.
#ifndef SLUICE_OPS_PEER_H
#define SLUICE_OPS_PEER_H

#include "net/conn.h"

#define PEER_GROUPS_MAX 65u

typedef struct peer {
    u32 uid;
    u32 groups[PEER_GROUPS_MAX]; // its own first
    u32 group_count;
} peer;

// Root, this process's own user (own_uid), and those that the list names; pure.
bool peer_is_allowed(const char *list, u32 own_uid, const peer *who);
// Fills *out for a connection over a unix socket. 0 or -errno: who that is is not known.
int peer_of(const conn *c, peer *out);

#endif
