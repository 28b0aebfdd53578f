// SPDX-License-Identifier: Apache-2.0
// stream_records.c: what the streams write to the log: STORE_STREAM records, integers big-endian.
//
//   STATE      number, name, first, next, bytes_first, max_bytes, max_age, policy, index with its marks
//              policy: 1 sync = interval, 2 discard = new
//   TRIM       number, first, bytes_first               messages before `first` are gone
//   CONSUMER   number, name, acked, time                a named consumer has acknowledged all before `acked`
//   FORGOTTEN  number, name                             it has been removed
//
// A STATE replaces all that was known of its number, a CONSUMER what was known of the consumer; a checkpoint is one
// STATE for each part and one CONSUMER for each consumer. Messages move `next` and the index on (streams.c).
//
// What can not be written now (the log is full or busy) stays marked and is written by a later tick: a trim or an
// acknowledgement that a restart forgets is done again, nothing is lost by it. Records of a stream the log does not
// know yet are not: it takes messages only when its STATE has been appended.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "store/streams_state.h"
#include "worker.h"

typedef enum stream_record_type {
    RECORD_STATE = 1,
    RECORD_TRIM = 2,
    RECORD_CONSUMER = 3,
    RECORD_FORGOTTEN = 4,
} stream_record_type;

#define HEAD_BYTES_MAX 256u // all but the marks
#define MARK_BYTES 32u
#define POLICY_INTERVAL 1u
#define POLICY_NEW 2u // without it a stream that has left the configuration would lose what it holds beyond its bound

_Static_assert(HEAD_BYTES_MAX + LIMIT_STREAM_MARKS * MARK_BYTES <= STORE_RECORD_BYTES_MAX, "a STATE is one record");

// --- writing ---

typedef struct record_out {
    u8 data[HEAD_BYTES_MAX];
    u32 len;
} record_out;

static void put(record_out *out, u64 value, u32 bytes) {
    ASSERT(out->len + bytes <= sizeof(out->data));
    for (u32 i = 0; i < bytes; i++) out->data[out->len++] = (u8)(value >> 8 * (bytes - 1 - i));
}

static void put_name(record_out *out, const char *name, u32 len) {
    put(out, len, 1);
    ASSERT(out->len + len <= sizeof(out->data));
    memcpy(out->data + out->len, name, len);
    out->len += len;
}

static record_out record_begin(stream_record_type type, u16 number) {
    record_out out = {.len = 0};
    put(&out, type, 1);
    put(&out, number, 2);
    return out;
}

static int record_append(streams *s, const record_out *out, const u8 *more, u32 more_len) {
    const struct iovec parts[] = {{(void *)(uintptr_t)out->data, out->len}, {(void *)(uintptr_t)more, more_len}};
    store_pos pos;
    return store_append(s->log, STORE_STREAM, STORE_VITAL, parts, more_len > 0 ? 2 : 1, &pos);
}

static u8 *marks_write(const stream_index *x) {
    u8 *data = malloc(MAX(x->count, 1u) * MARK_BYTES), *to = data;
    if (data == NULL) return NULL;
    for (u32 i = 0; i < x->count; i++) {
        const stream_mark *m = &x->marks[i];
        const u64 values[] = {m->offset, m->pos, m->time_ms, m->bytes_before};
        for (u32 k = 0; k < ARRAY_LEN(values); k++) {
            for (u32 byte = 0; byte < 8; byte++) *to++ = (u8)(values[k] >> (56 - 8 * byte));
        }
    }
    return data;
}

static int state_append(streams *s, stream_part *p) {
    const stream_index *x = &p->index;
    record_out out = record_begin(RECORD_STATE, p->number);
    put_name(&out, p->name, (u32)strlen(p->name));
    put(&out, p->first, 8);
    put(&out, p->next, 8);
    put(&out, p->bytes_first, 8);
    put(&out, p->conf.max_bytes, 8);
    put(&out, p->conf.max_age_ms, 8);
    put(&out, (p->conf.sync == STREAM_SYNC_INTERVAL ? POLICY_INTERVAL : 0u) |
              (p->conf.discard == STREAM_DISCARD_NEW ? POLICY_NEW : 0u), 1);
    put(&out, x->sparse, 1);
    put(&out, x->last_offset, 8);
    put(&out, x->last_pos, 8);
    put(&out, x->last_time_ms, 8);
    put(&out, x->last_bytes_end, 8);
    put(&out, x->count, 4);
    u8 *marks = marks_write(x);
    if (marks == NULL) return -ENOMEM;
    int result = record_append(s, &out, marks, x->count * MARK_BYTES);
    free(marks);
    if (result < 0) return result;
    p->known = true;
    p->state_dirty = p->trim_dirty = false;
    return 0;
}

static int trim_append(streams *s, stream_part *p) {
    record_out out = record_begin(RECORD_TRIM, p->number);
    put(&out, p->first, 8);
    put(&out, p->bytes_first, 8);
    int result = record_append(s, &out, NULL, 0);
    if (result == 0) p->trim_dirty = false;
    return result;
}

