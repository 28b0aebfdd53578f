// SPDX-License-Identifier: Apache-2.0
// mqtt_subscribe.c: SUBSCRIBE and UNSUBSCRIBE. A SUBACK is sent when every filter of its packet is in force
// on all workers; until then the client's next packets wait, so that what it publishes behind its SUBSCRIBE
// reaches it. Then the retained messages are read, one filter after the other, as the client takes them. What a
// durable session has (un)subscribed is on disk before it is told so.
//
// One record stands for a SUBSCRIBE from its arrival until the last of its retained messages: it holds a
// copy of the filters that are still needed and the one reader that is active for the session at a time. One for
// an UNSUBSCRIBE lives until its answer.
#include <errno.h>
#include <string.h>

#include "broker/deny.h"
#include "broker/events.h"
#include "broker/topic.h"
#include "proto/mqtt_durable.h"
#include "proto/mqtt_stream.h"
#include "proto/mqtt_write.h"

#define OVER_TRIES 16u // of one packet, with a client at its limit

typedef struct subscribe_item {
    mqtt_subscribing *of;
    struct subscribe_item *same; // an earlier one of the packet with the same filter: shares the answer
    const char *filter;      // in texts, without the share; NULL = no retained messages wanted (any more)
    u32 filter_len;
    subscription_options options;
    retained_mark *mark;     // of the moment it came into force; NULL = not yet, or no memory for it
    u8 code;                 // of the SUBACK
} subscribe_item;

struct mqtt_subscribing {
    mqtt_session *session;
    mqtt_subscribing *next;
    retained_reader reader;  // of items[at]
    pledge_line owed;        // the commit of a durable session's subscriptions: counts as pending
    u32 bytes;               // of this record
    u32 count, at;
    u32 pending;             // filters not in force yet
    u32 over;                // filters refused because the client has too many
    subscribe_item *replaced; // by the same filter again, just now
    u16 packet_id;
    u8 answer;               // MQTT_SUBACK or MQTT_UNSUBACK
    bool answered;           // it was sent, or there is nobody to send it to
    bool failed;             // what it says could not be written
    bool orphan;             // its connection is gone
    bool calling;            // inside mqtt_receive_subscribe
    bool changed;            // a subscription was made: a durable session has something to write
    subscribe_item items[];  // then the texts
};

static void read_next(mqtt_subscribing *op);

// --- records ---

// Its retained messages have been read, or are not wanted.
static void item_forget(const mqtt_subscribing *op, subscribe_item *item) {
    retained_mark_release(mqtt_broker(op->session), item->mark);
    item->mark = NULL;
    item->filter = NULL;
}

// In force. What comes live from now on is not read again, however late the reading of this filter starts.
static void item_in_force(const mqtt_subscribing *op, subscribe_item *item) {
    if (item->filter != NULL && item->mark == NULL) item->mark = retained_mark_take(mqtt_broker(op->session));
}

static void op_free(mqtt_subscribing *op) {
    mqtt_session *s = op->session;
    mqtt_subscribing **at = &s->subscribing;
    retained_read_stop(mqtt_broker(s), &op->reader);
    pledge_line_abandon(&op->owed);
    for (u32 i = 0; i < op->count; i++) item_forget(op, &op->items[i]);
    while (*at != op) at = &(*at)->next;
    *at = op->next;
    pool_free(mqtt_pool(s), op, op->bytes);
}

static void reader_done(retained_reader *r) {
    mqtt_subscribing *op = CONTAINER_OF(r, mqtt_subscribing, reader);
    op->at++;
    read_next(op);
}

// Starts the next filter of the session's first record that has one; records without one are freed.
static void read_next(mqtt_subscribing *op) {
    mqtt_session *s = op->session;
    for (;;) {
        op = s->subscribing;
        if (op == NULL || !op->answered) return;
        while (op->at < op->count) {
            const subscribe_item *item = &op->items[op->at];
            if (item->filter != NULL &&
                retained_read_start(mqtt_broker(s), &op->reader, item->filter, item->filter_len,
                                    &s->subscriber, &item->options, item->mark) == 0) {
                return;
            }
            if (item->filter != NULL) mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
            op->at++;
        }
        op_free(op);
    }
}

