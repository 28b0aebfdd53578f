// SPDX-License-Identifier: Apache-2.0
// mqtt_check.c: what must hold for MQTT clients; see mqtt_client.h. QoS 2 comes once, QoS 1 at least once,
// QoS 0 at most once; messages of a stream come in order, repetitions apart (5.0 section 4.6); an
// identifier is not used twice, the receive maximum not exceeded; a message that was acknowledged to its
// publisher comes to everybody whose subscription was in force before it was written first and whose
// session has not been lost.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "mqtt_client.h"

mq_totals mq_total;

// --- the ledger ---

u32 mq_message_make(mq_client *c, u32 topic, u8 qos, u32 len) {
    mq_field *f = c->field;
    ASSERT(f->message_count < f->message_size);
    u32 stream = (c->number * MQ_TOPICS + topic) * 3 + qos;
    u32 number = f->message_count++;
    f->messages[number] = (mq_message){.publisher = c->number, .topic = topic, .stream = stream, .qos = qos,
                                       .sequence = ++f->stream_next[stream], .len = len,
                                       .begun = ++f->clock};
    mq_total.published++;
    return number;
}

void mq_payload_write(u32 message, u8 *out, u32 len) {
    memcpy(out, "MQ! ", 4);
    memcpy(out + 4, &message, 4);
    for (u32 i = MQ_PAYLOAD_MIN; i < len; i++) out[i] = (u8)(message * 31 + i);
}

void mq_session_forget(mq_client *c) {
    if (c->stays) mq_total.lost_sessions++;
    c->stays = c->firm = false;
    c->open_count = 0;
    memset(c->settled, MQ_UNSETTLED, c->field->message_size);
    memset(c->since, 0, sizeof(c->since));
    memset(c->taken, 0, sizeof(c->taken));
    // What an earlier session was given says nothing of the order in a new one; what came once stays seen.
    memset(c->last, 0, sizeof(c->last));
}

void mq_settle(mq_client *c, mq_settled from, mq_settled to) {
    if (c->field->disk == NULL) return;
    for (u32 i = 0; i < c->field->message_count; i++) {
        if (c->settled[i] != from) continue;
        c->settled[i] = (u8)to;
        mq_total.settled += to == MQ_SETTLED;
    }
}

// --- what comes ---

static u32 message_of(mq_client *c, const mqtt_publish *p) {
    mq_field *f = c->field;
    rig *r = f->rig;
    u32 number = UINT32_MAX, topic = UINT32_MAX;
    const u8 *text = p->topic.data;
    if (p->payload.len >= MQ_PAYLOAD_MIN) memcpy(&number, p->payload.data + 4, 4);
    RIG_CHECK(r, number < f->message_count, "client %u: a message that nobody sent", c->number);
    if (p->topic.len == MQ_TOPIC_BYTES) topic = (u32)(text[MQ_TOPIC_BYTES - 1] - '0');
    if (p->topic_alias != 0 && p->topic_alias <= c->plan.alias_max) {
        u8 *known = &c->alias[p->topic_alias];
        if (p->topic.len == 0) topic = *known - 1u;
        else *known = (u8)(topic + 1);
        mq_total.aliases++;
    } else {
        RIG_CHECK(r, p->topic_alias == 0, "client %u: topic alias %u", c->number, p->topic_alias);
    }
    if (rig_is_failed(r)) return number;
    const mq_message *m = &f->messages[number];
    RIG_CHECK(r, topic == m->topic, "client %u: message %u on topic %u instead of %u", c->number, number,
              topic, m->topic);
    RIG_CHECK(r, p->payload.len == m->len, "client %u: message %u of %u bytes instead of %u", c->number,
              number, p->payload.len, m->len);
    for (u32 i = MQ_PAYLOAD_MIN; i < p->payload.len && !rig_is_failed(r); i++) {
        RIG_CHECK(r, p->payload.data[i] == (u8)(number * 31 + i), "client %u: message %u: byte %u is wrong",
                  c->number, number, i);
    }
    return number;
}

// Identifier and window of a QoS 1 or 2 message.
static void identifier_check(mq_client *c, const mqtt_publish *p) {
    rig *r = c->field->rig;
    u8 *byte = &c->held[p->packet_id >> 3], bit = (u8)(1u << (p->packet_id & 7));
    RIG_CHECK(r, (*byte & bit) == 0, "client %u: packet identifier %u is in use", c->number, p->packet_id);
    *byte |= bit;
    c->window++;
    u32 max = c->field->inflight_max;
    if (c->plan.receive_max != 0) max = MIN(max, c->plan.receive_max);
    RIG_CHECK(r, c->window <= max, "client %u: %u messages at once, the receive maximum is %u", c->number,
              c->window, max);
    RIG_CHECK(r, !p->dup || c->present, "client %u: DUP in a new session", c->number);
}

void mq_check_done(mq_client *c, u16 id) {
    u8 *byte = &c->held[id >> 3], bit = (u8)(1u << (id & 7));
    if ((*byte & bit) == 0) return; // begun on an earlier connection
    *byte &= (u8)~bit;
    c->window--;
}

// One log took the message, another could not: it was refused, and may be sent again as a new one (5.0 section 4.3.3).
// With 3.1.1 the connection is closed.
bool mq_refusal_was_lost(mq_field *f, const mq_message *m) {
    if (!f->faulty || !m->resent) return false;
    f->partial++;
    return f->partial + f->refusals_seen <= rig_log_refusals(f->rig);
}

