// SPDX-License-Identifier: Apache-2.0
// route.c: a published message on its way: to the local subscribers, and once to each worker that
// has some. In the path of a byte: proto/ -> here -> deliver.c (this worker) or parcel.c (another
// worker's route_received) -> the subscriber's connection.
//
// Invariant: whatever can refuse a message (malformed topic, congestion, memory) does so before the
// first delivery; a publisher that gets -EAGAIN may publish again and nothing arrives twice.
#include <errno.h>
#include <string.h>

#include "broker/route.h"
#include "broker/topic.h"

// Matching filters remembered from the walk that finds the interested workers. A topic that matches
// more is walked a second time to deliver: rare, and it needs no memory that could be refused.
#define ROUTE_MATCHES 64u

typedef struct route_matches {
    u64 workers_mask;
    u32 count; // may exceed ROUTE_MATCHES
    const route_filter *filters[ROUTE_MATCHES];
} route_matches;

static void collect_visit(void *value, void *context) {
    const route_filter *f = value;
    route_matches *matches = context;
    matches->workers_mask |= f->remote_mask;
    if (f->first == NULL) return;
    if (matches->count < ROUTE_MATCHES) matches->filters[matches->count] = f;
    matches->count++;
}

static int send_to_workers(broker *b, u64 workers_mask, const route_message *message) {
    if (worker_post_is_congested(b->owner)) return -EAGAIN;
    parcel *p = parcel_create(b, workers_mask, message->topic_len, message->payload_len);
    // Memory comes back as the other workers return what is in transit.
    if (p == NULL) return counter_get(&b->in_transit) > 0 ? -EAGAIN : -ENOMEM;
    memcpy(parcel_text(p), message->topic, message->topic_len);
    if (message->payload_len > 0) memcpy(parcel_payload(p), message->payload, message->payload_len);
    counter_add(&b->in_transit, 1);
    parcel_send(b, p, WM_ROUTE);
    return 0;
}

int broker_publish(broker *b, const char *topic, u32 topic_len, const u8 *payload,
                   u32 payload_len) {
    if (!topic_name_is_valid(topic, topic_len)) return -EINVAL;
    route_message message = {topic, payload, topic_len, payload_len};
    route_matches matches;
    matches.workers_mask = 0;
    matches.count = 0;
    trie_match(b->filters, topic, topic_len, collect_visit, &matches);
    if (matches.workers_mask != 0) {
        int result = send_to_workers(b, matches.workers_mask, &message);
        if (result < 0) return result;
    }
    counter_add(&b->owner->metrics.published, 1);
    if (matches.count > ROUTE_MATCHES) {
        deliver_to_matching(b, &message);
        return 0;
    }
    broker_enter(b); // keeps the filters that were found
    for (u32 i = 0; i < matches.count; i++) deliver_to_filter(b, matches.filters[i], &message);
    broker_leave(b);
    return 0;
}

void route_received(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    route_message message = {parcel_text(p), parcel_payload(p), p->text_len, p->payload_len};
    deliver_to_matching(b, &message);
    parcel_return(b, slot);
}
