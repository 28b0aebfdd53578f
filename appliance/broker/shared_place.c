// SPDX-License-Identifier: Apache-2.0
// shared_place.c: which member of a shared subscription gets a message. The publisher's worker
// chooses a worker, weighted by its online members, and posts the message once; that worker chooses
// the member. When nobody there takes it (all gone or full meanwhile) the pick comes home untaken and
// the home worker chooses among those not yet tried: at most one hop a worker.
//
// A message goes to an offline member only when no member anywhere is online. When online members
// exist and none takes it, one that has a queue in the log keeps it there, on whichever worker, the one with
// the least to do; where there is none, QoS 1 and 2 wait at the home worker, in order and bounded; QoS 0 is
// dropped. What is dropped is counted.
//
// So what is acknowledged to a publisher is on disk wherever a member's queue is: its pledge waits for each
// hop (durable.owed). What waits here for members without a session is promised to nobody; what waits because
// a ring or the log had no room just now holds the pledge.
//
// Invariants: at each moment a message is in exactly one place (a pick on its way, the waiting
// queue, a member), so it is given to one member once.
#include <errno.h>

#include "broker/route.h"

enum { OFFLINE = 0, ONLINE = 1 };

// --- which worker ---

static u32 members_of(const broker *b, const share_group *g, u32 at, share_mode mode) {
    bool here = at == b->owner->index;
    const share_remote *r = &g->remote[at];
    if (mode == SHARE_KEPT) return here ? g->keepers : r->keepers;
    if (here) return g->counts[mode == SHARE_AWAY ? OFFLINE : ONLINE];
    return mode == SHARE_AWAY ? r->members - r->online : r->online;
}

static bool anyone_online(const broker *b, const share_group *g) {
    for (u32 i = 0; i < b->owner->gw->worker_count; i++) {
        if (members_of(b, g, i, SHARE_ONLINE) > 0) return true;
    }
    return false;
}

// The smallest load among the first members of the ring, or of those with a queue; UINT32_MAX = none can take.
static u32 least_load(const share_group *g, bool keepers, subscription **who) {
    subscription *ring = g->members[ONLINE], *s = ring;
    u32 least = UINT32_MAX;
    for (u32 i = 0; s != NULL && i < LIMIT_SHARED_TRIES; i++) {
        if (s->subscriber != NULL && s->waiting == NULL && (s->keeps || !keepers)) {
            int load = s->subscriber->ops->load == NULL ? 0 : s->subscriber->ops->load(s->subscriber);
            if (load >= 0 && (u32)load < least) {
                least = (u32)load;
                *who = s;
            }
        }
        s = s->next;
        if (s == ring) break;
    }
    return least;
}

// What another worker's least loaded member has in flight is known from the last pick it took.
static u32 load_of(const broker *b, const share_group *g, u32 at) {
    subscription *ignored;
    if (at == b->owner->index) return least_load(g, false, &ignored);
    const share_remote *r = &g->remote[at];
    return r->load + r->outstanding / r->online;
}

static int choose_least(const broker *b, const share_group *g, u64 tried_mask) {
    int chosen = -1;
    u32 least = 0, workers = b->owner->gw->worker_count;
    for (u32 n = 0; n < workers; n++) {
        u32 i = (n + g->turn) % workers; // so that equal ones take turns
        if ((tried_mask & worker_bit(i)) != 0 || members_of(b, g, i, SHARE_ONLINE) == 0) continue;
        u32 load = load_of(b, g, i);
        if (chosen >= 0 && load >= least) continue;
        chosen = (int)i;
        least = load;
    }
    return chosen;
}

// The lowest one, so that all publishers' workers agree.
static int choose_first(const broker *b, const share_group *g, u64 tried_mask, share_mode mode) {
    for (u32 i = 0; i < b->owner->gw->worker_count; i++) {
        if ((tried_mask & worker_bit(i)) == 0 && members_of(b, g, i, mode) > 0) return (int)i;
    }
    return -1;
}

static int choose_in_turn(const broker *b, const share_group *g, u64 tried_mask, share_mode mode) {
    u64 total = 0;
    for (u32 i = 0; i < b->owner->gw->worker_count; i++) {
        if ((tried_mask & worker_bit(i)) == 0) total += members_of(b, g, i, mode);
    }
    if (total == 0) return -1;
    u64 turn = g->turn % total;
    for (u32 i = 0;; i++) {
        if ((tried_mask & worker_bit(i)) != 0) continue;
        u32 members = members_of(b, g, i, mode);
        if (turn < members) return (int)i;
        turn -= members;
    }
}

