// SPDX-License-Identifier: Apache-2.0
// admit.c: whether a message may go to sessions whose queue is full and who would rather have it refused than lose it
// (queue_policy = reject). All or nothing: who is refused sends again, so nobody may have got it before. It is
// asked before anything of the message is kept or delivered.
//
// While no queue is full this costs the publisher one counter a worker concerned. Else this worker's sessions are
// asked, and the other workers that have a full one: a question with the topic goes there, the publisher waits
// (-EAGAIN), and the answer counts until it has been used, and for VERDICT_NS at least. What has been let through
// is taken by every session, however full it has become meanwhile: the limit is passed by what was on its way between
// workers, and by the last message, which may be larger than the room that was left.
#include "broker/route.h"

#include <errno.h>
#include <string.h>

#include "base/siphash.h"

#define VERDICT_NS NS_PER_MS          // an answer that has been used counts so long for others
#define UNUSED_NS (50 * NS_PER_MS)    // one that has not: its publisher has gone, or is late

static bool is_fresh(const admit_verdict *v, u64 now_ns) {
    return now_ns < v->at_ns + (v->used ? VERDICT_NS : UNUSED_NS);
}

static u64 full_workers(const broker *b, u64 mask) {
    u64 full = 0;
    for (; mask != 0; mask &= mask - 1) {
        u32 i = (u32)__builtin_ctzll(mask);
        if (counter_get(&b->owner->gw->workers[i].broker->admit.full) > 0) full |= worker_bit(i);
    }
    return full;
}

static int ask(broker *b, admit_verdict *v, u64 hash, u64 workers, const publication *p) {
    parcel *made = parcel_create(b, PARCEL_ADMIT, workers, 0, p->topic_len);
    if (made == NULL) return -ENOMEM;
    memcpy(parcel_body(made), p->topic, p->topic_len);
    made->topic_hash = hash;
    *v = (admit_verdict){.hash = hash, .workers = workers, .asked = true};
    parcel_send(b, made, WM_ROUTE);
    return -EAGAIN;
}

static admit_verdict *verdict_of(broker *b, u64 hash) {
    return &b->admit.verdicts[hash % ARRAY_LEN(b->admit.verdicts)];
}

static int ask_others(broker *b, u64 workers, const publication *p) {
    u64 hash = siphash24(siphash_process_key(), p->topic, p->topic_len);
    admit_verdict *v = verdict_of(b, hash);
    if (v->asked) return -EAGAIN; // this topic's answer, or that of another one with the same place
    bool current = v->workers != 0 && is_fresh(v, b->owner->now_ns);
    if (current && v->hash == hash && (workers & ~v->workers) == 0) {
        v->used = true;
        return v->refused ? -ENOBUFS : 0;
    }
    if (current && v->hash != hash && !v->used) return -EAGAIN;
    return ask(b, v, hash, workers, p);
}

int admit_message(broker *b, const route_hits *hits, u64 workers_mask, const publication *p) {
    if (counter_get(&b->admit.full) > 0 && hits_refused(b, hits, p)) return -ENOBUFS;
    u64 full = full_workers(b, workers_mask);
    return full == 0 ? 0 : ask_others(b, full, p);
}

void admit_session_full(broker *b, bool full) {
    if (full) counter_add(&b->admit.full, 1);
    else counter_sub(&b->admit.full, 1);
}

// --- for another worker ---

void admit_received(broker *b, parcel_slot *slot) {
    const parcel *p = slot->of;
    publication asked = {.topic = (const char *)parcel_body(slot->of), .topic_len = p->body_bytes, .qos = 2};
    route_match match;
    route_hits hits;
    broker_enter(b);
    // Without memory to ask it is let through: the message itself then waits for memory.
    int result = match_collect(b, asked.topic, asked.topic_len, &match);
    if (result == 0 && hits_collect(b, &match, &asked, &hits) == 0) {
        slot->refused = hits_refused(b, &hits, &asked);
        hits_end(b, &hits);
    }
    match_end(b, &match);
    broker_leave(b);
    parcel_return(b, slot);
}

void admit_returned(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    admit_verdict *v = verdict_of(b, p->topic_hash);
    v->refused |= slot->refused;
    if (p->pending == 1) {
        v->asked = false;
        v->at_ns = b->owner->now_ns;
    }
    parcel_release(b, p);
}
