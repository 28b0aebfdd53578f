// SPDX-License-Identifier: Apache-2.0
// mqtt_durable_start.c: durable sessions after a restart: the records since the last complete checkpoint, in
// their order, make the sessions again; then their subscriptions are made, and when these are in force on all
// workers the listeners accept. A session that was connected counts as gone since the last record of the log.
// Time is the wall clock's, where it can be believed.
#include "proto/mqtt_durable.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "broker/durable.h"
#include "reload.h"
#include "store/streams.h"

static void unreadable(mqtt_durable *d) {
    counter_add(&d->unreadable, 1);
}

// --- snapshots ---

static void flight_restore(mqtt_session *s, const mqtt_flight_record *f) {
    mqtt_entry *e = mqtt_entry_blank(s, f->qos, false);
    if (e == NULL) return;
    e->state = f->state;
    e->sent_before = true;
    e->origin = f->origin;
    e->part = f->part;
    if (!mqtt_flight_put(s, e, f->id)) mqtt_entry_free(s, e);
}

static void part_restored(mqtt_durable *d);

static void subscription_restored(void *context, int result) {
    mqtt_durable *d = context;
    if (result != 0 && result != BROKER_PENDING) {
        log_error("a subscription could not be restored: no memory");
    }
    part_restored(d);
}

static void subscribe(mqtt_durable *d, mqtt_session *s, const mqtt_subscription_record *r) {
    subscription_options o = {.id = r->id, .qos = r->qos, .retain_handling = r->retain_handling,
                              .no_local = r->no_local, .retain_as_published = r->retain_as_published,
                              .restored = true};
    int result = broker_subscribe(mqtt_broker(s), &s->subscriber, r->share, r->share_len, r->filter, r->filter_len, &o,
                                  subscription_restored, d, NULL);
    if (result == BROKER_PENDING) d->restoring++;
    if (result < 0) log_error("session %.*s: a subscription could not be restored: %s", (int)s->client.id_len, s->id,
                              errno_name(result));
}

// Everything it had is forgotten, without a word in the log.
static void clear(mqtt_durable *d, mqtt_session *s) {
    mqtt_keep *k = s->keep;
    d->restoring -= d->all->owner->gw->worker_count > 1 ? s->subscriber.subscription_count : 0;
    broker_unsubscribe_all(mqtt_broker(s), &s->subscriber);
    while (s->out != NULL && s->out->in_flight.head != NULL) {
        s->out->in_flight.head->origin = 0;
        s->out->in_flight.head->state = MQTT_ENTRY_QUEUED;
        mqtt_flight_end(s, s->out->in_flight.head);
    }
    mqtt_inbound_free(s);
    mqtt_will_free(s);
    backlog_free(&k->backlog, mqtt_pool(s));
}

static void apply_lists(mqtt_durable *d, mqtt_session *s, cursor lists) {
    mqtt_flight_record f;
    mqtt_subscription_record sub;
    backlog_chunk chunk;
    backlog_ref refs[BACKLOG_CHUNK];
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) (void)mqtt_inbound_put(s, mqtt_session_id(&lists));
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) {
        mqtt_session_flight(&lists, &f);
        flight_restore(s, &f);
    }
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) {
        bool in_memory = mqtt_session_chunk(&lists, &chunk, refs);
        if (!backlog_restore(&s->keep->backlog, mqtt_pool(s), &chunk, in_memory ? refs : NULL)) {
            counter_add(&d->lost, (u64)chunk.count - chunk.start);
        }
    }
    for (u32 n = mqtt_session_count(&lists); n > 0; n--) {
        mqtt_session_subscription(&lists, &sub);
        subscribe(d, s, &sub);
    }
}

static void whole_apply(mqtt_durable *d, u64 number, const u8 *data, u32 len, store_pos origin) {
    worker *w = d->all->owner;
    mqtt_session_record r;
    if (!mqtt_session_parse(data, len, &r)) {
        unreadable(d);
        return;
    }
    if (number != worker_place_hash(r.id, r.id_len) || worker_of_client(w->gw, r.id, r.id_len) != w->index) return;
    mqtt_keep *k = mqtt_keep_find(d, number);
    mqtt_session *s = k != NULL ? k->session : mqtt_session_create(w, r.id, r.id_len);
    if (s == NULL || (k == NULL && (k = mqtt_keep_create(s)) == NULL)) {
        log_error("session %.*s: could not be restored: no memory", (int)r.id_len, r.id);
        if (s != NULL) mqtt_session_end(s);
        return;
    }
    clear(d, s);
    k->applied = k->exchanges_applied = origin;
    k->left_ms = r.left_ms;
    s->expiry_s = r.expiry_s;
    s->version = r.version;
    s->queued_bytes_max = r.queued_bytes_max;
    s->queued_messages_max = r.queued_messages_max;
    s->queue_policy = r.queue_policy;
    s->window = r.window;
    s->packet_bytes_max = UINT32_MAX;
    if (r.has_will) s->will = mqtt_will_restore(s, &r.will);
    apply_lists(d, s, r.lists);
    k->last_id = r.last_id;
    if (s->out != NULL) s->out->last_id = r.last_id;
    mqtt_keep_account(k);
}

