// SPDX-License-Identifier: Apache-2.0
// stream_room.c: streams with discard = new, which refuse a message rather than give up one that somebody has still to
// take. Room comes from what all have taken: every uplink of the stream, every named consumer.
//
// The bound is of the whole process, the data path is each worker's own. So a worker takes an allowance, a share of
// what is free, that the others count as used, and a new one when it has used that up, at most once a millisecond. Two
// that look at the same moment may take the same; so much, and one message a worker, may be held beyond the bound.
#include <string.h>

#include "base/log.h"
#include "store/streams_state.h"
#include "worker.h"

#define LOOK_NS NS_PER_MS
#define ALLOWANCES 16u // all workers' allowances are at most the bound by this, so that what nobody uses is not much
#define WARN_NS (60 * NS_PER_S)

static u64 bytes_held(const stream_part *p) {
    return p->index.last_bytes_end - p->bytes_first;
}

static u64 bytes_total(const streams *s, const stream_part *p, bool with_allowed) {
    const gateway *gw = s->owner->gw;
    u64 total = 0;
    for (u32 w = 0; w < gw->worker_count; w++) {
        const stream_part *other;
        for (u32 nth = 0;; nth++) {
            other = stream_part_named(gw->workers[w].streams, p->name, (u32)strlen(p->name), nth);
            if (other == NULL) break;
            u64 bytes = counter_get(&other->counters.bytes), allowed = counter_get(&other->counters.allowed);
            total += with_allowed && other != p ? MAX(bytes, allowed) : bytes;
        }
    }
    return total;
}

u64 stream_bytes_total(const streams *s, const stream_part *p) {
    return bytes_total(s, p, false);
}

// --- what has been taken ---

// The offset of the mark from which on something may be missing to who has taken all before `offset`.
static u64 mark_before(const stream_part *p, u64 offset) {
    if (offset >= p->next) return p->next;
    const stream_mark *m = stream_index_find(&p->index, offset);
    return m == NULL ? p->first : MAX(m->offset, p->first);
}

u64 stream_sent_to(const streams *s, const stream_part *p) {
    u64 pos = s->sent == NULL ? UINT64_MAX : s->sent(s->owner, p->number);
    if (pos == UINT64_MAX) return UINT64_MAX;
    if (p->first == p->next || pos >= p->index.last_pos) return p->next;
    const stream_mark *m = stream_index_find_pos(&p->index, pos);
    return m == NULL ? p->first : MAX(m->offset, p->first);
}

u64 stream_taken_to(const streams *s, const stream_part *p) {
    u64 to = stream_sent_to(s, p);
    for (const stream_consumer *c = p->consumers; c != NULL; c = c->next) {
        if (!c->forgotten) to = MIN(to, mark_before(p, c->acked));
    }
    return to == UINT64_MAX ? p->first : to;
}

// --- room ---

static void room_look(streams *s, stream_part *p) {
    u64 max = p->conf.max_bytes, workers = s->owner->gw->worker_count;
    if (bytes_total(s, p, true) >= max) stream_part_retain(s, p, 0);
    u64 total = bytes_total(s, p, true), more = total < max ? (max - total + workers - 1) / workers : 0;
    counter_set(&p->counters.allowed, bytes_held(p) + MIN(more, max / workers / ALLOWANCES));
    p->allowed_ns = s->owner->now_ns;
}

bool stream_part_room(streams *s, stream_part *p) {
    if (p->conf.discard != STREAM_DISCARD_NEW || p->conf.max_bytes == 0) return true;
    if (bytes_held(p) < counter_get(&p->counters.allowed)) return true;
    if (p->allowed_ns == 0 || s->owner->now_ns - p->allowed_ns >= LOOK_NS) room_look(s, p);
    return bytes_held(p) < counter_get(&p->counters.allowed);
}

void stream_room_forget(stream_part *p) {
    counter_set(&p->counters.allowed, 0);
    p->allowed_ns = 0;
    p->full = false;
}

// --- telling ---

void stream_room_refused(streams *s, stream_part *p) {
    if (!p->refusing) {
        log_warn("worker %u: stream %s: full (max_bytes, discard = new): new messages are refused until its uplinks "
                 "and consumers have taken some", s->owner->index, p->name);
    }
    p->refusing = true;
}

void stream_room_tick(streams *s, stream_part *p) {
    if (!p->refusing || !stream_part_room(s, p)) return;
    log_info("worker %u: stream %s: has room again", s->owner->index, p->name);
    p->refusing = false;
}

void stream_unsent_gone(streams *s, stream_part *p, u64 messages) {
    p->unsent_gone += messages;
    if (p->unsent_ns != 0 && s->owner->now_ns - p->unsent_ns < WARN_NS) return;
    log_warn("worker %u: stream %s: %llu messages go for its bounds (max_bytes, max_age) that an uplink has not sent",
             s->owner->index, p->name, (unsigned long long)p->unsent_gone);
    p->unsent_ns = s->owner->now_ns;
    p->unsent_gone = 0;
}
