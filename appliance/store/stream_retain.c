// SPDX-License-Identifier: Apache-2.0
// stream_retain.c: what streams give up, once a second: by bytes (of all partitions of a stream together: the one
// with the oldest messages gives way) and by age. It has two steps, so that the data path does neither:
//   1. `first` moves to a mark of the index, in memory and as a TRIM record. Nobody reads what is before it any more.
//   2. The sweep reads the log over what was given up and releases each record that no stream has any more. A
//      record can be in several streams: it is released by the last of their sweeps.
//
// A sweep that a restart cuts short is not made up for: those records are found dead when the log's reclaim looks
// at them (streams_need).
#include <string.h>

#include "base/log.h"
#include "store/message_record.h"
#include "store/streams_state.h"
#include "worker.h"

#define TICK_NS NS_PER_S
#define SWEEP_IDLE_TICKS 10u

// --- the clock ---

// What the clock has been set by decades was not lived through: the age of what is there counts from now on, and is
// written down so.
static void ages_anew(streams *s, u64 now_ms, bool forward) {
    for (u32 i = 0; i < s->count; i++) {
        stream_index_ages_anew(&s->parts[i]->index, now_ms, forward);
        s->parts[i]->state_dirty = true;
        stream_part_count(s->parts[i]);
    }
}

// The wall clock's time if it may be used to judge ages now, else 0.
static u64 time_to_judge_by(streams *s) {
    u64 now_ms = clock_real_ns() / NS_PER_MS;
    i64 step_ms;
    stream_clock_verdict verdict =
        stream_clock_look(&s->clock, s->owner->now_ns / NS_PER_MS, now_ms, s->replayed_ms, &step_ms);
    if (verdict == CLOCK_FORWARD || verdict == CLOCK_BACK) ages_anew(s, now_ms, verdict == CLOCK_FORWARD);
    if (step_ms != 0) {
        log_warn("worker %u: the clock has been set by %lld s: for %u minutes no messages of streams go for their "
                 "age%s", s->owner->index, (long long)(step_ms / 1000), LIMIT_STREAM_CLOCK_REST_MS / 60000u,
                 verdict == CLOCK_RESTS ? "" : ", which is counted from now on");
    }
    return verdict == CLOCK_STEADY ? now_ms : 0;
}

// --- by bytes and age ---

// Whether its messages are older than the other one's. Never true of both: two that gave at once, each for all, would
// give twice what is asked.
static bool is_older(u64 ms, const stream_part *p, u64 other_ms, const stream_part *other) {
    return ms != other_ms ? ms < other_ms : p->number < other->number;
}

// Bytes that this part has to give up so that all partitions of the stream are within its bound: the one with the
// oldest messages gives. Other workers' counters are looked at as they are; the next tick sees what they became. Age
// before size, which they change in the other order: whose age says that it gave has the size that it left.
// *alone: no other one holds anything.
static u64 excess_bytes(const streams *s, const stream_part *p, bool *alone) {
    const gateway *gw = s->owner->gw;
    u64 own_ms = counter_get(&p->counters.first_ms);
    bool oldest = true;
    *alone = true;
    if (p->conf.max_bytes == 0) return 0;
    for (u32 w = 0; w < gw->worker_count; w++) {
        for (u32 nth = 0;; nth++) {
            const stream_part *other = stream_part_named(gw->workers[w].streams, p->name, (u32)strlen(p->name), nth);
            if (other == NULL) break;
            u64 other_ms = __atomic_load_n(&other->counters.first_ms.value, __ATOMIC_ACQUIRE);
            if (other == p || other_ms == 0) continue;
            *alone = false;
            if (is_older(other_ms, other, own_ms, p)) oldest = false;
        }
    }
    u64 total = stream_bytes_total(s, p);
    return oldest && total > p->conf.max_bytes ? total - p->conf.max_bytes : 0;
}

