// SPDX-License-Identifier: Apache-2.0
// mqtt_stream.c: see mqtt_stream.h. Pages of messages come from the partitions' workers; each is sent on as the
// client's window and its output allow, and the next page is asked for when the last message has been sent. So a
// client that reads slowly holds one page a partition.
//
// With QoS 1 the entries of messages in flight are remembered in the order of sending. When the client
// acknowledges, the done ones in front are counted and the partition is told: what a named consumer has
// acknowledged is the unbroken front of what it got. With QoS 0 a message counts as acknowledged when it is in the
// connection's output.
#include "proto/mqtt_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/topic.h"
#include "store/stream_ask.h"

#define PREFIX_BYTES (sizeof(MQTT_STREAM_PREFIX) - 1)
#define PAGE_MESSAGES 64u    // of a page: shared consumers get a fair part each
#define OWN_PROPS_BYTES 256u // of the user properties added, but for the original topic
#define FLIGHT_FIRST 16u

typedef struct stream_part_sub {
    mqtt_stream_sub *of;
    stream_ask *ask;
    u32 partition;
    bool has_page;
    u32 at;               // first byte of the page not sent yet
    const mqtt_entry **flight; // ring, in the order of sending; NULL: acknowledged already
    u32 flight_first, flight_count, flight_size;
} stream_part_sub;

struct mqtt_stream_sub {
    mqtt_stream_sub *next;
    mqtt_session *session;
    u32 id;               // subscription identifier; 0 = none
    u8 qos;
    u16 filter_len, share_len; // the share's name lies behind the filter
    u32 part_count;
    u32 bytes;            // of this record
    char *texts;          // filter, share
    stream_part_sub parts[];
};

bool mqtt_stream_is(mqtt_bytes topic) {
    return topic.len >= PREFIX_BYTES && memcmp(topic.data, MQTT_STREAM_PREFIX, PREFIX_BYTES) == 0;
}

// --- messages in flight ---

static bool flight_grow(mqtt_session *s, stream_part_sub *p) {
    if (p->flight_count < p->flight_size) return true;
    u32 size = MAX(p->flight_size * 2, FLIGHT_FIRST);
    const mqtt_entry **ring = pool_alloc(mqtt_pool(s), size * sizeof(*ring));
    if (ring == NULL) return false;
    for (u32 i = 0; i < p->flight_count; i++) ring[i] = p->flight[(p->flight_first + i) % p->flight_size];
    pool_free(mqtt_pool(s), p->flight, p->flight_size * sizeof(*ring));
    p->flight = ring;
    p->flight_size = size;
    p->flight_first = 0;
    return true;
}

static void flight_add(stream_part_sub *p, const mqtt_entry *e) {
    p->flight[(p->flight_first + p->flight_count++) % p->flight_size] = e;
}

// Counts what is done in front. Returns whether anything was.
static bool flight_advance(stream_part_sub *p) {
    u64 before = p->ask->acked;
    while (p->flight_count > 0 && p->flight[p->flight_first] == NULL) {
        p->flight_first = (p->flight_first + 1) % p->flight_size;
        p->flight_count--;
        p->ask->acked++;
    }
    return p->ask->acked != before;
}

void mqtt_stream_ended(mqtt_session *s, const mqtt_entry *e) {
    for (mqtt_stream_sub *sub = s->streams; sub != NULL; sub = sub->next) {
        for (u32 i = 0; i < sub->part_count; i++) {
            stream_part_sub *p = &sub->parts[i];
            for (u32 k = 0; k < p->flight_count; k++) {
                const mqtt_entry **place = &p->flight[(p->flight_first + k) % p->flight_size];
                if (*place != e) continue;
                *place = NULL;
                if (flight_advance(p)) stream_ask_done(p->ask);
                return;
            }
        }
    }
}

// --- sending ---

static int put_text(mqtt_property_list *list, const char *key, const char *value, u32 len) {
    return mqtt_property_put_pair(list, (mqtt_bytes){(const u8 *)key, (u32)strlen(key)},
                                  (mqtt_bytes){(const u8 *)value, len});
}

