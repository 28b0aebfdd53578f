// SPDX-License-Identifier: Apache-2.0
// log.c: the path of a record: store_append copies it into the buffer that fills; when the last commit has
// ended, the next one takes that buffer (group commit: under load a batch is what came during one sync); its
// completion runs the waiters.
//
// Positions are given at once and never change: a reference to a record may go into another record of the same
// batch. After a failed write the records get another place, and `moved` knows it by their origin.
#include "store/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/log.h"
#include "store/internal.h"

// A batch may end with one record of the largest size, and the log's own tables come in one piece.
#define BUFFER_CAPACITY (LIMIT_STORE_BUFFER_BYTES + LIMIT_STORE_RECORD_BYTES + (64u << 10))
#define BUFFER_MAPPED ((size_t)SEGMENT_HEAD_BYTES + BUFFER_CAPACITY)
#define FLUSH_ROUNDS_MAX 1000u // on a disk without threads, where no time passes
#define BUFFER_KEEP_BYTES (1u << 20) // pages beyond it go back after a large batch

const char *store_state_name(store_state state) {
    static const char *const names[] = {"opening", "ok", "full", "failed"};
    _Static_assert(ARRAY_LEN(names) == STORE_STATES, "a name a state");
    return state < STORE_STATES ? names[state] : "unknown";
}

void store_state_set(store *s, store_state state, const char *format, ...) {
    store_state before = (store_state)counter_get(&s->metrics.state);
    va_list list;
    va_start(list, format);
    vsnprintf(s->why, sizeof(s->why), format, list);
    va_end(list);
    counter_set(&s->metrics.state, state);
    if (before == state) return;
    if (state == STORE_STATE_OK) {
        if (before != STORE_STATE_OPENING)
            log_warn("log of worker %u: ok again, was %s", s->config.worker, store_state_name(before));
        store_wake_room(s);
        return;
    }
    log_error("log of worker %u: %s: %s", s->config.worker, store_state_name(state), s->why);
}

const char *store_state_why(const store *s) {
    return s->why;
}

const store_metrics *store_metrics_get(const store *s) {
    return &s->metrics;
}

// --- buffers ---

