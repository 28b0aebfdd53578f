// SPDX-License-Identifier: Apache-2.0
// durable.c: message records on their way into the log: gathers who claims a place in one, writes it, tells
// them.
//
// No table counts who needs a record. Its bytes are given back to the log's account by one of those who need it: its
// streams, else the other workers of an exchange, else the first session. The account is an estimate that only
// tells reclaim where to look; there each record is asked for (is_live).
#include "broker/durable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/route.h"
#include "store/streams.h"

typedef struct claim {
    message_waiting entry; // its ids_at: in the scratch of ids
    subscriber *who;
} claim;

#define HEAD_AT_HAND 512u

static claim *claim_at(const broker *b, u32 i) {
    return &((claim *)b->durable.claims.items)[i];
}

// Retention has taken a record from its last stream. Sessions that wait for it yet are found when it is reclaimed.
static void released(worker *w, const store_record *r) {
    store_drop(w->store, r->origin, r->len);
}

int durable_start(broker *b, store *log) {
    b->durable.log = log;
    if (b->owner->streams != NULL) streams_on_release(b->owner->streams, released);
    b->durable.claims.item_bytes = sizeof(claim);
    b->durable.ids.item_bytes = sizeof(u32);
    return durable_retained_start(b);
}

store *durable_log(const broker *b) {
    return b->durable.log;
}

int durable_state(const broker *b) {
    int refused = b->durable.refused;
    if (b->durable.behind > 0) return refused == 0 ? -EAGAIN : refused == -EDQUOT ? -ENOSPC : refused;
    return store_room(b->durable.log, STORE_KEEP, 0);
}

// While the state of a session is not in the log nothing is promised to any.
static int state_missing(const broker *b) {
    if (b->durable.behind == 0) return 0;
    return b->durable.refused != 0 ? b->durable.refused : -EAGAIN;
}

void durable_refuses(broker *b, int failure) {
    b->durable.refused = failure;
}

void durable_count(broker *b, int change) {
    if (change > 0) counter_add(&b->durable.subscribers, 1);
    else counter_sub(&b->durable.subscribers, 1);
}

void durable_behind(broker *b, int change) {
    b->durable.behind += (u32)change;
}

bool durable_expects(const broker *there, const publication *p) {
    return p->qos > 0 && counter_get(&there->durable.subscribers) > 0;
}

// --- claims ---

static bool claim_add(broker *b, subscriber *who, const message_waiting *w) {
    durable_part *d = &b->durable;
    if (!scratch_push_room(b, &d->claims)) return false;
    u32 ids_at = d->ids.used;
    for (u32 i = 0; i < w->id_count; i++) {
        if (!scratch_push_room(b, &d->ids)) {
            d->ids.used = ids_at;
            return false;
        }
        ((u32 *)d->ids.items)[d->ids.used++] = w->ids[i];
    }
    claim *c = claim_at(b, d->claims.used++);
    *c = (claim){.entry = *w, .who = who};
    c->entry.ids_at = ids_at;
    return true;
}

void durable_offer(broker *b, subscriber *who, delivery *d) {
    if (!who->durable || d->qos == 0 || b->durable.claim_failure != 0) return;
    message_waiting w = {0};
    if (!who->ops->reserve(who, d, &w)) return;
    if (claim_add(b, who, &w)) return;
    who->ops->stored(who, 0, 0, 0);
    b->durable.claim_failure = -ENOMEM;
}

static int claim_order(const void *a, const void *b) {
    u64 left = ((const claim *)a)->entry.session, right = ((const claim *)b)->entry.session;
    return left < right ? -1 : left > right;
}

u32 durable_part_bytes(u32 bytes, u32 at, bool others) {
    return at == 0 && !others ? bytes : 0;
}

void durable_drop(broker *b, store_pos pos, u32 part_bytes) {
    if (part_bytes > 0) store_drop(b->durable.log, pos, part_bytes);
}

static void claims_settle(broker *b, store_pos pos, u32 bytes, bool others) {
    durable_part *d = &b->durable;
    for (u32 i = 0; i < d->claims.used; i++) {
        const claim *c = claim_at(b, i);
        c->who->ops->stored(c->who, pos, bytes, durable_part_bytes(bytes, i, others));
    }
    d->claims.used = d->ids.used = 0;
    d->claim_failure = 0;
}

