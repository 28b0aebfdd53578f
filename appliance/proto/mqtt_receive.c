// SPDX-License-Identifier: Apache-2.0
// mqtt_receive.c: messages from a client: PUBLISH in all QoS, PUBREL. A message is handed to the broker
// first and acknowledged then; where the broker can not take it now, the packet waits and is looked at
// again as it came (PROTO_BLOCKED): nothing here changes state before the broker has accepted.
//
// QoS 2: the packet identifier is remembered from the PUBREC on until PUBREL; a PUBLISH with a
// remembered identifier is a repetition and is acknowledged only (5.0 section 4.3.3, method A of the
// receiver: the message is passed on at once).
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/deny.h"
#include "broker/sys.h"
#include "broker/topic.h"
#include "proto/mqtt_durable.h"
#include "proto/mqtt_stream.h"

// --- what is passed on ---

#define NOT_FORWARDED (1ull << MQTT_MESSAGE_EXPIRY | 1ull << MQTT_TOPIC_ALIAS | 1ull << MQTT_WILL_DELAY)

bool mqtt_forward_make(worker *w, const mqtt_properties *in, mqtt_forward *out) {
    out->big = NULL;
    out->props = *in;
    if ((in->present & NOT_FORWARDED) == 0) return true;
    u8 *to = out->room;
    if (in->len > sizeof(out->room)) {
        out->big = worker_buf_alloc(w, in->len, &out->big_size);
        if (out->big == NULL) return false;
        to = out->big;
    }
    u32 len = 0;
    mqtt_property p;
    cursor at = mqtt_properties_begin(in);
    for (const u8 *start = at.at; mqtt_property_next(&at, &p); start = at.at) {
        if ((NOT_FORWARDED >> p.id & 1) != 0) continue;
        memcpy(to + len, start, (size_t)(at.at - start));
        len += (u32)(at.at - start);
    }
    out->props = (mqtt_properties){to, len, in->present & ~NOT_FORWARDED};
    return true;
}

void mqtt_forward_free(worker *w, mqtt_forward *f) {
    if (f->big != NULL) worker_buf_free(w, f->big, f->big_size);
    f->big = NULL;
}

// --- open QoS 2 exchanges and aliases ---

static void owed_settled(pledge_line *line);
static void owed_silence(mqtt_session *s);

static mqtt_inbound *inbound_of(mqtt_session *s) {
    if (s->in != NULL) return s->in;
    s->in = pool_alloc(mqtt_pool(s), sizeof(*s->in));
    if (s->in == NULL) return NULL;
    memset(s->in, 0, sizeof(*s->in));
    s->in->session = s;
    s->in->owed.settled = owed_settled;
    return s->in;
}

