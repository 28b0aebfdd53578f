// SPDX-License-Identifier: Apache-2.0
// mqtt_queue.c: what is on its way to a client and what waits for it. Three lists: in_flight (QoS 1 and 2,
// sent, in the order of sending), queue (QoS 1 and 2, not sent yet) and queue_0 (QoS 0 for a client that
// reads slowly). Messages are kept by reference.
//
// Both queues share one budget of bytes and messages; what gives way is the listener's queue_policy, and is
// counted. The window is the smaller of the client's receive maximum and the listener's inflight_max
// (5.0 section 4.9). After a new connection everything in flight is sent again first, in order, with DUP
// (section 4.4); only then come new messages.
//
// A packet identifier's place in `slots` is its low bits; identifiers are given so that places are free.
#include <string.h>

#include "proto/mqtt_durable.h"
#include "proto/mqtt_stream.h"

#define SLOTS_MIN 16u
#define ENTRY_COST (sizeof(mqtt_entry) + 16u) // of the budget, besides the message

// --- lists and entries ---

void mqtt_list_append(mqtt_entries *list, mqtt_entry *e) {
    e->next = NULL;
    e->prev = list->tail;
    *(list->tail != NULL ? &list->tail->next : &list->head) = e;
    list->tail = e;
    list->count++;
}

void mqtt_list_remove(mqtt_entries *list, mqtt_entry *e) {
    *(e->prev != NULL ? &e->prev->next : &list->head) = e->next;
    *(e->next != NULL ? &e->next->prev : &list->tail) = e->prev;
    list->count--;
}

mqtt_outbound *mqtt_outbound_of(mqtt_session *s) {
    if (s->out != NULL) return s->out;
    s->out = pool_alloc(mqtt_pool(s), sizeof(*s->out));
    if (s->out == NULL) return NULL;
    memset(s->out, 0, sizeof(*s->out));
    if (s->keep != NULL) s->out->last_id = s->keep->last_id;
    return s->out;
}

static size_t entry_bytes(u32 id_count) {
    return sizeof(mqtt_entry) + id_count * sizeof(u32);
}

mqtt_entry *mqtt_entry_make(mqtt_session *s, delivery *d, bool keep) {
    u32 ids = keep ? d->subscription_id_count : 0;
    mqtt_entry *e = pool_alloc(mqtt_pool(s), entry_bytes(ids));
    if (e == NULL) return NULL;
    *e = (mqtt_entry){.id_count = ids, .share = d->share, .qos = d->qos, .retain = d->retain};
    if (ids > 0) memcpy(e->ids, d->subscription_ids, ids * sizeof(u32));
    if (!keep) return e;
    e->message = delivery_message(d);
    if (e->message != NULL) return e;
    pool_free(mqtt_pool(s), e, entry_bytes(ids));
    return NULL;
}

mqtt_entry *mqtt_entry_blank(mqtt_session *s, u8 qos, bool retain) {
    mqtt_entry *e = pool_alloc(mqtt_pool(s), entry_bytes(0));
    if (e != NULL) *e = (mqtt_entry){.qos = qos, .retain = retain};
    return e;
}

void mqtt_entry_free(mqtt_session *s, mqtt_entry *e) {
    if (e->message != NULL) message_unref(e->message);
    pool_free(mqtt_pool(s), e, entry_bytes(e->id_count));
}

// --- packet identifiers ---

static bool slots_grow(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    u32 count = MAX(out->slot_count * 2, SLOTS_MIN);
    if (count > 32768) return false;
    mqtt_entry **slots = pool_alloc(mqtt_pool(s), count * sizeof(mqtt_entry *));
    if (slots == NULL) return false;
    memset(slots, 0, count * sizeof(mqtt_entry *));
    // Identifiers that differ in fewer low bits differ in more.
    for (mqtt_entry *e = out->in_flight.head; e != NULL; e = e->next) {
        slots[e->packet_id & (count - 1)] = e;
    }
    pool_free(mqtt_pool(s), out->slots, out->slot_count * sizeof(mqtt_entry *));
    out->slots = slots;
    out->slot_count = count;
    return true;
}

mqtt_entry *mqtt_entry_of_id(const mqtt_session *s, u16 id) {
    const mqtt_outbound *out = s->out;
    if (out == NULL || out->slot_count == 0) return NULL;
    mqtt_entry *e = out->slots[id & (out->slot_count - 1)];
    return e != NULL && e->packet_id == id ? e : NULL;
}

