// SPDX-License-Identifier: Apache-2.0
// read.c: reads on the slow lane, and single records by origin. A record is where its origin says, or was
// copied: then the table of moves names a place at most 64 KiB before it. What is not on disk yet is in a
// buffer.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

#define FETCH_FIRST_BYTES 4096u
#define FETCH_KEEP_BYTES 16384u // a larger buffer is not kept for the next
#define FETCH_FREE_MAX 32u

// --- reads ---

static int read_run(lane_op *op, disk *d) {
    read_op *r = CONTAINER_OF(op, read_op, op);
    i64 n = d->ops->read(d, r->seg->file, r->data, r->want, r->offset);
    r->got = n < 0 ? 0 : (u32)n;
    return n < 0 ? (int)n : 0;
}

static void read_done(lane_op *op, int result) {
    read_op *r = CONTAINER_OF(op, read_op, op);
    r->busy = false;
    r->seg->refs--;
    counter_add(&r->s->metrics.read_bytes, r->got);
    r->arrived(r, result);
}

bool read_room(read_op *r, u32 want) {
    if (want <= r->room) return true;
    u8 *grown = realloc(r->data, want);
    if (grown == NULL) return false;
    r->data = grown;
    r->room = want;
    return true;
}

void read_start(read_op *r, segment *seg, store_pos pos, u32 want) {
    ASSERT(!r->busy && want <= r->room);
    r->op = (lane_op){.run = read_run, .done = read_done};
    r->seg = seg;
    r->offset = pos - seg->base;
    r->want = (u32)MIN((u64)want, seg->bytes - r->offset);
    r->busy = true;
    seg->refs++;
    lane_submit(r->s->slow_lane, &r->op);
}

// --- one record ---

typedef struct fetch {
    read_op read;
    struct fetch *next;
    store_fetch_op *user; // NULL: cancelled
    store_pos origin;
    store_pos at;         // where we read
    bool search;          // a copy: looked for from `at` on
} fetch;

static fetch *fetch_take(store *s) {
    fetch *f = s->fetch_free;
    if (f != NULL) {
        s->fetch_free = f->next;
        s->fetch_free_count--;
        return f;
    }
    return calloc(1, sizeof(*f));
}

static void fetch_free(store *s, fetch *f) {
    if (f->read.room > FETCH_KEEP_BYTES || s->fetch_free_count == FETCH_FREE_MAX) {
        free(f->read.data);
        free(f);
        return;
    }
    f->next = s->fetch_free;
    s->fetch_free = f;
    s->fetch_free_count++;
}

static void fetch_end(store *s, fetch *f, int result, const store_record *r) {
    for (fetch **at = &s->fetches; *at != NULL; at = &(*at)->next) {
        if (*at != f) continue;
        *at = f->next;
        break;
    }
    s->fetch_count--;
    store_fetch_op *user = f->user;
    if (user != NULL) {
        user->internal = NULL;
        user->done(user, result, r);
    }
    fetch_free(s, f);
}

// Finds the copy in what was read. Like record_scan: SCAN_MORE with what is needed from f->at.
static record_scan_result search(const fetch *f, const u8 *data, u32 got, record_view *view, u32 *bytes) {
    u32 offset = 0;
    while (offset < LIMIT_STORE_INDEX_STEP) {
        *bytes = 0;
        record_scan_result scanned = SCAN_MORE; // padding may lead behind what was read
        if (offset < got) scanned = record_scan(data + offset, got - offset, f->at + offset, view, bytes);
        if (scanned == SCAN_MORE) {
            *bytes = offset + MAX(*bytes, LIMIT_STORE_INDEX_STEP / 4);
            return SCAN_MORE;
        }
        if (scanned == SCAN_INVALID) return SCAN_INVALID;
        if (scanned == SCAN_RECORD && view->from != 0 && view->record.origin == f->origin) return SCAN_RECORD;
        offset += scanned == SCAN_RECORD ? view->size : *bytes;
    }
    return SCAN_INVALID;
}

static record_scan_result look(const fetch *f, const u8 *data, u32 got, record_view *view, u32 *bytes) {
    return f->search ? search(f, data, got, view, bytes) : record_scan(data, got, f->at, view, bytes);
}

