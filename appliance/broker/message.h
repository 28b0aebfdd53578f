// SPDX-License-Identifier: Apache-2.0
// message.h: a published message. While it is being published it is a `publication` (broker/broker.h),
// borrowed from whoever publishes it; whoever wants to keep it (a queue, the retained store, an output queue that
// sends by reference) gets a `message`, which a worker makes at most once per publication and shares
// by counting references. Nothing here is touched by another thread.
#ifndef SLUICE_BROKER_MESSAGE_H
#define SLUICE_BROKER_MESSAGE_H

#include "broker/broker.h"

typedef struct message {
    broker *owner;
    u32 refs;
    u32 topic_len, props_len, payload_len;
    u64 props_present;
    u64 expires_ns;
    u64 published_ns;
    u64 publisher;
    u64 retain_serial;
    u8 qos;
    bool retain;
    u8 bytes[]; // topic, properties, payload
} message;

static inline const char *message_topic(const message *m) {
    return (const char *)m->bytes;
}
static inline const u8 *message_props(const message *m) {
    return m->bytes + m->topic_len;
}
static inline const u8 *message_payload(const message *m) {
    return m->bytes + m->topic_len + m->props_len;
}
// Whether its expiry interval has passed.
static inline bool message_is_expired(const message *m, u64 now_ns) {
    return m->expires_ns != 0 && m->expires_ns <= now_ns;
}

// Copies a publication, one reference for the caller. The memory is under the broker's budget: NULL
// when it is used up.
message *message_create(broker *b, const publication *p);
static inline message *message_ref(message *m) {
    m->refs++;
    return m;
}
// Gives a reference back; frees with the last one.
void message_unref(message *m);
// The same, as conn_send_shared wants it.
void message_release(void *m);
// What the message was, pointing into it.
publication message_publication(const message *m);
// Memory it is charged with.
u64 message_bytes(const message *m);

#endif
