// SPDX-License-Identifier: Apache-2.0
// remote_mqtt.c: an MQTT broker as the remote, 3.1.1 or 5.0. Messages go with QoS 1; a packet identifier is a
// window's place + 1. What is subscribed to comes with QoS 1 at most and is acknowledged when the own broker
// has taken it.
//
// The connection that takes messages from the remote keeps its session there, so that commands wait during an
// outage; the others begin clean: what they have to send again comes from the log.
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "net/conn.h"
#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"
#include "uplink/uplink_internal.h"

#define HEAD_ROOM 1024u
#define SMALL_ROOM 1024u
#define REFUSED_NS (500 * NS_PER_MS) // so long at least before what was refused is asked for again

static uplink *uplink_of(const conn *c) {
    return c->proto_state;
}

static mqtt_bytes text_bytes(const char *text) {
    return text[0] == '\0' ? (mqtt_bytes){0} : (mqtt_bytes){(const u8 *)text, (u32)strlen(text)};
}

// Queues a packet of any size. 0 or -ENOMEM.
static int packet_send(uplink *u, const mqtt_packet *packet) {
    u8 room[SMALL_ROOM], *to = room;
    u32 size = sizeof(room);
    int len = mqtt_write(packet, NULL, 0);
    ASSERT(len > 0);
    if ((u32)len > sizeof(room) && (to = worker_buf_alloc(u->owner, (u32)len, &size)) == NULL) return -ENOMEM;
    len = mqtt_write(packet, to, size);
    int result = conn_send(u->conn, to, (u32)len);
    if (to != room) worker_buf_free(u->owner, to, size);
    return result == 0 ? 0 : -ENOMEM;
}

// --- CONNECT ---

static uplink_error greet(uplink *u) {
    u8 room[64];
    mqtt_property_list props = {.data = room, .capacity = sizeof(room)};
    bool v5 = u->conf.version == UPLINK_MQTT_5, keeps = u->first && u->down_map.count > 0;
    u8 version = v5 ? MQTT_5 : MQTT_3_1_1;
    u->mqtt = (uplink_mqtt){
        .codec = {.version = version, .sender = MQTT_FROM_SERVER, .packet_bytes_max = u->conf.max_packet},
        .packet_bytes_max = MQTT_PACKET_BYTES_MAX,
        .receive_max = UINT16_MAX,
        .qos_max = 2,
        .retain_available = true,
    };
    if (v5) {
        if (keeps) (void)mqtt_property_put_number(&props, MQTT_SESSION_EXPIRY, u->conf.session_expiry_s);
        (void)mqtt_property_put_number(&props, MQTT_PACKET_SIZE_MAX, u->conf.max_packet);
        (void)mqtt_property_put_number(&props, MQTT_RECEIVE_MAX, LIMIT_OWED_MAX);
    }
    mqtt_packet packet = {.type = MQTT_CONNECT, .version = version};
    packet.connect = (mqtt_connect){
        .version = version,
        .clean_start = !keeps,
        // The broker's limit is half as long again; ours comes first.
        .keep_alive_s = (u16)MIN(u->conf.keepalive_s + (u32)(u->conf.ping_timeout_ms / 1000) + 1, 65535),
        .props = mqtt_property_list_end(&props),
        .client_id = text_bytes(u->id),
        .user_name = text_bytes(u->conf.user),
        .password = text_bytes(u->conf.password),
    };
    if (u->first && u->conf.status_topic[0] != '\0') {
        packet.connect.has_will = packet.connect.will_retain = true;
        packet.connect.will_qos = 1;
        packet.connect.will_topic = text_bytes(u->conf.status_topic);
        packet.connect.will_payload = text_bytes("offline");
    }
    return packet_send(u, &packet) == 0 ? UPLINK_ERROR_NONE : UPLINK_ERROR_NO_MEMORY;
}

