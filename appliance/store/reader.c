// SPDX-License-Identifier: Apache-2.0
// reader.c: the log in the order of origins: what still lies where it was appended, and, in the place of a
// segment that is gone, its survivors, wherever they were copied to. Copies met on the way are skipped: they
// are read in their own place.
//
// A reader holds one block. It reads ahead nothing while nobody asks; the kernel's page cache usually has what
// was just written.
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/internal.h"

struct store_reader {
    read_op read;
    store *s;
    store_reader *next;
    store_pos at;         // the next origin to be given is at or after this
    // The stretch of the log that is read now: a segment itself, or a run of copies.
    segment *seg;         // NULL: to be chosen
    bool copies;
    store_pos place;      // next place in it
    store_pos limit;      // the stretch ends there
    store_pos run_end;    // copies: where the run ends at the latest
    store_pos origin_end; // and: origins at or above belong to a later run
    // The block.
    store_pos block;      // position of its first byte
    u32 block_bytes;      // 0: none
    bool closed, waiting, failed;
    void (*ready)(void *context);
    void *context;
};

static void reader_free(store_reader *rd) {
    free(rd->read.data);
    free(rd);
}

static void block_arrived(read_op *r, int result) {
    store_reader *rd = CONTAINER_OF(r, store_reader, read);
    if (rd->closed) {
        reader_free(rd);
        return;
    }
    if (result < 0 || r->got == 0) rd->failed = true;
    rd->block = r->seg->base + r->offset;
    rd->block_bytes = r->got;
    if (rd->waiting) {
        rd->waiting = false;
        rd->ready(rd->context);
    }
}

store_reader *store_reader_open(store *s, store_pos from, void (*ready)(void *context), void *context) {
    store_reader *rd = calloc(1, sizeof(*rd));
    if (rd == NULL) return NULL;
    rd->s = s;
    rd->read.s = s;
    rd->read.arrived = block_arrived;
    rd->ready = ready;
    rd->context = context;
    rd->next = s->readers;
    s->readers = rd;
    store_reader_seek(rd, from);
    return rd;
}

void store_reader_seek(store_reader *rd, store_pos from) {
    rd->at = from;
    rd->seg = NULL;
}

void store_reader_close(store_reader *rd) {
    for (store_reader **at = &rd->s->readers; *at != NULL; at = &(*at)->next) {
        if (*at != rd) continue;
        *at = rd->next;
        break;
    }
    rd->closed = true;
    if (!rd->read.busy) reader_free(rd);
}

// A segment is freed: whoever reads it chooses anew, by origin.
void reader_segment_gone(store *s) {
    for (store_reader *rd = s->readers; rd != NULL; rd = rd->next) {
        rd->seg = NULL;
        rd->block_bytes = 0;
    }
}

void store_wake_readers(store *s) {
    for (store_reader *rd = s->readers, *next; rd != NULL; rd = next) {
        next = rd->next;
        if (!rd->waiting || rd->read.busy) continue;
        rd->waiting = false;
        rd->ready(rd->context);
    }
}

static store_pos segment_limit(const store *s, const segment *seg) {
    return MIN(seg->end, s->durable > seg->base ? s->durable : seg->base);
}

// Whether what was first appended at pos would lie there: not behind the end of a segment that a failed write
// ended early.
static bool covers(const store *s, const segment *seg, store_pos pos) {
    return pos < seg->end || seg == s->active;
}

static segment *segment_from(const store *s, store_pos pos) {
    for (u32 i = 0; i < s->segment_count; i++) {
        segment *seg = s->segments[i]; // a log has some tens
        if (!seg->dying && (seg->base > pos || (pos < seg->base + seg->bytes && covers(s, seg, pos)))) return seg;
    }
    return NULL;
}

// Positions before `next_base` that no segment covers: the run of copies that may hold rd->at, else the next one.
static bool run_choose(store_reader *rd, store_pos next_base) {
    store *s = rd->s;
    while (rd->at < next_base) {
        const moved_entry *run = moved_find(&s->moved, rd->at);
        const segment *own = run != NULL ? segment_at(s, run->origin) : NULL;
        if (run == NULL || (own != NULL && covers(s, own, run->origin))) run = moved_from(&s->moved, rd->at);
        if (run == NULL || run->origin >= next_base) return false;
        const moved_entry *after = moved_from(&s->moved, run->origin + 1);
        rd->origin_end = MIN(after != NULL ? after->origin : UINT64_MAX, next_base);
        rd->at = MAX(rd->at, run->origin);
        rd->seg = segment_at(s, run->to);
        if (rd->seg != NULL) {
            rd->copies = true;
            rd->place = run->to;
            rd->run_end = run->to + LIMIT_STORE_INDEX_STEP;
            rd->limit = MIN(segment_limit(s, rd->seg), rd->run_end);
            return true;
        }
        rd->at = rd->origin_end; // that segment is being freed: all in it was dead
    }
    return false;
}

