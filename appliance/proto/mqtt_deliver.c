// SPDX-License-Identifier: Apache-2.0
// mqtt_deliver.c: a message from the broker to a session. A client that reads and has its window open
// gets it at once, written from the publication straight into its output; else it is kept by reference,
// or dropped, counted with its reason.
//
// Runs inside the broker's delivery: nothing is closed, freed or published here.
#include "proto/mqtt_durable.h"

#define COPY_FIRST_BYTES_MAX 4096u // more is allocated and copied once in either case

static mqtt_outgoing outgoing_of(const delivery *d) {
    const publication *p = d->publication;
    return (mqtt_outgoing){
        .topic = p->topic,
        .topic_len = p->topic_len,
        .props = p->props,
        .props_len = p->props_len,
        .payload = p->payload,
        .payload_len = p->payload_len,
        .ids = d->subscription_ids,
        .id_count = d->subscription_id_count,
        .expires_ns = p->expires_ns,
        .qos = d->qos,
        .retain = d->retain,
    };
}

static bool output_is_open(const mqtt_session *s) {
    return mqtt_session_online(s) && (s->conn->flags & CONN_PAUSED_OUT) == 0;
}

// A large payload is worth one copy for all receivers. NULL: it is copied from the publication into the
// output, as are small ones, and middling ones for the first receiver, who may be the only one.
static message *message_for_output(const mqtt_session *s, delivery *d) {
    mqtt_sessions *all = mqtt_sessions_of(s);
    u32 len = d->publication->payload_len;
    if (len < LIMIT_OUT_SHARED_MIN_BYTES) return NULL;
    bool first = all->last_payload != d->publication->payload;
    all->last_payload = d->publication->payload;
    return first && len <= COPY_FIRST_BYTES_MAX ? NULL : delivery_message(d);
}

// Sends now. 0, a close_reason for no room or memory, or MQTT_SEND_*.
int mqtt_send_now(mqtt_session *s, delivery *d, const mqtt_outgoing *out) {
    message *m = message_for_output(s, d);
    int result = mqtt_publish_send(s, out, m);
    if (m != NULL) message_unref(m);
    return result;
}

static delivery_result deliver_qos_0(mqtt_session *s, delivery *d) {
    if (!mqtt_session_online(s)) {
        if (d->share != 0) return DELIVERY_REFUSED;
        mqtt_dropped(s, MQTT_DROP_OFFLINE);
        return DELIVERY_DROPPED;
    }
    bool waits = s->out != NULL && s->out->queue_0.head != NULL;
    if (!output_is_open(s) || waits) return d->share != 0 ? DELIVERY_REFUSED : mqtt_queue_put(s, d);
    mqtt_outgoing out = outgoing_of(d);
    int result = mqtt_send_now(s, d, &out);
    if (result == 0) return DELIVERY_TAKEN;
    mqtt_count_unsent(s, result);
    return DELIVERY_DROPPED;
}

static delivery_result deliver_acknowledged(mqtt_session *s, delivery *d) {
    if (s->keep != NULL) return mqtt_durable_deliver(s, d);
    bool waits = s->out != NULL && s->out->queue.head != NULL;
    if (!output_is_open(s) || waits || !mqtt_window_is_open(s)) {
        // Another member may have room; of those that are all away one keeps it.
        if (d->share != 0 && mqtt_session_online(s)) return DELIVERY_REFUSED;
        return mqtt_queue_put(s, d);
    }
    // What ends with its connection is never sent again; what a shared subscription gave may go to another.
    bool keep = s->expiry_s > 0 || d->share != 0;
    mqtt_entry *e = mqtt_flight_begin(s, d, keep);
    if (e == NULL) {
        mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
        return DELIVERY_DROPPED;
    }
    mqtt_outgoing out = outgoing_of(d);
    out.packet_id = e->packet_id;
    int result = e->message != NULL ? mqtt_publish_send(s, &out, e->message) : mqtt_send_now(s, d, &out);
    if (result != 0) {
        mqtt_count_unsent(s, result);
        mqtt_flight_end(s, e);
        return DELIVERY_DROPPED;
    }
    e->state = MQTT_ENTRY_SENT;
    e->sent_before = true;
    return DELIVERY_TAKEN;
}

// From a retained reader, which offers it again when there is room.
static delivery_result deliver_retained(mqtt_session *s, delivery *d) {
    const mqtt_outbound *out = s->out;
    bool waits = out != NULL && (out->queue.head != NULL || out->queue_0.head != NULL);
    waits = waits || (s->keep != NULL && s->keep->backlog.count > 0);
    bool open = output_is_open(s) && !waits && (d->qos == 0 || mqtt_window_is_open(s));
    if (!open) {
        s->flags |= MQTT_RETAINED_WAITS;
        return DELIVERY_REFUSED;
    }
    delivery_result result = d->qos == 0 ? deliver_qos_0(s, d) : deliver_acknowledged(s, d);
    if (result == DELIVERY_REFUSED) s->flags |= MQTT_RETAINED_WAITS; // the log had no room
    return result;
}

static delivery_result session_deliver(subscriber *to, delivery *d) {
    mqtt_session *s = CONTAINER_OF(to, mqtt_session, subscriber);
    if (!mqtt_may(s, ACL_READ, d->publication->topic, d->publication->topic_len)) {
        counter_add(&mqtt_metrics(s)->read_denied, 1);
        return DELIVERY_DROPPED;
    }
    if (d->retained) return deliver_retained(s, d);
    delivery_result result = d->qos == 0 ? deliver_qos_0(s, d) : deliver_acknowledged(s, d);
    if (result == DELIVERY_REFUSED) s->flags |= MQTT_SHARED_WAITS;
    return result;
}

static bool session_refuses(const subscriber *of, const delivery *d) {
    const mqtt_session *s = CONTAINER_OF((subscriber *)(uintptr_t)of, mqtt_session, subscriber);
    if ((s->flags & MQTT_QUEUE_FULL) == 0) return false;
    return mqtt_may(s, ACL_READ, d->publication->topic, d->publication->topic_len);
}

// How much this client has to do, for shared subscriptions; -1: it is not there.
static int session_load(const subscriber *of) {
    // Only read; the cast is what CONTAINER_OF needs.
    const mqtt_session *s = CONTAINER_OF((subscriber *)(uintptr_t)of, mqtt_session, subscriber);
    if (!mqtt_session_online(s)) return -1;
    u32 load = s->out == NULL ? 0 : s->out->in_flight.count + s->out->queue.count + s->out->queue_0.count;
    if (s->keep != NULL) load += s->keep->backlog.count - s->keep->loaded;
    if ((s->conn->flags & CONN_PAUSED_OUT) != 0) load += s->window;
    return (int)MIN(load, (u32)INT32_MAX);
}

static const char *session_name(const subscriber *of, u32 *len) {
    const mqtt_session *s = CONTAINER_OF((subscriber *)(uintptr_t)of, mqtt_session, subscriber);
    *len = s->client.id_len;
    return s->client.id;
}

const subscriber_ops mqtt_subscriber_ops = {
    .deliver = session_deliver, .load = session_load, .name = session_name,
    .reserve = mqtt_durable_reserve, .stored = mqtt_durable_stored,
    .refuses = session_refuses};
