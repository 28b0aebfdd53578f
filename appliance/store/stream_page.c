// SPDX-License-Identifier: Apache-2.0
// stream_page.c: fills a page with messages of a partition, read from the log.
//
// Offsets are dense, so a hole is seen: messages that retention took, or that lie in a damaged place, are counted
// as missed and stepped over. A page never waits half filled: what is at hand goes out.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/stream_feed_state.h"
#include "worker.h"

#define STEP_OVER_BYTES (512u << 10) // so much log without a message of the partition is not read

// What is to be read next: a range that was given back, or from the position on.
static stream_range feed_wanted(const stream_feed *f) {
    return f->back_count > 0 ? f->back[0] : (stream_range){f->position, UINT64_MAX};
}

static void feed_advance(stream_feed *f, u64 to) {
    if (f->back_count == 0) {
        f->position = to;
        return;
    }
    f->back[0].from = to;
    if (f->back[0].from < f->back[0].to) return;
    f->back_count--;
    memmove(f->back, f->back + 1, f->back_count * sizeof(f->back[0]));
}

// Places the reader before an offset. False: no memory.
static bool reader_place(stream_feed *f, u64 offset) {
    const stream_part *p = f->part;
    if (f->reader != NULL && f->reader_at == offset) return true;
    store_pos at = streams_position(f->of, p->number, offset);
    if (at == 0) at = store_end(f->of->log);
    if (f->reader != NULL) store_reader_seek(f->reader, at);
    else f->reader = store_reader_open(f->of->log, at, stream_feed_ready, f);
    f->reader_at = offset;
    return f->reader != NULL;
}

// Room for a message; grows a page that has none for a large one. False: it does not fit any more.
static bool page_room(stream_ask *a, u32 bytes, int *result) {
    if (a->used + bytes <= a->size) return true;
    if (a->count > 0 && a->used + bytes > LIMIT_STREAM_PAGE_BYTES) return false;
    u32 size = MAX(MIN(MAX(a->size * 2, 4096u), LIMIT_STREAM_PAGE_BYTES), a->used + bytes);
    u8 *page = realloc(a->page, size);
    if (page == NULL) {
        *result = -ENOMEM;
        return false;
    }
    a->page = page;
    a->size = size;
    return true;
}

static bool page_put(stream_ask *a, const message_record *m, const stream_entry *e, int *result) {
    if (!page_room(a, (u32)sizeof(*e) + m->topic_len + m->props_len + m->payload_len, result)) return false;
    u8 *to = a->page + a->used;
    memcpy(to, e, sizeof(*e));
    to += sizeof(*e);
    memcpy(to, m->topic, m->topic_len);
    to += m->topic_len;
    if (m->props_len > 0) memcpy(to, m->props, m->props_len);
    to += m->props_len;
    if (m->payload_len > 0) memcpy(to, m->payload, m->payload_len);
    a->used += (u32)sizeof(*e) + m->topic_len + m->props_len + m->payload_len;
    a->count++;
    return true;
}

typedef enum step { STEP_GOES_ON, STEP_PAGE_IS_FULL, STEP_RANGE_ENDS, STEP_FAILS } step;

// The next mark, if nothing of this partition lies in a long way before it.
static void step_over(stream_feed *f, u64 next_offset, store_pos at) {
    const stream_mark *m = stream_index_next(&f->part->index, next_offset - 1);
    if (m != NULL && m->offset == next_offset && m->pos > at + STEP_OVER_BYTES) store_reader_seek(f->reader, m->pos);
}

// One record of the log.
static step feed_take(stream_feed *f, stream_member *member, const store_record *r, int *result) {
    message_record m;
    u32 at;
    stream_range want = feed_wanted(f);
    stream_ask *a = member->held;
    if (r->kind != STORE_MESSAGE || !message_record_parse(r->data, r->len, &m)) return STEP_GOES_ON;
    u64 offset = stream_offset_in(&m, f->part->number, &at);
    if (offset == 0 || offset < want.from) return STEP_GOES_ON;
    u64 hole = MIN(offset, want.to) - want.from;
    if (hole > 0) {
        member->missed += hole;
        counter_add(&f->part->counters.missing, hole);
        feed_advance(f, MIN(offset, want.to));
        f->reader_at = 0;
        if (offset >= want.to) return STEP_RANGE_ENDS;
    }
    if (r->time_ms >= f->time_from_ms) {
        const stream_entry e = {.offset = offset, .time_ms = r->time_ms, .props_present = m.props_present,
                                .topic_len = m.topic_len, .props_len = m.props_len, .payload_len = m.payload_len,
                                .qos = m.qos, .retain = m.retain};
        if (!page_put(a, &m, &e, result)) {
            store_reader_seek(f->reader, r->origin); // it is the first of the next page
            f->reader_at = offset;
            return *result != 0 ? STEP_FAILS : STEP_PAGE_IS_FULL;
        }
        f->time_from_ms = 0;
    }
    feed_advance(f, offset + 1);
    f->reader_at = f->leased_to = offset + 1;
    if (offset + 1 == want.to) return STEP_RANGE_ENDS;
    step_over(f, offset + 1, r->origin);
    return a->count == MIN(a->messages_max, LIMIT_STREAM_PAGE_MESSAGES) ? STEP_PAGE_IS_FULL : STEP_GOES_ON;
}

// What retention has taken from what is to be read.
static void skip_trimmed(stream_feed *f, stream_member *m) {
    for (;;) {
        stream_range want = feed_wanted(f);
        u64 first = f->part->first;
        if (want.from >= first) return;
        u64 to = MIN(first, want.to);
        m->missed += to - want.from;
        feed_advance(f, to);
    }
}

static bool feed_is_at_end(const stream_feed *f) {
    return f->back_count == 0 && f->position >= f->part->next;
}

// The page is the member's. from: the first offset that may be in it.
static void page_end(stream_feed *f, stream_member *m, u64 from, int result) {
    stream_ask *a = m->held;
    bool leased = f->consumer != NULL && a->count > 0;
    if (leased && !stream_lease_add(m, (stream_range){from, f->leased_to}, a->count)) {
        stream_feed_give_back(f, (stream_range){from, f->leased_to});
        a->count = a->used = 0;
        result = -ENOMEM;
    }
    a->result = result;
    a->next = f->position;
    a->end = feed_is_at_end(f);
    a->missed = m->missed;
    counter_add(&f->part->counters.delivered, a->count);
    m->held = NULL;
    stream_feed_answer(f->of, a);
}

bool stream_page_fill(stream_feed *f, stream_member *m, u32 *budget) {
    const stream_ask *a = m->held;
    store_record r;
    int result = 0;
    skip_trimmed(f, m);
    u64 from = feed_wanted(f).from;
    for (;;) {
        if (*budget == 0 && a->count == 0) {
            stream_feed_queue(f);
            return false;
        }
        if (*budget == 0) break;
        if (!reader_place(f, feed_wanted(f).from)) {
            result = -ENOMEM;
            break;
        }
        --*budget;
        int got = store_reader_next(f->reader, &r);
        if (got == 0 && a->count == 0 && (a->wait || !feed_is_at_end(f))) return false; // stream_feed_ready follows
        if (got == 0) break;
        if (got < 0) continue; // a damaged place: the next record shows how much is missing
        step next = feed_take(f, m, &r, &result);
        if (next == STEP_GOES_ON) continue;
        if (next != STEP_RANGE_ENDS || a->count > 0) break;
        skip_trimmed(f, m);
        from = feed_wanted(f).from;
    }
    page_end(f, m, from, result);
    return true;
}
