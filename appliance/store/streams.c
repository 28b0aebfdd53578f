// SPDX-License-Identifier: Apache-2.0
// streams.c: which streams a message belongs to, and the numbers it gets. See streams.h.
//
// Invariant: an offset is given once. `next` moves only when the record that carries the offset is in the log.
#include "store/streams.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "broker/topic.h"
#include "store/streams_state.h"
#include "worker.h"

_Static_assert(LIMIT_WORKERS_MAX << STREAM_NUMBER_BITS <= 1u << 16, "a stream's number is 16 bits");
_Static_assert(LIMIT_STREAMS_KEPT <= 1u << STREAM_NUMBER_BITS, "and has room for all of a worker");

// --- matching ---

// Cuts the list into filters, each with the bytes that a topic must begin with.
static void filters_make(stream_part *p) {
    const char *text = p->conf.topics;
    p->filter_count = 0;
    for (u32 at = 0; text[at] != '\0';) {
        u32 len = (u32)(strchr(text + at, '\n') - (text + at));
        u32 literal = 0;
        while (literal < len && text[at + literal] != '+' && text[at + literal] != '#') literal++;
        // "a/#" matches "a" too.
        if (literal < len && text[at + literal] == '#' && literal > 0) literal--;
        p->filters[p->filter_count++] = (stream_filter){(u16)at, (u16)len, (u16)literal};
        at += len + 1;
    }
}

// MQTT 5.0 section 4.7.
static bool part_matches(const stream_part *p, const char *topic, u32 len) {
    for (u32 i = 0; i < p->filter_count; i++) {
        const stream_filter *f = &p->filters[i];
        const char *filter = p->conf.topics + f->at;
        if (len < f->literal || memcmp(topic, filter, f->literal) != 0) continue;
        if (f->literal == f->len) {
            if (len == f->len) return true;
            continue;
        }
        if (topic_filters_overlap(filter, f->len, topic, len)) return true;
    }
    return false;
}

u32 streams_take(const streams *s, const char *topic, u32 len, message_stream *refs, u32 max) {
    u32 count = 0;
    if (s == NULL) return 0;
    for (u32 i = 0; i < s->taking && count < max; i++) {
        const stream_part *p = s->own[i];
        if (p->full || !part_matches(p, topic, len)) continue;
        refs[count++] = (message_stream){.offset = p->next, .stream = p->number};
    }
    return count;
}

u32 streams_taking(const streams *s) {
    return s == NULL ? 0 : s->taking;
}

static int refusal_full(streams *s, const char *topic, u32 len) {
    int result = 0;
    for (u32 i = 0; i < s->taking && s->bounded > 0; i++) {
        stream_part *p = s->own[i];
        if (p->conf.discard != STREAM_DISCARD_NEW || !part_matches(p, topic, len)) continue;
        p->full = !stream_part_room(s, p);
        if (!p->full) continue;
        stream_room_refused(s, p);
        counter_add(&p->counters.refused, 1);
        result = -EXFULL;
    }
    return result;
}

int streams_refusal(streams *s, const char *topic, u32 len, u8 qos) {
    int result = s == NULL ? 0 : refusal_full(s, topic, len);
    for (u32 i = 0; s != NULL && s->unready > 0 && i < s->count; i++) {
        stream_part *p = s->parts[i];
        if (!p->taking || p->known || !part_matches(p, topic, len)) continue;
        result = p->write_failed == 0 ? -EAGAIN : p->write_failed == -ENOSPC ? -EDQUOT : p->write_failed;
        if (qos == 0 || result != -EAGAIN) counter_add(&p->counters.refused, 1);
    }
    return result;
}

bool streams_wait_commit(const streams *s, const message_stream *refs, u32 count) {
    for (u32 i = 0; i < count; i++) {
        const stream_part *p = stream_part_find(s, refs[i].stream);
        if (p == NULL || p->conf.sync == STREAM_SYNC_COMMIT) return true;
    }
    return false;
}

// --- the table ---

stream_part *stream_part_find(const streams *s, u16 number) {
    for (u32 i = 0; i < s->count; i++) {
        if (s->parts[i]->number == number) return s->parts[i];
    }
    return NULL;
}

stream_part *stream_part_named(const streams *s, const char *name, u32 name_len, u32 nth) {
    u32 count = s == NULL ? 0 : __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < count; i++) {
        stream_part *p = s->parts[i];
        if (strlen(p->name) != name_len || memcmp(p->name, name, name_len) != 0) continue;
        if (nth-- == 0) return p;
    }
    return NULL;
}

