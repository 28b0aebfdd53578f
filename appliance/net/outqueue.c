// SPDX-License-Identifier: Apache-2.0
// outqueue.c: the bytes a connection has still to send: segments with copied bytes, and in between
// references to bytes that lie elsewhere (a message that goes to thousands of connections). A segment's
// copied bytes grow from its front, its references from its end; each reference stands at an offset of
// the copied bytes. One large message therefore costs a connection its header and 32 bytes.
//
// Invariants: what is queued stays where it is until it has been consumed, so a send in flight may
// point into it; a reference is released exactly once, when it has been consumed or the connection's
// output is freed, and not before the send that reads it has ended.
#include <string.h>

#include "net/conn_internal.h"
#include "net/listener.h"

typedef struct out_ref {
    const u8 *data;
    void (*release)(void *context);
    void *context;
    u32 len;
    u32 at; // copied bytes in front of it
} out_ref;
_Static_assert(sizeof(out_ref) == 32 && LIMIT_OUT_SEGMENT_MIN_BYTES % 32 == 0,
               "references end where the segment ends and are aligned");

static out_ref *ref_of(out_segment *segment, u32 index) {
    return (out_ref *)(void *)((u8 *)segment + segment->size) - 1 - index;
}

static void segment_free(conn *c, out_segment *segment) {
    for (; segment->ref_next < segment->refs; segment->ref_next++) {
        const out_ref *ref = ref_of(segment, segment->ref_next);
        ref->release(ref->context);
    }
    worker_buf_free(c->owner, segment, segment->size);
}

// A segment with room for some of the bytes. after: size of the one before it, 0 = none: the first is
// small (an acknowledgement), a queue that grows gets larger ones.
static out_segment *segment_alloc(conn *c, u32 bytes, u32 after) {
    u32 want = (u32)sizeof(out_segment) + bytes;
    u32 least = after == 0 ? LIMIT_OUT_SEGMENT_MIN_BYTES : MIN(after * 4, LIMIT_OUT_SEGMENT_MAX_BYTES);
    want = MIN(MAX(want, least), LIMIT_OUT_SEGMENT_MAX_BYTES);
    u32 size;
    out_segment *segment = worker_buf_alloc(c->owner, want, &size);
    if (segment == NULL) return NULL;
    *segment = (out_segment){.size = size};
    return segment;
}

static u32 segment_room(const out_segment *segment) {
    u32 taken = (u32)sizeof(*segment) + segment->used + segment->refs * (u32)sizeof(out_ref);
    return segment->size > taken ? segment->size - taken : 0;
}

static void segments_free(conn *c, out_segment *first) {
    while (first != NULL) {
        out_segment *next = first->next;
        segment_free(c, first);
        first = next;
    }
}

// Makes room for len bytes behind the last one, or changes nothing. out_tail stays where bytes go next.
static bool room_make(conn *c, u32 len) {
    u32 room = c->out_tail != NULL ? segment_room(c->out_tail) : 0;
    u32 size = c->out_tail != NULL ? c->out_tail->size : 0;
    out_segment *first = NULL, **link = &first;
    while (room < len) {
        *link = segment_alloc(c, len - room, size);
        if (*link == NULL) break;
        room += segment_room(*link);
        size = (*link)->size;
        link = &(*link)->next;
    }
    if (room >= len) {
        if (c->out_tail == NULL) c->out_head = c->out_tail = first;
        else c->out_tail->next = first;
        return true;
    }
    segments_free(c, first);
    return false;
}

// Copies into the room that was made.
static void append(conn *c, const u8 *data, u32 len) {
    for (u32 done = 0; done < len;) {
        if (segment_room(c->out_tail) == 0) c->out_tail = c->out_tail->next;
        u32 take = MIN(len - done, segment_room(c->out_tail));
        memcpy(c->out_tail->data + c->out_tail->used, data + done, take);
        c->out_tail->used += take;
        done += take;
    }
}

bool outqueue_append(conn *c, const struct iovec *pieces, u32 count, u32 total) {
    if (!room_make(c, total)) return false;
    for (u32 i = 0; i < count; i++) append(c, pieces[i].iov_base, (u32)pieces[i].iov_len);
    return true;
}

