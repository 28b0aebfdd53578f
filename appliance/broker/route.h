// SPDX-License-Identifier: Apache-2.0
// route.h: inside the broker: its state, and what its files do for each other. Not for other
// modules.
//
//   broker.c     life, dispatch of worker messages        subscribe.c  local subscriptions
//   announce.c   telling the other workers of filters     route.c      publish, across workers
//   deliver.c    to the local subscribers                 parcel.c     what travels between workers
//
// Between workers travels a pointer to a parcel_slot (spsc_message.ptr; arg is the sender). A
// parcel is allocated, written and freed by the worker it comes from; a receiver reads it, owns its
// own slot of it until it has posted WM_ROUTE_RETURN, and writes nothing else. So nothing is freed
// by another thread than the one that allocated it, and a message that no ring takes waits linked
// through its slot.
#ifndef SLUICE_BROKER_ROUTE_H
#define SLUICE_BROKER_ROUTE_H

#include "base/timer.h"
#include "broker/broker.h"
#include "broker/table.h"
#include "broker/trie.h"
#include "limits.h"
#include "worker.h"

// One filter that somebody subscribed to: the value of its trie node. It lives while it has local
// subscriptions, other workers interested, or another worker that has been told of it.
typedef struct route_filter route_filter;

typedef struct subscription {
    table_link link; // in broker.subscriptions; link.next chains the ended ones
    struct subscription *next, *prev; // of the same filter, in the order of subscribing
    route_filter *filter;
    void *subscriber;          // NULL = ended, waits to be freed
    broker_deliver deliver;
    broker_subscribed waiting; // NULL once in force
} subscription;
_Static_assert(sizeof(subscription) == 64, "one cache line");

struct route_filter {
    trie_node *node;
    subscription *first, *last;
    route_filter *lagging_next;
    u64 remote_mask;    // workers whose clients subscribed
    u64 told_mask;      // workers that have confirmed to know ours
    u64 in_flight_mask; // workers an announcement is under way to; at most one each
    u32 live;           // subscriptions not ended
    bool lagging;       // in broker.lagging: an announcement could not be made yet
};
_Static_assert(sizeof(route_filter) == 64, "one cache line");

typedef struct parcel parcel;
typedef struct parcel_slot {
    parcel *of;
    struct parcel_slot *next; // while it waits for room in a ring
    u32 kind;                 // worker_message, while it waits
    u16 target;               // worker this slot is for
    bool refused;             // announcement: the receiver had no memory
} parcel_slot;

struct parcel {
    u32 origin;        // worker that allocated it
    u32 slot_count;
    u32 pending;       // slots not back yet; origin only
    u32 text_len;      // topic, or filter of an announcement
    u32 payload_len;
    bool adds;         // announcement: subscribe, not unsubscribe
    route_filter *filter; // announcement: at home; NULL = a message
    parcel_slot slots[];  // then the text, then the payload
};

typedef struct outbox {
    parcel_slot *head, *tail;
} outbox;

struct broker {
    worker *owner;
    u64 others_mask;     // the device workers except this one
    pool *memory;
    u64 memory_budget_bytes;
    trie *filters;
    table subscriptions; // by filter and subscriber
    table clients;       // by client id (clients.c)
    u32 busy;            // depth of running callbacks: nothing is freed meanwhile
    subscription *ended; // to be freed when busy falls to 0
    route_filter *lagging;
    u64 outbox_mask;     // workers with something in their outbox
    outbox outboxes[LIMIT_WORKERS_MAX];
    timer_node retry_timer;
    counter subscription_count, remote_filter_count, in_transit;
};

// --- subscribe.c ---
// Marks the start and end of code that may call back: between them ended subscriptions stay linked.
void broker_enter(broker *b);
void broker_leave(broker *b);
void subscription_end(broker *b, subscription *s);
// The record of a filter, made when absent. NULL when out of memory.
route_filter *filter_acquire(broker *b, const char *filter, u32 len);
// Frees it when nothing needs it any more.
void filter_release(broker *b, route_filter *f);

// --- announce.c --- Brings what the other workers have been told in line with f->live. Returns 0
// (also while something is in flight: the rest follows its return) or -ENOMEM: nothing was
// announced.
int announce_reconcile(broker *b, route_filter *f);
// The same, and when there is no memory tries again until it is done.
void announce_reconcile_surely(broker *b, route_filter *f);
bool announce_is_complete(const broker *b, const route_filter *f);
// A slot came back. May call `subscribed` callbacks.
void announce_returned(broker *b, const parcel_slot *slot);
// WM_SUBSCRIBE, WM_UNSUBSCRIBE of another worker.
void announce_received(broker *b, parcel_slot *slot);
void announce_retry(broker *b);

// --- deliver.c ---
typedef struct route_message {
    const char *topic;
    const u8 *payload;
    u32 topic_len, payload_len;
} route_message;
// To the subscriptions of one filter that are in force.
void deliver_to_filter(broker *b, const route_filter *f, const route_message *message);
// To those of all matching filters.
void deliver_to_matching(broker *b, const route_message *message);

// --- parcel.c ---
// A parcel with a slot for each worker in the mask. NULL when out of memory.
parcel *parcel_create(broker *b, u64 targets_mask, u32 text_len, u32 payload_len);
char *parcel_text(parcel *p);
u8 *parcel_payload(parcel *p);
// Posts every slot, as announcement or message.
void parcel_send(broker *b, parcel *p, worker_message kind);
// Sends a slot home.
void parcel_return(broker *b, parcel_slot *slot);
// One slot is back at its origin; frees the parcel with the last one.
void parcel_release(broker *b, parcel *p);
// Posts what waits for room, as far as there is room.
void outbox_flush(broker *b);
void broker_retry_later(broker *b);

// --- route.c ---
void route_received(broker *b, parcel_slot *slot);

#endif
