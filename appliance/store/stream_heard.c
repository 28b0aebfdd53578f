// SPDX-License-Identifier: Apache-2.0
// stream_heard.c: what a worker hears, at its first start after the number of workers has changed, of partitions that
// live on others: which streams they are of and which named consumers these have. A partition that is new here was
// not there when they subscribed: it begins for each of them with its first message, or what is published until they
// subscribe again would be left out. Forgotten when the log has been replayed.
#include <stdlib.h>
#include <string.h>

#include "store/streams_state.h"
#include "worker.h"

bool stream_is_heard(const streams *s, u16 number) {
    const worker *w = s->owner;
    return stream_partition_of(number) % w->gw->worker_count != w->index;
}

stream_part *stream_heard_find(const streams *s, u16 number) {
    stream_part *p = s->heard;
    while (p != NULL && p->number != number) p = p->heard_next;
    return p;
}

bool stream_heard_add(streams *s, const char *name, u32 name_len, u16 number) {
    if (stream_heard_find(s, number) != NULL) return true;
    stream_part *p = name_len < LIMIT_NAME_BYTES ? calloc(1, sizeof(*p)) : NULL;
    if (p == NULL) return false;
    memcpy(p->name, name, name_len);
    p->number = number;
    p->heard_next = s->heard;
    s->heard = p;
    return true;
}

static void consumers_take(stream_part *p, const stream_part *other) {
    if (other == p || strcmp(other->name, p->name) != 0) return;
    for (const stream_consumer *c = other->consumers; c != NULL; c = c->next) {
        if (c->forgotten || stream_consumer_find(p, c->name, c->name_len) != NULL) continue;
        stream_consumer *own = stream_consumer_get(p, c->name, c->name_len);
        if (own == NULL) return; // as many as there may be, or no memory
        own->acked = p->first;
        own->changed_ms = c->changed_ms;
        own->dirty = true;
    }
}

void stream_consumers_take(const streams *s, stream_part *p) {
    if (p->next > 1) return; // it was there when they subscribed
    for (u32 i = 0; i < s->count; i++) consumers_take(p, s->parts[i]);
    for (const stream_part *other = s->heard; other != NULL; other = other->heard_next) consumers_take(p, other);
}

void stream_heard_forget(streams *s) {
    while (s->heard != NULL) {
        stream_part *p = s->heard;
        s->heard = p->heard_next;
        stream_consumers_free(p);
        free(p);
    }
}