// --- records ---

void durable_times(const broker *b, const publication *p, message_record *r) {
    u64 now_ns = b->owner->now_ns, since_ns = p->published_ns == 0 ? now_ns : MIN(p->published_ns, now_ns);
    r->published_ms = (clock_real_ns() - (now_ns - since_ns)) / NS_PER_MS;
    r->expiry_s = MESSAGE_EXPIRY_NEVER;
    if (p->expires_ns == 0) return;
    u64 left_s = p->expires_ns > since_ns ? (p->expires_ns - since_ns) / NS_PER_S : 0;
    r->expiry_s = (u32)MIN(left_s, (u64)MESSAGE_EXPIRY_NEVER - 1);
}

static message_record record_of(const broker *b, const publication *p) {
    message_record r = {
        .topic = p->topic, .topic_len = p->topic_len,
        .props = p->props, .props_len = p->props_len, .props_present = p->props_present,
        .payload = p->payload, .payload_len = p->payload_len,
        .qos = p->qos, .retain = p->retain,
        .exchange_session = p->exchange_session, .exchange_id = p->exchange_id,
        .source_worker = p->source_worker, .source_pos = p->source_pos,
    };
    durable_times(b, p, &r);
    return r;
}

u64 durable_time(const broker *b, store_pos origin, u64 time_ms) {
    if (b->durable.clock_look != NULL) b->durable.clock_look(b->durable.clock_context);
    return clock_steps_time(&b->durable.steps, origin, time_ms);
}

void durable_on_clock(broker *b, void (*look)(void *context), void *context) {
    b->durable.clock_look = look;
    b->durable.clock_context = context;
}

clock_steps *durable_steps(broker *b) {
    return &b->durable.steps;
}

publication durable_publication(const broker *b, store_pos origin, const message_record *r) {
    u64 now_ns = b->owner->now_ns, now_ms = clock_real_ns() / NS_PER_MS;
    bool expires = r->expiry_s != MESSAGE_EXPIRY_NEVER;
    u64 published_ms = expires ? durable_time(b, origin, r->published_ms) : r->published_ms;
    u64 age_ms = now_ms > published_ms ? now_ms - published_ms : 0;
    u64 age_ns = age_ms < UINT64_MAX / NS_PER_MS ? age_ms * NS_PER_MS : UINT64_MAX;
    publication p = {
        .topic = r->topic, .topic_len = r->topic_len,
        .props = r->props, .props_len = r->props_len, .props_present = r->props_present,
        .payload = r->payload, .payload_len = r->payload_len,
        .published_ns = age_ns < now_ns ? now_ns - age_ns : 1,
        .qos = r->qos, .retain = r->retain,
    };
    if (expires) {
        u64 life_ns = r->expiry_s * NS_PER_S;
        p.expires_ns = age_ns < life_ns ? now_ns + (life_ns - age_ns) + 1 : 1;
    }
    return p;
}

static int record_append(broker *b, message_record *r, const message_stream *places, const message_waiting *waiting,
                         u32 flags, store_pos *pos, u32 *bytes) {
    u8 at_hand[HEAD_AT_HAND];
    u32 head_bytes = message_record_head_bytes(r);
    if (head_bytes == 0) return -EMSGSIZE;
    u8 *head = head_bytes <= sizeof(at_hand) ? at_hand : pool_alloc(b->memory, head_bytes);
    if (head == NULL) return -ENOMEM;
    struct iovec parts[4];
    message_record_write(r, places, waiting, head, parts);
    *bytes = head_bytes + r->topic_len + r->props_len + r->payload_len;
    int result = store_append(b->durable.log, STORE_MESSAGE, STORE_KEEP | flags, parts, ARRAY_LEN(parts), pos);
    if (head != at_hand) pool_free(b->memory, head, head_bytes);
    return result == -ENOSPC ? -EDQUOT : result;
}

// The streams that a message belongs to.
typedef struct stream_places {
    message_stream at[LIMIT_STREAM_REFS];
    u32 count;
} stream_places;

