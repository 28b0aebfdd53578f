// SPDX-License-Identifier: Apache-2.0
// streams_state.h: what the files of the streams share. Not for other modules.
//
//   streams.c         matching, offsets, life, configuration     stream_records.c  what is written to the log
//   stream_index.c    where messages lie                         stream_retain.c   what goes, and when
//   stream_from.c     where to begin                             stream_feed.c     reading for others
//   stream_clock.c    whether ages can be judged         stream_room.c     what everybody has taken, discard = new
//   stream_heard.c    named consumers of new partitions
//
// A part is one partition that lives in this worker's log. It is never freed while the worker runs, and its
// place in the table never changes, so that other threads may look at its name and its counters.
#ifndef SLUICE_STORE_STREAMS_STATE_H
#define SLUICE_STORE_STREAMS_STATE_H

#include "base/timer.h"
#include "store/stream_ask.h"
#include "store/stream_clock.h"
#include "store/stream_index.h"
#include "store/streams.h"

// One filter of a stream, into the text of its configuration.
typedef struct stream_filter {
    u16 at, len;
    u16 literal; // bytes in front that a topic must have; a quick no
} stream_filter;

// Where a named consumer is: the offset of the first message not acknowledged.
typedef struct stream_consumer {
    struct stream_consumer *next;
    u64 acked;
    u64 changed_ms;  // UNIX time
    bool dirty;      // not in the log yet
    bool forgotten;  // removed; leaves when the log knows
    u8 name_len;
    char name[];
} stream_consumer;

typedef struct stream_feed stream_feed;

// Single writer, any reader.
typedef struct stream_counters {
    counter first, next;       // offsets
    counter bytes;             // of the records that are there
    counter first_ms, last_ms; // UNIX time of the oldest mark and of the newest message; 0 = empty
    counter taken, taken_bytes; // since the start
    counter refused;           // messages that the log, or the stream itself, had no room for
    counter trimmed;           // messages gone by retention since the start
    counter missing;           // offsets that were not found when read: damage
    counter delivered;         // messages given to readers since the start
    counter consumers, lag_max; // named consumers; messages the last of them has not acknowledged
    counter allowed;           // discard = new: bytes it may hold without looking at the others
    counter taking;            // 1: configured
} stream_counters;

typedef struct stream_part {
    char name[LIMIT_NAME_BYTES];
    u16 number;
    u16 filter_count;
    bool known;           // its state is in the log
    bool taking;          // configured, and this worker's own partition
    stream_config conf;   // as last configured
    stream_filter filters[CONFIG_FILTERS_BYTES / 2];
    u64 first, next;
    u64 swept;            // offset up to which the records given up have been released; at most first
    u64 bytes_first;      // bytes of all records before `first`, since the partition began
    stream_index index;
    stream_consumer *consumers;
    u32 consumer_count;
    bool trim_dirty;      // `first` is not in the log yet
    bool state_dirty;     // its name or settings are not
    int write_failed;     // what was logged last
    // discard = new (stream_room.c)
    u64 full_ns;          // when there was no room for another allowance; 0 = there was
    bool full;            // takes nothing now: as of the last stream_refusal
    bool refusing;        // it was told
    u64 refused_ns;       // when a message was refused last
    u64 unsent_gone, unsent_ns; // discard = old: messages that went unsent since that was told, and when it was
    stream_feed *feeds;
    struct stream_part *heard_next; // in streams.heard
    stream_counters counters;
} stream_part;