// The place of an identifier, or where it belongs.
static u32 id_place(const mqtt_inbound *in, u16 id) {
    u32 low = 0, high = in->id_count;
    if (high > 0 && in->ids[high - 1] < id) return high; // the usual case: ascending
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (in->ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool id_is_open(const mqtt_inbound *in, u16 id) {
    if (in == NULL || in->id_count == 0) return false;
    u32 at = id_place(in, id);
    return at < in->id_count && in->ids[at] == id;
}

// Room for one more, so that id_add can not fail.
static bool id_reserve(mqtt_session *s) {
    mqtt_inbound *in = inbound_of(s);
    if (in == NULL) return false;
    if (in->id_count < in->id_size) return true;
    u32 size = MAX(in->id_size * 2, 16u);
    u16 *ids = pool_alloc(mqtt_pool(s), size * sizeof(*ids));
    if (ids == NULL) return false;
    if (in->id_count > 0) memcpy(ids, in->ids, in->id_count * sizeof(*ids));
    pool_free(mqtt_pool(s), in->ids, in->id_size * sizeof(*ids));
    in->ids = ids;
    in->id_size = size;
    return true;
}

static void id_add(mqtt_inbound *in, u16 id) {
    u32 at = id_place(in, id);
    memmove(in->ids + at + 1, in->ids + at, (in->id_count - at) * sizeof(*in->ids));
    in->ids[at] = id;
    in->id_count++;
}

static void id_remove(mqtt_inbound *in, u16 id) {
    u32 at = id_place(in, id);
    in->id_count--;
    memmove(in->ids + at, in->ids + at + 1, (in->id_count - at) * sizeof(*in->ids));
}

bool mqtt_inbound_put(mqtt_session *s, u16 id) {
    if (id_is_open(s->in, id)) return true;
    if (!id_reserve(s)) return false;
    id_add(s->in, id);
    return true;
}

void mqtt_inbound_take(mqtt_session *s, u16 id) {
    if (id_is_open(s->in, id)) id_remove(s->in, id);
}

u32 mqtt_inbound_open(const mqtt_session *s) {
    return s->in == NULL ? 0 : s->in->id_count;
}

void mqtt_inbound_detach(mqtt_session *s) {
    mqtt_inbound *in = s->in;
    if (in == NULL) return;
    owed_silence(s);
    for (u32 i = 0; i < in->alias_count; i++) {
        if (in->aliases[i].topic == NULL) continue;
        pool_free(mqtt_pool(s), in->aliases[i].topic, in->aliases[i].len);
    }
    pool_free(mqtt_pool(s), in->aliases, in->alias_count * sizeof(*in->aliases));
    in->aliases = NULL;
    in->alias_count = 0;
}

void mqtt_inbound_free(mqtt_session *s) {
    if (s->in == NULL) return;
    mqtt_inbound_detach(s);
    pledge_line_abandon(&s->in->owed);
    pool_free(mqtt_pool(s), s->in->ids, s->in->id_size * sizeof(*s->in->ids));
    pool_free(mqtt_pool(s), s->in, sizeof(*s->in));
    s->in = NULL;
}

// Sets an alias to a topic. False: no memory.
static bool alias_set(mqtt_session *s, u32 alias, mqtt_bytes topic) {
    mqtt_inbound *in = inbound_of(s);
    u32 max = mqtt_conf(s->conn)->topic_alias_max;
    if (in == NULL) return false;
    if (in->aliases == NULL) {
        in->aliases = pool_alloc(mqtt_pool(s), max * sizeof(*in->aliases));
        if (in->aliases == NULL) return false;
        memset(in->aliases, 0, max * sizeof(*in->aliases));
        in->alias_count = max;
    }
    if (alias > in->alias_count) return false; // raised by a reload after the connection was told
    mqtt_in_alias *a = &in->aliases[alias - 1];
    if (a->topic != NULL && a->len == topic.len && memcmp(a->topic, topic.data, a->len) == 0) return true;
    char *copy = pool_alloc(mqtt_pool(s), topic.len);
    if (copy == NULL) return false;
    if (a->topic != NULL) pool_free(mqtt_pool(s), a->topic, a->len);
    memcpy(copy, topic.data, topic.len);
    *a = (mqtt_in_alias){copy, topic.len};
    return true;
}

// The topic of a PUBLISH, by its alias if it has one (5.0 section 3.3.2.3.4). 0 or what packet() returns.
static int topic_resolve(conn *c, const mqtt_publish *p, mqtt_bytes *topic) {
    mqtt_session *s = mqtt_session_of(c);
    *topic = p->topic;
    if (p->topic_alias == 0) return 0;
    if (p->topic_alias > mqtt_conf(c)->topic_alias_max) {
        return mqtt_conn_fail(c, MQTT_REASON_TOPIC_ALIAS_INVALID, CLOSE_PROTOCOL_ERROR,
                              "topic alias above the maximum");
    }
    if (p->topic.len > 0) return alias_set(s, p->topic_alias, p->topic) ? 0 : CLOSE_NO_MEMORY;
    const mqtt_inbound *in = s->in;
    if (in == NULL || p->topic_alias > in->alias_count || in->aliases[p->topic_alias - 1].topic == NULL) {
        return mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR, CLOSE_PROTOCOL_ERROR,
                              "topic alias that was never set");
    }
    const mqtt_in_alias *a = &in->aliases[p->topic_alias - 1];
    *topic = (mqtt_bytes){(const u8 *)a->topic, a->len};
    return 0;
}

// --- PUBLISH ---

// What the listener does not let through. 0, or the reason for PUBACK and PUBREC.
static u8 refusal_of(const conn *c, const mqtt_publish *p, mqtt_bytes topic) {
    const listener_config *conf = mqtt_conf(c);
    const char *name = (const char *)topic.data;
    bool ours = mqtt_stream_is(topic) ||
                (topic.len >= 5 && memcmp(name, "$SYS/", 5) == 0 && !sys_is_bridge_state(name, topic.len)) ||
                (topic.len >= 7 && memcmp(name, "$share/", 7) == 0) ||
                (topic.len >= 8 && memcmp(name, "$events/", 8) == 0);
    if (ours || deny_topic(conf->deny_publish, name, topic.len)) return MQTT_REASON_NOT_AUTHORIZED;
    if (!mqtt_may(mqtt_session_of(c), ACL_WRITE, name, topic.len)) {
        counter_add(&c->owner->metrics.publish_denied, 1);
        return MQTT_REASON_NOT_AUTHORIZED;
    }
    if (UNLIKELY(conf->max_topic_levels != 0) &&
        topic_level_count(name, topic.len) > conf->max_topic_levels) {
        return MQTT_REASON_TOPIC_NAME_INVALID;
    }
    if (conf->check_payload_format && mqtt_property_number(&p->props, MQTT_PAYLOAD_FORMAT, 0) == 1 &&
        !utf8_is_valid((const char *)p->payload.data, p->payload.len)) {
        return MQTT_REASON_PAYLOAD_FORMAT_INVALID;
    }
    return 0;
}

// --- acknowledgements ---

// In a pledge's word, beside what is to be sent: the log is to know of the exchange before; nobody is there any more
// who would hear it; it answers a repetition, whose message may be refused yet.
#define WORD_LATE (1u << 31)
#define WORD_SILENT (1u << 30)
#define WORD_AGAIN (1u << 29)
_Static_assert((u32)MQTT_AUTH << 24 < WORD_AGAIN, "room for them beside the type");

static u32 word_of(mqtt_type type, u16 id, u8 reason) {
    return (u32)type << 24 | (u32)reason << 16 | id;
}

static mqtt_type type_of(u32 word) {
    return (mqtt_type)(word >> 24 & 15);
}

// Whether a message under this identifier has been taken and may be refused yet: its commit is under way.
static bool id_is_owed(const mqtt_inbound *in, u16 id) {
    const pledge *p = in->owed.head;
    while (p != NULL && (type_of(p->word) != MQTT_PUBREC || (u16)p->word != id)) p = p->next;
    return p != NULL;
}

// The connection has gone. Its answers are not sent, but open exchanges learn how their messages fared: the client
// will ask again.
static void owed_silence(mqtt_session *s) {
    if (s->keep == NULL) pledge_line_abandon(&s->in->owed);
    else for (pledge *p = s->in->owed.head; p != NULL; p = p->next) p->word |= WORD_SILENT;
}

bool mqtt_inbound_is_late(const mqtt_session *s, u16 id) {
    const pledge *p = s->in == NULL ? NULL : s->in->owed.head;
    while (p != NULL && ((p->word & WORD_LATE) == 0 || (u16)p->word != id)) p = p->next;
    return p != NULL;
}

static mqtt_drop drop_of(int failure) {
    switch (failure) {
    case -ENOBUFS: return MQTT_DROP_QUEUE_REJECT;
    case -EXFULL: return MQTT_DROP_STREAM_FULL;
    case -EDQUOT: return MQTT_DROP_LOG_FULL;
    default: return MQTT_DROP_LOG_FAILED;
    }
}

// What could not be written, or a session had no room for, is not acknowledged: a client of 5.0 is told and may send
// it again later, one of 3.x has no way to hear it and is cut off: it sends it again when it comes back. 0 or what
// packet() returns.
static int refuse(mqtt_session *s, int failure, u8 *reason) {
    mqtt_dropped(s, drop_of(failure));
    *reason = failure == -EIO ? MQTT_REASON_IMPLEMENTATION_SPECIFIC : MQTT_REASON_QUOTA_EXCEEDED;
    if (s->version == MQTT_5) return 0;
    close_reason why = failure == -ENOBUFS ? CLOSE_REJECTED : failure == -EXFULL ? CLOSE_STREAM_FULL : CLOSE_LOG;
    return mqtt_conn_fail(s->conn, *reason, why, NULL);
}

// What the exchange of a PUBREC is from here on.
static void exchange_settled(mqtt_session *s, u32 word, int failure) {
    u16 id = (u16)word;
    if (failure == 0 && (word & WORD_LATE) != 0) mqtt_durable_change_id(s, MQTT_CHANGE_RECEIVED, id);
    if (failure == 0 || !id_is_open(s->in, id)) return;
    id_remove(s->in, id);
    mqtt_durable_change_id(s, MQTT_CHANGE_COMPLETED, id);
}

static int answer_settled(mqtt_session *s, u32 word, int failure) {
    mqtt_type type = type_of(word);
    u8 reason = (u8)(word >> 16);
    u16 id = (u16)word;
    if ((word & WORD_AGAIN) != 0 && failure == 0 && !id_is_open(s->in, id)) failure = -EIO; // refused meanwhile
    if (type == MQTT_PUBREC) exchange_settled(s, word, failure);
    // Acknowledged, a message under this identifier would be taken for this one after a crash: the client comes back.
    if (failure != 0 && type == MQTT_PUBCOMP) {
        reason = failure == -EDQUOT ? MQTT_REASON_QUOTA_EXCEEDED : MQTT_REASON_IMPLEMENTATION_SPECIFIC;
        return mqtt_conn_fail(s->conn, reason, CLOSE_LOG, "the exchange's end can not be kept");
    }
    if (failure == 0) return mqtt_ack_send(s, type, id, reason);
    int result = refuse(s, failure, &reason);
    return result != 0 ? result : mqtt_ack_send(s, type, id, reason);
}

// Sends what is settled, in order. The session or its connection may be gone after it.
static void owed_settled(pledge_line *line) {
    mqtt_inbound *in = CONTAINER_OF(line, mqtt_inbound, owed);
    mqtt_session *s = in->session;
    conn *c = s->conn;
    u32 word;
    int failure;
    while (s->conn == c && s->in == in && pledge_line_take(line, &word, &failure)) {
        if ((word & WORD_SILENT) != 0 && type_of(word) == MQTT_PUBREC) exchange_settled(s, word, failure);
        if ((word & WORD_SILENT) != 0 || !mqtt_session_online(s)) continue;
        int reason = answer_settled(s, word, failure);
        if (reason == CLOSE_NO_MEMORY || reason == CLOSE_SLOW_CONSUMER) conn_close(c, (close_reason)reason);
        else if (reason > 0) conn_close_after_flush(c, (close_reason)reason);
        if (reason > 0) return;
    }
    if (c != NULL && c->reason == CLOSE_NONE && (c->flags & CONN_BLOCKED) != 0) conn_unblock(c);
}

bool mqtt_receive_waits(const mqtt_session *s) {
    return s->in != NULL && s->in->owed.count >= LIMIT_OWED_MAX;
}

// Answers in its turn. word: word_of, with flags. owed: NULL, or what it waits for. 0 or what packet() returns.
static int answer_word(mqtt_session *s, u32 word, pledge *owed) {
    if (owed == NULL) owed = pledge_create(mqtt_broker(s));
    mqtt_inbound *in = inbound_of(s);
    if (owed == NULL || in == NULL) {
        if (owed != NULL) pledge_forget(owed);
        return CLOSE_NO_MEMORY;
    }
    pledge_line_add(&in->owed, owed, word | (owed->late ? WORD_LATE : 0));
    return 0;
}

// Answers now, or in its turn.
static int answer(mqtt_session *s, mqtt_type type, u16 id, u8 reason, pledge *owed) {
    if (owed == NULL && (s->in == NULL || s->in->owed.count == 0)) return mqtt_ack_send(s, type, id, reason);
    return answer_word(s, word_of(type, id, reason), owed);
}

// The one place where a message that was accepted, or refused, is answered.
static int publish_answer(conn *c, const mqtt_publish *p, u8 reason, pledge *owed) {
    mqtt_session *s = mqtt_session_of(c);
    if (p->qos == 0) return 0;
    // 3.x has no way to refuse one (3.1.1 section 3.3.5): it is acknowledged and goes nowhere.
    if (s->version != MQTT_5) reason = 0;
    if (p->qos == 2 && reason < MQTT_REASON_UNSPECIFIED) {
        id_add(s->in, p->packet_id);
        if (owed == NULL || !owed->late) mqtt_durable_change_id(s, MQTT_CHANGE_RECEIVED, p->packet_id);
    }
    return answer(s, p->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, p->packet_id, reason, owed);
}

// Hands it to the broker. 0 with the reason of the answer, or what packet() returns.
static int publish_forward(conn *c, const mqtt_publish *p, mqtt_bytes topic, u8 *reason, pledge **owed) {
    mqtt_session *s = mqtt_session_of(c);
    worker *w = s->owner;
    mqtt_forward forward;
    if (!mqtt_forward_make(w, &p->props, &forward)) return CLOSE_NO_MEMORY;
    publication out = {
        .topic = (const char *)topic.data,
        .topic_len = topic.len,
        .props = forward.props.data,
        .props_len = forward.props.len,
        .props_present = forward.props.present,
        .payload = p->payload.data,
        .payload_len = p->payload.len,
        .publisher = s->subscriber.number,
        .qos = p->qos,
        .retain = p->retain,
        .refusable = p->qos > 0,
    };
    if (p->qos == 2 && s->keep != NULL) {
        out.exchange_session = s->keep->by_number.hash;
        out.exchange_id = p->packet_id;
    }
    if (mqtt_property_present(&p->props, MQTT_MESSAGE_EXPIRY)) {
        u64 seconds = mqtt_property_number(&p->props, MQTT_MESSAGE_EXPIRY, 0);
        out.expires_ns = w->now_ns + seconds * NS_PER_S + 1; // 0 seconds: expired for who waits
    }
    bool matched = true;
    int result = broker_publish_owed(w->broker, &out, &matched, p->qos > 0 ? owed : NULL);
    mqtt_forward_free(w, &forward);
    if (result == -EAGAIN) return PROTO_BLOCKED;
    if (result == -EDQUOT || result == -EIO || result == -ENOBUFS || result == -EXFULL) {
        if (p->qos == 0) {
            mqtt_dropped(s, drop_of(result));
            return 0;
        }
        return refuse(s, result, reason);
    }
    *reason = matched ? MQTT_REASON_SUCCESS : MQTT_REASON_NO_MATCHING_SUBSCRIBERS;
    // -ENOMEM, or -ENOSPC: the store of retained messages is full.
    if (result == -EINVAL) *reason = MQTT_REASON_TOPIC_NAME_INVALID;
    else if (result < 0) *reason = MQTT_REASON_QUOTA_EXCEEDED;
    if (result < 0) mqtt_dropped(s, result == -EINVAL ? MQTT_DROP_DENIED : MQTT_DROP_NO_MEMORY);
    return 0;
}

// What 5.0 calls an error of the connection; 0 when there is none.
static int publish_check(conn *c, const mqtt_publish *p) {
    const listener_config *conf = mqtt_conf(c);
    if (p->qos > conf->max_qos) {
        return mqtt_conn_fail(c, MQTT_REASON_QOS_NOT_SUPPORTED, CLOSE_NOT_SUPPORTED,
                              "QoS above the maximum");
    }
    if (p->retain && !conf->retain_available) {
        return mqtt_conn_fail(c, MQTT_REASON_RETAIN_NOT_SUPPORTED, CLOSE_NOT_SUPPORTED,
                              "retained messages are not available");
    }
    return 0;
}

static void publish_count(const mqtt_session *s, const mqtt_publish *p) {
    counter_add(&mqtt_metrics(s)->mqtt_publish_in[p->qos], 1);
    counter_add(&mqtt_metrics(s)->mqtt_publish_bytes_in, p->payload.len);
}

int mqtt_receive_publish(conn *c, const mqtt_publish *p) {
    mqtt_session *s = mqtt_session_of(c);
    int result = publish_check(c, p);
    if (result == 0 && UNLIKELY(s->grant != NULL)) result = mqtt_rate_check(s, p->payload.len);
    if (result != 0) return result;
    if (p->qos > 0 && mqtt_receive_waits(s)) return PROTO_WAITING;
    if (p->qos == 2) {
        if (id_is_open(s->in, p->packet_id)) {
            if (UNLIKELY(s->grant != NULL)) mqtt_rate_charge(s, p->payload.len);
            u32 again = word_of(MQTT_PUBREC, p->packet_id, MQTT_REASON_SUCCESS) | WORD_AGAIN;
            if (id_is_owed(s->in, p->packet_id)) return answer_word(s, again, NULL);
            return answer(s, MQTT_PUBREC, p->packet_id, MQTT_REASON_SUCCESS, NULL);
        }
        // 3.x clients can not be told of one; their packet identifiers are the limit.
        if (s->version == MQTT_5 && mqtt_inbound_open(s) >= mqtt_conf(c)->receive_max) {
            return mqtt_conn_fail(c, MQTT_REASON_RECEIVE_MAX_EXCEEDED, CLOSE_QUOTA,
                                  "more open QoS 2 messages than the receive maximum");
        }
        if (!id_reserve(s)) return CLOSE_NO_MEMORY;
    }
    mqtt_bytes topic;
    result = topic_resolve(c, p, &topic);
    if (result != 0) return result;
    u8 reason = refusal_of(c, p, topic);
    pledge *owed = NULL;
    if (reason == MQTT_REASON_PAYLOAD_FORMAT_INVALID && p->qos == 0) {
        return mqtt_conn_fail(c, reason, CLOSE_PROTOCOL_ERROR, "payload is not UTF-8");
    }
    if (reason != 0) {
        mqtt_dropped(s, MQTT_DROP_DENIED);
    } else {
        result = publish_forward(c, p, topic, &reason, &owed);
        if (result != 0) return result;
    }
    publish_count(s, p);
    if (UNLIKELY(s->grant != NULL)) mqtt_rate_charge(s, p->payload.len);
    return publish_answer(c, p, reason, owed);
}

int mqtt_receive_pubrel(conn *c, const mqtt_ack *ack) {
    mqtt_session *s = mqtt_session_of(c);
    bool open = id_is_open(s->in, ack->packet_id);
    if (open) id_remove(s->in, ack->packet_id);
    u8 reason = open ? MQTT_REASON_SUCCESS : MQTT_REASON_PACKET_ID_NOT_FOUND;
    if (s->version != MQTT_5) reason = 0;
    if (s->keep == NULL) return mqtt_ack_send(s, MQTT_PUBCOMP, ack->packet_id, reason);
    // The identifier is the client's again; a message under it would be taken for a repetition if this got lost. One
    // that is not open may have been closed just now, by a PUBREL whose connection broke.
    if (open) mqtt_durable_change_id(s, MQTT_CHANGE_COMPLETED, ack->packet_id);
    pledge *owed;
    if (mqtt_durable_owe_rest(s, &owed) < 0) return CLOSE_NO_MEMORY;
    return answer(s, MQTT_PUBCOMP, ack->packet_id, reason, owed);
}
