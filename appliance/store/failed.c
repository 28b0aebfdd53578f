// SPDX-License-Identifier: Apache-2.0
// failed.c: after a write or a sync that failed. The kernel may have dropped the pages and called them clean,
// so that a second fdatasync would say "done" for data that is gone: that segment is left for good, as it was
// before that commit. What was not on disk is still in the buffers: it is appended again, in order, to a new
// segment, as copies that keep their origin. Until all of it is on disk nothing else is taken; nothing is
// acknowledged that is not.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/internal.h"

// A segment of which nothing was ever durable is removed; the next head names the one before it, so that a
// start knows.
static void segment_abandon(store *s, segment *seg) {
    if (seg == s->active) s->active = NULL;
    if (seg->end > seg->base + SEGMENT_HEAD_BYTES) {
        s->rolled = seg;
        seg->index_pos = 0;
        return;
    }
    seg->bad = true;
    if (seg->refs == 0 && !seg->dying) segment_release(s, seg);
}

static void buffers_detach(store *s) {
    for (u32 i = 0; i < s->buffer_count; i++) {
        u32 at = (s->buffer_first + i) % LIMIT_STORE_BUFFERS;
        s->retry[i] = s->buffers[at];
        s->buffers[at].memory = NULL;
    }
    s->retry_count = s->buffer_count;
    for (u32 i = 0; i < LIMIT_STORE_BUFFERS; i++) {
        if (s->buffers[i].memory != NULL) {
            buffer only[LIMIT_STORE_BUFFERS] = {s->buffers[i]};
            buffers_unmap(only);
        }
    }
    s->retry_done = 0;
}

void store_write_failed(store *s, int result) {
    segment *bad = s->buffers[s->buffer_first].seg;
    s->failures++;
    counter_add(&s->metrics.commit_failures, 1);
    log_error("log of worker %u: segment %u: write or sync failed: %s; it is left, and what was not on disk goes "
              "to a new one",
              s->config.worker, bad->number, errno_name(result));
    s->retry_ns = s->now_ns + (s->failures > 1 ? LIMIT_STORE_RETRY_MS * NS_PER_MS : 0);
    if (s->failures > 1) store_state_set(s, STORE_STATE_FAILED, "segment %u: %s", bad->number, errno_name(result));
    checkpoint_abort(s);
    // Buffers may belong to two segments when one had just been rolled; the later one has nothing durable.
    for (u32 i = 0; i < s->buffer_count; i++) {
        segment *seg = s->buffers[(s->buffer_first + i) % LIMIT_STORE_BUFFERS].seg;
        if (seg == bad) seg->index_pos = 0;
        bool seen = i > 0 && seg == s->buffers[(s->buffer_first + i - 1) % LIMIT_STORE_BUFFERS].seg;
        if (!seen) segment_abandon(s, seg);
    }
    if (s->active != NULL) { // begun, but nothing was put into it yet
        segment *unused = s->active;
        segment_abandon(s, unused);
        if (bad->end > bad->base + SEGMENT_HEAD_BYTES) s->rolled = bad;
    }
    if (s->retry_count == 0) {
        buffers_detach(s);
        if (buffers_map(s) < 0) {
            // No memory to do it in: what is acknowledged is safe, what is not is told.
            log_error("log of worker %u: no memory to write again; what was not acknowledged is lost",
                      s->config.worker);
            buffers_unmap(s->retry);
            s->retry_count = 0;
            store_state_set(s, STORE_STATE_FAILED, "%s", "no memory for buffers");
            store_waiters_run(s, -EIO);
        }
    }
    s->buffer_first = s->buffer_count = 0;
    s->retry_at = s->retry_offset = 0;
}

// Appends one record of the old buffers again. 0, or why not now.
static int again(store *s, buffer *old, u32 *size) {
    record_view view;
    const u8 *at = old->memory + SEGMENT_HEAD_BYTES + s->retry_offset;
    store_pos pos = old->start + s->retry_offset;
    record_scan_result scanned = record_scan(at, old->used - s->retry_offset, pos, &view, size);
    ASSERT(scanned == SCAN_RECORD); // our own memory
    *size = view.size;
    const store_record *r = &view.record;
    if (r->kind == STORE_META || pos < s->retry_done) return 0;
    // A copy that reclaim made keeps the place it was made from: that segment is still there.
    record_moved moved = {.origin = r->origin, .from = view.from != 0 ? view.from : pos};
    struct iovec part = {.iov_base = (void *)(uintptr_t)r->data, .iov_len = r->len};
    store_pos ignored;
    moved_entry rest = s->moved.rest;
    int result = store_put(s, r->kind, (r->flags & STORE_KEEP ? RECORD_KEEP : 0u) | RECORD_MOVED,
                           STORE_VITAL | STORE_LAST, META_NONE, &moved, r->time_ms, &part, 1, &ignored);
    if (result < 0) return result;
    moved_rest(&s->moved, rest.origin, rest.to);
    buffer_open(s)->retry_upto = pos + view.size;
    keeper_moved(s, r, ignored);
    return 0;
}

static void retry_ended(store *s) {
    buffers_unmap(s->retry);
    s->retry_count = 0;
    s->durable = MAX(s->durable, s->active != NULL ? s->active->end : s->tail);
    store_state_set(s, STORE_STATE_OK, "%s", "");
    store_waiters_run(s, 0);
    store_wake_readers(s);
    store_wake_room(s);
}

void store_retry_turn(store *s) {
    if (s->now_ns < s->retry_ns) return;
    while (s->retry_at < s->retry_count) {
        buffer *old = &s->retry[s->retry_at];
        if (s->retry_offset >= old->used) {
            s->retry_at++;
            s->retry_offset = 0;
            continue;
        }
        u32 size;
        if (again(s, old, &size) < 0) {
            s->retry_ns = s->buffer_count > 0 ? s->now_ns : s->now_ns + 10 * NS_PER_MS;
            return;
        }
        s->retry_offset += size;
    }
    if (s->buffer_count == 0 && !s->committing) retry_ended(s);
}