static int claims_write(broker *b, const publication *p, u64 targets, const stream_places *places, u32 flags,
                        store_pos *pos, u32 *bytes) {
    durable_part *d = &b->durable;
    u32 count = d->claims.used;
    message_record r = record_of(b, p);
    r.targets = targets;
    r.stream_count = places->count;
    r.waiting_count = count;
    r.id_count = d->ids.used;
    if (count > 1) qsort(d->claims.items, count, sizeof(claim), claim_order);
    message_waiting one, *waiting = &one;
    if (count > 1) waiting = pool_alloc(b->memory, count * sizeof(*waiting));
    if (waiting == NULL) return -ENOMEM;
    for (u32 i = 0; i < count; i++) {
        waiting[i] = claim_at(b, i)->entry;
        waiting[i].ids = (const u32 *)d->ids.items + waiting[i].ids_at;
    }
    int result = record_append(b, &r, places->at, waiting, flags, pos, bytes);
    if (count > 1) pool_free(b->memory, waiting, count * sizeof(*waiting));
    return result;
}

// What the record means for its streams. Returns whether they have it.
static bool places_settle(broker *b, const publication *p, const stream_places *places, store_pos pos, u32 bytes,
                          int result) {
    streams *in = b->owner->streams;
    if (places->count == 0) return false;
    if (result < 0) {
        // One that comes again is not lost.
        if (p->qos == 0 || result != -EAGAIN) streams_refused(in, places->at, places->count);
        return false;
    }
    stream_place place = {.origin = pos, .time_ms = clock_real_ns() / NS_PER_MS, .bytes = bytes};
    streams_appended(in, places->at, places->count, &place);
    return true;
}

int durable_takes(const worker *there) {
    store_state state = (store_state)counter_get(&store_metrics_get(there->store)->state);
    return state == STORE_STATE_FULL ? -EDQUOT : state == STORE_STATE_FAILED ? -EIO : 0;
}

int durable_store(broker *b, const publication *p, const route_hits *hits, u64 targets, message **stored,
                  store_pos *pos) {
    durable_part *d = &b->durable;
    streams *in = b->owner->streams;
    stream_places places;
    bool received = targets == DURABLE_RECEIVED, others = !received && p->exchange_session != 0 && targets != 0;
    *pos = 0;
    // What came from another worker is in the streams of the publisher's.
    places.count = received || streams_taking(in) == 0
                       ? 0 : streams_take(in, p->topic, p->topic_len, places.at, LIMIT_STREAM_REFS);
    if (p->qos > 0 && counter_get(&d->subscribers) > 0) hits_reserve(b, hits, p, stored);
    int result = d->claim_failure;
    u32 bytes = 0;
    if (result == 0 && d->claims.used == 0 && places.count == 0 && !others) return 0;
    if (result == 0) result = state_missing(b);
    // What comes from another worker's log has been taken: refused here, it would be delivered there and come again.
    u32 flags = received ? STORE_VITAL : 0;
    if (result == 0) result = claims_write(b, p, others ? targets : 0, &places, flags, pos, &bytes);
    bool waits = d->claims.used > 0 || others || streams_wait_commit(in, places.at, places.count);
    if (result < 0) *pos = 0;
    else if (waits) d->appended = *pos;
    bool in_streams = places_settle(b, p, &places, *pos, bytes, result);
    d->exchange_bytes = others && !in_streams ? bytes : 0;
    claims_settle(b, *pos, bytes, others || in_streams);
    return p->qos == 0 ? 0 : result; // nobody waits for it, and streams do not hold it up
}

int durable_store_one(broker *b, subscriber *who, const publication *p, const message_waiting *w) {
    message_record r = record_of(b, p);
    r.exchange_session = r.source_pos = 0; // the exchange is that of the message's first record
    r.waiting_count = 1;
    r.id_count = w->id_count;
    store_pos pos = 0;
    u32 bytes = 0;
    int result = state_missing(b);
    if (result == 0) result = record_append(b, &r, NULL, w, 0, &pos, &bytes);
    if (result < 0) pos = 0;
    else b->durable.appended = pos;
    if (result < 0 && result != -EAGAIN) b->durable.pick_failure = result;
    who->ops->stored(who, pos, bytes, bytes);
    return result;
}
