// SPDX-License-Identifier: Apache-2.0
// broker.h: routing on one worker: subscriptions of this worker's clients, a summary of the other
// workers' filters, and delivery. A publish is matched once locally and posted once to each worker
// that has a matching filter; there it is matched again and delivered.
//
// Each function runs on the worker that owns the broker, a device worker. The order of messages of
// one publisher on one topic is kept: one ring per pair of workers, one queue per connection.
//
// A subscription comes into force on all workers at once: when every one of them has confirmed that
// it knows the filter. Until then nothing is delivered to it; from then on nothing published
// anywhere is missed. Whoever acknowledges a subscription to its client does so from that moment.
//
// Filters of one subscriber that overlap: it gets one delivery of a message, with the highest QoS of
// those that match and all their identifiers (MQTT 5.0 section 3.3.4). A shared subscription that
// matches is a delivery of its own (section 4.8.2).
#ifndef SLUICE_BROKER_BROKER_H
#define SLUICE_BROKER_BROKER_H

#include "base/base.h"
#include "base/spsc.h"
#include "broker/pool.h"

typedef struct broker broker;

// Valid during the call it is handed to. props: the properties that are passed on to subscribers, in
// their MQTT 5.0 encoding without the length in front (payload format, content type, response topic,
// correlation data, user properties; section 3.3.2.3), props_present: a bit for each identifier.
typedef struct publication {
    const char *topic;
    const u8 *props;
    const u8 *payload;
    u64 props_present;
    u64 expires_ns;   // monotonic; 0 = never (message expiry interval)
    u64 published_ns; // monotonic; 0 = now, set by broker_publish
    u64 publisher;    // subscriber.number of the publishing client, for no local; 0 = none
    u64 retain_serial; // of a retained one, set by broker_publish (broker/retained_seen.h)
    // The open QoS 2 exchange of a durable session of the publisher's worker; 0 = none (store/message_record.h).
    u64 exchange_session;
    u64 source_pos;   // its record there, when it came from another worker; 0 = none
    u32 topic_len, props_len, payload_len;
    u16 exchange_id, source_worker;
    u8 qos;           // as published
    bool retain;      // as published
    // Its publisher can be told that a session's queue is full: it is refused then (queue_policy = reject). What was
    // let through is taken by all; what can not be refused is dropped for those that are full.
    bool refusable;
} publication;

typedef struct worker worker;
typedef struct pledge pledge; // broker/pledge.h
struct message; // broker/message.h
struct message_waiting; // store/message_record.h
typedef struct subscription subscription;
typedef struct subscriber subscriber;

typedef struct delivery {
    const publication *publication;
    const u32 *subscription_ids; // of all subscriptions that matched and have one
    u32 subscription_id_count;
    u8 qos;           // the lower of the publication's and the highest one granted
    bool retain;      // flag to be sent
    bool retained;    // from the retained store (broker/retained.h)
    bool keep;        // shared: no member has room, so it is to wait in this one's queue
    u32 share;        // not 0: through a shared subscription; for broker_redistribute
    broker *broker;   // the broker's own, as is the next
    struct message **stored;
} delivery;

// The message stored once on this worker, made at the first call; the caller owns one reference more.
// NULL when the memory budget is used up. Only during deliver().
struct message *delivery_message(delivery *d);

typedef enum delivery_result {
    DELIVERY_TAKEN,
    DELIVERY_DROPPED, // counted by the broker
    DELIVERY_REFUSED, // shared: give it to another member; retained: offer it again later
} delivery_result;

typedef struct subscriber_ops {
    // A message; it and the delivery are valid during the call only. It may publish, subscribe,
    // unsubscribe and end any subscriber, itself included.
    delivery_result (*deliver)(subscriber *s, delivery *d);
    // For shared subscriptions: messages in flight, smaller is served first; -1 = offline. NULL:
    // always online, with nothing in flight.
    int (*load)(const subscriber *s);
    // The client's id, for operators; *len bytes. May be NULL.
    const char *(*name)(const subscriber *s, u32 *len);
    // Of durable subscribers (broker/durable.h). A message of QoS 1 or 2 is about to be written into the log, and
    // deliver() follows: whether the subscriber will have it, and under which terms (*w; its ids are d's). It has
    // to make sure now that it can.
    bool (*reserve)(subscriber *s, delivery *d, struct message_waiting *w);
    // Where it lies: position and bytes of the record, and the part of them that is this subscriber's (to be given to
    // store_drop when it needs the message no more). Position 0: it was not written, the reservation is off.
    void (*stored)(subscriber *s, u64 pos, u32 bytes, u32 share_bytes);
    // Whether a message of QoS 1 or 2 has to be refused, because the subscriber's queue is full. NULL: it never has.
    bool (*refuses)(const subscriber *s, const delivery *d);
} subscriber_ops;

// Embedded in a session. ops and number are set before the first subscription, the rest is zero then
// and the broker's. It lives until broker_unsubscribe_all.
struct subscriber {
    const subscriber_ops *ops;
    u64 number;          // unique in the process, not 0
    subscription *first, *shared; // its subscriptions
    u64 match_stamp;
    u32 match_index, match_count;
    u32 subscription_count;
    bool durable;        // its messages are kept in the log
};

typedef struct subscription_options {
    u32 id;             // subscription identifier; 0 = none
    u8 qos;             // granted
    u8 retain_handling; // as in the SUBSCRIBE packet; not used by the broker
    bool no_local, retain_as_published;
    bool restored;      // from the log: gets what comes before all workers have confirmed it too
} subscription_options;

