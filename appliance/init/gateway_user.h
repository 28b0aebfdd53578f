// SPDX-License-Identifier: Apache-2.0
// gateway_user.h: on the appliance the gateway is not root: PID 1 starts it as a user of its own, who owns nothing of
// the system and can write in the data directory only. Here is who that is, and what he is given.
#ifndef SLUICE_INIT_GATEWAY_USER_H
#define SLUICE_INIT_GATEWAY_USER_H

#include "base/base.h"

// There is no table of users on the appliance: the number alone counts. User and group.
#define GATEWAY_UID 991u

// The data directory, mounted on dir: root's and the gateway's group's, with the sticky bit, so that the gateway makes
// and removes its own files and can not replace PID 1's (the last good configuration). What a gateway that still was
// root has left there becomes the gateway's. May block. Returns 0 or -errno.
int gateway_user_give_dir(const char *dir);
// A file of PID 1's that the gateway reads, or a socket that it connects to: its group may, nobody else.
int gateway_user_give_file(int fd, u32 mode);
int gateway_user_give_path(const char *path, u32 mode);
// In the child that will become the gateway: its user, no other groups, and of all capabilities the one that a port
// below 1024 needs, which it gives up itself (sandbox/). Returns 0 or -errno; the child must not go on then.
int gateway_user_become(void);

#endif
