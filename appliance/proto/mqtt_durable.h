// SPDX-License-Identifier: Apache-2.0
// mqtt_durable.h: durable sessions: those that outlive their connection, on a worker with a log. What such a
// session is stands in three places that are kept in line: in memory, in records of the log that say what
// changed (proto/mqtt_record.h), and in the message records that name it as waiting. For the files of the
// MQTT server only.
//
//   mqtt_durable.c        changes into the log, snapshots      mqtt_durable_queue.c  what waits and is in flight
//   mqtt_durable_start.c  the state after a restart            mqtt_durable_keep.c   checkpoint, what is needed still
//   mqtt_durable_clock.c  when clients went
//
// Changes are gathered and written once a turn of the loop. What must not leave before its change is on disk
// is held: an entry in flight by hold_pos, an acknowledgement by a pledge. It is so with
//   PUBLISH of QoS 2   its packet identifier must be known again, or the client would take it for a new message
//   PUBREL             the message must not be sent a second time
//   PUBCOMP            the identifier is the client's again: a message under it is a new one
//   SUBACK, UNSUBACK   a session that is found again must have the subscription, or have it no more
//   CONNACK            of a clean start: the session that was there before must not be found again
// That nothing was left to be done is no exception: what was done before may not be on disk.
// A lost PUBACK or PUBCOMP of the client's only means that a message is sent again, which QoS 1 allows, or a
// PUBREL.
#ifndef SLUICE_PROTO_MQTT_DURABLE_H
#define SLUICE_PROTO_MQTT_DURABLE_H

#include "broker/pledge.h"
#include "broker/table.h"
#include "proto/mqtt_record.h"
#include "proto/mqtt_session.h"
#include "store/message_record.h"
#include "store/stream_clock.h"

#define MQTT_HOLD_FLUSH UINT64_MAX // hold_pos: its change is not in the log yet

typedef enum mqtt_claim { MQTT_CLAIM_NONE, MQTT_CLAIM_FLIGHT, MQTT_CLAIM_QUEUED } mqtt_claim;

struct mqtt_keep {
    mqtt_session *session;
    mqtt_keep *next, *prev;    // all of the worker
    mqtt_keep *dirty_next, *flush_next, *later_next;
    table_link by_number;      // its hash is the session's number
    backlog backlog;
    u32 counted;               // of the backlog, in the worker's metrics
    u64 counted_bytes;
    u32 loaded;                // places of the backlog that are in out->queue too
    u32 held;                  // entries in flight with a hold_pos
    store_fetch_op fetch;      // done NULL: none under way
    mqtt_entry *fetching;      // for an entry in flight; NULL: for the oldest that waits
    store_waiter hold;         // for the entries that are held
    mqtt_entry *claimed;       // the entry of the claim, NULL: only in the backlog
    store_pos applied;         // at start: what the log said of it is known up to here
    store_pos exchanges_applied;
    u64 left_ms;               // UNIX time the client went; 0 = it is connected
    u8 claim;                  // mqtt_claim
    bool holding;              // hold waits
    bool dirty, flush_listed, later_listed;
    u16 last_id;               // packet identifier, while there is no outbound
    u32 sent_round;            // mqtt_durable.round in which a change last put one of its messages in flight
};

struct mqtt_durable {
    mqtt_sessions *all;
    store *log;
    table numbers;             // keeps by number
    mqtt_keep *first;
    u8 *changes;               // gathered
    u32 used, size;
    u32 round;                 // of the changes that are gathered now, from 1 on
    timer_node timer;          // writes them, due at once
    store_pos last_pos;        // of the last record written
    store_pos ended_pos;       // of the last one that says that a session has ended
    bool ended;                // what was gathered says so of one
    int refused;               // why the log took nothing of it: -EDQUOT, not even its reserve has room; -EIO, it has
                               // failed. It is kept and written when it can be; who waits for it is told. 0: it took
    mqtt_keep *dirty;          // their snapshot has to be written
    mqtt_keep *flush;          // with entries held for changes not written yet
    mqtt_keep *later;          // to be pumped again in a moment: the log had no room, or too much to read
    timer_node later_timer;
    store_waiter *owed;        // pledges that wait for them (their waiters, linked)
    mqtt_keep *checkpoint;     // the next one to be written
    u8 checkpoint_stage;
    u8 *whole;                 // at start: the parts of a snapshot
    u64 whole_session;
    u32 whole_bytes, whole_used;
    stream_clock clock;        // the wall clock's, see mqtt_durable_clock.c
    i64 off_step_ms;           // by which it was found off at the start, 0 = it can be believed
    timer_node clock_timer;
    u32 restoring;             // subscriptions that are not in force yet, and 1 until all are made
    counter restored;          // 1: all of them are; any thread
    counter unreadable;        // records that made no sense at start
    counter lost;              // messages whose record could not be read
};

