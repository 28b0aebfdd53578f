// SPDX-License-Identifier: Apache-2.0
// segment.c: the files. Spares are made ahead by the slow lane (blocks reserved, directory synced), so that a
// roll costs nothing but the head, which goes with the first batch. A freed segment gets a FREE head and is a
// spare again: its blocks are written ones, for which a sync has no metadata to write.
//
// The last LIMIT_STORE_RESERVE_SEGMENTS spares are for what lets space be freed; other records get -ENOSPC then.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/internal.h"

void segment_path(const char *dir, u32 number, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%.300s/%08u.seg", dir, number);
}

u32 segments_max(const store *s) {
    return (u32)MAX(s->config.bytes_max / s->config.segment_bytes, (u64)LIMIT_STORE_SEGMENTS_MIN);
}

void segments_account(store *s) {
    u64 bytes = (u64)s->spare_count * s->config.segment_bytes;
    i64 live = 0;
    for (u32 i = 0; i < s->segment_count; i++) {
        bytes += s->segments[i]->bytes;
        live += MAX(s->segments[i]->live_bytes, 0);
    }
    counter_set(&s->metrics.segments, s->segment_count + s->spare_count);
    counter_set(&s->metrics.segments_max, segments_max(s));
    counter_set(&s->metrics.disk_bytes, bytes);
    counter_set(&s->metrics.live_bytes, (u64)live);
}

// --- the table ---

static u32 position(const store *s, store_pos pos) { // of the first segment with a base above pos
    u32 low = 0, high = s->segment_count;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (s->segments[middle]->base <= pos) low = middle + 1;
        else high = middle;
    }
    return low;
}

segment *segment_at(const store *s, store_pos pos) {
    u32 i = position(s, pos);
    if (i == 0) return NULL;
    segment *seg = s->segments[i - 1];
    return pos < seg->base + seg->bytes && !seg->dying ? seg : NULL;
}

u32 segment_index_of(const store *s, const segment *seg) {
    return position(s, seg->base) - 1;
}

bool segment_add(store *s, segment *seg) {
    if (s->segment_count == s->segment_room) {
        u32 room = s->segment_room == 0 ? 64 : s->segment_room * 2;
        segment **grown = realloc(s->segments, sizeof(*grown) * room);
        if (grown == NULL) return false;
        s->segments = grown;
        s->segment_room = room;
    }
    u32 at = position(s, seg->base);
    memmove(&s->segments[at + 1], &s->segments[at], sizeof(*s->segments) * (s->segment_count - at));
    s->segments[at] = seg;
    s->segment_count++;
    return true;
}

void segment_free(store *s, segment *seg) {
    u32 at = segment_index_of(s, seg);
    memmove(&s->segments[at], &s->segments[at + 1], sizeof(*s->segments) * (s->segment_count - at - 1));
    s->segment_count--;
    if (s->rolled == seg) s->rolled = NULL;
    if (seg->file >= 0) s->disk->ops->close(s->disk, seg->file);
    free(seg->index);
    free(seg);
}

bool segment_note(segment *seg, store_pos pos, u64 time_ms) {
    if (seg->first_ms == 0) seg->first_ms = time_ms;
    u64 step = (pos - seg->base) / LIMIT_STORE_INDEX_STEP;
    if (seg->index_count > 0 && (seg->index[seg->index_count - 1].pos - seg->base) / LIMIT_STORE_INDEX_STEP >= step)
        return true;
    if (seg->index_count == seg->index_room) {
        u32 room = seg->index_room == 0 ? 64 : seg->index_room * 2;
        index_entry *grown = realloc(seg->index, sizeof(*grown) * room);
        if (grown == NULL) return false; // coarser then, not wrong
        seg->index = grown;
        seg->index_room = room;
    }
    seg->index[seg->index_count++] = (index_entry){.pos = pos, .time_ms = time_ms};
    return true;
}

