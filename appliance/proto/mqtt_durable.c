// SPDX-License-Identifier: Apache-2.0
// mqtt_durable.c: what changes in durable sessions, on its way into the log. Changes of a turn are one
// record. A session whose whole state is to be written (a client connects, or a change found no memory) is
// written behind them; while that is not possible nothing is promised to anybody (durable_behind). A log that takes
// nothing, because it is full or has failed, is no reason to forget a change: a start would go on from the state
// before it, and bring back what was acknowledged away. It is all written as soon as the log takes it.
#include "proto/mqtt_durable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/siphash.h"
#include "broker/durable.h"

#define CHANGES_MIN 1024u
#define CHANGES_MAX (256u << 10) // more is not gathered: the sessions concerned are written as a whole
#define CHANGES_ENDED_MAX (CHANGES_MAX + (128u << 10)) // but that one has ended: nothing else would tell of it
#define BEHIND_BYTES (64u << 10) // from here on clients wait
#define PART_BYTES (60u << 10)   // of a snapshot in one record
#define RETRY_NS (2 * NS_PER_MS)
#define REFUSED_RETRY_NS (100 * NS_PER_MS)

static void flush_soon(mqtt_durable *d, u64 delay_ns) {
    worker *w = d->all->owner;
    u64 due = delay_ns == 0 ? 0 : w->now_ns + delay_ns;
    if (timer_is_armed(&d->timer) && d->timer.due_ns <= due) return;
    timer_arm(w->wheel, &d->timer, due);
}

static void flushed(mqtt_durable *d, store_pos pos);

// Not now: at another time.
static void flush_later(mqtt_durable *d) {
    flush_soon(d, d->refused != 0 ? REFUSED_RETRY_NS : RETRY_NS);
}

// How the log took a piece of state. When it takes nothing, what was gathered is kept and what is in flight stays held
// until it does; but who waits for an answer is told, in a turn of its own, and nobody else has to wait.
static void taken(mqtt_durable *d, int result) {
    int refused = result == -ENOSPC ? -EDQUOT : result == -EIO ? -EIO : 0;
    if (refused != d->refused) durable_refuses(d->all->owner->broker, refused);
    d->refused = refused;
    if (refused != 0) flush_later(d);
}

static void owed_refuse(mqtt_durable *d) {
    store_waiter *owed = d->owed;
    d->owed = NULL;
    while (owed != NULL) {
        store_waiter *next = owed->next;
        owed->next = NULL;
        pledge_part_done(CONTAINER_OF(owed, pledge, waiter), d->refused);
        owed = next;
    }
}

static void dirty_write(mqtt_durable *d) {
    while (d->dirty != NULL) {
        mqtt_keep *k = d->dirty;
        u32 bytes;
        if (!mqtt_keep_write(d, k, &bytes)) {
            flush_later(d);
            return;
        }
        d->dirty = k->dirty_next;
        k->dirty = false;
        durable_behind(d->all->owner->broker, -1);
    }
    // What waits for changes that are part of what has just been written.
    if (d->used == 0) flushed(d, d->last_pos);
}

static void later(timer_node *node, void *context) {
    (void)context;
    mqtt_durable *d = CONTAINER_OF(node, mqtt_durable, later_timer);
    mqtt_keep *k = d->later;
    d->later = NULL;
    while (k != NULL) {
        mqtt_keep *next = k->later_next;
        k->later_listed = false;
        mqtt_queue_pump(k->session);
        k = next;
    }
}

void mqtt_durable_pump_later(mqtt_session *s) {
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    mqtt_keep *k = s->keep;
    if (k->later_listed) return;
    k->later_listed = true;
    k->later_next = d->later;
    d->later = k;
    if (!timer_is_armed(&d->later_timer)) {
        timer_arm(s->owner->wheel, &d->later_timer, s->owner->now_ns + RETRY_NS);
    }
}

static void due(timer_node *node, void *context) {
    (void)context;
    mqtt_durable *d = CONTAINER_OF(node, mqtt_durable, timer);
    if (!mqtt_durable_flush(d)) flush_later(d);
    else dirty_write(d);
    if (d->refused != 0) owed_refuse(d);
}