int buffers_map(store *s) {
    for (u32 i = 0; i < LIMIT_STORE_BUFFERS; i++) {
        // Untouched pages cost nothing; only a batch of that size touches them.
        void *memory =
            mmap(NULL, BUFFER_MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return -ENOMEM;
        s->buffers[i] = (buffer){.memory = memory};
    }
    s->buffer_first = s->buffer_count = 0;
    return 0;
}

void buffers_unmap(buffer *list) {
    for (u32 i = 0; i < LIMIT_STORE_BUFFERS; i++) {
        if (list[i].memory != NULL) munmap(list[i].memory, BUFFER_MAPPED);
        list[i] = (buffer){0};
    }
}

static buffer *buffer_nth(store *s, u32 n) {
    return &s->buffers[(s->buffer_first + n) % LIMIT_STORE_BUFFERS];
}

buffer *buffer_open(store *s) {
    if (s->buffer_count == 0) return NULL;
    buffer *b = buffer_nth(s, s->buffer_count - 1);
    return b->closed ? NULL : b;
}

static int buffer_begin(store *s, buffer **out) {
    if (s->buffer_count == LIMIT_STORE_BUFFERS) return -EAGAIN;
    buffer *b = buffer_nth(s, s->buffer_count++);
    segment *seg = s->active;
    *b = (buffer){.memory = b->memory, .seg = seg, .start = align_up_u64(s->tail, SECTOR_BYTES)};
    b->with_head = b->start == seg->base + SEGMENT_HEAD_BYTES;
    b->used = record_seal(b->memory + SEGMENT_HEAD_BYTES, b->start, s->now_ms, STORE_META, 0, META_BATCH, 0);
    s->tail = b->start + b->used;
    s->first_waits_ns = s->now_ns;
    *out = b;
    return 0;
}

const u8 *store_in_memory(store *s, store_pos pos, size_t *available) {
    for (u32 i = 0; i < s->buffer_count + s->retry_count; i++) {
        const buffer *b = i < s->buffer_count ? buffer_nth(s, i) : &s->retry[i - s->buffer_count];
        if (pos < b->start || pos >= b->start + b->used) continue;
        *available = (size_t)(b->start + b->used - pos);
        return b->memory + SEGMENT_HEAD_BYTES + (pos - b->start);
    }
    return NULL;
}

const u8 *store_in_memory_next(store *s, store_pos pos, store_pos *from, size_t *available) {
    const buffer *next = NULL;
    for (u32 i = 0; i < s->buffer_count + s->retry_count; i++) {
        const buffer *b = i < s->buffer_count ? buffer_nth(s, i) : &s->retry[i - s->buffer_count];
        if (b->start + b->used > pos && (next == NULL || b->start < next->start)) next = b;
    }
    if (next == NULL) return NULL;
    *from = MAX(pos, next->start);
    *available = (size_t)(next->start + next->used - *from);
    return next->memory + SEGMENT_HEAD_BYTES + (*from - next->start);
}

// --- appending ---

static u64 batch_bytes(const store *s, u32 size) {
    // What the record adds when it begins a batch of its own.
    return align_up_u64(s->tail, SECTOR_BYTES) - s->tail + sizeof(record_head) + size;
}

// Room that stays free at a segment's end: for its index and the mark of an orderly stop, each in a batch of
// its own.
static u64 closing_bytes(const segment *seg) {
    u64 index = record_size((u32)((seg->bytes / LIMIT_STORE_INDEX_STEP + 1) * sizeof(index_entry)));
    return index + 2 * (SECTOR_BYTES + 2 * sizeof(record_head));
}

static bool fits_segment(const store *s, u32 size) {
    return s->tail + batch_bytes(s, size) + closing_bytes(s->active) <= s->active->base + s->active->bytes;
}

static int place_for(store *s, u32 size, u32 flags, meta_type type, buffer **out) {
    int result = 0;
    bool closes = type == META_INDEX || type == META_END;
    if (s->in_checkpoint) flags |= STORE_VITAL;
    if (s->in_reserve && (flags & STORE_VITAL) == 0) return -ENOSPC;
    if (s->active == NULL) result = segment_first(s, flags);
    else if (!closes && !fits_segment(s, size)) result = segment_roll(s, flags);
    if (result < 0) return result;
    buffer *b = buffer_open(s);
    if (b != NULL && b->used + size > LIMIT_STORE_BUFFER_BYTES && b->records > 0 && !closes) {
        b->closed = true;
        b = NULL;
    }
    if (b == NULL) result = buffer_begin(s, &b);
    *out = b;
    return result;
}

int store_put(store *s, store_kind kind, u32 record_flags, u32 flags, meta_type type, const record_moved *moved,
              u64 time_ms, const struct iovec *parts, u32 count, store_pos *pos) {
    u64 payload = moved != NULL ? sizeof(*moved) : 0;
    for (u32 i = 0; i < count; i++) payload += parts[i].iov_len;
    if (payload > RECORD_PAYLOAD_MAX) return -EMSGSIZE;
    u32 size = record_size((u32)payload);
    buffer *b;
    int result = place_for(s, size, flags, type, &b);
    if (result < 0) return result;
    ASSERT(b->used + size <= BUFFER_CAPACITY);
    u8 *at = b->memory + SEGMENT_HEAD_BYTES + b->used, *to = at + sizeof(record_head);
    if (moved != NULL) {
        memcpy(to, moved, sizeof(*moved));
        to += sizeof(*moved);
    }
    for (u32 i = 0; i < count; i++) {
        if (parts[i].iov_len > 0) memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    // What a conversion copies only to be replayed is not found by its origin (record_is_placed).
    bool own = moved != NULL && moved->from >> LOG_NUMBER_SHIFT == s->config.log_number;
    if (moved != NULL && (own || (record_flags & RECORD_KEEP) != 0)) {
        bool new_segment = s->origin_last_moved_segment != s->active->base;
        bool added = moved_add(&s->moved, moved->origin, s->tail, new_segment, !own);
        if (!added) return -EAGAIN; // nothing was appended yet
        s->origin_last_moved_segment = s->active->base;
    }
    record_seal(at, s->tail, time_ms, kind, record_flags, type, (u32)payload);
    *pos = s->tail;
    if (type != META_INDEX) segment_note(s->active, s->tail, time_ms);
    b->used += size;
    b->records++;
    s->tail += size;
    if ((record_flags & RECORD_KEEP) != 0) s->active->live_bytes += size;
    counter_set(&s->metrics.buffered_bytes, counter_get(&s->metrics.buffered_bytes) + size);
    return 0;
}

void keeper_moved(store *s, const store_record *r, store_pos to) {
    const store_keeper *k = &s->keepers[r->kind];
    if (k->moved != NULL) k->moved(k->context, r->origin, to);
}

// Whether appending is possible at all now.
static int may_append(const store *s) {
    store_state state = (store_state)counter_get(&s->metrics.state);
    if (!s->started) return -EIO;
    if (state == STORE_STATE_FAILED) return -EIO;
    return s->retry_count > 0 ? -EAGAIN : 0;
}

static void count_refusal(store *s, int result) {
    counter *c = result == -ENOSPC ? &s->metrics.refused_full
                 : result == -EAGAIN ? &s->metrics.refused_busy : &s->metrics.refused_failed;
    counter_add(c, 1);
}

// Small logs have small segments.
static u32 record_bytes_max(const store *s) {
    return MIN(STORE_RECORD_BYTES_MAX, s->config.segment_bytes / 2);
}

int store_append(store *s, store_kind kind, u32 flags, const struct iovec *parts, u32 count, store_pos *pos) {
    ASSERT(kind > STORE_NONE && kind < STORE_META);
    u64 bytes = 0;
    for (u32 i = 0; i < count; i++) bytes += parts[i].iov_len;
    if (bytes > record_bytes_max(s)) return -EMSGSIZE;
    int result = may_append(s);
    if (result == 0) {
        u32 record_flags = (flags & STORE_KEEP) != 0 ? RECORD_KEEP : 0;
        result = store_put(s, kind, record_flags, flags, META_NONE, NULL, s->now_ms, parts, count, pos);
    }
    if (UNLIKELY(result < 0)) {
        count_refusal(s, result);
        return result;
    }
    counter_add(&s->metrics.appended, 1);
    counter_add(&s->metrics.appended_bytes, bytes);
    return 0;
}

int store_room(const store *s, u32 flags, u32 len) {
    int result = may_append(s);
    if (len > record_bytes_max(s)) return -EMSGSIZE;
    if (result < 0) return result;
    u32 size = record_size(len);
    if (s->in_reserve && (flags & STORE_VITAL) == 0) return -ENOSPC;
    if (s->active == NULL || !fits_segment(s, size)) {
        if (!segments_can_roll(s, flags, &result)) return result;
    }
    if (s->buffer_count < LIMIT_STORE_BUFFERS) return 0;
    const buffer *b = &s->buffers[(s->buffer_first + s->buffer_count - 1) % LIMIT_STORE_BUFFERS];
    return b->closed || b->used + size > LIMIT_STORE_BUFFER_BYTES ? -EAGAIN : 0;
}

void store_drop(store *s, store_pos pos, u32 len) {
    segment *seg = segment_at(s, pos);
    const moved_entry *copy = NULL;
    u32 payload = len;
    if (seg == NULL || pos >= seg->end) copy = moved_find(&s->moved, pos);
    if (copy != NULL) {
        segment *now = segment_at(s, copy->to);
        if (now != NULL) {
            seg = now;
            payload += (u32)sizeof(record_moved);
        }
    }
    if (seg != NULL) seg->live_bytes -= record_size(payload);
}

// --- commit ---

void store_waiters_run(store *s, int result) {
    while (s->waiters != NULL && (result < 0 || s->waiters->upto < s->durable)) {
        store_waiter *w = s->waiters;
        s->waiters = w->next;
        if (s->waiters == NULL) s->waiters_last = NULL;
        w->next = NULL;
        w->done(w, result);
    }
}

static int commit_run(lane_op *op, disk *d) {
    commit_op *c = CONTAINER_OF(op, commit_op, op);
    int result = d->ops->write(d, c->file, c->from, c->bytes, c->offset);
    return result < 0 ? result : d->ops->sync(d, c->file);
}

static void commit_done(lane_op *op, int result) {
    store *s = CONTAINER_OF(op, commit_op, op)->s;
    buffer *b = buffer_nth(s, 0);
    s->committing = false;
    store_trace(s, REC_LOG_COMMITTED, result < 0 ? result : (i64)((op->ended_ns - op->started_ns) / 1000), b->records);
    if (result < 0) {
        store_write_failed(s, result);
        return;
    }
    s->failures = 0;
    b->seg->end = b->start + b->used;
    if (s->retry_count > 0) s->retry_done = MAX(s->retry_done, b->retry_upto);
    // While older records wait to be written again, positions beyond them are not durable for anybody.
    s->durable = MAX(s->durable, s->retry_count > 0 ? s->retry_done : b->seg->end);
    counter_add(&s->metrics.commits, 1);
    counter_add(&s->metrics.commit_records, b->records);
    counter_add(&s->metrics.written_bytes, s->commit.bytes);
    counter_set(&s->metrics.buffered_bytes, counter_get(&s->metrics.buffered_bytes) -
                                                MIN((u64)b->used, counter_get(&s->metrics.buffered_bytes)));
    hist_record(&s->metrics.commit, op->ended_ns - op->started_ns);
    if (b->used > BUFFER_KEEP_BYTES) {
        madvise(b->memory + BUFFER_KEEP_BYTES, BUFFER_MAPPED - BUFFER_KEEP_BYTES, MADV_DONTNEED);
    }
    s->buffer_first = (s->buffer_first + 1) % LIMIT_STORE_BUFFERS;
    s->buffer_count--;
    if (counter_get(&s->metrics.state) == STORE_STATE_FAILED && s->retry_count == 0)
        store_state_set(s, STORE_STATE_OK, "%s", "");
    commit_try(s); // before the waiters: the disk is busy while they run
    store_waiters_run(s, 0);
    store_wake_readers(s);
    store_wake_room(s);
}

static void head_make(store *s, const buffer *b) {
    segment_head h = {
        .state = SEGMENT_LIVE,
        .log_number = s->config.log_number,
        .worker = s->config.worker,
        .workers = s->config.workers,
        .bytes = b->seg->bytes,
        .base = b->seg->base,
        .checkpoint = s->checkpoint,
        .created_ms = s->now_ms,
    };
    if (s->rolled != NULL) {
        h.prev_base = s->rolled->base;
        h.prev_end = s->rolled->end;
        h.prev_index = s->rolled->index_pos;
    }
    segment_head_seal(&h);
    memset(b->memory, 0, SEGMENT_HEAD_BYTES);
    memcpy(b->memory, &h, sizeof(h));
}

// Hands the oldest buffer to the log writer, unless a commit is under way or more may come.
void commit_try(store *s) {
    if (s->committing || s->buffer_count == 0) return;
    buffer *b = buffer_nth(s, 0);
    u64 delay_ns = (u64)s->config.commit_delay_us * 1000;
    bool may_wait = !b->closed && delay_ns > 0 && !s->stopping && s->now_ns < s->first_waits_ns + delay_ns;
    if (may_wait && b->used < LIMIT_STORE_BUFFER_BYTES / 2) return;
    if (s->failures > 0 && s->now_ns < s->retry_ns && !s->stopping) return;
    b->closed = true;
    u32 padded = (u32)align_up_u64(b->used, SECTOR_BYTES);
    memset(b->memory + SEGMENT_HEAD_BYTES + b->used, 0, padded - b->used);
    if (b->with_head) head_make(s, b);
    s->commit.file = b->seg->file;
    s->commit.from = b->memory + (b->with_head ? 0 : SEGMENT_HEAD_BYTES);
    s->commit.bytes = padded + (b->with_head ? SEGMENT_HEAD_BYTES : 0);
    s->commit.offset = b->with_head ? 0 : b->start - b->seg->base;
    s->commit.op = (lane_op){.run = commit_run, .done = commit_done};
    s->commit.s = s;
    s->committing = true;
    store_trace(s, REC_LOG_COMMIT, (i64)s->commit.bytes, b->records);
    lane_submit(s->write_lane, &s->commit.op);
}

// --- waiting ---

bool store_is_durable(const store *s, store_pos pos) {
    return pos < s->durable;
}

void store_wait(store *s, store_pos pos, store_waiter *w) {
    w->upto = pos;
    w->next = NULL;
    if (s->waiters == NULL || s->waiters_last->upto <= pos) {
        if (s->waiters == NULL) s->waiters = w;
        else s->waiters_last->next = w;
        s->waiters_last = w;
        return;
    }
    store_waiter **at = &s->waiters; // rare: somebody waits for an older record
    while ((*at)->upto <= pos) at = &(*at)->next;
    w->next = *at;
    *at = w;
}

void store_wait_cancel(store *s, store_waiter *w) {
    store_waiter *before = NULL;
    for (store_waiter **at = &s->waiters; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            if (s->waiters_last == w) s->waiters_last = before;
            w->next = NULL;
            return;
        }
        before = *at;
    }
}

void store_when_room(store *s, store_room_waiter *w) {
    if (w->queued) return;
    w->queued = true;
    w->next = NULL;
    if (s->room_waiters == NULL) s->room_waiters = w;
    else s->room_waiters_last->next = w;
    s->room_waiters_last = w;
}

void store_when_room_cancel(store *s, store_room_waiter *w) {
    store_room_waiter *before = NULL;
    for (store_room_waiter **at = &s->room_waiters; w->queued && *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            if (s->room_waiters_last == w) s->room_waiters_last = before;
            w->queued = false;
            return;
        }
        before = *at;
    }
}

