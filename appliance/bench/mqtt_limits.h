// SPDX-License-Identifier: Apache-2.0
// mqtt_limits.h: the bounds of `sluice bench mqtt`, each named, with the relations between them.
// What meets one in a run is a counted error or a refusal that says so.
#ifndef SLUICE_BENCH_MQTT_LIMITS_H
#define SLUICE_BENCH_MQTT_LIMITS_H

#include "bench/bench_limits.h"

#define MQ_PAYLOAD_BYTES_MIN 16u // publisher, sequence number, due time
#define MQ_PAYLOAD_BYTES_MAX (1u << 20)
#define MQ_PREFIX_BYTES_MAX 200u
#define MQ_TOPIC_BYTES_MAX (MQ_PREFIX_BYTES_MAX + 32u)
#define MQ_OUT_BYTES_MAX (16u << 20)   // waiting on one connection, what is being sent not counted
#define MQ_OUT_BYTES_FIRST 512u        // first size of a connection's output
#define MQ_PACKET_BYTES_MAX (4u << 20) // a larger packet of the broker is refused as malformed
#define MQ_RECV_BUF_BYTES 16384u
#define MQ_BACKLOG_MAX (1u << 20)      // messages of one publisher behind a full in-flight window
#define MQ_INFLIGHT_MAX 16384u         // of one publisher
#define MQ_STARTS_PER_TURN 2048u       // messages between two looks at the sockets
#define MQ_BURST_MAX 1024u             // messages of one publisher that are due at the same time
#define MQ_OPENING_MAX 64u             // connections being opened at once during set-up
#define MQ_AT_ONCE_MAX 15000u          // handshakes of a storm in progress
#define MQ_TRACKS_MAX (64u << 20)      // pairs of publisher and subscriber that are followed
#define MQ_RETAINED_MAX 4000000u       // retained messages of a flood
#define MQ_GROUPS_MAX 64u
#define MQ_STALLED_MAX 4096u
#define MQ_TEXT_BYTES_MAX 1024u        // user name, password, client id prefix

_Static_assert(MQ_INFLIGHT_MAX < 65535, "packet identifiers are 1 to 65,535");
_Static_assert(MQ_BURST_MAX <= MQ_STARTS_PER_TURN, "a burst fits in a turn");
_Static_assert(MQ_PAYLOAD_BYTES_MAX + MQ_TOPIC_BYTES_MAX + 64u <= MQ_PACKET_BYTES_MAX,
               "what is sent can be received");

#endif