int group_choose(broker *b, share_group *g, u64 tried_mask, share_mode mode) {
    shared_strategy strategy = b->owner->conf->shared_strategy;
    g->turn++;
    if (strategy == SHARED_STICKY) return choose_first(b, g, tried_mask, mode);
    if (strategy == SHARED_LEAST_IN_FLIGHT && mode == SHARE_ONLINE) return choose_least(b, g, tried_mask);
    return choose_in_turn(b, g, tried_mask, mode);
}

// --- which member ---

static bool member_takes(broker *b, subscription *s, const publication *p, message **stored, share_mode mode) {
    u32 id = s->id;
    delivery d = {
        .publication = p,
        .qos = MIN(p->qos, s->qos),
        .retain = p->retain && s->retain_as_published,
        .subscription_ids = &id,
        .subscription_id_count = id != 0,
        .share = s->group->id,
        .keep = mode == SHARE_KEPT,
        .broker = b,
        .stored = stored,
    };
    delivery_result result = s->subscriber->ops->deliver(s->subscriber, &d);
    if (result == DELIVERY_REFUSED) return false;
    worker_metrics *m = &b->owner->metrics;
    counter_add(result == DELIVERY_TAKEN ? &m->delivered : &m->delivery_dropped, 1);
    return true;
}

// The ring may look different after each callback, so it is entered anew at its head each time.
bool group_deliver(broker *b, share_group *g, const publication *p, message **stored, share_mode mode, u32 *load) {
    shared_strategy strategy = b->owner->conf->shared_strategy;
    subscription **ring = &g->members[mode == SHARE_AWAY ? OFFLINE : ONLINE];
    u32 tries = MIN(members_of(b, g, b->owner->index, mode), LIMIT_SHARED_TRIES);
    bool keepers = mode == SHARE_KEPT;
    bool least = keepers || (strategy == SHARED_LEAST_IN_FLIGHT && mode == SHARE_ONLINE);
    for (u32 skips = 0; tries > 0 && *ring != NULL;) {
        subscription *s = *ring;
        if (least) (void)least_load(g, keepers, &s);
        least = false; // who has refused would be the least loaded again
        bool serves = s->subscriber != NULL && s->waiting == NULL && (s->keeps || !keepers);
        if (strategy != SHARED_STICKY || !serves) *ring = s->next;
        if (!serves) {
            if (++skips > LIMIT_SHARED_TRIES) return false;
            continue;
        }
        tries--;
        subscriber *who = s->subscriber;
        if (load != NULL) *load = who->ops->load == NULL ? 0 : (u32)MAX(who->ops->load(who), 0);
        if (member_takes(b, s, p, stored, mode)) return true;
        // It stays linked until broker_leave, in whichever ring.
        if (*ring == s) *ring = s->next;
    }
    return false;
}

// --- placing ---

static void drop(broker *b) {
    counter_add(&b->shared_dropped, 1);
    counter_add(&b->owner->metrics.delivery_dropped, 1);
}

static bool send_pick(broker *b, share_group *g, const publication *p, u32 to, u64 tried_mask, share_mode mode) {
    parcel *made = worker_post_is_congested(b->owner) ? NULL : parcel_of_message(b, p, worker_bit(to), 1);
    if (made == NULL) {
        b->durable.busy = true;
        return false;
    }
    if (b->durable.owed != NULL) {
        made->owed = b->durable.owed;
        pledge_on_part(made->owed);
    }
    made->hold = b->durable.hold;
    if (made->hold != NULL) exchange_goes_on(made->hold);
    *parcel_picks(made) = (parcel_pick){
        .tried_mask = tried_mask | worker_bit(to), .home = g->id, .there = g->remote[to].id,
        .target = (u16)to, .mode = (u8)mode};
    // One, to see whether there is room again.
    if (g->probing) g->full_mask |= worker_bit(to);
    g->remote[to].outstanding++;
    counter_add(&b->in_transit, 1);
    parcel_send(b, made, WM_ROUTE);
    return true;
}

// SENT: to another worker, which may send it back. NOT_NOW: it may be tried again later. NOBODY: no
// member can ever take it.
typedef enum placed { PLACED, SENT, NOT_NOW, NOBODY } placed;

static placed try_workers(broker *b, share_group *g, const publication *p, message **stored,
                          u64 tried_mask, share_mode mode) {
    for (;;) {
        int to = group_choose(b, g, tried_mask, mode);
        if (to < 0) return NOBODY;
        if ((u32)to != b->owner->index) {
            return send_pick(b, g, p, (u32)to, tried_mask, mode) ? SENT : NOT_NOW;
        }
        if (group_deliver(b, g, p, stored, mode, NULL)) return PLACED;
        tried_mask |= worker_bit((u32)to);
    }
}