static uplink_error connack_error(u8 version, u8 code) {
    if (version != MQTT_5) {
        return code == MQTT_CONNACK_BAD_CREDENTIALS  ? UPLINK_ERROR_BAD_CREDENTIALS
               : code == MQTT_CONNACK_NOT_AUTHORIZED ? UPLINK_ERROR_NOT_AUTHORIZED
                                                     : UPLINK_ERROR_REFUSED;
    }
    switch (code) {
    case MQTT_REASON_BAD_CREDENTIALS: return UPLINK_ERROR_BAD_CREDENTIALS;
    case MQTT_REASON_NOT_AUTHORIZED: return UPLINK_ERROR_NOT_AUTHORIZED;
    case MQTT_REASON_QUOTA_EXCEEDED: return UPLINK_ERROR_QUOTA;
    default: return UPLINK_ERROR_REFUSED;
    }
}

static int subscribe(uplink *u) {
    const char *filter;
    u32 len, at = 0, room = 0;
    if (!u->first || u->down_map.count == 0) return 0;
    for (u32 i = 0; down_filter_next(u, &i, &filter, &len);) room += len + 3;
    u32 size;
    u8 *data = worker_buf_alloc(u->owner, room, &size);
    if (data == NULL) return -ENOMEM;
    mqtt_filters list = {.data = data, .options = true};
    while (down_filter_next(u, &at, &filter, &len)) {
        mqtt_filter f = {.text = {(const u8 *)filter, len}, .qos = 1, .no_local = true, .retain_as_published = true,
                         .retain_handling = 1}; // retained ones for a new subscription, not after each outage
        (void)mqtt_filter_put(&list, data, size, &f);
    }
    mqtt_packet packet = {.type = MQTT_SUBSCRIBE, .version = u->mqtt.codec.version};
    packet.subscribe = (mqtt_subscribe){.packet_id = (u16)(u->window.size + 1), .filters = list};
    int result = packet_send(u, &packet);
    worker_buf_free(u->owner, data, size);
    return result;
}

// "online" under the status topic; acknowledged under an identifier of its own.
static int status_send(uplink *u, const char *text) {
    if (!u->first || u->conf.status_topic[0] == '\0') return 0;
    mqtt_packet packet = {.type = MQTT_PUBLISH, .version = u->mqtt.codec.version};
    packet.publish = (mqtt_publish){
        .retain = u->mqtt.retain_available,
        .qos = u->mqtt.qos_max > 0 ? 1 : 0,
        .packet_id = (u16)(u->window.size + 2),
        .topic = text_bytes(u->conf.status_topic),
        .payload = text_bytes(text),
    };
    return packet_send(u, &packet);
}

static void connack_take(uplink *u, const mqtt_connack *a) {
    const mqtt_properties *p = &a->props;
    u8 version = u->mqtt.codec.version;
    if (a->code != 0) {
        mqtt_bytes said = mqtt_property_bytes(p, MQTT_REASON_STRING);
        uplink_detail(u, "CONNACK 0x%02x%s%s%s%.*s", a->code, version == MQTT_5 ? " " : "",
                      version == MQTT_5 ? mqtt_reason_name(a->code) : "", said.len > 0 ? ": " : "",
                      (int)MIN(said.len, 80u), said.len > 0 ? (const char *)said.data : "");
        uplink_fail(u, connack_error(version, a->code), NULL);
        return;
    }
    u->mqtt.packet_bytes_max = mqtt_property_number(p, MQTT_PACKET_SIZE_MAX, MQTT_PACKET_BYTES_MAX);
    u->mqtt.receive_max = (u16)mqtt_property_number(p, MQTT_RECEIVE_MAX, UINT16_MAX);
    u->mqtt.qos_max = (u8)mqtt_property_number(p, MQTT_QOS_MAX, 2);
    u->mqtt.retain_available = mqtt_property_number(p, MQTT_RETAIN_AVAILABLE, 1) != 0;
    u32 keep_alive_s = mqtt_property_number(p, MQTT_SERVER_KEEP_ALIVE, 0); // 0: it wants none
    if (keep_alive_s != 0) u->keepalive_s = MIN(u->keepalive_s, keep_alive_s);
    if (u->mqtt.qos_max == 0) {
        uplink_fail(u, UPLINK_ERROR_REFUSED, "the broker takes QoS 0 only, which acknowledges nothing");
        return;
    }
    if (subscribe(u) != 0 || status_send(u, "online") != 0) {
        uplink_fail(u, UPLINK_ERROR_NO_MEMORY, NULL);
        return;
    }
    uplink_event_run(u, UPLINK_EV_GREETED);
}