static void flight_link(mqtt_session *s, mqtt_entry *e, u16 id) {
    mqtt_outbound *out = s->out;
    e->packet_id = id;
    out->slots[id & (out->slot_count - 1)] = e;
    mqtt_list_append(&out->in_flight, e);
    counter_add(&mqtt_metrics(s)->mqtt_in_flight, 1);
}

bool mqtt_flight_put(mqtt_session *s, mqtt_entry *e, u16 id) {
    if (mqtt_outbound_of(s) == NULL) return false;
    mqtt_outbound *out = s->out;
    while (out->slot_count == 0 || out->slots[id & (out->slot_count - 1)] != NULL) {
        if (!slots_grow(s)) return false;
    }
    flight_link(s, e, id);
    out->last_id = id;
    return true;
}

bool mqtt_flight_add(mqtt_session *s, mqtt_entry *e) {
    mqtt_outbound *out = mqtt_outbound_of(s);
    if (out == NULL) return false;
    if (out->in_flight.count * 2 >= out->slot_count && !slots_grow(s) &&
        out->in_flight.count >= out->slot_count) {
        return false;
    }
    do {
        out->last_id++;
    } while (out->last_id == 0 || out->slots[out->last_id & (out->slot_count - 1)] != NULL);
    flight_link(s, e, out->last_id);
    return true;
}

mqtt_entry *mqtt_flight_begin(mqtt_session *s, delivery *d, bool keep) {
    if (mqtt_outbound_of(s) == NULL) return NULL;
    mqtt_entry *e = mqtt_entry_make(s, d, keep);
    if (e == NULL) return NULL;
    if (mqtt_flight_add(s, e)) return e;
    mqtt_entry_free(s, e);
    return NULL;
}

static void flight_remove(mqtt_session *s, mqtt_entry *e) {
    mqtt_outbound *out = s->out;
    out->slots[e->packet_id & (out->slot_count - 1)] = NULL;
    if (e->resend) out->resend_count--;
    mqtt_list_remove(&out->in_flight, e);
    counter_sub(&mqtt_metrics(s)->mqtt_in_flight, 1);
    if (e->stream) mqtt_stream_ended(s, e);
    mqtt_entry_free(s, e);
}

void mqtt_flight_end(mqtt_session *s, mqtt_entry *e) {
    mqtt_durable_flight_end(s, e);
    flight_remove(s, e);
}

// Its identifier was never used.
void mqtt_flight_cancel(mqtt_session *s, mqtt_entry *e) {
    s->out->last_id = (u16)(e->packet_id - 1);
    flight_remove(s, e);
}

bool mqtt_window_is_open(const mqtt_session *s) {
    return s->out == NULL || (s->out->in_flight.count < s->window && s->out->resend_count == 0);
}

// --- waiting ---

static u64 entry_charge(const mqtt_entry *e) {
    return message_bytes(e->message) + ENTRY_COST;
}

static void queue_remove(mqtt_session *s, mqtt_entries *list, mqtt_entry *e) {
    worker_metrics *metrics = mqtt_metrics(s);
    u64 charge = entry_charge(e);
    s->out->queued_bytes -= charge;
    counter_sub(&metrics->mqtt_queued, 1);
    counter_sub(&metrics->mqtt_queued_bytes, charge);
    mqtt_list_remove(list, e);
    mqtt_queue_watch(s);
}

static bool queue_fits(const mqtt_session *s, u64 bytes) {
    const mqtt_outbound *out = s->out;
    return out->queued_bytes + bytes <= s->queued_bytes_max &&
           out->queue.count + out->queue_0.count < s->queued_messages_max;
}

void mqtt_queue_watch(mqtt_session *s) {
    bool full = false;
    if (s->queue_policy == QUEUE_REJECT) {
        u64 bytes = s->out == NULL ? 0 : s->out->queued_bytes;
        u32 count = s->out == NULL ? 0 : s->out->queue_0.count;
        if (s->keep != NULL) full = s->keep->backlog.bytes + bytes >= s->queued_bytes_max;
        count += s->keep != NULL ? s->keep->backlog.count : s->out != NULL ? s->out->queue.count : 0;
        full = full || bytes >= s->queued_bytes_max || count >= s->queued_messages_max;
    }
    if (full == ((s->flags & MQTT_QUEUE_FULL) != 0)) return;
    s->flags ^= MQTT_QUEUE_FULL;
    admit_session_full(mqtt_broker(s), full);
}

bool mqtt_queue_must_take(const mqtt_session *s, const delivery *d) {
    return s->queue_policy == QUEUE_REJECT && d->qos > 0 && d->share == 0 && d->publication->refusable;
}

