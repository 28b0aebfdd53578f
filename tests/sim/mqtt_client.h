// SPDX-License-Identifier: Apache-2.0
// mqtt_client.h: simulated MQTT clients, 3.1.1 and 5.0, and the ledger of what they published. A client
// publishes and subscribes, loses its connection in every way there is, comes back, and keeps its own half
// of the session as the standard asks. Whatever it receives is judged at once (mqtt_check.c); what it should
// have received, at the end.
//
//   mqtt_client.c   connections and packets   mqtt_check.c   what must hold   mqtt_scenario.c   the choices
//   mqtt_power.c    the power goes, and what must be there afterwards
//
// A message is known by its number in the ledger, which is in its payload. A stream is the messages of one
// publisher on one topic with one QoS; their sequence numbers count from 1. `clock` counts events, so that
// before and after are told apart within one moment of virtual time.
#ifndef SLUICE_TESTS_MQTT_CLIENT_H
#define SLUICE_TESTS_MQTT_CLIENT_H

#include "proto/mqtt_packet.h"
#include "rig.h"

#define MQ_CLIENTS_MAX 16u
#define MQ_TOPICS 4u
#define MQ_FILTERS 6u        // one for each topic, then "test/#" and "test/+"
#define MQ_TOPIC_BYTES 6u    // "test/0"; shorter ones get no alias
#define MQ_STREAMS (MQ_CLIENTS_MAX * MQ_TOPICS * 3u)
#define MQ_OPEN_MAX 8u       // QoS 1 and 2 messages a client has open at once
#define MQ_HELD_MAX 256u     // packets of the server that a client has not acknowledged yet
#define MQ_ALIASES 8u
#define MQ_EXPIRY_LONG_S UINT32_MAX // never: the wall clock may jump by years

typedef struct mq_field mq_field;

typedef struct mq_message {
    u32 publisher, topic, stream, sequence, len;
    u8 qos;
    bool acked;          // PUBACK or PUBREC: the server has it
    bool resent;
    u64 begun;           // clock when its bytes were written first
} mq_message;

typedef struct mq_open { // a message of QoS 1 or 2 that the client has not brought to its end
    u32 message;
    u16 id;
    bool released;       // PUBREL sent
} mq_open;

typedef struct mq_ack {
    u8 type;
    u16 id;
    u32 message;         // of a PUBACK
} mq_ack;

// How far an acknowledgement of QoS 1 has come: SUBACK says that what was said before SUBSCRIBE is on disk.
typedef enum mq_settled { MQ_UNSETTLED, MQ_ACKED, MQ_ASKED, MQ_SETTLED } mq_settled;

typedef enum mq_phase {
    MQ_BUSY,             // publishes, subscribes, loses connections
    MQ_CALM,             // comes back, stays, and reads until everything has arrived
    MQ_END,              // ends its session
    MQ_GONE,
} mq_phase;

typedef struct mq_plan {
    u8 version;
    u16 keep_alive_s;
    u16 receive_max;     // 5.0; 0 = not said
    u16 alias_max;       // 5.0
    u32 messages, payload_max;
    u32 write_max, read_max;
    u64 think_ns_max;
    u16 drop, clean, subscribe, nap; // thousandths of the actions
} mq_plan;

typedef struct mq_client {
    mq_field *field;
    u32 number;
    mq_plan plan;
    mq_phase phase;
    u64 next_ns, connect_ns, nap_until_ns, last_write_ns;
    // The connection.
    sim_peer *peer;
    sim_peer *ghost;     // the one before: it is only read to its end
    u64 ghost_until_ns;
    char text[CONN_PEER_TEXT];
    bool up;             // CONNACK received
    bool leaving;        // DISCONNECT or half a packet written: nothing more is said
    bool present;        // this connection goes on with a session
    bool clean;          // asked for on this connection
    u32 expiry_s;
    u16 server_receive_max;
    u8 *out, *in;
    size_t out_at, out_len, out_size, in_len, in_size;
    mq_ack acks[MQ_HELD_MAX];
    u32 ack_count;
    u32 window;          // QoS 1 and 2 received on this connection, without their end
    u8 alias[MQ_ALIASES + 1]; // topic + 1
    u8 held[8192];       // bit of each identifier received here and not brought to its end
    // The session.
    bool dirty;          // a clean start was asked for and not confirmed: ask again
    bool stays;          // the server must have it
    bool firm;           // and has it on disk
    mq_open open[MQ_OPEN_MAX];
    u32 open_count;
    u16 last_id;
    u64 since[MQ_FILTERS]; // clock when its SUBACK came, 0 = not in force
    u8 wanted[MQ_FILTERS]; // QoS + 1, 0 = not wanted
    u16 subscribe_id;
    u32 subscribing;     // filter
    u32 taken[65536];    // QoS 2: message + 1 by identifier, from PUBLISH to PUBREL
    // What it has seen.
    u32 published;
    u32 last[MQ_STREAMS][3]; // by stream and QoS of delivery
    u8 *seen;            // by message
    u8 *seen_life;       // by message: in which life of the gateway it came last
    u8 *settled;         // by message: mq_settled
    u64 received;
} mq_client;

