// SPDX-License-Identifier: Apache-2.0
// uplink_internal.h: what the files of an uplink share. Nobody else includes it.
#ifndef SLUICE_UPLINK_UPLINK_INTERNAL_H
#define SLUICE_UPLINK_UPLINK_INTERNAL_H

#include "broker/pledge.h"
#include "conf/config.h"
#include "net/listener.h"
#include "net/tls_stream.h"
#include "proto/mqtt_packet.h"
#include "uplink/backoff.h"
#include "uplink/endpoint.h"
#include "uplink/map.h"
#include "uplink/message.h"
#include "uplink/nats_write.h"
#include "uplink/nkey.h"
#include "uplink/ranges.h"
#include "uplink/resolve.h"
#include "uplink/uplink.h"
#include "uplink/window.h"
#include "worker.h"

#define UPLINK_TABLE_MAX (4u * LIMIT_UPLINKS_MAX) // names of one process, removed ones included
#define UPLINK_OUT_BYTES (256u << 10)   // no further message is queued while more than this waits for the socket
#define UPLINK_ID_BYTES 192u            // client id and the like
#define UPLINK_GOOD_MS 10000u           // a connection that lasted so long, or acknowledged something, was good

// What a kind of remote gives.
typedef struct uplink_remote {
    const proto *proto;
    // The TCP connection stands. Returns 0 or the uplink_error.
    uplink_error (*greet)(uplink *u);
    // Queues a message under its topic for the remote. Returns 0; -EMSGSIZE or -EINVAL: the remote can never
    // take it; -EAGAIN: not now, it stays first; -ENOMEM.
    int (*publish)(uplink *u, const uplink_message *m, const char *topic, u32 topic_len, u32 place);
    void (*ping)(uplink *u);
    uplink_error (*check)(uplink *u); // now and then: why the connection is to end; NULL: there is nothing to look at
    void (*leave)(uplink *u); // goodbye
    void (*gone)(uplink *u);  // the connection is no more: forget what belongs to it
} uplink_remote;
extern const uplink_remote uplink_remote_mqtt, uplink_remote_nats;

typedef struct uplink_mqtt {
    mqtt_codec codec;
    u32 packet_bytes_max; // what the remote takes
    u16 receive_max;
    u16 next_id;          // of SUBSCRIBE and our status: above the window's
    u8 qos_max;
    bool retain_available;
    bool waits;           // reading, for acknowledgements that are owed
    u64 refused_ns;       // when the own log or a stream had no room for what came; 0 = it had
} uplink_mqtt;

typedef struct uplink_nats {
    u8 *in;               // an incomplete operation
    u32 in_used, in_size;
    u32 need;             // bytes of it at least
    u32 payload_max;      // what the server takes
    u64 subject;          // hash of the subject that was published on last (window_entry.subject)
    bool greeted;         // INFO has been answered
    bool sealed;          // TLS was begun: what came in the clear counts no more
    u32 inbox_len;
    char inbox[48];       // "_INBOX.<random>.", acknowledgements come to it + place
} uplink_nats;

typedef struct uplink_login {
    char *jwt;              // NULL: an nkey alone, or nothing
    nkey key;               // public_key "": there is none
} uplink_login;

struct uplink {
    uplinks *all;
    worker *owner;
    uplink_config conf;
    const uplink_remote *remote;
    bool first;             // takes what comes from the remote
    bool wanted;            // in the configuration
    bool again;             // settings changed: start anew once it has stopped
    u8 state;               // uplink_state
    u8 error;               // of the attempt or connection that ends
    // where to
    endpoint urls[UPLINK_URLS_MAX];
    u32 url_count, url_index;
    resolve_job *resolve[UPLINK_URLS_MAX]; // of each URL; one that hangs is kept for the next attempt
    resolve_address addresses[RESOLVE_ADDRESSES_MAX];
    u32 address_count, address_next;
    backoff backoff;
    // the connection
    listener origin;        // what a conn needs of a listener: limits, name; accepts nothing
    listener_shared shared;
    io_handle dial;         // attached while connecting
    conn *conn;             // NULL before and after
    tls_client *tls;        // NULL: no URL needs it, or its files can not be read
    uplink_login login;     // of the file that `nkey` or `credentials` name
    bool files_old;         // to be read again before the next attempt: the configuration was, or they are no good
    timer_node timer;       // of the state
    u64 deadline_ns;
    u64 up_ns, ping_ns;     // ping_ns: unanswered since, 0 = none
    u64 progress_ns;        // the last acknowledgement, or the last time that the peer's TCP was seen to take bytes
    u64 tcp_acked;          // bytes it had taken then
    u64 acked_ns;           // the last acknowledgement
    u64 taken_pos;          // the oldest message on its way, once the peer's TCP was seen to have taken it whole
    u64 taken_ns;           // when that was seen first
    u32 keepalive_s;        // as agreed with the remote
    u64 acked_before;       // metrics.acked when the connection came up
    char id[UPLINK_ID_BYTES];  // client id, name of the connection
    char via[UPLINK_ID_BYTES]; // the mark of loop protection: the same on all workers
    pledge_line owed;       // acknowledgements to the remote that wait for the own log
    uplink_mqtt mqtt;       // of the kind in use
    uplink_nats nats;
    // the backlog
    uplink_map up_map, down_map;
    u16 streams[LIMIT_STREAMS_KEPT]; // their numbers in records (source.c): of all partitions in this worker's log
    u32 stream_count;
    window window;
    uplink_ranges ranges;
    bool ranges_known;      // from the log, or begun
    bool imported;          // from logs of another number of workers: everything still there is sent again
    store_reader *live, *backlog; // of the open range, and of the one before it that is read
    u64 backlog_to;         // end of the range that `backlog` reads
    u64 sent_high;          // highest position ever sent
    u64 passed;             // read and not for us, behind everything in flight
    u64 accounted;          // messages of its streams, of all there ever were, that are done or were before its time
    bool dirty;             // ranges differ from what the log says
    u64 saved_low;          // ranges_low of the last record
    u64 mark, mark_count;   // a record of ours, and the count of messages before it: met when read (account_mark)
    bool pumping;
    u64 up_pos;             // the log's end when the connection came up
    timer_node save_timer, pump_timer;
    u64 rate_ns;            // rate: time up to which it is used
    uplink_metrics metrics;
    char detail[UPLINK_TEXT_BYTES]; // of the attempt or connection under way (uplink_detail)
    uplink_texts texts;
};