// Drops the oldest until there is room: QoS 0 first. False when that is not enough.
static bool queue_make_room(mqtt_session *s, u64 bytes) {
    mqtt_outbound *out = s->out;
    while (!queue_fits(s, bytes)) {
        mqtt_entries *list = out->queue_0.head != NULL ? &out->queue_0 : &out->queue;
        mqtt_entry *oldest = list->head;
        if (oldest == NULL) return false;
        queue_remove(s, list, oldest);
        mqtt_entry_free(s, oldest);
        mqtt_dropped(s, MQTT_DROP_QUEUE_OLDEST);
    }
    return true;
}

void mqtt_queue_0_drop_oldest(mqtt_session *s) {
    mqtt_entry *oldest = s->out->queue_0.head;
    queue_remove(s, &s->out->queue_0, oldest);
    mqtt_entry_free(s, oldest);
    mqtt_dropped(s, MQTT_DROP_QUEUE_OLDEST);
}

delivery_result mqtt_queue_put(mqtt_session *s, delivery *d) {
    mqtt_outbound *out = mqtt_outbound_of(s);
    const publication *p = d->publication;
    u64 bytes = sizeof(message) + p->topic_len + p->props_len + p->payload_len + ENTRY_COST;
    ASSERT(s->keep == NULL || d->qos == 0);
    if (out == NULL) {
        mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
        return DELIVERY_DROPPED;
    }
    bool fits = queue_fits(s, bytes) || mqtt_queue_must_take(s, d);
    if (!fits && d->share != 0) return DELIVERY_REFUSED;
    if (!fits && s->queue_policy == QUEUE_OLDEST) fits = queue_make_room(s, bytes);
    if (!fits) {
        mqtt_dropped(s, d->qos == 0 ? MQTT_DROP_SLOW : MQTT_DROP_QUEUE_FULL);
        bool end = s->queue_policy == QUEUE_DISCONNECT && mqtt_session_online(s);
        if (end) mqtt_session_work(s, MQTT_WORK_CLOSE);
        return DELIVERY_DROPPED;
    }
    mqtt_entry *e = mqtt_entry_make(s, d, true);
    if (e == NULL) {
        mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
        return DELIVERY_DROPPED;
    }
    mqtt_list_append(d->qos == 0 ? &out->queue_0 : &out->queue, e);
    u64 charge = entry_charge(e);
    out->queued_bytes += charge;
    counter_add(&mqtt_metrics(s)->mqtt_queued, 1);
    counter_add(&mqtt_metrics(s)->mqtt_queued_bytes, charge);
    mqtt_queue_watch(s);
    return DELIVERY_TAKEN;
}

// --- sending what waits ---

static bool output_is_open(const mqtt_session *s) {
    return mqtt_session_online(s) && (s->conn->flags & CONN_PAUSED_OUT) == 0;
}

int mqtt_entry_send(mqtt_session *s, const mqtt_entry *e) {
    message *m = e->message;
    mqtt_outgoing out = {
        .topic = message_topic(m),
        .topic_len = m->topic_len,
        .props = message_props(m),
        .props_len = m->props_len,
        .payload = message_payload(m),
        .payload_len = m->payload_len,
        .ids = e->ids,
        .id_count = e->id_count,
        .expires_ns = m->expires_ns,
        .packet_id = e->packet_id,
        .qos = e->qos,
        .retain = e->retain,
        .dup = e->sent_before,
    };
    // Its delivery had begun before it expired: it is brought to its end (5.0 section 3.3.2.3.3).
    bool begun = e->sent_before && m->expires_ns != 0;
    if (begun) out.expires_ns = MAX(m->expires_ns, s->owner->now_ns + 1);
    return mqtt_publish_send(s, &out, m);
}

void mqtt_count_unsent(mqtt_session *s, int result) {
    if (result == MQTT_SEND_DENIED) counter_add(&mqtt_metrics(s)->read_denied, 1);
    mqtt_dropped(s, result == MQTT_SEND_EXPIRED     ? MQTT_DROP_EXPIRED
                    : result == MQTT_SEND_TOO_LARGE ? MQTT_DROP_TOO_LARGE
                    : result == MQTT_SEND_DENIED    ? MQTT_DROP_DENIED
                                                    : MQTT_DROP_NO_MEMORY);
}