static u32 op_count(const mqtt_session *s) {
    u32 count = 0;
    for (const mqtt_subscribing *op = s->subscribing; op != NULL; op = op->next) count++;
    return count;
}

static mqtt_subscribing *op_make(mqtt_session *s, const mqtt_subscribe *packet, mqtt_type answer) {
    u64 bytes = sizeof(mqtt_subscribing) + (u64)packet->filters.count * sizeof(subscribe_item) +
                packet->filters.len;
    if (bytes > UINT32_MAX) return NULL;
    mqtt_subscribing *op = pool_alloc(mqtt_pool(s), bytes);
    if (op == NULL) return NULL;
    memset(op, 0, sizeof(*op) + packet->filters.count * sizeof(subscribe_item));
    op->session = s;
    op->reader.done = reader_done;
    op->bytes = (u32)bytes;
    op->count = packet->filters.count;
    op->packet_id = packet->packet_id;
    op->answer = (u8)answer;
    mqtt_subscribing **at = &s->subscribing; // at the end
    while (*at != NULL) at = &(*at)->next;
    *at = op;
    return op;
}

bool mqtt_subscribe_waits(const mqtt_session *s) {
    for (const mqtt_subscribing *op = s->subscribing; op != NULL; op = op->next) {
        if (!op->answered) return true;
    }
    return false;
}

// --- SUBACK ---

// 0, or what packet() returns.
static int suback_send(mqtt_session *s, mqtt_type type, u16 packet_id, const u8 *codes, u32 count) {
    mqtt_suback answer = {.packet_id = packet_id, .codes = {codes, count}};
    int bytes = mqtt_write_suback(s->version, type, &answer, NULL, 0);
    if (bytes < 0 || (u32)bytes > s->packet_bytes_max) {
        return mqtt_conn_fail(s->conn, MQTT_REASON_PACKET_TOO_LARGE, CLOSE_PROTOCOL_ERROR,
                              "the answer is larger than the client's maximum packet size");
    }
    u32 size;
    u8 *out = worker_buf_alloc(s->owner, (u32)bytes, &size);
    if (out == NULL) return CLOSE_NO_MEMORY;
    bytes = mqtt_write_suback(s->version, type, &answer, out, size);
    ASSERT(bytes > 0);
    int result = conn_send(s->conn, out, (u32)bytes);
    worker_buf_free(s->owner, out, size);
    counter_add(&mqtt_metrics(s)->mqtt_packets_out[type], 1);
    return result;
}

static int codes_send(mqtt_subscribing *op) {
    mqtt_session *s = op->session;
    worker *w = s->owner;
    u32 size;
    // An UNSUBACK of 3.x can not say no: the client comes back and asks again.
    if (op->failed && op->answer == MQTT_UNSUBACK && s->version != MQTT_5) {
        return mqtt_conn_fail(s->conn, MQTT_REASON_IMPLEMENTATION_SPECIFIC, CLOSE_LOG, NULL);
    }
    u8 *codes = worker_buf_alloc(w, op->count, &size);
    if (codes == NULL) return CLOSE_NO_MEMORY;
    for (u32 i = 0; i < op->count; i++) {
        u8 code = op->items[i].code;
        codes[i] = s->version != MQTT_5 && code >= 0x80 ? MQTT_SUBACK_FAILURE : code;
    }
    int result = suback_send(s, (mqtt_type)op->answer, op->packet_id, codes, op->count);
    worker_buf_free(w, codes, size); // after an error the session may be gone
    return result;
}

// Every filter is in force or refused, or given up. 0, or what packet() returns.
static int op_answer(mqtt_subscribing *op) {
    mqtt_session *s = op->session;
    op->answered = true;
    int result = mqtt_session_online(s) && !op->orphan ? codes_send(op) : 0;
    if (result != 0 || s->subscribing == NULL) return result;
    if (op->answer == MQTT_UNSUBACK) {
        op_free(op);
        return 0;
    }
    if (s->subscribing == op || !s->subscribing->reader.started) read_next(op);
    return 0;
}

static void op_part_done(mqtt_subscribing *op);

