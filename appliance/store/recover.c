// SPDX-License-Identifier: Apache-2.0
// recover.c: the start. Finds the newest complete checkpoint, reads from there to the end, gives every record
// to its keeper, and always ends with a log that can be appended to: a torn end is cut (the next segment's head
// says where), damage is skipped, counted and set aside, a file that can not be understood is moved away.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/files.h"
#include "store/internal.h"
#include "store/scan.h"

typedef struct recovery {
    store *s;
    segment_files files;
    store_pos checkpoint;      // replay begins there
    store_pos checkpoint_seen; // the last META_CHECKPOINT met
    bool clean;                // the last record is META_END
    bool torn;                 // and something unfinished stood behind the end
    u64 quarantine_budget;
} recovery;

static void set_aside(recovery *rc, const segment_file *f, const char *why) {
    store *s = rc->s;
    if (f->file >= 0) s->disk->ops->close(s->disk, f->file);
    int result = quarantine_file(s->disk, s->dir, f->number);
    counter_add(&s->metrics.quarantined, 1);
    log_error("log of worker %u: segment %u: %s; %s", s->config.worker, f->number, why,
              result == 0 ? "moved to quarantine" : errno_name(result));
}

static void take_spare(recovery *rc, const segment_file *f) {
    store *s = rc->s;
    // What was given up still has a head that says LIVE: it may not stay.
    if (!f->abandoned && f->bytes == s->config.segment_bytes && s->spare_count < SPARES_MAX) {
        s->spares[s->spare_count++] = (spare){.number = f->number, .file = f->file, .reused = f->state == HEAD_FREE};
        return;
    }
    char path[PATH_BYTES];
    segment_path(s->dir, f->number, path);
    s->disk->ops->close(s->disk, f->file);
    s->disk->ops->unlink(s->disk, path);
}

static bool take_live(recovery *rc, const segment_file *f) {
    store *s = rc->s;
    segment *seg = calloc(1, sizeof(*seg));
    if (seg == NULL) return false;
    u64 bytes = f->state == HEAD_LIVE ? f->head.bytes : align_up_u64(f->bytes, SEGMENT_UNIT_BYTES);
    *seg =
        (segment){.base = f->base, .bytes = bytes, .number = f->number, .file = f->file, .index_pos = f->index_pos};
    seg->end = f->end != 0 ? MIN(f->end, seg->base + seg->bytes) : 0;
    seg->first_ms = f->state == HEAD_LIVE ? f->head.created_ms : 0;
    seg->live_bytes = (i64)(seg->end != 0 ? seg->end - seg->base : seg->bytes);
    if (segment_add(s, seg)) return true;
    free(seg);
    return false;
}

// A file that can not be opened for a reason that is not its own, and may pass: no right to it, no descriptors, no
// memory. Nothing may be given up for that, and nothing begun without it. 0 or that error.
static int openable(const recovery *rc) {
    for (u32 i = 0; i < rc->files.count; i++) {
        const segment_file *f = &rc->files.list[i];
        bool passing = f->error == -EACCES || f->error == -EPERM || f->error == -EMFILE || f->error == -ENFILE ||
                       f->error == -ENOMEM;
        if (f->file >= 0 || !passing) continue;
        log_error("log of worker %u: %s: segment %u can not be opened: %s", rc->s->config.worker, rc->s->dir, f->number,
                  errno_name(f->error));
        return f->error;
    }
    return 0;
}

static int take_files(recovery *rc) {
    store *s = rc->s;
    int result = openable(rc);
    if (result < 0) return result;
    for (u32 i = 0; i < rc->files.count; i++) {
        const segment_file *f = &rc->files.list[i];
        bool ours = f->base >> LOG_NUMBER_SHIFT == s->config.log_number;
        if (f->state == HEAD_FREE) s->next_base = MAX(s->next_base, f->head.base + f->head.bytes);
        if (f->base != 0 && ours)
            s->next_base = MAX(s->next_base, f->base + align_up_u64(f->bytes, SEGMENT_UNIT_BYTES));
        if (f->state == HEAD_LIVE && ours) s->next_base = MAX(s->next_base, f->base + f->head.bytes);
        if (f->file < 0) set_aside(rc, f, errno_name(f->error));
        else if (f->state == HEAD_FREE || f->state == HEAD_EMPTY || f->abandoned) take_spare(rc, f);
        else if (f->base == 0) set_aside(rc, f, "neither a head nor a record in it can be read");
        else if (!ours) set_aside(rc, f, "it belongs to another log");
        else if (i > 0 && f->base == rc->files.list[i - 1].base)
            set_aside(rc, f, "there is another one of the same position");
        else if (!take_live(rc, f)) return -ENOMEM;
    }
    return 0;
}

