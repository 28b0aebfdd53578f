// SPDX-License-Identifier: Apache-2.0
// window.h: messages that were sent and are not acknowledged yet, in the order they were sent. Acknowledgements
// may come in any order; what is done is handed out only over an unbroken row from the oldest on, because only
// so far may the durable offset advance. Nothing of a message is kept: after a broken connection it is read
// from the log again.
//
// A place is the identity of a message on the wire: MQTT's packet identifier is place + 1.
#ifndef SLUICE_UPLINK_WINDOW_H
#define SLUICE_UPLINK_WINDOW_H

#include "base/base.h"

#define WINDOW_MAX 65535u // MQTT's packet identifiers

typedef struct window_entry {
    u64 pos;      // of the record
    u64 sent_ns;  // monotonic
    u64 time_ms;  // UNIX time of the record
    u64 subject;  // NATS: what an error without its place names it by, as a hash; else 0
    u32 streams;  // how many of the uplink's streams it belongs to
    bool done;
} window_entry;

typedef struct window {
    window_entry *entries;
    u32 size;        // places
    u32 first, count; // the oldest one; entries in the row, acknowledged ones included
} window;

// Returns 0 or -ENOMEM. size: 1 to WINDOW_MAX.
int window_init(window *w, u32 size);
void window_free(window *w);
static inline bool window_is_full(const window *w) {
    return w->count == w->size;
}
static inline void window_clear(window *w) {
    w->first = w->count = 0;
}
static inline const window_entry *window_oldest(const window *w) {
    return w->count == 0 ? NULL : &w->entries[w->first];
}
// The place the next push will take. Not when full.
u32 window_next_place(const window *w);
// Takes it.
void window_push(window *w, const window_entry *entry);
// Acknowledges one. False: there is no such message in flight, or it was acknowledged before.
bool window_ack(window *w, u32 place);
// The oldest one with this subject that is not acknowledged. False: there is none. Walks all.
bool window_find_subject(const window *w, u64 subject, u32 *place);
// Takes the oldest if it is acknowledged. False: it is not, or there is none.
bool window_pop(window *w, window_entry *out);
// Whether a record is among them; walks all.
bool window_has(const window *w, u64 pos);

#endif