// What the bound of bytes asks it to give up: everything before the offset returned.
static u64 first_by_bytes(const streams *s, const stream_part *p) {
    bool alone;
    u64 held = p->index.last_bytes_end - p->bytes_first, excess = excess_bytes(s, p, &alone);
    u64 keep = excess == 0 ? 0 : MAX(held - MIN(held, excess), 1u); // 0: no bound
    u64 first = stream_index_retain(&p->index, keep, 0, 0);
    // Behind its last mark a partition keeps what there is. With others that hold newer messages it must not: it would
    // be the oldest one for ever, and none would give.
    if (first <= p->first && excess > 0 && !alone) {
        const stream_mark *next = stream_index_next(&p->index, p->first);
        first = next != NULL ? next->offset : p->next;
    }
    return first;
}

// discard = new: an eighth of the bound is to be free, and some of the log, as far as all have taken what is there.
// Each partition gives for all of them: another one may have nothing that it could give.
static u64 first_by_taken(const streams *s, const stream_part *p) {
    u64 held = p->index.last_bytes_end - p->bytes_first, max = p->conf.max_bytes, keep = max - max / 8;
    u64 total = max == 0 ? 0 : stream_bytes_total(s, p), excess = total > keep ? total - keep : 0;
    excess = MAX(excess, s->log_excess);
    if (excess == 0) return 0;
    return MIN(stream_index_holding(&p->index, held - MIN(held, excess)), stream_taken_to(s, p));
}

void stream_part_retain(streams *s, stream_part *p, u64 now_ms) {
    if (p->first == p->next) return;
    u64 by_age = stream_index_retain(&p->index, 0, p->conf.max_age_ms, now_ms);
    bool taken_only = p->conf.discard == STREAM_DISCARD_NEW;
    u64 by_bytes = taken_only ? first_by_taken(s, p) : first_by_bytes(s, p), bytes_first = p->bytes_first;
    u64 first = MAX(by_age, by_bytes);
    if (first <= p->first) return;
    u64 sent = stream_sent_to(s, p);
    if (first > sent) stream_unsent_gone(s, p, first - sent);
    if (taken_only && s->save_sent != NULL) s->save_sent(s->owner, p->number);
    const stream_mark *m = stream_index_find(&p->index, first);
    counter_add(&p->counters.trimmed, first - p->first);
    p->bytes_first = first == p->next || m == NULL ? p->index.last_bytes_end : m->bytes_before;
    s->log_excess -= MIN(s->log_excess, p->bytes_first - bytes_first);
    p->first = first;
    p->trim_dirty = true;
    stream_room_forget(p);
    stream_part_count(p);
}

// The slowest named consumer, for the metrics.
static void part_lag(stream_part *p) {
    u64 lag = 0;
    for (const stream_consumer *c = p->consumers; c != NULL; c = c->next) {
        u64 from = MAX(c->acked, p->first);
        if (!c->forgotten && from < p->next) lag = MAX(lag, p->next - from);
    }
    counter_set(&p->counters.lag_max, lag);
    counter_set(&p->counters.consumers, p->consumer_count);
}

// --- the sweep ---

static void sweep_soon(streams *s) {
    timer_arm(s->owner->wheel, &s->sweep_timer, 0); // in the next turn
}

static void sweep_ready(void *context) {
    sweep_soon(context);
}

// Whether the sweeps of all other streams have passed the record, so that this one, which has come to it now, is
// the last.
static bool sweep_is_last(const streams *s, const message_record *m, const stream_part *p) {
    for (u32 i = 0; i < m->stream_count; i++) {
        message_stream ref = message_record_stream(m, i);
        const stream_part *other = stream_part_find(s, ref.stream);
        if (other != NULL && other != p && ref.offset >= other->swept) return false;
    }
    return true;
}

static void sweep_end(stream_part *p) {
    p->swept = p->first;
    stream_index_trim(&p->index, p->first);
    stream_part_count(p);
}

