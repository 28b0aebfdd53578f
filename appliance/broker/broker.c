// SPDX-License-Identifier: Apache-2.0
// broker.c: a broker's life, and the messages of other workers.
#include "broker/broker.h"

#include <stdlib.h>
#include <string.h>

#include "broker/route.h"

// Longest wait between two attempts for what could not be posted, announced or placed. A congested
// worker needs about this long for the thousands of messages in front of it.
#define RETRY_NS (20 * NS_PER_MS)
#define SCRATCH_ITEMS 64u // at first, and again when a larger one is not needed any more

static void broker_retry(timer_node *node, void *context) {
    (void)context;
    broker *b = CONTAINER_OF(node, broker, retry_timer);
    outbox_flush(b);
    announce_retry(b);
    route_retry(b);
    groups_retry(b);
    groups_answer(b);
    retained_retry(b);
    if (b->durable.resuming) exchange_resume(b);
}

static void retry_at(broker *b, u64 due_ns) {
    if (timer_is_armed(&b->retry_timer) && b->retry_timer.due_ns <= due_ns) return;
    timer_arm(b->owner->wheel, &b->retry_timer, due_ns);
}

void broker_retry_later(broker *b) {
    retry_at(b, b->owner->now_ns + RETRY_NS);
}

void broker_retry_now(broker *b) {
    retry_at(b, b->owner->now_ns);
}

// --- scratch ---

static void scratch_free(broker *b, scratch *s) {
    pool_free(b->memory, s->items, (size_t)s->size * s->item_bytes);
    s->items = NULL;
    s->size = 0;
}

bool scratch_push_room(broker *b, scratch *s) {
    if (LIKELY(s->used < s->size)) return true;
    u32 size = MAX(s->size * 2, SCRATCH_ITEMS);
    void *items = pool_alloc(b->memory, (size_t)size * s->item_bytes);
    if (items == NULL) return false;
    if (s->used > 0) memcpy(items, s->items, (size_t)s->used * s->item_bytes);
    scratch_free(b, s);
    s->items = items;
    s->size = size;
    return true;
}

static void scratch_trim(broker *b, scratch *s) {
    if (s->used > 0 || s->size <= SCRATCH_ITEMS) return;
    scratch_free(b, s);
    (void)scratch_push_room(b, s);
}

static bool scratch_init(broker *b, scratch *s, u32 item_bytes) {
    s->item_bytes = item_bytes;
    return scratch_push_room(b, s);
}

// --- life ---

static u64 others_mask(const worker *w) {
    u32 count = w->gw->worker_count;
    ASSERT(count >= 1 && count <= LIMIT_WORKERS_MAX && w->index < count);
    u64 all = count == 64 ? UINT64_MAX : (1ull << count) - 1;
    return all & ~worker_bit(w->index);
}

static bool parts_create(broker *b) {
    b->filters = trie_create(b->memory);
    if (b->filters == NULL) return false;
    if (table_init(&b->subscriptions, b->memory) < 0) return false;
    if (table_init(&b->clients, b->memory) < 0) return false;
    if (table_init(&b->groups, b->memory) < 0) return false;
    if (!scratch_init(b, &b->found, sizeof(route_filter *))) return false;
    if (!scratch_init(b, &b->hits, sizeof(route_hit))) return false;
    if (!scratch_init(b, &b->picks, sizeof(route_pick))) return false;
    if (match_cache_init(b) < 0) return false;
    return retained_init(&b->retained, b) == 0;
}

broker *broker_create(const broker_config *settings) {
    broker *b = calloc(1, sizeof(*b));
    if (b == NULL) return NULL;
    b->owner = settings->owner;
    b->others_mask = others_mask(settings->owner);
    b->memory_budget_bytes = settings->memory_bytes;
    b->retry_timer.callback = broker_retry;
    b->memory = pool_create(settings->memory_bytes);
    if (b->memory == NULL || !parts_create(b)) {
        if (b->filters != NULL) trie_destroy(b->filters);
        pool_destroy(b->memory);
        free(b);
        return NULL;
    }
    return b;
}

