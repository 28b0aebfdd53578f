// SPDX-License-Identifier: Apache-2.0
// mqtt_session.h: what the files of the MQTT server share: the session of a client, apart from its
// connection, and what the files do for each other. Not for other modules, which see proto_mqtt and
// broker/sessions.h.
//
//   mqtt_conn.c       packets from the connection, faults, goodbye   mqtt_connect.c   CONNECT
//   mqtt_session.c    life of a session                              mqtt_will.c      wills
//   mqtt_receive.c    PUBLISH from the client, PUBREL                mqtt_subscribe.c SUBSCRIBE
//   mqtt_deliver.c    from the broker: send, keep or drop            mqtt_queue.c     what waits
//   mqtt_send.c       one PUBLISH into the output                    mqtt_alias.c     topic aliases
//   mqtt_stream.c     subscriptions on streams
//
// A session lives on the worker that owns its client id. A connection finds it through proto_state,
// and it finds its connection through conn, NULL while the client is away; both are set and cleared
// together. What only a busy client needs (messages on their way, aliases, open QoS 2 exchanges) is
// allocated when used. Inside a delivery nothing is closed or freed: what has to follow from it is
// left to mqtt_session_work, which runs in the same turn of the loop.
#ifndef SLUICE_PROTO_MQTT_SESSION_H
#define SLUICE_PROTO_MQTT_SESSION_H

#include "auth/grant.h"
#include "broker/broker.h"
#include "broker/clients.h"
#include "broker/message.h"
#include "broker/pledge.h"
#include "broker/retained.h"
#include "broker/sessions.h"
#include "net/listener.h"
#include "proto/mqtt_packet.h"
#include "proto/mqtt_property.h"
#include "worker.h"

#define MQTT_EXPIRY_NEVER 0xffffffffu // 5.0 section 3.1.2.11.2

typedef struct mqtt_session mqtt_session;
typedef struct mqtt_entry mqtt_entry;
typedef struct mqtt_outbound mqtt_outbound;
typedef struct mqtt_inbound mqtt_inbound;
typedef struct mqtt_will mqtt_will;
typedef struct mqtt_subscribing mqtt_subscribing;
typedef struct mqtt_greeting mqtt_greeting;
typedef struct mqtt_keep mqtt_keep;       // proto/mqtt_durable.h
typedef struct mqtt_durable mqtt_durable;
typedef struct mqtt_stream_sub mqtt_stream_sub; // proto/mqtt_stream.h

enum { // mqtt_session.flags
    MQTT_NO_PROBLEM_INFO = 1u << 0,  // no reason strings but in CONNACK and DISCONNECT
    MQTT_IN_WORK = 1u << 1,          // in the worker's list of work
    MQTT_WORK_CLOSE = 1u << 2,       // the queue is full and the policy is to disconnect
    MQTT_SHARED_WAITS = 1u << 4,     // one of a shared subscription was refused
    MQTT_QUEUE_FULL = 1u << 5,       // counted as one that refuses messages
    MQTT_RETAINED_WAITS = 1u << 3,   // a retained message was refused for lack of room
    MQTT_BRIDGE = 1u << 6,           // 3.x, another broker: nothing of its own comes back, and RETAIN stays as it was
    MQTT_UNGREETED = 1u << 7,        // its CONNACK waits, or has waited in vain, for the end of the session before it
};

struct mqtt_session {
    client client;             // its id points to id[]
    subscriber subscriber;
    worker *owner;
    conn *conn;                // NULL: away
    mqtt_outbound *out;        // NULL: nothing on its way and nothing queued
    mqtt_inbound *in;          // NULL: no open QoS 2 exchange, no alias
    mqtt_will *will;
    mqtt_keep *keep;           // NULL: nothing of it is in the log
    auth_grant *grant;         // NULL: may do everything
    mqtt_subscribing *subscribing; // SUBSCRIBEs without SUBACK or with retained messages left
    mqtt_stream_sub *streams;  // subscriptions on $stream/
    mqtt_greeting *greeting;   // the CONNACK that waits for the disk; NULL: it was sent
    mqtt_session *work_next;
    timer_node timer;          // the session's end, while away
    u32 expiry_s;              // as granted
    u32 packet_bytes_max;      // what the client takes
    u32 queued_bytes_max, queued_messages_max;
    u16 keep_alive_s;          // as used; 0 = none
    u16 window;                // QoS 1 and 2 messages on their way at once
    u16 alias_max;             // topic aliases towards the client
    u8 version;
    u8 queue_policy;
    u8 flags;
    char id[];
};

