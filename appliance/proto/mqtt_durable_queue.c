// SPDX-License-Identifier: Apache-2.0
// mqtt_durable_queue.c: what waits for a durable session and what is in flight to it. A message is offered
// before it is written (reserve), takes its place either in flight with a packet identifier, which is then in
// its record, or at the end of the backlog; and is sent or waits when it is delivered. Of a client that keeps
// up the messages next to be sent are in memory too (`loaded`); all else is read from the log when its turn
// comes, one at a time and in order.
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "broker/durable.h"
#include "proto/mqtt_durable.h"

#define LOADED_MAX 256u             // messages of a connected client that are kept in memory as well
#define LOADED_BYTES_MAX (256u << 10)

static mqtt_durable *durable_of(const mqtt_session *s) {
    return mqtt_sessions_of(s)->durable;
}

static u32 charge_of(const publication *p) {
    u64 bytes = sizeof(message) + (u64)p->topic_len + p->props_len + p->payload_len;
    return (u32)MIN(bytes, (u64)UINT32_MAX);
}

// --- the end of the backlog ---

static bool fits(const mqtt_session *s, u32 bytes) {
    const backlog *l = &s->keep->backlog;
    u64 memory_bytes = s->out == NULL ? 0 : s->out->queued_bytes;
    u32 memory_count = s->out == NULL ? 0 : s->out->queue_0.count;
    return l->bytes + memory_bytes + bytes <= s->queued_bytes_max &&
           l->count + memory_count < s->queued_messages_max;
}

static void loaded_drop_first(mqtt_session *s) {
    if (s->keep->loaded == 0) return;
    mqtt_entry *e = s->out->queue.head;
    mqtt_list_remove(&s->out->queue, e);
    mqtt_entry_free(s, e);
    s->keep->loaded--;
}

// The oldest is removed. False: there is none.
static bool pop(mqtt_session *s, backlog_ref *ref) {
    mqtt_keep *k = s->keep;
    u64 block;
    u32 block_bytes;
    if (!backlog_pop(&k->backlog, mqtt_pool(s), ref, &block, &block_bytes)) return false;
    if (block != 0) store_drop(durable_of(s)->log, block, block_bytes);
    mqtt_keep_account(k);
    return true;
}

static void drop_oldest(mqtt_session *s, u32 count, mqtt_drop reason) {
    backlog_ref ref;
    u32 dropped = 0;
    for (; dropped < count; dropped++) {
        loaded_drop_first(s);
        if (!pop(s, &ref)) break;
        if (ref.origin != 0) durable_drop(mqtt_broker(s), ref.origin, ref.part);
        mqtt_dropped(s, reason);
    }
    mqtt_change c = {.kind = MQTT_CHANGE_DROPPED, .number = dropped};
    if (dropped > 0) mqtt_durable_change(s, &c);
}

static bool make_room(mqtt_session *s, u32 bytes) {
    while (!fits(s, bytes)) {
        if (s->out != NULL && s->out->queue_0.head != NULL) mqtt_queue_0_drop_oldest(s);
        else if (s->keep->backlog.count > 0 && !s->keep->fetch.done) drop_oldest(s, 1, MQTT_DROP_QUEUE_OLDEST);
        else return false;
    }
    return true;
}

static bool queue_claim(mqtt_session *s, delivery *d) {
    mqtt_keep *k = s->keep;
    u32 bytes = charge_of(d->publication);
    bool room = fits(s, bytes) || mqtt_queue_must_take(s, d);
    if (!room && d->share != 0) return false;
    if (!room && s->queue_policy == QUEUE_OLDEST) room = make_room(s, bytes);
    if (!room) {
        mqtt_dropped(s, MQTT_DROP_QUEUE_FULL);
        bool end = s->queue_policy == QUEUE_DISCONNECT && mqtt_session_online(s);
        if (end) mqtt_session_work(s, MQTT_WORK_CLOSE);
        return false;
    }
    backlog_ref ref = {.bytes = bytes};
    bool all_loaded = k->loaded == k->backlog.count;
    if (!backlog_push(&k->backlog, mqtt_pool(s), &ref)) {
        mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
        return false;
    }
    mqtt_keep_account(k);
    k->claim = MQTT_CLAIM_QUEUED;
    k->claimed = NULL;
    bool load = all_loaded && mqtt_session_online(s) && k->loaded < LOADED_MAX && k->backlog.bytes < LOADED_BYTES_MAX;
    if (!load || mqtt_outbound_of(s) == NULL) return true;
    k->claimed = mqtt_entry_make(s, d, true);
    if (k->claimed == NULL) return true; // read again when its turn comes
    mqtt_list_append(&s->out->queue, k->claimed);
    k->loaded++;
    return true;
}