// One snapshot is gathered at a time: its parts follow each other.
static void replay_part(mqtt_durable *d, const mqtt_snapshot_part *p, store_pos origin) {
    pool *memory = broker_pool(d->all->owner->broker);
    if (p->at == 0 && p->len == p->bytes) {
        whole_apply(d, p->session, p->data, p->len, origin);
        return;
    }
    if (p->at == 0) {
        pool_free(memory, d->whole, d->whole_bytes);
        d->whole = pool_alloc(memory, p->bytes);
        d->whole_bytes = p->bytes;
        d->whole_used = 0;
        d->whole_session = p->session;
    }
    bool follows = d->whole != NULL && p->session == d->whole_session && p->bytes == d->whole_bytes &&
                   p->at == d->whole_used;
    if (!follows) return;
    memcpy(d->whole + p->at, p->data, p->len);
    d->whole_used += p->len;
    if (d->whole_used < d->whole_bytes) return;
    whole_apply(d, p->session, d->whole, d->whole_bytes, origin);
    pool_free(memory, d->whole, d->whole_bytes);
    d->whole = NULL;
}

// --- changes ---

static void pop_some(mqtt_keep *k, u32 count) {
    mqtt_session *s = k->session;
    backlog_ref ref;
    u64 block;
    u32 block_bytes;
    while (count-- > 0 && backlog_pop(&k->backlog, mqtt_pool(s), &ref, &block, &block_bytes)) {
    }
    mqtt_keep_account(k);
}

static void forget_flight(mqtt_session *s, u16 id) {
    mqtt_entry *e = mqtt_entry_of_id(s, id);
    if (e == NULL) return;
    e->origin = 0;
    e->state = MQTT_ENTRY_QUEUED;
    mqtt_flight_end(s, e);
}

static void replay_subscription(mqtt_durable *d, mqtt_session *s, const mqtt_change *c) {
    const mqtt_subscription_record *r = &c->subscription;
    if (c->kind == MQTT_CHANGE_SUBSCRIBED) {
        subscribe(d, s, r);
        return;
    }
    bool was = broker_unsubscribe(mqtt_broker(s), &s->subscriber, r->share, r->share_len, r->filter, r->filter_len);
    if (was && d->all->owner->gw->worker_count > 1) d->restoring--;
}

static void replay_of_session(mqtt_durable *d, mqtt_keep *k, const mqtt_change *c) {
    mqtt_session *s = k->session;
    mqtt_flight_record f = {.origin = c->origin, .part = c->number, .id = c->id, .qos = c->qos,
                            .state = MQTT_ENTRY_SENT};
    mqtt_entry *e;
    switch ((mqtt_change_kind)c->kind) {
    case MQTT_CHANGE_GONE:
        clear(d, s);
        mqtt_session_forget(s);
        return;
    case MQTT_CHANGE_SENT:
        pop_some(k, 1);
        forget_flight(s, c->id);
        flight_restore(s, &f);
        return;
    case MQTT_CHANGE_DROPPED: pop_some(k, c->number); return;
    case MQTT_CHANGE_RELEASED:
        e = mqtt_entry_of_id(s, c->id);
        if (e == NULL) return;
        e->state = MQTT_ENTRY_RELEASED;
        e->origin = 0;
        return;
    case MQTT_CHANGE_DONE: forget_flight(s, c->id); return;
    case MQTT_CHANGE_RECEIVED: (void)mqtt_inbound_put(s, c->id); return;
    case MQTT_CHANGE_COMPLETED: mqtt_inbound_take(s, c->id); return;
    case MQTT_CHANGE_LEFT:
        k->left_ms = c->time_ms;
        s->expiry_s = c->number;
        if (!c->flag) mqtt_will_free(s);
        return;
    case MQTT_CHANGE_SUBSCRIBED:
    case MQTT_CHANGE_UNSUBSCRIBED: replay_subscription(d, s, c); return;
    case MQTT_CHANGE_CONFIRMED:
    case MQTT_CHANGE_SOURCE:
    case MQTT_CHANGE_EXCHANGE:
    case MQTT_CHANGE_WILL_DUE:
    case MQTT_CHANGE_WILL_DONE:
    case MQTT_CHANGE_CLOCK:
    case MQTT_CHANGE_KEPT:
    case MQTT_CHANGE_KINDS: return;
    }
}

