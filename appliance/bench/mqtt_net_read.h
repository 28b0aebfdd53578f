// SPDX-License-Identifier: Apache-2.0
// mqtt_net_read.h: between mqtt_net.c and mqtt_net_read.c, seen by no one else but tests.
#ifndef SLUICE_BENCH_MQTT_NET_READ_H
#define SLUICE_BENCH_MQTT_NET_READ_H

#include "bench/mqtt_net.h"

// Bytes of a connection, in whatever pieces they come.
void mq_client_read(mq_client *c, const u8 *bytes, u32 len, u64 now_ns);
// The short way through a whole PUBLISH; false: it is to be judged by the codec.
bool mq_publish_read(const u8 *packet, u32 len, bool has_properties, mq_message *out);

#endif
