// SPDX-License-Identifier: Apache-2.0
// route.c: a published message on its way: to the local subscribers, and once to each worker that
// has some, that was chosen for a shared subscription, or that keeps the topic's retained message.
// In the path of a byte: proto/ -> here -> deliver.c (this worker) or parcel.c (another worker's
// route_received) -> the subscriber's connection.
//
// Invariant: whatever can refuse a message (malformed topic, congestion, memory, a full retained
// store, a session that rejects) does so before the first delivery; a publisher that gets -EAGAIN may publish again and
// nothing arrives twice. A receiving worker that has no memory for the gathering keeps the parcel and
// those behind it, and tries again: the memory they hold at their origin slows the publishers down.
// A filter's confirmation and a read of retained messages wait with them: both say that what was posted
// before has been met (retained_seen.h).
#include <errno.h>

#include "broker/route.h"
#include "store/streams.h"

#define RECORD_HEAD_GUESS 512u // of a message record: more only with many that wait for it

typedef struct routing {
    publication *p;
    route_match match;
    route_hits hits;
    u32 picks_base, pick_count; // in broker.picks
    u32 remote_picks;
    bool picks_kept;            // a member of one of the groups may have it put into the log
    bool late;                  // pledge.late
    u64 pick_mask;              // other workers that were chosen
    int keeper;                 // worker that keeps the retained message, -1 = not retained
    u64 awaited_mask;           // other workers whose disks the publisher's answer waits for
    parcel *parcel;
    durable_hold *hold;         // to send the parcel when this worker's record is on disk
    pledge *owed;
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
    int to = group_choose(b, g, g->full_mask, SHARE_ONLINE);
    if (to < 0 && r->p->qos > 0 && g->full_mask == 0) {
        to = group_choose(b, g, 0, SHARE_AWAY);
        if (to >= 0) pick->mode = SHARE_AWAY;
    }
    if (to < 0 || (u32)to == b->owner->index) return;
    pick->target = (u32)to;
    r->remote_picks++;
    r->pick_mask |= worker_bit((u32)to);
}

// Whether the log takes what a group may have to put there. Refused now, while that is possible.
static int picks_room(const broker *b, const routing *r) {
    if (!r->picks_kept) return 0;
    int result = store_room(b->durable.log, STORE_KEEP, r->p->topic_len + r->p->props_len + r->p->payload_len);
    return result == -ENOSPC ? -EDQUOT : result;
}

// Whether the log takes a retained message and, behind it, what else there is of it. With room for the first alone the
// message would be refused and retained.
static int kept_room(const broker *b, const routing *r) {
    if (r->keeper != (int)b->owner->index || r->p->qos == 0) return 0;
    u32 one = r->p->topic_len + r->p->props_len + r->p->payload_len + RECORD_HEAD_GUESS;
    int result = store_room(b->durable.log, STORE_KEEP, one * 2);
    if (result == -EMSGSIZE) result = 0; // no record is so large, two of them are: each finds its own place
    return result == -ENOSPC ? -EDQUOT : result;
}

// Whether the streams of its topic take it. QoS 0 is delivered in any case; it is not in those that do not.
static int streams_admit(broker *b, const routing *r) {
    int result = streams_refusal(b->owner->streams, r->p->topic, r->p->topic_len, r->p->qos);
    if (r->p->qos == 0) return 0;
    return result == -ENOMEM ? no_memory(b) : result;
}

static int picks_make(broker *b, routing *r) {
    for (u32 i = r->match.base; i < r->match.base + r->match.count; i++) {
        const route_filter *f = ((route_filter **)b->found.items)[i];
        for (share_group *g = f->groups; g != NULL; g = g->next) {
            if (!scratch_push_room(b, &b->picks)) return no_memory(b);
            pick_choose(b, r, g, pick_at(b, b->picks.used++));
            r->pick_count++;
            if (r->p->qos > 0 && !r->picks_kept) r->picks_kept = group_needs_log(b, g);
        }
    }
    return 0;
}

