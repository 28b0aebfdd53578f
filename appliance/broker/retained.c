// SPDX-License-Identifier: Apache-2.0
// retained.c: readers of retained messages. A reader walks its own worker's part with a cursor, then
// asks each other worker for its part, page by page: PARCEL_READ makes a cursor there, a PARCEL_PAGE
// brings messages, and the page's way home, when all in it are delivered, asks for the next one. So
// a slow subscriber holds one page and nothing is copied ahead of it.
//
// Everything is done in turns of bounded length, from one timer; nothing is delivered inside the calls
// of the interface. A callback may end any reader, so after each one the reader is looked up again.
#include "broker/retained.h"

#include <errno.h>
#include <string.h>

#include "base/siphash.h"
#include "broker/route.h"

#define VERDICT_NS NS_PER_S       // an answer of a full part counts so long
#define AGAIN_NS (20 * NS_PER_MS) // no memory: tried again after so long
#define BEHIND_NS NS_PER_MS       // a keeper that has not met all yet is looked at again after so long

// A message in a page, followed by its topic, properties and payload.
typedef struct page_entry {
    u64 props_present, expires_ns, published_ns, publisher, retain_serial;
    u32 topic_len, props_len, payload_len;
    u32 qos;
} page_entry;

// --- readers with work to do ---

static void work_soon(broker *b, u64 delay_ns) {
    u64 due = delay_ns == 0 ? 0 : b->owner->now_ns + delay_ns; // 0: in the next turn, not a tick later
    timer_node *timer = &b->retained.timer;
    if (timer_is_armed(timer) && timer->due_ns <= due) return;
    timer_arm(b->owner->wheel, timer, due);
}

static void queue(broker *b, retained_reader *r, u64 delay_ns) {
    retained_part *part = &b->retained;
    work_soon(b, delay_ns);
    if (r->queued) return;
    r->queued = true;
    r->next = NULL;
    r->prev = part->last;
    *(part->last != NULL ? &part->last->next : &part->first) = r;
    part->last = r;
}

static void unqueue(broker *b, retained_reader *r) {
    if (!r->queued) return;
    r->queued = false;
    retained_part *part = &b->retained;
    *(r->prev != NULL ? &r->prev->next : &part->first) = r->next;
    *(r->next != NULL ? &r->next->prev : &part->last) = r->prev;
}

static retained_reader *reader_find(const broker *b, u64 number) {
    table_link *at = table_first(&b->retained.readers, number);
    return at == NULL ? NULL : CONTAINER_OF(at, retained_reader, link);
}

// --- marks ---

static bool mark_is_current(const broker *b, const retained_mark *mark) {
    for (u32 i = 0; i < b->owner->gw->worker_count; i++) {
        if (mark->met[i] != counter_get(&b->seen.met[i])) return false;
    }
    return true;
}

retained_mark *retained_mark_take(broker *b) {
    retained_mark *mark = b->retained.mark;
    if (mark == NULL || !mark_is_current(b, mark)) {
        u32 workers = b->owner->gw->worker_count;
        u32 bytes = (u32)(sizeof(*mark) + workers * sizeof(mark->met[0]));
        mark = pool_alloc(b->memory, bytes);
        if (mark == NULL) return NULL;
        *mark = (retained_mark){.bytes = bytes};
        for (u32 i = 0; i < workers; i++) mark->met[i] = counter_get(&b->seen.met[i]);
        b->retained.mark = mark;
    }
    mark->refs++;
    return mark;
}

void retained_mark_release(broker *b, retained_mark *mark) {
    if (mark == NULL || --mark->refs > 0) return;
    if (b->retained.mark == mark) b->retained.mark = NULL;
    pool_free(b->memory, mark, mark->bytes);
}

// --- readers ---

