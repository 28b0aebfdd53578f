// SPDX-License-Identifier: Apache-2.0
// peer.c: see peer.h.
#include "ops/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 // Linux 4.13
#endif

static bool is_named(const char *name, const peer *who) {
    u32 id = (u32)strtoul(name + 4, NULL, 10); // checked when the configuration was read
    if (name[0] == 'u') return id == who->uid;
    for (u32 i = 0; i < who->group_count; i++) {
        if (who->groups[i] == id) return true;
    }
    return false;
}

bool peer_is_allowed(const char *list, u32 own_uid, const peer *who) {
    if (who->uid == 0 || who->uid == own_uid) return true;
    for (const char *at = list; *at != '\0'; at = strchr(at, '\n') + 1) {
        if (is_named(at, who)) return true;
    }
    return false;
}

int peer_of(const conn *c, peer *out) {
    struct ucred cred;
    socklen_t len = sizeof(cred);
    memset(out, 0, sizeof(*out));
    if (getsockopt(c->io.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) return -errno;
    if (cred.uid == UINT32_MAX) return -ENODATA; // not the process that connected
    out->uid = cred.uid;
    out->groups[0] = cred.gid;
    out->group_count = 1;
    len = sizeof(out->groups) - sizeof(out->groups[0]);
    // More groups than there is room for, or a kernel without it: its own group counts.
    if (getsockopt(c->io.fd, SOL_SOCKET, SO_PEERGROUPS, out->groups + 1, &len) == 0) {
        out->group_count += (u32)(len / sizeof(out->groups[0]));
    }
    return 0;
}