mqtt_durable *mqtt_durable_create(mqtt_sessions *all, store *log) {
    mqtt_durable *d = calloc(1, sizeof(*d));
    if (d == NULL) return NULL;
    d->all = all;
    d->log = log;
    d->timer.callback = due;
    d->later_timer.callback = later;
    d->restoring = 1;
    d->round = 1;
    if (table_init(&d->numbers, broker_pool(all->owner->broker)) < 0) {
        free(d);
        return NULL;
    }
    mqtt_durable_register(d);
    return d;
}

void mqtt_durable_destroy(mqtt_durable *d) {
    if (d == NULL) return;
    timer_cancel(d->all->owner->wheel, &d->timer);
    timer_cancel(d->all->owner->wheel, &d->later_timer);
    timer_cancel(d->all->owner->wheel, &d->clock_timer);
    free(d);
}

bool mqtt_durable_is_behind(const mqtt_sessions *all) {
    const mqtt_durable *d = all->durable;
    return d != NULL && d->refused == 0 && (d->used > BEHIND_BYTES || d->dirty != NULL);
}

int mqtt_durable_may_grow(const mqtt_session *s) {
    const mqtt_durable *d = mqtt_sessions_of(s)->durable;
    if (s->keep == NULL) return 0;
    if (d->refused != 0) return d->refused;
    int result = store_room(d->log, 0, CHANGES_MIN);
    return result == -ENOSPC ? -EDQUOT : result == -EIO ? -EIO : 0;
}

// --- writing ---

// What waited for the changes waits for their record now.
static void flushed(mqtt_durable *d, store_pos pos) {
    if (d->dirty != NULL) return; // a session that is to be written whole is not in the log yet, nor what it is told
    store_waiter *owed = d->owed;
    d->owed = NULL;
    while (owed != NULL) {
        store_waiter *next = owed->next;
        pledge *p = CONTAINER_OF(owed, pledge, waiter);
        owed->next = NULL;
        pledge_on_log(p, d->log, pos);
        pledge_part_done(p, 0);
        owed = next;
    }
    mqtt_keep *k = d->flush;
    d->flush = NULL;
    while (k != NULL) {
        mqtt_keep *next = k->flush_next;
        k->flush_listed = false;
        mqtt_outbound *out = k->session->out;
        for (mqtt_entry *e = out == NULL ? NULL : out->in_flight.head; e != NULL; e = e->next) {
            if (e->hold_pos == MQTT_HOLD_FLUSH) mqtt_durable_hold_at(k->session, e, pos);
        }
        k = next;
    }
}

static int changes_append(const mqtt_durable *d, store_pos *pos) {
    struct iovec part = {d->changes, d->used};
    *pos = 0;
    return store_append(d->log, STORE_SESSION, STORE_VITAL, &part, 1, pos);
}

static void changes_taken(mqtt_durable *d, store_pos pos) {
    d->used = 0;
    d->round++;
    d->last_pos = pos;
    if (d->ended) d->ended_pos = pos;
    d->ended = false;
    flushed(d, pos);
}

bool mqtt_durable_flush(mqtt_durable *d) {
    if (d->used == 0) return true;
    store_pos pos;
    int result = changes_append(d, &pos);
    taken(d, result);
    if (result == 0) changes_taken(d, pos);
    return result == 0;
}

void mqtt_durable_finish(mqtt_durable *d) {
    if (mqtt_durable_flush(d)) dirty_write(d);
}

void mqtt_durable_note_sent(mqtt_session *s) {
    s->keep->sent_round = mqtt_sessions_of(s)->durable->round;
}

bool mqtt_durable_sent_is_written(const mqtt_session *s) {
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    if (s->keep->sent_round != d->round || d->used == 0) return true;
    store_pos pos;
    // Who waits for them is not told of a failure here, amid the routing of a message, but by the next flush.
    if (changes_append(d, &pos) < 0) return false;
    changes_taken(d, pos);
    return true;
}