// --- claims ---

// What went in flight out of the backlog must be so in the log before what goes there by its own record.
static bool flight_is_open(const mqtt_session *s) {
    bool output = mqtt_session_online(s) && (s->conn->flags & CONN_PAUSED_OUT) == 0;
    return output && s->keep->backlog.count == 0 && mqtt_window_is_open(s) && mqtt_durable_sent_is_written(s);
}

static bool claim(mqtt_session *s, delivery *d, message_waiting *w) {
    mqtt_keep *k = s->keep;
    *w = (message_waiting){.session = k->by_number.hash, .qos = d->qos, .retain = d->retain,
                           .ids = d->subscription_ids, .id_count = d->subscription_id_count};
    if (!flight_is_open(s)) return queue_claim(s, d);
    // What a shared subscription gave may have to be handed on when the session ends: it stays in memory.
    mqtt_entry *e = mqtt_flight_begin(s, d, d->share != 0);
    if (e == NULL) {
        mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
        return false;
    }
    k->claim = MQTT_CLAIM_FLIGHT;
    k->claimed = e;
    w->packet_id = e->packet_id;
    return true;
}

bool mqtt_durable_reserve(subscriber *of, delivery *d, message_waiting *w) {
    mqtt_session *s = CONTAINER_OF(of, mqtt_session, subscriber);
    s->keep->claim = MQTT_CLAIM_NONE;
    return claim(s, d, w);
}

static void claim_undo(mqtt_session *s) {
    mqtt_keep *k = s->keep;
    mqtt_entry *e = k->claimed;
    if (k->claim == MQTT_CLAIM_FLIGHT) {
        mqtt_flight_cancel(s, e);
    } else {
        backlog_unpush(&k->backlog, mqtt_pool(s));
        mqtt_keep_account(k);
        if (e != NULL) {
            mqtt_list_remove(&s->out->queue, e);
            mqtt_entry_free(s, e);
            k->loaded--;
        }
    }
    k->claim = MQTT_CLAIM_NONE;
}

void mqtt_durable_stored(subscriber *of, u64 pos, u32 bytes, u32 part) {
    (void)bytes;
    mqtt_session *s = CONTAINER_OF(of, mqtt_session, subscriber);
    mqtt_keep *k = s->keep;
    if (k->claim == MQTT_CLAIM_NONE) return;
    if (pos == 0) {
        claim_undo(s);
        return;
    }
    if (k->claim == MQTT_CLAIM_QUEUED) {
        backlog_place(&k->backlog, pos, part);
        mqtt_durable_spill(k);
        return;
    }
    mqtt_entry *e = k->claimed;
    e->origin = pos;
    e->part = part;
    // Its packet identifier is known again after a crash only when the record is on disk.
    if (e->qos == 2) mqtt_durable_hold_at(s, e, pos);
}

void mqtt_durable_spill(mqtt_keep *k) {
    mqtt_session *s = k->session;
    mqtt_durable *d = durable_of(s);
    backlog_chunk *c = backlog_spillable(&k->backlog, k->loaded);
    if (c == NULL) return;
    u8 block[MQTT_BLOCK_BYTES];
    mqtt_block_write(block, k->by_number.hash, c->refs);
    struct iovec part = {block, sizeof(block)};
    store_pos pos;
    // Not now: at the next message.
    if (store_append(d->log, STORE_SESSION, STORE_KEEP | STORE_VITAL, &part, 1, &pos) < 0) return;
    backlog_spilled(c, mqtt_pool(s), pos, sizeof(block));
}

