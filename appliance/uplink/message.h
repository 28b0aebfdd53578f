// SPDX-License-Identifier: Apache-2.0
// message.h: one message of the backlog on its way to the remote, as the log gives it. Valid until the next
// record is read; nothing of it is kept.
#ifndef SLUICE_UPLINK_MESSAGE_H
#define SLUICE_UPLINK_MESSAGE_H

#include "base/base.h"

typedef struct uplink_message {
    const char *topic;     // as published here
    const u8 *props;       // MQTT 5.0 encoding without the length in front (broker/broker.h, publication)
    const u8 *payload;
    u64 props_present;
    u64 pos;               // of its record
    u64 time_ms;           // UNIX time it was stored at
    u64 expires_ms;        // UNIX time; 0 = never
    u32 topic_len, props_len, payload_len;
    u32 streams;           // how many of the uplink's streams it belongs to
    u8 qos;                // as published
    bool retain;
    bool again;            // it was sent before
    bool given_up;         // by retention, from all of the uplink's streams
} uplink_message;

// The mark of loop protection: a user property (MQTT) and a header (NATS) whose value is the uplink that a
// message came through. A message that an uplink brought here is not sent back through it, and one that it sent
// is not taken again.
#define UPLINK_VIA "sluice-via"

#endif
