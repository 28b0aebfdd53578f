// SPDX-License-Identifier: Apache-2.0
// announce.c: each worker knows which filters the others' clients have subscribed to, and of each
// group of shared subscriptions how many members the others have.
//
// The reference count is kept by the worker that has the subscribers (interest.live); only its
// changes from and to zero are announced, of a group every change, and every announcement comes
// back as its confirmation. One table says what to do, whatever happened in between (subscribed
// again while the removal is under way, no memory, no room in a ring): for each other worker compare
// what it should know with what it has been told, unless something is in flight to it.
//
//   live > 0, not told, or a group's counts are stale  -> WM_SUBSCRIBE
//   live = 0, told                                     -> WM_UNSUBSCRIBE
//
// A receiver without memory for the filter refuses; then the subscriptions that wait for the
// confirmation fail with -ENOMEM. Those in force can not be hit: of what all know nothing more is
// announced than counts, which need no memory there.
#include <errno.h>
#include <string.h>

#include "broker/route.h"

static share_group *group_of(interest *it) {
    return it->shared ? CONTAINER_OF(it, share_group, told) : NULL;
}

static route_filter *filter_of(interest *it) {
    return it->shared ? group_of(it)->filter : CONTAINER_OF(it, route_filter, told);
}

static void interest_release(broker *b, interest *it) {
    if (it->shared) {
        group_release(b, group_of(it));
    } else {
        filter_release(b, filter_of(it));
    }
}

bool announce_is_complete(const broker *b, const interest *it) {
    return it->told_mask == b->others_mask;
}

static u64 change_mask(const broker *b, interest *it) {
    u64 wanted = it->live > 0 ? b->others_mask : 0;
    u64 change = wanted ^ it->told_mask;
    if (it->shared) change |= group_of(it)->stale_mask & wanted;
    return change & ~it->in_flight_mask;
}

int announce_reconcile(broker *b, interest *it) {
    u64 change = change_mask(b, it);
    if (change == 0) return 0;
    share_group *g = group_of(it);
    const trie_node *node = filter_of(it)->node;
    u32 filter_len = trie_node_text_bytes(node), share_len = g == NULL ? 0 : g->name_len;
    u32 serials_bytes = (u32)(sizeof(u64) * (u32)__builtin_popcountll(change));
    parcel *p = parcel_create(b, PARCEL_ANNOUNCE, change, 0, serials_bytes + filter_len + share_len);
    if (p == NULL) return -ENOMEM;
    p->announce = (parcel_announce){.of = it, .adds = it->live > 0, .share_len = share_len};
    char *text = (char *)parcel_body(p) + serials_bytes;
    trie_node_text(node, text, filter_len);
    if (g != NULL) {
        memcpy(text + filter_len, group_name(b, g), share_len);
        p->announce.share_id = g->id;
        p->announce.online = g->counts[1];
        p->announce.members = g->counts[0] + g->counts[1];
        p->announce.keepers = g->keepers;
        g->stale_mask &= ~change;
    }
    it->in_flight_mask |= change;
    if (!p->announce.adds) it->told_mask &= ~change;
    parcel_send(b, p, p->announce.adds ? WM_SUBSCRIBE : WM_UNSUBSCRIBE);
    return 0;
}

static void lag(broker *b, interest *it) {
    if (!it->lagging) {
        it->lagging = true;
        it->lagging_next = b->lagging;
        b->lagging = it;
    }
    broker_retry_later(b);
}

void announce_reconcile_surely(broker *b, interest *it) {
    if (announce_reconcile(b, it) < 0) lag(b, it);
}

void announce_retry(broker *b) {
    interest *it = b->lagging;
    b->lagging = NULL;
    while (it != NULL) {
        interest *next = it->lagging_next;
        it->lagging = false;
        announce_reconcile_surely(b, it);
        interest_release(b, it);
        it = next;
    }
}

static void answer(broker *b, subscription *s, int result) {
    broker_subscribed subscribed = s->waiting;
    void *context = s->context;
    s->waiting = NULL;
    if (result < 0) subscription_end(b, s);
    subscribed(context, result);
}

static bool waits(const subscription *s) {
    return s->subscriber != NULL && s->waiting != NULL;
}

