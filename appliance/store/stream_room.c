// SPDX-License-Identifier: Apache-2.0
// stream_room.c: streams with discard = new, which refuse a message rather than give up one that somebody has still to
// take. Room comes from what all have taken: every uplink of the stream, every named consumer.
//
// The bound is of the whole process, the data path is each worker's own. So a worker takes an allowance, a share of
// what is free, that the others count as used, and a new one when it has used that up; one that found nothing looks
// again after a millisecond. Two that look at the same moment may take the same; so much, and one message a worker,
// may be held beyond the bound.
#include <string.h>

#include "base/log.h"
#include "store/streams_state.h"
#include "worker.h"

#define LOOK_NS NS_PER_MS
#define ALLOWANCES 16u // all workers' allowances are at most the bound by this, so that what nobody uses is not much
#define WARN_NS (60 * NS_PER_S)
#define REFUSING_NS (3 * NS_PER_S) // nothing was refused for so long: it has room

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

// --- the log ---

// A log that is full refuses what the streams would take. A quarter of what it can hold is kept free, of that which is
// not needed for itself; a disk that is full before it lets less of it be used.
u64 stream_log_excess(const streams *s) {
    const store_metrics *m = store_metrics_get(s->log);
    u64 live = counter_get(&m->live_bytes), files = counter_get(&m->segments), most = counter_get(&m->segments_max);
    u64 segment_bytes = files == 0 ? 0 : counter_get(&m->disk_bytes) / files;
    u64 keep = (most - MIN(most, LIMIT_STORE_RESERVE_SEGMENTS + 1u)) * segment_bytes / 4 * 3;
    u64 excess = live > keep ? live - keep : 0;
    return counter_get(&m->state) == STORE_STATE_FULL ? MAX(excess, live / 4) : excess;
}

// --- room ---

static void room_look(streams *s, stream_part *p) {
    u64 max = p->conf.max_bytes, workers = s->owner->gw->worker_count;
    if (bytes_total(s, p, true) >= max) stream_part_retain(s, p, 0);
    u64 total = bytes_total(s, p, true), more = total < max ? (max - total + workers - 1) / workers : 0;
    counter_set(&p->counters.allowed, bytes_held(p) + MIN(more, max / workers / ALLOWANCES));
    p->full_ns = more == 0 ? s->owner->now_ns : 0;
}

bool stream_part_room(streams *s, stream_part *p) {
    if (p->conf.discard != STREAM_DISCARD_NEW || p->conf.max_bytes == 0) return true;
    if (bytes_held(p) < counter_get(&p->counters.allowed)) return true;
    if (p->full_ns == 0 || s->owner->now_ns - p->full_ns >= LOOK_NS) room_look(s, p);
    return bytes_held(p) < counter_get(&p->counters.allowed);
}

void stream_room_forget(stream_part *p) {
    counter_set(&p->counters.allowed, 0);
    p->full_ns = 0;
    p->full = false;
}

// --- telling ---

void stream_room_refused(streams *s, stream_part *p) {
    if (!p->refusing) {
        log_warn("worker %u: stream %s: full (max_bytes, discard = new): new messages are refused until its uplinks "
                 "and consumers have taken some", s->owner->index, p->name);
    }
    p->refusing = true;
    p->refused_ns = s->owner->now_ns;
}

void stream_room_tick(streams *s, stream_part *p) {
    // With readers that are a little slower than the publishers it is full again and again: that is told once.
    if (!p->refusing || s->owner->now_ns < p->refused_ns + REFUSING_NS || !stream_part_room(s, p)) return;
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
