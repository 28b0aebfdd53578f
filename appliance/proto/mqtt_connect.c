// SPDX-License-Identifier: Apache-2.0
// mqtt_connect.c: CONNECT and its answer (sections 3.1 and 3.2). On whatever worker the connection was
// accepted the packet is judged; one with a client id of another worker moves there and is judged again. On
// the worker that owns the id all connections with that id come one after the other, so a take-over is
// in order however they arrived.
//
// A client that finds no session is told so when the sessions that have ended are so on disk: one that a clean start
// has wiped does not come back after a power cut. Until then its packets wait.
//
// Nothing of a session is touched before the CONNECT has passed all checks. An id that is chosen here is one
// of this worker's own, so that the connection stays.
#include <errno.h>
#include <string.h>

#include "auth/attempt.h"
#include "auth/rate.h"
#include "base/siphash.h"
#include "broker/deny.h"
#include "broker/events.h"
#include "broker/sys.h"
#include "proto/mqtt_durable.h"
#include "proto/mqtt_session.h"
#include "proto/mqtt_write.h"

#define ASSIGNED_ID_BYTES 21u // "auto-" and 16 hexadecimal digits

// --- CONNACK ---

#define CONNACK_ROOM (LIMIT_MQTT_CONNACK_BYTES + 16u)

struct mqtt_greeting {
    mqtt_session *session;
    pledge_line owed;   // what it waits for
    u32 len;
    bool clean_start;   // of the CONNECT
    bool present;       // what it says
    u8 packet[];
};

static u32 connack_write(mqtt_version version, const mqtt_connack *answer, u8 out[CONNACK_ROOM]) {
    int bytes = mqtt_write_connack(version, answer, out, CONNACK_ROOM);
    ASSERT(bytes > 0);
    return (u32)bytes;
}

static int packet_send(conn *c, const u8 *packet, u32 len) {
    counter_add(&c->owner->metrics.mqtt_packets_out[MQTT_CONNACK], 1);
    return conn_send(c, packet, len);
}

static int connack_send(conn *c, mqtt_version version, u32 bytes_max, const mqtt_connack *answer) {
    u8 out[CONNACK_ROOM];
    u32 bytes = connack_write(version, answer, out);
    // One that takes no CONNACK can not be spoken to.
    return bytes > bytes_max ? (int)CLOSE_NOT_SUPPORTED : packet_send(c, out, bytes);
}

typedef struct refusal {
    u8 reason; // 0: none
    close_reason close;
    const char *text;
} refusal;

// Refuses with a reason of 5.0. 3.x has a code for few; without one the connection is closed in silence.
static int refuse(conn *c, const mqtt_connect *k, refusal r) {
    u8 room[256];
    u32 max = UINT32_MAX;
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    mqtt_connack answer = {.code = r.reason};
    if (k->version == MQTT_5) {
        max = mqtt_property_number(&k->props, MQTT_PACKET_SIZE_MAX, UINT32_MAX);
        (void)mqtt_property_put_bytes(&list, MQTT_REASON_STRING,
                                      (mqtt_bytes){(const u8 *)r.text, (u32)strlen(r.text)});
        answer.props = mqtt_property_list_end(&list);
        int whole = mqtt_write_connack(MQTT_5, &answer, NULL, 0);
        if (whole > 0 && (u32)whole > max) answer.props = (mqtt_properties){0};
    } else {
        int code = mqtt_connack_code_of_reason(r.reason);
        if (code < 0) return r.close;
        answer.code = (u8)code;
    }
    int result = connack_send(c, k->version, max, &answer);
    return result != 0 ? result : (int)r.close;
}