struct mq_field {
    rig *rig;
    mq_client *clients[MQ_CLIENTS_MAX];
    u32 client_count;
    mq_message *messages;
    u32 message_count, message_size;
    u32 stream_next[MQ_STREAMS];
    u64 clock;
    bool lossy;          // queues are small: what is missing must be counted
    bool sleepy;         // time jumps now and then by seconds
    u64 closes_allowed;  // bit of each close_reason
    u32 inflight_max;
    // With a disk.
    disk_sim *disk;      // NULL: nothing is durable
    u32 life;            // of the gateway, from 0 on
    u32 lives;           // so many are wanted
    bool faulty;         // the disk fails or is full now and then
    disk_sim_config bad; // how; not while the gateway starts
    bool bad_now;
    u64 refusals_seen;   // by clients
    u64 partial;         // QoS 2 messages that came again where a refusal was lost
};

// What all runs of this process did.
typedef struct mq_totals {
    u64 connects, resumed, take_overs, resets, half_packets, goodbyes, clean_starts, lost_sessions;
    u64 published, received, duplicates, resent, aliases, missing, sleeps;
    u64 cuts, cuts_at_start, stops, refused, settled, streamed;
} mq_totals;
extern mq_totals mq_total;

mq_client *mq_client_add(mq_field *f, const mq_plan *plan);
void mq_client_free(mq_client *c);
// One action; sets next_ns.
void mq_client_act(mq_client *c);
void mq_client_calm(mq_client *c);
void mq_client_end(mq_client *c);
// Nothing of its own is open, and nothing was said that waits.
bool mq_client_is_quiet(const mq_client *c);
// Lets go of its connections.
void mq_client_leave(mq_client *c);
// The same, because the gateway has gone.
void mq_client_cut(mq_client *c);

// --- mqtt_check.c ---
u32 mq_message_make(mq_client *c, u32 topic, u8 qos, u32 len);
// Payload of a message, at most len bytes.
#define MQ_PAYLOAD_MIN 8u
void mq_payload_write(u32 message, u8 *out, u32 len);
// A PUBLISH that came.
void mq_check_publish(mq_client *c, const mqtt_publish *p);
// An exchange is over on the client's side: the identifier may be used again.
void mq_check_done(mq_client *c, u16 id);
// Messages that should have come and have not; the first one is described with RIG_CHECK when `judge`.
u32 mq_check_missing(mq_field *f, bool judge);
// All sessions have ended: nothing is left of them.
void mq_check_empty(mq_field *f);
// The session is gone, on the client's side or the server's.
void mq_session_forget(mq_client *c);
// Whether a QoS 2 message may come again: its publisher did not hear that it was refused.
bool mq_refusal_was_lost(mq_field *f, const mq_message *m);
// Acknowledgements of QoS 1 come from `from` to `to`.
void mq_settle(mq_client *c, mq_settled from, mq_settled to);

// --- mqtt_scenario.c --- Runs one seed in the world that was chosen from it; see scenario.h.
typedef struct mq_setup {
    sim_random rng;
    rig_setup setup; // without listeners
} mq_setup;
void mq_run(mq_setup *chosen, char *failure, size_t failure_bytes);
// With queues so small that messages are dropped, and counted.
void mq_run_lossy(mq_setup *chosen, char *failure, size_t failure_bytes);
// The gateway has durable logs; the power goes now and then, and it comes back.
void mq_run_power(mq_setup *chosen, char *failure, size_t failure_bytes);
// The same on a disk that fails now and then, and is full now and then.
void mq_run_bad_disk(mq_setup *chosen, char *failure, size_t failure_bytes);
// mqtt_again.c: a PUBLISH of QoS 2 is sent again before its PUBREC.
void mq_run_again(mq_setup *chosen, char *failure, size_t failure_bytes);
// mqtt_clock.c: sessions end in time whatever the wall clock says.
void mq_run_clock(mq_setup *chosen, char *failure, size_t failure_bytes);
// mqtt_kept.c: retained messages, wills and shared subscriptions across power cuts.
void mq_run_kept(mq_setup *chosen, char *failure, size_t failure_bytes);
void mq_print_counts(void);

// --- mqtt_power.c ---
// Chooses the disk, and when the power goes first; before rig_open.
void mq_power_choose(mq_field *f, rig_setup *setup, sim_random *rng);
// After each turn: the gateway comes back when the power has gone.
void mq_power_turn(mq_field *f);
// From now on the disk is a good one. The gateway is stopped in order and started once more.
void mq_power_calm(mq_field *f);
// What is in the stream: acknowledged messages, QoS 2 once, offsets without a gap.
void mq_power_check(mq_field *f);

#endif