bool outqueue_append_shared(conn *c, const void *head, u32 head_len, const void *data, u32 len,
                            void (*release)(void *context), void *context) {
    if (!room_make(c, head_len + (u32)sizeof(out_ref))) return false;
    append(c, head, head_len);
    // All of the room is left in front of a next segment, or this is the last one and has enough.
    if (segment_room(c->out_tail) < sizeof(out_ref)) c->out_tail = c->out_tail->next;
    out_segment *tail = c->out_tail;
    *ref_of(tail, tail->refs++) = (out_ref){data, release, context, len, tail->used};
    return true;
}

bool outqueue_push_front(conn *c, const u8 *data, u32 len) {
    while (len > 0) {
        // From the end, each piece put before the others.
        out_segment *segment = segment_alloc(c, len, 0);
        if (segment == NULL) return false;
        u32 take = MIN(len, segment_room(segment));
        memcpy(segment->data, data + len - take, take);
        segment->used = take;
        segment->next = c->out_head;
        c->out_head = segment;
        if (c->out_tail == NULL) c->out_tail = segment;
        len -= take;
        counter_add(&c->owner->metrics.copied_out_bytes, take);
    }
    return true;
}

// --- sending ---

// A place in the queue: what is next to be sent.
typedef struct out_place {
    out_segment *segment;
    u32 start, ref_next, ref_start;
} out_place;

static out_place place_begin(const conn *c) {
    out_segment *s = c->out_head;
    return (out_place){s, s->start, s->ref_next, s->ref_start};
}

// The piece at the place, not empty; the place moves behind it. False: there is none.
static bool piece_next(out_place *at, struct iovec *out) {
    for (out_segment *s = at->segment; s != NULL;) {
        const out_ref *ref = at->ref_next < s->refs ? ref_of(s, at->ref_next) : NULL;
        if (ref != NULL && ref->at == at->start) {
            *out = (struct iovec){(void *)(uintptr_t)(ref->data + at->ref_start), ref->len - at->ref_start};
            at->ref_next++;
            at->ref_start = 0;
            return true;
        }
        u32 end = ref != NULL ? ref->at : s->used;
        if (at->start < end) {
            *out = (struct iovec){(void *)(uintptr_t)(s->data + at->start), end - at->start};
            at->start = end;
            return true;
        }
        s = s->next;
        *at = (out_place){.segment = s, .start = s == NULL ? 0 : s->start};
    }
    return false;
}

u32 outqueue_gather(conn *c, struct iovec *single, const struct iovec **list, u32 *bytes) {
    struct iovec second;
    out_place at = place_begin(c);
    if (!piece_next(&at, single)) ASSERT(false);
    *bytes = (u32)single->iov_len;
    *list = single;
    if (!piece_next(&at, &second)) return 1;
    u32 size;
    struct iovec *iov = worker_buf_alloc(c->owner, LIMIT_OUT_IOVECS * sizeof(*iov), &size);
    if (iov == NULL) return 1;
    ASSERT(size == OUT_IOVECS_BYTES);
    iov[0] = *single;
    iov[1] = second;
    *bytes += (u32)second.iov_len;
    u32 count = 2;
    while (count < LIMIT_OUT_IOVECS && piece_next(&at, &iov[count])) {
        *bytes += (u32)iov[count++].iov_len;
    }
    c->out_iov = iov;
    *list = iov;
    return count;
}

static void segment_consume(out_segment *s, u32 *bytes) {
    while (*bytes > 0) {
        const out_ref *ref = s->ref_next < s->refs ? ref_of(s, s->ref_next) : NULL;
        if (ref != NULL && ref->at == s->start) {
            u32 take = MIN(*bytes, ref->len - s->ref_start);
            s->ref_start += take;
            *bytes -= take;
            if (s->ref_start < ref->len) return;
            s->ref_start = 0;
            s->ref_next++;
            ref->release(ref->context);
            continue;
        }
        u32 take = MIN(*bytes, (ref != NULL ? ref->at : s->used) - s->start);
        if (take == 0) return;
        s->start += take;
        *bytes -= take;
    }
}

void outqueue_consume(conn *c, u32 bytes) {
    while (bytes > 0) {
        out_segment *segment = c->out_head;
        ASSERT(segment != NULL);
        segment_consume(segment, &bytes);
        if (segment->start < segment->used || segment->ref_next < segment->refs) return;
        c->out_head = segment->next;
        if (c->out_head == NULL) c->out_tail = NULL;
        segment_free(c, segment);
    }
}

void outqueue_free(conn *c) {
    segments_free(c, c->out_head);
    c->out_head = c->out_tail = NULL;
}
