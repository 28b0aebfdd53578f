// SPDX-License-Identifier: Apache-2.0
// frame_publish.c: publish mode: a framed device as a client of the broker. Its first frame says
// who it is, later frames are published on its up topic, and what is published on its down topic is
// sent to it.
//
// A device's session is made on the worker that owns its id, and only there: on any other worker
// the connection moves first, and the same hello is read again by the owner. The session then lives
// until its connection ends or another connection with the same id takes over.
//
// Everything that can happen is in one table, state by event. HELLO is a connection without a
// session; in WAITING the subscription is not yet in force on all workers, so the hello is not
// acknowledged and frames wait; ENDED has lost its id and waits for its connection to close.
#include <errno.h>
#include <string.h>

#include "auth/attempt.h"
#include "auth/rate.h"
#include "broker/clients.h"
#include "broker/message.h"
#include "broker/pledge.h"
#include "broker/topic.h"
#include "net/listener.h"
#include "proto/frame.h"
#include "worker.h"

typedef enum session_state {
    STATE_HELLO,
    STATE_WAITING,
    STATE_OPEN,
    STATE_ENDED,
    STATES
} session_state;
typedef enum session_event {
    EVENT_FRAME,
    EVENT_HEARTBEAT,
    EVENT_IN_FORCE,   // subscription known to all workers
    EVENT_REFUSED,    // a worker had no memory for it
    EVENT_TAKEN_OVER, // another connection has the id
    EVENTS
} session_event;

typedef struct frame_session {
    client client; // its id points into text
    subscriber subscriber;
    conn *conn;
    broker *broker;
    pledge_line owed; // acknowledgements that wait for the disk
    u64 frames_taken; // number of the last frame that was acknowledged
    auth_grant *grant; // NULL: may do everything
    u32 up_len, down_len;
    u8 state;         // session_state; set by session_handle only
    char text[];      // id, up topic, down filter
} frame_session;

// What an action returns besides 0, a close_reason, PROTO_BLOCKED and PROTO_WAITING.
enum {
    ACTION_MOVED = -2,    // the connection belongs to another worker now: touch nothing
    ACTION_IN_FORCE = -3, // done, and EVENT_IN_FORCE follows at once
};

static int session_handle(conn *c, session_event event, u8 *data, u32 len);
static void owed_settled(pledge_line *line);
static void grant_attach(frame_session *s);

// --- session ---

static const char *session_up_topic(const frame_session *s) {
    return s->text + s->client.id_len;
}

static const char *session_down_filter(const frame_session *s) {
    return session_up_topic(s) + s->up_len;
}

static size_t session_bytes(const frame_session *s) {
    return sizeof(*s) + s->client.id_len + s->up_len + s->down_len;
}

// Copies the template with each %i replaced by the id. out NULL: only counts. Returns the length.
static u32 template_expand(const char *template, const frame_hello *hello, char *out) {
    u32 len = 0;
    for (const char *at = template; *at != 0;) {
        bool is_id = at[0] == '%' && at[1] == 'i';
        u32 bytes = is_id ? hello->id_len : 1;
        if (out != NULL) memcpy(out + len, is_id ? hello->id : at, bytes);
        len += bytes;
        at += is_id ? 2 : 1;
    }
    return len;
}

// Gives up what others can find the session by. May be called again.
static void session_detach(frame_session *s) {
    client_release(s->broker, &s->client);
    broker_unsubscribe_all(s->broker, &s->subscriber);
}

static void session_taken_over(client *other) {
    frame_session *s = CONTAINER_OF(other, frame_session, client);
    (void)session_handle(s->conn, EVENT_TAKEN_OVER, NULL, 0);
    conn_close(s->conn, CLOSE_TAKEN_OVER);
}

// A device may not reach topics that begin with '$', the broker's own, by an id that begins with
// it.
static bool session_topics_are_valid(const frame_session *s) {
    const char *up = session_up_topic(s), *down = session_down_filter(s);
    return topic_name_is_valid(up, s->up_len) && topic_filter_is_valid(down, s->down_len) &&
           up[0] != '$' && down[0] != '$';
}

