// SPDX-License-Identifier: Apache-2.0
// durable_retained.c: retained messages in the log of the worker that keeps their topic. A record is the
// topic's hash, by which it is placed when the number of workers changes, and a message record; one without
// payload says that the topic has none any more. The messages lie in memory, so a checkpoint writes all of
// them again.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "broker/durable.h"
#include "broker/route.h"
#include "store/put.h"

#define HASH_BYTES 8u
#define HEAD_BYTES 256u

static int retained_append(broker *b, const publication *p, store_pos *pos) {
    message_record r = {
        .topic = p->topic, .topic_len = p->topic_len,
        .props = p->props, .props_len = p->props_len, .props_present = p->props_present,
        .payload = p->payload, .payload_len = p->payload_len,
        .qos = p->qos, .retain = true,
        .source_worker = p->source_worker, .source_pos = p->source_pos,
    };
    durable_times(b, p, &r);
    u8 head[HASH_BYTES + HEAD_BYTES];
    struct iovec parts[4];
    ASSERT(message_record_head_bytes(&r) <= HEAD_BYTES);
    (void)put_u64(head, retained_hash(p->topic, p->topic_len));
    message_record_write(&r, NULL, NULL, head + HASH_BYTES, parts);
    parts[0] = (struct iovec){head, parts[0].iov_len + HASH_BYTES};
    return store_append(b->durable.log, STORE_RETAINED, p->payload_len == 0 ? STORE_VITAL : 0, parts,
                        ARRAY_LEN(parts), pos);
}

int durable_retain(broker *b, const publication *p, store_pos *pos) {
    int result = retained_append(b, p, pos);
    if (result == 0) b->durable.appended = *pos;
    if (result < 0) *pos = 0;
    if (result == -ENOSPC) result = -EDQUOT;
    // What is not promised to anybody is kept in memory at least, and written with the next checkpoint.
    return result < 0 && p->qos == 0 ? 0 : result;
}

// --- the keeper ---

// How the clock was set is known when all is replayed: until then a message that expires does not. Without memory to
// note it, it is judged by the clock as it is.
static bool judge_later(broker *b, message *m, const store_record *record, const message_record *r) {
    durable_part *d = &b->durable;
    if (d->expiring_count == d->expiring_room) {
        u32 room = d->expiring_room == 0 ? 256 : d->expiring_room * 2;
        retained_expiring *grown = realloc(d->expiring, sizeof(*grown) * room);
        if (grown == NULL) return false;
        d->expiring = grown;
        d->expiring_room = room;
    }
    d->expiring[d->expiring_count++] = (retained_expiring){
        .message = message_ref(m), .origin = record->origin, .published_ms = r->published_ms, .expiry_s = r->expiry_s};
    return true;
}

void durable_retained_replayed(broker *b) {
    durable_part *d = &b->durable;
    for (u32 i = 0; i < d->expiring_count; i++) {
        const retained_expiring *e = &d->expiring[i];
        const message_record r = {.published_ms = e->published_ms, .expiry_s = e->expiry_s};
        publication p = durable_publication(b, e->origin, &r);
        e->message->published_ns = p.published_ns;
        e->message->expires_ns = p.expires_ns;
        message_unref(e->message);
    }
    free(d->expiring);
    d->expiring = NULL;
    d->expiring_count = d->expiring_room = 0;
}

static void replay(void *context, const store_record *record) {
    broker *b = context;
    message_record r;
    if (record->len < HASH_BYTES || !message_record_parse(record->data + HASH_BYTES, record->len - HASH_BYTES, &r)) {
        counter_add(&b->durable.unreadable, 1);
        return;
    }
    if (r.source_pos != 0) exchange_set_kept(b, r.source_worker, r.source_pos);
    publication p = durable_publication(b, record->origin, &r);
    if (retained_keeper(b->owner, p.topic, p.topic_len) != b->owner->index) return;
    if (p.payload_len == 0) {
        (void)retained_set(&b->retained, &p, NULL);
        return;
    }
    message *m = message_create(b, &p);
    if (m != NULL && m->expires_ns != 0 && judge_later(b, m, record, &r)) m->expires_ns = UINT64_MAX;
    if (m == NULL || retained_set(&b->retained, &p, m) < 0) counter_add(&b->retained.refused, 1);
    if (m != NULL) message_unref(m);
}

static bool checkpoint(void *context, bool begin, u32 budget) {
    broker *b = context;
    retained_part *part = &b->retained;
    durable_part *d = &b->durable;
    if (begin) {
        cursor_destroy(part, d->checkpoint);
        d->checkpoint = cursor_create(part, NULL, 0);
        d->checkpoint_again = false;
    }
    if (d->checkpoint == NULL) { // no memory at its begin: it can not be complete without
        d->checkpoint = cursor_create(part, NULL, 0);
        return false;
    }
    u32 steps = LIMIT_RETAINED_TURN;
    for (u32 bytes = 0; bytes < budget && steps > 0;) {
        message *m = d->checkpoint_again ? cursor_message(part, d->checkpoint) : NULL;
        d->checkpoint_again = false;
        if (m == NULL) m = cursor_next(part, d->checkpoint, &steps);
        if (m == NULL) break;
        publication p = message_publication(m);
        store_pos pos;
        if (retained_append(b, &p, &pos) < 0) {
            d->checkpoint_again = true;
            return false;
        }
        bytes += (u32)MIN(message_bytes(m), (u64)budget);
    }
    if (!cursor_is_at_end(d->checkpoint)) return false;
    cursor_destroy(part, d->checkpoint);
    d->checkpoint = NULL;
    return true;
}

static u64 owners(const store_record *record, u32 old_worker, u32 workers) {
    (void)old_worker;
    cursor c = cursor_of(record->data, record->len);
    u64 high = cursor_u32(&c);
    return worker_bit((u32)((high << 32 | cursor_u32(&c)) % workers));
}

int durable_retained_start(broker *b) {
    const store_keeper keeper = {
        .context = b, .replay = replay, .checkpoint = checkpoint, .owners = owners};
    store_register(b->durable.log, STORE_RETAINED, &keeper);
    return 0;
}