static bool changes_room(mqtt_durable *d, u32 bytes, u32 most) {
    if (d->used == 0) bytes++;
    if (d->size - d->used >= bytes) return true;
    u64 size = MAX(MIN((u64)d->size * 2, (u64)most), MAX((u64)d->used + bytes, (u64)CHANGES_MIN));
    pool *memory = broker_pool(d->all->owner->broker);
    u8 *changes = (u64)d->used + bytes > most ? NULL : pool_alloc(memory, size);
    if (changes == NULL) return false;
    if (d->used > 0) memcpy(changes, d->changes, d->used);
    pool_free(memory, d->changes, d->size);
    d->changes = changes;
    d->size = (u32)size;
    return true;
}

static void make_dirty(mqtt_durable *d, mqtt_keep *k) {
    flush_soon(d, 0);
    if (k->dirty) return;
    k->dirty = true;
    k->dirty_next = d->dirty;
    d->dirty = k;
    durable_behind(d->all->owner->broker, 1);
}

void mqtt_durable_write(mqtt_durable *d, const mqtt_change *c) {
    u32 bytes = mqtt_change_bytes(c);
    u32 most = c->kind == MQTT_CHANGE_GONE       ? CHANGES_ENDED_MAX
               : c->kind == MQTT_CHANGE_WILL_DUE ? CHANGES_MAX + bytes // nothing else would tell of it either
                                                 : CHANGES_MAX;
    if (!changes_room(d, bytes, most) && !(mqtt_durable_flush(d) && changes_room(d, bytes, most))) {
        mqtt_keep *k = mqtt_keep_find(d, c->session);
        if (k != NULL) make_dirty(d, k);
        if (c->kind == MQTT_CHANGE_GONE) log_warn("a session's end is not in the log: a start may find it again");
        if (c->kind == MQTT_CHANGE_WILL_DUE) log_warn("a will that is being published is not in the log: no memory");
        return;
    }
    if (d->used == 0) d->changes[d->used++] = MQTT_RECORD_CHANGES;
    (void)mqtt_change_write(d->changes + d->used, c);
    d->used += bytes;
    d->ended = d->ended || c->kind == MQTT_CHANGE_GONE;
    flush_soon(d, 0);
}

void mqtt_durable_change(mqtt_session *s, mqtt_change *c) {
    if (s->keep == NULL) return;
    c->session = s->keep->by_number.hash;
    mqtt_durable_write(mqtt_sessions_of(s)->durable, c);
}

void mqtt_durable_change_id(mqtt_session *s, mqtt_change_kind kind, u16 id) {
    mqtt_change c = {.kind = (u8)kind, .id = id};
    mqtt_durable_change(s, &c);
}

static u64 number_of(const mqtt_session *s) {
    return worker_place_hash(s->id, s->client.id_len);
}

pledge *mqtt_durable_owe(const mqtt_session *s) {
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    pledge *p = pledge_create(mqtt_broker(s));
    if (p == NULL) return NULL;
    pledge_on_part(p);
    store_waiter **at = &d->owed; // in order, so that they are settled in order
    while (*at != NULL) at = &(*at)->next;
    *at = &p->waiter;
    return p;
}

static int owe_at(const mqtt_session *s, store_pos pos, pledge **owed) {
    const mqtt_durable *d = mqtt_sessions_of(s)->durable;
    *owed = NULL;
    if (pos == 0 || store_is_durable(d->log, pos)) return 0;
    if ((*owed = pledge_create(mqtt_broker(s))) == NULL) return -ENOMEM;
    pledge_on_log(*owed, d->log, pos);
    return 0;
}

int mqtt_durable_owe_rest(const mqtt_session *s, pledge **owed) {
    const mqtt_durable *d = mqtt_sessions_of(s)->durable;
    if (d->used == 0 && d->dirty == NULL) return owe_at(s, d->last_pos, owed);
    *owed = mqtt_durable_owe(s);
    return *owed == NULL ? -ENOMEM : 0;
}