// Returns 0, or why not: CLOSE_NO_MEMORY; CLOSE_BAD_HELLO when the id makes no valid topics.
static int session_create(conn *c, const frame_hello *hello, const auth_identity *who, frame_session **out) {
    const listener_config *conf = listener_settings(c->origin);
    broker *b = c->owner->broker;
    u32 up_len = template_expand(conf->up_topic, hello, NULL);
    u32 down_len = template_expand(conf->down_topic, hello, NULL);
    frame_session *s = pool_alloc(broker_pool(b), sizeof(*s) + hello->id_len + up_len + down_len);
    if (s == NULL) return CLOSE_NO_MEMORY;
    *s = (frame_session){.conn = c, .broker = b, .up_len = up_len, .down_len = down_len};
    s->owed.settled = owed_settled;
    s->client = (client){.id = s->text, .id_len = hello->id_len, .taken_over = session_taken_over};
    memcpy(s->text, hello->id, hello->id_len);
    template_expand(conf->up_topic, hello, s->text + hello->id_len);
    template_expand(conf->down_topic, hello, s->text + hello->id_len + up_len);
    if (!session_topics_are_valid(s)) {
        pool_free(broker_pool(b), s, session_bytes(s));
        return CLOSE_BAD_HELLO;
    }
    bool rated = rate_is_limited(conf);
    if (grant_make(broker_pool(b), conf->auth, who, rated, &s->grant) < 0) {
        pool_free(broker_pool(b), s, session_bytes(s));
        return CLOSE_NO_MEMORY;
    }
    grant_attach(s);
    *out = s;
    return 0;
}

static void session_free(frame_session *s) {
    session_detach(s);
    pledge_line_abandon(&s->owed);
    if (s->grant != NULL) timer_cancel(s->conn->owner->wheel, &s->grant->timer);
    grant_free(broker_pool(s->broker), s->grant);
    pool_free(broker_pool(s->broker), s, session_bytes(s));
}

// --- rights ---

static void grant_watch_expiry(frame_session *s) {
    auth_grant *g = s->grant;
    if (g->who.expires_ns != 0) timer_arm(s->conn->owner->wheel, &g->timer, g->who.expires_ns);
}

// Its token has expired, or its rates allow the frame that waits.
static void grant_timer(timer_node *node, void *context) {
    const worker *w = context;
    auth_grant *g = CONTAINER_OF(node, auth_grant, timer);
    frame_session *s = g->owner;
    if (g->who.expires_ns != 0 && w->now_ns >= g->who.expires_ns) {
        auth_revoked(s->conn, s->client.id, s->client.id_len, AUTH_EXPIRED);
        conn_close_after_flush(s->conn, CLOSE_TOKEN_EXPIRED);
        return;
    }
    grant_watch_expiry(s);
    conn_unblock(s->conn);
}

static void grant_attach(frame_session *s) {
    if (s->grant == NULL) return;
    s->grant->owner = s;
    s->grant->timer.callback = grant_timer;
    rate_attach(s->conn, s->grant);
    grant_watch_expiry(s);
}

static bool may(frame_session *s, u8 access, const char *topic, u32 len) {
    return LIKELY(s->grant == NULL) || grant_allows(s->grant, s->client.id, s->client.id_len, access, topic, len);
}

// Whether a frame may be published now: 0, PROTO_WAITING or a close_reason: a device can not be told in words.
static int publish_check(frame_session *s, u32 bytes) {
    conn *c = s->conn;
    worker *w = c->owner;
    if (!may(s, ACL_WRITE, session_up_topic(s), s->up_len)) {
        counter_add(&w->metrics.publish_denied, 1);
        return CLOSE_AUTH_FAILED;
    }
    return rate_check(c, s->grant, bytes);
}

// --- from the broker ---

static int session_send(conn *c, delivery *d) {
    const publication *p = d->publication;
    u8 head[FRAME_HEADER_BYTES];
    frame_length_write(head, p->payload_len);
    message *m = p->payload_len < LIMIT_OUT_SHARED_MIN_BYTES ? NULL : delivery_message(d);
    if (m == NULL) return conn_send_parts(c, head, sizeof(head), p->payload, p->payload_len);
    int result = conn_send_shared(c, head, sizeof(head), message_payload(m), p->payload_len,
                                  message_release, m);
    if (result != 0) message_unref(m);
    return result;
}