void segment_index_thin(segment *seg) {
    u32 step = (seg->index_count + LIMIT_STORE_INDEX_KEPT - 1) / LIMIT_STORE_INDEX_KEPT;
    if (step <= 1) return;
    u32 kept = 0;
    for (u32 i = 0; i < seg->index_count; i += step) seg->index[kept++] = seg->index[i];
    seg->index_count = kept;
    index_entry *less = realloc(seg->index, sizeof(*less) * kept);
    if (less == NULL) return; // it stays as large as it was
    seg->index = less;
    seg->index_room = kept;
}

// --- spares ---

static int make_spare(file_op *f, disk *d) {
    char path[PATH_BYTES];
    segment_path(f->dir, f->number, path);
    f->file = d->ops->open(d, path, true);
    if (f->file < 0) return f->file;
    int result = d->ops->reserve(d, f->file, f->bytes);
    if (result == 0) result = d->ops->sync(d, f->file);
    if (result == 0) result = d->ops->sync_dir(d, f->dir);
    if (result < 0) {
        d->ops->close(d, f->file);
        d->ops->unlink(d, path);
        f->file = -1;
    }
    return result;
}

// The head says FREE from now on, durably: what else is in the file never counts again.
static int mark_free(file_op *f, disk *d) {
    segment_head h = {.state = SEGMENT_FREE, .log_number = f->log_number, .bytes = f->bytes, .base = f->seg->base};
    segment_head_seal(&h);
    int result = d->ops->write(d, f->seg->file, &h, sizeof(h), 0);
    return result < 0 ? result : d->ops->sync(d, f->seg->file);
}

static int file_run(lane_op *op, disk *d) {
    file_op *f = CONTAINER_OF(op, file_op, op);
    if (f->task == TASK_MAKE_SPARE) return make_spare(f, d);
    int result = f->task == TASK_FREE ? mark_free(f, d) : -ECANCELED;
    if (result == 0) return 0;
    char path[PATH_BYTES];
    segment_path(f->dir, f->seg->number, path);
    f->task = TASK_UNLINK;
    result = d->ops->unlink(d, path);
    return result == 0 || result == -ENOENT ? d->ops->sync_dir(d, f->dir) : result;
}

static void spare_add(store *s, u32 number, int file, bool reused) {
    s->spares[s->spare_count++] = (spare){.number = number, .file = file, .reused = reused};
    s->spare_error = 0;
    int error;
    if (counter_get(&s->metrics.state) == STORE_STATE_FULL && segments_can_roll(s, 0, &error)) {
        s->in_reserve = false;
        store_state_set(s, STORE_STATE_OK, "%s", "");
    }
    store_wake_room(s);
}

static void file_done(lane_op *op, int result) {
    file_op *f = CONTAINER_OF(op, file_op, op);
    store *s = f->s;
    if (f->task == TASK_MAKE_SPARE) {
        s->spares_coming--;
        if (result == 0) {
            counter_add(&s->metrics.segments_made, 1);
            spare_add(s, f->number, f->file, false);
        } else if (result != -ECANCELED) {
            if (s->spare_error == 0)
                log_warn("log of worker %u: no new segment: %s", s->config.worker, errno_name(result));
            s->spare_error = result;
            s->spare_retry_ns = s->now_ns + LIMIT_STORE_RETRY_MS * NS_PER_MS;
        }
    } else if (result < 0) {
        // It stays: found again at the next start, and freed then.
        f->seg->dying = false;
        s->dying_count--;
        s->reclaim_next_ns = s->now_ns + LIMIT_STORE_RETRY_MS * NS_PER_MS;
    } else {
        counter_add(&s->metrics.segments_freed, 1);
        store_trace(s, REC_LOG_RECLAIM, f->seg->number, 2);
        moved_forget_places(&s->moved, f->seg->base, f->seg->base + f->seg->bytes);
        u32 number = f->seg->number;
        int file = f->seg->file;
        if (f->task == TASK_FREE) f->seg->file = -1;
        s->dying_count--;
        segment_free(s, f->seg);
        if (f->task == TASK_FREE) spare_add(s, number, file, true);
        s->spare_retry_ns = 0; // there may be room on the disk now
    }
    segments_account(s);
    free(f);
}

