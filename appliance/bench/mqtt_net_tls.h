// SPDX-License-Identifier: Apache-2.0
// mqtt_net_tls.h: TLS of the generator's connections: what is gathered is sealed before it is sent, what
// comes is opened before it is read. The generator checks the broker's chain, as a device would, but any name
// in it.
#ifndef SLUICE_BENCH_MQTT_NET_TLS_H
#define SLUICE_BENCH_MQTT_NET_TLS_H

#include "bench/mqtt_net.h"

// Reads --cafile, --cert and --key; without --cafile connections are plain. 0, or -errno with a sentence in why.
int mq_tls_load(mq_net *net, char *why, size_t why_bytes);
void mq_tls_unload(mq_net *net);

// Begins on a connection that was just started. False: no memory.
bool mq_tls_open(mq_client *c);
void mq_tls_free(mq_client *c);
// Seals fill and moves all that is to be sent into flight. False: the connection has ended.
bool mq_tls_seal(mq_client *c);
bool mq_tls_has_output(const mq_client *c);
// Bytes of the socket; they are changed in place.
void mq_tls_read(mq_client *c, u8 *bytes, u32 len, u64 now_ns);
// Writes the last bytes and close_notify straight to the socket.
void mq_tls_leave(mq_client *c, const u8 *bytes, u32 len);

#endif
