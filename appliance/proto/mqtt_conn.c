// SPDX-License-Identifier: Apache-2.0
// mqtt_conn.c: MQTT on a connection, from the server's side: cuts packets, hands each to the file of its
// type, and ends the connection with what the standard wants said: a DISCONNECT with a reason in 5.0,
// nothing in 3.x.
//
// Before its CONNECT a connection has no session (proto_state NULL). When the gateway ends it the session
// leaves first, so that nothing more is delivered to a connection that only finishes its output.
#include "proto/mqtt_conn.h"

#include <string.h>

#include "auth/attempt.h"
#include "broker/events.h"
#include "proto/mqtt_durable.h"
#include "proto/mqtt_write.h"

static mqtt_codec codec_of(const conn *c) {
    const mqtt_session *s = mqtt_session_of(c);
    return (mqtt_codec){
        .version = LIKELY(s != NULL)              ? s->version
                   : auth_exchange_of(c) != NULL ? MQTT_5 // between CONNECT and CONNACK
                                                 : MQTT_UNKNOWN,
        .sender = MQTT_FROM_CLIENT,
        .packet_bytes_max = mqtt_conf(c)->max_packet,
    };
}

// --- what is said ---

void mqtt_disconnect_send(const mqtt_session *s, conn *c, u8 reason, const char *text) {
    u8 room[256], out[sizeof(room) + 16];
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    mqtt_goodbye goodbye = {.reason = reason};
    if (s->version != MQTT_5 || s->greeting != NULL) return; // nothing goes before the CONNACK
    if (text != NULL) {
        (void)mqtt_property_put_bytes(&list, MQTT_REASON_STRING,
                                      (mqtt_bytes){(const u8 *)text, (u32)strlen(text)});
        goodbye.props = mqtt_property_list_end(&list);
    }
    int bytes = mqtt_write_goodbye(MQTT_5, MQTT_DISCONNECT, &goodbye, out, sizeof(out));
    if (bytes > 0 && (u32)bytes > s->packet_bytes_max) {
        goodbye.props = (mqtt_properties){0};
        bytes = mqtt_write_goodbye(MQTT_5, MQTT_DISCONNECT, &goodbye, out, sizeof(out));
    }
    // A client whose output is full is not told.
    if (bytes <= 0 || (u32)bytes > s->packet_bytes_max || conn_send(c, out, (u32)bytes) != 0) return;
    counter_add(&mqtt_metrics(s)->mqtt_packets_out[MQTT_DISCONNECT], 1);
}

int mqtt_conn_fail(conn *c, u8 reason, close_reason close, const char *text) {
    mqtt_session *s = mqtt_session_of(c);
    mqtt_disconnect_send(s, c, reason, text);
    events_disconnect(c->owner, s->id, s->client.id_len, close_reason_name(close));
    mqtt_session_leave(s);
    return close;
}

int mqtt_conn_fault(conn *c, mqtt_fault fault) {
    close_reason close = fault == MQTT_FAULT_TOO_LARGE ? CLOSE_FRAME_TOO_LARGE : CLOSE_PROTOCOL_ERROR;
    if (mqtt_session_of(c) == NULL) {
        return fault == MQTT_FAULT_TOO_LARGE ? CLOSE_FRAME_TOO_LARGE : CLOSE_BAD_HELLO;
    }
    return mqtt_conn_fail(c, mqtt_fault_reason(fault), close, mqtt_fault_text(fault));
}

int mqtt_ack_send(const mqtt_session *s, mqtt_type type, u16 packet_id, u8 reason) {
    u8 out[16];
    mqtt_ack ack = {.packet_id = packet_id, .reason = reason};
    int bytes = mqtt_write_ack(s->version, type, &ack, out, sizeof(out));
    ASSERT(bytes > 0);
    counter_add(&mqtt_metrics(s)->mqtt_packets_out[type], 1);
    return conn_send(s->conn, out, (u32)bytes);
}

// --- packets ---

static int mqtt_packet_bytes(conn *c, const u8 *head, u32 len, u32 *packet_bytes) {
    mqtt_codec codec = codec_of(c);
    mqtt_fault fault = mqtt_packet_size(&codec, head, len, packet_bytes);
    return LIKELY(fault == MQTT_FAULT_NONE) ? 0 : mqtt_conn_fault(c, fault);
}

static int take_ping(conn *c) {
    static const u8 answer[MQTT_PING_BYTES] = {MQTT_PINGRESP << 4, 0};
    mqtt_session *s = mqtt_session_of(c);
    counter_add(&c->owner->metrics.heartbeats, 1);
    counter_add(&c->owner->metrics.mqtt_packets_out[MQTT_PINGRESP], 1);
    mqtt_session_trim(s); // it is quiet
    return conn_send(c, answer, sizeof(answer));
}

// The client says goodbye (5.0 section 3.14): its will is dropped unless it asks for it.
static int take_disconnect(conn *c, const mqtt_goodbye *goodbye) {
    mqtt_session *s = mqtt_session_of(c);
    if (mqtt_property_present(&goodbye->props, MQTT_SESSION_EXPIRY)) {
        u32 expiry_s = mqtt_property_number(&goodbye->props, MQTT_SESSION_EXPIRY, 0);
        u32 max_s = mqtt_conf(c)->session_expiry_max_s;
        if (s->expiry_s == 0 && expiry_s != 0) {
            return mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR, CLOSE_PROTOCOL_ERROR,
                                  "a session without expiry can not be given one at its end");
        }
        s->expiry_s = max_s == 0 ? expiry_s : MIN(expiry_s, max_s);
    }
    if (goodbye->reason == MQTT_REASON_SUCCESS) mqtt_will_free(s);
    events_disconnect(c->owner, s->id, s->client.id_len, "client");
    mqtt_session_leave(s);
    conn_await_peer(c); // it must close (5.0 section 3.14.4)
    return 0;
}