static int put_u64(mqtt_property_list *list, const char *key, u64 value) {
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return put_text(list, key, text, (u32)len);
}

// What was published with it, and where it lies in the stream.
static bool props_make(const stream_part_sub *p, const stream_message *m, mqtt_property_list *list) {
    if (m->entry.props_len > 0) memcpy(list->data, m->props, m->entry.props_len);
    list->len = m->entry.props_len;
    return put_u64(list, "sluice-offset", m->entry.offset) == 0 &&
           put_u64(list, "sluice-time", m->entry.time_ms) == 0 &&
           put_u64(list, "sluice-partition", p->partition) == 0 &&
           put_text(list, "sluice-topic", m->topic, m->entry.topic_len) == 0;
}

typedef enum sent { SENT, SENT_NOT, SENT_LATER } sent; // not: dropped and counted; later: no room now

static bool has_room(const mqtt_session *s, u8 qos) {
    const mqtt_outbound *out = s->out;
    bool waits = out != NULL && (out->queue.head != NULL || out->queue_0.head != NULL);
    bool open = mqtt_session_online(s) && (s->conn->flags & CONN_PAUSED_OUT) == 0;
    return open && !waits && (qos == 0 || mqtt_window_is_open(s));
}

static void count_unsent(const mqtt_session *s, int result) {
    mqtt_dropped(s, result == MQTT_SEND_TOO_LARGE ? MQTT_DROP_TOO_LARGE : MQTT_DROP_NO_MEMORY);
}

// Writes the PUBLISH. QoS 1: its entry is in flight and at the end of the part's ring.
static sent send_publish(stream_part_sub *p, mqtt_outgoing *out) {
    mqtt_stream_sub *sub = p->of;
    mqtt_session *s = sub->session;
    mqtt_entry *e = NULL;
    if (out->qos > 0) {
        delivery d = {.qos = out->qos};
        e = flight_grow(s, p) ? mqtt_flight_begin(s, &d, false) : NULL;
        if (e == NULL) return SENT_LATER; // memory comes back; nothing is lost meanwhile
        out->packet_id = e->packet_id;
    }
    int result = mqtt_publish_send(s, out, NULL);
    if (result != 0) {
        if (e != NULL) mqtt_flight_end(s, e);
        if (result > 0) return SENT_LATER;
        count_unsent(s, result);
        return SENT_NOT;
    }
    if (e == NULL) return SENT;
    e->state = MQTT_ENTRY_SENT;
    e->sent_before = true;
    e->stream = true;
    flight_add(p, e);
    return SENT;
}

static sent send_message(stream_part_sub *p, const stream_message *m) {
    mqtt_stream_sub *sub = p->of;
    mqtt_session *s = sub->session;
    if (!has_room(s, sub->qos)) return SENT_LATER;
    u32 room = m->entry.props_len + m->entry.topic_len + OWN_PROPS_BYTES, size = 0;
    u8 *props = s->version == MQTT_5 ? worker_buf_alloc(s->owner, room, &size) : NULL;
    if (props == NULL && s->version == MQTT_5) return SENT_LATER;
    mqtt_property_list list = {.data = props, .capacity = size};
    sent result = SENT_NOT;
    if (props == NULL || props_make(p, m, &list)) {
        mqtt_outgoing out = {.topic = sub->texts, .topic_len = sub->filter_len,
                             .props = list.data, .props_len = list.len,
                             .payload = m->payload, .payload_len = m->entry.payload_len, .ids = &sub->id,
                             .id_count = sub->id != 0, .qos = sub->qos};
        result = send_publish(p, &out);
    } else {
        count_unsent(s, MQTT_SEND_TOO_LARGE);
    }
    if (props != NULL) worker_buf_free(s->owner, props, size);
    return result;
}

// What the acknowledgement of a message that needs none does for one that does.
static void message_done(stream_part_sub *p) {
    if (p->flight_count == 0) {
        p->ask->acked++;
    } else if (flight_grow(p->of->session, p)) {
        flight_add(p, NULL); // behind those in front
    }
}