// Chooses what holds the least origin at or after rd->at. False: there is nothing now.
static bool stretch_choose(store_reader *rd) {
    store *s = rd->s;
    segment *seg = segment_from(s, rd->at);
    store_pos next_base = seg != NULL ? MAX(seg->base, rd->at) : s->next_base;
    if (run_choose(rd, next_base)) return true;
    if (seg == NULL) return false;
    rd->at = MAX(rd->at, seg->base);
    rd->seg = seg;
    rd->copies = false;
    // "After that record" is one more than where it lies: it is read once more, and not given.
    rd->place = MAX(rd->at & ~(store_pos)(RECORD_ALIGN - 1), seg->base + SEGMENT_HEAD_BYTES);
    rd->limit = segment_limit(s, seg);
    return true;
}

// The stretch is read: on to the next. False: nothing more is durable.
static bool stretch_next(store_reader *rd) {
    store *s = rd->s;
    segment *seg = rd->seg;
    store_pos limit = MIN(segment_limit(s, seg), rd->copies ? rd->run_end : UINT64_MAX);
    if (rd->place < limit) { // it has grown
        rd->limit = limit;
        return true;
    }
    if (rd->copies) {
        if (rd->place < rd->run_end && seg == s->active && s->durable < s->tail) return false;
        rd->at = MAX(rd->at, rd->origin_end);
    } else {
        if (seg == s->active || limit < seg->end) return false;
        rd->at = MAX(rd->at, seg->end);
    }
    rd->seg = NULL;
    return stretch_choose(rd);
}

static int block_read(store_reader *rd, u32 want) {
    if (!read_room(&rd->read, MAX(want, LIMIT_STORE_READ_BYTES))) return -EIO;
    u64 bytes =
        MIN((u64)MAX(want, LIMIT_STORE_READ_BYTES), rd->copies ? rd->seg->end - rd->place : rd->limit - rd->place);
    rd->block_bytes = 0;
    rd->waiting = true;
    read_start(&rd->read, rd->seg, rd->place, (u32)bytes);
    return 0;
}

static int damaged(store_reader *rd, u64 bytes) {
    counter_add(&rd->s->metrics.damaged, 1);
    counter_add(&rd->s->metrics.damaged_bytes, bytes);
    log_warn("log of worker %u: segment %u is damaged at %llu: %llu bytes skipped", rd->s->config.worker,
             rd->seg->number, (unsigned long long)(rd->place - rd->seg->base), (unsigned long long)bytes);
    rd->place += bytes;
    return -EIO;
}

// Whether the record is one to be given now.
static bool is_wanted(const store_reader *rd, const record_view *view) {
    if (view->record.kind == STORE_META) return false;
    if (!rd->copies) return view->from == 0 && view->record.pos >= rd->at;
    return view->from != 0 && record_is_placed(rd->s, view) && view->record.origin >= rd->at &&
           view->record.origin < rd->origin_end;
}

int store_reader_next(store_reader *rd, store_record *r) {
    if (rd->read.busy) return 0;
    if (rd->failed) {
        rd->failed = false;
        u64 rest = rd->seg != NULL ? rd->limit - rd->place : 0;
        return rd->seg != NULL ? damaged(rd, MIN(rest, (u64)LIMIT_STORE_READ_BYTES)) : -EIO;
    }
    if (rd->seg == NULL && !stretch_choose(rd)) {
        rd->waiting = true;
        return 0;
    }
    for (;;) {
        if (rd->place >= rd->limit && !stretch_next(rd)) {
            rd->waiting = true;
            return 0;
        }
        if (rd->place >= rd->limit) continue;
        bool in_block = rd->block_bytes > 0 && rd->read.seg == rd->seg && rd->place >= rd->block &&
                        rd->place < rd->block + rd->block_bytes;
        if (!in_block) {
            int result = block_read(rd, 0);
            return result;
        }
        u32 offset = (u32)(rd->place - rd->block), bytes;
        record_view view;
        record_scan_result scanned =
            record_scan(rd->read.data + offset, rd->block_bytes - offset, rd->place, &view, &bytes);
        bool can_read_more = rd->place + bytes <= rd->seg->end && (offset > 0 || rd->read.want < bytes);
        if (scanned == SCAN_MORE && can_read_more) return block_read(rd, bytes);
        if (scanned == SCAN_PADDING) rd->place += bytes;
        else if (scanned == SCAN_DAMAGED) return damaged(rd, bytes);
        else if (scanned != SCAN_RECORD) {
            size_t skip =
                record_resync(rd->read.data + offset + RECORD_ALIGN,
                              rd->block_bytes - offset < RECORD_ALIGN ? 0 : rd->block_bytes - offset - RECORD_ALIGN,
                              rd->place + RECORD_ALIGN);
            return damaged(rd, MIN(skip + RECORD_ALIGN, rd->limit - rd->place));
        } else {
            rd->place += view.size;
            bool is_copy = view.from != 0 && record_is_placed(rd->s, &view);
            if (rd->copies && is_copy && view.record.origin >= rd->origin_end) rd->place = rd->limit = rd->run_end;
            if (!is_wanted(rd, &view)) continue;
            rd->at = view.record.origin + 1;
            *r = view.record;
            return 1;
        }
    }
}