// --- PUBLISH to the remote ---

// What differs among uplinks: the mark, and how much of the expiry interval is left.
static mqtt_properties props_more(const uplink *u, const uplink_message *m, mqtt_property_list *list) {
    (void)mqtt_property_put_pair(list, text_bytes(UPLINK_VIA), text_bytes(u->via));
    if (m->expires_ms != 0) {
        u64 now_ms = MAX(clock_real_ns() / NS_PER_MS, m->time_ms); // a clock that has gone back makes it no longer
        u64 left_s = m->expires_ms > now_ms ? (m->expires_ms - now_ms + 999) / 1000 : 1;
        (void)mqtt_property_put_number(list, MQTT_MESSAGE_EXPIRY, (u32)MIN(left_s, (u64)UINT32_MAX - 1));
    }
    return mqtt_property_list_end(list);
}

static int publish(uplink *u, const uplink_message *m, const char *topic, u32 topic_len, u32 place) {
    u8 room[HEAD_ROOM], more[UPLINK_ID_BYTES + 64], *head = room;
    u32 size = sizeof(room);
    u8 version = u->mqtt.codec.version;
    if (u->window.count >= u->mqtt.receive_max) return -EAGAIN;
    mqtt_property_list list = {.data = more, .capacity = sizeof(more)};
    mqtt_publish p = {
        .dup = m->again,
        .retain = m->retain && u->mqtt.retain_available,
        .qos = 1,
        .packet_id = (u16)(place + 1),
        .topic = {(const u8 *)topic, topic_len},
        .props = {m->props, m->props_len, m->props_present},
        .payload = {m->payload, m->payload_len},
    };
    if (version == MQTT_5) p.more_props = props_more(u, m, &list);
    int head_len = mqtt_write_publish_head(version, &p, NULL, 0);
    if (head_len < 0) return -EINVAL;
    if ((u64)head_len + m->payload_len > u->mqtt.packet_bytes_max) return -EMSGSIZE;
    if ((u32)head_len > sizeof(room)) head = worker_buf_alloc(u->owner, (u32)head_len, &size);
    if (head == NULL) return -ENOMEM;
    head_len = mqtt_write_publish_head(version, &p, head, size);
    int result = conn_send_parts(u->conn, head, (u32)head_len, m->payload, m->payload_len);
    if (head != room) worker_buf_free(u->owner, head, size);
    return result == 0 ? 0 : -ENOMEM;
}

// A refusal that will be the same next time is the end of the message; others end the connection, and it is
// sent again after a wait.
static bool refusal_is_final(u8 reason) {
    return reason == MQTT_REASON_NOT_AUTHORIZED || reason == MQTT_REASON_TOPIC_NAME_INVALID ||
           reason == MQTT_REASON_PAYLOAD_FORMAT_INVALID || reason == MQTT_REASON_PACKET_TOO_LARGE;
}

static void puback_take(uplink *u, const mqtt_ack *ack) {
    u32 place = (u32)ack->packet_id - 1;
    if (ack->packet_id > u->window.size) return; // of the status
    if (ack->reason < MQTT_REASON_UNSPECIFIED) {
        // Not ours to know: an acknowledgement of a session before this one may still come.
        (void)drain_acked(u, place);
        return;
    }
    if (refusal_is_final(ack->reason)) {
        const char *said = mqtt_reason_name(ack->reason);
        bool large = ack->reason == MQTT_REASON_PACKET_TOO_LARGE;
        (void)drain_refused(u, place, large ? UPLINK_DROP_TOO_LARGE : UPLINK_DROP_REFUSED, said, (u32)strlen(said));
        return;
    }
    uplink_detail(u, "PUBACK 0x%02x %s", ack->reason, mqtt_reason_name(ack->reason));
    uplink_fail(u, ack->reason == MQTT_REASON_QUOTA_EXCEEDED ? UPLINK_ERROR_QUOTA : UPLINK_ERROR_REFUSED, NULL);
}

// --- from the remote ---