static int packet_take(conn *c, const mqtt_packet *packet) {
    switch (packet->type) {
        case MQTT_PUBLISH: return mqtt_receive_publish(c, &packet->publish);
        case MQTT_PUBACK:
        case MQTT_PUBREC:
        case MQTT_PUBCOMP: return mqtt_receive_ack(c, packet->type, &packet->ack);
        case MQTT_PUBREL: return mqtt_receive_pubrel(c, &packet->ack);
        case MQTT_SUBSCRIBE: return mqtt_receive_subscribe(c, &packet->subscribe);
        case MQTT_UNSUBSCRIBE: return mqtt_receive_unsubscribe(c, &packet->subscribe);
        case MQTT_PINGREQ: return take_ping(c);
        case MQTT_DISCONNECT: return take_disconnect(c, &packet->goodbye);
        default: break;
    }
    // AUTH: what the codec lets through from a client besides the above.
    return mqtt_auth_again(c, &packet->goodbye);
}

static int mqtt_packet_in(conn *c, u8 *data, u32 len) {
    mqtt_session *s = mqtt_session_of(c);
    if (UNLIKELY(c->owner->sessions->durable != NULL) && mqtt_durable_is_behind(c->owner->sessions)) {
        return PROTO_BLOCKED;
    }
    if (UNLIKELY(s == NULL) && auth_exchange_of(c) == NULL) return mqtt_connect_take(c, data, len);
    if (UNLIKELY(s != NULL && s->subscribing != NULL) && mqtt_subscribe_waits(s)) return PROTO_WAITING;
    if (UNLIKELY(s != NULL && s->greeting != NULL)) return PROTO_WAITING;
    mqtt_codec codec = codec_of(c);
    mqtt_packet packet;
    mqtt_fault fault = mqtt_parse(&codec, data, len, &packet);
    if (UNLIKELY(fault != MQTT_FAULT_NONE)) return mqtt_conn_fault(c, fault);
    worker_metrics *metrics = &c->owner->metrics;
    u8 type = packet.type;
    int result = LIKELY(s != NULL) ? packet_take(c, &packet) : mqtt_auth_continue(c, &packet);
    if (LIKELY(result >= 0)) counter_add(&metrics->mqtt_packets_in[type], 1);
    return result;
}

// --- the connection ---

static void mqtt_writable(conn *c) {
    mqtt_session *s = mqtt_session_of(c);
    if (s != NULL) mqtt_queue_pump(s);
}

static u64 mqtt_idle_timeout_ms(const conn *c) {
    const mqtt_session *s = mqtt_session_of(c);
    return s == NULL ? 0 : s->keep_alive_s * 1500ull; // 5.0 section 3.1.2.10: one and a half times
}

static u8 reason_of_close(close_reason reason) {
    switch (reason) {
        case CLOSE_IDLE: return MQTT_REASON_KEEP_ALIVE_TIMEOUT;
        case CLOSE_DRAIN: return MQTT_REASON_SERVER_SHUTTING_DOWN;
        case CLOSE_KICKED: return MQTT_REASON_ADMINISTRATIVE_ACTION;
        case CLOSE_AUTH_FAILED: return MQTT_REASON_NOT_AUTHORIZED;
        case CLOSE_TOKEN_EXPIRED: return MQTT_REASON_MAXIMUM_CONNECT_TIME;
        default: return MQTT_REASON_UNSPECIFIED;
    }
}

// The client's end, told by whoever ends it. At the gateway's own end a will is not due: the client is well.
static void session_gone(mqtt_session *s, close_reason reason) {
    if (reason == CLOSE_DRAIN) mqtt_will_free(s);
    events_disconnect(s->owner, s->id, s->client.id_len, close_reason_name(reason));
    mqtt_session_leave(s);
}

static void mqtt_farewell(conn *c, close_reason reason) {
    mqtt_session *s = mqtt_session_of(c);
    if (s == NULL) return;
    mqtt_disconnect_send(s, c, reason_of_close(reason), NULL);
    session_gone(s, reason);
}

static void mqtt_closed(conn *c) {
    mqtt_session *s = mqtt_session_of(c);
    auth_forget(c);
    if (s != NULL) session_gone(s, (close_reason)c->reason);
}

static const char *mqtt_client_id(const conn *c, u32 *len) {
    const mqtt_session *s = mqtt_session_of(c);
    if (s == NULL) return NULL;
    *len = s->client.id_len;
    return s->id;
}

const proto proto_mqtt = {
    .name = "mqtt",
    .packet_size = mqtt_packet_bytes,
    .packet = mqtt_packet_in,
    .owner_by_id = true,
    .writable = mqtt_writable,
    .farewell = mqtt_farewell,
    .idle_timeout_ms = mqtt_idle_timeout_ms,
    .closed = mqtt_closed,
    .recheck = mqtt_recheck,
    .client_id = mqtt_client_id,
};