static void reader_free(broker *b, retained_reader *r) {
    if (r->part > 0 && b->owner->gw->worker_count > 1) retained_abroad(b, false);
    cursor_destroy(&b->retained, r->cursor);
    retained_mark_release(b, r->mark);
    pool_free(b->memory, r->filter, r->filter_len);
    r->cursor = NULL;
    r->mark = NULL;
    r->filter = NULL;
}

int retained_read_start(broker *b, retained_reader *r, const char *filter, u32 len, subscriber *s,
                        const subscription_options *o, retained_mark *mark) {
    ASSERT(!r->started && topic_filter_is_valid(filter, len));
    void (*done)(retained_reader *) = r->done;
    *r = (retained_reader){.done = done, .subscriber = s, .options = *o, .filter_len = len, .mark = mark};
    if (mark != NULL) mark->refs++;
    else r->mark = retained_mark_take(b);
    r->filter = pool_alloc(b->memory, len);
    r->cursor = cursor_create(&b->retained, filter, len);
    if (r->mark == NULL || r->filter == NULL || r->cursor == NULL) {
        reader_free(b, r);
        return -ENOMEM;
    }
    memcpy(r->filter, filter, len);
    r->started = true;
    table_insert(&b->retained.readers, &r->link, ++b->retained.reader_number);
    queue(b, r, 0);
    return 0;
}

void retained_read_more(broker *b, retained_reader *r) {
    if (!r->started || !r->waits) return;
    r->waits = false;
    r->again = true;
    queue(b, r, 0);
}

static void page_return(broker *b, retained_reader *r, bool no_more) {
    parcel_slot *slot = r->page;
    r->page = NULL;
    r->page_at = 0;
    slot->refused = no_more;
    parcel_return(b, slot);
}

void retained_read_stop(broker *b, retained_reader *r) {
    if (!r->started) return;
    r->started = false;
    unqueue(b, r);
    table_remove(&b->retained.readers, &r->link);
    if (r->page != NULL) page_return(b, r, true);
    reader_free(b, r);
}

static void finish(broker *b, retained_reader *r) {
    retained_read_stop(b, r);
    if (r->done != NULL) r->done(r);
}

// --- delivering ---

typedef enum offered { OFFER_GOES_ON, OFFER_STOPS } offered; // stops: refused, or the reader has gone

static offered offer(broker *b, retained_reader *r, const publication *p, message **stored) {
    u64 number = r->link.hash;
    u32 id = r->options.id;
    if (r->options.no_local && p->publisher == r->subscriber->number) return OFFER_GOES_ON;
    // The subscription brings it.
    if (p->retain_serial > r->mark->met[retain_serial_origin(p->retain_serial)]) return OFFER_GOES_ON;
    delivery d = {.publication = p, .qos = MIN(p->qos, r->options.qos), .retain = true,
                  .retained = true, .subscription_ids = &id, .subscription_id_count = id != 0,
                  .broker = b, .stored = stored};
    broker_enter(b);
    delivery_result result = r->subscriber->ops->deliver(r->subscriber, &d);
    broker_leave(b);
    worker_metrics *m = &b->owner->metrics;
    if (result == DELIVERY_TAKEN) counter_add(&m->delivered, 1);
    if (result == DELIVERY_DROPPED) counter_add(&m->delivery_dropped, 1);
    if (reader_find(b, number) != r) return OFFER_STOPS;
    if (result != DELIVERY_REFUSED) return OFFER_GOES_ON;
    r->waits = true;
    return OFFER_STOPS;
}

static offered offer_stored(broker *b, retained_reader *r, message *m) {
    publication p = message_publication(m);
    message *stored = message_ref(m); // a callback may replace it
    offered result = offer(b, r, &p, &stored);
    message_unref(stored);
    return result;
}