static int consumer_append(streams *s, const stream_part *p, stream_consumer *c) {
    record_out out = record_begin(c->forgotten ? RECORD_FORGOTTEN : RECORD_CONSUMER, p->number);
    put_name(&out, c->name, c->name_len);
    put(&out, c->acked, 8);
    put(&out, c->changed_ms, 8);
    int result = record_append(s, &out, NULL, 0);
    if (result == 0) c->dirty = false;
    return result;
}

static int part_flush(streams *s, stream_part *p) {
    int result = 0;
    if (!p->known || p->state_dirty) result = state_append(s, p);
    if (result == 0 && p->trim_dirty) result = trim_append(s, p);
    for (stream_consumer **at = &p->consumers; result == 0 && *at != NULL;) {
        stream_consumer *c = *at;
        if (c->dirty) result = consumer_append(s, p, c);
        if (result == 0 && c->forgotten) {
            *at = c->next;
            p->consumer_count--;
            free(c);
        } else {
            at = &c->next;
        }
    }
    return result;
}

void stream_records_flush(streams *s) {
    bool became_known = false;
    for (u32 i = 0; i < s->count; i++) {
        stream_part *p = s->parts[i];
        bool was_known = p->known;
        int result = part_flush(s, p);
        became_known |= p->known && !was_known;
        if (result == 0 || p->write_failed == result) continue;
        p->write_failed = result;
        log_warn("worker %u: stream %s: its state could not be written, and will be tried again: %s", s->owner->index,
                 p->name, errno_name(result));
    }
    if (became_known) stream_own_gather(s);
}

// --- consumers ---

stream_consumer *stream_consumer_find(const stream_part *p, const char *name, u32 len) {
    for (stream_consumer *c = p->consumers; c != NULL; c = c->next) {
        if (!c->forgotten && c->name_len == len && memcmp(c->name, name, len) == 0) return c;
    }
    return NULL;
}

stream_consumer *stream_consumer_get(stream_part *p, const char *name, u32 len) {
    for (stream_consumer *old = p->consumers; old != NULL; old = old->next) {
        if (old->name_len != len || memcmp(old->name, name, len) != 0) continue;
        if (old->forgotten) old->dirty = true; // it is back before the log knew that it went
        old->forgotten = false;
        return old;
    }
    stream_consumer *c;
    if (p->consumer_count == LIMIT_STREAM_CONSUMERS || len > STREAM_CONSUMER_BYTES) return NULL;
    c = calloc(1, sizeof(*c) + len);
    if (c == NULL) return NULL;
    memcpy(c->name, name, len);
    c->name_len = (u8)len;
    c->next = p->consumers;
    p->consumers = c;
    p->consumer_count++;
    counter_set(&p->counters.consumers, p->consumer_count);
    return c;
}