struct streams {
    worker *owner;
    store *log;
    u32 count;            // atomic: parts that other threads may look at
    u32 taking;
    u32 unready;          // configured, not known to the log
    u32 bounded;          // with discard = new
    stream_part *parts[LIMIT_STREAMS_KEPT];
    stream_part *own[LIMIT_STREAMS_MAX]; // those that take, the first `taking` ones
    stream_part *heard;   // partitions of other workers, by name and consumers (stream_heard.c)
    void (*released)(worker *w, const store_record *r);
    u64 (*sent)(worker *w, u16 number);
    void (*save_sent)(worker *w, u16 number);
    u64 log_excess;       // bytes the log wants given up by streams with discard = new: it runs full before they do
    timer_node timer;     // once a second: retention, what could not be written
    stream_clock clock;
    u64 replayed_ms;      // UNIX time of the last record before this start, by the clock of then; 0 = none
    timer_node sweep_timer;
    store_reader *sweeper; // reads what retention has given up
    stream_part *sweeping; // of this one; NULL: nothing to do
    u32 sweep_idle;       // ticks since it read anything
    u32 check_part;       // of a checkpoint under way
    struct stream_feeds *reading;
};

static inline u32 stream_partition_of(u16 number) {
    return number >> STREAM_NUMBER_BITS;
}

// --- streams.c ---
stream_part *stream_part_find(const streams *s, u16 number);
// The nth one of that name on this worker; any thread. NULL: there are fewer.
stream_part *stream_part_named(const streams *s, const char *name, u32 name_len, u32 nth);
// A new place in the table. NULL: no memory, or LIMIT_STREAMS_KEPT.
stream_part *stream_part_add(streams *s, const char *name, u32 name_len, u16 number);
// The offset that a record has in a stream, 0: it is not in it. *at: which of its places that is.
u64 stream_offset_in(const message_record *m, u16 number, u32 *at);
void stream_part_count(stream_part *p); // its offsets into its counters
// Those that take messages, into streams.own: configured and known to the log.
void stream_own_gather(streams *s);

// --- stream_records.c ---
void stream_records_register(streams *s);
// Takes one record of the log. False: it was not understood.
bool stream_record_replay(streams *s, const u8 *data, u32 len);
// Appends what is not in the log yet; tries again with the next tick.
void stream_records_flush(streams *s);
// The consumer of that name, made when absent. NULL: no memory or too many.
stream_consumer *stream_consumer_get(stream_part *p, const char *name, u32 len);
stream_consumer *stream_consumer_find(const stream_part *p, const char *name, u32 len);
void stream_consumers_free(stream_part *p);

// --- stream_heard.c ---
// Whether a partition lives on another worker: a record of it says only that it is there.
bool stream_is_heard(const streams *s, u16 number);
stream_part *stream_heard_find(const streams *s, u16 number);
// False: no memory, or no name.
bool stream_heard_add(streams *s, const char *name, u32 name_len, u16 number);
// A partition that has had no message yet gets the named consumers of the stream's other ones.
void stream_consumers_take(const streams *s, stream_part *p);
void stream_heard_forget(streams *s);

// --- stream_retain.c ---
void stream_retain_start(streams *s);
void stream_retain_stop(streams *s);
// Gives up what is beyond the part's bounds now; now_ms 0: ages are not judged.
void stream_part_retain(streams *s, stream_part *p, u64 now_ms);

// --- stream_room.c ---
// Bytes of all partitions of its stream, on all workers.
u64 stream_bytes_total(const streams *s, const stream_part *p);
// Offset before which every uplink has sent everything: a mark's, or p->next. UINT64_MAX: no uplink reads it.
u64 stream_sent_to(const streams *s, const stream_part *p);
// The same of uplinks and named consumers; p->first when there are none.
u64 stream_taken_to(const streams *s, const stream_part *p);
// Bytes of the log that it needs back, as far as they have been taken by all (discard = new).
u64 stream_log_excess(const streams *s);
// False: discard = new, and there is no room for another message.
bool stream_part_room(streams *s, stream_part *p);
// The allowance is worked out anew: settings have changed, or it holds less.
void stream_room_forget(stream_part *p);
void stream_room_refused(streams *s, stream_part *p); // a message was refused for that
void stream_room_tick(streams *s, stream_part *p);    // once a second
// So many messages were given up that an uplink has not sent.
void stream_unsent_gone(streams *s, stream_part *p, u64 messages);

// --- stream_feed.c ---
int stream_feeds_create(streams *s);
void stream_feeds_end(streams *s); // all readings; what they hold is not answered any more
void stream_feeds_destroy(streams *s);

#endif