// Queues a message as a frame. Refused (and counted by the broker) when the device does not keep
// up, when the frame would be over its max_frame, when it would be empty (that is a heartbeat), and
// when the connection only finishes its output: it would never be done.
static delivery_result session_deliver(subscriber *who, delivery *d) {
    conn *c = CONTAINER_OF(who, frame_session, subscriber)->conn;
    u32 len = d->publication->payload_len;
    if (len == 0 || len > listener_settings(c->origin)->max_frame) return DELIVERY_DROPPED;
    if (c->reason != CLOSE_NONE) return DELIVERY_DROPPED;
    frame_session *s = CONTAINER_OF(who, frame_session, subscriber);
    if (!may(s, ACL_READ, d->publication->topic, d->publication->topic_len)) {
        counter_add(&c->owner->metrics.read_denied, 1);
        return DELIVERY_DROPPED;
    }
    if (conn_send_room(c) < FRAME_HEADER_BYTES + len) return DELIVERY_DROPPED;
    return session_send(c, d) == 0 ? DELIVERY_TAKEN : DELIVERY_DROPPED;
}

static const char *session_name(const subscriber *who, u32 *len) {
    const frame_session *s = CONTAINER_OF((uintptr_t)who, frame_session, subscriber);
    *len = s->client.id_len;
    return s->client.id;
}

static const subscriber_ops session_ops = {.deliver = session_deliver, .name = session_name};

static void session_subscribed(void *session, int result) {
    conn *c = ((frame_session *)session)->conn;
    int reason = session_handle(c, result == 0 ? EVENT_IN_FORCE : EVENT_REFUSED, NULL, 0);
    if (reason > 0) {
        conn_close(c, (close_reason)reason);
    } else {
        conn_answered(c);
    }
}

// --- actions ---

// Who is it? 0 when it is let in.
static int identity_check(conn *c, const frame_hello *hello, auth_identity *who) {
    auth_request r = {
        .user = hello->id,
        .user_len = hello->id_len,
        .user_is_id = true,
        .secret = hello->token_len > 0 ? hello->token : NULL,
        .secret_len = hello->token_len,
        .client = hello->id,
        .client_len = hello->id_len,
    };
    if (auth_judge(c, &r, who) == AUTH_WAITS) return PROTO_WAITING;
    if (!auth_lets_in(who->how)) return CLOSE_AUTH_FAILED;
    const listener_config *conf = listener_settings(c->origin);
    auth_result now = grant_verdict(who, conf->auth, conf->anonymous);
    if (auth_lets_in(now)) return 0;
    auth_revoked(c, hello->id, hello->id_len, now);
    return CLOSE_AUTH_FAILED;
}

static int act_hello(conn *c, u8 *data, u32 len) {
    frame_hello hello;
    if (frame_hello_parse(data + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, &hello) < 0) {
        return CLOSE_BAD_HELLO;
    }
    u32 owner = worker_of_client(c->owner->gw, hello.id, hello.id_len);
    if (owner != c->owner->index) {
        conn_move(c, owner);
        return ACTION_MOVED;
    }
    auth_identity who;
    int result = identity_check(c, &hello, &who);
    if (result != 0) return result;
    frame_session *s = NULL;
    result = session_create(c, &hello, &who, &s);
    auth_forget(c);
    if (result != 0) return result;
    // Before the earlier holder of the id unsubscribes: what the other workers know stays as it is.
    subscription_options options = {.qos = 2};
    s->subscriber = (subscriber){.ops = &session_ops, .number = broker_subscriber_number(s->broker)};
    result = broker_subscribe(s->broker, &s->subscriber, NULL, 0, session_down_filter(s),
                              s->down_len, &options, session_subscribed, s, NULL);
    if (result < 0) {
        session_free(s);
        return CLOSE_NO_MEMORY;
    }
    client_claim(s->broker, &s->client);
    c->proto_state = s;
    return result == BROKER_PENDING ? 0 : ACTION_IN_FORCE;
}

