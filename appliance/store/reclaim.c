// SPDX-License-Identifier: Apache-2.0
// reclaim.c: gets segments back that lie before the last complete checkpoint, one at a time. The accounting
// only says where to look: a segment is always read and its kept records are asked for, first to count what
// lives, then, if that pays, to copy it. When the copies are on disk the segment is freed. Copying resumes
// where a crash ended it (copied_upto), so that nothing is ever copied twice; until the segment is free its own
// records count, not the copies.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/internal.h"

#define SURVEY_NS (10 * NS_PER_S)     // without need, one segment is looked at so often
#define BAD_BLOCK_BYTES 4096u         // skipped where the disk can not read
#define COPY_PERCENT 25               // copied without need when no more than this lives
#define COPY_PERCENT_SHORT 50         // and when space is short: copying more would only wear the disk

static bool is_candidate(const store *s, const segment *seg) {
    return seg != s->active && !seg->dying && seg->refs == 0 && seg->end <= s->checkpoint;
}

static u32 live_percent(const segment *seg, i64 live) {
    u64 bytes = seg->end - seg->base;
    return bytes == 0 || live <= 0 ? 0 : (u32)MIN((u64)live * 100 / seg->bytes, 100ull);
}

// Ordinary records are near to being refused, and no file can be added. (While there are spares enough, moving what
// lives about would only wear the disk.)
static bool space_is_short(const store *s) {
    u32 files = s->segment_count + s->spare_count + s->spares_coming;
    bool at_limit = files >= segments_max(s) || s->spare_error != 0;
    return at_limit && s->spare_count + s->dying_count <= LIMIT_STORE_RESERVE_SEGMENTS;
}

// What to look at: a copy that was begun; what seems dead; what is worth copying; else whatever was not looked
// at longest.
static segment *choose(store *s) {
    segment *best = NULL, *oldest = NULL, *begun = NULL;
    bool is_short = space_is_short(s);
    bool half = (s->segment_count + s->spare_count) * 2 > segments_max(s);
    for (u32 i = 0; i < s->segment_count; i++) {
        segment *seg = s->segments[i];
        if (!is_candidate(s, seg)) continue;
        if (seg->copied_upto != 0) begun = seg;
        if (best == NULL || seg->live_bytes < best->live_bytes) best = seg;
        if (oldest == NULL || seg->surveyed_ns < oldest->surveyed_ns) oldest = seg;
    }
    if (best == NULL) return NULL;
    u32 percent = live_percent(best, best->live_bytes);
    bool fresh = best->surveyed_ns == 0 || s->now_ns > best->surveyed_ns + NS_PER_S;
    // Without a segment to copy into only what is dead altogether helps.
    if (s->spare_count == 0) {
        if (best->live_bytes <= 0 && fresh) return best;
        return oldest->surveyed_ns == 0 || s->now_ns > oldest->surveyed_ns + NS_PER_S ? oldest : NULL;
    }
    if (begun != NULL) return begun;
    if (percent == 0 && fresh) return best;
    if (half && percent <= COPY_PERCENT && fresh) return best;
    if (is_short && percent <= COPY_PERCENT_SHORT && fresh) return best;
    u64 pause_ns = is_short ? NS_PER_S : SURVEY_NS;
    return oldest->surveyed_ns == 0 || s->now_ns > oldest->surveyed_ns + pause_ns ? oldest : NULL;
}

static bool is_live(const store *s, const store_record *r) {
    const store_keeper *k = &s->keepers[r->kind];
    if ((r->flags & STORE_KEEP) == 0) return false;
    return k->is_live == NULL ? true : k->is_live(k->context, r); // a kind without a keeper: nobody may drop it
}

// 0, or why not now.
static int copy_one(store *s, const record_view *view) {
    const store_record *r = &view->record;
    record_moved moved = {.origin = r->origin, .from = r->pos};
    struct iovec part = {.iov_base = (void *)(uintptr_t)r->data, .iov_len = r->len};
    moved_entry rest = s->moved.rest;
    store_pos to, behind = r->pos + view->size;
    int result = store_put(s, r->kind, RECORD_KEEP | RECORD_MOVED, STORE_VITAL | STORE_LAST, META_NONE, &moved,
                           r->time_ms, &part, 1, &to);
    if (result < 0) return result;
    // A copy that stands behind it in the victim is found there until its turn comes, whatever lies between.
    if (view->from != 0) moved_rest(&s->moved, r->origin + 1, behind);
    else if (segment_at(s, rest.to) == s->victim) moved_rest(&s->moved, rest.origin, behind);
    counter_add(&s->metrics.copied_records, 1);
    counter_add(&s->metrics.copied_bytes, r->len);
    keeper_moved(s, r, to);
    return 0;
}

static void ended(store *s, u64 pause_ns) {
    s->victim = NULL;
    s->reclaim_phase = RECLAIM_IDLE;
    s->reclaim_next_ns = s->now_ns + pause_ns;
}

// Counted: is it worth copying?
static void counted(store *s) {
    segment *seg = s->victim;
    seg->live_bytes = s->reclaim_live;
    seg->surveyed_ns = s->now_ns;
    segments_account(s);
    u32 percent = live_percent(seg, s->reclaim_live);
    bool half = (s->segment_count + s->spare_count) * 2 > segments_max(s);
    bool pays =
        percent == 0 || (half && percent <= COPY_PERCENT) || (space_is_short(s) && percent <= COPY_PERCENT_SHORT);
    if (s->reclaim_live == 0) {
        s->reclaim_settle = 0;
        s->reclaim_phase = RECLAIM_RELEASE;
    } else if (s->spare_count > 0 && (pays || seg->copied_upto != 0)) {
        s->reclaim_at = MAX(seg->base + SEGMENT_HEAD_BYTES, seg->copied_upto);
        if (seg->copied_upto == UINT64_MAX) s->reclaim_at = seg->end;
        s->reclaim_phase = RECLAIM_COPY;
        store_trace(s, REC_LOG_RECLAIM, seg->number, 1);
    } else {
        ended(s, 10 * NS_PER_MS);
    }
}