// --- delivering ---

static mqtt_outgoing outgoing_of(const delivery *d, u16 packet_id) {
    const publication *p = d->publication;
    return (mqtt_outgoing){
        .topic = p->topic, .topic_len = p->topic_len, .props = p->props, .props_len = p->props_len,
        .payload = p->payload, .payload_len = p->payload_len, .ids = d->subscription_ids,
        .id_count = d->subscription_id_count, .expires_ns = p->expires_ns, .packet_id = packet_id,
        .qos = d->qos, .retain = d->retain};
}

static void sent(mqtt_entry *e) {
    e->state = MQTT_ENTRY_SENT;
    e->sent_before = true;
}

// Whether one that was to be sent before it has not been: all are sent in their order, whatever their QoS.
static bool is_behind(const mqtt_entry *e) {
    return e->prev != NULL && e->prev->state == MQTT_ENTRY_QUEUED;
}

delivery_result mqtt_durable_deliver(mqtt_session *s, delivery *d) {
    mqtt_keep *k = s->keep;
    if (d->share != 0 || d->retained) {
        // It comes alone: a record of its own.
        bool waits = !flight_is_open(s);
        if (waits && !d->keep && (d->retained || mqtt_session_online(s))) return DELIVERY_REFUSED;
        message_waiting w;
        k->claim = MQTT_CLAIM_NONE;
        if (!claim(s, d, &w)) return d->share != 0 ? DELIVERY_REFUSED : DELIVERY_DROPPED;
        if (k->claim == MQTT_CLAIM_FLIGHT) k->claimed->share = d->share;
        int result = durable_store_one(mqtt_broker(s), &s->subscriber, d->publication, &w);
        if (result == -EAGAIN) {
            mqtt_durable_pump_later(s);
            return DELIVERY_REFUSED;
        }
    }
    u8 claimed = k->claim;
    k->claim = MQTT_CLAIM_NONE;
    if (claimed == MQTT_CLAIM_NONE) return DELIVERY_DROPPED; // counted when it was offered
    mqtt_entry *e = k->claimed;
    if (claimed == MQTT_CLAIM_QUEUED || e->hold_pos != 0 || is_behind(e)) return DELIVERY_TAKEN;
    mqtt_outgoing out = outgoing_of(d, e->packet_id);
    int result = mqtt_send_now(s, d, &out);
    if (result != 0) {
        mqtt_count_unsent(s, result);
        mqtt_flight_end(s, e);
        return DELIVERY_DROPPED;
    }
    sent(e);
    return DELIVERY_TAKEN;
}

void mqtt_durable_released(mqtt_session *s, mqtt_entry *e) {
    if (e->origin != 0) durable_drop(mqtt_broker(s), e->origin, e->part);
    e->origin = 0;
    e->released = false;
    mqtt_durable_change_id(s, MQTT_CHANGE_RELEASED, e->packet_id);
    mqtt_durable_hold(s, e);
}

void mqtt_durable_flight_end(mqtt_session *s, mqtt_entry *e) {
    if (s->keep == NULL) return;
    mqtt_durable_release(s, e);
    if (s->keep->fetching == e) {
        store_fetch_cancel(durable_of(s)->log, &s->keep->fetch);
        s->keep->fetch.done = NULL;
        s->keep->fetching = NULL;
    }
    if (e->origin == 0 && e->state != MQTT_ENTRY_RELEASED) return;
    if (e->origin != 0) durable_drop(mqtt_broker(s), e->origin, e->part);
    mqtt_durable_change_id(s, MQTT_CHANGE_DONE, e->packet_id);
}

// --- reading ---

