// SPDX-License-Identifier: Apache-2.0
// mqtt_session.c: the life of a session: made by a CONNECT, with a connection or waiting for one, ended
// by its expiry, a clean start, or a device that takes its id. All of a worker's sessions are in its
// table of client ids (broker/clients.c); what follows from a delivery is done here, in a turn of its own.
//
//   CONNECT ──► attached ◄──► away ──► ended        (5.0 section 4.1)
//
// Invariants: s->conn->proto_state == s or s->conn == NULL; the timer is armed only while away and with
// an expiry that is not "never"; a session with expiry 0 does not outlive its connection.
#include "proto/mqtt_durable.h"
#include "proto/mqtt_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/durable.h"
#include "broker/events.h"
#include "broker/sys.h"
#include "limits.h"

// --- all of a worker ---

// Closes what deliveries have decided to close.
static void work_run(timer_node *node, void *context) {
    (void)context;
    mqtt_sessions *all = CONTAINER_OF(node, mqtt_sessions, work_timer);
    while (all->work != NULL) {
        mqtt_session *s = all->work;
        all->work = s->work_next;
        bool close = (s->flags & MQTT_WORK_CLOSE) != 0;
        s->flags &= (u8)~(MQTT_IN_WORK | MQTT_WORK_CLOSE);
        if (!close || !mqtt_session_online(s)) continue;
        conn *c = s->conn;
        int reason = mqtt_conn_fail(c, MQTT_REASON_QUOTA_EXCEEDED, CLOSE_QUEUE_FULL,
                                    "too many messages wait for this client");
        // One that reads gets what is queued: acknowledgements above all, without which it would come back with
        // the same messages. To one that does not read it would not go out.
        if ((c->flags & CONN_PAUSED_OUT) != 0) conn_close(c, (close_reason)reason);
        else conn_close_after_flush(c, (close_reason)reason);
    }
}

void mqtt_session_work(mqtt_session *s, u8 flags) {
    mqtt_sessions *all = mqtt_sessions_of(s);
    s->flags |= flags;
    if (s->flags & MQTT_IN_WORK) return;
    s->flags |= MQTT_IN_WORK;
    s->work_next = all->work;
    all->work = s;
    timer_arm(s->owner->wheel, &all->work_timer, 0);
}

static void work_forget(mqtt_session *s) {
    if (!(s->flags & MQTT_IN_WORK)) return;
    mqtt_session **at = &mqtt_sessions_of(s)->work;
    while (*at != s) at = &(*at)->work_next;
    *at = s->work_next;
    s->flags &= (u8)~MQTT_IN_WORK;
}

mqtt_sessions *mqtt_sessions_create(worker *w) {
    mqtt_sessions *all = calloc(1, sizeof(*all));
    if (all == NULL) return NULL;
    all->owner = w;
    all->work_timer.callback = work_run;
    if (w->index == 0 && (all->sys = sys_create(w)) == NULL) {
        free(all);
        return NULL;
    }
    return all;
}

bool mqtt_sessions_has_room(const mqtt_sessions *all) {
    const gateway *gw = all->owner->gw;
    u64 max = all->owner->conf->max_sessions, count = 0;
    if (max == 0) return true;
    for (u32 i = 0; i < gw->worker_count; i++) count += counter_get(&gw->workers[i].metrics.mqtt_sessions);
    return count < max;
}

// --- one session ---

static void expired(timer_node *node, void *context) {
    (void)context;
    mqtt_session *s = CONTAINER_OF(node, mqtt_session, timer);
    ASSERT(s->conn == NULL);
    counter_add(&mqtt_metrics(s)->mqtt_sessions_expired, 1);
    mqtt_session_end(s);
}

// A framed device has come with the id.
static void taken_over(client *other) {
    mqtt_session *s = CONTAINER_OF(other, mqtt_session, client);
    mqtt_session_hand_over(s, false);
    mqtt_session_end(s);
}

mqtt_session *mqtt_session_of_client(client *c) {
    return c->taken_over == taken_over ? CONTAINER_OF(c, mqtt_session, client) : NULL;
}

mqtt_session *mqtt_session_find(worker *w, const char *id, u32 len) {
    client *found = client_find(w->broker, id, len);
    return found == NULL ? NULL : mqtt_session_of_client(found);
}

mqtt_session *mqtt_session_create(worker *w, const char *id, u32 len) {
    mqtt_session *s = pool_alloc(broker_pool(w->broker), sizeof(*s) + len);
    if (s == NULL) return NULL;
    mqtt_sessions *all = w->sessions;
    memset(s, 0, sizeof(*s));
    memcpy(s->id, id, len);
    s->owner = w;
    s->client = (client){.id = s->id, .id_len = len, .taken_over = taken_over};
    s->subscriber.ops = &mqtt_subscriber_ops;
    s->subscriber.number = broker_subscriber_number(w->broker);
    s->timer.callback = expired;
    client_claim(w->broker, &s->client);
    all->count++;
    counter_add(&w->metrics.mqtt_sessions, 1);
    counter_add(&w->metrics.mqtt_sessions_made, 1);
    return s;
}