struct uplinks {
    worker *owner;
    uplink *at[UPLINK_TABLE_MAX];
    u32 count;              // atomic: entries before it are there to stay
    store_keeper keeper;
    u32 checkpoint_next;
    bool replayed, stopping;
    bool configured;        // uplinks_configure has run: who is wanted, and what he reads, is known
    char *topic;            // LIMIT_TOPIC_BYTES: a mapped topic, and another behind it
    timer_node lag_timer;   // once a second: how much waits, also while nothing is connected
};

// --- uplink.c ---
// Runs the machine: the event and what follows from it.
void uplink_event_run(uplink *u, uplink_event event);
// Ends the attempt or connection. detail may be NULL.
void uplink_fail(uplink *u, uplink_error error, const char *detail);
void uplink_resolve_drop(uplink *u); // look-ups under way
// What is known of the failure that follows; told and published with it, then forgotten.
void uplink_detail(uplink *u, const char *format, ...) PRINTF_LIKE(2, 3);
void uplink_text_set(char *to, const char *text); // UPLINK_TEXT_BYTES
// Counts messages that were left out. The log tells of the 1st, 2nd, 4th, 8th, ... of a reason: never silent, never a
// flood. what: a topic, or what the remote said; NULL: nothing is known.
void uplink_dropped(uplink *u, uplink_drop reason, u64 count, const char *what, u32 what_len);
static inline bool uplink_is_up(const uplink *u) {
    return u->state == UPLINK_UP && u->conn != NULL && u->conn->reason == CLOSE_NONE;
}

void uplink_on_timer(timer_node *node, void *context);
// For proto.open of the remotes: TLS comes first where the URL says so.
int uplink_conn_open(conn *c, bool moved);
// For proto.closed of the remotes.
void uplink_conn_closed(uplink *u, const conn *c);

// --- files.c ---
// Reads the files that the settings name: certificates, keys, credentials. What can not be read is told, and fails each
// attempt by name until the files were read again.
void uplink_files_load(uplink *u);
void uplink_files_free(uplink *u);
// The same if it is time to (files_old), once no connection uses what there is.
void uplink_files_renew(uplink *u);

// --- uplinks.c ---
// It has stopped: begins anew if it was stopped for new settings.
void uplink_restart_if_wanted(uplink *u);

// --- drain.c ---
void drain_open(uplink *u);              // the connection is up
void drain_close(uplink *u);             // it is not any more
void drain_pump(uplink *u);              // sends what may be sent
// The remote has taken it, or refuses it for good (what: it has said). False: there is no such message.
bool drain_acked(uplink *u, u32 place);
bool drain_refused(uplink *u, u32 place, uplink_drop reason, const char *what, u32 what_len);
bool drain_is_overdue(const uplink *u);  // for ack_timeout the oldest one has waited and nothing has moved
void drain_stop(uplink *u);              // saves the offset
void drain_lag(uplink *u);               // brings the metrics up to date

// --- source.c ---
// Looks up the numbers of its streams; again after a reload.
void source_bind(uplink *u);
// Takes a record apart. False: no message, or of none of its streams.
bool source_message(const uplink *u, const store_record *r, uplink_message *out);
// Messages its streams have had, ever; gone: of these, the ones that retention has taken away.
// UNIX time in ms of the oldest message behind a place of the log, to within an entry of the index; 0 = not known.
u64 source_time_behind(const uplink *u, u64 pos);
u64 source_count(const uplink *u, bool gone);

// --- keeper.c ---
void keeper_init(uplinks *all);
void keeper_save(uplink *u);             // appends its record

// --- down.c ---
// A message of the remote. 0: done with, counted if it was not published; -EAGAIN: offer it again later; -EDQUOT,
// -EXFULL, -EIO: the own log or a stream does not take it, so it must not be acknowledged. owed: as in
// broker_publish_owed; NULL with QoS 0.
typedef struct uplink_incoming {
    const char *topic;       // as the remote says, MQTT form
    u32 topic_len;
    mqtt_properties props;   // those that are passed on are taken
    const char *via;         // mark of a remote without properties
    u32 via_len;
    const u8 *payload;
    u32 payload_len;
    u32 expiry_s;            // UINT32_MAX: never
    u8 qos;
    bool retain;
} uplink_incoming;
int down_publish(uplink *u, const uplink_incoming *in, pledge **owed);
// The next rule of the list `down`: its filter. False at the end; *at is 0 to begin.
bool down_filter_next(const uplink *u, u32 *at, const char **filter, u32 *len);
// Whether properties carry our mark.
bool down_is_marked(const uplink *u, const u8 *props, u32 len, u64 present);
// $SYS/broker/connection/NAME/state.
void down_status(uplink *u, bool up);

#endif