// What the record says about this session. False: it is not a record that names it.
static bool read_record(const mqtt_session *s, const store_record *record, message_record *r, message_waiting *w) {
    return message_record_parse(record->data, record->len, r) && message_record_find(r, s->keep->by_number.hash, w);
}

// Sends an entry in flight from its record. Returns as mqtt_publish_send.
static int send_record(mqtt_session *s, mqtt_entry *e, store_pos origin, const message_record *r,
                       const message_waiting *w) {
    u32 at_hand[32];
    u32 *ids = w->id_count <= ARRAY_LEN(at_hand) ? at_hand : pool_alloc(mqtt_pool(s), w->id_count * sizeof(u32));
    if (ids == NULL) return CLOSE_NO_MEMORY;
    message_record_ids(r, w, ids);
    publication p = durable_publication(mqtt_broker(s), origin, r);
    mqtt_outgoing out = {
        .topic = p.topic, .topic_len = p.topic_len, .props = p.props, .props_len = p.props_len,
        .payload = p.payload, .payload_len = p.payload_len, .ids = ids, .id_count = w->id_count,
        .expires_ns = p.expires_ns, .packet_id = e->packet_id, .qos = e->qos, .retain = w->retain,
        .dup = e->sent_before};
    if (e->sent_before && out.expires_ns != 0) out.expires_ns = MAX(out.expires_ns, s->owner->now_ns + 1);
    int result = mqtt_publish_send(s, &out, NULL);
    if (ids != at_hand) pool_free(mqtt_pool(s), ids, w->id_count * sizeof(u32));
    return result;
}

static void unmark(mqtt_session *s, mqtt_entry *e) {
    if (e->resend) s->out->resend_count--;
    e->resend = false;
}

static void lose(mqtt_session *s, u32 count) {
    counter_add(&durable_of(s)->lost, count);
    log_error("session %.*s: %u messages can not be read from the log and are lost", (int)s->client.id_len,
              s->id, count);
}

// An entry in flight whose record is at hand. False: no room in the output.
static bool entry_send_record(mqtt_session *s, mqtt_entry *e, const store_record *record) {
    message_record r;
    message_waiting w;
    int result = CLOSE_IO_ERROR;
    if (read_record(s, record, &r, &w)) result = send_record(s, e, record->origin, &r, &w);
    else lose(s, 1);
    if (result == CLOSE_SLOW_CONSUMER) return false;
    if (result != 0) {
        mqtt_count_unsent(s, result);
        mqtt_flight_end(s, e);
        return true;
    }
    unmark(s, e);
    sent(e);
    return true;
}

// The oldest that waits goes in flight; ref is it, e its entry, with its message or without.
static bool queue_to_flight(mqtt_session *s, mqtt_entry *e, const backlog_ref *ref) {
    e->origin = ref->origin;
    e->part = ref->part;
    if (!mqtt_flight_add(s, e)) {
        durable_drop(mqtt_broker(s), ref->origin, ref->part);
        mqtt_change c = {.kind = MQTT_CHANGE_DROPPED, .number = 1};
        mqtt_durable_change(s, &c);
        mqtt_count_unsent(s, CLOSE_NO_MEMORY);
        mqtt_entry_free(s, e);
        return false;
    }
    mqtt_change c = {.kind = MQTT_CHANGE_SENT, .origin = ref->origin, .number = ref->part, .id = e->packet_id,
                     .qos = e->qos};
    mqtt_durable_change(s, &c);
    mqtt_durable_note_sent(s);
    return true;
}

