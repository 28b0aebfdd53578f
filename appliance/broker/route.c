// SPDX-License-Identifier: Apache-2.0
// route.c: a published message on its way: to the local subscribers, and once to each worker that
// has some, that was chosen for a shared subscription, or that keeps the topic's retained message.
// In the path of a byte: proto/ -> here -> deliver.c (this worker) or parcel.c (another worker's
// route_received) -> the subscriber's connection.
//
// Invariant: whatever can refuse a message (malformed topic, congestion, memory, a full retained
// store) does so before the first delivery; a publisher that gets -EAGAIN may publish again and
// nothing arrives twice. A receiving worker that has no memory for the gathering keeps the parcel and
// those behind it, and tries again: the memory they hold at their origin slows the publishers down.
// A filter's confirmation and a read of retained messages wait with them: both say that what was posted
// before has been met (retained_seen.h).
#include <errno.h>

#include "broker/route.h"

typedef struct routing {
    const publication *p;
    route_match match;
    route_hits hits;
    u32 picks_base, pick_count; // in broker.picks
    u32 remote_picks;
    u64 pick_mask;              // other workers that were chosen
    int keeper;                 // worker that keeps the retained message, -1 = not retained
    parcel *parcel;
    message *stored;
} routing;

static route_pick *pick_at(const broker *b, u32 i) {
    return &((route_pick *)b->picks.items)[i];
}

// Memory comes back as the other workers return what is in transit.
static int no_memory(const broker *b) {
    return counter_get(&b->in_transit) > 0 ? -EAGAIN : -ENOMEM;
}

// --- getting ready ---

// A group with messages that wait takes this one behind them.
static void pick_choose(broker *b, routing *r, share_group *g, route_pick *pick) {
    *pick = (route_pick){.group = g, .target = b->owner->index};
    if (g->first != NULL && r->p->qos > 0) return;
    int to = group_choose(b, g, g->full_mask, false);
    if (to < 0 && r->p->qos > 0 && g->full_mask == 0) {
        to = group_choose(b, g, 0, true);
        pick->offline = to >= 0;
    }
    if (to < 0 || (u32)to == b->owner->index) return;
    pick->target = (u32)to;
    r->remote_picks++;
    r->pick_mask |= worker_bit((u32)to);
}

static int picks_make(broker *b, routing *r) {
    for (u32 i = r->match.base; i < r->match.base + r->match.count; i++) {
        const route_filter *f = ((route_filter **)b->found.items)[i];
        for (share_group *g = f->groups; g != NULL; g = g->next) {
            if (!scratch_push_room(b, &b->picks)) return no_memory(b);
            pick_choose(b, r, g, pick_at(b, b->picks.used++));
            r->pick_count++;
        }
    }
    return 0;
}

static void picks_write(broker *b, const routing *r) {
    parcel_pick *out = parcel_picks(r->parcel);
    for (u32 i = r->picks_base; i < r->picks_base + r->pick_count; i++) {
        const route_pick *pick = pick_at(b, i);
        if (pick->target == b->owner->index) continue;
        share_remote *remote = &pick->group->remote[pick->target];
        remote->outstanding++;
        *out++ = (parcel_pick){.tried_mask = worker_bit(pick->target), .home = pick->group->id,
                               .there = remote->id, .target = (u16)pick->target,
                               .offline = pick->offline};
    }
}

static int parcel_make(broker *b, routing *r) {
    u64 targets = r->match.workers_mask | r->pick_mask;
    if (r->keeper >= 0) targets |= worker_bit((u32)r->keeper) & b->others_mask;
    if (targets == 0) return 0;
    if (worker_post_is_congested(b->owner)) return -EAGAIN;
    r->parcel = parcel_of_message(b, r->p, targets, r->remote_picks);
    if (r->parcel == NULL) return no_memory(b);
    for (u32 i = 0; i < r->parcel->slot_count; i++) {
        parcel_slot *slot = &r->parcel->slots[i];
        slot->deliver = (r->match.workers_mask & worker_bit(slot->target)) != 0;
        slot->store = (int)slot->target == r->keeper;
    }
    return 0;
}

// The retained message of a topic that this worker keeps.
static int keep_here(broker *b, routing *r) {
    if (r->keeper != (int)b->owner->index) return 0;
    if (r->p->payload_len > 0 && r->stored == NULL) {
        r->stored = message_create(b, r->p);
        if (r->stored == NULL) return no_memory(b);
    }
    int result = retained_set(&b->retained, r->p, r->stored);
    return result == -ENOMEM ? no_memory(b) : result;
}

// All that can fail.
static int prepare(broker *b, routing *r) {
    int result = match_collect(b, r->p->topic, r->p->topic_len, &r->match);
    if (result < 0) return result == -ENOMEM ? no_memory(b) : result;
    if (r->match.groups > 0) {
        result = picks_make(b, r);
        if (result < 0) return result;
    }
    if (r->p->retain) {
        r->keeper = (int)retained_keeper(b->owner, r->p->topic, r->p->topic_len);
        result = r->p->payload_len > 0 ? retained_admit(b, (u32)r->keeper, r->p) : 0;
        if (result < 0) return result;
    }
    result = parcel_make(b, r);
    if (result < 0) return result;
    if (hits_collect(b, &r->match, r->p, &r->hits) < 0) return no_memory(b);
    result = keep_here(b, r); // the last: what is refused is not stored either
    if (result < 0) hits_end(b, &r->hits);
    return result;
}