// Why the log does not take a subscription, to the client.
static u8 code_of(int failure) {
    return failure == -EDQUOT ? MQTT_REASON_QUOTA_EXCEEDED : MQTT_REASON_IMPLEMENTATION_SPECIFIC;
}

// What was changed is on disk. If it could not be written it holds while the gateway runs, which is the most there
// is: the client is told that it is not what it asked for.
static void written(pledge_line *line) {
    mqtt_subscribing *op = CONTAINER_OF(line, mqtt_subscribing, owed);
    u32 word;
    int failure;
    if (!pledge_line_take(line, &word, &failure)) return;
    op->pending--;
    op->failed = failure < 0;
    u8 code = op->answer == MQTT_SUBACK ? code_of(failure) : MQTT_REASON_IMPLEMENTATION_SPECIFIC; // has no other
    for (u32 i = 0; failure < 0 && i < op->count; i++) {
        if (op->items[i].code < MQTT_REASON_UNSPECIFIED) op->items[i].code = code;
    }
    op_part_done(op);
}

static void subscription_change(mqtt_session *s, mqtt_change_kind kind, const mqtt_filter *f,
                                const subscription_options *o) {
    mqtt_change c = {.kind = (u8)kind};
    c.subscription = (mqtt_subscription_record){
        .share = (const char *)f->share.data, .share_len = f->share.len, .filter = (const char *)f->filter.data,
        .filter_len = f->filter.len, .id = o->id, .qos = o->qos, .retain_handling = o->retain_handling,
        .no_local = o->no_local, .retain_as_published = o->retain_as_published};
    mqtt_durable_change(s, &c);
}

static void subscribed(void *context, int result) {
    subscribe_item *item = context;
    mqtt_subscribing *op = item->of;
    ASSERT(op->pending > 0);
    op->pending--;
    if (result == BROKER_PENDING) { // while a packet's filters wait no other packet is read: it is this one's
        op->replaced = item;
        return;
    }
    for (; item != NULL; item = item->same) {
        if (result == 0) {
            item_in_force(op, item);
            continue;
        }
        item->code = MQTT_REASON_QUOTA_EXCEEDED;
        item_forget(op, item);
    }
    op_part_done(op);
}

// One of those that SUBACK waits for has come.
static void op_part_done(mqtt_subscribing *op) {
    if (op->pending > 0 || op->calling) return;
    mqtt_session *s = op->session;
    conn *c = s->conn; // of an orphan: its successor, whose packets waited as well
    int reason = op_answer(op); // s may be gone now
    if (c == NULL) return;
    if (reason == CLOSE_NO_MEMORY || reason == CLOSE_SLOW_CONSUMER) conn_close(c, (close_reason)reason);
    else if (reason > 0) conn_close_after_flush(c, (close_reason)reason);
    else if (c->flags & CONN_BLOCKED) conn_unblock(c);
}

// All that can be done at once is done. An UNSUBACK says that there is no subscription any more, also where an earlier
// UNSUBSCRIBE has removed it: what that changed may not be on disk. 0, or what packet() returns.
static int op_finish(mqtt_subscribing *op) {
    mqtt_session *s = op->session;
    pledge *owed = NULL;
    bool promises = op->changed || op->answer == MQTT_UNSUBACK;
    if (s->keep != NULL && promises && mqtt_durable_owe_rest(s, &owed) < 0) return CLOSE_NO_MEMORY;
    if (owed != NULL) {
        op->owed.settled = written;
        pledge_line_add(&op->owed, owed, 0);
        op->pending++;
    }
    return op->pending > 0 ? 0 : op_answer(op);
}

// --- SUBSCRIBE ---