static void puback_send(uplink *u, u16 packet_id) {
    mqtt_packet ack = {.type = MQTT_PUBACK, .version = u->mqtt.codec.version, .ack = {.packet_id = packet_id}};
    if (packet_send(u, &ack) != 0) uplink_fail(u, UPLINK_ERROR_NO_MEMORY, NULL);
}

// Not acknowledged: the remote sends it again over the next connection. Room is what this one may make, by sending what
// the log and its streams hold: it goes on so long, without what comes.
static void own_log_refuses(uplink *u, int result) {
    bool no_room = result == -EDQUOT || result == -EXFULL;
    if (!no_room) uplink_fail(u, UPLINK_ERROR_LOG_FAILED, errno_name(result));
    else if (u->mqtt.refused_ns == 0) u->mqtt.refused_ns = u->owner->now_ns;
}

// All that waited has been sent, or it has had time to make some room: begins anew, so that what came comes again.
static uplink_error check(uplink *u) {
    u64 refused_ns = u->mqtt.refused_ns, now_ns = u->owner->now_ns;
    if (refused_ns == 0 || now_ns < refused_ns + REFUSED_NS) return UPLINK_ERROR_NONE;
    bool all_sent = u->window.count == 0 && counter_get(&u->metrics.lag_messages) == 0;
    if (!all_sent && now_ns < refused_ns + UPLINK_GOOD_MS * NS_PER_MS) return UPLINK_ERROR_NONE;
    uplink_detail(u, "what came from the remote: the log or a stream is full");
    return UPLINK_ERROR_LOG_FAILED;
}

static void owed_settled(pledge_line *line) {
    uplink *u = CONTAINER_OF(line, uplink, owed);
    u32 packet_id;
    int result;
    while (uplink_is_up(u) && pledge_line_take(line, &packet_id, &result)) {
        if (result != 0) own_log_refuses(u, result);
        else puback_send(u, (u16)packet_id);
    }
    if (!u->mqtt.waits || !uplink_is_up(u)) return;
    u->mqtt.waits = false;
    conn_unblock(u->conn);
}

// Acknowledges when what was published is on disk, in the order it came.
static void puback_owe(uplink *u, u16 packet_id, pledge *owed) {
    u->owed.settled = owed_settled;
    if (owed == NULL && u->owed.count == 0) {
        puback_send(u, packet_id);
        return;
    }
    if (owed == NULL) owed = pledge_create(u->owner->broker);
    if (owed == NULL) uplink_fail(u, UPLINK_ERROR_NO_MEMORY, NULL);
    else pledge_line_add(&u->owed, owed, packet_id);
}

static int publish_take(uplink *u, const mqtt_publish *p) {
    if (p->qos > 1 || p->topic.len == 0) {
        uplink_fail(u, UPLINK_ERROR_PROTOCOL, "a PUBLISH with QoS 2 or a topic alias that was not offered");
        return 0;
    }
    uplink_incoming in = {
        .topic = (const char *)p->topic.data,
        .topic_len = p->topic.len,
        .props = p->props,
        .payload = p->payload.data,
        .payload_len = p->payload.len,
        .expiry_s = mqtt_property_number(&p->props, MQTT_MESSAGE_EXPIRY, UINT32_MAX),
        .qos = p->qos,
        .retain = p->retain,
    };
    if (u->owed.count >= LIMIT_OWED_MAX) {
        u->mqtt.waits = true;
        return PROTO_WAITING;
    }
    // In the order they came: none before the one that was refused.
    if (p->qos > 0 && u->mqtt.refused_ns != 0) return 0;
    pledge *owed = NULL;
    int result = down_publish(u, &in, p->qos > 0 ? &owed : NULL);
    if (result == -EAGAIN) return PROTO_BLOCKED;
    if (result < 0) {
        own_log_refuses(u, result);
        return 0;
    }
    counter_add(&u->metrics.received, 1);
    if (p->qos > 0) puback_owe(u, p->packet_id, owed);
    return 0;
}

static void suback_take(uplink *u, const mqtt_suback *s) {
    const char *filter;
    u32 len, i = 0;
    while (down_filter_next(u, &i, &filter, &len) && i <= s->codes.len) {
        u8 code = s->codes.data[i - 1];
        if (code < 0x80) continue;
        log_warn("worker %u: uplink %s: down: the remote refuses %.*s: 0x%02x %s", u->owner->index, u->conf.name,
                 (int)MIN(len, 80u), filter, code, u->mqtt.codec.version == MQTT_5 ? mqtt_reason_name(code) : "");
    }
}

