// SPDX-License-Identifier: Apache-2.0
// uplink.h: store and forward. An uplink reads this worker's log and hands the messages of its streams to a
// remote MQTT broker or NATS JetStream; its durable offset advances only when the remote has acknowledged, over
// an unbroken row. An outage of any length costs disk (within the streams' retention) and no memory; local
// clients never notice it.
//
//   store reader -> drain.c (streams, window, rate) -> map.c (topic) -> remote_mqtt.c | remote_nats.c -> net/conn.c
//   acknowledgement -> drain.c -> ranges.c -> keeper.c (STORE_UPLINK record)
//   remote's message -> down.c (map, loops) -> broker_publish
//
// Each device worker has a connection of its own per uplink, for its own part of the log; what comes from the
// remote is taken on the first worker only. uplink.c runs the machine (machine.h) and does its actions;
// everything that decides is in files without I/O.
//
// Functions are for the owner's thread unless said otherwise. An uplink that was taken out of the configuration
// stops and stays in the table, so that other threads may read its counters at any time.
#ifndef SLUICE_UPLINK_UPLINK_H
#define SLUICE_UPLINK_UPLINK_H

#include "base/base.h"
#include "store/log.h"
#include "uplink/error.h"
#include "uplink/machine.h"

typedef struct worker worker;
typedef struct uplink uplink;
typedef struct uplinks uplinks;

// Why a message of the backlog did not go to the remote, and one of the remote's was not published here.
// X(SYMBOL, "name", "what the log says"); NULL: it is as configured, and no news.
#define UPLINK_DROPS(X) \
    X(TOO_LARGE, "too_large", "over the remote's maximum, left out") \
    X(TOPIC, "topic", "no topic or subject of the remote can be made of it, left out") \
    X(REFUSED, "refused", "the remote refuses it for good, left out") \
    X(EXPIRED, "expired", "its expiry interval has passed, left out") \
    X(LOOP, "loop", NULL) \
    X(QOS0_BACKLOG, "qos0_backlog", NULL) \
    X(RETENTION, "retention", "gone by the stream's bounds before it was sent") \
    X(DOWN_LOOP, "down_loop", NULL) \
    X(DOWN_TOPIC, "down_topic", "from the remote: nothing can be published here under its topic") \
    X(DOWN_REFUSED, "down_refused", "from the remote: no room here")
typedef enum uplink_drop {
#define UPLINK_DROP_ENUM(symbol, name, text) UPLINK_DROP_##symbol,
    UPLINK_DROPS(UPLINK_DROP_ENUM)
#undef UPLINK_DROP_ENUM
        UPLINK_DROP_COUNT
} uplink_drop;
const char *uplink_drop_name(u32 drop);
const char *uplink_drop_text(u32 drop); // NULL: nobody need be told

// Single writer (the owner), any reader.
typedef struct uplink_metrics {
    counter configured;      // 1 while it is in the configuration
    counter state;           // uplink_state
    counter error;           // uplink_error of the last failure; 0 after a connection that acknowledged something
    counter connects;        // connections the remote accepted
    counter retries;         // attempts that failed and connections that ended
    counter sent, sent_bytes; // messages, payload bytes; those sent again included
    counter resent;          // of these: had been sent before
    counter acked;
    counter duplicates;      // acknowledged as known already (JetStream)
    counter drops[UPLINK_DROP_COUNT];
    counter received;        // from the remote
    counter in_flight;
    counter lag_messages;    // stored and not acknowledged
    counter lag_bytes;       // of the log, still to be read or acknowledged: an upper bound, other records included
    counter oldest_ms;       // UNIX time of the oldest one not acknowledged; 0 = none, or not known yet
    counter ack_ns;          // how long the last acknowledgement took
} uplink_metrics;

#define UPLINK_TEXT_BYTES 160u
// What people read. Any thread, a change under way may mix two texts.
typedef struct uplink_texts {
    char remote[UPLINK_TEXT_BYTES]; // URL in use
    char detail[UPLINK_TEXT_BYTES]; // of the last error: "jetstream: maximum bytes exceeded"
} uplink_texts;

// Makes the table of a device worker. Returns 0 or -ENOMEM.
int uplinks_create(worker *w, uplinks **out);
void uplinks_destroy(uplinks *all); // NULL is allowed; every connection is gone
// Offsets in the log: for store_register, STORE_UPLINK. Belongs to the table.
const store_keeper *uplinks_keeper(uplinks *all);
// Follows w->conf: starts what is new, restarts what has changed, stops what is gone. Not before the log was
// replayed.
void uplinks_configure(worker *w);
// Stops all, for good: the gateway ends. Offsets are written.
void uplinks_stop(worker *w);
bool uplinks_are_quiet(const worker *w);

// --- any thread ---

u32 uplinks_count(const worker *w);
const uplink *uplinks_at(const worker *w, u32 index);
const char *uplink_name(const uplink *u);
const uplink_metrics *uplink_metrics_get(const uplink *u);
void uplink_texts_get(const uplink *u, uplink_texts *out);

#endif
