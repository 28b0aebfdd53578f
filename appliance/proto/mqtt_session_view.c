// SPDX-License-Identifier: Apache-2.0
// mqtt_session_view.c: sessions for operators, read a part at a time on their own worker: no allocation, no
// change of state.
#include <string.h>

#include "proto/mqtt_durable.h"

typedef struct walk {
    const session_filter *filter;
    session_view *out;
    u32 count, max;
} walk;

static bool matches(const session_filter *f, const mqtt_session *s) {
    size_t len = strlen(f->client);
    if (len > s->client.id_len || memcmp(s->id, f->client, len) != 0) return false;
    if (!f->online && !f->away) return true;
    return s->conn != NULL ? f->online : f->away;
}

static void view_take(session_view *out, const mqtt_session *s) {
    const mqtt_outbound *o = s->out;
    u64 now_ns = s->owner->now_ns;
    memset(out, 0, sizeof(*out));
    memcpy(out->client, s->id, MIN(s->client.id_len, LIMIT_CLIENT_ID_BYTES));
    out->conn_id = s->conn == NULL ? 0 : s->conn->id;
    out->expires_in_ns = UINT64_MAX;
    if (s->conn == NULL && timer_is_armed(&s->timer)) {
        out->expires_in_ns = s->timer.due_ns > now_ns ? s->timer.due_ns - now_ns : 0;
    }
    out->worker = s->owner->index;
    out->expiry_s = s->expiry_s;
    out->subscriptions = s->subscriber.subscription_count;
    out->in_flight = o == NULL ? 0 : o->in_flight.count;
    out->queued = o == NULL ? 0 : o->queue.count + o->queue_0.count;
    out->queued_bytes = o == NULL ? 0 : o->queued_bytes;
    out->durable = s->keep != NULL;
    if (s->keep != NULL) {
        const backlog *l = &s->keep->backlog;
        out->queued_log = l->count;
        out->queued_log_bytes = l->bytes;
        out->queued = l->count + (o == NULL ? 0 : o->queue_0.count);
        out->queued_bytes += l->bytes;
    }
    out->open_qos_2 = mqtt_inbound_open(s);
    out->keep_alive_s = s->keep_alive_s;
    out->version = s->version;
    out->queue_policy = s->queue_policy;
    out->rejects = (s->flags & MQTT_QUEUE_FULL) != 0;
    out->has_will = s->will != NULL;
}

// A bucket with more clients than are asked for shows the first of them.
static void visit(client *c, void *context) {
    walk *k = context;
    const mqtt_session *s = mqtt_session_of_client(c);
    if (s == NULL || k->count == k->max || !matches(k->filter, s)) return;
    view_take(&k->out[k->count++], s);
}

u32 mqtt_sessions_view(worker *w, const session_filter *f, u64 *place, session_view *out, u32 max,
                       bool *more) {
    walk k = {.filter = f, .out = out, .max = max};
    // Half: the last bucket may hold more than is left.
    *more = client_walk(w->broker, place, max / 2, visit, &k);
    return k.count;
}