stream_part *stream_part_add(streams *s, const char *name, u32 name_len, u16 number) {
    if (s->count == LIMIT_STREAMS_KEPT || name_len >= LIMIT_NAME_BYTES) return NULL;
    stream_part *p = calloc(1, sizeof(*p));
    if (p == NULL) return NULL;
    memcpy(p->name, name, name_len);
    p->number = number;
    p->first = p->next = p->swept = 1;
    stream_part_count(p);
    s->parts[s->count] = p;
    __atomic_store_n(&s->count, s->count + 1, __ATOMIC_RELEASE);
    return p;
}

void stream_part_count(stream_part *p) {
    stream_counters *c = &p->counters;
    bool empty = p->first == p->next;
    counter_set(&c->first, p->first);
    counter_set(&c->next, p->next);
    counter_set(&c->bytes, p->index.last_bytes_end - p->bytes_first);
    // Behind the bytes: who sees it sees them (stream_retain.c).
    u64 first_ms = empty || p->index.count == 0 ? 0 : p->index.marks[0].time_ms;
    __atomic_store_n(&c->first_ms.value, first_ms, __ATOMIC_RELEASE);
    counter_set(&c->last_ms, empty ? 0 : p->index.last_time_ms);
}

// --- messages ---

static void part_append(stream_part *p, u64 offset, const stream_place *place) {
    stream_mark m = {.offset = offset, .pos = place->origin, .time_ms = place->time_ms,
                     .bytes_before = p->index.last_bytes_end};
    // Without memory for the mark the message is found from the one before.
    (void)stream_index_append(&p->index, &m, place->bytes);
    p->next = offset + 1;
    stream_part_count(p);
}

void streams_appended(streams *s, const message_stream *refs, u32 count, const stream_place *place) {
    for (u32 i = 0; i < count; i++) {
        stream_part *p = stream_part_find(s, refs[i].stream);
        ASSERT(p != NULL && refs[i].offset == p->next);
        part_append(p, refs[i].offset, place);
        counter_add(&p->counters.taken, 1);
        counter_add(&p->counters.taken_bytes, place->bytes);
    }
}

void streams_refused(streams *s, const message_stream *refs, u32 count) {
    for (u32 i = 0; i < count; i++) counter_add(&stream_part_find(s, refs[i].stream)->counters.refused, 1);
}

// A record that lies before the part's own record of the checkpoint is in that one already.
void streams_replay_message(streams *s, const message_stream *refs, u32 count, const stream_place *place) {
    for (u32 i = 0; i < count; i++) {
        stream_part *p = stream_part_find(s, refs[i].stream);
        if (p == NULL || refs[i].offset < p->next) continue;
        part_append(p, refs[i].offset, place);
        s->replayed_ms = place->time_ms;
    }
}

bool streams_need(const streams *s, const message_stream *refs, u32 count) {
    for (u32 i = 0; s != NULL && i < count; i++) {
        const stream_part *p = stream_part_find(s, refs[i].stream);
        if (p != NULL && refs[i].offset >= p->swept) return true;
    }
    return false;
}

u64 streams_owners(const message_stream *refs, u32 count, u32 workers) {
    u64 mask = 0;
    for (u32 i = 0; i < count; i++) mask |= 1ull << stream_partition_of(refs[i].stream) % workers;
    return mask;
}

void streams_on_release(streams *s, void (*released)(worker *w, const store_record *r)) {
    s->released = released;
}

void streams_on_sent(streams *s, u64 (*sent)(worker *w, u16 number), void (*save)(worker *w, u16 number)) {
    s->sent = sent;
    s->save_sent = save;
}

u64 stream_offset_in(const message_record *m, u16 number, u32 *at) {
    for (u32 i = 0; i < m->stream_count; i++) {
        message_stream ref = message_record_stream(m, i);
        *at = i;
        if (ref.stream == number) return ref.offset;
    }
    return 0;
}

// --- for readers of the log ---

bool streams_find(const streams *s, const char *name, u32 nth, stream_info *out) {
    const stream_part *p = stream_part_named(s, name, (u32)strlen(name), nth);
    if (p == NULL) return false;
    *out = (stream_info){.number = p->number, .partition = stream_partition_of(p->number), .first = p->first,
                         .next = p->next};
    return true;
}

u64 streams_time_behind(const streams *s, u16 number, u64 pos, u64 *last_ms) {
    const stream_part *p = stream_part_find(s, number);
    *last_ms = p == NULL || p->first == p->next ? 0 : p->index.last_time_ms;
    if (*last_ms == 0) return 0;
    const stream_mark *m = stream_index_find_pos(&p->index, pos);
    u32 next = m == NULL ? 0 : (u32)(m - p->index.marks) + 1;
    return next < p->index.count ? p->index.marks[next].time_ms : 0;
}