static void damage(recovery *rc, segment *seg, const scan *sc) {
    store *s = rc->s;
    counter_add(&s->metrics.damaged, 1);
    counter_add(&s->metrics.damaged_bytes, sc->to - sc->from);
    counter_add(&s->metrics.quarantined, 1);
    quarantine_bytes(s->disk, s->dir, seg, sc->from, sc->to, &rc->quarantine_budget);
    log_error("log of worker %u: segment %u: %llu bytes at %llu are damaged: skipped, a copy is in quarantine",
              s->config.worker, seg->number, (unsigned long long)(sc->to - sc->from),
              (unsigned long long)(sc->from - seg->base));
}

// --- the newest checkpoint ---

static void end_found(recovery *rc, segment *seg, const scan *sc) {
    store *s = rc->s;
    seg->end = sc->from;
    if (sc->to == sc->from) return;
    rc->torn = true;
    counter_add(&s->metrics.tail_cut_bytes, sc->to - sc->from);
    quarantine_bytes(s->disk, s->dir, seg, sc->from, sc->to, &rc->quarantine_budget);
    log_warn("log of worker %u: segment %u: a commit was not finished: cut at %llu", s->config.worker, seg->number,
             (unsigned long long)(sc->from - seg->base));
}

// Heads name the one that was complete when their segment was begun; a newer one may have ended in the segments
// since.
static int find_checkpoint(recovery *rc) {
    store *s = rc->s;
    u32 index;
    rc->checkpoint = segment_files_checkpoint(&rc->files, &index);
    store_pos from = rc->files.with_base > 0 ? rc->files.list[index].base : 0;
    for (u32 i = 0; i < s->segment_count; i++) {
        segment *seg = s->segments[i];
        if (seg->base < from) continue;
        scan sc;
        record_view view;
        scan_what what;
        int result =
            scan_begin(&sc, s->disk, seg->file, seg->base, seg->bytes, seg->base + SEGMENT_HEAD_BYTES, seg->end);
        if (result < 0) return result;
        while ((what = scan_next(&sc, &view)) != SCANNED_END) {
            if (what != SCANNED_RECORD || view.type != META_COMPLETE || view.record.len != sizeof(u64)) continue;
            u64 begin;
            memcpy(&begin, view.record.data, sizeof(begin));
            rc->checkpoint = MAX(rc->checkpoint, begin);
        }
        if (!sc.end_known) end_found(rc, seg, &sc);
        scan_end(&sc);
    }
    if (rc->checkpoint != 0 && segment_at(s, rc->checkpoint) == NULL) {
        log_error("log of worker %u: the segment with the last checkpoint is missing: reading all there is",
                  s->config.worker);
        rc->checkpoint = 0;
    }
    s->checkpoint = rc->checkpoint;
    return 0;
}

// --- replay ---

static void take_segments(store *s, const store_record *r) {
    for (u32 at = 0; at + sizeof(segment_entry) <= r->len; at += sizeof(segment_entry)) {
        segment_entry e;
        memcpy(&e, r->data + at, sizeof(e));
        segment *seg = segment_at(s, e.base);
        if (seg == NULL || seg->base != e.base) continue;
        if (seg->end == 0 && e.end > e.base && e.end <= seg->base + seg->bytes) seg->end = e.end;
        seg->live_bytes = (i64)MIN(e.live_bytes, seg->bytes);
        seg->copied_upto = e.copied_upto;
    }
    moved_free(&s->moved);
}

static void take_moved(store *s, const store_record *r) {
    for (u32 at = 0; at + sizeof(moved_entry) <= r->len; at += sizeof(moved_entry)) {
        moved_entry e;
        memcpy(&e, r->data + at, sizeof(e));
        moved_restore(&s->moved, e);
    }
}

