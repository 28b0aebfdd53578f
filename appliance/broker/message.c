// SPDX-License-Identifier: Apache-2.0
// message.c: copies of published messages, one a worker, freed with the last reference. The memory is
// the broker's pool; counters tell how much of it messages hold.
#include "broker/message.h"

#include <string.h>

#include "broker/route.h"

static size_t bytes_of(u32 topic_len, u32 props_len, u32 payload_len) {
    return offsetof(message, bytes) + topic_len + props_len + (size_t)payload_len;
}

u64 message_bytes(const message *m) {
    return bytes_of(m->topic_len, m->props_len, m->payload_len);
}

message *message_create(broker *b, const publication *p) {
    size_t bytes = bytes_of(p->topic_len, p->props_len, p->payload_len);
    message *m = pool_alloc(b->memory, bytes);
    if (m == NULL) return NULL;
    m->owner = b;
    m->refs = 1;
    m->topic_len = p->topic_len;
    m->props_len = p->props_len;
    m->payload_len = p->payload_len;
    m->props_present = p->props_present;
    m->expires_ns = p->expires_ns;
    m->published_ns = p->published_ns;
    m->publisher = p->publisher;
    m->retain_serial = p->retain_serial;
    m->qos = p->qos;
    m->retain = p->retain;
    memcpy(m->bytes, p->topic, p->topic_len);
    if (p->props_len > 0) memcpy(m->bytes + p->topic_len, p->props, p->props_len);
    u8 *payload = m->bytes + p->topic_len + p->props_len;
    if (p->payload_len > 0) memcpy(payload, p->payload, p->payload_len);
    counter_add(&b->message_count, 1);
    counter_add(&b->message_bytes, bytes);
    return m;
}

void message_unref(message *m) {
    ASSERT(m->refs > 0);
    if (--m->refs > 0) return;
    broker *b = m->owner;
    u64 bytes = message_bytes(m);
    counter_sub(&b->message_count, 1);
    counter_sub(&b->message_bytes, bytes);
    pool_free(b->memory, m, bytes);
}

void message_release(void *m) {
    message_unref(m);
}

publication message_publication(const message *m) {
    return (publication){
        .topic = message_topic(m),
        .topic_len = m->topic_len,
        .props = message_props(m),
        .props_len = m->props_len,
        .props_present = m->props_present,
        .payload = message_payload(m),
        .payload_len = m->payload_len,
        .expires_ns = m->expires_ns,
        .published_ns = m->published_ns,
        .publisher = m->publisher,
        .retain_serial = m->retain_serial,
        .qos = m->qos,
        .retain = m->retain,
    };
}

message *delivery_message(delivery *d) {
    if (*d->stored == NULL) *d->stored = message_create(d->broker, d->publication);
    return *d->stored == NULL ? NULL : message_ref(*d->stored);
}