static int act_heartbeat(conn *c, u8 *data, u32 len) {
    (void)len;
    return frame_answer_heartbeat(c, data);
}

static int act_block(conn *c, u8 *data, u32 len) {
    (void)c, (void)data, (void)len;
    return PROTO_WAITING; // until session_subscribed
}

static int act_open(conn *c, u8 *data, u32 len) {
    (void)data, (void)len;
    return frame_send_ack(c, 0);
}

// Sends the acknowledgements that are due, in order. A frame that could not be written is not acknowledged, and the
// device is cut off: it sends again what it has no acknowledgement for.
static void owed_settled(pledge_line *line) {
    frame_session *s = CONTAINER_OF(line, frame_session, owed);
    conn *c = s->conn;
    u32 word;
    int failure;
    while (c->reason == CLOSE_NONE && pledge_line_take(line, &word, &failure)) {
        int reason = failure < 0 ? CLOSE_LOG : frame_send_ack(c, ++s->frames_taken);
        if (reason == CLOSE_NO_MEMORY || reason == CLOSE_SLOW_CONSUMER) conn_close(c, (close_reason)reason);
        else if (reason > 0) conn_close_after_flush(c, (close_reason)reason);
    }
    if (c->reason == CLOSE_NONE) conn_answered(c);
}

static int act_publish(conn *c, u8 *data, u32 len) {
    frame_session *s = c->proto_state;
    u32 bytes = len - FRAME_HEADER_BYTES;
    int wait = UNLIKELY(s->grant != NULL) ? publish_check(s, bytes) : 0;
    if (wait != 0) return wait;
    if (s->owed.count >= LIMIT_OWED_MAX) return PROTO_WAITING;
    pledge *owed = NULL;
    publication p = {.topic = session_up_topic(s), .topic_len = s->up_len,
                     .payload = data + FRAME_HEADER_BYTES, .payload_len = len - FRAME_HEADER_BYTES,
                     .publisher = s->subscriber.number, .qos = 1, .refusable = true};
    int result = broker_publish_owed(s->broker, &p, NULL, &owed);
    if (result == -EAGAIN) return PROTO_BLOCKED;
    if (result == -ENOMEM || result == -EMSGSIZE) return CLOSE_NO_MEMORY;
    if (result == -EDQUOT || result == -EIO) return CLOSE_LOG;
    if (result == -EXFULL) return CLOSE_STREAM_FULL;
    if (result == -ENOBUFS) return CLOSE_REJECTED;
    ASSERT(result == 0);                           // the topic was checked with the hello
    if (c->proto_state == NULL) {                  // delivery to itself ended the connection
        if (owed != NULL) pledge_forget(owed);
        return c->reason;
    }
    if (UNLIKELY(s->grant != NULL)) rate_charge(c, s->grant, bytes);
    if (owed == NULL && s->owed.count > 0 && (owed = pledge_create(s->broker)) == NULL) return CLOSE_NO_MEMORY;
    if (owed != NULL) {
        pledge_line_add(&s->owed, owed, 0);
        return 0;
    }
    return frame_send_ack(c, ++s->frames_taken);
}

static int act_refuse(conn *c, u8 *data, u32 len) {
    (void)c, (void)data, (void)len;
    return CLOSE_NO_MEMORY;
}

static int act_detach(conn *c, u8 *data, u32 len) {
    (void)data, (void)len;
    session_detach(c->proto_state);
    return 0;
}

static int act_ignore(conn *c, u8 *data, u32 len) {
    (void)c, (void)data, (void)len;
    return 0;
}

// --- the table ---

typedef struct transition {
    int (*action)(conn *c, u8 *data, u32 len); // NULL: can not happen
    session_state next;                        // when the action is done
} transition;