static void take_lasts(store *s, const store_record *r) {
    for (u32 at = 0; at + sizeof(u64) <= r->len; at += sizeof(u64)) {
        u64 last;
        memcpy(&last, r->data + at, sizeof(last));
        moved_restore_last(&s->moved, last);
    }
}

static void take_meta(recovery *rc, const record_view *view) {
    rc->clean = view->type == META_END;
    if (view->type == META_CHECKPOINT) rc->checkpoint_seen = view->record.pos;
    bool of_ours = rc->checkpoint != 0 && rc->checkpoint_seen == rc->checkpoint;
    if (of_ours && view->type == META_SEGMENTS) take_segments(rc->s, &view->record);
    if (of_ours && view->type == META_MOVED) take_moved(rc->s, &view->record);
    if (of_ours && view->type == META_MOVED_LASTS) take_lasts(rc->s, &view->record);
}

// A copy counts when the place it was made from is gone. What was copied from a segment that is still there is
// remembered, so that reclaim goes on behind it.
static bool copy_counts(store *s, const record_view *view) {
    segment *source = segment_at(s, view->from);
    if (source == NULL || (source->end != 0 && view->from >= source->end)) return true;
    if (source->end == 0) return false;
    if (source->copied_upto != UINT64_MAX) source->copied_upto = MAX(source->copied_upto, view->from + 1);
    return false;
}

static bool is_own_copy(const store *s, const record_view *view) {
    return view->from >> LOG_NUMBER_SHIFT == s->config.log_number;
}

bool record_is_placed(const store *s, const record_view *view) {
    return view->from == 0 || (view->record.flags & STORE_KEEP) != 0 || is_own_copy(s, view);
}

// It is found by its origin from here on. Returns whether it counts.
static bool take_copy(store *s, const segment *seg, const record_view *view) {
    const store_record *r = &view->record;
    bool counts = copy_counts(s, view), new_segment = s->origin_last_moved_segment != seg->base;
    moved_entry rest = s->moved.rest;
    moved_add(&s->moved, r->origin, r->pos, new_segment, !is_own_copy(s, view));
    if (!counts && r->origin != view->from) moved_rest(&s->moved, r->origin + 1, view->from + view->size);
    else if (counts) moved_rest(&s->moved, rest.origin, rest.to);
    else if (segment_at(s, rest.to) == segment_at(s, view->from)) {
        moved_rest(&s->moved, rest.origin, view->from + view->size);
    }
    s->origin_last_moved_segment = seg->base;
    return counts;
}

static void take_record(recovery *rc, segment *seg, const record_view *view) {
    store *s = rc->s;
    const store_record *r = &view->record;
    segment_note(seg, r->pos, r->time_ms);
    if (r->kind == STORE_META) {
        take_meta(rc, view);
        return;
    }
    rc->clean = false;
    if ((r->flags & STORE_KEEP) != 0) seg->live_bytes += view->size;
    if (view->from != 0) {
        bool own = is_own_copy(s, view), counts = !record_is_placed(s, view) || take_copy(s, seg, view);
        // A copy by reclaim is no change of state: the checkpoint knows of it. One made after a failed write,
        // or by a conversion, is the record.
        if (!counts || (own && r->origin < rc->checkpoint)) return;
        s->converted |= !own;
    }
    counter_add(&s->metrics.replayed, 1);
    counter_add(&s->metrics.replayed_bytes, r->len);
    // A copy keeps the time of its record, which may be a long time ago.
    s->replayed_ms = r->origin == r->pos ? r->time_ms : MAX(s->replayed_ms, r->time_ms);
    const store_keeper *k = &s->keepers[r->kind];
    if (k->replay != NULL) k->replay(k->context, r);
}

static int replay_segment(recovery *rc, segment *seg, store_pos from) {
    store *s = rc->s;
    scan sc;
    record_view view;
    scan_what what;
    int result = scan_begin(&sc, s->disk, seg->file, seg->base, seg->bytes, from, seg->end);
    if (result < 0) return result;
    seg->live_bytes = from == seg->base + SEGMENT_HEAD_BYTES ? 0 : seg->live_bytes;
    while ((what = scan_next(&sc, &view)) != SCANNED_END) {
        if (what == SCANNED_RECORD) take_record(rc, seg, &view);
        else damage(rc, seg, &sc);
    }
    if (!sc.end_known) end_found(rc, seg, &sc);
    scan_end(&sc);
    return 0;
}

