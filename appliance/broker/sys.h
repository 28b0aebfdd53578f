// SPDX-License-Identifier: Apache-2.0
// sys.h: the $SYS topics: numbers of the whole process, published as retained messages by the first
// device worker, in the names and forms that users of other brokers' $SYS tree know.
#ifndef SLUICE_BROKER_SYS_H
#define SLUICE_BROKER_SYS_H

#include "base/base.h"

typedef struct worker worker;
typedef struct sys_topics sys_topics;

// Starts publishing every config.sys_interval_s, the first time after one. Returns NULL when out of memory.
sys_topics *sys_create(worker *w);
// NULL is allowed. The worker's timer wheel still exists.
void sys_destroy(sys_topics *s);

// Whether a topic is one by which the bridge of another broker says that it is connected, as Mosquitto's do:
// $SYS/broker/connection/NAME/state. The only ones under $SYS that clients may publish to.
bool sys_is_bridge_state(const char *topic, u32 len);

#endif
