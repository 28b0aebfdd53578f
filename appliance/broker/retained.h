// SPDX-License-Identifier: Apache-2.0
// retained.h: reading retained messages (MQTT 5.0 section 3.3.1.3). The store is split over the device
// workers by the topic's hash; broker_publish keeps it, readers walk it.
//
// A reader delivers the retained messages that match a filter, in pages: it stops when its subscriber
// refuses (no send window, no output budget) and goes on when told, and it gives way to others after a
// bounded number of steps. Of another worker's part at most one page is on its way per reader. A
// message that is stored or deleted while the walk goes on may or may not be seen; every other
// message that matches is delivered exactly once. What is published while the subscription comes into
// force is delivered either live or by the reader that is started then, on every worker (retained_seen.h).
// Owner thread only.
#ifndef SLUICE_BROKER_RETAINED_H
#define SLUICE_BROKER_RETAINED_H

#include "broker/broker.h"
#include "broker/table.h"

// How far the other workers' messages had come at one moment (retained_seen.h), counted by references:
// subscriptions between which nothing retained came share one.
typedef struct retained_mark {
    u32 refs, bytes;
    u64 met[]; // a worker's last serial each
} retained_mark;

typedef struct retained_reader retained_reader;
struct retained_reader { // embedded by its owner; `done` is set before the start, the rest is the store's
    // Everything has been delivered; the reader is stopped and may be freed. May be NULL. Never called
    // inside retained_read_start; not called after retained_read_stop.
    void (*done)(retained_reader *r);
    table_link link;     // in the broker's table while started; its hash is the reader's number
    retained_reader *next, *prev; // of those with work to do in the next turn
    subscriber *subscriber;
    struct retained_cursor *cursor; // in this worker's part
    struct parcel_slot *page;       // of another worker's part, being delivered
    char *filter;
    retained_mark *mark; // what is later comes through the subscription
    u64 posted;          // of the publisher's worker being looked at; 0 = not looked yet
    subscription_options options;
    u32 filter_len;
    u32 page_at;         // first byte of the page not yet delivered
    u16 part;            // how many parts have been read; the reader's own is the first
    u16 origin;          // publishers' workers below need not be waited for in this part
    bool started, queued; // queued: has work to do
    bool asking;          // a page is on its way
    bool waits;           // the subscriber refused
    bool again;           // offer the message it refused
};

// To be taken when a subscription comes into force: from then on its messages are live. NULL when out of
// memory. The caller owns a reference.
retained_mark *retained_mark_take(broker *b);
void retained_mark_release(broker *b, retained_mark *mark); // NULL is harmless

// Starts, now or at any time after the mark, of which the reader takes a reference of its own. Mark NULL: as
// of now; what came live since the subscription came into force is then read a second time, never missed. The
// first deliveries come in the next turn of the loop, through the subscriber's deliver() with
// delivery.retained and delivery.retain set. DELIVERY_REFUSED stops the reader until retained_read_more.
// Returns 0 or -ENOMEM.
int retained_read_start(broker *b, retained_reader *r, const char *filter, u32 len, subscriber *s,
                        const subscription_options *o, retained_mark *mark);
// The subscriber has room again. Harmless when the reader does not wait for it or is not started.
// Delivers in the next turn, not inside the call.
void retained_read_more(broker *b, retained_reader *r);
// Ends it; harmless when not started. Must be called before the subscriber or the reader is freed.
void retained_read_stop(broker *b, retained_reader *r);

#endif