// Those that find no room again queue themselves anew, behind.
void store_wake_room(store *s) {
    store_room_waiter *w = s->room_waiters;
    if (w == NULL || store_room(s, 0, 0) < 0) return;
    s->room_waiters = s->room_waiters_last = NULL;
    while (w != NULL) {
        store_room_waiter *next = w->next;
        w->queued = false;
        w->next = NULL;
        w->room(w);
        w = next;
    }
}

// --- the owner's loop ---

void store_turn(store *s, u64 now_mono_ns) {
    s->now_ns = now_mono_ns;
    s->now_ms = clock_real_ns() / NS_PER_MS;
    lane_take(s->slow_lane);
    lane_take(s->write_lane);
    if (s->retry_count > 0) store_retry_turn(s);
    segments_turn(s);
    checkpoint_turn(s);
    reclaim_turn(s);
    commit_try(s);
}

u64 store_next_ns(const store *s) {
    u64 next = UINT64_MAX;
    // The end of a commit wakes the owner. After a failed one (failures) the next waits for retry_ns; when there is
    // nothing to be written, nothing is to be tried again either.
    u64 commit_ns = s->first_waits_ns + (u64)s->config.commit_delay_us * 1000;
    if (!s->committing && s->buffer_count > 0) {
        next = s->failures > 0 ? MAX(s->retry_ns, commit_ns) : commit_ns;
    } else if (!s->committing && s->retry_count > 0) {
        next = s->retry_ns;
    }
    if (s->spare_error != 0 && s->spares_coming == 0) next = MIN(next, s->spare_retry_ns);
    if (s->checkpoint_phase == CHECKPOINT_BEGIN || s->checkpoint_phase == CHECKPOINT_KEEPERS) {
        if (s->buffer_count < LIMIT_STORE_BUFFERS) next = MIN(next, MAX(s->now_ns, s->checkpoint_pause_ns));
    }
    // Reclaim looks around once a second, which the worker's own turns do for it; only when space is short it
    // asks for more.
    if (s->reclaim_phase == RECLAIM_IDLE && s->spare_error != 0)
        next = MIN(next, MAX(s->reclaim_next_ns, s->now_ns + NS_PER_MS));
    return next;
}

