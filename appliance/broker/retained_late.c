// SPDX-License-Identifier: Apache-2.0
// retained_late.c: pages that come late. Another worker's page was gathered a while ago, and a slow subscriber may
// hold it for long; meanwhile a newer message of one of its topics can come live. The old one must not follow it: the
// subscriber would keep a value that is not the last.
//
// So, while readers are abroad (in other workers' parts), this worker remembers the topics of the retained messages it
// meets, with their serials. What a page brings of such a topic is passed over by a reader whose subscription was in
// force when the other came: it has been delivered live. When there is
// no memory to remember it the old one may follow after all.
#include "base/siphash.h"
#include "broker/route.h"

typedef struct overtaken {
    table_link link; // by the topic's hash, keyed and 64 bits wide: two topics with the same do not occur
    u64 serial;      // of the last one met
} overtaken;

static u64 topic_hash(const publication *p) {
    return siphash24(siphash_process_key(), p->topic, p->topic_len);
}

void retained_abroad(broker *b, bool more) {
    retained_part *part = &b->retained;
    if (more) {
        part->abroad++;
        return;
    }
    part->abroad--;
    if (part->abroad == 0 && part->overtaken.count > 0) timer_arm(b->owner->wheel, &part->timer, 0);
}

void retained_overtake_slow(broker *b, const publication *p) {
    u64 hash = topic_hash(p);
    table_link *at = table_first(&b->retained.overtaken, hash);
    if (at == NULL) {
        overtaken *o = pool_alloc(b->memory, sizeof(*o));
        if (o == NULL) return;
        table_insert(&b->retained.overtaken, &o->link, hash);
        at = &o->link;
    }
    CONTAINER_OF(at, overtaken, link)->serial = p->retain_serial;
}

bool retained_is_overtaken(const broker *b, const retained_mark *mark, const publication *p) {
    if (b->retained.overtaken.count == 0) return false;
    table_link *at = table_first(&b->retained.overtaken, topic_hash(p));
    if (at == NULL) return false;
    u64 serial = CONTAINER_OF(at, overtaken, link)->serial;
    return serial > mark->met[retain_serial_origin(serial)];
}

bool retained_overtaken_sweep(broker *b, u32 steps) {
    retained_part *part = &b->retained;
    table *t = &part->overtaken;
    while (part->abroad == 0 && t->count > 0) {
        if (steps-- == 0) return true;
        if (part->sweep_bucket >= t->buckets) part->sweep_bucket = 0;
        table_link *link = table_bucket(t, part->sweep_bucket);
        if (link == NULL) {
            part->sweep_bucket++;
            continue;
        }
        table_remove(t, link);
        pool_free(b->memory, CONTAINER_OF(link, overtaken, link), sizeof(overtaken));
    }
    return false;
}
