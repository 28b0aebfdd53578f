// SPDX-License-Identifier: Apache-2.0
// durable_exchange.c: what waits for a commit on its way between workers.
//
// A slot of a message that was written at the receiver goes home when that is on disk: its return is the
// confirmation the publisher's pledge waits for.
//
// QoS 2 from a durable session (an exchange) must not be taken twice after a crash, and the workers' logs do
// not commit together. So the publisher's own log decides: the record there, with the packet identifier and
// the workers it is for, is on disk before any other worker hears of the message. Until all of those have
// confirmed, the record is kept, and after a restart sent again; each of them knows the last position that it
// has of every other log, and takes nothing twice. Parcels of one worker travel in order, so one number is
// enough.
#include <errno.h>
#include <string.h>

#include "broker/durable.h"
#include "broker/route.h"

struct durable_hold {
    store_waiter waiter;
    store_fetch_op fetch;   // of its record, after a restart
    broker *broker;
    parcel *parcel;         // to be sent; NULL: a slot's, or waiting for its record
    parcel_slot *slot;      // to be returned
    pledge *owed;           // to be told
    durable_hold *next, **at; // in durable_part.unconfirmed
    store_pos pos;
    u64 session;            // whose exchange it is
    u64 targets;
    u32 part_bytes;
    u32 parcels;            // on their way for it
};

durable_hold *exchange_hold(broker *b) {
    durable_hold *h = pool_alloc(b->memory, sizeof(*h));
    if (h == NULL) return NULL;
    memset(h, 0, sizeof(*h));
    h->broker = b;
    return h;
}

void exchange_hold_free(durable_hold *h) {
    pool_free(h->broker->memory, h, sizeof(*h));
}

// --- slots ---

static void slot_committed(store_waiter *w, int result) {
    durable_hold *h = CONTAINER_OF(w, durable_hold, waiter);
    parcel_slot *slot = h->slot;
    broker *b = h->broker;
    if (result < 0) slot->failure = (u8)-result;
    exchange_hold_free(h);
    parcel_return(b, slot);
}

void slot_hold_return(durable_hold *h, parcel_slot *slot, store_pos pos) {
    h->slot = slot;
    h->waiter.done = slot_committed;
    store_wait(h->broker->durable.log, pos, &h->waiter);
}

// --- pledges ---

static void pledge_committed(store_waiter *w, int result) {
    durable_hold *h = CONTAINER_OF(w, durable_hold, waiter);
    pledge *owed = h->owed;
    exchange_hold_free(h);
    pledge_part_done(owed, result);
}

void pledge_on_log_too(broker *b, pledge *p, store_pos pos) {
    durable_hold *h = exchange_hold(b);
    if (h == NULL) {
        if (p->result == 0) p->result = -ENOMEM; // it is sent again
        return;
    }
    h->owed = p;
    h->waiter.done = pledge_committed;
    pledge_on_part(p);
    store_wait(b->durable.log, pos, &h->waiter);
}

// --- exchanges ---

static void link_in(durable_hold *h) {
    durable_part *d = &h->broker->durable;
    h->next = NULL;
    h->at = d->unconfirmed == NULL ? &d->unconfirmed : d->unconfirmed_end;
    *h->at = h;
    d->unconfirmed_end = &h->next;
    counter_add(&d->open, 1);
}

static void end(durable_hold *h) {
    *h->at = h->next;
    if (h->next != NULL) h->next->at = h->at;
    else h->broker->durable.unconfirmed_end = h->at;
    counter_sub(&h->broker->durable.open, 1);
    store_drop(h->broker->durable.log, h->pos, h->part_bytes);
    exchange_hold_free(h);
}

static void exchange_committed(store_waiter *w, int result) {
    durable_hold *h = CONTAINER_OF(w, durable_hold, waiter);
    broker *b = h->broker;
    parcel *p = h->parcel;
    if (result == 0) {
        parcel_post(b, p);
        return;
    }
    // It went nowhere: the publisher is told, and sends it again.
    counter_sub(&b->in_transit, 1);
    if (p->owed != NULL) pledge_part_done(p->owed, result);
    end(h);
    parcel_discard(b, p);
}

void exchange_send(durable_hold *h, parcel *p, store_pos pos, u32 part_bytes, u64 targets) {
    h->parcel = p;
    h->parcels = 1;
    h->pos = pos;
    h->part_bytes = part_bytes;
    h->targets = targets;
    link_in(h);
    p->hold = h;
    h->session = p->message.exchange_session;
    p->message.exchange_session = 0;
    p->message.source_worker = (u16)h->broker->owner->index;
    p->message.source_pos = pos;
    h->waiter.done = exchange_committed;
    store_wait(h->broker->durable.log, pos, &h->waiter);
}

void exchange_goes_on(durable_hold *h) {
    h->parcels++;
}

void exchange_returned(broker *b, const parcel *p) {
    if (--p->hold->parcels > 0) return;
    if (b->durable.confirmed != NULL) b->durable.confirmed(b->durable.context, p->hold->pos);
    end(p->hold);
}