// A CONNECT that can not be read.
static int refuse_fault(conn *c, mqtt_fault fault, u8 version) {
    u8 room[256];
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    mqtt_connack answer = {.code = mqtt_fault_connack(fault, version)};
    const char *text = mqtt_fault_text(fault);
    if (answer.code == 0) return CLOSE_BAD_HELLO;
    if (version == MQTT_5) {
        (void)mqtt_property_put_bytes(&list, MQTT_REASON_STRING,
                                      (mqtt_bytes){(const u8 *)text, (u32)strlen(text)});
        answer.props = mqtt_property_list_end(&list);
    }
    int result = connack_send(c, version, UINT32_MAX, &answer);
    return result != 0 ? result : CLOSE_BAD_HELLO;
}

// --- may it come in? ---

// What a client is told. It never says which part was wrong.
static refusal refusal_of(auth_result result) {
    switch (result) {
    case AUTH_NO_IDENTITY:
        return (refusal){MQTT_REASON_NOT_AUTHORIZED, CLOSE_AUTH_FAILED, "not let in without credentials"};
    case AUTH_RATE:
        return (refusal){MQTT_REASON_CONNECTION_RATE_EXCEEDED, CLOSE_AUTH_FAILED, "too many failures"};
    case AUTH_BUSY: return (refusal){MQTT_REASON_SERVER_BUSY, CLOSE_AUTH_FAILED, "try again later"};
    case AUTH_METHOD_UNKNOWN:
        return (refusal){MQTT_REASON_BAD_AUTH_METHOD, CLOSE_AUTH_FAILED, "no such authentication method"};
    default: return (refusal){MQTT_REASON_BAD_CREDENTIALS, CLOSE_AUTH_FAILED, "wrong credentials"};
    }
}

int mqtt_connect_refuse(conn *c, const mqtt_connect *k, auth_result result) {
    return refuse(c, k, refusal_of(result));
}

static refusal connect_check(const listener_config *conf, const mqtt_connect *k) {
    if (k->client_id.len > LIMIT_CLIENT_ID_BYTES) {
        return (refusal){MQTT_REASON_CLIENT_ID_INVALID, CLOSE_BAD_HELLO, "client id too long"};
    }
    if (!k->has_will) return (refusal){0};
    if (k->will_qos > conf->max_qos) {
        return (refusal){MQTT_REASON_QOS_NOT_SUPPORTED, CLOSE_NOT_SUPPORTED, "will QoS above the maximum"};
    }
    if (k->will_retain && !conf->retain_available) {
        return (refusal){MQTT_REASON_RETAIN_NOT_SUPPORTED, CLOSE_NOT_SUPPORTED,
                         "retained messages are not available"};
    }
    const char *topic = (const char *)k->will_topic.data;
    bool ours = topic[0] == '$' && !sys_is_bridge_state(topic, k->will_topic.len);
    if (ours || deny_topic(conf->deny_publish, topic, k->will_topic.len)) {
        return (refusal){MQTT_REASON_NOT_AUTHORIZED, CLOSE_NOT_SUPPORTED, "will topic is refused"};
    }
    return (refusal){0};
}

// --- who is it? ---