void stream_consumers_free(stream_part *p) {
    for (stream_consumer *c = p->consumers, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    p->consumers = NULL;
}

// --- replay ---

static u64 take_u64(cursor *c) {
    u64 high = cursor_u32(c);
    return high << 32 | cursor_u32(c);
}

typedef struct name_view {
    const char *text;
    u32 len;
} name_view;

static name_view take_name(cursor *c) {
    u32 len = cursor_u8(c);
    return (name_view){(const char *)cursor_take(c, len), len};
}

static bool marks_take(cursor *c, stream_index *x, u32 count) {
    if (count == 0) return true;
    if (count > LIMIT_STREAM_MARKS || cursor_left(c) != count * MARK_BYTES) return false;
    stream_mark *marks = stream_index_restore(x, count);
    if (marks == NULL) return false;
    for (u32 i = 0; i < count; i++) {
        marks[i].offset = take_u64(c);
        marks[i].pos = take_u64(c);
        marks[i].time_ms = take_u64(c);
        marks[i].bytes_before = take_u64(c);
    }
    return true;
}

// False: it is not what was written; the log's checksum was good, so another version wrote it.
static bool replay_state(streams *s, u16 number, cursor *c) {
    name_view name = take_name(c);
    stream_part at = {.first = take_u64(c)};
    at.next = take_u64(c);
    at.bytes_first = take_u64(c);
    at.conf.max_bytes = take_u64(c);
    at.conf.max_age_ms = take_u64(c);
    u8 policy = cursor_u8(c);
    at.conf.sync = (policy & POLICY_INTERVAL) != 0 ? STREAM_SYNC_INTERVAL : STREAM_SYNC_COMMIT;
    at.conf.discard = (policy & POLICY_NEW) != 0 ? STREAM_DISCARD_NEW : STREAM_DISCARD_OLD;
    stream_index x = {.sparse = cursor_u8(c)};
    x.last_offset = take_u64(c);
    x.last_pos = take_u64(c);
    x.last_time_ms = take_u64(c);
    x.last_bytes_end = take_u64(c);
    u32 count = cursor_u32(c);
    if (c->overrun || name.len == 0 || memchr(name.text, '\0', name.len) != NULL) return false;
    if (at.first == 0 || at.first > at.next) return false;
    if (x.last_bytes_end < at.bytes_first || x.sparse > STREAM_SPARSE_MAX) return false;
    if (stream_is_heard(s, number)) return stream_heard_add(s, name.text, name.len, number);
    stream_part *p = stream_part_find(s, number);
    if (p == NULL) p = stream_part_add(s, name.text, name.len, number);
    if (p == NULL) return false;
    if (at.next < p->next) return true; // an older copy
    p->first = MAX(at.first, p->first);
    p->next = at.next;
    p->bytes_first = MAX(at.bytes_first, p->bytes_first);
    p->conf.max_bytes = at.conf.max_bytes;
    p->conf.max_age_ms = at.conf.max_age_ms;
    p->conf.sync = at.conf.sync;
    p->conf.discard = at.conf.discard;
    p->known = true;
    bool read = marks_take(c, &p->index, count);
    stream_index *to = &p->index;
    *to = (stream_index){.marks = to->marks, .count = to->count, .size = to->size, .sparse = x.sparse,
                         .last_offset = x.last_offset, .last_pos = x.last_pos, .last_time_ms = x.last_time_ms,
                         .last_bytes_end = x.last_bytes_end};
    return read;
}

static bool replay_trim(const streams *s, u16 number, cursor *c) {
    stream_part *p = stream_part_find(s, number);
    u64 first = take_u64(c), bytes_first = take_u64(c);
    if (c->overrun) return false;
    if (p == NULL || first <= p->first) return true;
    p->first = first;
    p->next = MAX(p->next, first);
    p->bytes_first = MIN(MAX(p->bytes_first, bytes_first), p->index.last_bytes_end);
    stream_index_trim(&p->index, first);
    return true;
}

static bool replay_consumer(const streams *s, u16 number, cursor *c, bool forgotten) {
    stream_part *p = stream_is_heard(s, number) ? stream_heard_find(s, number) : stream_part_find(s, number);
    name_view name = take_name(c);
    u64 acked = take_u64(c), changed_ms = take_u64(c);
    if (c->overrun || name.len == 0) return false;
    if (p == NULL) return true;
    stream_consumer *to = stream_consumer_get(p, name.text, name.len);
    if (to == NULL) return false;
    to->acked = acked;
    to->changed_ms = changed_ms;
    to->forgotten = forgotten;
    return true;
}

bool stream_record_replay(streams *s, const u8 *data, u32 len) {
    cursor c = cursor_of(data, len);
    u8 type = cursor_u8(&c);
    u16 number = cursor_u16(&c);
    if (c.overrun || stream_partition_of(number) >= LIMIT_WORKERS_MAX) return false;
    switch (type) {
        case RECORD_STATE: return replay_state(s, number, &c);
        case RECORD_TRIM: return replay_trim(s, number, &c);
        case RECORD_CONSUMER: return replay_consumer(s, number, &c, false);
        case RECORD_FORGOTTEN: return replay_consumer(s, number, &c, true);
        default: return false;
    }
}

static void replay(void *context, const store_record *r) {
    streams *s = context;
    s->replayed_ms = r->time_ms;
    if (stream_record_replay(s, r->data, r->len)) return;
    log_warn("worker %u: a record of a stream at %llu was not understood, and is left out", s->owner->index,
             (unsigned long long)r->pos);
}

static void replayed(void *context) {
    streams *s = context;
    for (u32 i = 0; i < s->count; i++) {
        stream_part *p = s->parts[i];
        p->index.last_bytes_end = MAX(p->index.last_bytes_end, p->bytes_first);
        p->swept = p->first;
        stream_part_count(p);
    }
    streams_configure(s, s->owner->conf);
    stream_heard_forget(s);
}

// --- checkpoint ---

static bool checkpoint(void *context, bool begin, u32 budget) {
    streams *s = context;
    u32 used = 0;
    if (begin) s->check_part = 0;
    for (; s->check_part < s->count; s->check_part++) {
        stream_part *p = s->parts[s->check_part];
        if (used >= budget || state_append(s, p) < 0) return false;
        used += p->index.count * MARK_BYTES + HEAD_BYTES_MAX;
        for (stream_consumer *c = p->consumers; c != NULL; c = c->next) {
            if (c->forgotten) continue;
            if (consumer_append(s, p, c) < 0) return false; // the part is begun anew
            used += HEAD_BYTES_MAX / 4;
        }
    }
    return true;
}

// A partition lives on the worker of its number.
static u64 owners(const store_record *r, u32 old_worker, u32 workers) {
    cursor c = cursor_of(r->data, r->len);
    (void)cursor_u8(&c);
    u16 number = cursor_u16(&c);
    return c.overrun ? 1ull << old_worker % workers : 1ull << stream_partition_of(number) % workers;
}

// Of a partition of that worker, and not what it has heard of others'.
static bool is_own(const store_record *r, u32 of_worker, u32 workers) {
    cursor c = cursor_of(r->data, r->len);
    (void)cursor_u8(&c);
    u16 number = cursor_u16(&c);
    return c.overrun || stream_partition_of(number) % workers == of_worker;
}

void stream_records_register(streams *s) {
    const store_keeper keeper = {.context = s, .replay = replay, .replayed = replayed, .checkpoint = checkpoint,
                                 .owners = owners, .is_own = is_own};
    store_register(s->log, STORE_STREAM, &keeper);
}
