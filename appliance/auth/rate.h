// SPDX-License-Identifier: Apache-2.0
// rate.h: how fast a client may publish: its own rate, that of its address and that of its listener, all of which
// must have room. A message that has to wait is counted by the limit that made it wait, and the listener's log says so
// now and then. Owner thread only.
#ifndef SLUICE_AUTH_RATE_H
#define SLUICE_AUTH_RATE_H

#include "auth/grant.h"
#include "net/conn.h"

// Whether a listener's clients have a rate of any kind, and so a grant.
bool rate_is_limited(const listener_config *conf);
// A client with a grant has come, or its listener's settings have changed: finds its address's rate.
void rate_attach(conn *c, auth_grant *g);
// It goes. Harmless when it is not attached.
void rate_detach(auth_grant *g);

// Whether one message of so many bytes may pass: 0; PROTO_WAITING, with g->timer armed for when to ask again (or for
// the end of its token, if that is earlier); or CLOSE_MESSAGE_RATE.
int rate_check(conn *c, auth_grant *g, u32 bytes);
// It has passed.
void rate_charge(conn *c, auth_grant *g, u32 bytes);

#endif