// One entry in flight, again. False: no room now.
static bool resend(mqtt_session *s, mqtt_entry *e) {
    int result;
    if (e->state == MQTT_ENTRY_RELEASED) {
        result = mqtt_ack_send(s, MQTT_PUBREL, e->packet_id, MQTT_REASON_SUCCESS);
    } else {
        result = mqtt_entry_send(s, e);
    }
    if (result == CLOSE_SLOW_CONSUMER) return false;
    if (result != 0) {
        mqtt_count_unsent(s, result);
        mqtt_flight_end(s, e);
        return true;
    }
    e->resend = false;
    s->out->resend_count--;
    return true;
}

static bool pump_flight(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    mqtt_entry *e = out->in_flight.head;
    while (out->resend_count > 0 && e != NULL) {
        mqtt_entry *next = e->next;
        // Each new connection has its own window (5.0 section 4.9); a PUBREL does not count.
        bool fits = e->state == MQTT_ENTRY_RELEASED || out->in_flight.count - out->resend_count < s->window;
        if (e->resend && (!fits || !output_is_open(s) || !resend(s, e))) return false;
        e = next;
    }
    return true;
}

static void pump_queue(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    while (out->queue.head != NULL && mqtt_window_is_open(s) && output_is_open(s)) {
        mqtt_entry *e = out->queue.head;
        queue_remove(s, &out->queue, e);
        if (!mqtt_flight_add(s, e)) {
            mqtt_count_unsent(s, CLOSE_NO_MEMORY);
            mqtt_entry_free(s, e);
            continue;
        }
        int result = mqtt_entry_send(s, e);
        if (result != 0) {
            mqtt_count_unsent(s, result);
            mqtt_flight_end(s, e);
            continue;
        }
        e->state = MQTT_ENTRY_SENT;
        e->sent_before = true;
    }
}

static void pump_queue_0(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    while (out->queue_0.head != NULL && output_is_open(s)) {
        mqtt_entry *e = out->queue_0.head;
        queue_remove(s, &out->queue_0, e);
        int result = mqtt_entry_send(s, e);
        if (result != 0) mqtt_count_unsent(s, result);
        mqtt_entry_free(s, e);
    }
}

void mqtt_queue_pump(mqtt_session *s) {
    if (s->keep != NULL && s->keep->backlog.count > 0 && mqtt_outbound_of(s) == NULL) return;
    if (s->out != NULL && s->keep != NULL && mqtt_session_online(s)) {
        if (!mqtt_durable_pump_flight(s)) return;
        pump_queue_0(s);
        mqtt_durable_pump_queue(s);
    } else if (s->out != NULL && mqtt_session_online(s)) {
        if (!pump_flight(s)) return;
        pump_queue_0(s);
        pump_queue(s);
    }
    if (!output_is_open(s) || !mqtt_window_is_open(s)) return;
    if ((s->flags & MQTT_RETAINED_WAITS) != 0) mqtt_subscribe_more(s);
    if ((s->flags & MQTT_SHARED_WAITS) != 0) broker_subscriber_changed(mqtt_broker(s), &s->subscriber);
    s->flags &= (u8)~(MQTT_RETAINED_WAITS | MQTT_SHARED_WAITS);
    if (s->streams != NULL) mqtt_stream_pump(s); // sets the flag again where there is no room
}

// --- acknowledgements ---

// PUBREC: the client has the message; from now on only the identifier counts.
static int take_pubrec(conn *c, const mqtt_ack *ack, mqtt_entry *e) {
    mqtt_session *s = mqtt_session_of(c);
    if (e == NULL) {
        u8 reason = s->version == MQTT_5 ? MQTT_REASON_PACKET_ID_NOT_FOUND : 0;
        // 3.x: the exchange is brought to its end, or the client would send the PUBREC for ever.
        return mqtt_ack_send(s, MQTT_PUBREL, ack->packet_id, reason);
    }
    if (ack->reason >= MQTT_REASON_UNSPECIFIED) {
        mqtt_flight_end(s, e);
        mqtt_queue_pump(s);
        return 0;
    }
    if (e->message != NULL) message_unref(e->message);
    e->message = NULL;
    bool again = e->state == MQTT_ENTRY_RELEASED;
    e->state = MQTT_ENTRY_RELEASED;
    if (s->keep != NULL && (!again || e->hold_pos != 0)) {
        mqtt_durable_released(s, e); // PUBREL follows when that is on disk
        return 0;
    }
    return mqtt_ack_send(s, MQTT_PUBREL, ack->packet_id, MQTT_REASON_SUCCESS);
}