// All sessions of a worker.
struct mqtt_sessions {
    worker *owner;
    mqtt_session *work;
    timer_node work_timer;     // due at once when there is work
    mqtt_will *wills;          // to be published: the rings were congested, or a start found them
    timer_node will_timer;
    mqtt_will *wills_owed;     // published, and not on disk yet with all who have to have them, in the line's order
    pledge_line will_line;
    u64 will_number;           // of the last one that a record names
    struct sys_topics *sys;    // first worker only
    mqtt_durable *durable;     // NULL: no log
    const u8 *last_payload;    // of the last delivery, to be compared only
    u64 next_number;
    u32 count;
};

static inline mqtt_session *mqtt_session_of(const conn *c) {
    return c->proto_state;
}
static inline mqtt_sessions *mqtt_sessions_of(const mqtt_session *s) {
    return s->owner->sessions;
}
static inline worker_metrics *mqtt_metrics(const mqtt_session *s) {
    return &s->owner->metrics;
}
static inline broker *mqtt_broker(const mqtt_session *s) {
    return s->owner->broker;
}
static inline pool *mqtt_pool(const mqtt_session *s) {
    return broker_pool(s->owner->broker);
}
static inline const listener_config *mqtt_conf(const conn *c) {
    return listener_settings(c->origin);
}
static inline void mqtt_dropped(const mqtt_session *s, mqtt_drop reason) {
    counter_add(&mqtt_metrics(s)->mqtt_drops[reason], 1);
}
// Whether it has a connection that takes output.
static inline bool mqtt_session_online(const mqtt_session *s) {
    return s->conn != NULL && s->conn->reason == CLOSE_NONE;
}

// --- mqtt_session.c ---

// The session of a client id on this worker; NULL when there is none or the holder is no MQTT client.
mqtt_session *mqtt_session_find(worker *w, const char *id, u32 len);
// The session that a client is; NULL for one that is no MQTT client.
mqtt_session *mqtt_session_of_client(client *c);
// Makes a session and gives it the id; an earlier holder that is no MQTT session is told. NULL: no memory.
// The limit on sessions is checked by mqtt_sessions_has_room.
mqtt_session *mqtt_session_create(worker *w, const char *id, u32 len);
bool mqtt_sessions_has_room(const mqtt_sessions *all);
// Ends it: unsubscribes, publishes its will, forgets its messages and frees it. Its connection must be
// gone or detached.
void mqtt_session_end(mqtt_session *s);
// The same while the log is replayed: nothing is published or written. It has no subscription and no will.
void mqtt_session_forget(mqtt_session *s);
void mqtt_session_attach(mqtt_session *s, conn *c);
// The connection is no longer its client's: c->proto_state becomes NULL. The will is left alone.
void mqtt_session_detach(mqtt_session *s);
// Without a connection: its end comes when nobody has come for it in time.
void mqtt_session_await(mqtt_session *s);
// The same as mqtt_session_detach when the client has gone: publishes the will or waits with it, and ends
// the session or waits for its expiry. s may be freed.
void mqtt_session_leave(mqtt_session *s);
// Another connection has come for it: the old one is told and closed. Its will is published, or dropped
// when the session goes on and the will was to be delayed.
void mqtt_session_hand_over(mqtt_session *s, bool session_goes_on);
// Runs what must not run inside a delivery.
void mqtt_session_work(mqtt_session *s, u8 flags);
// Gives back what a client needs only while it is busy.
void mqtt_session_trim(mqtt_session *s);