// What a group's member is given is a record of its own, here or elsewhere, and is not sent again after a crash as the
// rest of an exchange is (durable_exchange.c). Were the exchange remembered before that record is on disk, the
// publisher would not send the message again and the group would never get it. So it is remembered when all have it: in
// between a crash makes the message come twice.
static void exchange_give_up(routing *r) {
    r->late = r->picks_kept && r->p->exchange_session != 0;
    if (r->late) r->p->exchange_session = 0;
}

static void picks_write(broker *b, const routing *r, parcel *p) {
    parcel_pick *out = parcel_picks(p);
    for (u32 i = r->picks_base; i < r->picks_base + r->pick_count; i++) {
        const route_pick *pick = pick_at(b, i);
        if (pick->target == b->owner->index) continue;
        share_remote *remote = &pick->group->remote[pick->target];
        remote->outstanding++;
        *out++ = (parcel_pick){.tried_mask = worker_bit(pick->target), .home = pick->group->id,
                               .there = remote->id, .target = (u16)pick->target,
                               .mode = (u8)pick->mode};
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
        if (b->durable.log == NULL || r->p->qos == 0) continue;
        bool expects = slot->store || durable_expects(b->owner->gw->workers[slot->target].broker, r->p);
        if (!expects) continue;
        r->awaited_mask |= worker_bit(slot->target);
        // One worker's log that takes what another's refuses would deliver it, and have it again.
        int result = durable_takes(b->owner->gw->workers + slot->target);
        if (result < 0 && r->p->refusable) return result;
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
    store_pos pos;
    int result = b->durable.log == NULL ? 0 : durable_retain(b, r->p, &pos);
    if (result == 0) result = retained_set(&b->retained, r->p, r->stored);
    return result == -ENOMEM ? no_memory(b) : result;
}

// What may be needed to wait for the disk, before anything is written.
static int waits_make(broker *b, routing *r, bool owed) {
    const durable_part *d = &b->durable;
    if (r->p->qos == 0) return 0;
    bool here = r->picks_kept || r->p->retain || streams_taking(b->owner->streams) > 0 ||
                counter_get(&d->subscribers) > 0;
    if (owed && (here || r->awaited_mask != 0)) {
        r->owed = pledge_create(b);
        if (r->owed == NULL) return no_memory(b);
    }
    if (r->p->exchange_session == 0 || r->awaited_mask == 0) return 0;
    r->hold = exchange_hold(b);
    return r->hold == NULL ? no_memory(b) : 0;
}

// What of the message must be in this worker's log before it goes anywhere.
static int write_here(broker *b, routing *r) {
    store_pos pos;
    int result = durable_store(b, r->p, &r->hits, r->awaited_mask, &r->stored, &pos);
    return result == -ENOMEM ? no_memory(b) : result;
}

// All that can fail.
static int prepare(broker *b, routing *r, bool owed) {
    int result = match_collect(b, r->p->topic, r->p->topic_len, &r->match);
    if (result < 0) return result == -ENOMEM ? no_memory(b) : result;
    if (r->match.groups > 0) {
        result = picks_make(b, r);
        if (result < 0) return result;
        exchange_give_up(r);
    }
    if (r->p->retain) {
        r->keeper = (int)retained_keeper(b->owner, r->p->topic, r->p->topic_len);
        result = r->p->payload_len > 0 ? retained_admit(b, (u32)r->keeper, r->p) : 0;
        if (result == -ENOSPC) counter_add(&b->retained.refused, 1);
        if (result < 0) return result;
    }
    result = parcel_make(b, r);
    if (result < 0) return result;
    if (hits_collect(b, &r->match, r->p, &r->hits) < 0) return no_memory(b);
    bool log = b->durable.log != NULL;
    if (r->p->refusable && r->p->qos > 0) result = admit_message(b, &r->hits, r->match.workers_mask, r->p);
    if (result == -ENOMEM) result = no_memory(b);
    if (result == 0 && log) {
        b->durable.appended = 0;
        bool waits = r->p->qos > 0 && b->durable.behind > 0 && b->durable.refused == 0;
        result = waits ? -EAGAIN : picks_room(b, r);
        if (result == 0) result = waits_make(b, r, owed);
    }
    if (result == 0 && log) result = kept_room(b, r);
    if (result == 0 && log) result = streams_admit(b, r);
    if (result == 0) result = keep_here(b, r); // near the end: what is refused is not stored either
    if (result == 0 && log) result = write_here(b, r);
    if (result < 0) hits_end(b, &r->hits);
    return result;
}

// --- doing it ---

static void picks_deliver_here(broker *b, routing *r) {
    for (u32 i = r->picks_base; i < r->picks_base + r->pick_count; i++) {
        route_pick pick = *pick_at(b, i);
        if (pick.target != b->owner->index) continue;
        b->durable.busy = false;
        if (pick.group->first != NULL && r->p->qos > 0) {
            (void)group_wait(b, pick.group, r->p, &r->stored);
        } else if (!group_deliver(b, pick.group, r->p, &r->stored, pick.mode, NULL)) {
            u64 tried_mask = worker_bit(b->owner->index);
            group_place(b, pick.group, r->p, &r->stored, tried_mask, pick.mode);
        }
    }
}

void parcel_post(broker *b, parcel *p) {
    const publication *m = &p->message;
    for (u32 i = 0; m->retain && i < p->slot_count; i++) {
        // Before it is posted: who has met the message finds it counted.
        if (p->slots[i].store) counter_set(&b->seen.posted[p->slots[i].target], m->retain_serial);
    }
    parcel_send(b, p, WM_ROUTE);
}

static void send_parcel(broker *b, routing *r) {
    parcel *p = r->parcel;
    r->parcel = NULL;
    picks_write(b, r, p);
    counter_add(&b->in_transit, 1);
    if (r->owed != NULL && (r->awaited_mask != 0 || (r->picks_kept && r->remote_picks > 0))) {
        p->owed = r->owed;
        pledge_on_part(r->owed);
    }
    if (r->hold == NULL) {
        parcel_post(b, p);
        return;
    }
    exchange_send(r->hold, p, b->durable.appended, b->durable.exchange_bytes, r->awaited_mask);
    r->hold = NULL;
}

static void perform(broker *b, routing *r) {
    counter_add(&b->owner->metrics.published, 1);
    if (r->parcel != NULL) send_parcel(b, r);
    if (r->p->retain) retained_overtake(b, &b->retained, r->p);
    hits_deliver(b, &r->hits, r->p, &r->stored);
    pledge *outer = b->durable.owed;
    b->durable.owed = r->owed;
    b->durable.pick_failure = 0;
    picks_deliver_here(b, r);
    b->durable.owed = outer;
}

// What the publisher waits for, NULL: for nothing.
static pledge *owed_take(broker *b, routing *r) {
    pledge *owed = r->owed;
    if (owed == NULL) return NULL;
    r->owed = NULL;
    owed->result = b->durable.pick_failure; // the publisher sends it again
    owed->late = r->late;
    if (b->durable.appended != 0) pledge_on_log(owed, b->durable.log, b->durable.appended);
    if (owed->waits > 0) return owed;
    pledge_discard(owed);
    return NULL;
}

int broker_publish(broker *b, const publication *p, bool *matched) {
    return broker_publish_owed(b, p, matched, NULL);
}

int broker_publish_owed(broker *b, const publication *p, bool *matched, pledge **owed) {
    publication dated = *p;
    if (dated.published_ns == 0) dated.published_ns = b->owner->now_ns;
    dated.retain_serial = p->retain ? retain_serial_next(&b->seen, b->owner->index) : 0;
    routing r = {.p = &dated, .picks_base = b->picks.used, .keeper = -1};
    broker_enter(b); // keeps the filters that are found
    int result = prepare(b, &r, owed != NULL);
    if (owed != NULL) *owed = NULL;
    if (result == 0) {
        perform(b, &r);
        if (owed != NULL) *owed = owed_take(b, &r);
        if (matched != NULL) {
            *matched = r.match.workers_mask != 0 || r.hits.any || r.pick_count > 0;
        }
        hits_end(b, &r.hits);
    }
    b->picks.used = r.picks_base;
    match_end(b, &r.match);
    if (r.parcel != NULL) parcel_discard(b, r.parcel);
    if (r.hold != NULL) exchange_hold_free(r.hold);
    pledge_discard(r.owed);
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

static int deliver_received(broker *b, parcel_slot *slot, bool known, message **stored) {
    if (!slot->deliver || known) {
        meet(b, slot);
        return 0;
    }
    const publication *p = &slot->of->message;
    route_match match;
    route_hits hits;
    int result = match_collect(b, p->topic, p->topic_len, &match);
    if (result == 0) result = hits_collect(b, &match, p, &hits);
    if (result == 0 && b->durable.log != NULL) {
        store_pos pos;
        int written = durable_store(b, p, &hits, DURABLE_RECEIVED, stored, &pos);
        // Not now: all of it comes again. Not at all: the publisher is told; who needs no log gets it.
        if (written == -EAGAIN || written == -ENOMEM) {
            hits_end(b, &hits);
            result = -ENOMEM;
        } else if (written < 0) {
            slot->failure = (u8)-written;
        }
    }
    if (result == 0) {
        meet(b, slot);
        hits_deliver(b, &hits, p, stored);
        hits_end(b, &hits);
    }
    match_end(b, &match);
    return result;
}

static void store_received(broker *b, parcel_slot *slot, message **stored) {
    const publication *p = &slot->of->message;
    store_pos pos;
    int result = b->durable.log == NULL ? 0 : durable_retain(b, p, &pos);
    if (result == 0) retained_store_received(b, p, stored);
    else slot->failure = (u8)-result;
}

// Returns 0, or -ENOMEM: nothing was delivered.
static int receive(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    message *stored = NULL;
    durable_hold *hold = NULL;
    bool from_log = p->message.source_pos != 0;
    exchange_known known = EXCHANGE_NEW;
    if (b->durable.log != NULL) {
        if (from_log) known = exchange_is_known(b, &p->message, slot->store);
        if (known == EXCHANGE_KNOWN) {
            parcel_return(b, slot);
            return 0;
        }
        b->durable.appended = 0;
        b->durable.pick_failure = 0;
        bool writes = slot->store || durable_expects(b, &p->message);
        if (writes && (durable_state(b) == -EAGAIN || (hold = exchange_hold(b)) == NULL)) return -ENOMEM;
    }
    broker_enter(b);
    int result = deliver_received(b, slot, known != EXCHANGE_NEW, &stored);
    if (result == 0) {
        if (known == EXCHANGE_NEW) picks_received(b, p, &stored);
        if (slot->store) store_received(b, slot, &stored);
        if (slot->failure == 0) slot->failure = (u8)-b->durable.pick_failure;
    }
    if (stored != NULL) message_unref(stored);
    broker_leave(b);
    if (result == 0 && from_log) {
        exchange_set_seen(b, p->message.source_worker, p->message.source_pos);
        bool kept = slot->store && slot->failure == 0;
        if (kept) exchange_set_kept(b, p->message.source_worker, p->message.source_pos);
    }
    if (result == 0 && hold != NULL && b->durable.appended != 0) {
        slot_hold_return(hold, slot, b->durable.appended);
        return 0;
    }
    if (hold != NULL) exchange_hold_free(hold);
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