u64 streams_first(const streams *s, u16 number) {
    const stream_part *p = stream_part_find(s, number);
    return p == NULL ? UINT64_MAX : p->first;
}

store_pos streams_position(const streams *s, u16 number, u64 offset) {
    const stream_part *p = stream_part_find(s, number);
    if (p == NULL || p->first == p->next || offset >= p->next) return 0;
    const stream_mark *m = stream_index_find(&p->index, MAX(offset, p->first));
    return m == NULL ? store_first(s->log) : m->pos;
}

// --- configuration ---

// The lowest number of this worker's own partition that no stream has.
static int number_next(const streams *s) {
    u32 base = s->owner->index << STREAM_NUMBER_BITS;
    for (u32 n = base; n < base + (1u << STREAM_NUMBER_BITS); n++) {
        if (stream_part_find(s, (u16)n) == NULL) return (int)n;
    }
    return -1;
}

// This worker's own partition of a stream; NULL: it has none yet.
static stream_part *own_part(const streams *s, const char *name) {
    stream_part *p;
    for (u32 nth = 0; (p = stream_part_named(s, name, (u32)strlen(name), nth)) != NULL; nth++) {
        if (stream_partition_of(p->number) == s->owner->index) return p;
    }
    return NULL;
}

static void part_configure(stream_part *p, const stream_config *conf) {
    if (memcmp(&p->conf, conf, sizeof(*conf)) != 0) {
        p->conf = *conf;
        stream_room_forget(p);
        filters_make(p);
        p->state_dirty = true;
    }
    p->taking = true;
    counter_set(&p->counters.taking, 1);
}

// A message must not carry the number of a stream that the log does not know.
void stream_own_gather(streams *s) {
    s->taking = s->unready = s->bounded = 0;
    for (u32 i = 0; i < s->count; i++) {
        if (!s->parts[i]->taking) continue;
        if (s->parts[i]->conf.discard == STREAM_DISCARD_NEW) s->bounded++;
        if (s->parts[i]->known) s->own[s->taking++] = s->parts[i];
        else s->unready++;
    }
}

static const stream_config *config_of(const config *conf, const char *name) {
    for (u32 i = 0; i < conf->stream_count; i++) {
        if (strcmp(conf->streams[i].name, name) == 0) return &conf->streams[i];
    }
    return NULL;
}

void streams_configure(streams *s, const config *conf) {
    if (s == NULL) return;
    for (u32 i = 0; i < s->count; i++) {
        stream_part *p = s->parts[i];
        const stream_config *c = config_of(conf, p->name);
        p->taking = false;
        counter_set(&p->counters.taking, 0);
        // Partitions of another number of workers go by the same bounds; nothing is added to them.
        if (c != NULL && stream_partition_of(p->number) != s->owner->index) p->conf = *c;
    }
    for (u32 i = 0; i < conf->stream_count; i++) {
        const stream_config *c = &conf->streams[i];
        stream_part *p = own_part(s, c->name);
        int number = p == NULL ? number_next(s) : 0;
        if (p == NULL && number >= 0) p = stream_part_add(s, c->name, (u32)strlen(c->name), (u16)number);
        if (p != NULL) {
            part_configure(p, c);
            stream_consumers_take(s, p);
            continue;
        }
        log_error("worker %u: stream %s: takes nothing: %s", s->owner->index, c->name,
                  s->count == LIMIT_STREAMS_KEPT ? "this log holds the most streams it can" : "no memory");
    }
    stream_records_flush(s);
    stream_own_gather(s);
}

// --- life ---

streams *streams_create(worker *owner) {
    streams *s = calloc(1, sizeof(*s));
    if (s == NULL) return NULL;
    s->owner = owner;
    s->log = owner->store;
    if (stream_feeds_create(s) < 0) {
        free(s);
        return NULL;
    }
    stream_records_register(s);
    stream_retain_start(s);
    return s;
}

void streams_stop(streams *s) {
    if (s == NULL) return;
    stream_records_flush(s);
    stream_retain_stop(s);
    stream_feeds_end(s);
}

void streams_destroy(streams *s) {
    if (s == NULL) return;
    stream_retain_stop(s);
    stream_feeds_destroy(s);
    stream_heard_forget(s);
    for (u32 i = 0; i < s->count; i++) {
        stream_part *p = s->parts[i];
        stream_consumers_free(p);
        stream_index_free(&p->index);
        free(p);
    }
    free(s);
}