// --- doing it ---

static void picks_deliver_here(broker *b, routing *r) {
    for (u32 i = r->picks_base; i < r->picks_base + r->pick_count; i++) {
        route_pick pick = *pick_at(b, i);
        if (pick.target != b->owner->index) continue;
        if (pick.group->first != NULL && r->p->qos > 0) {
            (void)group_wait(b, pick.group, r->p, &r->stored);
        } else if (!group_deliver(b, pick.group, r->p, &r->stored, pick.offline, NULL)) {
            u64 tried_mask = worker_bit(b->owner->index);
            group_place(b, pick.group, r->p, &r->stored, tried_mask, pick.offline);
        }
    }
}

static void perform(broker *b, routing *r) {
    counter_add(&b->owner->metrics.published, 1);
    if (r->parcel != NULL) {
        picks_write(b, r);
        counter_add(&b->in_transit, 1);
        // Before it is posted: who has met the message finds it counted.
        if (r->keeper >= 0) counter_set(&b->seen.posted[r->keeper], r->p->retain_serial);
        parcel_send(b, r->parcel, WM_ROUTE);
        r->parcel = NULL;
    }
    if (r->p->retain) retained_overtake(b, &b->retained, r->p);
    hits_deliver(b, &r->hits, r->p, &r->stored);
    picks_deliver_here(b, r);
}

int broker_publish(broker *b, const publication *p, bool *matched) {
    publication dated = *p;
    if (dated.published_ns == 0) dated.published_ns = b->owner->now_ns;
    dated.retain_serial = p->retain ? retain_serial_next(&b->seen, b->owner->index) : 0;
    routing r = {.p = &dated, .picks_base = b->picks.used, .keeper = -1};
    broker_enter(b); // keeps the filters that are found
    int result = prepare(b, &r);
    if (result == 0) {
        perform(b, &r);
        if (matched != NULL) {
            *matched = r.match.workers_mask != 0 || r.hits.any || r.pick_count > 0;
        }
        hits_end(b, &r.hits);
    }
    b->picks.used = r.picks_base;
    match_end(b, &r.match);
    if (r.parcel != NULL) parcel_discard(b, r.parcel);
    if (r.stored != NULL) message_unref(r.stored);
    broker_leave(b);
    return result;
}

// --- from another worker ---

// Nothing can fail any more. Before the deliveries: a subscription that one of them makes gets nothing
// of this message, so it must not count on it.
static void meet(broker *b, const parcel_slot *slot) {
    const parcel *p = slot->of;
    bool first_hand = slot->deliver || slot->store; // not one that was held back or handed on
    if (!p->message.retain || !first_hand) return;
    retain_serial_met(&b->seen, p->origin, p->message.retain_serial);
    if (slot->deliver) retained_overtake(b, &b->retained, &p->message);
}

static int deliver_received(broker *b, parcel_slot *slot, message **stored) {
    if (!slot->deliver) {
        meet(b, slot);
        return 0;
    }
    const publication *p = &slot->of->message;
    route_match match;
    route_hits hits;
    int result = match_collect(b, p->topic, p->topic_len, &match);
    if (result == 0) result = hits_collect(b, &match, p, &hits);
    if (result == 0) {
        meet(b, slot);
        hits_deliver(b, &hits, p, stored);
        hits_end(b, &hits);
    }
    match_end(b, &match);
    return result;
}

// Returns 0, or -ENOMEM: nothing was delivered.
static int receive(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    message *stored = NULL;
    broker_enter(b);
    int result = deliver_received(b, slot, &stored);
    if (result == 0) {
        picks_received(b, p, &stored);
        if (slot->store) retained_store_received(b, &p->message, &stored);
    }
    if (stored != NULL) message_unref(stored);
    broker_leave(b);
    if (result == 0) parcel_return(b, slot);
    return result;
}

static void stall(broker *b, parcel_slot *slot) {
    slot->next = NULL;
    *(b->stalled == NULL ? &b->stalled : &b->stalled_tail->next) = slot;
    b->stalled_tail = slot;
    broker_retry_later(b);
}

void route_received(broker *b, parcel_slot *slot) {
    if (b->stalled != NULL || receive(b, slot) < 0) stall(b, slot);
}

bool route_hold(broker *b, parcel_slot *slot) {
    if (b->stalled == NULL) return false;
    stall(b, slot);
    return true;
}

static void held_run(broker *b, parcel_slot *slot) {
    if (slot->of->kind == PARCEL_ANNOUNCE) {
        announce_returned(b, slot);
    } else {
        retained_received(b, slot);
    }
}

void route_retry(broker *b) {
    while (b->stalled != NULL) {
        parcel_slot *slot = b->stalled, *next = slot->next;
        if (slot->of->kind != PARCEL_MESSAGE) {
            held_run(b, slot);
        } else if (receive(b, slot) < 0) {
            broker_retry_later(b);
            return;
        }
        b->stalled = next;
    }
}