static const transition transitions[STATES][EVENTS] = {
    [STATE_HELLO] = {
        [EVENT_FRAME]      = {act_hello,     STATE_WAITING},
        [EVENT_HEARTBEAT]  = {act_heartbeat, STATE_HELLO},
    },
    [STATE_WAITING] = {
        [EVENT_FRAME]      = {act_block,     STATE_WAITING},
        [EVENT_HEARTBEAT]  = {act_heartbeat, STATE_WAITING},
        [EVENT_IN_FORCE]   = {act_open,      STATE_OPEN},
        [EVENT_REFUSED]    = {act_refuse,    STATE_WAITING},
        [EVENT_TAKEN_OVER] = {act_detach,    STATE_ENDED},
    },
    [STATE_OPEN] = {
        [EVENT_FRAME]      = {act_publish,   STATE_OPEN},
        [EVENT_HEARTBEAT]  = {act_heartbeat, STATE_OPEN},
        [EVENT_TAKEN_OVER] = {act_detach,    STATE_ENDED},
    },
    [STATE_ENDED] = {
        [EVENT_FRAME]      = {act_ignore,    STATE_ENDED},
        [EVENT_HEARTBEAT]  = {act_ignore,    STATE_ENDED},
    },
};

static int session_handle(conn *c, session_event event, u8 *data, u32 len) {
    const frame_session *s = c->proto_state;
    const transition *t = &transitions[s == NULL ? STATE_HELLO : s->state][event];
    ASSERT(t->action != NULL);
    int result = t->action(c, data, len);
    if (result == ACTION_MOVED) return 0;
    if (result != 0 && result != ACTION_IN_FORCE) return result;
    if (c->proto_state != NULL) ((frame_session *)c->proto_state)->state = (u8)t->next;
    return result == ACTION_IN_FORCE ? session_handle(c, EVENT_IN_FORCE, NULL, 0) : 0;
}

// --- from the connection ---

// Until it has said who it is a peer gets no more memory than a hello needs.
static int publish_packet_size(conn *c, const u8 *head, u32 len, u32 *packet_bytes) {
    int result = frame_packet_size(c, head, len, packet_bytes);
    if (result != 0 || c->proto_state != NULL) return result;
    return *packet_bytes > FRAME_HEADER_BYTES + LIMIT_HELLO_BYTES ? CLOSE_BAD_HELLO : 0;
}

static int publish_packet(conn *c, u8 *data, u32 len) {
    return session_handle(c, len == FRAME_HEADER_BYTES ? EVENT_HEARTBEAT : EVENT_FRAME, data, len);
}

// A device may say all it has to say and shut its side: it still listens for its acknowledgements.
static bool publish_owes(const conn *c) {
    const frame_session *s = c->proto_state;
    return s != NULL && (s->state == STATE_WAITING || s->owed.count > 0);
}

static void publish_closed(conn *c) {
    auth_forget(c);
    if (c->proto_state == NULL) return;
    session_free(c->proto_state);
    c->proto_state = NULL;
}

// After a reload. A device that was let in when the listener had neither files nor rates has no grant yet.
static void publish_recheck(conn *c) {
    frame_session *s = c->proto_state;
    if (s == NULL || s->state == STATE_ENDED) return;
    const listener_config *conf = listener_settings(c->origin);
    auth_identity who = auth_identity_late(c);
    auth_result result = who.how;
    if (s->grant != NULL) {
        result = grant_renew(s->grant, conf->auth, conf->anonymous);
    } else if (who.how == AUTH_ANONYMOUS && !conf->anonymous) {
        result = AUTH_REVOKED;
    } else {
        bool rated = rate_is_limited(conf);
        if (grant_make(broker_pool(s->broker), conf->auth, &who, rated, &s->grant) < 0) result = AUTH_BUSY;
        grant_attach(s);
    }
    if (auth_lets_in(result)) {
        if (s->grant != NULL) rate_attach(c, s->grant);
        return;
    }
    auth_revoked(c, s->client.id, s->client.id_len, result);
    conn_close_after_flush(c, CLOSE_AUTH_FAILED);
}

static const char *publish_client_id(const conn *c, u32 *len) {
    const frame_session *s = c->proto_state;
    if (s == NULL) return NULL;
    *len = s->client.id_len;
    return s->client.id;
}

const proto proto_frame_publish = {
    .name = "frame-publish",
    .packet_size = publish_packet_size,
    .packet = publish_packet,
    .owner_by_id = true,
    .owes = publish_owes,
    .closed = publish_closed,
    .recheck = publish_recheck,
    .client_id = publish_client_id,
};