void mq_check_publish(mq_client *c, const mqtt_publish *p) {
    mq_field *f = c->field;
    rig *r = f->rig;
    u32 number = message_of(c, p);
    if (rig_is_failed(r)) return;
    const mq_message *m = &f->messages[number];
    sim_note(r->world, "client %u: message %u (stream %u, %u) qos %u id %u dup %d", c->number, number, m->stream,
             m->sequence, p->qos, p->packet_id, p->dup);
    RIG_CHECK(r, p->qos <= m->qos, "client %u: message %u with QoS %u", c->number, number, p->qos);
    if (p->qos > 0) identifier_check(c, p);
    if (p->qos == 2) {
        u32 *taken = &c->taken[p->packet_id];
        RIG_CHECK(r, *taken == 0 || (*taken == number + 1 && p->dup),
                  "client %u: identifier %u of message %u is used for message %u", c->number, p->packet_id,
                  *taken - 1, number);
        bool again = *taken != 0;
        *taken = number + 1;
        if (again) {
            mq_total.duplicates++;
            return;
        }
    }
    u32 *last = &c->last[m->stream][p->qos];
    if (c->seen[number] > 0) {
        bool from_publisher = m->qos == 1 && m->resent;
        // A gateway whose power went may not know that it has sent it before.
        bool may = from_publisher || (p->qos == 1 && (p->dup || c->seen_life[number] < f->life)) ||
                   (m->qos == 2 && mq_refusal_was_lost(f, m));
        RIG_CHECK(r, from_publisher || c->settled[number] != MQ_SETTLED,
                  "client %u: message %u comes again, its acknowledgement was on disk", c->number, number);
        RIG_CHECK(r, may, "client %u: message %u (QoS %u of client %u, sent with %u, dup %d) comes again",
                  c->number, number, m->qos, m->publisher, p->qos, p->dup);
        mq_total.duplicates++;
    } else {
        bool in_order = m->sequence > *last || (m->qos == 1 && m->resent);
        RIG_CHECK(r, in_order, "client %u: message %u of stream %u: number %u comes after %u", c->number, number,
                  m->stream, m->sequence, *last);
    }
    *last = MAX(*last, m->sequence);
    c->seen[number] = (u8)MIN(c->seen[number] + 1, 255);
    c->seen_life[number] = (u8)f->life;
    c->received++;
    mq_total.received++;
}

// --- what should have come ---

static bool filter_matches(u32 filter, u32 topic) {
    return filter >= MQ_TOPICS || filter == topic;
}

static bool is_owed(const mq_client *c, const mq_message *m) {
    if (m->qos == 0 || !m->acked) return false;
    for (u32 i = 0; i < MQ_FILTERS; i++) {
        bool firm = c->since[i] != 0 && c->since[i] < m->begun && c->wanted[i] > 1;
        if (firm && filter_matches(i, m->topic)) return true;
    }
    return false;
}

u32 mq_check_missing(mq_field *f, bool judge) {
    rig *r = f->rig;
    u32 missing = 0;
    for (u32 i = 0; i < f->client_count; i++) {
        const mq_client *c = f->clients[i];
        for (u32 k = 0; k < f->message_count; k++) {
            const mq_message *m = &f->messages[k];
            if (c->seen[k] > 0 || !is_owed(c, m)) continue;
            missing++;
            if (!judge || f->lossy) continue;
            RIG_CHECK(r, false, "client %u: message %u (client %u, topic %u, QoS %u, number %u) never came",
                      c->number, k, m->publisher, m->topic, m->qos, m->sequence);
        }
    }
    u64 dropped = 0;
    for (u32 i = 0; i < MQTT_DROP_REASONS; i++) dropped += RIG_METRIC(r, mqtt_drops[i]);
    if (judge) {
        RIG_CHECK(r, missing <= dropped, "%u messages missing, %" PRIu64 " counted as dropped", missing,
                  dropped);
        mq_total.missing += missing;
    }
    return missing;
}

void mq_check_empty(mq_field *f) {
    rig *r = f->rig;
    const struct {
        const char *name;
        u64 value;
    } left[] = {
        {"sessions", RIG_METRIC(r, mqtt_sessions)},
        {"clients online", RIG_METRIC(r, mqtt_online)},
        {"messages in flight", RIG_METRIC(r, mqtt_in_flight)},
        {"messages queued", RIG_METRIC(r, mqtt_queued)},
        {"bytes queued", RIG_METRIC(r, mqtt_queued_bytes)},
    };
    for (u32 i = 0; i < ARRAY_LEN(left); i++) {
        RIG_CHECK(r, left[i].value == 0, "%" PRIu64 " %s left", left[i].value, left[i].name);
    }
    for (u32 i = 0; i < r->setup.workers; i++) {
        broker_usage usage = broker_usage_get(r->workers[i].broker);
        RIG_CHECK(r, usage.messages == 0 && usage.message_bytes == 0,
                  "worker %u: %" PRIu64 " messages of %" PRIu64 " bytes left", i, usage.messages,
                  usage.message_bytes);
        if (r->setup.disk != NULL) continue; // what a log brought back grew other tables than a start without one
        RIG_CHECK(r, usage.memory_bytes <= r->broker_bytes[i], "worker %u: the broker uses %" PRIu64
                  " bytes, %" PRIu64 " at the start", i, usage.memory_bytes, r->broker_bytes[i]);
    }
}