// Those that wait now, not those that an answer adds; those that fail are ended first.
static void answer_filter(broker *b, route_filter *f, int result) {
    const subscription *last = f->first == NULL ? NULL : f->first->prev;
    for (subscription *s = f->first; s != NULL; s = s == last ? NULL : s->next) {
        if (waits(s)) answer(b, s, result);
    }
}

static u32 ring_waiting(subscription *ring, subscription **first) {
    u32 count = 0;
    subscription *s = ring;
    if (s != NULL) do {
        if (!waits(s)) continue;
        if (count++ == 0) *first = s;
    } while ((s = s->next) != ring);
    return count;
}

// An answer may move any member to the other ring, so each search starts anew; only the first
// members of a group ever wait.
static void answer_group(broker *b, share_group *g, int result) {
    subscription *first = NULL;
    u32 count = ring_waiting(g->members[0], &first) + ring_waiting(g->members[1], &first);
    while (count-- > 0) {
        u32 left = ring_waiting(g->members[0], &first);
        if (left == 0) left = ring_waiting(g->members[1], &first);
        if (left == 0) return;
        answer(b, first, result);
    }
}

static void answer_waiting(broker *b, interest *it, int result) {
    if (it->shared) {
        answer_group(b, group_of(it), result);
        if (result < 0) group_changed(b, group_of(it));
    } else {
        answer_filter(b, filter_of(it), result);
    }
}

void announce_returned(broker *b, const parcel_slot *slot) {
    parcel *p = slot->of;
    retain_serial_met(&b->seen, slot->target, parcel_serials(p)[slot - p->slots]);
    interest *it = p->announce.of;
    u64 bit = worker_bit(slot->target);
    bool refused = slot->refused;
    it->in_flight_mask &= ~bit;
    if (p->announce.adds && !refused) {
        it->told_mask |= bit;
    } else {
        it->told_mask &= ~bit;
    }
    parcel_release(b, p);

    broker_enter(b);
    if (refused) answer_waiting(b, it, -ENOMEM);
    if (refused && it->live > 0) {
        lag(b, it); // subscribed again meanwhile: not at once, the other side still has no memory
    } else {
        announce_reconcile_surely(b, it);
    }
    if (announce_is_complete(b, it)) answer_waiting(b, it, 0);
    interest_release(b, it);
    broker_leave(b);
}

// --- of other workers ---

static bool remote_add(broker *b, u32 from, const char *text, u32 len, const parcel_announce *a) {
    route_filter *f = filter_acquire(b, text, len);
    if (f == NULL) return false;
    u64 bit = worker_bit(from);
    if (a->share_len == 0) {
        if (f->remote_mask == 0) counter_add(&b->remote_filter_count, 1);
        f->remote_mask |= bit;
        return true;
    }
    share_group *g = group_acquire(b, f, text + len, a->share_len);
    if (g == NULL) {
        filter_release(b, f);
        return false;
    }
    if (g->remote_mask == 0) counter_add(&b->remote_filter_count, 1);
    group_remote_set(b, g, from, a);
    return true;
}

static void remote_remove(broker *b, u32 from, const char *text, u32 len,
                          const parcel_announce *a) {
    route_filter *f = filter_find(b, text, len);
    if (f == NULL) return;
    u64 bit = worker_bit(from);
    if (a->share_len == 0) {
        if ((f->remote_mask & bit) == 0) return;
        f->remote_mask &= ~bit;
        if (f->remote_mask == 0) counter_sub(&b->remote_filter_count, 1);
        filter_release(b, f);
        return;
    }
    share_group *g = group_find(b, f, text + len, a->share_len);
    if (g == NULL || (g->remote_mask & bit) == 0) return;
    group_remote_set(b, g, from, a);
    if (g->remote_mask == 0) counter_sub(&b->remote_filter_count, 1);
    group_release(b, g);
}

void announce_received(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    const parcel_announce *a = &p->announce;
    u32 serials_bytes = (u32)(sizeof(u64) * p->slot_count);
    const char *text = (const char *)parcel_body(p) + serials_bytes;
    u32 len = p->body_bytes - serials_bytes - a->share_len;
    parcel_serials(p)[slot - p->slots] = counter_get(&b->seen.met[b->owner->index]);
    if (a->adds) {
        slot->refused = !remote_add(b, p->origin, text, len, a);
    } else {
        remote_remove(b, p->origin, text, len, a);
    }
    parcel_return(b, slot);
}