// mode and tried_mask: what has been tried; of a wider mode nothing was.
static placed place(broker *b, share_group *g, const publication *p, message **stored,
                    u64 tried_mask, share_mode mode) {
    if (anyone_online(b, g)) {
        placed result = NOBODY;
        if (mode != SHARE_KEPT) {
            u64 skip_mask = (mode == SHARE_ONLINE ? tried_mask : 0) | g->full_mask;
            result = try_workers(b, g, p, stored, skip_mask, SHARE_ONLINE);
            tried_mask = 0;
        }
        if (result == NOBODY && p->qos > 0) result = try_workers(b, g, p, stored, tried_mask, SHARE_KEPT);
        if (result != NOBODY || anyone_online(b, g)) return result == NOBODY ? NOT_NOW : result; // all are full
    }
    // An offline member of QoS 0 would not keep it.
    if (mode != SHARE_AWAY) tried_mask = 0;
    return p->qos == 0 ? NOBODY : try_workers(b, g, p, stored, tried_mask, SHARE_AWAY);
}

void group_place(broker *b, share_group *g, const publication *p, message **stored, u64 tried_mask, share_mode mode) {
    broker_enter(b);
    b->durable.busy = b->durable.log != NULL && durable_state(b) == -EAGAIN;
    placed result = place(b, g, p, stored, tried_mask, mode);
    if (result == NOT_NOW && p->qos > 0) {
        (void)group_wait(b, g, p, stored);
    } else if (result == NOT_NOW || result == NOBODY) {
        drop(b);
    }
    broker_leave(b);
}

// --- waiting ---

static void waiting_list(broker *b, share_group *g) {
    if (!g->listed) {
        g->listed = true;
        g->waiting_next = b->waiting;
        b->waiting = g;
    }
    broker_retry_later(b);
}

bool group_wait(broker *b, share_group *g, const publication *p, message **stored) {
    share_waiting *entry = NULL;
    if (g->waiting < LIMIT_SHARED_WAITING) entry = pool_alloc(b->memory, sizeof(*entry));
    if (entry != NULL && *stored == NULL) *stored = message_create(b, p);
    if (entry == NULL || *stored == NULL) {
        pool_free(b->memory, entry, sizeof(*entry));
        drop(b);
        return false;
    }
    *entry = (share_waiting){.message = message_ref(*stored)};
    // Not for members that do not read: they would stop the publisher.
    bool soon = b->durable.busy || (g->last != NULL && g->last->owed != NULL);
    if (b->durable.owed != NULL && soon && group_needs_log(b, g)) {
        entry->owed = b->durable.owed;
        pledge_on_part(entry->owed);
    }
    *(g->last != NULL ? &g->last->next : &g->first) = entry;
    g->last = entry;
    g->waiting++;
    counter_add(&b->shared_waiting, 1);
    waiting_list(b, g);
    return true;
}

static share_waiting *waiting_pop(broker *b, share_group *g) {
    share_waiting *entry = g->first;
    g->first = entry->next;
    if (g->first == NULL) g->last = NULL;
    g->waiting--;
    counter_sub(&b->shared_waiting, 1);
    return entry;
}

static void waiting_push_front(broker *b, share_group *g, share_waiting *entry) {
    entry->next = g->first;
    g->first = entry;
    if (g->last == NULL) g->last = entry;
    g->waiting++;
    counter_add(&b->shared_waiting, 1);
}

// An answer that waits with it is not given inside the broker.
static void waiting_free(broker *b, share_waiting *entry) {
    message_unref(entry->message);
    if (entry->owed == NULL) {
        pool_free(b->memory, entry, sizeof(*entry));
        return;
    }
    entry->next = b->answered;
    b->answered = entry;
    broker_retry_now(b);
}

void groups_answer(broker *b) {
    while (b->answered != NULL) {
        share_waiting *entry = b->answered;
        pledge *owed = entry->owed;
        b->answered = entry->next;
        pool_free(b->memory, entry, sizeof(*entry));
        pledge_part_done(owed, 0);
    }
}

// Places one that waited; it is on its way, or on disk, before its publisher is answered.
static placed place_waiting(broker *b, share_group *g, share_waiting *entry) {
    durable_part *d = &b->durable;
    publication p = message_publication(entry->message);
    pledge *outer = d->owed;
    d->owed = entry->owed;
    d->appended = 0;
    placed result = place(b, g, &p, &entry->message, 0, SHARE_ONLINE);
    if (result == PLACED && d->owed != NULL && d->appended != 0) pledge_on_log_too(b, d->owed, d->appended);
    d->owed = outer;
    return result;
}

