// SPDX-License-Identifier: Apache-2.0
// retained_store.h: this worker's part of the retained messages, as a tree of topic levels, and the
// cursors that walk it. Not for other modules than the broker. Owner thread only, except
// retained_has_room.
//
// A cursor pins the node it stands on: a pinned node stays linked although its message is deleted, so a
// walk survives whatever is stored and deleted between two steps, at the price of one counter a node.
#ifndef SLUICE_BROKER_RETAINED_STORE_H
#define SLUICE_BROKER_RETAINED_STORE_H

#include "base/timer.h"
#include "broker/message.h"
#include "broker/retained.h"
#include "broker/table.h"
#include "broker/topic.h"

typedef struct retained_node retained_node;
struct retained_node {
    table_link edge;         // in retained_part.edges; the hash is that of the path from the root
    retained_node *parent, *first, *next, *prev; // first of its children; its neighbours
    message *message;        // NULL = only a level, or deleted and pinned
    u32 pins;
    u32 len;
    char text[];             // the level
};

typedef struct retained_cursor retained_cursor;
struct retained_cursor {
    retained_node *at;
    retained_cursor *next;   // of those that wait for memory
    u64 reader;              // for another worker: its reader
    u32 depth;               // levels from the root to `at`
    u32 count, hash_level;   // levels of the filter; that of '#', or count + 1
    u32 filter_len;
    u16 worker;              // for whom
    topic_level levels[];    // then the filter's text
};

// What another worker has said of a topic while its part was full.
typedef struct retained_verdict {
    u64 hash;      // of the topic; 0 = none
    u64 until_ns;  // it counts so long; 0 = not answered yet
    bool admitted;
    bool used;     // its publisher has come again; before, another topic has to wait a moment
} retained_verdict;

typedef struct retained_part {
    broker *b;
    retained_node *root;
    table edges;             // nodes by path
    table readers;           // started ones of this worker, by number
    u64 reader_number;
    retained_mark *mark;     // the last one that was taken, while it is in use
    retained_reader *first, *last; // readers with work to do
    retained_cursor *starved;      // other workers' cursors whose page there was no memory for
    retained_cursor *sweeper;      // looks for expired messages
    u64 expiring;            // messages that can expire
    timer_node timer;        // work to do
    retained_verdict verdicts[64];
    table overtaken;         // topics of retained messages met while readers were abroad (retained_late.c)
    u64 sweep_bucket;        // of overtaken, where its entries are freed next
    u32 abroad;              // readers that read another worker's part
    counter count, bytes;    // messages and the memory they are charged with
    counter refused;
} retained_part;

// Returns 0 or -ENOMEM. All of it goes with the broker's pool.
int retained_init(retained_part *r, broker *b);

// The worker that keeps a topic's retained message: its place hash modulo the number of workers.
u64 retained_hash(const char *topic, u32 len);
u32 retained_keeper(const worker *w, const char *topic, u32 len);
// Whether a message would be kept by that worker: 0, -ENOSPC, or -EAGAIN. Of another worker only its fill
// is known; when that is at a limit it is asked whether the message replaces one, and the publisher comes
// again.
int retained_admit(broker *b, u32 keeper, const publication *p);
// Stores (m, one reference is taken) or deletes (NULL). Returns 0, -ENOSPC over a limit, -ENOMEM.
int retained_set(retained_part *r, const publication *p, message *m);
// Whether there is a message for a topic.
bool retained_exists(const retained_part *r, const char *topic, u32 len);
// The same for what another worker has accepted: only memory can refuse it (counted).
void retained_store_received(broker *b, const publication *p, message **stored);

// A walk over all that match a valid filter; filter NULL: over all. NULL when out of memory.
retained_cursor *cursor_create(retained_part *r, const char *filter, u32 len);
void cursor_destroy(retained_part *r, retained_cursor *c);
// Goes on, at most *steps nodes, counted down. Returns the next message, which is not expired, or NULL:
// out of steps, or at the end (cursor_is_at_end).
message *cursor_next(retained_part *r, retained_cursor *c, u32 *steps);
bool cursor_is_at_end(const retained_cursor *c);
// The message it stands on, NULL when it has been deleted or has expired.
message *cursor_message(const retained_part *r, const retained_cursor *c);
// Goes back to where it was: position remembered by cursor_mark, pinned until cursor_back or
// cursor_unmark.
typedef struct cursor_position {
    retained_node *at;
    u32 depth;
} cursor_position;
cursor_position cursor_mark(retained_cursor *c);
void cursor_back(retained_part *r, retained_cursor *c, cursor_position position);
void cursor_unmark(retained_part *r, cursor_position position);

// Deletes some of the expired messages; about once a second.
void retained_sweep(retained_part *r);

// --- retained.c --- The readers.
void retained_retry(broker *b); // memory may be there again
void retained_turn(broker *b);  // the timer

// --- retained_late.c --- A page of another worker's part may hold what a live message has replaced meanwhile.
void retained_abroad(broker *b, bool more); // a reader begins, or ends, to read other parts
// A retained message has come to this worker's subscribers. Costs one comparison while no reader is abroad.
void retained_overtake_slow(broker *b, const publication *p);
static inline void retained_overtake(broker *b, retained_part *part, const publication *p) {
    if (UNLIKELY(part->abroad > 0)) retained_overtake_slow(b, p);
}
// Whether a later message of the same topic came live through a subscription in force since the mark.
bool retained_is_overtaken(const broker *b, const retained_mark *mark, const publication *p);
// Forgets what nobody needs any more, in at most so many steps. True: there is more.
bool retained_overtaken_sweep(broker *b, u32 steps);

#endif
