// SPDX-License-Identifier: Apache-2.0
// subscribe.c: the local subscriptions: found by filter (or group) and subscriber in one table, in a
// ring per filter in the order they were made, and in a list per subscriber.
//
// Callbacks may unsubscribe while a ring is being walked. Therefore an ended subscription is only
// marked and taken out of the table and the subscriber's list; it is unlinked and freed, and its
// filter with it, when the last callback has returned (broker_leave). Nothing the walk stands on
// goes away.
#include <errno.h>

#include "base/siphash.h"
#include "broker/route.h"
#include "broker/topic.h"

void ring_add(subscription **ring, subscription *s) {
    if (*ring == NULL) {
        *ring = s->next = s->prev = s;
        return;
    }
    s->next = *ring;
    s->prev = (*ring)->prev;
    s->prev->next = s;
    s->next->prev = s;
}

void ring_remove(subscription **ring, subscription *s) {
    s->prev->next = s->next;
    s->next->prev = s->prev;
    if (*ring == s) *ring = s->next == s ? NULL : s->next;
}

void broker_enter(broker *b) {
    b->busy++;
}

void broker_leave(broker *b) {
    ASSERT(b->busy > 0);
    if (--b->busy > 0) return;
    while (b->ended != NULL) {
        subscription *s = b->ended;
        route_filter *f = s->filter;
        share_group *g = s->group;
        b->ended = (subscription *)(void *)s->link.next;
        if (g != NULL) {
            group_unlink(s);
        } else {
            ring_remove(&f->first, s);
        }
        pool_free(b->memory, s, sizeof(*s));
        if (g != NULL) {
            group_release(b, g);
        } else {
            filter_release(b, f);
        }
    }
}
_Static_assert(offsetof(subscription, link) == 0, "ended ones are chained through their link");

static interest *interest_of(const subscription *s) {
    return s->group != NULL ? &s->group->told : &s->filter->told;
}

// --- of the subscriber ---

static subscription **own_list(subscriber *who, const subscription *s) {
    return s->group != NULL ? &who->shared : &who->first;
}

static void own_add(subscriber *who, subscription *s) {
    subscription **list = own_list(who, s);
    s->own_next = *list;
    if (s->own_next != NULL) s->own_next->own_prev = s;
    *list = s;
    who->subscription_count++;
}

static void own_remove(subscription *s) {
    subscriber *who = s->subscriber;
    *(s->own_prev == NULL ? own_list(who, s) : &s->own_prev->own_next) = s->own_next;
    if (s->own_next != NULL) s->own_next->own_prev = s->own_prev;
    s->own_next = s->own_prev = NULL;
    who->subscription_count--;
}

void subscription_end(broker *b, subscription *s) {
    ASSERT(b->busy > 0 && s->subscriber != NULL);
    table_remove(&b->subscriptions, &s->link);
    own_remove(s);
    s->subscriber = NULL;
    interest_of(s)->live--;
    s->link.next = b->ended == NULL ? NULL : &b->ended->link;
    b->ended = s;
    counter_sub(&b->subscription_count, 1);
    if (s->group == NULL) return;
    group_count(s->group, s, -1);
    counter_sub(&b->shared_count, 1);
}

// --- filters ---

route_filter *filter_find(const broker *b, const char *filter, u32 len) {
    trie_node *node = trie_find(b->filters, filter, len);
    return node == NULL ? NULL : trie_node_value(node);
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
    match_cache_invalidate(b);
    return f;
}

void filter_release(broker *b, route_filter *f) {
    const interest *it = &f->told;
    u64 workers = f->remote_mask | it->told_mask | it->in_flight_mask;
    if (f->first != NULL || f->groups != NULL || workers != 0 || it->lagging) return;
    trie_node *node = f->node;
    match_cache_invalidate(b);
    trie_node_set_value(node, NULL);
    trie_prune(b->filters, node);
    pool_free(b->memory, f, sizeof(*f));
}

// --- subscribing ---

static u64 subscription_hash(const void *of, const subscriber *who) {
    const void *key[2] = {of, who};
    return siphash24(siphash_process_key(), key, sizeof(key));
}

static subscription *subscription_find(const broker *b, const route_filter *f,
                                       const share_group *g, const subscriber *who) {
    const void *of = g != NULL ? (const void *)g : f;
    table_link *at = table_first(&b->subscriptions, subscription_hash(of, who));
    for (; at != NULL; at = table_next(at)) {
        subscription *s = CONTAINER_OF(at, subscription, link);
        if (s->filter == f && s->group == g && s->subscriber == who) return s;
    }
    return NULL;
}

static subscription *subscription_create(broker *b, route_filter *f, share_group *g,
                                         subscriber *who) {
    subscription *s = pool_alloc(b->memory, sizeof(*s));
    if (s == NULL) return NULL;
    *s = (subscription){.filter = f, .group = g, .subscriber = who};
    if (g != NULL) {
        group_add(b, s);
        group_count(g, s, 1);
        counter_add(&b->shared_count, 1);
    } else {
        ring_add(&f->first, s);
    }
    interest_of(s)->live++;
    own_add(who, s);
    table_insert(&b->subscriptions, &s->link, subscription_hash(g != NULL ? (void *)g : f, who));
    counter_add(&b->subscription_count, 1);
    return s;
}

static void options_set(subscription *s, const subscription_options *o) {
    s->id = o->id;
    s->qos = o->qos;
    s->retain_handling = o->retain_handling;
    s->no_local = o->no_local;
    s->retain_as_published = o->retain_as_published;
    s->early = o->restored;
}

