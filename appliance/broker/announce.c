// SPDX-License-Identifier: Apache-2.0
// announce.c: each worker knows which filters the others' clients have subscribed to.
//
// The reference count of a filter is kept by the worker that has the subscribers
// (route_filter.live); only its changes from and to zero are announced, and every announcement
// comes back as its confirmation. One table says what to do, whatever happened in between
// (subscribed again while the removal is under way, no memory, no room in a ring): for each other
// worker compare what it should know with what it has confirmed, unless something is in flight to
// it.
//
//   live > 0, not told  -> WM_SUBSCRIBE       live = 0, told -> WM_UNSUBSCRIBE
//
// A receiver without memory for the filter refuses; then the subscriptions that wait for the
// confirmation fail with -ENOMEM. Those in force can not be hit: nothing is announced for a filter
// that all know.
#include <errno.h>

#include "broker/route.h"

static u64 wanted_mask(const broker *b, const route_filter *f) {
    return f->live > 0 ? b->others_mask : 0;
}

bool announce_is_complete(const broker *b, const route_filter *f) {
    return (f->told_mask & ~f->in_flight_mask) == b->others_mask;
}

int announce_reconcile(broker *b, route_filter *f) {
    u64 change = (wanted_mask(b, f) ^ f->told_mask) & ~f->in_flight_mask;
    if (change == 0) return 0;
    u32 text_len = trie_node_text_bytes(f->node);
    parcel *p = parcel_create(b, change, text_len, 0);
    if (p == NULL) return -ENOMEM;
    p->filter = f;
    p->adds = f->live > 0;
    trie_node_text(f->node, parcel_text(p), text_len);
    f->in_flight_mask |= change;
    parcel_send(b, p, p->adds ? WM_SUBSCRIBE : WM_UNSUBSCRIBE);
    return 0;
}

static void lag(broker *b, route_filter *f) {
    if (!f->lagging) {
        f->lagging = true;
        f->lagging_next = b->lagging;
        b->lagging = f;
    }
    broker_retry_later(b);
}

void announce_reconcile_surely(broker *b, route_filter *f) {
    if (announce_reconcile(b, f) < 0) lag(b, f);
}

void announce_retry(broker *b) {
    route_filter *f = b->lagging;
    b->lagging = NULL;
    while (f != NULL) {
        route_filter *next = f->lagging_next;
        f->lagging = false;
        announce_reconcile_surely(b, f);
        filter_release(b, f);
        f = next;
    }
}

// Answers the subscriptions that wait now, not those that an answer adds; those that fail are ended
// first.
static void answer_waiting(broker *b, route_filter *f, int result) {
    const subscription *last = f->last;
    for (subscription *s = f->first; s != NULL; s = s == last ? NULL : s->next) {
        broker_subscribed answer = s->waiting;
        void *subscriber = s->subscriber;
        if (subscriber == NULL || answer == NULL) continue;
        s->waiting = NULL;
        if (result < 0) subscription_end(b, s);
        answer(subscriber, result);
    }
}

void announce_returned(broker *b, const parcel_slot *slot) {
    parcel *p = slot->of;
    route_filter *f = p->filter;
    u64 bit = 1ull << slot->target;
    bool refused = slot->refused;
    f->in_flight_mask &= ~bit;
    if (p->adds && !refused) {
        f->told_mask |= bit;
    } else {
        f->told_mask &= ~bit;
    }
    parcel_release(b, p);

    broker_enter(b);
    if (refused) answer_waiting(b, f, -ENOMEM);
    if (refused && f->live > 0) {
        lag(b, f); // subscribed again meanwhile: not at once, the other side still has no memory
    } else {
        announce_reconcile_surely(b, f);
    }
    if (announce_is_complete(b, f)) answer_waiting(b, f, 0);
    filter_release(b, f);
    broker_leave(b);
}

static bool remote_add(broker *b, u64 bit, const char *text, u32 len) {
    route_filter *f = filter_acquire(b, text, len);
    if (f == NULL) return false;
    if (f->remote_mask == 0) counter_add(&b->remote_filter_count, 1);
    f->remote_mask |= bit;
    return true;
}

static void remote_remove(broker *b, u64 bit, const char *text, u32 len) {
    trie_node *node = trie_find(b->filters, text, len);
    route_filter *f = node == NULL ? NULL : trie_node_value(node);
    if (f == NULL || (f->remote_mask & bit) == 0) return;
    f->remote_mask &= ~bit;
    if (f->remote_mask == 0) counter_sub(&b->remote_filter_count, 1);
    filter_release(b, f);
}

void announce_received(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    u64 bit = 1ull << p->origin;
    if (p->adds) {
        slot->refused = !remote_add(b, bit, parcel_text(p), p->text_len);
    } else {
        remote_remove(b, bit, parcel_text(p), p->text_len);
    }
    parcel_return(b, slot);
}