static int replay(recovery *rc) {
    store *s = rc->s;
    for (u32 i = 0; i < s->segment_count; i++) {
        segment *seg = s->segments[i];
        if (rc->checkpoint >= seg->base + seg->bytes) continue;
        store_pos from = MAX(seg->base + SEGMENT_HEAD_BYTES, rc->checkpoint);
        // What the table of the checkpoint said of its own segment's live bytes stands; records after it add to
        // that.
        int result = replay_segment(rc, seg, from);
        if (result < 0) return result;
    }
    return 0;
}

// --- afterwards ---

// Segments before the checkpoint whose end nobody names: to the end of the file; their index, where there is one.
// Of all but the last no more is kept than of those that were filled by this process.
static void older_segments(store *s) {
    for (u32 i = 0; i < s->segment_count; i++) {
        segment *seg = s->segments[i];
        if (seg->end == 0) seg->end = seg->base + seg->bytes;
        if (i + 1 < s->segment_count) segment_index_thin(seg);
        if (seg->index_count > 0 || seg->index_pos <= seg->base || seg->index_pos >= seg->end) continue;
        scan sc;
        record_view view;
        if (scan_begin(&sc, s->disk, seg->file, seg->base, seg->bytes, seg->index_pos, seg->end) < 0) continue;
        if (scan_next(&sc, &view) == SCANNED_RECORD && view.type == META_INDEX) {
            u32 count = view.record.len / (u32)sizeof(index_entry);
            seg->index = malloc(sizeof(index_entry) * (count + 1));
            if (seg->index != NULL) {
                memcpy(seg->index, view.record.data, sizeof(index_entry) * count);
                seg->index_count = seg->index_room = count;
                segment_index_thin(seg);
            }
        }
        scan_end(&sc);
    }
}

static void end_here(recovery *rc) {
    store *s = rc->s;
    if (s->next_base == 0) s->next_base = ((u64)s->config.log_number << LOG_NUMBER_SHIFT) + SEGMENT_UNIT_BYTES;
    s->next_number = rc->files.number_max + 1;
    if (s->segment_count == 0) return;
    segment *last = s->segments[s->segment_count - 1];
    // After a kill its pages may be in the kernel only; from now on they count as on disk.
    int result = s->disk->ops->sync(s->disk, last->file);
    if (result < 0)
        log_error("log of worker %u: segment %u: sync: %s", s->config.worker, last->number, errno_name(result));
    s->durable = last->end;
    s->tail = last->end;
    // After an orderly stop nothing stands behind the end, so the same segment can be filled up.
    if (rc->clean && !rc->torn && last->bytes == s->config.segment_bytes && last->index_pos == 0) s->active = last;
    else s->rolled = last;
}

int store_recover(store *s) {
    recovery rc = {.s = s, .quarantine_budget = LIMIT_STORE_QUARANTINE_BYTES};
    u64 started_ns = clock_mono_ns();
    s->now_ns = started_ns;
    s->now_ms = clock_real_ns() / NS_PER_MS;
    int result = segment_files_read(s->disk, s->dir, &rc.files);
    if (result == -ENOMEM) return result;
    if (result < 0) store_state_set(s, STORE_STATE_FAILED, "%s: %s", s->dir, errno_name(result));
    result = take_files(&rc);
    if (result == 0) result = find_checkpoint(&rc);
    if (result == 0) result = replay(&rc);
    older_segments(s);
    end_here(&rc);
    segment_files_free(&rc.files);
    u64 took_ns = clock_mono_ns() - started_ns;
    counter_set(&s->metrics.recovery_ns, took_ns);
    if (s->segment_count > 0) {
        log_info("log of worker %u: %u segments, %llu records (%llu KiB) read in %llu ms%s", s->config.worker,
                 s->segment_count, (unsigned long long)counter_get(&s->metrics.replayed),
                 (unsigned long long)(counter_get(&s->metrics.replayed_bytes) / 1024),
                 (unsigned long long)(took_ns / NS_PER_MS),
                 rc.clean ? "" : "; the last stop was not an orderly one");
    }
    return result;
}