static void copied(store *s) {
    s->victim->copied_upto = UINT64_MAX;
    s->reclaim_settle = s->tail;
    s->reclaim_phase = RECLAIM_SETTLE;
}

// A block has come: looks at its records. False: stopped for want of room, to go on at reclaim_at.
static bool block_look(store *s, const u8 *data, u32 got) {
    u32 offset = 0;
    while (offset < got && s->reclaim_at < s->victim->end) {
        record_view view;
        u32 bytes;
        record_scan_result scanned = record_scan(data + offset, got - offset, s->reclaim_at, &view, &bytes);
        if (scanned == SCAN_MORE) break;
        if (scanned == SCAN_RECORD) {
            bytes = view.size;
            if (view.record.kind != STORE_META && is_live(s, &view.record)) {
                if (s->reclaim_phase == RECLAIM_COUNT) s->reclaim_live += view.size;
                else if (copy_one(s, &view) < 0) return false;
                if (s->reclaim_phase == RECLAIM_COPY) s->victim->copied_upto = s->reclaim_at + 1;
            }
        } else if (scanned == SCAN_INVALID) {
            bytes = (u32)(RECORD_ALIGN + record_resync(data + offset + RECORD_ALIGN,
                                                       got - offset - MIN(RECORD_ALIGN, got - offset),
                                                       s->reclaim_at + RECORD_ALIGN));
        }
        offset += bytes;
        s->reclaim_at += bytes;
    }
    return true;
}

static void reclaim_arrived(read_op *r, int result) {
    store *s = r->s;
    segment *seg = s->victim;
    if (seg == NULL || s->stopping) return;
    store_pos before = s->reclaim_at;
    if (result < 0) { // a smaller piece may be readable; what is not is lost, and told
        if (r->want > BAD_BLOCK_BYTES) {
            s->reclaim_want = BAD_BLOCK_BYTES;
            return;
        }
        log_warn("log of worker %u: segment %u can not be read at %llu: %s", s->config.worker, seg->number,
                 (unsigned long long)(s->reclaim_at - seg->base), errno_name(result));
        if (s->reclaim_phase == RECLAIM_COUNT) counter_add(&s->metrics.damaged, 1);
        s->reclaim_at += MIN((u64)BAD_BLOCK_BYTES, seg->end - s->reclaim_at);
        s->reclaim_want = LIMIT_STORE_SLICE_BYTES;
        return;
    }
    bool went_on = block_look(s, r->data, r->got);
    if (!went_on) {
        if (s->spare_count == 0) ended(s, 100 * NS_PER_MS); // no place to copy to
        return;
    }
    if (s->reclaim_at == before) { // the record is longer than the block, or nothing can be read there
        u64 rest = seg->end - s->reclaim_at;
        bool longer = r->want < rest && r->got == r->want && r->want < 2 * LIMIT_STORE_RECORD_BYTES;
        if (longer) s->reclaim_want = r->want * 2;
        else s->reclaim_at = seg->end;
    } else {
        s->reclaim_want = LIMIT_STORE_SLICE_BYTES;
    }
}

static void read_more(store *s) {
    segment *seg = s->victim;
    read_op *r = &s->reclaim_read;
    if (s->reclaim_at >= seg->end) {
        if (s->reclaim_phase == RECLAIM_COUNT) counted(s);
        else copied(s);
        return;
    }
    if (s->reclaim_phase == RECLAIM_COPY && s->buffer_count > 1) return; // others go first
    r->s = s;
    r->arrived = reclaim_arrived;
    u32 want = (u32)MIN((u64)s->reclaim_want, seg->end - s->reclaim_at);
    if (!read_room(r, want)) return;
    read_start(r, seg, s->reclaim_at, want);
}

static void start(store *s) {
    s->reclaim_next_ns = s->now_ns + (space_is_short(s) ? NS_PER_S / 10 : NS_PER_S);
    if (s->checkpoint == 0 || s->checkpoint_phase != CHECKPOINT_IDLE) return;
    s->victim = choose(s);
    if (s->victim == NULL) return;
    s->reclaim_at = s->victim->base + SEGMENT_HEAD_BYTES;
    s->reclaim_live = 0;
    s->reclaim_want = LIMIT_STORE_SLICE_BYTES;
    s->reclaim_phase = RECLAIM_COUNT;
    store_trace(s, REC_LOG_RECLAIM, s->victim->number, 0);
}

void reclaim_turn(store *s) {
    if (s->reclaim_read.busy || s->stopping || s->retry_count > 0) return;
    if (s->reclaim_phase == RECLAIM_IDLE && s->now_ns >= s->reclaim_next_ns && s->started) start(s);
    switch (s->reclaim_phase) {
    case RECLAIM_IDLE:
        return;
    case RECLAIM_COUNT:
    case RECLAIM_COPY:
        read_more(s);
        return;
    case RECLAIM_SETTLE:
        if (s->durable >= s->reclaim_settle || s->buffer_count == 0) s->reclaim_phase = RECLAIM_RELEASE;
        return;
    case RECLAIM_RELEASE:
        if (s->victim->refs > 0 || s->checkpoint_phase == CHECKPOINT_BEGIN) return; // somebody still reads it
        reader_segment_gone(s);
        segment_release(s, s->victim);
        ended(s, 0);
        return;
    }
}
