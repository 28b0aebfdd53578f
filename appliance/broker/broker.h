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
#ifndef SLUICE_BROKER_BROKER_H
#define SLUICE_BROKER_BROKER_H

#include "base/base.h"
#include "base/spsc.h"
#include "broker/pool.h"

typedef struct broker broker;
typedef struct worker worker;

// Called for each matching subscription, payload valid during the call. Returns false when the
// subscriber could not take it (counted as dropped by the broker). It may unsubscribe, itself or
// others.
typedef bool (*broker_deliver)(void *subscriber, const char *topic, u32 topic_len,
                               const u8 *payload, u32 payload_len);
// Answers BROKER_PENDING, once: 0 = in force, -ENOMEM = a worker had no memory for the filter and
// the subscription has been removed. It may unsubscribe, subscribe and publish.
typedef void (*broker_subscribed)(void *subscriber, int result);

typedef struct broker_config {
    worker *owner;    // its gateway, index and timer wheel are set
    u64 memory_bytes; // budget: subscriptions, client records, messages to other workers
} broker_config;

// Returns NULL when out of memory.
broker *broker_create(const broker_config *settings);
// Messages that other workers still hold are freed too: all workers must have ended their loops.
void broker_destroy(broker *b);

// Subscribes. filter: MQTT topic filter (MQTT 5.0 section 4.7), checked. Returns 0 when in force,
// BROKER_PENDING when `subscribed` will be called, -EINVAL for a malformed filter, -ENOMEM when
// over budget. The same filter and subscriber again replaces deliver and subscribed.
#define BROKER_PENDING 1
int broker_subscribe(broker *b, const char *filter, u32 filter_len, void *subscriber,
                     broker_deliver deliver, broker_subscribed subscribed);
// Removes one subscription made with the same filter and subscriber; harmless when absent. Neither
// callback is called for it any more.
void broker_unsubscribe(broker *b, const char *filter, u32 filter_len, void *subscriber);

// Publishes. topic: a topic name without wildcards. Returns 0 when every subscriber's worker has it
// (each in its order), -EAGAIN when the rings are congested or messages in transit use up the
// budget (nothing was delivered: publish again after conn_unblock), -EINVAL for a malformed topic,
// -ENOMEM when the message alone is over the budget.
int broker_publish(broker *b, const char *topic, u32 topic_len, const u8 *payload,
                   u32 payload_len);

// Worker messages WM_ROUTE, WM_ROUTE_RETURN, WM_SUBSCRIBE, WM_UNSUBSCRIBE (broker/route.h).
void broker_handle_message(broker *b, const spsc_message *message);

// Gives memory back to the system that was kept for reuse; about once a second.
void broker_trim(broker *b);

// Memory under the broker's budget, for what the clients of this worker need (broker/clients.h).
pool *broker_pool(broker *b);

typedef struct broker_usage {
    u64 subscriptions;       // local
    u64 remote_filters;      // summary entries
    u64 memory_bytes, memory_budget_bytes;
    u64 in_transit;          // messages handed to other workers and not returned yet
} broker_usage;
broker_usage broker_usage_get(const broker *b); // any thread

#endif
