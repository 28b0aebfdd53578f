// SPDX-License-Identifier: Apache-2.0
// deliver.c: a message to this worker's plain subscriptions, whether it was published here or came
// from another worker.
//
// When one filter matches nobody can be in it twice: its ring is walked and that is all. When several
// match, a first walk gathers each subscriber once, by a stamp in it, with its matching
// subscriptions chained behind; only then anybody is called. The gathered list lies in a stack that
// a publish inside a callback continues behind, so it needs no memory per subscriber.
//
// Invariants: a subscriber gets a message at most once; a subscription that is not in force gets none;
// one that is made by a callback of this very delivery gets none; one that a callback has ended gets
// none, nor is its subscriber touched.
#include <errno.h>

#include "broker/route.h"

#define HIT_NONE UINT32_MAX
#define IDS_AT_HAND 32u // identifiers of one delivery for which no memory is taken

static route_filter *found_at(const broker *b, u32 i) {
    return ((route_filter **)b->found.items)[i];
}

static route_hit *hit_at(const broker *b, u32 i) {
    return &((route_hit *)b->hits.items)[i];
}

// --- gathering ---

static bool wants(const subscription *s, const publication *p) {
    if (s->subscriber == NULL || (s->waiting != NULL && !s->early)) return false;
    return !s->no_local || p->publisher != s->subscriber->number;
}

static int hit_add(broker *b, route_hits *hits, const subscription *s, u32 *longest) {
    if (!scratch_push_room(b, &b->hits)) return -ENOMEM;
    subscriber *who = s->subscriber;
    u32 index = b->hits.used++;
    hits->count++;
    *hit_at(b, index) = (route_hit){.s = s, .next = HIT_NONE, .last = HIT_NONE};
    if (who->match_stamp != b->stamp) {
        who->match_stamp = b->stamp;
        who->match_index = index;
        who->match_count = 1;
        hit_at(b, index)->last = index;
        return 0;
    }
    route_hit *first = hit_at(b, who->match_index);
    hit_at(b, first->last)->next = index;
    first->last = index;
    *longest = MAX(*longest, ++who->match_count);
    return 0;
}

static int filter_collect(broker *b, route_hits *hits, const route_filter *f, const publication *p,
                          u32 *longest) {
    const subscription *s = f->first;
    if (s != NULL) do {
        if (wants(s, p) && hit_add(b, hits, s, longest) < 0) return -ENOMEM;
    } while ((s = s->next) != f->first);
    return 0;
}

static const route_filter *only_plain(const broker *b, const route_match *match) {
    for (u32 i = match->base; i < match->base + match->count; i++) {
        if (found_at(b, i)->first != NULL) return found_at(b, i);
    }
    return NULL;
}

int hits_collect(broker *b, const route_match *match, const publication *p, route_hits *hits) {
    *hits = (route_hits){.base = b->hits.used};
    if (match->plain == 0) return 0;
    if (match->plain == 1) {
        hits->single = only_plain(b, match);
        return 0;
    }
    u32 longest = 0;
    b->stamp++;
    for (u32 i = match->base; i < match->base + match->count; i++) {
        if (filter_collect(b, hits, found_at(b, i), p, &longest) == 0) continue;
        hits_end(b, hits);
        return -ENOMEM;
    }
    if (longest <= IDS_AT_HAND) return 0;
    hits->ids = pool_alloc(b->memory, longest * sizeof(*hits->ids));
    hits->ids_size = longest;
    if (hits->ids != NULL) return 0;
    hits_end(b, hits);
    return -ENOMEM;
}

void hits_end(broker *b, const route_hits *hits) {
    b->hits.used = hits->base;
    pool_free(b->memory, hits->ids, hits->ids_size * sizeof(*hits->ids));
}

// --- handing out ---

static void hand_out(broker *b, subscriber *who, delivery *d) {
    worker_metrics *metrics = &b->owner->metrics;
    bool taken = who->ops->deliver(who, d) == DELIVERY_TAKEN;
    counter_add(taken ? &metrics->delivered : &metrics->delivery_dropped, 1);
}

// What is done with each delivery: handed out, or before that offered to those who keep it (hits_reserve) and asked
// who refuses it (hits_refused).
typedef void (*delivery_use)(broker *b, subscriber *who, delivery *d);

__attribute__((always_inline)) static inline void single_each(broker *b, const route_hits *hits, bool *any,
                                                              const publication *p, message **stored,
                                                              delivery_use use) {
    const subscription *s = hits->single->first;
    const subscription *last = s == NULL ? NULL : s->prev;
    for (; s != NULL; s = s == last ? NULL : s->next) {
        if (!wants(s, p)) continue;
        *any = true;
        u32 id = s->id;
        delivery d = {.publication = p, .qos = MIN(p->qos, s->qos), .broker = b, .stored = stored,
                      .retain = p->retain && s->retain_as_published,
                      .subscription_ids = &id, .subscription_id_count = id != 0};
        use(b, s->subscriber, &d);
    }
}

// One subscriber, all its matching subscriptions that no callback has ended.
__attribute__((always_inline)) static inline void chain_each(broker *b, u32 first, const publication *p, u32 *ids,
                                                             message **stored, delivery_use use) {
    subscriber *who = NULL;
    delivery d = {.publication = p, .subscription_ids = ids, .broker = b, .stored = stored};
    for (u32 i = first; i != HIT_NONE; i = hit_at(b, i)->next) {
        const subscription *s = hit_at(b, i)->s;
        if (s->subscriber == NULL) continue;
        who = s->subscriber;
        d.qos = MAX(d.qos, MIN(p->qos, s->qos));
        d.retain = d.retain || (p->retain && s->retain_as_published);
        if (s->id != 0) ids[d.subscription_id_count++] = s->id;
    }
    if (who != NULL) use(b, who, &d);
}

__attribute__((always_inline)) static inline bool hits_each(broker *b, const route_hits *hits, const publication *p,
                                                            message **stored, delivery_use use) {
    u32 at_hand[IDS_AT_HAND];
    bool any = hits->count > 0;
    if (hits->single != NULL) single_each(b, hits, &any, p, stored, use);
    for (u32 i = hits->base; i < hits->base + hits->count; i++) {
        if (hit_at(b, i)->last == HIT_NONE) continue; // chained behind another
        chain_each(b, i, p, hits->ids != NULL ? hits->ids : at_hand, stored, use);
    }
    return any;
}

void hits_deliver(broker *b, route_hits *hits, const publication *p, message **stored) {
    hits->any = hits_each(b, hits, p, stored, hand_out);
}

void hits_reserve(broker *b, const route_hits *hits, const publication *p, message **stored) {
    (void)hits_each(b, hits, p, stored, durable_offer);
}

static void ask_refusal(broker *b, subscriber *who, delivery *d) {
    if (d->qos == 0 || b->admit.refused || who->ops->refuses == NULL) return;
    b->admit.refused = who->ops->refuses(who, d);
}

bool hits_refused(broker *b, const route_hits *hits, const publication *p) {
    message *none = NULL;
    b->admit.refused = false;
    (void)hits_each(b, hits, p, &none, ask_refusal);
    return b->admit.refused;
}