// Within broker_enter.
void group_drain(broker *b, share_group *g) {
    if (g->draining) return;
    g->draining = true;
    while (g->first != NULL) {
        share_waiting *entry = waiting_pop(b, g);
        placed result = PLACED;
        if (message_is_expired(entry->message, b->owner->now_ns)) drop(b);
        else result = place_waiting(b, g, entry);
        if (result == NOT_NOW) {
            waiting_push_front(b, g, entry);
            break;
        }
        if (result == NOBODY) drop(b);
        waiting_free(b, entry);
    }
    g->draining = false;
}

void group_waiting_free(broker *b, share_group *g) {
    while (g->first != NULL) {
        waiting_free(b, waiting_pop(b, g));
        drop(b);
    }
    if (!g->listed) return;
    share_group **at = &b->waiting;
    while (*at != g) at = &(*at)->waiting_next;
    *at = g->waiting_next;
}

void groups_retry(broker *b) {
    share_group *g = b->waiting;
    b->waiting = NULL;
    broker_enter(b); // none of them goes away meanwhile; listed, so none is linked elsewhere
    while (g != NULL) {
        share_group *next = g->waiting_next;
        g->listed = false;
        g->probing = g->full_mask != 0;
        g->full_mask = 0;
        group_drain(b, g);
        g->probing = false;
        if (g->first != NULL) waiting_list(b, g);
        g = next;
    }
    broker_leave(b);
}

int broker_redistribute(broker *b, u32 share, message *m) {
    share_group *g = group_of_id(b, share);
    if (g == NULL) return -ENOENT;
    publication p = message_publication(m);
    broker_enter(b);
    counter_add(&b->shared_handed_on, 1);
    int result = 0;
    if (g->first != NULL || g->draining) {
        result = group_wait(b, g, &p, &m) ? 0 : -ENOMEM;
    } else {
        group_place(b, g, &p, &m, 0, SHARE_ONLINE);
    }
    broker_leave(b);
    return result;
}

// --- picks of parcels ---

void picks_received(broker *b, parcel *p, message **stored) {
    parcel_pick *picks = parcel_picks(p);
    for (u32 i = 0; i < p->pick_count; i++) {
        parcel_pick *pick = &picks[i];
        if (pick->target != b->owner->index) continue;
        share_group *g = group_of_id(b, pick->there);
        bool taken = g != NULL && group_deliver(b, g, &p->message, stored, (share_mode)pick->mode, &pick->load);
        pick->state = taken ? PICK_TAKEN : PICK_UNTAKEN;
    }
}

// What the return of a pick tells about the worker it was for.
static void pick_outcome(broker *b, share_group *g, const parcel_pick *pick) {
    share_remote *r = &g->remote[pick->target];
    r->outstanding--;
    if (pick->state == PICK_TAKEN) {
        r->load = pick->load;
        if (pick->mode != SHARE_KEPT) g->full_mask &= ~worker_bit(pick->target);
        if (g->waiting > 0) broker_retry_now(b);
    } else if (pick->mode == SHARE_ONLINE) {
        g->full_mask |= worker_bit(pick->target);
    }
}

// The publisher's answer waits for the next place too, and an exchange is open until then. Other workers have met what
// came behind its record, so it does not stand for it there.
static void pick_hand_on(broker *b, share_group *g, const parcel *p, const parcel_pick *pick, message **stored) {
    durable_part *d = &b->durable;
    publication again = p->message;
    again.source_pos = 0;
    d->owed = p->owed;
    d->hold = p->hold;
    d->appended = 0;
    counter_add(&b->shared_handed_on, 1);
    group_place(b, g, &again, stored, pick->tried_mask, (share_mode)pick->mode);
    if (d->owed != NULL && d->appended != 0) pledge_on_log_too(b, d->owed, d->appended);
    d->owed = NULL;
    d->hold = NULL;
}

void picks_returned(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    parcel_pick *picks = parcel_picks(p);
    message *stored = NULL;
    for (u32 i = 0; i < p->pick_count; i++) {
        const parcel_pick *pick = &picks[i];
        if (pick->target != slot->target) continue;
        share_group *g = group_of_id(b, pick->home);
        if (g != NULL) {
            pick_outcome(b, g, pick);
            if (pick->state != PICK_TAKEN) pick_hand_on(b, g, p, pick, &stored);
        } else if (pick->state != PICK_TAKEN) {
            drop(b);
        }
    }
    if (stored != NULL) message_unref(stored);
}