static void disconnect_take(uplink *u, const mqtt_goodbye *g) {
    uplink_error error = g->reason == MQTT_REASON_SESSION_TAKEN_OVER ? UPLINK_ERROR_TAKEN_OVER
                         : g->reason == MQTT_REASON_NOT_AUTHORIZED   ? UPLINK_ERROR_NOT_AUTHORIZED
                         : g->reason == MQTT_REASON_QUOTA_EXCEEDED   ? UPLINK_ERROR_QUOTA
                                                                     : UPLINK_ERROR_CLOSED;
    uplink_detail(u, "DISCONNECT 0x%02x %s", g->reason, mqtt_reason_name(g->reason));
    uplink_fail(u, error, NULL);
}

static int fault(uplink *u, mqtt_fault f) {
    uplink_fail(u, UPLINK_ERROR_PROTOCOL, mqtt_fault_text(f));
    return 0;
}

static int packet_size(conn *c, const u8 *head, u32 len, u32 *bytes) {
    uplink *u = uplink_of(c);
    mqtt_fault f = mqtt_packet_size(&u->mqtt.codec, head, len, bytes);
    if (f == MQTT_FAULT_NONE) return 0;
    uplink_detail(u, "%s", mqtt_fault_text(f));
    return CLOSE_PROTOCOL_ERROR;
}

static int packet(conn *c, u8 *data, u32 len) {
    uplink *u = uplink_of(c);
    mqtt_packet p;
    mqtt_fault f = mqtt_parse(&u->mqtt.codec, data, len, &p);
    if (f != MQTT_FAULT_NONE) return fault(u, f);
    bool greeting = u->state == UPLINK_GREETING;
    if (greeting != (p.type == MQTT_CONNACK)) {
        uplink_detail(u, "%s %s CONNACK", mqtt_type_name(p.type), greeting ? "before" : "after");
        uplink_fail(u, UPLINK_ERROR_PROTOCOL, NULL);
        return 0;
    }
    switch (p.type) {
    case MQTT_CONNACK: connack_take(u, &p.connack); return 0;
    case MQTT_PUBACK: puback_take(u, &p.ack); return 0;
    case MQTT_PUBLISH: return publish_take(u, &p.publish);
    case MQTT_SUBACK: suback_take(u, &p.suback); return 0;
    case MQTT_PINGRESP: return 0;
    case MQTT_DISCONNECT: disconnect_take(u, &p.goodbye); return 0;
    default:
        uplink_detail(u, "%s, which was not asked for", mqtt_type_name(p.type));
        uplink_fail(u, UPLINK_ERROR_PROTOCOL, NULL);
        return 0;
    }
}

static void ping(uplink *u) {
    mqtt_packet p = {.type = MQTT_PINGREQ, .version = u->mqtt.codec.version};
    (void)packet_send(u, &p); // no memory: the ping's deadline will tell
}

static void leave(uplink *u) {
    mqtt_packet p = {.type = MQTT_DISCONNECT, .version = u->mqtt.codec.version};
    if (status_send(u, "offline") != 0) return;
    (void)packet_send(u, &p);
}

static void gone(uplink *u) {
    pledge_line_abandon(&u->owed);
}

static void closed(conn *c) {
    if (uplink_of(c) != NULL) uplink_conn_closed(uplink_of(c), c);
}

static void farewell(conn *c, close_reason reason) {
    (void)reason;
    uplink *u = uplink_of(c);
    if (u != NULL && u->conn == c) leave(u);
}

static const proto mqtt_proto = {
    .name = "uplink-mqtt",
    .open = uplink_conn_open,
    .packet_size = packet_size,
    .packet = packet,
    .farewell = farewell,
    .closed = closed,
};

const uplink_remote uplink_remote_mqtt = {
    .proto = &mqtt_proto,
    .greet = greet,
    .publish = publish,
    .ping = ping,
    .check = check,
    .leave = leave,
    .gone = gone,
};
