// SPDX-License-Identifier: Apache-2.0
// mqtt_auth.c: MQTT 5's enhanced authentication (section 4.12) with SCRAM-SHA-256, and what a client that was let in
// may do: its grant's timer, its rates, and another look at it after a reload.
//
//   CONNECT(method, first) ──► AUTH(0x18, challenge) ──► AUTH(0x18, final) ──► CONNACK(data)
//   AUTH(0x19, first)      ──► AUTH(0x18, challenge) ──► AUTH(0x18, final) ──► AUTH(0x00, data)
//
// Between CONNECT and CONNACK the connection has no session, and hello_timeout runs. What is wrong is answered after
// auth_delay: the packet waits as it came, and is judged when it comes again.
#include <string.h>

#include "auth/attempt.h"
#include "auth/rate.h"
#include "proto/mqtt_session.h"
#include "proto/mqtt_write.h"

static const mqtt_bytes method = {(const u8 *)SCRAM_METHOD, sizeof(SCRAM_METHOD) - 1};

static bool method_is_ours(const mqtt_properties *props) {
    mqtt_bytes given = mqtt_property_bytes(props, MQTT_AUTH_METHOD);
    return given.len == method.len && memcmp(given.data, method.data, given.len) == 0;
}

static int auth_send(conn *c, u32 packet_bytes_max, u8 reason, const void *data, u32 len) {
    u8 room[SCRAM_TEXT_BYTES * 2], out[sizeof(room) + 16];
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    (void)mqtt_property_put_bytes(&list, MQTT_AUTH_METHOD, method);
    (void)mqtt_property_put_bytes(&list, MQTT_AUTH_DATA, (mqtt_bytes){data, len});
    mqtt_goodbye packet = {.reason = reason, .props = mqtt_property_list_end(&list)};
    int bytes = mqtt_write_goodbye(MQTT_5, MQTT_AUTH, &packet, out, sizeof(out));
    ASSERT(bytes > 0);
    if ((u32)bytes > packet_bytes_max) return CLOSE_NOT_SUPPORTED;
    counter_add(&c->owner->metrics.mqtt_packets_out[MQTT_AUTH], 1);
    return conn_send(c, out, (u32)bytes);
}

static u32 packet_max_of(const mqtt_connect *k) {
    return mqtt_property_number(&k->props, MQTT_PACKET_SIZE_MAX, UINT32_MAX);
}

// Says the challenge to a client's first message. NULL, or what is wrong with it.
static const char *challenge(conn *c, auth_exchange *x, mqtt_bytes first) {
    char nonce[SCRAM_NONCE_BYTES];
    auth_nonce(nonce);
    return scram_begin(&x->scram, &mqtt_conf(c)->auth->passwords, first.data, first.len, nonce);
}

static auth_request request_of(const auth_exchange *x, const char *id, u32 id_len) {
    return (auth_request){
        .user = x->scram.user, .user_len = x->scram.user_len, .client = id, .client_len = id_len};
}

static auth_result result_of(const char *why) {
    if (strcmp(why, "wrong_password") == 0) return AUTH_WRONG_PASSWORD;
    return strcmp(why, "unknown_user") == 0 ? AUTH_UNKNOWN_USER : AUTH_SCRAM_REFUSED;
}

// --- CONNECT ---

static bool is_offered(const listener_config *conf) {
    return conf->auth != NULL && conf->auth->has_passwords && conf->auth->passwords.scram_iterations != 0;
}

// What was refused waits, and then is told.
static int connect_wait(conn *c, const mqtt_connect *k, auth_result result, const char *why) {
    auth_request r = {.client = (const char *)k->client_id.data, .client_len = k->client_id.len};
    return auth_fail(c, &r, result, why) ? PROTO_WAITING : mqtt_connect_refuse(c, k, AUTH_BUSY);
}

int mqtt_auth_begin(conn *c, const mqtt_connect *k, const u8 *data, u32 len) {
    auth_identity who;
    if (auth_is_judged(c)) { // one that was refused: its wait is over
        auth_request none = {0};
        (void)auth_judge(c, &none, &who);
        return mqtt_connect_refuse(c, k, who.how);
    }
    if (!method_is_ours(&k->props) || !is_offered(mqtt_conf(c))) {
        auth_count(c->owner, AUTH_METHOD_UNKNOWN);
        return mqtt_connect_refuse(c, k, AUTH_METHOD_UNKNOWN);
    }
    if (auth_is_barred(c)) return connect_wait(c, k, AUTH_RATE, NULL);
    auth_exchange *x = auth_exchange_begin(c);
    if (x == NULL) return mqtt_connect_refuse(c, k, AUTH_BUSY);
    const char *wrong = challenge(c, x, mqtt_property_bytes(&k->props, MQTT_AUTH_DATA));
    if (wrong != NULL) {
        auth_forget(c);
        return connect_wait(c, k, AUTH_SCRAM_REFUSED, wrong);
    }
    x->connect = worker_buf_alloc(c->owner, len, &x->connect_size);
    if (x->connect == NULL) return CLOSE_NO_MEMORY;
    memcpy(x->connect, data, len);
    x->connect_len = len;
    u32 challenge_len;
    const char *text = scram_challenge(&x->scram, &challenge_len);
    return auth_send(c, packet_max_of(k), MQTT_REASON_CONTINUE_AUTHENTICATION, text, challenge_len);
}

