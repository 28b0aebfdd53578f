// SPDX-License-Identifier: Apache-2.0
// sessions.h: the MQTT sessions of a worker as the rest of the program sees them: their life, their
// numbers, and views for operators. What a session is stands in proto/mqtt_session.h.
#ifndef SLUICE_BROKER_SESSIONS_H
#define SLUICE_BROKER_SESSIONS_H

#include "base/base.h"
#include "limits.h"

typedef struct worker worker;
typedef struct gateway gateway;
typedef struct mqtt_sessions mqtt_sessions;

// Why a message did not reach a client: X(SYMBOL, "name").
#define MQTT_DROPS(X) \
    X(EXPIRED, "expired") \
    X(TOO_LARGE, "too_large") \
    X(QUEUE_FULL, "queue_full") \
    X(QUEUE_OLDEST, "queue_oldest") \
    X(QUEUE_REJECT, "queue_reject") \
    X(SLOW, "slow_consumer") \
    X(OFFLINE, "offline") \
    X(NO_MEMORY, "no_memory") \
    X(SESSION_ENDED, "session_ended") \
    X(LOG_FULL, "log_full") \
    X(LOG_FAILED, "log_failed") \
    X(STREAM_FULL, "stream_full") \
    X(DENIED, "denied")
typedef enum mqtt_drop {
#define MQTT_DROP_ENUM(symbol, name) MQTT_DROP_##symbol,
    MQTT_DROPS(MQTT_DROP_ENUM)
#undef MQTT_DROP_ENUM
        MQTT_DROP_REASONS
} mqtt_drop;
const char *mqtt_drop_name(u32 reason);

// Returns NULL when out of memory. The worker's broker and timer wheel exist.
mqtt_sessions *mqtt_sessions_create(worker *w);
// Sessions that outlive their connection, and what waits for them, are kept in the worker's log from now on; before
// store_start, which restores them. Returns 0 or -ENOMEM.
struct store;
int mqtt_sessions_keep(mqtt_sessions *all, struct store *log);
// Whether all that the log knows has been restored: subscriptions are in force on all workers.
bool mqtt_sessions_restored(const mqtt_sessions *all);
// The same of all workers: every subscription there was is in force everywhere. Any thread.
bool mqtt_sessions_all_restored(const gateway *gw);
// Nor is a message of QoS 2 of a durable session on its way that not all workers have on disk. Any thread.
bool mqtt_sessions_all_settled(const gateway *gw);
// Before the last commit: what has changed goes to the log.
void mqtt_sessions_finish(mqtt_sessions *all);
// Frees all sessions; nothing is published any more. Before broker_destroy. NULL is allowed.
void mqtt_sessions_destroy(mqtt_sessions *all);

// What operators see of a session: a copy that belongs to nobody.
typedef struct session_view {
    char client[LIMIT_CLIENT_ID_BYTES + 1];
    u64 conn_id;          // 0: away
    u64 expires_in_ns;    // away: until its end, UINT64_MAX = never
    u64 queued_bytes;     // all that waits
    u64 queued_log_bytes; // of it in the log
    u32 worker;
    u32 expiry_s;         // UINT32_MAX = never
    u32 subscriptions, in_flight, queued, open_qos_2;
    u32 queued_log;       // of those queued in the log
    u16 keep_alive_s;
    u8 version;
    bool has_will;
    u8 queue_policy;      // enum queue_policy
    bool durable;         // kept in the log
    bool rejects;         // its queue is full, and messages are refused because of it
} session_view;

typedef struct session_filter {
    char client[LIMIT_CLIENT_ID_BYTES + 1]; // start of the client id, "" = any
    bool online, away;                      // both false: any
} session_filter;

// Takes views of some sessions from *place (0 to start) on into out, which has room for max of them. Returns how
// many; *more: there are others. Owner thread.
u32 mqtt_sessions_view(worker *w, const session_filter *f, u64 *place, session_view *out, u32 max, bool *more);

#endif
