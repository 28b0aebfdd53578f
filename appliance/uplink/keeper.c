// SPDX-License-Identifier: Apache-2.0
// keeper.c: the durable offset: STORE_UPLINK records, each of which replaces what was known of the uplink it
// names.
//
// A record: version (1), length of the name, the name, messages accounted for (u64 big-endian), ranges
// (ranges.h).
#include <errno.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "uplink/uplink_internal.h"

#define RECORD_VERSION 1u

static int append(uplink *u, u32 flags) {
    store *s = u->owner->store;
    // It comes from logs that counted otherwise: what is here and not given up is to be sent.
    if (u->imported) u->accounted = source_count(u, true);
    u->imported = false;
    u8 head[2] = {RECORD_VERSION, (u8)strlen(u->conf.name)}, count[8], ranges[RANGES_BYTES_MAX];
    for (u32 i = 0; i < 8; i++) count[i] = (u8)(u->accounted >> (56 - 8 * i));
    const struct iovec parts[] = {
        {head, sizeof(head)},
        {u->conf.name, head[1]},
        {count, sizeof(count)},
        {ranges, ranges_encode(&u->ranges, ranges)},
    };
    store_pos pos;
    int result = store_append(s, STORE_UPLINK, flags, parts, ARRAY_LEN(parts), &pos);
    if (result != 0) return result;
    u->dirty = false;
    u->saved_low = ranges_low(&u->ranges);
    if (u->mark == 0) {
        u->mark = pos;
        u->mark_count = source_count(u, false);
    }
    return 0;
}

void keeper_save(uplink *u) {
    if (!u->dirty || !u->ranges_known) return;
    // Refused: the log is full or failing. The offset is tried again; until then a restart would send again.
    (void)append(u, STORE_VITAL);
}

static void replay(void *context, const store_record *r) {
    uplinks *all = context;
    cursor c = cursor_of(r->data, r->len);
    u8 version = cursor_u8(&c), len = cursor_u8(&c);
    const u8 *name = cursor_take(&c, len);
    u64 count = (u64)cursor_u32(&c) << 32;
    count |= cursor_u32(&c);
    if (c.overrun || version != RECORD_VERSION) {
        log_warn("worker %u: log: a record of an uplink that this version does not know: left out", all->owner->index);
        return;
    }
    for (u32 i = 0; i < all->count; i++) {
        uplink *u = all->at[i];
        if (strlen(u->conf.name) != len || memcmp(u->conf.name, name, len) != 0) continue;
        uplink_ranges before = u->ranges;
        if (ranges_decode(&u->ranges, c.at, cursor_left(&c)) != 0) {
            log_warn("worker %u: uplink %s: a damaged offset in the log: left out", all->owner->index, u->conf.name);
            return;
        }
        // Copied from a log of another number of workers, of which there may be several: none knows of the
        // others' messages, so everything behind the lowest offset is sent again. Twice is allowed, never is
        // not.
        if (store_log_number(r->pos) != store_log_number(r->origin)) {
            u64 low = ranges_low(&u->ranges);
            ranges_init(&u->ranges, u->ranges_known ? MIN(low, ranges_low(&before)) : low);
            u->imported = u->dirty = true;
        } else {
            u->imported = false;
        }
        u->accounted = count;
        u->ranges_known = true;
        return;
    }
}

static void replayed(void *context) {
    uplinks *all = context;
    all->replayed = true;
}

static bool checkpoint(void *context, bool begin, u32 budget) {
    uplinks *all = context;
    (void)budget; // some hundred bytes in all
    if (begin) all->checkpoint_next = 0;
    for (; all->checkpoint_next < all->count; all->checkpoint_next++) {
        uplink *u = all->at[all->checkpoint_next];
        // One that was taken out of the configuration is forgotten: it would begin anew. Which these are is not known
        // before the configuration was applied, and it is not by workers that only finish what was begun.
        if ((all->configured && !u->wanted) || !u->ranges_known) continue;
        if (append(u, 0) == -EAGAIN) return false;
    }
    return true;
}

void keeper_init(uplinks *all) {
    // A log may have partitions of several workers, which part when it is converted: what was sent of them is theirs.
    all->keeper = (store_keeper){.context = all, .replay = replay, .replayed = replayed, .checkpoint = checkpoint,
                                 .follows = STORE_STREAM};
}

const store_keeper *uplinks_keeper(uplinks *all) {
    return &all->keeper;
}
