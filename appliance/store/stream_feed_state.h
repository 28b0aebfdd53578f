// SPDX-License-Identifier: Apache-2.0
// stream_feed_state.h: what stream_feed.c (feeds, members, acknowledgements) and stream_page.c (reading) share.
// Not for other modules.
#ifndef SLUICE_STORE_STREAM_FEED_STATE_H
#define SLUICE_STORE_STREAM_FEED_STATE_H

#include "store/stream_feed.h"
#include "store/streams_state.h"

typedef struct stream_range {
    u64 from, to; // offsets [from, to)
} stream_range;

typedef struct stream_lease {
    struct stream_lease *next;
    stream_range range;
    u64 count;    // messages in it; fewer than offsets when some are missing
} stream_lease;

typedef struct stream_member {
    struct stream_member *next;
    u64 id;
    stream_ask *held;    // waits to be answered
    stream_lease *first, **last;
    u64 done;            // messages acknowledged, in whole leases
    u64 in_lease;        // and of the first lease
    u64 missed;
} stream_member;

struct stream_feed {
    stream_feed *next;         // of the part
    stream_feed *work_next;    // with something to do
    stream_part *part;
    streams *of;
    stream_consumer *consumer; // NULL: without a name
    stream_member *members;
    stream_range back[LIMIT_STREAM_RANGES]; // given back, in the order they are to be read
    u32 back_count;
    u64 position;              // offset to be given out next
    u64 time_from_ms;          // messages before it are passed over; 0: none
    store_reader *reader;
    u64 reader_at;             // offset that the reader stands before; 0: it has to be placed
    u64 leased_to;             // behind the last message of the page under way
    bool queued;
};

struct stream_feeds {
    streams *of;
    stream_feed *work, **work_end;
    timer_node work_timer, ack_timer, answer_timer;
    stream_ask *answers;       // the ring was full
};

// --- stream_feed.c ---
void stream_feed_queue(stream_feed *f);            // it has something to do
void stream_feed_ready(void *feed);                // the log has more
void stream_feed_give_back(stream_feed *f, stream_range range); // nobody has acknowledged it, nobody has it
bool stream_lease_add(stream_member *m, stream_range range, u32 count); // false: no memory
void stream_feed_answer(streams *s, stream_ask *a);

// --- stream_page.c ---
// Reads for a member that waits. Every record that is looked at comes out of the budget. False: it goes on when the
// log has more, or in the next turn; true: it has been answered.
bool stream_page_fill(stream_feed *f, stream_member *m, u32 *budget);

#endif