void broker_destroy(broker *b) {
    if (b == NULL) return;
    timer_cancel(b->owner->wheel, &b->retry_timer);
    timer_cancel(b->owner->wheel, &b->retained.timer);
    trie_destroy(b->filters);
    free(b->durable.expiring);
    pool_destroy(b->memory); // and with it tables, subscriptions, messages, what is in transit
    free(b);
}

// --- messages of other workers ---

// All whom it was for have it, and on disk where they need it so.
static void message_returned(broker *b, parcel *p) {
    if (p->hold != NULL) exchange_returned(b, p);
    if (p->owed != NULL) pledge_part_done(p->owed, -(int)p->failure);
}

static void slot_returned(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    switch ((parcel_kind)p->kind) {
        case PARCEL_ANNOUNCE:
            if (!route_hold(b, slot)) announce_returned(b, slot);
            break;
        case PARCEL_READ:
        case PARCEL_ASK:
        case PARCEL_PAGE: retained_returned(b, slot); break;
        case PARCEL_ADMIT: admit_returned(b, slot); break;
        case PARCEL_MESSAGE:
            if (p->pick_count > 0) picks_returned(b, slot);
            if (p->failure == 0) p->failure = slot->failure;
            if (p->pending == 1) {
                counter_sub(&b->in_transit, 1);
                message_returned(b, p);
            }
            parcel_release(b, p);
    }
}

static void slot_received(broker *b, parcel_slot *slot) {
    if (slot->of->kind == PARCEL_MESSAGE) {
        route_received(b, slot);
    } else if (slot->of->kind == PARCEL_ADMIT) {
        admit_received(b, slot);
    } else if (slot->of->kind != PARCEL_READ || !route_hold(b, slot)) {
        retained_received(b, slot);
    }
}

void broker_handle_message(broker *b, const spsc_message *m) {
    ASSERT(b->busy == 0);
    parcel_slot *slot = m->ptr;
    if (b->outbox_mask != 0) outbox_flush(b);
    switch (m->kind) {
        case WM_ROUTE: slot_received(b, slot); break;
        case WM_ROUTE_RETURN: slot_returned(b, slot); break;
        default:
            ASSERT(m->kind == WM_SUBSCRIBE || m->kind == WM_UNSUBSCRIBE);
            announce_received(b, slot);
    }
}

u64 broker_subscriber_number(broker *b) {
    return (u64)b->owner->index << 48 | ++b->subscriber_number;
}

void broker_trim(broker *b) {
    retained_sweep(&b->retained);
    scratch_trim(b, &b->found);
    scratch_trim(b, &b->hits);
    scratch_trim(b, &b->picks);
    pool_trim(b->memory);
}

pool *broker_pool(broker *b) {
    return b->memory;
}

broker_usage broker_usage_get(const broker *b) {
    return (broker_usage){
        .subscriptions = counter_get(&b->subscription_count),
        .shared = counter_get(&b->shared_count),
        .remote_filters = counter_get(&b->remote_filter_count),
        .memory_bytes = pool_used_bytes(b->memory),
        .memory_budget_bytes = b->memory_budget_bytes,
        .in_transit = counter_get(&b->in_transit),
        .messages = counter_get(&b->message_count),
        .message_bytes = counter_get(&b->message_bytes),
        .shared_waiting = counter_get(&b->shared_waiting),
        .shared_handed_on = counter_get(&b->shared_handed_on),
        .shared_dropped = counter_get(&b->shared_dropped),
        .retained = counter_get(&b->retained.count),
        .retained_bytes = counter_get(&b->retained.bytes),
        .retained_refused = counter_get(&b->retained.refused),
        .sessions_full = counter_get(&b->admit.full),
    };
}
