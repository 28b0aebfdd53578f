// SPDX-License-Identifier: Apache-2.0
// broker.c: a broker's life, and the messages of other workers.
#include "broker/broker.h"

#include <stdlib.h>

#include "broker/route.h"

static void broker_retry(timer_node *node, void *context) {
    (void)context;
    broker *b = CONTAINER_OF(node, broker, retry_timer);
    outbox_flush(b);
    announce_retry(b);
}

static u64 others_mask(const worker *w) {
    u32 count = w->gw->worker_count;
    ASSERT(count >= 1 && count <= LIMIT_WORKERS_MAX && w->index < count);
    u64 all = count == 64 ? UINT64_MAX : (1ull << count) - 1;
    return all & ~(1ull << w->index);
}

broker *broker_create(const broker_config *settings) {
    broker *b = calloc(1, sizeof(*b));
    if (b == NULL) return NULL;
    b->owner = settings->owner;
    b->others_mask = others_mask(settings->owner);
    b->memory_budget_bytes = settings->memory_bytes;
    b->retry_timer.callback = broker_retry;
    b->memory = pool_create(settings->memory_bytes);
    if (b->memory == NULL) goto no_pool;
    b->filters = trie_create(b->memory);
    if (b->filters == NULL) goto no_filters;
    if (table_init(&b->subscriptions, b->memory) < 0) goto no_subscriptions;
    if (table_init(&b->clients, b->memory) < 0) goto no_clients;
    return b;

no_clients:
    table_free(&b->subscriptions);
no_subscriptions:
    trie_destroy(b->filters);
no_filters:
    pool_destroy(b->memory);
no_pool:
    free(b);
    return NULL;
}

void broker_destroy(broker *b) {
    if (b == NULL) return;
    timer_cancel(b->owner->wheel, &b->retry_timer);
    table_free(&b->clients);
    table_free(&b->subscriptions);
    trie_destroy(b->filters);
    pool_destroy(b->memory); // and with it filters, subscriptions and messages in transit
    free(b);
}

static void slot_returned(broker *b, parcel_slot *slot) {
    if (slot->of->filter != NULL) {
        announce_returned(b, slot);
        return;
    }
    if (slot->of->pending == 1) counter_sub(&b->in_transit, 1);
    parcel_release(b, slot->of);
}

void broker_handle_message(broker *b, const spsc_message *message) {
    ASSERT(b->busy == 0);
    parcel_slot *slot = message->ptr;
    if (b->outbox_mask != 0) outbox_flush(b);
    switch (message->kind) {
        case WM_ROUTE: route_received(b, slot); break;
        case WM_ROUTE_RETURN: slot_returned(b, slot); break;
        default:
            ASSERT(message->kind == WM_SUBSCRIBE || message->kind == WM_UNSUBSCRIBE);
            announce_received(b, slot);
    }
}

void broker_trim(broker *b) {
    pool_trim(b->memory);
}

pool *broker_pool(broker *b) {
    return b->memory;
}

broker_usage broker_usage_get(const broker *b) {
    return (broker_usage){
        .subscriptions = counter_get(&b->subscription_count),
        .remote_filters = counter_get(&b->remote_filter_count),
        .memory_bytes = pool_used_bytes(b->memory),
        .memory_budget_bytes = b->memory_budget_bytes,
        .in_transit = counter_get(&b->in_transit),
    };
}
