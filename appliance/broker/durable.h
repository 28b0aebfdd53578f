// SPDX-License-Identifier: Apache-2.0
// durable.h: what a broker puts into its worker's log. A publication that a stream takes, or that a durable
// session of this worker is to get, becomes one record (store/message_record.h) before anything of it is
// delivered; a retained one becomes a record on the worker that keeps its topic. Its publisher gets a pledge
// (broker/pledge.h) for all of them.
//
// Who waits is asked first: each durable subscriber that matches is offered the message
// (subscriber_ops.reserve) and claims its place in the record; when that has been appended it is told where
// (stored), or that it was not written. Only then deliver() is called. What comes alone (a shared
// subscription, a retained message that is read) is written by the subscriber itself with durable_store_one.
//
// Without a log nothing of this is reached but for one branch in a publication's way. Owner thread, except
// durable_expects and durable_takes.
#ifndef SLUICE_BROKER_DURABLE_H
#define SLUICE_BROKER_DURABLE_H

#include "broker/broker.h"
#include "store/log.h"
#include "store/message_record.h"

// Starts to keep things in a log: after broker_create, before anything is subscribed. Registers the keeper of
// STORE_RETAINED. Returns 0 or -ENOMEM.
int durable_start(broker *b, store *log);
// The log, NULL when nothing is kept.
store *durable_log(const broker *b);
// How the log takes a message just now: 0, -EAGAIN, -ENOSPC or -EIO.
int durable_state(const broker *b);

// Writes the record of a message for one subscriber, who is told before this returns. 0 or the errors of
// broker_publish_owed.
int durable_store_one(broker *b, subscriber *who, const publication *p, const message_waiting *w);

// The bytes of a record that one of those who need it gives back when it needs it no more: the one at place
// `at`, or `others`, who are not sessions.
u32 durable_part_bytes(u32 bytes, u32 at, bool others);
void durable_drop(broker *b, store_pos pos, u32 part_bytes);

// Whether that worker may put something of a publication into its log. Any thread.
bool durable_expects(const broker *there, const publication *p);
// Whether that worker's log takes new messages now: 0, -EDQUOT or -EIO. Any thread; it may change before one comes.
int durable_takes(const worker *there);
// A subscriber has become durable, or is no longer.
void durable_count(broker *b, int change);
// The log does not take the state of sessions (-EDQUOT: no room; -EIO: it has failed), or does again (0): what would
// have to be kept is refused then.
void durable_refuses(broker *b, int failure);
// A session's state could not be written, or has been at last.
void durable_behind(broker *b, int change);

// --- exchanges that other workers have not confirmed (durable_exchange.c), for the keeper of message records ---
// One that is found at the start, of a session of this worker's (its number). False: no memory.
bool exchange_restore(broker *b, u64 session, store_pos pos, u32 part_bytes, u64 targets);
void exchange_forget(broker *b, store_pos pos); // it has been confirmed; harmless when it is not there
bool exchange_is_open(const broker *b, store_pos pos);
u64 exchanges_open(const broker *b); // how many; any thread
typedef void exchange_visit(void *context, u64 session, store_pos pos, u32 part_bytes, u64 targets);
void exchange_each(const broker *b, exchange_visit *visit, void *context);
// confirmed: the other workers have it. resumed: see exchange_resume.
// Sends those that are left to the other workers again, and calls `resumed` when that is done, perhaps at once.
void exchange_resume(broker *b);
void exchange_on(broker *b, void *context, void (*confirmed)(void *context, store_pos pos),
                 void (*resumed)(void *context));
// The last position known of each other worker's log.
u64 exchange_seen(const broker *b, u32 from);
void exchange_set_seen(broker *b, u32 from, u64 pos);
// The same, of those whose retained message is kept here.
u64 exchange_kept(const broker *b, u32 from);
void exchange_set_kept(broker *b, u32 from, u64 pos);

// What a message record says as a publication that points into it. Its age is counted by the wall clock; a
// clock that stands before the time of publishing counts as no age.
publication durable_publication(const broker *b, store_pos origin, const message_record *r);
// A UNIX time in ms that the record of that origin carries, in the time of the clock as it is now (clock_steps.h).
u64 durable_time(const broker *b, store_pos origin, u64 time_ms);
struct clock_steps *durable_steps(broker *b);
// Is called before a time is judged: adds to durable_steps when the clock was set a moment ago.
void durable_on_clock(broker *b, void (*look)(void *context), void *context);
// All is replayed, and durable_steps is whole: retained messages expire from now on.
void durable_retained_replayed(broker *b);

#endif