// An exchange that is not confirmed as far as is known. After a change of the number of workers several have its
// record; it is the one's with the session, or each of them would send it again. Session 0: a log from before that was
// written down.
static void exchange_open(mqtt_durable *d, u64 session, store_pos origin, u32 part_bytes, u64 targets) {
    const worker *w = d->all->owner;
    bool ours = session == 0 || session % w->gw->worker_count == w->index;
    if (!ours || exchange_is_open(w->broker, origin)) return;
    (void)exchange_restore(w->broker, session, origin, part_bytes, targets);
}

static void replay_change(mqtt_durable *d, const mqtt_change *c) {
    broker *b = d->all->owner->broker;
    if (c->kind == MQTT_CHANGE_CONFIRMED) {
        exchange_forget(b, c->origin);
    } else if (c->kind == MQTT_CHANGE_SOURCE) {
        exchange_set_seen(b, c->number, c->origin);
    } else if (c->kind == MQTT_CHANGE_KEPT) {
        exchange_set_kept(b, c->number, c->origin);
    } else if (c->kind == MQTT_CHANGE_EXCHANGE) {
        exchange_open(d, c->session, c->origin, c->number, c->time_ms);
    } else if (c->kind == MQTT_CHANGE_CLOCK) {
        mqtt_durable_clock_replay(d, c);
    } else if (c->kind == MQTT_CHANGE_WILL_DUE) {
        mqtt_will_due_restore(d->all, c);
    } else if (c->kind == MQTT_CHANGE_WILL_DONE) {
        mqtt_will_due_forget(d->all, c->session, c->origin);
    } else {
        mqtt_keep *k = mqtt_keep_find(d, c->session);
        if (k != NULL) replay_of_session(d, k, c);
    }
}

static void replay_block(mqtt_durable *d, cursor *at, const store_record *r) {
    backlog_ref refs[BACKLOG_CHUNK];
    u64 number;
    if (!mqtt_block_parse(at, &number, refs)) {
        unreadable(d);
        return;
    }
    mqtt_keep *k = mqtt_keep_find(d, number);
    if (k == NULL) return;
    backlog_chunk *c = backlog_find(&k->backlog, refs[0].origin);
    bool same = c != NULL && c->start == 0 && c->count == BACKLOG_CHUNK &&
                c->last == refs[BACKLOG_CHUNK - 1].origin;
    if (same) backlog_spilled(c, mqtt_pool(k->session), r->origin, r->len); // else it stays in memory
}

void mqtt_replay(void *context, const store_record *r) {
    mqtt_durable *d = context;
    cursor at = cursor_of(r->data, r->len);
    mqtt_snapshot_part part;
    mqtt_change c;
    int more;
    switch (cursor_u8(&at)) {
    case MQTT_RECORD_SNAPSHOT:
        if (mqtt_snapshot_parse(&at, &part)) replay_part(d, &part, r->origin);
        else unreadable(d);
        return;
    case MQTT_RECORD_CHANGES:
        while ((more = mqtt_change_next(&at, &c)) == 1) replay_change(d, &c);
        if (more < 0) unreadable(d);
        return;
    case MQTT_RECORD_BLOCK: replay_block(d, &at, r); return;
    default: unreadable(d);
    }
}

// --- messages ---

// Records come in the order of their origins, but copies (of reclaim, or of a change of the number of
// workers) may come again: what a snapshot or an earlier record has said already is passed over.
static void replay_waiting(mqtt_durable *d, const store_record *r, const message_record *m, u32 i, bool others) {
    message_waiting w = message_record_waiting(m, i);
    mqtt_keep *k = mqtt_keep_find(d, w.session);
    if (k == NULL || r->origin <= k->applied) return;
    k->applied = r->origin;
    u32 part = durable_part_bytes(r->len, i, others);
    if (w.packet_id != 0) {
        mqtt_flight_record f = {.origin = r->origin, .part = part, .id = w.packet_id, .qos = w.qos,
                                .state = MQTT_ENTRY_SENT};
        forget_flight(k->session, w.packet_id);
        flight_restore(k->session, &f);
        return;
    }
    backlog_ref ref = {.origin = r->origin, .part = part};
    ref.bytes = (u32)sizeof(message) + m->topic_len + m->props_len + m->payload_len;
    if (!backlog_push(&k->backlog, mqtt_pool(k->session), &ref)) counter_add(&d->lost, 1);
    mqtt_keep_account(k);
}