// What the listener does not offer. 0, or the code of the SUBACK.
static u8 refusal_of(const conn *c, const mqtt_filter *f, u32 id) {
    const listener_config *conf = mqtt_conf(c);
    const char *filter = (const char *)f->filter.data;
    bool wildcard = memchr(filter, '+', f->filter.len) != NULL || memchr(filter, '#', f->filter.len) != NULL;
    bool deep = conf->max_topic_levels != 0 &&
                topic_level_count(filter, f->filter.len) > conf->max_topic_levels;
    if (f->too_deep || deep) return MQTT_REASON_TOPIC_FILTER_INVALID;
    if (f->share.data != NULL && !conf->shared_available) return MQTT_REASON_SHARED_NOT_SUPPORTED;
    if (wildcard && !conf->wildcard_available) return MQTT_REASON_WILDCARDS_NOT_SUPPORTED;
    if (id != 0 && !conf->subscription_ids_available) return MQTT_REASON_SUBSCRIPTION_IDS_NOT_SUPPORTED;
    if (conf->deny_subscribe[0] != 0 && deny_filter(conf->deny_subscribe, filter, f->filter.len)) {
        return MQTT_REASON_NOT_AUTHORIZED;
    }
    const mqtt_session *s = mqtt_session_of(c);
    if (s->grant != NULL && !grant_allows_filter(s->grant, s->id, s->client.id_len, filter, f->filter.len)) {
        counter_add(&c->owner->metrics.subscribe_denied, 1);
        return MQTT_REASON_NOT_AUTHORIZED;
    }
    return 0;
}

// Subscribes one filter. text: the room for its copy. Returns the bytes of it that were used.
static u32 item_subscribe(conn *c, subscribe_item *item, const mqtt_filter *f, const mqtt_properties *props,
                          char *text) {
    mqtt_session *s = mqtt_session_of(c);
    const listener_config *conf = mqtt_conf(c);
    u32 id = mqtt_property_number(props, MQTT_SUBSCRIPTION_ID, 0);
    item->code = refusal_of(c, f, id);
    if (item->code == 0 && mqtt_stream_is(f->filter)) {
        item->code = mqtt_stream_subscribe(s, f, props, id);
        return 0;
    }
    // One that exists may be replaced at the limit; whether it does is known only by trying.
    if (item->code == 0 && item->of->over >= OVER_TRIES) item->code = MQTT_REASON_QUOTA_EXCEEDED;
    if (item->code != 0) return 0;
    bool bridge = (s->flags & MQTT_BRIDGE) != 0;
    item->options = (subscription_options){
        .qos = (u8)MIN(f->qos, conf->max_qos),
        .no_local = f->no_local || (bridge && f->share.len == 0),
        .retain_as_published = f->retain_as_published || bridge,
        .retain_handling = f->retain_handling,
        .id = id,
    };
    bool existed = false;
    int result = broker_subscribe(mqtt_broker(s), &s->subscriber, (const char *)f->share.data, f->share.len,
                                  (const char *)f->filter.data, f->filter.len, &item->options, subscribed,
                                  item, &existed);
    if (result < 0) {
        item->code = result == -EINVAL ? MQTT_REASON_TOPIC_FILTER_INVALID : MQTT_REASON_QUOTA_EXCEEDED;
        return 0;
    }
    bool over = s->subscriber.subscription_count > conf->max_subscriptions;
    int failure = mqtt_durable_may_grow(s); // it could not be kept
    if (!existed && (over || failure != 0)) {
        (void)broker_unsubscribe(mqtt_broker(s), &s->subscriber, (const char *)f->share.data, f->share.len,
                                 (const char *)f->filter.data, f->filter.len);
        item->code = over ? MQTT_REASON_QUOTA_EXCEEDED : code_of(failure);
        item->of->over += over;
        return 0;
    }
    if (result == BROKER_PENDING) item->of->pending++;
    subscription_change(s, MQTT_CHANGE_SUBSCRIBED, f, &item->options);
    item->of->changed = true;
    item->same = item->of->replaced;
    item->of->replaced = NULL;
    item->code = item->options.qos;
    events_subscribe(s->owner, s->id, s->client.id_len, (const char *)f->text.data, f->text.len, item->code);
    // 5.0 section 3.3.1.3; none with a shared subscription (section 4.8.2).
    bool read = f->share.data == NULL && (f->retain_handling == 0 || (f->retain_handling == 1 && !existed));
    if (!read) return 0;
    memcpy(text, f->filter.data, f->filter.len);
    item->filter = text;
    item->filter_len = f->filter.len;
    if (result == 0) item_in_force(item->of, item);
    return f->filter.len;
}