// This worker's part. True: at its end.
static bool read_here(broker *b, retained_reader *r, u32 *steps) {
    message *m = r->again ? cursor_message(&b->retained, r->cursor) : NULL;
    r->again = false;
    for (;;) {
        if (m != NULL && offer_stored(b, r, m) == OFFER_STOPS) return false;
        m = cursor_next(&b->retained, r->cursor, steps);
        if (m == NULL) break;
    }
    if (!cursor_is_at_end(r->cursor)) {
        queue(b, r, 0);
        return false;
    }
    cursor_destroy(&b->retained, r->cursor);
    r->cursor = NULL;
    return true;
}

static u32 page_read(const u8 *from, publication *p) {
    page_entry e;
    memcpy(&e, from, sizeof(e));
    const u8 *bytes = from + sizeof(e);
    *p = (publication){
        .topic = (const char *)bytes, .topic_len = e.topic_len,
        .props = bytes + e.topic_len, .props_len = e.props_len, .props_present = e.props_present,
        .payload = bytes + e.topic_len + e.props_len, .payload_len = e.payload_len,
        .expires_ns = e.expires_ns, .published_ns = e.published_ns, .publisher = e.publisher,
        .retain_serial = e.retain_serial, .qos = (u8)e.qos, .retain = true};
    return (u32)sizeof(e) + e.topic_len + e.props_len + e.payload_len;
}

// The page at hand. True: that was the part's last one.
static bool read_page(broker *b, retained_reader *r, u32 *steps) {
    r->again = false;
    const parcel *page = r->page->of;
    const u8 *body = parcel_body(r->page->of);
    while (r->page_at < page->body_bytes) {
        if (*steps == 0) {
            queue(b, r, 0);
            return false;
        }
        --*steps;
        publication p;
        u32 bytes = page_read(body + r->page_at, &p);
        bool passed = p.expires_ns != 0 && p.expires_ns <= b->owner->now_ns;
        passed = passed || retained_is_overtaken(b, r->mark, &p);
        message *stored = NULL;
        offered result = passed ? OFFER_GOES_ON : offer(b, r, &p, &stored);
        if (stored != NULL) message_unref(stored);
        if (result == OFFER_STOPS) return false;
        r->page_at += bytes;
    }
    bool last = page->retained.cursor == NULL;
    r->asking = !last;
    page_return(b, r, last);
    return last;
}

static u32 part_worker(const broker *b, const retained_reader *r) {
    return (b->owner->index + r->part) % b->owner->gw->worker_count;
}

// Whether the part's keeper has met what others had posted to it (retained_seen.h). Its own messages are
// stored at once, those of this worker come before the question. One publisher's worker after the other:
// a target that is taken later only asks for more, and each is met in a bounded time.
static bool keeper_has_met(const broker *b, retained_reader *r, u32 keeper) {
    const gateway *gw = b->owner->gw;
    const retained_seen *there = &gw->workers[keeper].broker->seen;
    for (; r->origin < gw->worker_count; r->origin++, r->posted = 0) {
        if (r->origin == keeper || r->origin == b->owner->index) continue;
        if (r->posted == 0) r->posted = counter_get(&gw->workers[r->origin].broker->seen.posted[keeper]);
        if (counter_get(&there->met[r->origin]) < r->posted) return false;
    }
    return true;
}

static void ask(broker *b, retained_reader *r) {
    u32 keeper = part_worker(b, r);
    u64 to = worker_bit(keeper);
    if (!keeper_has_met(b, r, keeper)) {
        queue(b, r, BEHIND_NS);
        return;
    }
    parcel *p = parcel_create(b, PARCEL_READ, to, 0, r->filter_len);
    if (p == NULL) {
        queue(b, r, AGAIN_NS);
        return;
    }
    p->retained.reader = r->link.hash;
    memcpy(parcel_body(p), r->filter, r->filter_len);
    r->asking = true;
    parcel_send(b, p, WM_ROUTE);
}

