// SPDX-License-Identifier: Apache-2.0
// stream_feed.c: reads a partition for those who ask (stream_ask.h). A feed is one position in the partition with a
// reader of the log and one or more members who take pages from it: one for each reading without a consumer's name,
// one for all readings with the same name.
//
// What a member was given and has not acknowledged is a lease: offsets [from, to). When a member leaves, its
// leases go back and are given out again before anything new. A consumer's durable offset is the lowest that is
// leased, given back or not given out yet.
//
// All reading is done from one timer in turns of LIMIT_STREAM_READS_TURN records; feeds take turns.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/stream_feed_state.h"
#include "worker.h"

#define ANSWER_RETRY_NS (20 * NS_PER_MS)
#define ACK_NS (50 * NS_PER_MS)    // acknowledgements are gathered so long before they are written

// --- answers ---

void stream_feed_answer(streams *s, stream_ask *a) {
    struct stream_feeds *f = s->reading;
    if (stream_desk_answer(s->owner, a)) return;
    a->next_host = f->answers;
    f->answers = a;
    if (!timer_is_armed(&f->answer_timer)) {
        timer_arm(s->owner->wheel, &f->answer_timer, s->owner->now_ns + ANSWER_RETRY_NS);
    }
}

static void answers_retry(timer_node *node, void *context) {
    (void)context;
    struct stream_feeds *f = CONTAINER_OF(node, struct stream_feeds, answer_timer);
    stream_ask *a = f->answers, *next;
    f->answers = NULL;
    for (; a != NULL; a = next) {
        next = a->next_host;
        stream_feed_answer(f->of, a);
    }
}

static void refuse(streams *s, stream_ask *a, int result) {
    a->result = result;
    a->end = true;
    stream_feed_answer(s, a);
}

// --- work ---

void stream_feed_queue(stream_feed *f) {
    struct stream_feeds *all = f->of->reading;
    if (f->queued) return;
    f->queued = true;
    f->work_next = NULL;
    *all->work_end = f;
    all->work_end = &f->work_next;
    timer_arm(f->of->owner->wheel, &all->work_timer, 0); // in the next turn
}

static void feed_unqueue(stream_feed *f) {
    struct stream_feeds *all = f->of->reading;
    stream_feed **at = &all->work;
    if (!f->queued) return;
    while (*at != f) at = &(*at)->work_next;
    *at = f->work_next;
    if (all->work_end == &f->work_next) all->work_end = at;
    f->queued = false;
}

void stream_feed_ready(void *feed) {
    stream_feed_queue(feed);
}

// --- ranges and leases ---

// The lowest offset that is not acknowledged.
static u64 feed_acked(const stream_feed *f) {
    u64 lowest = f->position;
    for (u32 i = 0; i < f->back_count; i++) lowest = MIN(lowest, f->back[i].from);
    for (const stream_member *m = f->members; m != NULL; m = m->next) {
        if (m->first != NULL) lowest = MIN(lowest, m->first->range.from + m->in_lease);
    }
    return lowest;
}

static void consumer_moved(stream_feed *f) {
    struct stream_feeds *all = f->of->reading;
    if (f->consumer == NULL) return;
    u64 acked = feed_acked(f);
    if (acked == f->consumer->acked) return;
    f->consumer->acked = acked;
    f->consumer->changed_ms = clock_real_ns() / NS_PER_MS;
    f->consumer->dirty = true;
    if (timer_is_armed(&all->ack_timer)) return;
    timer_arm(f->of->owner->wheel, &all->ack_timer, f->of->owner->now_ns + ACK_NS);
}

static void acks_write(timer_node *node, void *context) {
    (void)context;
    stream_records_flush(CONTAINER_OF(node, struct stream_feeds, ack_timer)->of);
}

// A range that a member has not acknowledged; nobody else has it.
void stream_feed_give_back(stream_feed *f, stream_range range) {
    if (range.from >= range.to) return;
    if (f->back_count > 0 && f->back[f->back_count - 1].to == range.from) {
        f->back[f->back_count - 1].to = range.to;
        return;
    }
    if (f->back_count < LIMIT_STREAM_RANGES) {
        f->back[f->back_count++] = range;
        return;
    }
    // Too many to remember: all from the lowest on is given out again. More is delivered twice, nothing is lost.
    for (u32 i = 0; i < f->back_count; i++) range.from = MIN(range.from, f->back[i].from);
    f->back_count = 0;
    f->position = MIN(f->position, range.from);
    f->reader_at = 0;
}

bool stream_lease_add(stream_member *m, stream_range range, u32 count) {
    stream_lease *l = malloc(sizeof(*l));
    if (l == NULL) return false;
    *l = (stream_lease){.range = range, .count = count};
    *m->last = l;
    m->last = &l->next;
    return true;
}