int mqtt_receive_subscribe(conn *c, const mqtt_subscribe *packet) {
    mqtt_session *s = mqtt_session_of(c);
    if (op_count(s) >= LIMIT_MQTT_SUBSCRIBES_OPEN) {
        return mqtt_conn_fail(c, MQTT_REASON_QUOTA_EXCEEDED, CLOSE_QUOTA,
                              "too many subscriptions wait for retained messages");
    }
    mqtt_subscribing *op = op_make(s, packet, MQTT_SUBACK);
    if (op == NULL) return CLOSE_NO_MEMORY;
    char *text = (char *)(op->items + op->count);
    mqtt_filter f;
    cursor at = mqtt_filters_begin(&packet->filters);
    op->calling = true;
    for (u32 i = 0; mqtt_filter_next(&packet->filters, &at, &f); i++) {
        op->items[i].of = op;
        text += item_subscribe(c, &op->items[i], &f, &packet->props, text);
    }
    op->calling = false;
    return op_finish(op);
}

// --- UNSUBSCRIBE ---

// Retained messages of a filter that is given up are not delivered any more.
static void read_cancel(mqtt_session *s, mqtt_bytes filter) {
    for (mqtt_subscribing *op = s->subscribing; op != NULL; op = op->next) {
        for (u32 i = op->at; i < op->count; i++) {
            subscribe_item *item = &op->items[i];
            bool same = item->filter != NULL && item->filter_len == filter.len &&
                        memcmp(item->filter, filter.data, filter.len) == 0;
            if (!same) continue;
            item_forget(op, item);
            if (i != op->at || !op->reader.started) continue;
            retained_read_stop(mqtt_broker(s), &op->reader);
            op->at++;
        }
    }
    if (s->subscribing != NULL && !s->subscribing->reader.started) read_next(s->subscribing);
}

// Gives up one filter. The code of the UNSUBACK.
static u8 item_unsubscribe(mqtt_session *s, const mqtt_filter *f, bool *changed) {
    if (mqtt_stream_is(f->filter)) {
        return mqtt_stream_unsubscribe(s, f) ? MQTT_REASON_SUCCESS : MQTT_REASON_NO_SUBSCRIPTION_EXISTED;
    }
    bool existed = broker_unsubscribe(mqtt_broker(s), &s->subscriber, (const char *)f->share.data, f->share.len,
                                      (const char *)f->filter.data, f->filter.len);
    if (!existed) return MQTT_REASON_NO_SUBSCRIPTION_EXISTED;
    *changed = true;
    subscription_change(s, MQTT_CHANGE_UNSUBSCRIBED, f, &(subscription_options){0});
    events_unsubscribe(s->owner, s->id, s->client.id_len, (const char *)f->text.data, f->text.len);
    if (f->share.data == NULL) read_cancel(s, f->filter);
    return MQTT_REASON_SUCCESS;
}

int mqtt_receive_unsubscribe(conn *c, const mqtt_subscribe *packet) {
    mqtt_session *s = mqtt_session_of(c);
    mqtt_subscribing *op = op_make(s, packet, MQTT_UNSUBACK);
    if (op == NULL) return CLOSE_NO_MEMORY;
    mqtt_filter f;
    cursor at = mqtt_filters_begin(&packet->filters);
    for (u32 i = 0; mqtt_filter_next(&packet->filters, &at, &f); i++) {
        op->items[i].of = op;
        op->items[i].code = item_unsubscribe(s, &f, &op->changed);
    }
    return op_finish(op);
}

// --- connections come and go ---

void mqtt_subscribe_more(mqtt_session *s) {
    if (s->subscribing != NULL) retained_read_more(mqtt_broker(s), &s->subscribing->reader);
}

void mqtt_subscribe_detach(mqtt_session *s) {
    for (mqtt_subscribing *op = s->subscribing; op != NULL; op = op->next) op->orphan = true;
    if (s->subscribing != NULL) s->flags |= MQTT_RETAINED_WAITS;
}

void mqtt_subscribe_free(mqtt_session *s) {
    while (s->subscribing != NULL) op_free(s->subscribing);
}