static void id_assign(worker *w, char id[ASSIGNED_ID_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    u64 seed[3] = {w->index, 0, clock_real_ns()};
    memcpy(id, "auto-", 5);
    do {
        seed[1] = ++w->sessions->next_number;
        u64 random = siphash24(siphash_process_key(), seed, sizeof(seed));
        for (u32 i = 0; i < 16; i++) id[5 + i] = digits[random >> (4 * i) & 15];
    } while (worker_of_client(w->gw, id, ASSIGNED_ID_BYTES) != w->index ||
             client_find(w->broker, id, ASSIGNED_ID_BYTES) != NULL);
}

static u32 expiry_asked(const mqtt_connect *k) {
    if (k->version == MQTT_5) return mqtt_property_number(&k->props, MQTT_SESSION_EXPIRY, 0);
    return k->clean_start ? 0 : MQTT_EXPIRY_NEVER;
}

static u32 expiry_granted(const listener_config *conf, u32 asked) {
    return conf->session_expiry_max_s == 0 ? asked : MIN(asked, conf->session_expiry_max_s);
}

static u16 keep_alive_granted(const listener_config *conf, const mqtt_connect *k) {
    u32 max = conf->max_keepalive_s;
    if (k->version != MQTT_5) return k->keep_alive_s;
    if (conf->server_keepalive_s != 0) return (u16)conf->server_keepalive_s;
    bool longer = max != 0 && (k->keep_alive_s == 0 || k->keep_alive_s > max);
    return longer ? (u16)max : k->keep_alive_s;
}

// What holds for this connection.
static void session_configure(mqtt_session *s, const listener_config *conf, const mqtt_connect *k) {
    bool v5 = k->version == MQTT_5;
    const mqtt_properties *p = &k->props;
    s->version = k->version;
    s->expiry_s = expiry_granted(conf, expiry_asked(k));
    s->keep_alive_s = keep_alive_granted(conf, k);
    s->packet_bytes_max = v5 ? mqtt_property_number(p, MQTT_PACKET_SIZE_MAX, UINT32_MAX) : UINT32_MAX;
    s->window = (u16)MIN(v5 ? mqtt_property_number(p, MQTT_RECEIVE_MAX, 65535) : 65535, conf->inflight_max);
    s->alias_max = v5 ? (u16)MIN(mqtt_property_number(p, MQTT_TOPIC_ALIAS_MAX, 0), conf->topic_alias_max) : 0;
    s->queued_bytes_max = conf->max_queued_bytes;
    s->queued_messages_max = conf->max_queued_messages;
    s->queue_policy = (u8)conf->queue_policy;
    mqtt_queue_watch(s);
    s->flags &= (u8)~(MQTT_NO_PROBLEM_INFO | MQTT_BRIDGE);
    if (v5 && mqtt_property_number(p, MQTT_REQUEST_PROBLEM_INFO, 1) == 0) s->flags |= MQTT_NO_PROBLEM_INFO;
    if (k->bridge) s->flags |= MQTT_BRIDGE;
}

// --- the answer ---

// The template with each %i replaced by the client id.
static mqtt_bytes response_info(const mqtt_session *s, const char *template, u8 *out, u32 room) {
    u32 len = 0;
    for (const char *at = template; *at != 0;) {
        bool is_id = at[0] == '%' && at[1] == 'i';
        u32 bytes = is_id ? s->client.id_len : 1;
        if (bytes > room - len) break;
        memcpy(out + len, is_id ? s->id : at, bytes);
        len += bytes;
        at += is_id ? 2 : 1;
    }
    return (mqtt_bytes){out, len};
}

static void put(mqtt_property_list *list, mqtt_property_id id, u32 number) {
    int result = mqtt_property_put_number(list, id, number);
    ASSERT(result == 0);
}

// Only what differs from what the client takes for granted.
static void connack_properties(const mqtt_session *s, const listener_config *conf, const mqtt_connect *k,
                               mqtt_property_list *list) {
    if (s->expiry_s != expiry_asked(k)) put(list, MQTT_SESSION_EXPIRY, s->expiry_s);
    if (conf->receive_max < 65535) put(list, MQTT_RECEIVE_MAX, conf->receive_max);
    if (conf->max_qos < 2) put(list, MQTT_QOS_MAX, conf->max_qos);
    if (!conf->retain_available) put(list, MQTT_RETAIN_AVAILABLE, 0);
    put(list, MQTT_PACKET_SIZE_MAX, conf->max_packet);
    if (k->client_id.len == 0) {
        (void)mqtt_property_put_bytes(list, MQTT_ASSIGNED_CLIENT_ID,
                                      (mqtt_bytes){(const u8 *)s->id, s->client.id_len});
    }
    if (conf->topic_alias_max > 0) put(list, MQTT_TOPIC_ALIAS_MAX, conf->topic_alias_max);
    if (!conf->wildcard_available) put(list, MQTT_WILDCARD_AVAILABLE, 0);
    if (!conf->subscription_ids_available) put(list, MQTT_SUBSCRIPTION_ID_AVAILABLE, 0);
    if (!conf->shared_available) put(list, MQTT_SHARED_AVAILABLE, 0);
    if (s->keep_alive_s != k->keep_alive_s || conf->server_keepalive_s != 0) {
        put(list, MQTT_SERVER_KEEP_ALIVE, s->keep_alive_s);
    }
    if (conf->response_info[0] != 0 && mqtt_property_number(&k->props, MQTT_REQUEST_RESPONSE_INFO, 0) == 1) {
        u8 text[sizeof(conf->response_info) + LIMIT_CLIENT_ID_BYTES];
        (void)mqtt_property_put_bytes(list, MQTT_RESPONSE_INFO,
                                      response_info(s, conf->response_info, text, sizeof(text)));
    }
}

static void tell_event(const mqtt_session *s, bool clean_start, bool present) {
    char peer[CONN_PEER_TEXT];
    event_connect e = {
        .client = s->id,
        .client_len = s->client.id_len,
        .peer = conn_peer_text(s->conn, peer),
        .listener = mqtt_conf(s->conn)->name,
        .version = s->version,
        .keep_alive_s = s->keep_alive_s,
        .expiry_s = s->expiry_s,
        .clean_start = clean_start,
        .session_present = present,
    };
    events_connect(s->owner, &e);
}

// Its client knows that it is connected.
static void session_begins(mqtt_session *s, bool clean_start, bool present) {
    if (s->owner->conf->events) tell_event(s, clean_start, present);
    mqtt_queue_resume(s);
    mqtt_queue_pump(s);
}

static void greeting_free(mqtt_session *s) {
    mqtt_greeting *g = s->greeting;
    pledge_line_abandon(&g->owed);
    s->greeting = NULL;
    pool_free(mqtt_pool(s), g, sizeof(*g) + g->len);
}

// That the session before it has ended could not be kept: it would be found again. The client comes later.
static void greeting_due(pledge_line *line) {
    mqtt_greeting *g = CONTAINER_OF(line, mqtt_greeting, owed);
    mqtt_session *s = g->session;
    conn *c = s->conn;
    bool clean_start = g->clean_start, present = g->present;
    u32 word;
    int failure;
    if (c->reason != CLOSE_NONE || !pledge_line_take(line, &word, &failure)) return;
    bool refuses = failure != 0;
    u8 why = failure == -EDQUOT ? MQTT_REASON_QUOTA_EXCEEDED : MQTT_REASON_SERVER_UNAVAILABLE;
    mqtt_connack refused = {.code = s->version == MQTT_5 ? why : MQTT_CONNACK_UNAVAILABLE};
    int reason = refuses ? connack_send(c, s->version, s->packet_bytes_max, &refused)
                         : packet_send(c, g->packet, g->len);
    greeting_free(s);
    if (refuses && reason == 0) {
        mqtt_will_free(s); // it was never a client
        conn_close_after_flush(c, CLOSE_LOG);
        return;
    }
    if (reason != 0) {
        mqtt_will_free(s); // it was never a client
        conn_close(c, (close_reason)reason);
        return;
    }
    s->flags &= (u8)~MQTT_UNGREETED;
    session_begins(s, clean_start, present);
    conn_answered(c);
}

// Keeps the CONNACK until what it waits for is on disk. Nothing comes before it: nobody was told of the session yet.
static int greeting_make(mqtt_session *s, pledge *owed, const u8 *packet, u32 len, bool clean_start, bool present) {
    mqtt_greeting *g = pool_alloc(mqtt_pool(s), sizeof(*g) + len);
    if (g == NULL) {
        pledge_forget(owed);
        return CLOSE_NO_MEMORY;
    }
    *g = (mqtt_greeting){.session = s, .owed.settled = greeting_due, .len = len, .clean_start = clean_start,
                         .present = present};
    memcpy(g->packet, packet, len);
    pledge_line_add(&g->owed, owed, 0);
    s->greeting = g;
    s->flags |= MQTT_UNGREETED;
    return 0;
}

void mqtt_connect_detach(mqtt_session *s) {
    if (s->greeting == NULL) return;
    greeting_free(s);
    mqtt_will_free(s); // it was never a client
}

// Sends the CONNACK, or keeps it (s->greeting).
static int accept_send(mqtt_session *s, const mqtt_connect *k, bool present, mqtt_bytes auth_data) {
    u8 room[LIMIT_MQTT_CONNACK_BYTES], out[CONNACK_ROOM];
    pledge *owed = NULL;
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    mqtt_connack answer = {.session_present = present && s->version != MQTT_3_1};
    if (s->version == MQTT_5) {
        connack_properties(s, mqtt_conf(s->conn), k, &list);
        if (auth_data.data != NULL) {
            (void)mqtt_property_put_bytes(&list, MQTT_AUTH_METHOD, mqtt_property_bytes(&k->props, MQTT_AUTH_METHOD));
            (void)mqtt_property_put_bytes(&list, MQTT_AUTH_DATA, auth_data);
        }
        answer.props = mqtt_property_list_end(&list);
    }
    u32 bytes = connack_write(s->version, &answer, out);
    if (bytes > s->packet_bytes_max) return CLOSE_NOT_SUPPORTED; // it can not be spoken to
    // A session whose client has not heard of it yet: the end of the one before it may not be on disk still.
    bool follows = !present || (s->flags & MQTT_UNGREETED) != 0;
    if (follows && mqtt_durable_owe_ended(s, &owed) < 0) return CLOSE_NO_MEMORY;
    if (owed != NULL) return greeting_make(s, owed, out, bytes, k->clean_start, present);
    s->flags &= (u8)~MQTT_UNGREETED;
    return packet_send(s->conn, out, bytes);
}

// --- the session ---

// The session of the id, as the CONNECT wants it; whoever has it now is told. NULL: no room or memory.
static mqtt_session *session_claim(conn *c, const mqtt_connect *k, const char *id, u32 len, bool *present) {
    worker *w = c->owner;
    mqtt_session *s = mqtt_session_find(w, id, len);
    *present = false;
    if (s != NULL) {
        bool goes_on = !k->clean_start && !(s->conn != NULL && s->expiry_s == 0);
        mqtt_session_hand_over(s, goes_on);
        *present = goes_on;
        if (goes_on) return s;
        mqtt_session_end(s);
    }
    if (!mqtt_sessions_has_room(w->sessions)) return NULL;
    return mqtt_session_create(w, id, len);
}

// Its will is published in its name: judged like a message of its own.
static bool will_is_allowed(auth_grant *g, const mqtt_connect *k, const char *id, u32 len) {
    if (!k->has_will || g == NULL) return true;
    return grant_allows(g, id, len, ACL_WRITE, (const char *)k->will_topic.data, k->will_topic.len);
}

// The client's rights, before anything of a session is touched. 0, or what packet() returns after a refusal.
static int grant_open(conn *c, const mqtt_connect *k, const char *id, u32 len, const auth_identity *who,
                      auth_grant **out) {
    static const refusal full = {MQTT_REASON_QUOTA_EXCEEDED, CLOSE_QUOTA, "no room for another session"};
    static const refusal will = {MQTT_REASON_NOT_AUTHORIZED, CLOSE_NOT_SUPPORTED, "will topic is refused"};
    const listener_config *conf = mqtt_conf(c);
    pool *memory = broker_pool(c->owner->broker);
    bool rated = rate_is_limited(conf);
    auth_result now = grant_verdict(who, conf->auth, conf->anonymous);
    if (!auth_lets_in(now)) {
        auth_revoked(c, id, len, now);
        return mqtt_connect_refuse(c, k, now);
    }
    if (grant_make(memory, conf->auth, who, rated, out) < 0) return refuse(c, k, full);
    if (will_is_allowed(*out, k, id, len)) return 0;
    counter_add(&c->owner->metrics.publish_denied, 1);
    grant_free(memory, *out);
    return refuse(c, k, will);
}

static int session_open(conn *c, const mqtt_connect *k, const char *id, u32 len, const auth_identity *who,
                        mqtt_bytes auth_data) {
    static const refusal full = {MQTT_REASON_QUOTA_EXCEEDED, CLOSE_QUOTA, "no room for another session"};
    bool present;
    auth_grant *grant = NULL;
    int result = grant_open(c, k, id, len, who, &grant);
    if (result != 0) return result;
    mqtt_session *s = session_claim(c, k, id, len, &present);
    if (s == NULL) {
        grant_free(broker_pool(c->owner->broker), grant);
        counter_add(&c->owner->metrics.mqtt_sessions_refused, 1);
        return refuse(c, k, full);
    }
    grant_free(mqtt_pool(s), s->grant); // of its last connection
    s->grant = grant;
    if (k->has_will && (s->will = mqtt_will_create(s, k)) == NULL) {
        if (present) mqtt_session_await(s);
        else mqtt_session_end(s);
        return refuse(c, k, full);
    }
    session_configure(s, mqtt_conf(c), k);
    mqtt_session_attach(s, c);
    mqtt_durable_begin(s);
    conn_timer_update(c);
    result = accept_send(s, k, present, auth_data);
    if (result != 0) {
        mqtt_will_free(s); // it was never a client
        return result;
    }
    if (s->greeting == NULL) session_begins(s, k->clean_start, present);
    return 0;
}

int mqtt_connect_finish(conn *c, const mqtt_connect *k, const auth_identity *who, mqtt_bytes auth_data) {
    worker *w = c->owner;
    char assigned[ASSIGNED_ID_BYTES];
    const char *id = (const char *)k->client_id.data;
    u32 id_len = k->client_id.len;
    if (id_len == 0) {
        id_assign(w, assigned);
        id = assigned;
        id_len = sizeof(assigned);
    }
    counter_add(&w->metrics.mqtt_packets_in[MQTT_CONNECT], 1);
    int result = session_open(c, k, id, id_len, who, auth_data);
    if (result == 0) auth_forget(c); // last: k and who may lie in it
    return result;
}

// Who is it? 0 when it is let in.
static int identity_check(conn *c, const mqtt_connect *k, auth_identity *who) {
    auth_request r = {
        .user = (const char *)k->user_name.data,
        .user_len = k->user_name.len,
        .secret = k->password.data,
        .secret_len = k->password.len,
        .client = (const char *)k->client_id.data,
        .client_len = k->client_id.len,
    };
    if (auth_judge(c, &r, who) == AUTH_WAITS) return PROTO_WAITING;
    return auth_lets_in(who->how) ? 0 : mqtt_connect_refuse(c, k, who->how);
}

int mqtt_connect_take(conn *c, const u8 *data, u32 len) {
    const worker *w = c->owner;
    const listener_config *conf = mqtt_conf(c);
    mqtt_codec codec = {.sender = MQTT_FROM_CLIENT, .packet_bytes_max = conf->max_packet};
    mqtt_packet packet;
    mqtt_fault fault = mqtt_parse(&codec, data, len, &packet);
    if (fault != MQTT_FAULT_NONE) return refuse_fault(c, fault, packet.version);
    const mqtt_connect *k = &packet.connect;
    refusal r = connect_check(conf, k);
    if (r.reason != 0) return refuse(c, k, r);
    // One without an id gets one of this worker's: it stays.
    const char *id = (const char *)k->client_id.data;
    u32 owner = k->client_id.len == 0 ? w->index : worker_of_client(w->gw, id, k->client_id.len);
    if (owner != w->index) {
        conn_move(c, owner);
        return 0;
    }
    if (mqtt_property_present(&k->props, MQTT_AUTH_METHOD)) return mqtt_auth_begin(c, k, data, len);
    auth_identity who;
    int result = identity_check(c, k, &who);
    return result != 0 ? result : mqtt_connect_finish(c, k, &who, (mqtt_bytes){0});
}