// --- mqtt_durable.c ---
mqtt_durable *mqtt_durable_create(mqtt_sessions *all, store *log); // NULL: no memory
void mqtt_durable_destroy(mqtt_durable *d); // NULL: nothing. Its table lies in the broker's pool
// Whether what sessions do has to wait for room in the log.
bool mqtt_durable_is_behind(const mqtt_sessions *all);
// Makes the session durable if it can be and is not; writes its state, whole. After it was configured.
void mqtt_durable_begin(mqtt_session *s);
// It is durable no more, or ends.
void mqtt_durable_end(mqtt_session *s);
void mqtt_durable_forget(mqtt_session *s); // the same without a word in the log
void mqtt_durable_left_at(mqtt_session *s, u64 time_ms);
void mqtt_durable_left(mqtt_session *s); // its client has gone, or what is left of its will has
// Something has changed. c->session is set here.
void mqtt_durable_change(mqtt_session *s, mqtt_change *c);
void mqtt_durable_change_id(mqtt_session *s, mqtt_change_kind kind, u16 id);
void mqtt_durable_write(mqtt_durable *d, const mqtt_change *c);
// Writes what was gathered. False: not now.
bool mqtt_durable_flush(mqtt_durable *d);
void mqtt_durable_finish(mqtt_durable *d); // the same with the sessions that are to be written whole: the last chance
// Notes that the change just made has put one of its messages in flight.
void mqtt_durable_note_sent(mqtt_session *s);
// Makes sure that such a change is in the log, before a record that puts the next one in flight: after a restart what
// is in flight has the order of the log. False: not now.
bool mqtt_durable_sent_is_written(const mqtt_session *s);
// Why the session can keep nothing more now: -EDQUOT, the log has no room but for what lets space be freed; -EIO, it
// has failed. Asked before anything is promised. 0: it can, or it is not durable.
int mqtt_durable_may_grow(const mqtt_session *s);
// A pledge for all that was changed so far: fails as above when the log does not take it. NULL: no memory.
pledge *mqtt_durable_owe(const mqtt_session *s);
// The same, which may be there already: *owed NULL: all that was changed is on disk. 0 or -ENOMEM.
int mqtt_durable_owe_rest(const mqtt_session *s, pledge **owed);
// The same for the end of an earlier session of its client: *owed NULL: it is on disk. 0 or -ENOMEM.
int mqtt_durable_owe_ended(const mqtt_session *s, pledge **owed);
// Holds an entry in flight until what was changed so far is on disk.
void mqtt_durable_hold(mqtt_session *s, mqtt_entry *e);
// Holds it until pos is on disk.
void mqtt_durable_hold_at(mqtt_session *s, mqtt_entry *e, store_pos pos);
void mqtt_durable_release(mqtt_session *s, mqtt_entry *e); // it is held no more
void mqtt_durable_pump_later(mqtt_session *s);
mqtt_keep *mqtt_keep_find(const mqtt_durable *d, u64 number);
// Writes the whole. False: not now.
bool mqtt_keep_write(mqtt_durable *d, mqtt_keep *k, u32 *bytes);
mqtt_keep *mqtt_keep_create(mqtt_session *s);
void mqtt_keep_account(mqtt_keep *k);

// --- mqtt_will.c ---
// A will of a session of the log that is being published at a start: it was at the last one, and is no more.
void mqtt_will_due_restore(mqtt_sessions *all, const mqtt_change *c);
void mqtt_will_due_forget(mqtt_sessions *all, u64 session, u64 number);
void mqtt_wills_write(mqtt_sessions *all); // those that are being published, for a checkpoint

// --- mqtt_durable_queue.c ---
bool mqtt_durable_reserve(subscriber *of, delivery *d, message_waiting *w);
void mqtt_durable_stored(subscriber *of, u64 pos, u32 bytes, u32 part);
delivery_result mqtt_durable_deliver(mqtt_session *s, delivery *d);
// Sends of what is in flight what has to be and may be; true: nothing of it has to be sent any more.
bool mqtt_durable_pump_flight(mqtt_session *s);
void mqtt_durable_pump_queue(mqtt_session *s);
void mqtt_durable_detach(mqtt_session *s);
void mqtt_durable_released(mqtt_session *s, mqtt_entry *e); // PUBREC has come
void mqtt_durable_flight_end(mqtt_session *s, mqtt_entry *e); // tells the log; before it is freed
void mqtt_durable_spill(mqtt_keep *k);

// --- mqtt_durable_clock.c ---
// All that the log says is known: looks at the clock, and goes on doing so.
void mqtt_durable_clock_start(mqtt_durable *d);
// At the start: when a client went, which the log has as time_ms, in the time of the clock as it is now, and how long
// ago.
u64 mqtt_durable_clock_since(const mqtt_durable *d, u64 time_ms, u64 *away_ms);
// How it was set, for a checkpoint; and from there.
void mqtt_durable_clock_write(mqtt_durable *d);
void mqtt_durable_clock_replay(mqtt_durable *d, const mqtt_change *c);
// UNIX time in ms. When the clock has been set since the last look, the times at which clients went are set with it.
u64 mqtt_durable_clock_now(mqtt_durable *d);

// --- mqtt_durable_start.c, mqtt_durable_keep.c ---
void mqtt_durable_register(mqtt_durable *d);
bool mqtt_keep_replay_message(mqtt_durable *d, const store_record *r);
void mqtt_replay(void *context, const store_record *r);
void mqtt_replay_message(void *context, const store_record *r);
void mqtt_replayed(void *context);
void mqtt_exchanges_resumed(void *context);

#endif
