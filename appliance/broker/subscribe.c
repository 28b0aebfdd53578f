// SPDX-License-Identifier: Apache-2.0
// subscribe.c: the local subscriptions: found by filter and subscriber in one table, listed per
// filter in the order they were made.
//
// Callbacks may unsubscribe while a list is being walked. Therefore an ended subscription is only
// marked and taken out of the table; it is unlinked and freed, and its filter with it, when the
// last callback has returned (broker_leave). Nothing the walk stands on goes away.
#include <errno.h>

#include "base/siphash.h"
#include "broker/route.h"
#include "broker/topic.h"

void broker_enter(broker *b) {
    b->busy++;
}

static void subscription_unlink(subscription *s) {
    route_filter *f = s->filter;
    *(s->prev != NULL ? &s->prev->next : &f->first) = s->next;
    *(s->next != NULL ? &s->next->prev : &f->last) = s->prev;
}

void broker_leave(broker *b) {
    ASSERT(b->busy > 0);
    if (--b->busy > 0) return;
    while (b->ended != NULL) {
        subscription *s = b->ended;
        route_filter *f = s->filter;
        b->ended = (subscription *)(void *)s->link.next;
        subscription_unlink(s);
        pool_free(b->memory, s, sizeof(*s));
        filter_release(b, f);
    }
}
_Static_assert(offsetof(subscription, link) == 0, "ended ones are chained through their link");

void subscription_end(broker *b, subscription *s) {
    ASSERT(b->busy > 0 && s->subscriber != NULL);
    table_remove(&b->subscriptions, &s->link);
    s->subscriber = NULL;
    s->filter->live--;
    s->link.next = b->ended == NULL ? NULL : &b->ended->link;
    b->ended = s;
    counter_sub(&b->subscription_count, 1);
}

route_filter *filter_acquire(broker *b, const char *filter, u32 len) {
    trie_node *node = trie_insert(b->filters, filter, len);
    if (node == NULL) return NULL;
    route_filter *f = trie_node_value(node);
    if (f != NULL) return f;
    f = pool_alloc(b->memory, sizeof(*f));
    if (f == NULL) {
        trie_prune(b->filters, node);
        return NULL;
    }
    *f = (route_filter){.node = node};
    trie_node_set_value(node, f);
    return f;
}

void filter_release(broker *b, route_filter *f) {
    u64 workers = f->remote_mask | f->told_mask | f->in_flight_mask;
    if (f->first != NULL || workers != 0 || f->lagging) return;
    trie_node *node = f->node;
    trie_node_set_value(node, NULL);
    trie_prune(b->filters, node);
    pool_free(b->memory, f, sizeof(*f));
}

static u64 subscription_hash(const route_filter *f, const void *subscriber) {
    const void *key[2] = {f, subscriber};
    return siphash24(siphash_process_key(), key, sizeof(key));
}

static subscription *subscription_find(const broker *b, const route_filter *f,
                                       const void *subscriber) {
    table_link *at = table_first(&b->subscriptions, subscription_hash(f, subscriber));
    for (; at != NULL; at = table_next(at)) {
        subscription *s = CONTAINER_OF(at, subscription, link);
        if (s->filter == f && s->subscriber == subscriber) return s;
    }
    return NULL;
}

static subscription *subscription_create(broker *b, route_filter *f, void *subscriber) {
    subscription *s = pool_alloc(b->memory, sizeof(*s));
    if (s == NULL) return NULL;
    *s = (subscription){.filter = f, .subscriber = subscriber, .prev = f->last};
    *(f->last != NULL ? &f->last->next : &f->first) = s;
    f->last = s;
    f->live++;
    table_insert(&b->subscriptions, &s->link, subscription_hash(f, subscriber));
    counter_add(&b->subscription_count, 1);
    return s;
}

// Within broker_enter. Returns as broker_subscribe.
static int subscribe_to(broker *b, route_filter *f, void *subscriber, broker_deliver deliver,
                        broker_subscribed subscribed) {
    subscription *s = subscription_find(b, f, subscriber);
    if (s != NULL) {
        s->deliver = deliver;
        if (s->waiting == NULL) return 0;
        s->waiting = subscribed;
        return BROKER_PENDING;
    }
    s = subscription_create(b, f, subscriber);
    if (s == NULL) return -ENOMEM;
    s->deliver = deliver;
    int result = announce_reconcile(b, f);
    if (result < 0) {
        subscription_end(b, s);
        return result;
    }
    if (announce_is_complete(b, f)) return 0;
    s->waiting = subscribed;
    return BROKER_PENDING;
}

int broker_subscribe(broker *b, const char *filter, u32 filter_len, void *subscriber,
                     broker_deliver deliver, broker_subscribed subscribed) {
    ASSERT(subscriber != NULL && deliver != NULL && subscribed != NULL);
    if (!topic_filter_is_valid(filter, filter_len)) return -EINVAL;
    route_filter *f = filter_acquire(b, filter, filter_len);
    if (f == NULL) return -ENOMEM;
    broker_enter(b);
    int result = subscribe_to(b, f, subscriber, deliver, subscribed);
    if (result < 0) filter_release(b, f); // unless an ended subscription does it in broker_leave
    broker_leave(b);
    return result;
}

void broker_unsubscribe(broker *b, const char *filter, u32 filter_len, void *subscriber) {
    if (!topic_filter_is_valid(filter, filter_len)) return;
    trie_node *node = trie_find(b->filters, filter, filter_len);
    route_filter *f = node == NULL ? NULL : trie_node_value(node);
    subscription *s = f == NULL ? NULL : subscription_find(b, f, subscriber);
    if (s == NULL) return;
    broker_enter(b);
    subscription_end(b, s);
    if (f->live == 0) announce_reconcile_surely(b, f);
    broker_leave(b);
}
