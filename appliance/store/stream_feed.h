// SPDX-License-Identifier: Apache-2.0
// stream_feed.h: the partition's side of stream_ask.h, as the worker's messages reach it. Owner thread of the
// partition.
#ifndef SLUICE_STORE_STREAM_FEED_H
#define SLUICE_STORE_STREAM_FEED_H

#include "store/stream_ask.h"

// An ask for the next page; it is answered later.
void stream_feed_ask(streams *s, stream_ask *a);
// The reading of that number has ended, with so many of its messages acknowledged. If its ask is here it is
// answered.
void stream_feed_stop(streams *s, u64 id, u64 done);
// So many of its messages are acknowledged.
void stream_feed_done(streams *s, u64 id, u64 done);

// stream_desk.c: the way home. False: the ring is full, try again.
bool stream_desk_answer(worker *w, stream_ask *a);

// A named consumer of a partition, for operators; at most max. Returns how many there are.
typedef struct stream_consumer_view {
    char name[STREAM_CONSUMER_BYTES + 1];
    u64 acked;       // offset of the first message that is not acknowledged
    u64 lag;         // messages behind the newest
    u64 changed_ms;  // UNIX time of the last acknowledgement
    u32 members;     // readings under way
    u16 number;      // of the partition
} stream_consumer_view;
u32 stream_consumers_view(const streams *s, const char *stream, stream_consumer_view *out, u32 max);
// Forgets a consumer that nobody reads with. 0, -ENOENT, -EBUSY.
int stream_consumer_forget(streams *s, const char *stream, const char *consumer);

#endif