static void read_on(broker *b, retained_reader *r, u32 *steps) {
    if (r->waits || r->asking) return;
    u64 number = r->link.hash;
    bool ended;
    if (r->part == 0) {
        ended = read_here(b, r, steps);
    } else if (r->page != NULL) {
        ended = read_page(b, r, steps);
    } else {
        ask(b, r);
        return;
    }
    if (!ended || reader_find(b, number) != r) return;
    r->origin = 0;
    if (r->part == 0 && b->owner->gw->worker_count > 1) retained_abroad(b, true);
    if (++r->part == b->owner->gw->worker_count) {
        finish(b, r);
    } else {
        queue(b, r, 0);
    }
}

// --- this worker's part for others ---

typedef struct page {
    message *messages[LIMIT_RETAINED_PAGE_MESSAGES];
    u32 count, bytes;
} page;

static u32 entry_bytes(const message *m) {
    return (u32)sizeof(page_entry) + m->topic_len + m->props_len + m->payload_len;
}

// Gathers what goes into one page. The cursor stands on the last message in it.
static void page_gather(retained_part *part, retained_cursor *c, page *out) {
    u32 steps = LIMIT_RETAINED_TURN;
    *out = (page){.count = 0};
    while (out->count < LIMIT_RETAINED_PAGE_MESSAGES && out->bytes < LIMIT_RETAINED_PAGE_BYTES) {
        cursor_position before = cursor_mark(c);
        message *m = cursor_next(part, c, &steps);
        bool over = m != NULL && out->count > 0 &&
                    out->bytes + entry_bytes(m) > LIMIT_RETAINED_PAGE_BYTES;
        if (over) {
            cursor_back(part, c, before);
            return;
        }
        cursor_unmark(part, before);
        if (m == NULL) return;
        out->messages[out->count++] = m;
        out->bytes += entry_bytes(m);
    }
}

static void page_write(const page *from, u8 *out) {
    for (u32 i = 0; i < from->count; i++) {
        const message *m = from->messages[i];
        page_entry e = {.props_present = m->props_present, .expires_ns = m->expires_ns,
                        .published_ns = m->published_ns, .publisher = m->publisher,
                        .retain_serial = m->retain_serial, .topic_len = m->topic_len,
                        .props_len = m->props_len, .payload_len = m->payload_len, .qos = m->qos};
        memcpy(out, &e, sizeof(e));
        memcpy(out + sizeof(e), m->bytes, entry_bytes(m) - sizeof(e));
        out += entry_bytes(m);
    }
}

static void starve(broker *b, retained_cursor *c) {
    c->next = b->retained.starved;
    b->retained.starved = c;
    broker_retry_later(b);
}

static void page_send(broker *b, retained_cursor *c) {
    retained_part *part = &b->retained;
    page gathered;
    cursor_position before = cursor_mark(c);
    page_gather(part, c, &gathered);
    parcel *p = parcel_create(b, PARCEL_PAGE, worker_bit(c->worker), 0, gathered.bytes);
    if (p == NULL) {
        cursor_back(part, c, before);
        starve(b, c);
        return;
    }
    cursor_unmark(part, before);
    page_write(&gathered, parcel_body(p));
    p->retained.reader = c->reader;
    p->retained.cursor = cursor_is_at_end(c) ? NULL : c;
    if (cursor_is_at_end(c)) cursor_destroy(part, c);
    parcel_send(b, p, WM_ROUTE);
}

void retained_retry(broker *b) {
    retained_cursor *c = b->retained.starved;
    b->retained.starved = NULL;
    while (c != NULL) {
        retained_cursor *next = c->next;
        page_send(b, c);
        c = next;
    }
}

static void read_received(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    retained_cursor *c = cursor_create(&b->retained, (const char *)parcel_body(p), p->body_bytes);
    slot->refused = c == NULL;
    if (c != NULL) {
        c->reader = p->retained.reader;
        c->worker = (u16)p->origin;
    }
    parcel_return(b, slot);
    if (c != NULL) page_send(b, c);
}