// Sends what is left of the page. False: there is no room now.
static bool part_pump(stream_part_sub *p) {
    mqtt_session *s = p->of->session;
    stream_message m;
    u32 at = p->at;
    while (p->has_page) {
        if (!stream_page_next(p->ask, &at, &m)) {
            p->has_page = false;
            stream_ask_next(p->ask);
            return true;
        }
        u32 flying = p->flight_count;
        sent result = send_message(p, &m);
        if (result == SENT_LATER) {
            if (has_room(s, p->of->qos)) stream_ask_again(p->ask); // it was memory
            s->flags |= MQTT_RETAINED_WAITS;
            return false;
        }
        if (p->flight_count == flying) message_done(p);
        p->at = at;
    }
    return true;
}

void mqtt_stream_pump(mqtt_session *s) {
    for (mqtt_stream_sub *sub = s->streams; sub != NULL; sub = sub->next) {
        for (u32 i = 0; i < sub->part_count; i++) {
            if (!part_pump(&sub->parts[i])) return;
        }
    }
}

// --- readings ---

static void sub_free(mqtt_stream_sub *sub) {
    mqtt_session *s = sub->session;
    mqtt_stream_sub **at = &s->streams;
    while (*at != sub) at = &(*at)->next;
    *at = sub->next;
    for (u32 i = 0; i < sub->part_count; i++) {
        stream_part_sub *p = &sub->parts[i];
        stream_ask_close(p->ask);
        // They stay in flight until the client acknowledges, but count for nobody.
        pool_free(mqtt_pool(s), p->flight, p->flight_size * sizeof(*p->flight));
    }
    pool_free(mqtt_pool(s), sub->texts, sub->filter_len + sub->share_len);
    pool_free(mqtt_pool(s), sub, sub->bytes);
}

static void page_arrived(stream_ask *a) {
    stream_part_sub *p = a->context;
    mqtt_session *s = p->of->session;
    if (a->result != 0 && a->count == 0) {
        mqtt_dropped(s, MQTT_DROP_NO_MEMORY);
        sub_free(p->of);
        return;
    }
    if (!p->has_page) p->at = 0; // else there was no memory, and it is the same page again
    p->has_page = true;
    (void)part_pump(p);
}

static mqtt_stream_sub *sub_find(const mqtt_session *s, const mqtt_filter *f) {
    for (mqtt_stream_sub *sub = s->streams; sub != NULL; sub = sub->next) {
        if (sub->filter_len == f->filter.len && sub->share_len == f->share.len &&
            memcmp(sub->texts, f->filter.data, f->filter.len) == 0 &&
            (f->share.len == 0 || memcmp(sub->texts + sub->filter_len, f->share.data, f->share.len) == 0)) {
            return sub;
        }
    }
    return NULL;
}

// A user property of the SUBSCRIBE; data NULL: it has none of that name.
static mqtt_bytes user_property(const mqtt_properties *props, const char *name) {
    cursor at = mqtt_properties_begin(props);
    mqtt_property p;
    while (mqtt_property_next(&at, &p)) {
        if (p.id != MQTT_USER_PROPERTY || p.key.len != strlen(name)) continue;
        if (memcmp(p.key.data, name, p.key.len) == 0) return p.value;
    }
    return (mqtt_bytes){NULL, 0};
}

