// SPDX-License-Identifier: Apache-2.0
// ranges.c: see ranges.h.
#include "uplink/ranges.h"

#include <errno.h>
#include <string.h>

#include "base/cursor.h"

void ranges_init(uplink_ranges *r, u64 after) {
    *r = (uplink_ranges){.count = 1};
    r->at[0] = (uplink_range){.after = after, .to = UINT64_MAX};
}

uplink_range *ranges_find(uplink_ranges *r, u64 pos) {
    for (u32 i = 0; i < r->count; i++) {
        if (r->at[i].after < pos && pos < r->at[i].to) return &r->at[i];
    }
    return NULL;
}

uplink_range *ranges_backlog(uplink_ranges *r) {
    for (u32 i = r->count - 1; i > 0; i--) {
        if (!r->at[i - 1].read) return &r->at[i - 1];
    }
    return NULL;
}

static void remove_finished(uplink_ranges *r) {
    u32 kept = 0;
    for (u32 i = 0; i < r->count; i++) {
        if (r->at[i].read && r->at[i].in_flight == 0) continue;
        r->at[kept++] = r->at[i];
    }
    r->count = kept;
}

void ranges_sent(uplink_ranges *r, u64 pos) {
    uplink_range *range = ranges_find(r, pos);
    ASSERT(range != NULL);
    range->in_flight++;
}

void ranges_done(uplink_ranges *r, u64 pos) {
    uplink_range *range = ranges_find(r, pos);
    ASSERT(range != NULL && range->in_flight > 0);
    range->in_flight--;
    range->after = pos;
    remove_finished(r);
}

void ranges_read(uplink_ranges *r, uplink_range *range) {
    ASSERT(range->to != UINT64_MAX);
    range->read = true;
    remove_finished(r);
}

void ranges_rewind(uplink_ranges *r) {
    for (u32 i = 0; i < r->count; i++) {
        r->at[i].in_flight = 0;
        r->at[i].read = false;
    }
}

bool ranges_cut(uplink_ranges *r, u64 pos) {
    uplink_range *range = ranges_find(r, pos);
    if (range == NULL || range->after + 1 == pos || r->count == RANGES_MAX) return false;
    u32 index = (u32)(range - r->at);
    memmove(range + 1, range, (r->count - index) * sizeof(*range));
    r->count++;
    range[0].to = pos;
    range[1].after = pos - 1;
    range[1].in_flight = 0;
    return true;
}

static u8 *put_u64(u8 *to, u64 value) {
    for (u32 i = 0; i < 8; i++) to[i] = (u8)(value >> (56 - 8 * i));
    return to + 8;
}

static u64 take_u64(cursor *c) {
    u64 high = cursor_u32(c);
    return high << 32 | cursor_u32(c);
}

u32 ranges_encode(const uplink_ranges *r, u8 out[RANGES_BYTES_MAX]) {
    u8 *at = out;
    *at++ = (u8)r->count;
    for (u32 i = 0; i < r->count; i++) {
        at = put_u64(at, r->at[i].after);
        at = put_u64(at, r->at[i].to);
    }
    return (u32)(at - out);
}

int ranges_decode(uplink_ranges *r, const u8 *data, u32 len) {
    cursor c = cursor_of(data, len);
    uplink_ranges read = {.count = cursor_u8(&c)};
    if (read.count == 0 || read.count > RANGES_MAX) return -EINVAL;
    u64 before = 0;
    for (u32 i = 0; i < read.count; i++) {
        uplink_range *range = &read.at[i];
        range->after = take_u64(&c);
        range->to = take_u64(&c);
        // A range begins at or behind the end of the one before it: after + 1 >= its to.
        if (range->to <= range->after || (i > 0 && range->after + 1 < before)) return -EINVAL;
        before = range->to;
    }
    if (c.overrun || cursor_left(&c) != 0 || before != UINT64_MAX) return -EINVAL;
    *r = read;
    return 0;
}