// The CONNECT that began the exchange; it was parsed before.
static void connect_again(const conn *c, const auth_exchange *x, mqtt_packet *out) {
    mqtt_codec codec = {.sender = MQTT_FROM_CLIENT, .packet_bytes_max = mqtt_conf(c)->max_packet};
    codec.packet_bytes_max = MAX(codec.packet_bytes_max, x->connect_len);
    mqtt_fault fault = mqtt_parse(&codec, x->connect, x->connect_len, out);
    ASSERT(fault == MQTT_FAULT_NONE);
}

int mqtt_auth_continue(conn *c, const mqtt_packet *packet) {
    auth_exchange *x = auth_exchange_of(c);
    mqtt_packet first;
    connect_again(c, x, &first);
    const mqtt_connect *k = &first.connect;
    auth_identity who;
    if (auth_is_judged(c)) {
        auth_request none = {0};
        (void)auth_judge(c, &none, &who);
        return mqtt_connect_refuse(c, k, who.how);
    }
    if (packet->type == MQTT_DISCONNECT) return CLOSE_PEER;
    const mqtt_goodbye *auth = &packet->goodbye;
    bool fits = packet->type == MQTT_AUTH && auth->reason == MQTT_REASON_CONTINUE_AUTHENTICATION &&
                method_is_ours(&auth->props);
    if (!fits) return CLOSE_PROTOCOL_ERROR; // before CONNACK there is no DISCONNECT (section 3.1.4-4)
    char final[SCRAM_FINAL_BYTES];
    u32 final_len = 0;
    mqtt_bytes last = mqtt_property_bytes(&auth->props, MQTT_AUTH_DATA);
    const char *wrong = scram_finish(&x->scram, last.data, last.len, final, &final_len);
    bool barred = auth_is_barred(c); // since it began
    if (barred) wrong = "too many failures";
    if (wrong != NULL) {
        auth_request r = request_of(x, (const char *)k->client_id.data, k->client_id.len);
        bool waits = auth_fail(c, &r, barred ? AUTH_RATE : result_of(wrong), wrong);
        return waits ? PROTO_WAITING : mqtt_connect_refuse(c, k, AUTH_BUSY);
    }
    who = (auth_identity){.how = AUTH_SCRAM,
                          .user = x->scram.user,
                          .user_len = x->scram.user_len,
                          .fingerprint = x->scram.entry.fingerprint};
    auth_count(c->owner, AUTH_SCRAM);
    return mqtt_connect_finish(c, k, &who, (mqtt_bytes){(const u8 *)final, final_len});
}

// --- again ---

static int fail_again(conn *c, const char *text) {
    return mqtt_conn_fail(c, MQTT_REASON_NOT_AUTHORIZED, CLOSE_AUTH_FAILED, text);
}

static int wait_again(conn *c, const mqtt_session *s, const auth_exchange *x, auth_result result, const char *why) {
    auth_request r = request_of(x, s->id, s->client.id_len);
    return auth_fail(c, &r, result, why) ? PROTO_WAITING : fail_again(c, "try again later");
}

// AUTH 0x19: a client that came with SCRAM begins once more.
static int again_begin(conn *c, const mqtt_session *s, const mqtt_goodbye *packet) {
    if (!is_offered(mqtt_conf(c))) return fail_again(c, "not offered any more");
    auth_exchange *x = auth_exchange_begin(c);
    if (x == NULL) return fail_again(c, "try again later");
    const char *wrong = challenge(c, x, mqtt_property_bytes(&packet->props, MQTT_AUTH_DATA));
    bool other = wrong == NULL && (x->scram.user_len != s->grant->who.user_len ||
                                   memcmp(x->scram.user, s->grant->who.user, x->scram.user_len) != 0);
    if (other) wrong = "scram_other_user";
    if (wrong != NULL) return wait_again(c, s, x, AUTH_SCRAM_REFUSED, wrong);
    u32 len;
    const char *text = scram_challenge(&x->scram, &len);
    return auth_send(c, s->packet_bytes_max, MQTT_REASON_CONTINUE_AUTHENTICATION, text, len);
}