// --- mqtt_conn.c ---

// Queues a DISCONNECT (5.0; else nothing), with the text as reason string when not NULL.
void mqtt_disconnect_send(const mqtt_session *s, conn *c, u8 reason, const char *text);
// The gateway ends the connection: DISCONNECT, the session leaves. Returns the close reason, to be
// returned from the protocol function.
int mqtt_conn_fail(conn *c, u8 reason, close_reason close, const char *text);
int mqtt_conn_fault(conn *c, mqtt_fault fault);
// Queues an acknowledgement. Returns as conn_send.
int mqtt_ack_send(const mqtt_session *s, mqtt_type type, u16 packet_id, u8 reason);

// --- mqtt_connect.c --- A CONNECT as it came (len bytes at data) and what the parser found.
int mqtt_connect_take(conn *c, const u8 *data, u32 len);
// The end of an exchange: the client of a CONNECT is let in as who, with authentication data for the CONNACK; or it is
// refused. Return as proto.packet.
int mqtt_connect_finish(conn *c, const mqtt_connect *k, const auth_identity *who, mqtt_bytes auth_data);
int mqtt_connect_refuse(conn *c, const mqtt_connect *k, auth_result result);
// The connection is gone: a CONNACK that waits is not sent any more.
void mqtt_connect_detach(mqtt_session *s);

// --- mqtt_auth.c --- Enhanced authentication (5.0 section 4.12), and what a client may do.

// A CONNECT with an authentication method. Returns as proto.packet.
int mqtt_auth_begin(conn *c, const mqtt_connect *k, const u8 *data, u32 len);
// A packet of a client whose exchange is under way and that has no session yet.
int mqtt_auth_continue(conn *c, const mqtt_packet *packet);
// An AUTH packet of a client that is connected.
int mqtt_auth_again(conn *c, const mqtt_goodbye *packet);
// The session has its connection and its grant: its token's end is watched.
void mqtt_grant_attach(mqtt_session *s);
void mqtt_grant_detach(mqtt_session *s);
// proto.recheck.
void mqtt_recheck(conn *c);
// Whether the client may write a topic, or read it.
static inline bool mqtt_may(const mqtt_session *s, u8 access, const char *topic, u32 len) {
    return LIKELY(s->grant == NULL) || grant_allows(s->grant, s->id, s->client.id_len, access, topic, len);
}
// Whether a message of so many bytes is within the client's rates. 0, or what packet() returns.
int mqtt_rate_check(mqtt_session *s, u32 bytes);
void mqtt_rate_charge(mqtt_session *s, u32 bytes);

// --- mqtt_will.c ---

// Keeps the will of a CONNECT. NULL: no memory.
mqtt_will *mqtt_will_create(mqtt_session *s, const mqtt_connect *connect);
u32 mqtt_will_delay_s(const mqtt_will *will);
void mqtt_will_free(mqtt_session *s);
// As a record has it; what *out points to is the will's.
struct mqtt_will_record;
void mqtt_will_view(const mqtt_will *will, struct mqtt_will_record *out);
mqtt_will *mqtt_will_restore(mqtt_session *s, const struct mqtt_will_record *r); // NULL: no memory
// Publishes it now, or as soon as the rings have room; it is no longer the session's.
void mqtt_will_publish(mqtt_session *s);
// Publishes it after so long unless it is freed first.
void mqtt_will_wait(mqtt_session *s, u32 seconds);

