// SPDX-License-Identifier: Apache-2.0
// ranges.h: which part of the log an uplink has still to send: a short ascending list of ranges of positions.
// With order = oldest there is one, from the last acknowledged record to the end of the log. With order =
// newest what had gathered while the remote was away is cut off behind and into slices, so that new messages go
// first and the newest slice of the backlog next. Pure; the encoded form is the body of a STORE_UPLINK record.
//
// A range holds the records with after < position < to. The last one is open: to = UINT64_MAX.
#ifndef SLUICE_UPLINK_RANGES_H
#define SLUICE_UPLINK_RANGES_H

#include "base/base.h"

#define RANGES_MAX 16u

typedef struct uplink_range {
    u64 after, to;
    u32 in_flight;  // sent and not done
    bool read;      // read to its end; gone when nothing of it is in flight. Not kept
} uplink_range;

typedef struct uplink_ranges {
    u32 count;
    uplink_range at[RANGES_MAX];
} uplink_ranges;

// Everything behind a position.
void ranges_init(uplink_ranges *r, u64 after);
// The one a position is in, NULL when it is in none.
uplink_range *ranges_find(uplink_ranges *r, u64 pos);
static inline uplink_range *ranges_open(uplink_ranges *r) {
    return &r->at[r->count - 1];
}
// The newest range before the open one that is not read to its end; NULL: there is none.
uplink_range *ranges_backlog(uplink_ranges *r);
// A record was sent, and is done (everything sent before it is).
void ranges_sent(uplink_ranges *r, u64 pos);
void ranges_done(uplink_ranges *r, u64 pos);
// The range was read to its end (not the open one).
void ranges_read(uplink_ranges *r, uplink_range *range);
// Nothing is in flight any more and what was will be sent again (a broken connection).
void ranges_rewind(uplink_ranges *r);
// Cuts the range that a position is in: records from `pos` on are in the second part. False: it is in none, the
// cut would leave nothing before it, or there are RANGES_MAX already.
bool ranges_cut(uplink_ranges *r, u64 pos);
// Position of the first record that may be needed still.
static inline u64 ranges_low(const uplink_ranges *r) {
    return r->at[0].after;
}

// Encoded: count, then after and to of each, big-endian u64.
#define RANGES_BYTES_MAX (1u + RANGES_MAX * 16u)
u32 ranges_encode(const uplink_ranges *r, u8 out[RANGES_BYTES_MAX]);
// Returns 0 or -EINVAL: not something ranges_encode makes.
int ranges_decode(uplink_ranges *r, const u8 *data, u32 len);

#endif