static void session_free(mqtt_session *s) {
    worker *w = s->owner;
    mqtt_durable_end(s);
    mqtt_queue_free(s);
    s->queue_policy = QUEUE_NEWEST;
    mqtt_queue_watch(s);
    mqtt_subscribe_free(s);
    mqtt_inbound_free(s);
    mqtt_will_free(s);
    grant_free(mqtt_pool(s), s->grant);
    work_forget(s);
    timer_cancel(w->wheel, &s->timer);
    client_release(w->broker, &s->client);
    w->sessions->count--;
    counter_sub(&w->metrics.mqtt_sessions, 1);
    pool_free(mqtt_pool(s), s, sizeof(*s) + s->client.id_len);
}

void mqtt_session_end(mqtt_session *s) {
    ASSERT(s->conn == NULL);
    broker_unsubscribe_all(mqtt_broker(s), &s->subscriber);
    mqtt_will_publish(s);
    session_free(s);
}

void mqtt_session_forget(mqtt_session *s) {
    ASSERT(s->conn == NULL && s->will == NULL && s->subscriber.subscription_count == 0);
    mqtt_durable_forget(s);
    session_free(s);
}

int mqtt_sessions_keep(mqtt_sessions *all, struct store *log) {
    int result = durable_start(all->owner->broker, log);
    if (result < 0) return result;
    all->durable = mqtt_durable_create(all, log);
    return all->durable == NULL ? -ENOMEM : 0;
}

bool mqtt_sessions_restored(const mqtt_sessions *all) {
    return all->durable == NULL || all->durable->restoring == 0;
}

bool mqtt_sessions_all_restored(const gateway *gw) {
    for (u32 i = 0; i < gw->worker_count; i++) {
        const mqtt_sessions *all = gw->workers[i].sessions;
        if (all != NULL && all->durable != NULL && counter_get(&all->durable->restored) == 0) return false;
    }
    return true;
}

bool mqtt_sessions_all_settled(const gateway *gw) {
    bool settled = mqtt_sessions_all_restored(gw);
    for (u32 i = 0; i < gw->worker_count; i++) settled = settled && exchanges_open(gw->workers[i].broker) == 0;
    return settled;
}

void mqtt_sessions_finish(mqtt_sessions *all) {
    if (all->durable != NULL) mqtt_durable_finish(all->durable);
}

void mqtt_sessions_destroy(mqtt_sessions *all) {
    if (all == NULL) return;
    mqtt_durable_destroy(all->durable);
    sys_destroy(all->sys);
    // The sessions themselves, their messages and wills lie in the broker's pool and go with it.
    free(all);
}

void mqtt_session_attach(mqtt_session *s, conn *c) {
    ASSERT(s->conn == NULL && c->proto_state == NULL);
    timer_cancel(s->owner->wheel, &s->timer);
    s->conn = c;
    c->proto_state = s;
    mqtt_grant_attach(s);
    counter_add(&mqtt_metrics(s)->mqtt_online, 1);
    broker_subscriber_changed(mqtt_broker(s), &s->subscriber);
}

void mqtt_session_detach(mqtt_session *s) {
    ASSERT(s->conn != NULL);
    conn *c = s->conn;
    mqtt_grant_detach(s);
    mqtt_connect_detach(s);
    s->conn = NULL;
    c->proto_state = NULL;
    s->flags &= (u8)~MQTT_WORK_CLOSE;
    counter_sub(&mqtt_metrics(s)->mqtt_online, 1);
    mqtt_inbound_detach(s);
    mqtt_subscribe_detach(s);
    mqtt_stream_detach(s);
    mqtt_queue_detach(s);
    broker_subscriber_changed(mqtt_broker(s), &s->subscriber);
}

void mqtt_session_await(mqtt_session *s) {
    ASSERT(s->conn == NULL && s->expiry_s != 0);
    if (s->expiry_s == MQTT_EXPIRY_NEVER || timer_is_armed(&s->timer)) return;
    timer_arm(s->owner->wheel, &s->timer, s->owner->now_ns + s->expiry_s * NS_PER_S);
}

void mqtt_session_leave(mqtt_session *s) {
    mqtt_session_detach(s);
    if (s->expiry_s == 0) {
        mqtt_session_end(s);
        return;
    }
    if (s->will != NULL) {
        u32 delay_s = mqtt_will_delay_s(s->will);
        if (delay_s == 0) mqtt_will_publish(s);
        else mqtt_will_wait(s, delay_s);
    }
    mqtt_durable_left(s);
    mqtt_session_await(s);
}

void mqtt_session_hand_over(mqtt_session *s, bool session_goes_on) {
    conn *c = s->conn;
    bool delayed = s->will != NULL && mqtt_will_delay_s(s->will) > 0;
    if (c != NULL) {
        counter_add(&mqtt_metrics(s)->mqtt_sessions_taken_over, 1);
        if (mqtt_session_online(s)) {
            mqtt_disconnect_send(s, c, MQTT_REASON_SESSION_TAKEN_OVER, NULL);
        }
        events_disconnect(s->owner, s->id, s->client.id_len, close_reason_name(CLOSE_TAKEN_OVER));
        mqtt_session_detach(s);
        conn_close_after_flush(c, CLOSE_TAKEN_OVER);
    }
    // 5.0 section 3.1.3.2.2: a will that was to be delayed is not sent when the session goes on.
    if (session_goes_on && (delayed || c == NULL)) mqtt_will_free(s);
    else mqtt_will_publish(s);
}

void mqtt_session_trim(mqtt_session *s) {
    mqtt_queue_trim(s);
    bool idle = s->in != NULL && s->in->id_count == 0 && s->in->aliases == NULL && s->in->owed.count == 0;
    if (idle) mqtt_inbound_free(s);
}