// Whether the end of an earlier session of this client is among what was gathered.
static bool end_is_gathered(const mqtt_durable *d, u64 number) {
    if (!d->ended) return false;
    cursor at = cursor_of(d->changes, d->used);
    mqtt_change c;
    (void)cursor_u8(&at);
    while (mqtt_change_next(&at, &c) == 1) {
        if (c.kind == MQTT_CHANGE_GONE && c.session == number) return true;
    }
    return false;
}

int mqtt_durable_owe_ended(const mqtt_session *s, pledge **owed) {
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    *owed = NULL;
    if (d == NULL) return 0;
    if (!end_is_gathered(d, number_of(s))) return owe_at(s, d->ended_pos, owed);
    *owed = mqtt_durable_owe(s);
    return *owed == NULL ? -ENOMEM : 0;
}

// --- holding ---

static void hold_over(store_waiter *w, int result) {
    (void)result; // a failed log: what is sent now may come twice after a restart, which is better than never
    mqtt_keep *k = CONTAINER_OF(w, mqtt_keep, hold);
    mqtt_session *s = k->session;
    k->holding = false;
    for (mqtt_entry *e = s->out == NULL ? NULL : s->out->in_flight.head; e != NULL; e = e->next) {
        if (e->hold_pos != 0 && e->hold_pos <= w->upto) mqtt_durable_release(s, e);
    }
    u64 last = 0;
    for (mqtt_entry *e = s->out == NULL ? NULL : s->out->in_flight.head; e != NULL; e = e->next) {
        if (e->hold_pos != MQTT_HOLD_FLUSH) last = MAX(last, e->hold_pos);
    }
    if (last != 0) {
        k->holding = true;
        store_wait(mqtt_sessions_of(s)->durable->log, last, w);
    }
    mqtt_queue_pump(s);
}

void mqtt_durable_hold_at(mqtt_session *s, mqtt_entry *e, store_pos pos) {
    mqtt_keep *k = s->keep;
    if (e->hold_pos == 0) k->held++;
    e->hold_pos = pos;
    if (k->holding) return;
    k->holding = true;
    k->hold.done = hold_over;
    store_wait(mqtt_sessions_of(s)->durable->log, pos, &k->hold);
}

void mqtt_durable_hold(mqtt_session *s, mqtt_entry *e) {
    mqtt_keep *k = s->keep;
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    if (e->hold_pos == 0) k->held++;
    e->hold_pos = MQTT_HOLD_FLUSH;
    if (k->flush_listed) return;
    k->flush_listed = true;
    k->flush_next = d->flush;
    d->flush = k;
    flush_soon(d, 0);
}

void mqtt_durable_release(mqtt_session *s, mqtt_entry *e) {
    if (e->hold_pos == 0) return;
    e->hold_pos = 0;
    s->keep->held--;
}

// --- sessions ---

mqtt_keep *mqtt_keep_find(const mqtt_durable *d, u64 number) {
    table_link *at = table_first(&d->numbers, number);
    return at == NULL ? NULL : CONTAINER_OF(at, mqtt_keep, by_number);
}

mqtt_keep *mqtt_keep_create(mqtt_session *s) {
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    u64 number = number_of(s);
    if (number == 0 || mqtt_keep_find(d, number) != NULL) return NULL; // once in 2^64
    mqtt_keep *k = pool_alloc(mqtt_pool(s), sizeof(*k));
    if (k == NULL) return NULL;
    memset(k, 0, sizeof(*k));
    k->session = s;
    table_insert(&d->numbers, &k->by_number, number);
    k->next = d->first;
    if (k->next != NULL) k->next->prev = k;
    d->first = k;
    s->keep = k;
    s->subscriber.durable = true;
    durable_count(mqtt_broker(s), 1);
    return k;
}

void mqtt_keep_account(mqtt_keep *k) {
    worker_metrics *m = mqtt_metrics(k->session);
    counter_add(&m->mqtt_queued, (u64)k->backlog.count - k->counted);
    counter_add(&m->mqtt_queued_bytes, k->backlog.bytes - k->counted_bytes);
    counter_add(&m->mqtt_queued_log, (u64)k->backlog.count - k->counted);
    k->counted = k->backlog.count;
    k->counted_bytes = k->backlog.bytes;
    mqtt_queue_watch(k->session);
}