// --- mqtt_receive.c --- Each returns as proto.packet.
int mqtt_receive_publish(conn *c, const mqtt_publish *publish);
int mqtt_receive_pubrel(conn *c, const mqtt_ack *ack);
void mqtt_inbound_free(mqtt_session *s);
void mqtt_inbound_detach(mqtt_session *s); // forgets what belongs to the connection
u32 mqtt_inbound_open(const mqtt_session *s);
bool mqtt_inbound_is_late(const mqtt_session *s, u16 id); // the log is not to know of it yet
bool mqtt_inbound_put(mqtt_session *s, u16 id);  // an open exchange; false: no memory
void mqtt_inbound_take(mqtt_session *s, u16 id); // it is complete; harmless when it is not open
// Whether a packet has to wait until acknowledgements that are owed have been sent.
bool mqtt_receive_waits(const mqtt_session *s);
// The properties of a PUBLISH or will that are passed on. Uses room of PROPS_ROOM bytes at most; else *big
// is allocated and to be freed with worker_buf_free. False: no memory.
#define MQTT_PROPS_ROOM 512u
typedef struct mqtt_forward {
    mqtt_properties props;
    u8 *big;
    u32 big_size;
    u8 room[MQTT_PROPS_ROOM];
} mqtt_forward;
bool mqtt_forward_make(worker *w, const mqtt_properties *in, mqtt_forward *out);
void mqtt_forward_free(worker *w, mqtt_forward *f);

// --- mqtt_subscribe.c ---
int mqtt_receive_subscribe(conn *c, const mqtt_subscribe *subscribe);
int mqtt_receive_unsubscribe(conn *c, const mqtt_subscribe *unsubscribe);
// Whether packets have to wait for a SUBACK.
bool mqtt_subscribe_waits(const mqtt_session *s);
// The connection is gone: SUBACKs that are owed are not sent any more; retained messages wait.
void mqtt_subscribe_detach(mqtt_session *s);
void mqtt_subscribe_free(mqtt_session *s);
// There is room again: go on with retained messages.
void mqtt_subscribe_more(mqtt_session *s);

// --- mqtt_deliver.c, mqtt_queue.c ---

extern const subscriber_ops mqtt_subscriber_ops;
// Made when it is needed first. NULL: no memory.
mqtt_outbound *mqtt_outbound_of(mqtt_session *s);
// Keeps a message for later: an entry behind the others. d->publication is copied at most once per worker.
delivery_result mqtt_queue_put(mqtt_session *s, delivery *d);
// An entry for a message that is sent at once and has packet identifier *id from now on. keep: it may have
// to be sent again. NULL: no memory.
mqtt_entry *mqtt_flight_begin(mqtt_session *s, delivery *d, bool keep);
// It is done with: acknowledged, refused or never sent.
void mqtt_flight_end(mqtt_session *s, mqtt_entry *e);
// The same for one that was never sent: its identifier is free.
void mqtt_flight_cancel(mqtt_session *s, mqtt_entry *e);
// An entry goes in flight with an identifier of its own, or with that one. False: no memory.
bool mqtt_flight_add(mqtt_session *s, mqtt_entry *e);
bool mqtt_flight_put(mqtt_session *s, mqtt_entry *e, u16 id);
mqtt_entry *mqtt_entry_make(mqtt_session *s, delivery *d, bool keep);
mqtt_entry *mqtt_entry_blank(mqtt_session *s, u8 qos, bool retain);
void mqtt_entry_free(mqtt_session *s, mqtt_entry *e);
mqtt_entry *mqtt_entry_of_id(const mqtt_session *s, u16 id);
// Sends its message; returns as mqtt_publish_send.
int mqtt_entry_send(mqtt_session *s, const mqtt_entry *e);
void mqtt_count_unsent(mqtt_session *s, int result);
// From the publication at hand.
struct mqtt_outgoing;
int mqtt_send_now(mqtt_session *s, delivery *d, const struct mqtt_outgoing *out);
void mqtt_queue_0_drop_oldest(mqtt_session *s);
// What waits, its limit or its policy has changed: whether messages are refused because of it (QUEUE_REJECT).
void mqtt_queue_watch(mqtt_session *s);
// Whether what has no room goes into the queue in spite of that: it was let through (broker/admit.c).
bool mqtt_queue_must_take(const mqtt_session *s, const delivery *d);
struct mqtt_entries;
void mqtt_list_append(struct mqtt_entries *list, mqtt_entry *e);
void mqtt_list_remove(struct mqtt_entries *list, mqtt_entry *e);
// Whether one more QoS 1 or 2 message may be sent now.
bool mqtt_window_is_open(const mqtt_session *s);
// Sends what waits, as far as output and window allow.
void mqtt_queue_pump(mqtt_session *s);
// Acknowledgements of the client. Each returns as proto.packet.
int mqtt_receive_ack(conn *c, mqtt_type type, const mqtt_ack *ack);
// A new connection: what was sent is to be sent again.
void mqtt_queue_resume(mqtt_session *s);
void mqtt_queue_detach(mqtt_session *s);
void mqtt_queue_free(mqtt_session *s);
void mqtt_queue_trim(mqtt_session *s);

