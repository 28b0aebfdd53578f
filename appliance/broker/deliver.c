// SPDX-License-Identifier: Apache-2.0
// deliver.c: a message to this worker's subscribers, whether it was published here or came from
// another worker.
//
// Invariants: a subscription gets a message at most once per filter that matches; one that is not
// in force gets none; one that is made by a callback of this very delivery gets none.
#include "broker/route.h"

void deliver_to_filter(broker *b, const route_filter *f, const route_message *message) {
    worker_metrics *metrics = &b->owner->metrics;
    const subscription *last = f->last;
    broker_enter(b);
    for (const subscription *s = f->first; s != NULL; s = s == last ? NULL : s->next) {
        if (s->subscriber == NULL || s->waiting != NULL) continue;
        bool taken = s->deliver(s->subscriber, message->topic, message->topic_len, message->payload,
                                message->payload_len);
        counter_add(taken ? &metrics->delivered : &metrics->delivery_dropped, 1);
    }
    broker_leave(b);
}

typedef struct delivery {
    broker *b;
    const route_message *message;
} delivery;

static void deliver_visit(void *value, void *context) {
    const delivery *d = context;
    deliver_to_filter(d->b, value, d->message);
}

void deliver_to_matching(broker *b, const route_message *message) {
    delivery d = {b, message};
    broker_enter(b); // the walk stands on nodes that an unsubscribing callback would remove
    trie_match(b->filters, message->topic, message->topic_len, deliver_visit, &d);
    broker_leave(b);
}