// One record of the part's range. False: the sweep is at its end.
static bool sweep_record(streams *s, stream_part *p, const store_record *r) {
    message_record m;
    u32 at;
    if (r->kind != STORE_MESSAGE || !message_record_parse(r->data, r->len, &m)) return true;
    u64 offset = stream_offset_in(&m, p->number, &at);
    if (offset == 0 || offset < p->swept) return true;
    if (offset >= p->first) return false;
    p->swept = offset + 1;
    if (s->released != NULL && sweep_is_last(s, &m, p)) s->released(s->owner, r);
    return p->swept < p->first;
}

static stream_part *sweep_next(const streams *s) {
    for (u32 i = 0; i < s->count; i++) {
        if (s->parts[i]->swept < s->parts[i]->first) return s->parts[i];
    }
    return NULL;
}

// Opens the reader for the next part that has given something up. False: none has, or there is no memory.
static bool sweep_begin(streams *s) {
    s->sweeping = sweep_next(s);
    if (s->sweeping == NULL) {
        if (s->sweeper != NULL) store_reader_close(s->sweeper);
        s->sweeper = NULL;
        return false;
    }
    const stream_mark *m = stream_index_find(&s->sweeping->index, s->sweeping->swept);
    store_pos from = m == NULL ? store_first(s->log) : m->pos;
    if (s->sweeper != NULL) store_reader_seek(s->sweeper, from);
    else s->sweeper = store_reader_open(s->log, from, sweep_ready, s);
    if (s->sweeper == NULL) s->sweeping = NULL; // tried again with the next tick
    return s->sweeping != NULL;
}

static void sweep(timer_node *node, void *context) {
    (void)context;
    streams *s = CONTAINER_OF(node, streams, sweep_timer);
    store_record r;
    s->sweep_idle = 0;
    for (u32 n = 0; n < LIMIT_STREAM_READS_TURN; n++) {
        if (s->sweeping == NULL && !sweep_begin(s)) return;
        int got = store_reader_next(s->sweeper, &r);
        if (got == 0) return; // sweep_ready follows
        if (got < 0) continue; // damaged: it is not needed any more either
        if (sweep_record(s, s->sweeping, &r)) continue;
        sweep_end(s->sweeping);
        s->sweeping = NULL;
    }
    sweep_soon(s);
}

// --- once a second ---

static void tick(timer_node *node, void *context) {
    (void)context;
    streams *s = CONTAINER_OF(node, streams, timer);
    u64 now_ms = time_to_judge_by(s);
    // What was given up counts when the sweep has been over it.
    s->log_excess = sweep_next(s) == NULL ? stream_log_excess(s) : 0;
    for (u32 i = 0; i < s->count; i++) {
        stream_part_retain(s, s->parts[i], now_ms);
        stream_room_tick(s, s->parts[i]);
        part_lag(s->parts[i]);
    }
    stream_records_flush(s);
    // What it looks for is not there, nor anything behind it: that place is damaged.
    if (s->sweeping != NULL && ++s->sweep_idle > SWEEP_IDLE_TICKS) {
        sweep_end(s->sweeping);
        s->sweeping = NULL;
    }
    if (s->sweeping == NULL && sweep_next(s) != NULL) sweep_soon(s);
    timer_arm(s->owner->wheel, &s->timer, s->owner->now_ns + TICK_NS);
}

void stream_retain_start(streams *s) {
    s->timer.callback = tick;
    s->sweep_timer.callback = sweep;
    timer_arm(s->owner->wheel, &s->timer, s->owner->now_ns + TICK_NS);
}

void stream_retain_stop(streams *s) {
    timer_cancel(s->owner->wheel, &s->timer);
    timer_cancel(s->owner->wheel, &s->sweep_timer);
    if (s->sweeper != NULL) store_reader_close(s->sweeper);
    s->sweeper = NULL;
}