static void unlist(mqtt_durable *d, mqtt_keep *k) {
    if (d->checkpoint == k) d->checkpoint = k->next;
    *(k->prev != NULL ? &k->prev->next : &d->first) = k->next;
    if (k->next != NULL) k->next->prev = k->prev;
    if (k->dirty) {
        mqtt_keep **at = &d->dirty;
        while (*at != k) at = &(*at)->dirty_next;
        *at = k->dirty_next;
        durable_behind(d->all->owner->broker, -1);
    }
    if (k->flush_listed) {
        mqtt_keep **at = &d->flush;
        while (*at != k) at = &(*at)->flush_next;
        *at = k->flush_next;
    }
    if (k->later_listed) {
        mqtt_keep **at = &d->later;
        while (*at != k) at = &(*at)->later_next;
        *at = k->later_next;
    }
}

// The queue's messages are given back; those of references that only the log knows are found out by reclaim.
static void backlog_drop(mqtt_session *s) {
    mqtt_keep *k = s->keep;
    u64 count = k->backlog.count, block;
    backlog_ref ref;
    u32 block_bytes;
    while (backlog_pop(&k->backlog, mqtt_pool(s), &ref, &block, &block_bytes)) {
        if (ref.origin != 0) durable_drop(mqtt_broker(s), ref.origin, ref.part);
        if (block != 0) store_drop(mqtt_sessions_of(s)->durable->log, block, block_bytes);
    }
    counter_add(&mqtt_metrics(s)->mqtt_drops[MQTT_DROP_SESSION_ENDED], count);
    mqtt_keep_account(k);
}

void mqtt_durable_forget(mqtt_session *s) {
    mqtt_keep *k = s->keep;
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    if (k->holding) store_wait_cancel(d->log, &k->hold);
    unlist(d, k);
    table_remove(&d->numbers, &k->by_number);
    backlog_free(&k->backlog, mqtt_pool(s));
    mqtt_keep_account(k); // a session that ends while the log is read again was counted with its queue
    s->keep = NULL;
    s->subscriber.durable = false;
    durable_count(mqtt_broker(s), -1);
    pool_free(mqtt_pool(s), k, sizeof(*k));
}

void mqtt_durable_end(mqtt_session *s) {
    if (s->keep == NULL) return;
    mqtt_change gone = {.kind = MQTT_CHANGE_GONE};
    mqtt_durable_detach(s);
    backlog_drop(s);
    for (mqtt_entry *e = s->out == NULL ? NULL : s->out->in_flight.head; e != NULL; e = e->next) {
        if (e->origin != 0) durable_drop(mqtt_broker(s), e->origin, e->part);
        e->origin = 0;
        e->hold_pos = 0;
    }
    mqtt_durable_change(s, &gone);
    mqtt_durable_forget(s);
}

void mqtt_durable_begin(mqtt_session *s) {
    mqtt_durable *d = mqtt_sessions_of(s)->durable;
    if (d == NULL) return;
    if (s->expiry_s == 0 && s->keep == NULL) return; // one that was kept is so to its end
    if (s->keep == NULL && mqtt_keep_create(s) == NULL) {
        log_warn("session %.*s: not kept in the log: no memory", (int)s->client.id_len, s->id);
        return;
    }
    s->keep->left_ms = 0;
    make_dirty(d, s->keep);
    if (mqtt_durable_flush(d)) dirty_write(d);
}

void mqtt_durable_left(mqtt_session *s) {
    if (s->keep != NULL) mqtt_durable_left_at(s, mqtt_durable_clock_now(mqtt_sessions_of(s)->durable));
}

void mqtt_durable_left_at(mqtt_session *s, u64 time_ms) {
    if (s->keep == NULL) return;
    s->keep->left_ms = time_ms;
    mqtt_change c = {.kind = MQTT_CHANGE_LEFT, .time_ms = s->keep->left_ms, .number = s->expiry_s,
                     .flag = s->will != NULL};
    mqtt_durable_change(s, &c);
}

// --- the whole ---