static void fetch_arrived(read_op *r, int result) {
    fetch *f = CONTAINER_OF(r, fetch, read);
    record_view view;
    u32 bytes;
    if (result < 0 || f->user == NULL) {
        fetch_end(r->s, f, result < 0 ? -EIO : -ECANCELED, NULL);
        return;
    }
    record_scan_result scanned = look(f, r->data, r->got, &view, &bytes);
    bool more = r->got == r->want && r->offset + r->want < r->seg->bytes;
    if (scanned == SCAN_MORE && more && bytes > r->got) {
        if (!read_room(r, bytes)) fetch_end(r->s, f, -EIO, NULL);
        else read_start(r, r->seg, f->at, bytes);
        return;
    }
    if (scanned != SCAN_RECORD) fetch_end(r->s, f, scanned == SCAN_DAMAGED ? -EIO : -ENOENT, NULL);
    else fetch_end(r->s, f, 0, &view.record);
}

// Finds the copy in what is not on disk yet. Its run may have begun in an earlier batch than its own: on disk, or in
// another buffer.
static bool search_memory(store *s, const fetch *f, record_view *view) {
    store_pos at = f->at, end = f->at + LIMIT_STORE_INDEX_STEP;
    const u8 *data;
    size_t available;
    while (at < end && (data = store_in_memory_next(s, at, &at, &available)) != NULL && at < end) {
        for (size_t offset = 0; offset < available;) {
            u32 bytes = 0;
            record_scan_result scanned = record_scan(data + offset, available - offset, at + offset, view, &bytes);
            if (scanned != SCAN_RECORD && scanned != SCAN_PADDING) break;
            if (scanned == SCAN_RECORD && view->from != 0 && view->record.origin == f->origin) return true;
            offset += scanned == SCAN_RECORD ? view->size : bytes;
        }
        at += available;
    }
    return false;
}

// Where the record lies: a place in a segment, or one to search from.
static segment *place_of(store *s, store_pos origin, store_pos *at, bool *is_copy) {
    segment *seg = segment_at(s, origin);
    *at = origin;
    *is_copy = false;
    if (seg != NULL && origin < MAX(seg->end, seg == s->active ? s->tail : 0)) return seg;
    const moved_entry *e = moved_find(&s->moved, origin);
    if (e == NULL) return NULL;
    *at = e->to;
    *is_copy = true;
    return segment_at(s, e->to);
}

int store_fetch(store *s, store_fetch_op *op, store_record *r) {
    fetch probe = {.origin = op->origin};
    record_view view;
    u32 bytes;
    size_t available;
    op->internal = NULL;
    op->next = NULL;
    counter_add(&s->metrics.fetches, 1);
    segment *seg = place_of(s, op->origin, &probe.at, &probe.search);
    // What waits to be written again is found by its old place.
    const u8 *memory = store_in_memory(s, op->origin, &available);
    if (memory != NULL && record_scan(memory, available, op->origin, &view, &bytes) == SCAN_RECORD) {
        *r = view.record;
        return 1;
    }
    if (seg == NULL) return -ENOENT;
    if (probe.search && search_memory(s, &probe, &view)) {
        *r = view.record;
        return 1;
    }
    if (s->fetch_count == LIMIT_STORE_FETCHES) return -EAGAIN;
    fetch *f = fetch_take(s);
    u32 want = record_size(op->len_hint);
    if (op->len_hint == 0) want = FETCH_FIRST_BYTES;
    if (probe.search) want = LIMIT_STORE_INDEX_STEP / 4;
    if (f == NULL) return -EAGAIN;
    f->read.s = s;
    if (!read_room(&f->read, want)) {
        fetch_free(s, f);
        return -EAGAIN;
    }
    f->read.arrived = fetch_arrived;
    f->user = op;
    f->origin = op->origin;
    f->at = probe.at;
    f->search = probe.search;
    f->next = s->fetches;
    s->fetches = f;
    s->fetch_count++;
    op->internal = f;
    read_start(&f->read, seg, f->at, want);
    return 0;
}

void store_fetch_cancel(store *s, store_fetch_op *op) {
    (void)s;
    fetch *f = op->internal;
    if (f == NULL) return;
    f->user = NULL; // the read under way ends by itself
    op->internal = NULL;
}

void fetches_cancel(store *s) {
    for (fetch *f = s->fetches; f != NULL; f = f->next) {
        if (f->user != NULL) store_fetch_cancel(s, f->user);
    }
}

void fetches_end(store *s) {
    while (s->fetch_free != NULL) {
        fetch *f = s->fetch_free;
        s->fetch_free = f->next;
        free(f->read.data);
        free(f);
    }
    s->fetch_free_count = 0;
}