static void queue_send_record(mqtt_session *s, const store_record *record) {
    message_record r;
    message_waiting w;
    backlog_ref ref;
    if (!read_record(s, record, &r, &w)) {
        lose(s, 1);
        drop_oldest(s, 1, MQTT_DROP_NO_MEMORY);
        return;
    }
    publication p = durable_publication(mqtt_broker(s), record->origin, &r);
    if (p.expires_ns != 0 && p.expires_ns <= s->owner->now_ns) {
        drop_oldest(s, 1, MQTT_DROP_EXPIRED);
        return;
    }
    mqtt_entry *e = mqtt_entry_blank(s, w.qos, w.retain);
    if (e == NULL) {
        drop_oldest(s, 1, MQTT_DROP_NO_MEMORY);
        return;
    }
    (void)pop(s, &ref);
    if (!queue_to_flight(s, e, &ref)) return;
    if (e->qos == 2) mqtt_durable_hold(s, e);
    if (e->qos == 2 || is_behind(e)) return;
    int result = send_record(s, e, record->origin, &r, &w);
    if (result == 0) {
        sent(e);
        return;
    }
    if (result == CLOSE_SLOW_CONSUMER) return; // its turn comes again when there is room
    mqtt_count_unsent(s, result);
    mqtt_flight_end(s, e);
}

static bool block_take(mqtt_session *s, backlog_chunk *c, const store_record *record) {
    backlog_ref refs[BACKLOG_CHUNK];
    cursor at = cursor_of(record->data, record->len);
    u64 number;
    bool good = cursor_u8(&at) == MQTT_RECORD_BLOCK && mqtt_block_parse(&at, &number, refs) &&
                number == s->keep->by_number.hash;
    if (!good) return false;
    return backlog_load(&s->keep->backlog, c, mqtt_pool(s), refs);
}

static void block_lose(mqtt_session *s, backlog_chunk *c) {
    u32 count = backlog_lose(&s->keep->backlog, c, mqtt_pool(s));
    mqtt_change change = {.kind = MQTT_CHANGE_DROPPED, .number = count};
    lose(s, count);
    mqtt_durable_change(s, &change);
    mqtt_keep_account(s->keep);
}

// What was read is used; result < 0: it can not be had.
static void take_fetched(mqtt_session *s, mqtt_entry *flight, int result, const store_record *record) {
    backlog_chunk *c;
    if (flight != NULL) {
        if (result < 0) lose(s, 1);
        if (result < 0) mqtt_flight_end(s, flight);
        else if (mqtt_session_online(s)) (void)entry_send_record(s, flight, record); // its connection may be closing
        return;
    }
    const backlog_ref *ref = backlog_at(&s->keep->backlog, 0, &c);
    if (c == NULL) return;
    if (ref == NULL) {
        if (result < 0 || !block_take(s, c, record)) block_lose(s, c);
        else mqtt_keep_account(s->keep);
        return;
    }
    if (result < 0) {
        lose(s, 1);
        drop_oldest(s, 1, MQTT_DROP_NO_MEMORY);
    } else if (record->origin == ref->origin && mqtt_session_online(s) && mqtt_window_is_open(s)) {
        queue_send_record(s, record);
    }
}

static void fetched(store_fetch_op *op, int result, const store_record *record) {
    mqtt_keep *k = CONTAINER_OF(op, mqtt_keep, fetch);
    mqtt_entry *flight = k->fetching;
    k->fetch.done = NULL;
    k->fetching = NULL;
    take_fetched(k->session, flight, result, record);
    mqtt_queue_pump(k->session);
}

// Reads a record for an entry in flight (NULL: for the oldest that waits, its block first). True: it was at
// hand and is used; go on.
static bool fetch(mqtt_session *s, mqtt_entry *flight, u64 origin) {
    mqtt_keep *k = s->keep;
    if (k->fetch.done != NULL) return false;
    k->fetch = (store_fetch_op){.origin = origin, .done = fetched};
    k->fetching = flight;
    store_record record;
    int result = store_fetch(durable_of(s)->log, &k->fetch, &record);
    if (result == 0) return false;
    k->fetch.done = NULL;
    k->fetching = NULL;
    if (result == -EAGAIN) {
        mqtt_durable_pump_later(s);
        return false;
    }
    take_fetched(s, flight, result == 1 ? 0 : result, &record);
    return true;
}

// --- sending ---

static bool output_is_open(const mqtt_session *s) {
    return mqtt_session_online(s) && (s->conn->flags & CONN_PAUSED_OUT) == 0;
}

