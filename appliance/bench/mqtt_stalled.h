// SPDX-License-Identifier: Apache-2.0
// mqtt_stalled.h: subscribers of everything that stop reading once they are subscribed, beside the
// load of a scenario. They are plain sockets, outside of the event loop: nothing is ever read from
// them again, so that what the broker does about them is all its own.
#ifndef SLUICE_BENCH_MQTT_STALLED_H
#define SLUICE_BENCH_MQTT_STALLED_H

#include "bench/mqtt_world.h"

typedef struct mq_stalled {
    int *fds;
    u32 count;
} mq_stalled;

// Opens and subscribes `count` of them, one after the other. 0, or -EIO with the failure written.
int mq_stalled_open(mq_stalled *s, mq_world *w, u32 count);
// How many the broker has cut off by now.
u32 mq_stalled_closed(const mq_stalled *s);
void mq_stalled_close(mq_stalled *s);

#endif