int mqtt_receive_ack(conn *c, mqtt_type type, const mqtt_ack *ack) {
    mqtt_session *s = mqtt_session_of(c);
    mqtt_entry *e = mqtt_entry_of_id(s, ack->packet_id);
    // One that waits to be sent again was sent on an earlier connection: nothing to acknowledge yet.
    if (e != NULL && e->resend) e = NULL;
    bool wrong = e != NULL && (type == MQTT_PUBACK ? e->qos != 1 : e->qos != 2);
    wrong = wrong || (e != NULL && type == MQTT_PUBCOMP && e->state != MQTT_ENTRY_RELEASED);
    if (wrong) {
        return mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR, CLOSE_PROTOCOL_ERROR,
                              "acknowledgement that does not belong to the message's QoS");
    }
    if (type == MQTT_PUBREC) return take_pubrec(c, ack, e);
    if (e == NULL) return 0; // unknown: there is nothing to answer a PUBACK or PUBCOMP with
    mqtt_flight_end(s, e);
    mqtt_queue_pump(s);
    return 0;
}

// --- connections come and go ---

void mqtt_queue_resume(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    if (out == NULL) return;
    out->resend_count = 0;
    for (mqtt_entry *e = out->in_flight.head; e != NULL; e = e->next) {
        e->resend = true;
        e->released = false;
        out->resend_count++;
    }
}

// A message of a shared subscription that this client will not acknowledge goes to another member (5.0
// section 4.8.2); QoS 2 only while it has not been sent. Whether it did.
static bool entry_redistribute(mqtt_session *s, const mqtt_entry *e) {
    bool possible = e->share != 0 && e->message != NULL && (e->qos == 1 || !e->sent_before);
    return possible && broker_redistribute(mqtt_broker(s), e->share, e->message) == 0;
}

// What waits for a client that goes away, from shared subscriptions. It comes back if nobody else is there.
static void hand_back(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    mqtt_entry *last = out->queue.tail, *next;
    for (mqtt_entry *e = out->queue.head; e != NULL; e = next) {
        next = e == last ? NULL : e->next;
        if (!entry_redistribute(s, e)) continue;
        queue_remove(s, &out->queue, e);
        mqtt_entry_free(s, e);
    }
}

void mqtt_queue_detach(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    if (s->keep != NULL) mqtt_durable_detach(s);
    if (out == NULL) return;
    mqtt_alias_free(s);
    hand_back(s);
    // QoS 0 is for who is there.
    while (out->queue_0.head != NULL) {
        mqtt_entry *e = out->queue_0.head;
        queue_remove(s, &out->queue_0, e);
        mqtt_entry_free(s, e);
        mqtt_dropped(s, MQTT_DROP_OFFLINE);
    }
    mqtt_queue_trim(s);
}

void mqtt_queue_trim(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    if (out == NULL || out->aliases != NULL || out->in_flight.count > 0) return;
    pool_free(mqtt_pool(s), out->slots, out->slot_count * sizeof(mqtt_entry *));
    out->slots = NULL;
    out->slot_count = 0;
    // last_id is what is left: a client away may still hold identifiers, so they go on where they were.
    if (out->queue.count > 0 || out->queue_0.count > 0 || s->conn == NULL) return;
    if (s->keep != NULL && s->keep->backlog.count > 0) return; // the next one is being read from the log
    // The log names messages in flight by identifier, and a message's record may get there before the change that says
    // that the identifier's last user is done: none is used again soon.
    if (s->keep != NULL) s->keep->last_id = out->last_id;
    pool_free(mqtt_pool(s), out, sizeof(*out));
    s->out = NULL;
}

void mqtt_queue_free(mqtt_session *s) {
    mqtt_outbound *out = s->out;
    if (out == NULL) return;
    mqtt_alias_free(s);
    while (out->queue.head != NULL) {
        mqtt_entry *e = out->queue.head;
        queue_remove(s, &out->queue, e);
        if (!entry_redistribute(s, e)) mqtt_dropped(s, MQTT_DROP_SESSION_ENDED);
        mqtt_entry_free(s, e);
    }
    while (out->queue_0.head != NULL) {
        mqtt_entry *e = out->queue_0.head;
        queue_remove(s, &out->queue_0, e);
        mqtt_entry_free(s, e);
    }
    while (out->in_flight.head != NULL) {
        mqtt_entry *e = out->in_flight.head;
        if (e->state != MQTT_ENTRY_RELEASED && !entry_redistribute(s, e)) {
            mqtt_dropped(s, MQTT_DROP_SESSION_ENDED);
        }
        mqtt_flight_end(s, e);
    }
    pool_free(mqtt_pool(s), out->slots, out->slot_count * sizeof(mqtt_entry *));
    pool_free(mqtt_pool(s), out, sizeof(*out));
    s->out = NULL;
}