static mqtt_stream_sub *sub_make(mqtt_session *s, const mqtt_filter *f, u32 part_count, u32 id) {
    u32 bytes = (u32)(sizeof(mqtt_stream_sub) + part_count * sizeof(stream_part_sub));
    mqtt_stream_sub *sub = pool_alloc(mqtt_pool(s), bytes);
    char *texts = sub == NULL ? NULL : pool_alloc(mqtt_pool(s), f->filter.len + f->share.len);
    if (texts == NULL) {
        pool_free(mqtt_pool(s), sub, bytes);
        return NULL;
    }
    memset(sub, 0, bytes);
    memcpy(texts, f->filter.data, f->filter.len);
    if (f->share.len > 0) memcpy(texts + f->filter.len, f->share.data, f->share.len);
    sub->session = s;
    sub->id = id;
    sub->qos = (u8)MIN(MIN((u32)f->qos, 1u), mqtt_conf(s->conn)->max_qos);
    sub->filter_len = (u16)f->filter.len;
    sub->share_len = (u16)f->share.len;
    sub->bytes = bytes;
    sub->texts = texts;
    sub->next = s->streams;
    s->streams = sub;
    return sub;
}

// Where to begin and as whom.
typedef struct stream_wish {
    stream_from_all from;
    mqtt_bytes consumer;
} stream_wish;

static u8 wish_read(const mqtt_filter *f, const mqtt_properties *props, stream_wish *out) {
    mqtt_bytes from = user_property(props, "sluice-from");
    out->consumer = user_property(props, "sluice-consumer");
    if (f->share.data != NULL) out->consumer = f->share; // the members of a group are one consumer
    if (from.data == NULL) from = (mqtt_bytes){(const u8 *)"latest", 6};
    bool good = stream_from_parse((const char *)from.data, from.len, clock_real_ns() / NS_PER_MS, &out->from) &&
                out->consumer.len <= STREAM_CONSUMER_BYTES && (out->consumer.data == NULL || out->consumer.len > 0);
    return good ? 0 : MQTT_REASON_IMPLEMENTATION_SPECIFIC;
}

u8 mqtt_stream_subscribe(mqtt_session *s, const mqtt_filter *f, const mqtt_properties *props, u32 id) {
    stream_partition parts[LIMIT_WORKERS_MAX];
    stream_wish wish;
    const char *name = (const char *)f->filter.data + PREFIX_BYTES;
    u32 count = stream_partitions(s->owner, name, f->filter.len - (u32)PREFIX_BYTES, parts, ARRAY_LEN(parts));
    if (count == 0) return MQTT_REASON_TOPIC_FILTER_INVALID;
    u8 code = wish_read(f, props, &wish);
    if (code != 0) return code;
    mqtt_stream_sub *old = sub_find(s, f);
    if (old != NULL) sub_free(old);
    u32 open = 0;
    for (const mqtt_stream_sub *sub = s->streams; sub != NULL; sub = sub->next) open++;
    mqtt_stream_sub *sub = open < LIMIT_STREAM_SUBSCRIPTIONS ? sub_make(s, f, count, id) : NULL;
    if (sub == NULL) return MQTT_REASON_QUOTA_EXCEEDED;
    for (u32 i = 0; i < count; i++) {
        stream_part_sub *p = &sub->parts[i];
        const stream_ask settings = {.arrived = page_arrived, .context = p, .messages_max = PAGE_MESSAGES,
                                     .wait = true};
        *p = (stream_part_sub){.of = sub, .partition = parts[i].number >> STREAM_NUMBER_BITS};
        sub->part_count = i + 1;
        p->ask = stream_ask_open(s->owner, &parts[i], &settings, stream_from_of(&wish.from, p->partition),
                                 (const char *)wish.consumer.data, wish.consumer.len);
        if (p->ask != NULL) continue;
        sub_free(sub);
        return MQTT_REASON_QUOTA_EXCEEDED;
    }
    return sub->qos;
}

bool mqtt_stream_unsubscribe(mqtt_session *s, const mqtt_filter *f) {
    mqtt_stream_sub *sub = sub_find(s, f);
    if (sub == NULL) return false;
    sub_free(sub);
    return true;
}

void mqtt_stream_detach(mqtt_session *s) {
    while (s->streams != NULL) sub_free(s->streams);
    if (s->out == NULL) return;
    // What was not acknowledged comes again from the stream, not from the session.
    for (mqtt_entry *e = s->out->in_flight.head, *next; e != NULL; e = next) {
        next = e->next;
        if (e->stream) mqtt_flight_end(s, e);
    }
}
