// SPDX-License-Identifier: Apache-2.0
// checkpoint.c: the present state of every keeper, appended in slices between ordinary records, so that a start
// reads from there on only, and what lies before is needed for its kept records alone. It counts when its
// META_COMPLETE is on disk, which is appended when all the rest is: a torn end can never leave a checkpoint
// that lacks a part.
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/internal.h"

#define MOVED_PIECE 65536u // entries in one record
#define PAUSE_NS (10 * NS_PER_MS)

static bool due(const store *s) {
    if (s->active == NULL || s->stopping || s->converting || s->retry_count > 0 || s->dying_count > 0) return false;
    if (s->converted) return s->now_ns >= s->checkpoint_retry_ns;
    u64 since = counter_get(&s->metrics.written_bytes) - s->checkpoint_started_bytes;
    if (since >= MAX((u64)LIMIT_STORE_CHECKPOINT_BYTES, 4 * s->checkpoint_last_bytes)) return true;
    // Space runs short: segments since the last checkpoint may be free once there is another.
    u32 used = s->segment_count + s->spare_count;
    bool short_of_space = used * 2 > segments_max(s) || s->spare_error != 0;
    return short_of_space && since > 0 &&
           (s->segment_count > 1 && s->segments[s->segment_count - 1]->base > s->checkpoint) &&
           s->now_ns >= s->checkpoint_retry_ns;
}

static int append_table(store *s, meta_type type, const void *data, size_t bytes) {
    store_pos ignored;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    return store_put(s, STORE_META, 0, STORE_VITAL | STORE_LAST, type, NULL, s->now_ms, &part, 1, &ignored);
}

static int append_segments(store *s) {
    u32 count = s->segment_count;
    segment_entry *table = malloc(sizeof(*table) * (count + 1));
    if (table == NULL) return -EAGAIN;
    for (u32 i = 0; i < count; i++) {
        const segment *seg = s->segments[i];
        table[i] = (segment_entry){.base = seg->base, .end = seg == s->active ? 0 : seg->end,
                                   .live_bytes = (u64)MAX(seg->live_bytes, 0), .copied_upto = seg->copied_upto};
    }
    int result = append_table(s, META_SEGMENTS, table, sizeof(*table) * count);
    free(table);
    return result;
}

// The log's own state, as it is at this very place.
static int begin(store *s) {
    store_pos start;
    int result =
        store_put(s, STORE_META, 0, STORE_VITAL | STORE_LAST, META_CHECKPOINT, NULL, s->now_ms, NULL, 0, &start);
    if (result == 0) result = append_segments(s); // empties the table of moves at a start
    for (u32 at = 0; result == 0 && at < s->moved.count; at += MOVED_PIECE) {
        u32 count = MIN(s->moved.count - at, MOVED_PIECE);
        result = append_table(s, META_MOVED, &s->moved.entries[at], sizeof(moved_entry) * count);
    }
    // More copies come out of other logs, also at the start that reads this.
    for (u32 at = 0; result == 0 && s->converting && at < s->moved.count; at += MOVED_PIECE) {
        u32 count = MIN(s->moved.count - at, MOVED_PIECE);
        result = append_table(s, META_MOVED_LASTS, &s->moved.lasts[at], sizeof(u64) * count);
    }
    if (result < 0) return result;
    s->checkpoint_next = start;
    s->checkpoint_started_bytes = counter_get(&s->metrics.written_bytes);
    return 0;
}

static void keepers_slice(store *s) {
    while (s->checkpoint_kind < STORE_META) {
        const store_keeper *k = &s->keepers[s->checkpoint_kind];
        if (k->checkpoint != NULL) {
            bool first = s->checkpoint_begin;
            s->checkpoint_begin = false;
            s->in_checkpoint = true;
            bool finished = k->checkpoint(k->context, first, LIMIT_STORE_SLICE_BYTES);
            s->in_checkpoint = false;
            if (!finished) return;
        }
        s->checkpoint_kind++;
        s->checkpoint_begin = true;
    }
    s->checkpoint_settle = s->tail;
    s->checkpoint_phase = CHECKPOINT_SETTLE;
}