static void brief_pause(store *s) {
    if (!s->config.threads) {
        while (store_step(s)) {
        }
        return;
    }
    struct timespec ms = {.tv_nsec = 200000};
    nanosleep(&ms, NULL);
}

int store_flush(store *s, u32 timeout_ms) {
    u64 deadline_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;
    bool stopping = s->stopping;
    s->stopping = true; // no delay, no background work
    for (u32 rounds = 0; s->buffer_count > 0 || s->retry_count > 0; rounds++) {
        u64 now = clock_mono_ns();
        store_turn(s, MAX(now, s->retry_ns));
        if (s->buffer_count == 0 && s->retry_count == 0) break;
        if (now >= deadline_ns || (!s->config.threads && rounds > FLUSH_ROUNDS_MAX)) break;
        brief_pause(s);
    }
    s->stopping = stopping;
    if (s->buffer_count == 0 && s->retry_count == 0) return 0;
    return s->failures > 0 ? -EIO : -ETIMEDOUT;
}

bool store_step(store *s) {
    return lane_step(s->write_lane) || lane_step(s->slow_lane);
}

store_pos store_end(const store *s) {
    return s->tail != 0 ? s->tail : s->next_base + SEGMENT_HEAD_BYTES;
}

u64 store_replayed_ms(const store *s) {
    return s->replayed_ms;
}

store_pos store_first(const store *s) {
    store_pos first = s->segment_count > 0 ? s->segments[0]->base + SEGMENT_HEAD_BYTES : store_end(s);
    if (s->moved.count > 0) first = MIN(first, s->moved.entries[0].origin);
    return first;
}

store_pos store_find_time(const store *s, u64 time_ms) {
    store_pos before = store_first(s); // the last indexed record that is older, or the first there is
    for (u32 i = 0; i < s->segment_count; i++) {
        const segment *seg = s->segments[i];
        if (seg->dying) continue;
        if (seg->index_count == 0 && seg->first_ms >= time_ms) return before;
        for (u32 k = 0; k < seg->index_count; k++) {
            if (seg->index[k].time_ms >= time_ms) return before;
            before = seg->index[k].pos;
        }
    }
    return MIN(before, store_end(s));
}
