// SPDX-License-Identifier: Apache-2.0
// parcel.c: what travels between workers, and the outboxes for what no ring takes at the moment.
//
// Invariants: slots for one worker are posted in the order of parcel_send and parcel_return, so an
// outbox that is not empty takes everything for that worker; nothing is dropped here. The wait
// costs no memory: a waiting slot is linked through itself.
#include <errno.h>
#include <string.h>

#include "broker/route.h"

// Longest wait between two attempts for what could not be posted or announced. A congested worker
// needs about this long for the thousands of messages in front of it.
#define RETRY_NS (20 * NS_PER_MS)

static size_t parcel_bytes(u32 slot_count, u32 text_len, u32 payload_len) {
    return sizeof(parcel) + slot_count * sizeof(parcel_slot) + text_len + (size_t)payload_len;
}

char *parcel_text(parcel *p) {
    return (char *)&p->slots[p->slot_count];
}

u8 *parcel_payload(parcel *p) {
    return (u8 *)parcel_text(p) + p->text_len;
}

parcel *parcel_create(broker *b, u64 targets_mask, u32 text_len, u32 payload_len) {
    u32 count = (u32)__builtin_popcountll(targets_mask);
    ASSERT(count > 0);
    parcel *p = pool_alloc(b->memory, parcel_bytes(count, text_len, payload_len));
    if (p == NULL) return NULL;
    memset(p, 0, sizeof(*p));
    p->origin = b->owner->index;
    p->slot_count = count;
    p->pending = count;
    p->text_len = text_len;
    p->payload_len = payload_len;
    for (u32 i = 0; i < count; i++) {
        u32 target = (u32)__builtin_ctzll(targets_mask);
        targets_mask &= targets_mask - 1;
        p->slots[i] = (parcel_slot){.of = p, .target = (u16)target};
    }
    return p;
}

void parcel_release(broker *b, parcel *p) {
    ASSERT(p->pending > 0);
    if (--p->pending > 0) return;
    pool_free(b->memory, p, parcel_bytes(p->slot_count, p->text_len, p->payload_len));
}

static bool slot_post(broker *b, u32 to, parcel_slot *slot) {
    spsc_message message = {.kind = slot->kind, .arg = b->owner->index, .ptr = slot};
    return worker_post(b->owner, to, &message);
}

static void slot_send(broker *b, u32 to, parcel_slot *slot, worker_message kind) {
    slot->kind = kind;
    slot->next = NULL;
    outbox *box = &b->outboxes[to];
    if (box->head == NULL && slot_post(b, to, slot)) return;
    if (box->head == NULL) {
        box->head = slot;
    } else {
        box->tail->next = slot;
    }
    box->tail = slot;
    b->outbox_mask |= 1ull << to;
    broker_retry_later(b);
}

void parcel_send(broker *b, parcel *p, worker_message kind) {
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
        if (box->head == NULL) b->outbox_mask &= ~(1ull << to);
    }
    if (b->outbox_mask != 0) broker_retry_later(b);
}

void broker_retry_later(broker *b) {
    if (!timer_is_armed(&b->retry_timer)) {
        timer_arm(b->owner->wheel, &b->retry_timer, b->owner->now_ns + RETRY_NS);
    }
}