// --- mqtt_send.c ---

typedef struct mqtt_outgoing {
    const char *topic;
    const u8 *props, *payload;
    const u32 *ids;          // subscription identifiers
    u64 expires_ns;
    u32 topic_len, props_len, payload_len, id_count;
    u16 packet_id;
    u8 qos;
    bool retain, dup;
} mqtt_outgoing;
// What mqtt_publish_send returns besides 0 and a close_reason (no room, no memory); DENIED: by the client's rights.
enum { MQTT_SEND_EXPIRED = -1, MQTT_SEND_TOO_LARGE = -2, MQTT_SEND_DENIED = -3 };
// Queues a PUBLISH for an online session. m: the stored message, NULL when there is none.
int mqtt_publish_send(mqtt_session *s, const mqtt_outgoing *out, message *m);

// --- mqtt_alias.c --- The alias of a topic towards the client; 0 = none. *known: the client has it.
typedef struct mqtt_alias_table mqtt_alias_table;
u16 mqtt_alias_find(mqtt_session *s, const char *topic, u32 len, bool *known);
// The packet that tells the client of it was queued.
void mqtt_alias_told(mqtt_session *s, u16 alias, const char *topic, u32 len);
void mqtt_alias_free(mqtt_session *s);

// --- entries and tables ---

typedef enum mqtt_entry_state {
    MQTT_ENTRY_QUEUED,   // not sent yet
    MQTT_ENTRY_SENT,     // PUBLISH sent, PUBACK or PUBREC awaited
    MQTT_ENTRY_RELEASED, // PUBREL sent or owed, PUBCOMP awaited
} mqtt_entry_state;

struct mqtt_entry {
    mqtt_entry *next, *prev;
    message *message;      // NULL: not kept (it will not be sent again)
    u32 share;             // delivery.share
    u32 id_count;
    u16 packet_id;
    u8 qos;
    u8 state;              // mqtt_entry_state
    bool retain;
    bool resend;           // has to be sent again on this connection
    bool sent_before;      // with DUP from now on
    bool released;         // PUBREL sent on this connection
    u32 part;              // of its record in the log, to be given back
    u64 origin;            // of that record; 0 = none
    u64 hold_pos;          // not sent before the log is on disk up to here; 0 = now, MQTT_HOLD_FLUSH = not written yet
    bool stream;           // of a $stream subscription, which is to be told of its end
    u32 ids[];
};

typedef struct mqtt_entries {
    mqtt_entry *head, *tail;
    u32 count;
} mqtt_entries;

struct mqtt_outbound {
    mqtt_entries in_flight; // QoS 1 and 2, in the order they were sent first
    mqtt_entries queue;     // QoS 1 and 2
    mqtt_entries queue_0;   // QoS 0
    mqtt_alias_table *aliases; // of the connection
    mqtt_entry **slots;     // by packet id & (slot_count - 1)
    u32 slot_count;         // power of two, 0 = none
    u32 resend_count;       // of in_flight
    u64 queued_bytes;
    u16 last_id;
};

typedef struct mqtt_in_alias {
    char *topic; // NULL = not set
    u32 len;
} mqtt_in_alias;

struct mqtt_inbound {
    pledge_line owed;      // acknowledgements that wait for the disk
    mqtt_session *session;
    u16 *ids;              // open QoS 2 exchanges, sorted
    u32 id_count, id_size;
    mqtt_in_alias *aliases; // of the connection
    u32 alias_count;
};

#endif