exchange_known exchange_is_known(const broker *b, const publication *p, bool keeps) {
    u32 from = p->source_worker % LIMIT_WORKERS_MAX;
    u64 kept = b->durable.source_kept[from], seen = MAX(b->durable.source_seen[from], kept);
    if (p->source_pos > seen) return EXCHANGE_NEW;
    return keeps && p->source_pos > kept ? EXCHANGE_NOT_KEPT : EXCHANGE_KNOWN;
}

// --- after a restart ---

bool exchange_restore(broker *b, u64 session, store_pos pos, u32 part_bytes, u64 targets) {
    durable_hold *h = exchange_hold(b);
    if (h == NULL) return false;
    h->session = session;
    h->pos = pos;
    h->part_bytes = part_bytes;
    h->targets = targets & b->others_mask;
    link_in(h);
    return true;
}

static durable_hold *find(const broker *b, store_pos pos) {
    durable_hold *h = b->durable.unconfirmed;
    while (h != NULL && h->pos != pos) h = h->next;
    return h;
}

u64 exchanges_open(const broker *b) {
    return counter_get(&b->durable.open);
}

bool exchange_is_open(const broker *b, store_pos pos) {
    return find(b, pos) != NULL;
}

void exchange_forget(broker *b, store_pos pos) {
    durable_hold *h = find(b, pos);
    if (h != NULL) end(h);
}

void exchange_each(const broker *b, exchange_visit *visit, void *context) {
    for (const durable_hold *h = b->durable.unconfirmed; h != NULL; h = h->next) {
        visit(context, h->session, h->pos, h->part_bytes, h->targets);
    }
}

// False: no memory; tried again.
static bool send_again(durable_hold *h, const store_record *record) {
    broker *b = h->broker;
    message_record r;
    if (!message_record_parse(record->data, record->len, &r)) {
        end(h);
        return true;
    }
    publication p = durable_publication(b, h->pos, &r);
    p.source_worker = (u16)b->owner->index;
    p.source_pos = h->pos;
    p.refusable = true; // it was let through before the restart
    p.retain_serial = p.retain ? retain_serial_next(&b->seen, b->owner->index) : 0;
    parcel *made = parcel_of_message(b, &p, h->targets, 0);
    if (made == NULL) return false;
    u32 keeper = retained_keeper(b->owner, p.topic, p.topic_len);
    for (u32 i = 0; i < made->slot_count; i++) {
        made->slots[i].deliver = true;
        made->slots[i].store = p.retain && made->slots[i].target == keeper;
    }
    made->hold = h;
    h->parcel = made;
    h->parcels = 1;
    counter_add(&b->in_transit, 1);
    parcel_post(b, made);
    return true;
}

static void fetched(store_fetch_op *op, int result, const store_record *record) {
    durable_hold *h = CONTAINER_OF(op, durable_hold, fetch);
    broker *b = h->broker;
    h->fetch.done = NULL;
    if (result == 0 && !send_again(h, record)) {
        broker_retry_later(b);
        return;
    }
    if (result < 0) end(h);
    exchange_resume(b);
}

static durable_hold *first_unsent(const broker *b) {
    durable_hold *h = b->durable.unconfirmed;
    while (h != NULL && h->parcel != NULL) h = h->next;
    return h;
}

// One after the other, in the order of their positions: the receivers go by it.
void exchange_resume(broker *b) {
    durable_hold *h;
    b->durable.resuming = true;
    while ((h = first_unsent(b)) != NULL) {
        if (h->fetch.done != NULL) return;
        if (h->targets == 0) { // there are fewer workers; not to be begun again when there are more
            if (b->durable.confirmed != NULL) b->durable.confirmed(b->durable.context, h->pos);
            end(h);
            continue;
        }
        store_record record;
        h->fetch = (store_fetch_op){.origin = h->pos, .done = fetched};
        int result = store_fetch(b->durable.log, &h->fetch, &record);
        if (result == 0) return;
        h->fetch.done = NULL;
        if (result == -EAGAIN || (result == 1 && !send_again(h, &record))) {
            broker_retry_later(b);
            return;
        }
        if (result < 0) end(h);
    }
    b->durable.resuming = false;
    b->durable.resumed(b->durable.context);
}

void exchange_on(broker *b, void *context, void (*confirmed)(void *context, store_pos pos),
                 void (*resumed)(void *context)) {
    b->durable.context = context;
    b->durable.confirmed = confirmed;
    b->durable.resumed = resumed;
}

u64 exchange_seen(const broker *b, u32 from) {
    return b->durable.source_seen[from];
}

void exchange_set_seen(broker *b, u32 from, u64 pos) {
    u64 *seen = &b->durable.source_seen[from % LIMIT_WORKERS_MAX];
    *seen = MAX(*seen, pos);
}

u64 exchange_kept(const broker *b, u32 from) {
    return b->durable.source_kept[from];
}

void exchange_set_kept(broker *b, u32 from, u64 pos) {
    u64 *kept = &b->durable.source_kept[from % LIMIT_WORKERS_MAX];
    *kept = MAX(*kept, pos);
}