static void append_complete(store *s) {
    struct iovec part = {.iov_base = &s->checkpoint_next, .iov_len = sizeof(s->checkpoint_next)};
    int result = store_put(s, STORE_META, 0, STORE_VITAL | STORE_LAST, META_COMPLETE, NULL, s->now_ms, &part, 1,
                           &s->checkpoint_settle);
    if (result == 0) s->checkpoint_phase = CHECKPOINT_COMMIT;
}

static void complete(store *s) {
    s->checkpoint = s->checkpoint_next;
    s->checkpoint_phase = CHECKPOINT_IDLE;
    s->converted = false;
    store_trace(s, REC_LOG_CHECKPOINT, 0, 0);
    s->checkpoint_last_bytes = counter_get(&s->metrics.written_bytes) - s->checkpoint_started_bytes;
    counter_add(&s->metrics.checkpoints, 1);
    counter_add(&s->metrics.checkpoint_bytes, s->checkpoint_last_bytes);
    s->reclaim_next_ns = s->now_ns;
}

void checkpoint_abort(store *s) {
    if (s->checkpoint_phase > CHECKPOINT_BEGIN) store_trace(s, REC_LOG_CHECKPOINT, -ECANCELED, 0);
    s->checkpoint_phase = CHECKPOINT_IDLE;
}

void checkpoint_turn(store *s) {
    switch (s->checkpoint_phase) {
    case CHECKPOINT_IDLE:
        if (due(s)) s->checkpoint_phase = CHECKPOINT_BEGIN;
        return;
    case CHECKPOINT_BEGIN:
        // Its tables are one piece: only when nothing else fills the buffers.
        if (s->buffer_count > 1 || s->dying_count > 0) return;
        if (begin(s) < 0) {
            s->checkpoint_phase = CHECKPOINT_IDLE;
            s->checkpoint_retry_ns = s->now_ns + LIMIT_STORE_RETRY_MS * NS_PER_MS;
            return;
        }
        s->checkpoint_kind = STORE_NONE + 1;
        s->checkpoint_begin = true;
        s->checkpoint_phase = CHECKPOINT_KEEPERS;
        store_trace(s, REC_LOG_CHECKPOINT, 1, 0);
        return;
    case CHECKPOINT_KEEPERS:
        // Ordinary records go first: a slice only while at most one commit waits.
        if (s->buffer_count == LIMIT_STORE_BUFFERS || s->now_ns < s->checkpoint_pause_ns) return;
        store_pos before = s->tail;
        keepers_slice(s);
        // A log that takes nothing is not asked again at once: that would turn the owner's loop for nothing.
        if (s->tail == before && s->checkpoint_phase == CHECKPOINT_KEEPERS) {
            s->checkpoint_pause_ns = s->now_ns + PAUSE_NS;
        }
        return;
    case CHECKPOINT_SETTLE:
        if (s->durable >= s->checkpoint_settle || s->buffer_count == 0) append_complete(s);
        return;
    case CHECKPOINT_COMMIT:
        if (store_is_durable(s, s->checkpoint_settle)) complete(s);
        return;
    }
}

// --- conversion: a checkpoint that consists of copied records ---

static int begin_again(store *s) {
    for (u32 tries = 0; tries < 64; tries++) {
        int result = begin(s);
        if (result != -EAGAIN) return result;
        while (store_step(s)) {
        }
        store_turn(s, clock_mono_ns());
    }
    return -EIO;
}

int checkpoint_convert_begin(store *s) {
    int result = store_flush(s, 60000);
    s->converting = true; // no checkpoint and no reclaim of its own until it is complete
    return result == 0 ? begin_again(s) : result;
}

int checkpoint_converted(store *s) {
    struct iovec part = {.iov_base = &s->checkpoint_next, .iov_len = sizeof(s->checkpoint_next)};
    store_pos ignored;
    return store_put(s, STORE_META, 0, STORE_VITAL | STORE_LAST, META_COMPLETE, NULL, s->now_ms, &part, 1, &ignored);
}
