// SPDX-License-Identifier: Apache-2.0
// broker.h: routing on one worker: subscriptions of this worker's clients, a summary of the other
// workers' filters, and delivery. A publish is matched once locally and posted once to each worker that
// has a matching filter; there it is matched again and delivered.
//
// Each function runs on the worker that owns the broker. The order of messages of one publisher on one
// topic is kept: one ring per pair of workers, one queue per connection.
#ifndef SLUICE_BROKER_BROKER_H
#define SLUICE_BROKER_BROKER_H

#include "base/base.h"
#include "base/spsc.h"

typedef struct broker broker;
typedef struct worker worker;

// Called for each matching subscription, payload valid during the call. Returns false when the
// subscriber could not take it (counted as dropped by the broker).
typedef bool (*broker_deliver)(void *subscriber, const char *topic, u32 topic_len, const u8 *payload,
                               u32 payload_len);

typedef struct broker_config {
    worker *owner;
    u64 memory_bytes; // budget for subscriptions and messages in transit to other workers
} broker_config;

// Returns NULL when out of memory.
broker *broker_create(const broker_config *config);
void broker_destroy(broker *b);

// Subscribes. filter: MQTT topic filter (MQTT 5.0 section 4.7), checked. Returns 0, -EINVAL for a
// malformed filter, -ENOMEM when over budget. The other workers are told in the same loop.
int broker_subscribe(broker *b, const char *filter, u32 filter_len, void *subscriber,
                     broker_deliver deliver);
// Removes one subscription made with the same filter and subscriber; harmless when absent.
void broker_unsubscribe(broker *b, const char *filter, u32 filter_len, void *subscriber);

// Publishes. topic: a topic name without wildcards. Returns 0 when every subscriber's worker has it (each
// in its order), -EAGAIN when the rings are congested (nothing was delivered: publish again after
// conn_unblock), -EINVAL for a malformed topic, -ENOMEM.
int broker_publish(broker *b, const char *topic, u32 topic_len, const u8 *payload, u32 payload_len);

// Worker messages WM_ROUTE, WM_ROUTE_RETURN, WM_SUBSCRIBE, WM_UNSUBSCRIBE.
void broker_handle_message(broker *b, const spsc_message *message);

typedef struct broker_usage {
    u64 subscriptions;       // local
    u64 remote_filters;      // summary entries
    u64 memory_bytes, memory_budget_bytes;
    u64 in_transit;          // messages handed to other workers and not returned yet
} broker_usage;
broker_usage broker_usage_get(const broker *b); // any thread

#endif