static int again_finish(conn *c, const mqtt_session *s, auth_exchange *x, const mqtt_goodbye *packet) {
    char final[SCRAM_FINAL_BYTES];
    u32 len = 0;
    mqtt_bytes last = mqtt_property_bytes(&packet->props, MQTT_AUTH_DATA);
    const char *wrong = scram_finish(&x->scram, last.data, last.len, final, &len);
    if (wrong != NULL) return wait_again(c, s, x, result_of(wrong), wrong);
    s->grant->who.fingerprint = x->scram.entry.fingerprint;
    auth_forget(c);
    return auth_send(c, s->packet_bytes_max, MQTT_REASON_SUCCESS, final, len);
}

int mqtt_auth_again(conn *c, const mqtt_goodbye *packet) {
    const mqtt_session *s = mqtt_session_of(c);
    auth_exchange *x = auth_exchange_of(c);
    if (s->grant == NULL || s->grant->who.how != AUTH_SCRAM) {
        return mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR, CLOSE_PROTOCOL_ERROR,
                              "AUTH without an authentication method in CONNECT");
    }
    if (auth_is_judged(c)) return fail_again(c, "wrong credentials");
    bool begins = packet->reason == MQTT_REASON_RE_AUTHENTICATE;
    bool goes_on = packet->reason == MQTT_REASON_CONTINUE_AUTHENTICATION && x != NULL;
    if (!method_is_ours(&packet->props) || (!begins && !goes_on)) {
        return mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR, CLOSE_PROTOCOL_ERROR,
                              "AUTH with another method, or out of turn");
    }
    return begins ? again_begin(c, s, packet) : again_finish(c, s, x, packet);
}

// --- grants ---

static void watch_expiry(mqtt_session *s) {
    if (s->grant->who.expires_ns != 0) timer_arm(s->owner->wheel, &s->grant->timer, s->grant->who.expires_ns);
}

static void grant_timer(timer_node *node, void *context) {
    const worker *w = context;
    auth_grant *g = CONTAINER_OF(node, auth_grant, timer);
    mqtt_session *s = g->owner;
    conn *c = s->conn;
    if (g->who.expires_ns != 0 && w->now_ns >= g->who.expires_ns) {
        auth_revoked(c, s->id, s->client.id_len, AUTH_EXPIRED);
        conn_end(c, CLOSE_TOKEN_EXPIRED);
        return;
    }
    watch_expiry(s);
    conn_unblock(c);
}

void mqtt_grant_attach(mqtt_session *s) {
    if (s->grant == NULL) return;
    s->grant->owner = s;
    s->grant->timer.callback = grant_timer;
    rate_attach(s->conn, s->grant);
    watch_expiry(s);
}

void mqtt_grant_detach(mqtt_session *s) {
    if (s->grant == NULL) return;
    timer_cancel(s->owner->wheel, &s->grant->timer);
    rate_detach(s->grant);
}

int mqtt_rate_check(mqtt_session *s, u32 bytes) {
    int result = rate_check(s->conn, s->grant, bytes);
    if (result != CLOSE_MESSAGE_RATE) return result;
    return mqtt_conn_fail(s->conn, MQTT_REASON_MESSAGE_RATE_TOO_HIGH, CLOSE_MESSAGE_RATE, "more than its message rate");
}

void mqtt_rate_charge(mqtt_session *s, u32 bytes) {
    rate_charge(s->conn, s->grant, bytes);
}

// What a client has that was let in when the listener had neither files nor rates.
static auth_result grant_late(mqtt_session *s, const listener_config *conf) {
    auth_identity who = auth_identity_late(s->conn);
    if (who.how == AUTH_ANONYMOUS && !conf->anonymous) return AUTH_REVOKED;
    bool rated = rate_is_limited(conf);
    if (grant_make(mqtt_pool(s), conf->auth, &who, rated, &s->grant) < 0) return AUTH_BUSY;
    mqtt_grant_attach(s);
    return who.how;
}

void mqtt_recheck(conn *c) {
    mqtt_session *s = mqtt_session_of(c);
    if (s == NULL) return;
    const listener_config *conf = mqtt_conf(c);
    auth_result result = s->grant == NULL ? grant_late(s, conf) : grant_renew(s->grant, conf->auth, conf->anonymous);
    if (auth_lets_in(result)) {
        if (s->grant != NULL) rate_attach(c, s->grant);
        return;
    }
    auth_revoked(c, s->id, s->client.id_len, result);
    conn_end(c, CLOSE_AUTH_FAILED);
}
