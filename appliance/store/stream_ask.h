// SPDX-License-Identifier: Apache-2.0
// stream_ask.h: reading a stream from any worker, the operations worker too. A partition is read where it lives;
// the messages come to whoever asked in pages. One `stream_ask` stands for one reading of one partition. It goes
// to the partition's worker and comes back with a page, and is sent again for the next one: so at most one page a
// partition is on its way or waits to be used, and a slow reader costs a page and nothing else.
//
//   asker's worker (stream_desk.c)            partition's worker (stream_feed.c)
//   stream_ask_open  -- STREAM_ASK -->        fills a page, or waits until there is a message
//   arrived()        <-- STREAM_ANSWER --
//   stream_ask_next  -- STREAM_ASK -->        ...
//   stream_ask_done  -- STREAM_DONE -->       a named consumer's acknowledgement
//   stream_ask_close -- STREAM_STOP -->       what is not acknowledged goes to other members
//
// Readings with the same consumer name share the messages: each page goes to one of them, and what a member that
// leaves has not acknowledged goes to another one. The consumer's offset, the first that is not acknowledged, is
// kept in the partition's log and is where the next reading with that name begins.
//
// A page is written by the partition's worker only while it has the ask, and read by the asker only while he has
// it; the ring between them orders the two. All functions: the asker's worker.
#ifndef SLUICE_STORE_STREAM_ASK_H
#define SLUICE_STORE_STREAM_ASK_H

#include "base/spsc.h"
#include "base/timer.h"
#include "store/stream_from.h"
#include "store/streams.h"

#define STREAM_CONSUMER_BYTES 128u // of a consumer's name

// One message of a page; its topic, properties and payload follow, then the next one's entry, unaligned.
typedef struct stream_entry {
    u64 offset, time_ms;
    u64 props_present;
    u32 topic_len, props_len, payload_len;
    u16 qos, retain;
} stream_entry;

typedef struct stream_message {
    stream_entry entry;
    const char *topic;
    const u8 *props, *payload;
} stream_message;

typedef struct stream_ask stream_ask;
struct stream_ask {
    // Set by stream_ask_open, and by the asker while he has it.
    void (*arrived)(stream_ask *a); // a page, or what went wrong; may close it
    void *context;
    u32 messages_max;  // of the page
    bool wait;         // comes back only when there is a message
    u64 acked;         // messages of this reading that are acknowledged, cumulative; the asker's at any time
    // The answer.
    int result;        // 0; -ENOENT: the partition is not there; -ENOMEM; -EUSERS: too many consumers
    bool end;          // there was nothing behind the page's last message
    u32 count;         // messages
    u64 next;          // offset that the reading has come to
    u64 missed;        // offsets stepped over since the start of this reading: given up, or damaged
    // The rest is of stream_desk.c and stream_feed.c.
    worker *home;
    u64 id;            // unique in the process
    u64 done;          // acked, as it was when the ask left
    u16 number;        // of the partition
    u16 host;          // worker that reads it
    stream_from from;
    u8 consumer_len;   // 0: none
    char consumer[STREAM_CONSUMER_BYTES];
    stream_ask *next_all, **prev_all; // of the desk
    stream_ask *next_retry;           // of the desk: to be posted
    stream_ask *next_host;            // of the partition's worker: answers to be posted
    bool away, closed, stop_due, retry_queued;
    bool unsent;       // away in name only: the ring was full
    bool again;        // arrived is due once more
    bool answered;     // between a worker and itself: it is on its way back
    u32 used, size;    // bytes of the page
    u8 *page;
};

// One partition of a stream, as stream_partitions tells them.
typedef struct stream_partition {
    u16 number, host;
    u64 first, next, bytes, first_ms, last_ms;
} stream_partition;
// The partitions of that name on all workers, at most max. 0: there is no such stream.
u32 stream_partitions(const worker *w, const char *name, u32 len, stream_partition *out, u32 max);

// Names of all streams, each once; at most max. Returns how many were written.
u32 stream_names(const worker *w, char names[][LIMIT_NAME_BYTES], u32 max);

// Begins a reading and asks for the first page. arrived, messages_max, wait, context: as above. consumer may be
// NULL. NULL: no memory, or LIMIT_STREAM_ASKS readings are under way on this worker.
stream_ask *stream_ask_open(worker *w, const stream_partition *partition, const stream_ask *settings,
                            stream_from from, const char *consumer, u32 consumer_len);
// Sends it for the next page: the one it has is given up. Not while it is away.
void stream_ask_next(stream_ask *a);
// `arrived` is called once more, after a moment: there was no memory to go on with. Not while it is away.
void stream_ask_again(stream_ask *a);
// Tells the partition how many messages are acknowledged, if it is away and so would be told later.
void stream_ask_done(stream_ask *a);
// Ends the reading; `arrived` is not called any more and the ask is the desk's to free. NULL is harmless.
void stream_ask_close(stream_ask *a);
// Walks a page: *at is 0 at first. False: no more.
bool stream_page_next(const stream_ask *a, u32 *at, stream_message *out);

// --- for the worker ---

typedef struct stream_desk stream_desk;
enum { STREAM_ASK, STREAM_ANSWER, STREAM_STOP, STREAM_DONE }; // low byte of spsc_message.arg of a WM_STREAM

stream_desk *stream_desk_create(worker *w); // NULL: no memory
// All workers have ended their loops. Closed and open asks are freed.
void stream_desk_destroy(stream_desk *d);
// A WM_STREAM message.
void stream_message_handle(worker *w, const spsc_message *message);

#endif