static void lease_pop(stream_member *m) {
    stream_lease *l = m->first;
    m->first = l->next;
    if (m->first == NULL) m->last = &m->first;
    free(l);
}

// An ask may come later than what was told after it had left.
static void member_done(stream_member *m, u64 done) {
    if (done <= m->done + m->in_lease) return;
    while (m->first != NULL && done - m->done >= m->first->count) {
        m->done += m->first->count;
        lease_pop(m);
    }
    m->in_lease = m->first == NULL ? 0 : done - m->done;
}

// --- feeds and members ---

static void feed_free(stream_feed *f) {
    stream_feed **at = &f->part->feeds;
    while (*at != f) at = &(*at)->next;
    *at = f->next;
    feed_unqueue(f);
    if (f->reader != NULL) store_reader_close(f->reader);
    free(f);
}

static void member_leave(stream_feed *f, stream_member *m) {
    stream_member **at = &f->members;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    if (m->held != NULL) refuse(f->of, m->held, 0);
    u64 acked = m->in_lease;
    while (m->first != NULL) {
        stream_range range = m->first->range;
        range.from += acked;
        acked = 0;
        if (f->members != NULL) stream_feed_give_back(f, range);
        lease_pop(m);
    }
    free(m);
    // The last one: what is not acknowledged is read again from the consumer's offset.
    if (f->members == NULL) feed_free(f);
    else stream_feed_queue(f);
}

static void feed_place(stream_feed *f, stream_from from) {
    const stream_part *p = f->part;
    const stream_mark *m;
    switch (from.kind) {
        case FROM_EARLIEST: f->position = p->first; break;
        case FROM_LATEST: f->position = p->next; break;
        case FROM_OFFSET: f->position = MAX(from.value, p->first); break;
        case FROM_TIME:
            m = stream_index_find_time(&p->index, from.value);
            f->position = m == NULL ? p->first : MAX(m->offset, p->first);
            f->time_from_ms = from.value;
            break;
    }
}

static stream_feed *feed_find(const stream_part *p, const stream_consumer *c) {
    for (stream_feed *f = p->feeds; f != NULL; f = f->next) {
        if (f->consumer == c) return f;
    }
    return NULL;
}

// The feed that an ask joins, or a new one. NULL with *result.
static stream_feed *feed_for(streams *s, stream_part *p, const stream_ask *a, int *result) {
    stream_consumer *c = NULL;
    bool fresh = false;
    if (a->consumer_len > 0) {
        fresh = stream_consumer_find(p, a->consumer, a->consumer_len) == NULL;
        c = stream_consumer_get(p, a->consumer, a->consumer_len);
        *result = -EUSERS;
        if (c == NULL) return NULL;
        stream_feed *f = feed_find(p, c);
        if (f != NULL) return f;
    }
    stream_feed *f = calloc(1, sizeof(*f));
    *result = -ENOMEM;
    if (f == NULL) return NULL;
    f->of = s;
    f->part = p;
    f->consumer = c;
    if (c == NULL || fresh) feed_place(f, a->from);
    else f->position = MAX(c->acked, p->first);
    f->next = p->feeds;
    p->feeds = f;
    consumer_moved(f);
    return f;
}

static stream_member *member_find(const streams *s, u64 id, stream_feed **feed) {
    for (u32 i = 0; i < s->count; i++) {
        for (stream_feed *f = s->parts[i]->feeds; f != NULL; f = f->next) {
            for (stream_member *m = f->members; m != NULL; m = m->next) {
                if (m->id != id) continue;
                *feed = f;
                return m;
            }
        }
    }
    return NULL;
}

static stream_member *member_make(streams *s, const stream_ask *a, stream_feed **feed, int *result) {
    stream_part *p = stream_part_find(s, a->number);
    *result = -ENOENT;
    if (p == NULL) return NULL;
    stream_feed *f = feed_for(s, p, a, result);
    if (f == NULL) return NULL;
    stream_member *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        *result = -ENOMEM;
        if (f->members == NULL) feed_free(f);
        return NULL;
    }
    m->id = a->id;
    m->last = &m->first;
    stream_member **at = &f->members; // at the end: they are served in turn
    while (*at != NULL) at = &(*at)->next;
    *at = m;
    *feed = f;
    return m;
}

void stream_feed_ask(streams *s, stream_ask *a) {
    stream_feed *f = NULL;
    int result = 0;
    stream_member *m = member_find(s, a->id, &f);
    if (m == NULL) m = member_make(s, a, &f, &result);
    if (m == NULL) {
        refuse(s, a, result);
        return;
    }
    m->held = a;
    member_done(m, a->done);
    consumer_moved(f);
    stream_feed_queue(f);
}

