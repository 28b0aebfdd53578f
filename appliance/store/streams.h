// SPDX-License-Identifier: Apache-2.0
// streams.h: the streams of one worker, for those who write, replay and read message records and for the process
// around it. A stream is a named list of topic filters; a message whose topic is under one of them belongs to it.
// Each worker numbers the messages that it takes: that is one partition, with offsets from 1 on, without gaps,
// which survive restarts. When the gateway starts with another number of workers, partition p lives on worker
// p modulo that number, and a worker adds to its own partition only.
//
// How a message gets its offsets (publisher's worker, any QoS):
//   n = streams_take(s, topic, len, refs, max)      what the record is to say; nothing has changed yet
//   store_append(... MESSAGE record with refs ...)  refused: forget the refs, no offset is used up
//   streams_appended(s, refs, n, &place)            now they are taken
// Nothing else may be taken between the first and the last. A message can be read once its record is durable,
// which the log's reader sees to; nobody has to tell the streams.
//
// Who keeps message records asks streams_need for those with refs: a record is dead when no stream needs it and no
// session waits for it. When retention takes a record from its last stream, the function of streams_on_release is
// called with it, once, from a timer; whoever keeps messages decides whether to store_drop it.
//
// Owner thread only, but for what is said to be otherwise.
#ifndef SLUICE_STORE_STREAMS_H
#define SLUICE_STORE_STREAMS_H

#include "conf/config.h"
#include "store/log.h"
#include "store/message_record.h"
#include "store/stream_from.h"

typedef struct streams streams;
typedef struct worker worker;

// A stream's number in message_stream: partition << STREAM_NUMBER_BITS | which one; unique in the data_dir.
#define STREAM_NUMBER_BITS 10u

// Where a record lies.
typedef struct stream_place {
    store_pos origin;
    u64 time_ms;
    u32 bytes; // of the record
} stream_place;

// --- for the publisher's path and the keeper of message records ---

// The streams that a topic belongs to and the offsets the message will have; at most max. s may be NULL: none.
u32 streams_take(const streams *s, const char *topic, u32 len, message_stream *refs, u32 max);
// Whether the publisher's answer has to wait for the commit: one of the streams has sync = commit.
bool streams_wait_commit(const streams *s, const message_stream *refs, u32 count);
void streams_appended(streams *s, const message_stream *refs, u32 count, const stream_place *place);
// What a stream of the configuration answers that would have the message but takes none now: its log has not taken
// its name yet (-EDQUOT: no room, -EIO, -EAGAIN, -ENOMEM), or it is full and discard = new (-EXFULL). Counted as
// refused unless it is a QoS 1 or 2 message that comes again (-EAGAIN). 0: there is none. s may be NULL. Asked before
// streams_take, which leaves those streams out.
int streams_refusal(streams *s, const char *topic, u32 len, u8 qos);
// The record could not be appended, and the message is given up: counted.
void streams_refused(streams *s, const message_stream *refs, u32 count);
// s may be NULL: none does.
bool streams_need(const streams *s, const message_stream *refs, u32 count);
// Start: a message record, in the order of the log.
void streams_replay_message(streams *s, const message_stream *refs, u32 count, const stream_place *place);
// Which of `workers` workers must have a record with these refs (store_keeper.owners): one bit each. Pure.
u64 streams_owners(const message_stream *refs, u32 count, u32 workers);
// released: retention has taken the record from its last stream.
void streams_on_release(streams *s, void (*released)(worker *w, const store_record *r));
// sent: the place in the log up to which every uplink that reads the partition is through; UINT64_MAX: there is none.
// save: messages before it are about to go; that they were sent has to be in the log first.
void streams_on_sent(streams *s, u64 (*sent)(worker *w, u16 number), void (*save)(worker *w, u16 number));

// --- for readers: uplinks ---

typedef struct stream_info {
    u16 number;
    u32 partition;
    u64 first, next; // offsets: of the oldest message, and of the one that will come next. Equal: empty
} stream_info;
// The nth partition (from 0 on) of that name on this worker. False: there are fewer.
bool streams_find(const streams *s, const char *name, u32 nth, stream_info *out);
// The offset of its oldest message; all before are given up, though their records may be in the log yet.
u64 streams_first(const streams *s, u16 number);
// UNIX time in ms, for a lag: about when the oldest of its messages behind pos came; 0 = there is none, or all that is
// known is that the newest one came at *last_ms.
u64 streams_time_behind(const streams *s, u16 number, u64 pos, u64 *last_ms);
// Where a reader of the log has to begin to meet that offset; 0: nothing is there, begin at store_end.
store_pos streams_position(const streams *s, u16 number, u64 offset);

// --- life ---

// Registers its keeper with the log (owner->store, which must not be started). NULL: no memory.
streams *streams_create(worker *owner);
// Before store_stop: writes what is not written yet, and closes the readers. Other threads may still look at counters.
void streams_stop(streams *s); // NULL is harmless, as below
void streams_destroy(streams *s);
// The log has been replayed, or a reload: streams of the configuration begin to take, others stop.
void streams_configure(streams *s, const config *conf);
// How many streams take messages; 0: streams_take need not be called.
u32 streams_taking(const streams *s);

#endif