static void streams_replay(streams *in, const store_record *r, const message_record *m) {
    message_stream places[MESSAGE_RECORD_STREAMS_MAX];
    if (m->stream_count == 0 || in == NULL) return;
    for (u32 i = 0; i < m->stream_count; i++) places[i] = message_record_stream(m, i);
    const stream_place place = {.origin = r->origin, .time_ms = r->time_ms, .bytes = r->len};
    streams_replay_message(in, places, m->stream_count, &place);
}

void mqtt_replay_message(void *context, const store_record *r) {
    mqtt_durable *d = context;
    broker *b = d->all->owner->broker;
    message_record m;
    if (!message_record_parse(r->data, r->len, &m)) {
        unreadable(d);
        return;
    }
    streams_replay(d->all->owner->streams, r, &m);
    bool exchange = m.exchange_session != 0 && m.targets != 0, others = exchange || m.stream_count > 0;
    for (u32 i = 0; i < m.waiting_count; i++) replay_waiting(d, r, &m, i, others);
    if (m.source_pos != 0) exchange_set_seen(b, m.source_worker, m.source_pos);
    if (m.exchange_session == 0) return;
    mqtt_keep *k = mqtt_keep_find(d, m.exchange_session);
    bool fresh = k != NULL && r->origin > k->exchanges_applied;
    if (fresh) {
        k->exchanges_applied = r->origin;
        (void)mqtt_inbound_put(k->session, m.exchange_id);
    }
    if (!exchange || (k != NULL && !fresh)) return;
    exchange_open(d, m.exchange_session, r->origin, m.stream_count > 0 ? 0 : r->len, m.targets);
}

// --- the end of the replay ---

// Expiry and will count from the time the client went.
static void session_resume(mqtt_durable *d, mqtt_keep *k) {
    mqtt_session *s = k->session;
    worker *w = s->owner;
    bool was_connected = k->left_ms == 0;
    u64 left_ms = was_connected ? store_replayed_ms(w->store) : k->left_ms;
    u64 away_ms, since_ms = mqtt_durable_clock_since(d, left_ms, &away_ms);
    u64 away = MIN(away_ms, (u64)UINT32_MAX * 1000) * NS_PER_MS;
    if (since_ms != k->left_ms) mqtt_durable_left_at(s, since_ms);
    if (s->will != NULL) {
        // The client may come back as soon as we are there: 5.0 section 3.1.2.5 lets a will wait for the restart.
        u64 delay = MAX((u64)mqtt_will_delay_s(s->will), was_connected ? LIMIT_WILL_RESTART_S : 0u) * NS_PER_S;
        if (!was_connected) delay = delay > away ? delay - away : 0;
        mqtt_will_wait(s, (u32)((delay + NS_PER_S - 1) / NS_PER_S));
    }
    if (s->expiry_s == MQTT_EXPIRY_NEVER) return;
    u64 life = s->expiry_s * NS_PER_S;
    timer_arm(w->wheel, &s->timer, w->now_ns + (life > away ? life - away : 0));
}

// The last one was the end of the replay, or a subscription that was not in force yet. Sessions end from here
// on, not before: nothing tells of the subscriptions of one that has ended.
static void part_restored(mqtt_durable *d) {
    ASSERT(d->restoring > 0);
    if (--d->restoring > 0) return;
    counter_set(&d->restored, 1);
    for (mqtt_keep *k = d->first; k != NULL; k = k->next) session_resume(d, k);
    reload_restored(d->all->owner);
}

void mqtt_replayed(void *context) {
    mqtt_durable *d = context;
    worker *w = d->all->owner;
    pool_free(broker_pool(w->broker), d->whole, d->whole_bytes);
    d->whole = NULL;
    u32 sessions = 0;
    for (mqtt_keep *k = d->first; k != NULL; k = k->next, sessions++) mqtt_durable_spill(k);
    u64 bad = counter_get(&d->unreadable);
    if (sessions > 0 || bad > 0) {
        log_write(bad > 0 ? LOG_WARN : LOG_INFO, "worker %u: %u sessions restored, %llu records not understood",
                  w->index, sessions, (unsigned long long)bad);
    }
    mqtt_durable_clock_start(d);
    d->restoring++;
    exchange_resume(w->broker); // part_restored when they are on their way, before new ones
    part_restored(d);
}

void mqtt_exchanges_resumed(void *context) {
    part_restored(context);
}