static void write_flight(mqtt_snapshot *out, const mqtt_session *s) {
    const mqtt_outbound *o = s->out;
    u32 count = 0;
    for (const mqtt_entry *e = o == NULL ? NULL : o->in_flight.head; e != NULL; e = e->next) {
        count += e->origin != 0 || e->state == MQTT_ENTRY_RELEASED;
    }
    mqtt_snapshot_count(out, count);
    for (const mqtt_entry *e = o == NULL ? NULL : o->in_flight.head; e != NULL; e = e->next) {
        if (e->origin == 0 && e->state != MQTT_ENTRY_RELEASED) continue;
        mqtt_flight_record f = {.origin = e->origin, .part = e->part, .id = e->packet_id, .qos = e->qos,
                                .state = e->state == MQTT_ENTRY_RELEASED ? MQTT_ENTRY_RELEASED : MQTT_ENTRY_SENT};
        mqtt_snapshot_flight(out, &f);
    }
}

static void write_subscription(const subscription_view *v, void *context) {
    mqtt_subscription_record r = {
        .share = v->share, .share_len = v->share_len, .filter = v->filter, .filter_len = v->filter_len,
        .id = v->options.id, .qos = v->options.qos, .retain_handling = v->options.retain_handling,
        .no_local = v->options.no_local, .retain_as_published = v->options.retain_as_published};
    mqtt_snapshot_subscription(context, &r);
}

static void write_lists(mqtt_snapshot *out, mqtt_session *s) {
    u32 late = 0, open = mqtt_inbound_open(s);
    for (u32 i = 0; i < open; i++) late += mqtt_inbound_is_late(s, s->in->ids[i]);
    mqtt_snapshot_count(out, open - late);
    for (u32 i = 0; i < open; i++) {
        if (late == 0 || !mqtt_inbound_is_late(s, s->in->ids[i])) mqtt_snapshot_id(out, s->in->ids[i]);
    }
    write_flight(out, s);
    const backlog *l = &s->keep->backlog;
    mqtt_snapshot_count(out, l->used);
    for (u32 i = 0; i < l->used; i++) mqtt_snapshot_chunk(out, backlog_chunk_at(l, i));
    mqtt_snapshot_count(out, s->subscriber.subscription_count);
    if (broker_subscriptions(mqtt_broker(s), &s->subscriber, write_subscription, out) < 0) out->failed = true;
}

static bool parts_append(mqtt_durable *d, u64 number, const mqtt_snapshot *whole) {
    u8 head[MQTT_SNAPSHOT_HEAD_BYTES];
    store_pos pos;
    for (u32 at = 0; at < whole->used; at += MIN(PART_BYTES, whole->used - at)) {
        mqtt_snapshot_head(head, number, whole->used, at);
        struct iovec parts[2] = {{head, sizeof(head)}, {whole->data + at, MIN(PART_BYTES, whole->used - at)}};
        int result = store_append(d->log, STORE_SESSION, STORE_VITAL, parts, ARRAY_LEN(parts), &pos);
        taken(d, result);
        if (result < 0) return false;
        d->last_pos = pos;
    }
    return true;
}

bool mqtt_keep_write(mqtt_durable *d, mqtt_keep *k, u32 *bytes) {
    mqtt_session *s = k->session;
    *bytes = 0;
    if (!mqtt_durable_flush(d)) return false;
    mqtt_session_record r = {
        .id = s->id, .id_len = s->client.id_len, .left_ms = k->left_ms, .expiry_s = s->expiry_s,
        .queued_bytes_max = s->queued_bytes_max, .queued_messages_max = s->queued_messages_max,
        .window = s->window, .last_id = s->out == NULL ? k->last_id : s->out->last_id, .version = s->version,
        .queue_policy = s->queue_policy, .has_will = s->will != NULL};
    if (r.has_will) mqtt_will_view(s->will, &r.will);
    mqtt_snapshot whole = {.memory = mqtt_pool(s)};
    mqtt_snapshot_session(&whole, &r);
    write_lists(&whole, s);
    bool written = !whole.failed && parts_append(d, k->by_number.hash, &whole);
    *bytes = whole.used;
    mqtt_snapshot_free(&whole);
    return written;
}
