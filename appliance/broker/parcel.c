// SPDX-License-Identifier: Apache-2.0
// parcel.c: what travels between workers, and the outboxes for what no ring takes at the moment.
//
// Invariants: slots for one worker are posted in the order of parcel_send and parcel_return, so an
// outbox that is not empty takes everything for that worker; nothing is dropped here. The wait
// costs no memory: a waiting slot is linked through itself.
#include <errno.h>
#include <string.h>

#include "broker/route.h"

static size_t parcel_bytes(u32 slot_count, u32 pick_count, u32 body_bytes) {
    return sizeof(parcel) + slot_count * sizeof(parcel_slot) + pick_count * sizeof(parcel_pick) +
           (size_t)body_bytes;
}
_Static_assert(sizeof(parcel) % 8 == 0 && sizeof(parcel_slot) % 8 == 0 && sizeof(parcel_pick) % 8 == 0,
               "what follows is aligned");

parcel_pick *parcel_picks(parcel *p) {
    return (parcel_pick *)(void *)&p->slots[p->slot_count];
}

u8 *parcel_body(parcel *p) {
    return (u8 *)(parcel_picks(p) + p->pick_count);
}

u64 *parcel_serials(parcel *p) {
    ASSERT(p->kind == PARCEL_ANNOUNCE);
    return (u64 *)(void *)parcel_body(p);
}

parcel *parcel_create(broker *b, parcel_kind kind, u64 targets_mask, u32 pick_count,
                      u32 body_bytes) {
    u32 count = (u32)__builtin_popcountll(targets_mask);
    ASSERT(count > 0);
    parcel *p = pool_alloc(b->memory, parcel_bytes(count, pick_count, body_bytes));
    if (p == NULL) return NULL;
    memset(p, 0, sizeof(*p));
    p->origin = b->owner->index;
    p->kind = (u16)kind;
    p->slot_count = (u16)count;
    p->pick_count = pick_count;
    p->pending = count;
    p->body_bytes = body_bytes;
    for (u32 i = 0; i < count; i++) {
        u32 target = (u32)__builtin_ctzll(targets_mask);
        targets_mask &= targets_mask - 1;
        p->slots[i] = (parcel_slot){.of = p, .target = (u16)target};
    }
    return p;
}

parcel *parcel_of_message(broker *b, const publication *p, u64 targets_mask, u32 pick_count) {
    u64 body_bytes = (u64)p->topic_len + p->props_len + p->payload_len;
    if (body_bytes > UINT32_MAX) return NULL;
    parcel *made = parcel_create(b, PARCEL_MESSAGE, targets_mask, pick_count, (u32)body_bytes);
    if (made == NULL) return NULL;
    u8 *body = parcel_body(made);
    made->message = *p;
    made->message.topic = (const char *)body;
    made->message.props = body + p->topic_len;
    made->message.payload = body + p->topic_len + p->props_len;
    memcpy(body, p->topic, p->topic_len);
    if (p->props_len > 0) memcpy(body + p->topic_len, p->props, p->props_len);
    if (p->payload_len > 0) {
        memcpy(body + p->topic_len + p->props_len, p->payload, p->payload_len);
    }
    return made;
}

void parcel_discard(broker *b, parcel *p) {
    pool_free(b->memory, p, parcel_bytes(p->slot_count, p->pick_count, p->body_bytes));
}

void parcel_release(broker *b, parcel *p) {
    ASSERT(p->pending > 0);
    if (--p->pending == 0) parcel_discard(b, p);
}

static bool slot_post(broker *b, u32 to, parcel_slot *slot) {
    spsc_message m = {.kind = slot->kind, .arg = b->owner->index, .ptr = slot};
    return worker_post(b->owner, to, &m);
}

static void slot_send(broker *b, u32 to, parcel_slot *slot, worker_message kind) {
    slot->kind = (u8)kind;
    slot->next = NULL;
    outbox *box = &b->outboxes[to];
    if (box->head == NULL && slot_post(b, to, slot)) return;
    if (box->head == NULL) {
        box->head = slot;
    } else {
        box->tail->next = slot;
    }
    box->tail = slot;
    b->outbox_mask |= worker_bit(to);
    broker_retry_later(b);
}

void parcel_send(broker *b, parcel *p, worker_message kind) {
    // Once the last slot is posted the parcel may be on its way home already: it is freed by this
    // thread only, so it stays readable here.
    for (u32 i = 0; i < p->slot_count; i++) slot_send(b, p->slots[i].target, &p->slots[i], kind);
}

void parcel_return(broker *b, parcel_slot *slot) {
    slot_send(b, slot->of->origin, slot, WM_ROUTE_RETURN);
}

void outbox_flush(broker *b) {
    for (u64 mask = b->outbox_mask; mask != 0; mask &= mask - 1) {
        u32 to = (u32)__builtin_ctzll(mask);
        outbox *box = &b->outboxes[to];
        while (box->head != NULL) {
            // Once posted the slot belongs to the other worker: its link is read before.
            parcel_slot *next = box->head->next;
            if (!slot_post(b, to, box->head)) break;
            box->head = next;
        }
        if (box->head == NULL) b->outbox_mask &= ~worker_bit(to);
    }
    if (b->outbox_mask != 0) broker_retry_later(b);
}