// Within broker_enter. Returns as broker_subscribe.
static int subscribe_to(broker *b, route_filter *f, share_group *g, subscriber *who,
                        const subscription_options *o, broker_subscribed subscribed,
                        void *context, bool *existed) {
    subscription *s = subscription_find(b, f, g, who);
    *existed = s != NULL;
    if (s != NULL) {
        options_set(s, o);
        bool kept = s->keeps;
        if (g != NULL) group_keeps(g, s);
        if (s->keeps != kept) group_changed(b, g);
        if (s->waiting == NULL) return 0;
        broker_subscribed replaced = s->waiting;
        void *replaced_context = s->context;
        s->waiting = subscribed;
        s->context = context;
        replaced(replaced_context, BROKER_PENDING);
        return BROKER_PENDING;
    }
    s = subscription_create(b, f, g, who);
    if (s == NULL) return -ENOMEM;
    options_set(s, o);
    interest *it = interest_of(s);
    if (g != NULL) {
        group_keeps(g, s);
        g->stale_mask = b->others_mask;
    }
    int result = announce_reconcile(b, it);
    if (result < 0) {
        subscription_end(b, s);
        return result;
    }
    if (announce_is_complete(b, it)) return 0;
    s->waiting = subscribed;
    s->context = context;
    return BROKER_PENDING;
}

// MQTT 5.0 section 4.8.2: at least one character, none of '/', '+' and '#'.
static bool share_name_is_valid(const char *share, u32 len) {
    if (len == 0 || len > LIMIT_TOPIC_BYTES) return false;
    for (u32 i = 0; i < len; i++) {
        if (share[i] == '/' || share[i] == '+' || share[i] == '#') return false;
    }
    return utf8_is_valid(share, len);
}

int broker_subscribe(broker *b, subscriber *s, const char *share, u32 share_len, const char *filter,
                     u32 filter_len, const subscription_options *o, broker_subscribed subscribed,
                     void *context, bool *existed) {
    ASSERT(s->ops != NULL && s->number != 0 && subscribed != NULL);
    bool ignored;
    if (existed == NULL) existed = &ignored;
    *existed = false;
    if (!topic_filter_is_valid(filter, filter_len)) return -EINVAL;
    if (share != NULL && !share_name_is_valid(share, share_len)) return -EINVAL;
    route_filter *f = filter_acquire(b, filter, filter_len);
    if (f == NULL) return -ENOMEM;
    share_group *g = share == NULL ? NULL : group_acquire(b, f, share, share_len);
    if (share != NULL && g == NULL) {
        filter_release(b, f);
        return -ENOMEM;
    }
    broker_enter(b);
    int result = subscribe_to(b, f, g, s, o, subscribed, context, existed);
    if (result < 0 && g != NULL) group_release(b, g); // if nothing needs it
    if (result < 0 && g == NULL) filter_release(b, f);
    broker_leave(b);
    return result;
}

// --- unsubscribing ---

static void subscription_drop(broker *b, subscription *s) {
    share_group *g = s->group;
    interest *it = interest_of(s);
    subscription_end(b, s);
    if (g != NULL) {
        group_changed(b, g);
    } else if (it->live == 0) {
        announce_reconcile_surely(b, it);
    }
}

bool broker_unsubscribe(broker *b, subscriber *who, const char *share, u32 share_len,
                        const char *filter, u32 filter_len) {
    if (!topic_filter_is_valid(filter, filter_len)) return false;
    route_filter *f = filter_find(b, filter, filter_len);
    if (f == NULL) return false;
    share_group *g = share == NULL ? NULL : group_find(b, f, share, share_len);
    if (share != NULL && g == NULL) return false;
    subscription *s = subscription_find(b, f, g, who);
    if (s == NULL) return false;
    broker_enter(b);
    subscription_drop(b, s);
    broker_leave(b);
    return true;
}

void broker_unsubscribe_all(broker *b, subscriber *s) {
    broker_enter(b);
    while (s->first != NULL) subscription_drop(b, s->first);
    while (s->shared != NULL) subscription_drop(b, s->shared);
    broker_leave(b);
}

// --- looking ---

static void view_visit(broker *b, const subscription *s, char *text, subscription_visit visit,
                       void *context) {
    u32 len = trie_node_text_bytes(s->filter->node);
    trie_node_text(s->filter->node, text, len);
    subscription_view view = {
        .filter = text,
        .filter_len = len,
        .share = s->group == NULL ? NULL : group_name(b, s->group),
        .share_len = s->group == NULL ? 0 : s->group->name_len,
        .options = {.id = s->id, .qos = s->qos, .retain_handling = s->retain_handling,
                    .no_local = s->no_local, .retain_as_published = s->retain_as_published},
        .in_force = s->waiting == NULL,
    };
    visit(&view, context);
}

int broker_subscriptions(broker *b, const subscriber *who, subscription_visit visit,
                         void *context) {
    char *text = pool_alloc(b->memory, LIMIT_TOPIC_BYTES);
    if (text == NULL) return -ENOMEM;
    for (const subscription *s = who->first; s != NULL; s = s->own_next) {
        view_visit(b, s, text, visit, context);
    }
    for (const subscription *s = who->shared; s != NULL; s = s->own_next) {
        view_visit(b, s, text, visit, context);
    }
    pool_free(b->memory, text, LIMIT_TOPIC_BYTES);
    return 0;
}

void broker_subscriber_changed(broker *b, subscriber *who) {
    bool online = subscriber_is_online(who), waits = false;
    for (subscription *s = who->shared; s != NULL; s = s->own_next) {
        share_group *g = s->group;
        waits = waits || g->waiting > 0;
        if (s->online == online) continue;
        group_count(g, s, -1);
        group_unlink(s);
        group_add(b, s);
        group_count(g, s, 1);
        group_changed(b, g);
    }
    if (waits) broker_retry_now(b);
}