static bool file_submit(store *s, file_task task, segment *seg) {
    file_op *f = calloc(1, sizeof(*f));
    if (f == NULL) return false;
    f->op = (lane_op){.run = file_run, .done = file_done};
    f->s = s;
    f->task = task;
    f->seg = seg;
    f->bytes = s->config.segment_bytes;
    f->log_number = s->config.log_number;
    f->file = -1;
    if (task == TASK_MAKE_SPARE) f->number = s->next_number++;
    memcpy(f->dir, s->dir, sizeof(f->dir));
    lane_submit(s->slow_lane, &f->op);
    return true;
}

void segments_turn(store *s) {
    u32 files = s->segment_count + s->spare_count + s->spares_coming;
    // A log that nothing was ever put into has one spare and no more. Without it (a full disk) it can not begin.
    bool used = s->segment_count > 0 || s->retry_count > 0;
    bool wanted = s->spare_count + s->dying_count < (used ? LIMIT_STORE_RESERVE_SEGMENTS + 1 : 1);
    int error;
    if (s->in_reserve && segments_can_roll(s, 0, &error)) s->in_reserve = false;
    if (!wanted || s->spares_coming > 0 || files >= segments_max(s) || s->now_ns < s->spare_retry_ns) return;
    if (s->stopping && s->retry_count == 0) return;
    if (file_submit(s, TASK_MAKE_SPARE, NULL)) s->spares_coming++;
}

// At the start: the first spares at once, so that there is something to append to.
void segments_prepare(store *s) {
    u32 wanted = s->segment_count == 0 ? 1 : LIMIT_STORE_RESERVE_SEGMENTS + 1;
    while (s->spare_count < wanted && s->segment_count + s->spare_count < segments_max(s)) {
        file_op f = {.number = s->next_number++, .bytes = s->config.segment_bytes, .file = -1};
        memcpy(f.dir, s->dir, sizeof(f.dir));
        int result = make_spare(&f, s->disk);
        if (result < 0) {
            s->spare_error = result;
            s->spare_retry_ns = s->now_ns + LIMIT_STORE_RETRY_MS * NS_PER_MS;
            log_warn("log of worker %u: no new segment: %s", s->config.worker, errno_name(result));
            break;
        }
        counter_add(&s->metrics.segments_made, 1);
        s->spares[s->spare_count++] = (spare){.number = f.number, .file = f.file};
    }
    segments_account(s);
}

void segment_release(store *s, segment *seg) {
    ASSERT(seg != s->active && seg->refs == 0 && !seg->dying);
    bool again =
        !seg->bad && seg->bytes == s->config.segment_bytes && s->spare_count + s->dying_count < SPARES_MAX - 1;
    seg->dying = true;
    s->dying_count++;
    if (file_submit(s, again ? TASK_FREE : TASK_UNLINK, seg)) return;
    seg->dying = false;
    s->dying_count--;
    s->reclaim_next_ns = s->now_ns + LIMIT_STORE_RETRY_MS * NS_PER_MS;
}

// --- rolling ---

bool segments_can_roll(const store *s, u32 flags, int *error) {
    u32 needed = (flags & STORE_VITAL) != 0 ? LIMIT_STORE_RESERVE_SEGMENTS : LIMIT_STORE_RESERVE_SEGMENTS + 1;
    if ((flags & STORE_LAST) != 0 || s->in_checkpoint || s->segment_count == 0) needed = 1;
    *error = 0;
    if (s->spare_count >= needed) return true;
    bool full = s->segment_count + s->spare_count + s->spares_coming >= segments_max(s);
    if (s->spare_error == -ENOSPC || s->spare_error == -EDQUOT || s->spare_error == -EFBIG) full = true;
    if (s->dying_count > 0 || (s->spares_coming > 0 && s->spare_error == 0)) *error = -EAGAIN;
    else if (full) *error = -ENOSPC;
    else *error = s->spare_error != 0 ? -EIO : -EAGAIN;
    return false;
}

static int roll_refused(store *s, int error) {
    if (error != -ENOSPC) return error;
    bool disk_is_full = s->spare_error != 0;
    store_state_set(s, STORE_STATE_FULL, disk_is_full ? "no space left on the disk (%s), %u segments"
                                                      : "log_max is used up (%s), %u segments",
                    disk_is_full ? errno_name(s->spare_error) : "all of it is needed", s->segment_count);
    return error;
}

