// SPDX-License-Identifier: Apache-2.0
// mqtt_record.h: the records of durable sessions in the log (store kind STORE_SESSION). Pure: bytes in, bytes
// out; the parsers take nothing for granted. Integers are big-endian. The first byte is the type:
//
//   SNAPSHOT  u64 session, u32 bytes of the whole, u32 place of this part, then the part. The whole replaces all that
//             was known of the session; it counts when its last part has come.
//   CHANGES   changes of any sessions, one after the other, in the order in which they happened
//   BLOCK     u64 session, u32 number of references, each u64 origin, u32 bytes, u32 part (proto/mqtt_backlog.h); kept
//
// A session's number is the place hash of its client id (base/siphash.h): so every record says which worker it
// belongs to, also to a process with another number of workers.
#ifndef SLUICE_PROTO_MQTT_RECORD_H
#define SLUICE_PROTO_MQTT_RECORD_H

#include "base/cursor.h"
#include "proto/mqtt_backlog.h"

typedef enum mqtt_record_type {
    MQTT_RECORD_SNAPSHOT = 1,
    MQTT_RECORD_CHANGES = 2,
    MQTT_RECORD_BLOCK = 3,
} mqtt_record_type;

typedef enum mqtt_change_kind {
    MQTT_CHANGE_GONE = 1,      // the session has ended
    MQTT_CHANGE_SENT,          // the oldest that waits is in flight now: origin, id, qos
    MQTT_CHANGE_DROPPED,       // the oldest `number` that wait are not delivered
    MQTT_CHANGE_RELEASED,      // id: PUBREC has come
    MQTT_CHANGE_DONE,          // id: acknowledged, or given up
    MQTT_CHANGE_RECEIVED,      // id: a QoS 2 exchange of the client's is open
    MQTT_CHANGE_COMPLETED,     // id: PUBREL has come
    MQTT_CHANGE_LEFT,          // the client has gone at time_ms; number: session expiry in s; flag: its will is kept
    MQTT_CHANGE_SUBSCRIBED,    // filter, share, subscription
    MQTT_CHANGE_UNSUBSCRIBED,  // filter, share
    MQTT_CHANGE_CONFIRMED,     // origin: other workers have this exchange's message; session is not used
    MQTT_CHANGE_SOURCE,        // origin: met of worker `number`'s log; session is not used
    MQTT_CHANGE_EXCHANGE,      // origin, number (bytes), time_ms (targets): not confirmed yet
    MQTT_CHANGE_WILL_DUE,      // origin (its number), time_ms, will: of the session, being published since then
    MQTT_CHANGE_WILL_DONE,     // origin: who has to have that will has it, or it was given up
    MQTT_CHANGE_CLOCK,         // origin: pos, id: worker + 1, time_ms: until_ms, number: step in s, flag: it was back
                               // (broker/clock_steps.h); session is not used
    MQTT_CHANGE_KEPT,          // as SOURCE, of messages whose retained message is kept here
    MQTT_CHANGE_KINDS
} mqtt_change_kind;

typedef struct mqtt_subscription_record {
    const char *share, *filter; // share NULL: not shared
    u32 share_len, filter_len;
    u32 id;
    u8 qos, retain_handling;
    bool no_local, retain_as_published;
} mqtt_subscription_record;

typedef struct mqtt_will_record {
    const u8 *bytes; // topic, properties, payload
    u64 props_present;
    u32 topic_len, props_len, payload_len;
    u32 delay_s, expiry_s;
    u8 qos;
    bool retain;
} mqtt_will_record;

typedef struct mqtt_change {
    u64 session, origin, time_ms;
    u32 number, part;
    u16 id;
    u8 kind, qos;
    bool flag;
    mqtt_subscription_record subscription;
    mqtt_will_record will;
} mqtt_change;

u32 mqtt_change_bytes(const mqtt_change *c);
u8 *mqtt_change_write(u8 *to, const mqtt_change *c);
// Reads the next one; what it points to lies in the cursor's memory. 1, 0 = at the end, -1 = malformed.
int mqtt_change_next(cursor *at, mqtt_change *out);

typedef struct mqtt_snapshot_part {
    u64 session;
    u32 bytes, at;   // of the whole
    const u8 *data;
    u32 len;
} mqtt_snapshot_part;
#define MQTT_SNAPSHOT_HEAD_BYTES 17u
void mqtt_snapshot_head(u8 *to, u64 session, u32 bytes, u32 at);
bool mqtt_snapshot_parse(cursor *at, mqtt_snapshot_part *out); // behind the type byte

#define MQTT_BLOCK_BYTES (13u + BACKLOG_CHUNK * 16u)
void mqtt_block_write(u8 *to, u64 session, const backlog_ref *refs); // BACKLOG_CHUNK of them
bool mqtt_block_parse(cursor *at, u64 *session, backlog_ref *refs);  // behind the type byte

// --- a session as a whole ---

typedef struct mqtt_flight_record {
    u64 origin;    // 0: only the identifier counts
    u32 part;
    u16 id;
    u8 qos, state; // mqtt_entry_state
} mqtt_flight_record;

typedef struct mqtt_session_record {
    const char *id;
    u32 id_len;
    u64 left_ms;      // UNIX time; 0 = connected
    u32 expiry_s;
    u32 queued_bytes_max, queued_messages_max;
    u16 window, last_id;
    u8 version, queue_policy;
    bool has_will;
    mqtt_will_record will;
    // The lists behind, in this order: open exchanges, in flight, backlog, subscriptions.
    cursor lists;
} mqtt_session_record;

// A whole that is being written: grows in a pool. Check failed once at the end.
typedef struct mqtt_snapshot {
    pool *memory;
    u8 *data;
    u32 used, size;
    bool failed; // no memory
} mqtt_snapshot;
void mqtt_snapshot_session(mqtt_snapshot *out, const mqtt_session_record *r);
void mqtt_snapshot_count(mqtt_snapshot *out, u32 count); // before each list
void mqtt_snapshot_id(mqtt_snapshot *out, u16 id);
void mqtt_snapshot_flight(mqtt_snapshot *out, const mqtt_flight_record *f);
void mqtt_snapshot_chunk(mqtt_snapshot *out, const backlog_chunk *c);
void mqtt_snapshot_subscription(mqtt_snapshot *out, const mqtt_subscription_record *s);
void mqtt_snapshot_free(mqtt_snapshot *s);

// Checks all of it; then the lists are read with the functions below, which can not fail.
bool mqtt_session_parse(const u8 *data, u32 len, mqtt_session_record *out);
u32 mqtt_session_count(cursor *lists);
u16 mqtt_session_id(cursor *lists);
void mqtt_session_flight(cursor *lists, mqtt_flight_record *out);
// refs: room for BACKLOG_CHUNK. Returns whether they are there, not in a block.
bool mqtt_session_chunk(cursor *lists, backlog_chunk *out, backlog_ref *refs);
void mqtt_session_subscription(cursor *lists, mqtt_subscription_record *out);

#endif