static void ask_received(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    slot->refused = !retained_exists(&b->retained, (const char *)parcel_body(p), p->body_bytes);
    parcel_return(b, slot);
}

static void page_received(broker *b, parcel_slot *slot) {
    retained_reader *r = reader_find(b, slot->of->retained.reader);
    if (r == NULL) {
        slot->refused = true;
        parcel_return(b, slot);
        return;
    }
    r->asking = false;
    r->page = slot;
    r->page_at = 0;
    queue(b, r, 0);
}

void retained_received(broker *b, parcel_slot *slot) {
    if (slot->of->kind == PARCEL_READ) {
        read_received(b, slot);
    } else if (slot->of->kind == PARCEL_ASK) {
        ask_received(b, slot);
    } else {
        page_received(b, slot);
    }
}

// --- a full part of another worker ---

static retained_verdict *verdict_of(broker *b, u64 hash) {
    return &b->retained.verdicts[hash % ARRAY_LEN(b->retained.verdicts)];
}

int retained_ask(broker *b, u32 keeper, const publication *p) {
    u64 hash = siphash24(siphash_process_key(), p->topic, p->topic_len) | 1;
    retained_verdict *v = verdict_of(b, hash);
    if (v->hash == hash && v->until_ns == 0) return -EAGAIN;
    if (v->hash == hash && v->until_ns > b->owner->now_ns) {
        v->used = true;
        return v->admitted ? 0 : -ENOSPC;
    }
    // Another topic's answer is on its way, or has just come.
    u64 now = b->owner->now_ns;
    bool fresh = v->until_ns == 0 || (!v->used && now + VERDICT_NS < v->until_ns + AGAIN_NS);
    if (v->hash != 0 && fresh) return -EAGAIN;
    parcel *made = parcel_create(b, PARCEL_ASK, worker_bit(keeper), 0, p->topic_len);
    if (made == NULL) return -ENOSPC;
    memcpy(parcel_body(made), p->topic, p->topic_len);
    made->retained.reader = hash;
    *v = (retained_verdict){.hash = hash};
    parcel_send(b, made, WM_ROUTE);
    return -EAGAIN;
}

static void ask_returned(broker *b, parcel_slot *slot) {
    retained_verdict *v = verdict_of(b, slot->of->retained.reader);
    v->admitted = !slot->refused;
    v->until_ns = b->owner->now_ns + VERDICT_NS;
    parcel_release(b, slot->of);
}

void retained_returned(broker *b, parcel_slot *slot) {
    parcel *p = slot->of;
    if (p->kind == PARCEL_PAGE) {
        retained_cursor *c = p->retained.cursor;
        bool no_more = slot->refused;
        parcel_release(b, p);
        if (c != NULL && no_more) cursor_destroy(&b->retained, c);
        if (c != NULL && !no_more) page_send(b, c);
        return;
    }
    if (p->kind == PARCEL_ASK) {
        ask_returned(b, slot);
        return;
    }
    retained_reader *r = slot->refused ? reader_find(b, p->retained.reader) : NULL;
    parcel_release(b, p);
    if (r == NULL) return;
    r->asking = false;
    queue(b, r, AGAIN_NS);
}

// One turn: readers take turns until the budget of steps is used up.
void retained_turn(broker *b) {
    retained_part *part = &b->retained;
    u32 steps = LIMIT_RETAINED_TURN;
    // Those queued now; what they queue comes in the next turn.
    for (retained_reader *last = part->last; part->first != NULL && steps > 0;) {
        retained_reader *r = part->first;
        bool ends = r == last;
        unqueue(b, r);
        u32 share = MIN(steps, LIMIT_RETAINED_TURN / 8), left = share;
        read_on(b, r, &left);
        steps -= MAX(share - left, 1u);
        if (ends) break;
    }
    bool more = retained_overtaken_sweep(b, LIMIT_RETAINED_TURN);
    if (more || (steps == 0 && part->first != NULL)) work_soon(b, 0);
}