// Whether it has to be sent now or later on this connection.
static bool is_due(const mqtt_entry *e) {
    return e->resend || e->state == MQTT_ENTRY_QUEUED || (e->state == MQTT_ENTRY_RELEASED && !e->released);
}

// True: it has been dealt with. False: no room, or its record is being read.
static bool flight_send(mqtt_session *s, mqtt_entry *e) {
    if (e->state != MQTT_ENTRY_RELEASED && e->message == NULL) {
        u16 id = e->packet_id;
        if (!fetch(s, e, e->origin)) return false;
        const mqtt_entry *now = mqtt_entry_of_id(s, id);
        return now == NULL || !is_due(now);
    }
    int result = e->state == MQTT_ENTRY_RELEASED
                     ? mqtt_ack_send(s, MQTT_PUBREL, e->packet_id, MQTT_REASON_SUCCESS)
                     : mqtt_entry_send(s, e);
    if (result == CLOSE_SLOW_CONSUMER) return false;
    if (result != 0) {
        mqtt_count_unsent(s, result);
        mqtt_flight_end(s, e);
        return true;
    }
    unmark(s, e);
    if (e->state != MQTT_ENTRY_RELEASED) sent(e);
    else e->released = true;
    return true;
}

bool mqtt_durable_pump_flight(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    mqtt_entry *next;
    for (mqtt_entry *e = out->in_flight.head; e != NULL; e = next) {
        next = e->next;
        if (!is_due(e)) continue;
        if (e->hold_pos != 0) {
            if (e->state == MQTT_ENTRY_RELEASED) continue;
            break; // what comes behind it waits too
        }
        bool room = e->state == MQTT_ENTRY_RELEASED || !e->resend ||
                    out->in_flight.count - out->resend_count < s->window;
        if (!room || !output_is_open(s) || !flight_send(s, e)) return false;
        if (!mqtt_session_online(s)) return false;
    }
    return out->resend_count == 0;
}

static void loaded_send(mqtt_session *s) {
    mqtt_entry *e = s->out->queue.head;
    backlog_ref ref;
    if (message_is_expired(e->message, s->owner->now_ns)) {
        drop_oldest(s, 1, MQTT_DROP_EXPIRED);
        return;
    }
    mqtt_list_remove(&s->out->queue, e);
    s->keep->loaded--;
    (void)pop(s, &ref);
    if (!queue_to_flight(s, e, &ref)) return;
    if (e->qos == 2) mqtt_durable_hold(s, e);
    if (e->qos == 2 || is_behind(e)) return;
    int result = mqtt_entry_send(s, e);
    if (result != 0) {
        mqtt_count_unsent(s, result);
        mqtt_flight_end(s, e);
        return;
    }
    sent(e);
    message_unref(e->message); // it is in the log
    e->message = NULL;
}

void mqtt_durable_pump_queue(mqtt_session *s) {
    mqtt_keep *k = s->keep;
    while (k->backlog.count > 0 && mqtt_window_is_open(s) && output_is_open(s)) {
        if (mqtt_outbound_of(s) == NULL) return;
        if (k->loaded > 0) {
            loaded_send(s);
            continue;
        }
        backlog_chunk *c;
        const backlog_ref *ref = backlog_at(&k->backlog, 0, &c);
        if (!fetch(s, NULL, ref != NULL ? ref->origin : c->block)) return;
    }
}

void mqtt_durable_detach(mqtt_session *s) {
    mqtt_keep *k = s->keep;
    if (k == NULL) return;
    if (k->fetch.done != NULL) {
        store_fetch_cancel(durable_of(s)->log, &k->fetch);
        k->fetch.done = NULL;
        k->fetching = NULL;
    }
    while (k->loaded > 0) loaded_drop_first(s);
    for (mqtt_entry *e = s->out == NULL ? NULL : s->out->in_flight.head; e != NULL; e = e->next) {
        if (e->message != NULL && e->origin != 0 && e->share == 0) {
            message_unref(e->message);
            e->message = NULL;
        }
    }
    mqtt_durable_spill(k);
}