void stream_feed_stop(streams *s, u64 id, u64 done) {
    stream_feed *f;
    stream_member *m = member_find(s, id, &f);
    if (m == NULL) return;
    member_done(m, done);
    consumer_moved(f);
    member_leave(f, m);
}

void stream_feed_done(streams *s, u64 id, u64 done) {
    stream_feed *f;
    stream_member *m = member_find(s, id, &f);
    if (m == NULL) return;
    member_done(m, done);
    consumer_moved(f);
}

static stream_member *member_waiting(const stream_feed *f) {
    for (stream_member *m = f->members; m != NULL; m = m->next) {
        if (m->held != NULL) return m;
    }
    return NULL;
}

static void member_to_end(stream_feed *f, stream_member *m) {
    stream_member **at = &f->members;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    m->next = NULL;
    while (*at != NULL) at = &(*at)->next;
    *at = m;
}

static void feed_run(stream_feed *f, u32 *budget) {
    stream_member *m;
    while ((m = member_waiting(f)) != NULL) {
        if (!stream_page_fill(f, m, budget)) return;
        member_to_end(f, m);
    }
    consumer_moved(f);
}

// Those queued now; what they queue comes in the next turn.
static void work_run(timer_node *node, void *context) {
    (void)context;
    struct stream_feeds *all = CONTAINER_OF(node, struct stream_feeds, work_timer);
    u32 budget = LIMIT_STREAM_READS_TURN;
    for (u32 n = 0; all->work != NULL && n < LIMIT_STREAM_FEEDS_TURN && budget > 0; n++) {
        stream_feed *f = all->work;
        u32 share = MAX(budget / 4, 16u), left = share;
        feed_unqueue(f);
        feed_run(f, &left);
        budget -= MIN(budget, MAX(share - left, 1u));
    }
    if (all->work != NULL) timer_arm(all->of->owner->wheel, &all->work_timer, 0);
}

// --- consumers, for operators ---

static u32 members_of(const stream_part *p, const stream_consumer *c) {
    u32 count = 0;
    const stream_feed *f = feed_find(p, c);
    for (const stream_member *m = f == NULL ? NULL : f->members; m != NULL; m = m->next) count++;
    return count;
}

static void consumer_view(const stream_part *p, const stream_consumer *c, stream_consumer_view *out) {
    u64 from = MAX(c->acked, p->first);
    *out = (stream_consumer_view){.acked = c->acked, .lag = from < p->next ? p->next - from : 0,
                                  .changed_ms = c->changed_ms, .members = members_of(p, c), .number = p->number};
    memcpy(out->name, c->name, c->name_len);
}

u32 stream_consumers_view(const streams *s, const char *stream, stream_consumer_view *out, u32 max) {
    u32 count = 0;
    const stream_part *p;
    for (u32 nth = 0; (p = stream_part_named(s, stream, (u32)strlen(stream), nth)) != NULL; nth++) {
        for (const stream_consumer *c = p->consumers; c != NULL; c = c->next) {
            if (c->forgotten) continue;
            if (count < max) consumer_view(p, c, &out[count]);
            count++;
        }
    }
    return count;
}

int stream_consumer_forget(streams *s, const char *stream, const char *consumer) {
    int result = -ENOENT;
    stream_part *p;
    for (u32 nth = 0; (p = stream_part_named(s, stream, (u32)strlen(stream), nth)) != NULL; nth++) {
        stream_consumer *c = stream_consumer_find(p, consumer, (u32)strlen(consumer));
        if (c == NULL) continue;
        if (feed_find(p, c) != NULL) return -EBUSY;
        c->forgotten = c->dirty = true;
        result = 0;
    }
    stream_records_flush(s);
    return result;
}

// --- life ---

int stream_feeds_create(streams *s) {
    struct stream_feeds *f = calloc(1, sizeof(*f));
    if (f == NULL) return -ENOMEM;
    f->of = s;
    f->work_end = &f->work;
    f->work_timer.callback = work_run;
    f->ack_timer.callback = acks_write;
    f->answer_timer.callback = answers_retry;
    s->reading = f;
    return 0;
}

void stream_feeds_end(streams *s) {
    struct stream_feeds *all = s->reading;
    timer_cancel(s->owner->wheel, &all->work_timer);
    timer_cancel(s->owner->wheel, &all->ack_timer);
    timer_cancel(s->owner->wheel, &all->answer_timer);
    for (u32 i = 0; i < s->count; i++) {
        while (s->parts[i]->feeds != NULL) {
            stream_feed *f = s->parts[i]->feeds;
            while (f->members != NULL) {
                stream_member *m = f->members;
                f->members = m->next;
                while (m->first != NULL) lease_pop(m);
                free(m); // what it holds is its desk's
            }
            feed_free(f);
        }
    }
}

void stream_feeds_destroy(streams *s) {
    stream_feeds_end(s);
    free(s->reading);
}