// Begun or gone on with out of the reserve: it is not for ordinary records, or they would use up the rest of it.
static void reserve_note(store *s) {
    int error;
    bool reserved =
        s->spare_count < LIMIT_STORE_RESERVE_SEGMENTS && !segments_can_roll(s, 0, &error) && error == -ENOSPC;
    if (!reserved) return;
    s->in_reserve = true;
    roll_refused(s, -ENOSPC);
}

// Zeros from the end of what counts to that of the file, on disk. In the sector in which that end lies what was good
// stands behind nothing but what was begun and never acknowledged; a commit that was finished ends with zeros there.
static int rest_clear(const store *s, const segment *seg) {
    static u8 zeros[1u << 16]; // not const: that would be 64 KiB of the file
    u8 first[SECTOR_BYTES];
    u64 at = align_up_u64(seg->end, SECTOR_BYTES), bytes = seg->base + seg->bytes - at;
    u32 partial = (u32)(at - seg->end);
    i64 got = s->disk->ops->read(s->disk, seg->file, first, partial, seg->end - seg->base);
    if (got != partial) return got < 0 ? (int)got : -EIO;
    if (memcmp(first, zeros, partial) != 0) {
        int result = s->disk->ops->write(s->disk, seg->file, zeros, partial, seg->end - seg->base);
        if (result < 0) return result;
    }
    while (bytes > 0) {
        size_t n = (size_t)MIN(bytes, (u64)sizeof(zeros));
        int result = s->disk->ops->write(s->disk, seg->file, zeros, n, at - seg->base);
        if (result < 0) return result;
        at += n;
        bytes -= n;
    }
    return s->disk->ops->sync(s->disk, seg->file);
}

void segments_go_on(store *s) {
    segment *last = s->rolled;
    int error;
    if (s->active != NULL || last == NULL || segments_can_roll(s, 0, &error)) return;
    if (last->bytes != s->config.segment_bytes || last->index_pos != 0 || last->bad) return;
    int result = rest_clear(s, last);
    if (result < 0) {
        log_warn("log of worker %u: segment %u: can not be gone on with: %s", s->config.worker, last->number,
                 errno_name(result));
        return;
    }
    log_info("log of worker %u: full: segment %u is gone on with", s->config.worker, last->number);
    s->rolled = NULL;
    s->active = last;
    reserve_note(s);
}

int segment_first(store *s, u32 flags) {
    int error;
    if (!segments_can_roll(s, flags, &error)) return roll_refused(s, error);
    segment *seg = calloc(1, sizeof(*seg));
    if (seg == NULL) return -EAGAIN;
    spare taken = s->spares[--s->spare_count];
    *seg = (segment){
        .base = s->next_base, .bytes = s->config.segment_bytes, .number = taken.number, .file = taken.file};
    seg->end = seg->base + SEGMENT_HEAD_BYTES;
    if (!segment_add(s, seg)) {
        s->spares[s->spare_count++] = taken;
        free(seg);
        return -EAGAIN;
    }
    store_trace(s, REC_LOG_ROLL, taken.number, taken.reused);
    if (taken.reused) counter_add(&s->metrics.segments_reused, 1);
    reserve_note(s);
    s->active = seg;
    s->next_base = seg->base + seg->bytes;
    s->tail = seg->base + SEGMENT_HEAD_BYTES;
    segments_account(s);
    return 0;
}

int segment_roll(store *s, u32 flags) {
    int result;
    segment *old = s->active;
    if (!segments_can_roll(s, flags, &result)) return roll_refused(s, result);
    if (old->index_pos == 0) {
        segment_index_thin(old);
        struct iovec index = {.iov_base = old->index, .iov_len = sizeof(index_entry) * old->index_count};
        result = store_put(s, STORE_META, 0, STORE_VITAL, META_INDEX, NULL, s->now_ms, &index, 1, &old->index_pos);
        if (result < 0) return result;
    }
    buffer *b = buffer_open(s);
    if (b != NULL) b->closed = true;
    result = segment_first(s, flags);
    if (result == 0) s->rolled = old; // its end is known when its last batch is on disk, before the new head is made
    return result;
}