// Answers BROKER_PENDING, once: 0 = in force, -ENOMEM = a worker had no memory for the filter and
// the subscription has been removed. It may unsubscribe, subscribe and publish. Not called for a
// subscription that has been removed meanwhile. BROKER_PENDING: called inside broker_subscribe of the same
// once more, whose answer will count for this one too; it calls nothing of the broker then.
typedef void (*broker_subscribed)(void *context, int result);

typedef struct broker_config {
    worker *owner;    // its gateway, index, configuration and timer wheel are set
    u64 memory_bytes; // budget: subscriptions, client records, messages kept or on their way
} broker_config;

// Returns NULL when out of memory.
broker *broker_create(const broker_config *settings);
// Messages that other workers still hold are freed too: all workers must have ended their loops.
void broker_destroy(broker *b);

// A number for a subscriber, unique in the process.
u64 broker_subscriber_number(broker *b);

// Subscribes. filter: MQTT topic filter (MQTT 5.0 section 4.7) without "$share/name/", checked;
// share: that name, NULL = not a shared subscription. Returns 0 when in force, BROKER_PENDING when
// `subscribed` will be called, -EINVAL for a malformed filter or share name, -ENOMEM when over
// budget. The same filter, share and subscriber again replaces options, `subscribed` and context.
// *existed (may be NULL): whether that was so.
#define BROKER_PENDING 1
int broker_subscribe(broker *b, subscriber *s, const char *share, u32 share_len, const char *filter,
                     u32 filter_len, const subscription_options *o, broker_subscribed subscribed,
                     void *context, bool *existed);
// Removes one subscription. Returns whether it existed. Nothing is called for it any more.
bool broker_unsubscribe(broker *b, subscriber *s, const char *share, u32 share_len,
                        const char *filter, u32 filter_len);
// Removes all of a subscriber, which may be freed after; harmless when it has none.
void broker_unsubscribe_all(broker *b, subscriber *s);
// What a subscriber has subscribed to: calls visit for each, which must not subscribe or
// unsubscribe. The texts are valid during the call; share NULL = not shared. Returns 0 or -ENOMEM.
typedef struct subscription_view {
    const char *share, *filter;
    u32 share_len, filter_len;
    subscription_options options;
    bool in_force;
} subscription_view;
typedef void (*subscription_visit)(const subscription_view *view, void *context);
int broker_subscriptions(broker *b, const subscriber *s, subscription_visit visit, void *context);

// The subscriber has come online or gone offline (its load() says which), or has room again after it
// refused: its shared subscriptions are counted anew and get what waits, in the next turn.
void broker_subscriber_changed(broker *b, subscriber *s);
// A message that a member of a shared subscription took and will never acknowledge goes to another
// member. share: delivery.share. The message's reference stays the caller's. Returns 0, or -ENOENT
// when the subscription has no member any more, -ENOMEM.
int broker_redistribute(broker *b, u32 share, struct message *m);

// Publishes. topic: a topic name without wildcards. With p->retain the retained store is updated too
// (an empty payload deletes). *matched (may be NULL): whether anybody, here or on another worker, has
// a subscription that matches. Returns 0 when every subscriber's worker has it (each in its order);
// nothing was delivered on an error: -EAGAIN when the rings are congested or messages in transit use
// up the budget (publish again after conn_unblock), -EINVAL for a malformed topic, -ENOMEM when the
// message alone is over the budget, -ENOSPC when it is to be retained and the store is full.
int broker_publish(broker *b, const publication *p, bool *matched);
// The same for a publisher that is answered when what has to be is on disk. *owed: NULL, answer at once; else a
// pledge that is the caller's now. Errors of the log, besides those above: -EDQUOT when its disk is full, -EIO when
// it does not take writes, -EMSGSIZE when the message is larger than a record may be. -EXFULL: a stream with
// discard = new is full. -ENOBUFS, of one that is refusable: the queue of a session that rejects is full.
int broker_publish_owed(broker *b, const publication *p, bool *matched, pledge **owed);

// The queue of a session that rejects what it has no room for has become full, or is full no more.
void admit_session_full(broker *b, bool full);

// Worker messages WM_ROUTE, WM_ROUTE_RETURN, WM_SUBSCRIBE, WM_UNSUBSCRIBE (broker/route.h).
void broker_handle_message(broker *b, const spsc_message *message);

// Gives memory back to the system that was kept for reuse; about once a second.
void broker_trim(broker *b);

// Memory under the broker's budget, for what the clients of this worker need.
pool *broker_pool(broker *b);

typedef struct broker_usage {
    u64 subscriptions;       // local, shared ones included
    u64 shared;              // local shared ones
    u64 remote_filters;      // summary entries
    u64 memory_bytes, memory_budget_bytes;
    u64 in_transit;          // messages handed to other workers and not returned yet
    u64 messages;            // kept by reference: queues, retained store
    u64 message_bytes;
    u64 shared_waiting;      // messages for shared subscriptions whose members took none
    u64 shared_handed_on;    // given to another member or worker than the first chosen
    u64 shared_dropped;
    u64 retained, retained_bytes; // of this worker's part of the store
    u64 retained_refused;
    u64 sessions_full; // that reject messages
} broker_usage;
broker_usage broker_usage_get(const broker *b); // any thread

#endif
