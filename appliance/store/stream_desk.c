// SPDX-License-Identifier: Apache-2.0
// stream_desk.c: the asker's side of stream_ask.h. It owns every ask of its worker: allocates and frees them, and
// knows which are away. An ask that is closed while it is away is freed when it has come back; the partition's
// worker is told by its number, never by its address, so that the two may cross.
//
// A partition on the asker's own worker is asked through a timer instead of a ring: nothing is answered inside the
// call that asked.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/stream_ask.h"
#include "store/stream_feed.h"
#include "store/streams_state.h"
#include "worker.h"

#define RETRY_NS (20 * NS_PER_MS) // rings that are full
#define PAGE_KEPT_BYTES 4096u

struct stream_desk {
    worker *owner;
    stream_ask *all;
    stream_ask *retry;   // to be posted: the ring was full
    timer_node retry_timer;
    u64 last_id;
    u32 count;
    // Asks between this worker and itself.
    stream_ask *local, **local_end;
    timer_node local_timer;
};

_Static_assert(sizeof(void *) == 8, "STREAM_STOP and STREAM_DONE carry a count in place of a pointer");

// --- posting ---

static bool post(worker *from, u32 to, u32 what, void *ptr, u64 extra) {
    spsc_message message = {.kind = WM_STREAM, .arg = what, .ptr = ptr, .extra = extra};
    return worker_post(from, to, &message);
}

static void local_queue(stream_desk *d, stream_ask *a) {
    a->next_host = NULL;
    *d->local_end = a;
    d->local_end = &a->next_host;
    timer_arm(d->owner->wheel, &d->local_timer, 0);
}

static void retry_queue(stream_desk *d, stream_ask *a) {
    if (a->retry_queued) return;
    a->retry_queued = true;
    a->next_retry = d->retry;
    d->retry = a;
    if (!timer_is_armed(&d->retry_timer)) timer_arm(d->owner->wheel, &d->retry_timer, d->owner->now_ns + RETRY_NS);
}

// What is due of it: the ask itself, or the word that its reading has ended.
static void ask_post(stream_ask *a) {
    worker *w = a->home;
    stream_desk *d = w->stream_desk;
    bool local = a->host == w->index;
    if (a->stop_due) {
        if (local) stream_feed_stop(w->streams, a->id, a->acked);
        a->stop_due = !local && !post(w, a->host, STREAM_STOP, (void *)(uintptr_t)a->acked, a->id);
        if (a->stop_due) retry_queue(d, a);
        return;
    }
    a->unsent = !local && !post(w, a->host, STREAM_ASK, a, 0);
    if (a->unsent) retry_queue(d, a);
    else if (local) local_queue(d, a);
}

// --- life of an ask ---

static void ask_free(stream_ask *a) {
    *a->prev_all = a->next_all;
    if (a->next_all != NULL) a->next_all->prev_all = a->prev_all;
    a->home->stream_desk->count--;
    free(a->page);
    free(a);
}

// Closed: gone when it is here and the partition's worker has been told.
static void ask_free_if_done(stream_ask *a) {
    if (a->closed && !a->away && !a->stop_due && !a->retry_queued) ask_free(a);
}

stream_ask *stream_ask_open(worker *w, const stream_partition *partition, const stream_ask *settings,
                            stream_from from, const char *consumer, u32 consumer_len) {
    stream_desk *d = w->stream_desk;
    stream_ask *a = d->count < LIMIT_STREAM_ASKS ? calloc(1, sizeof(*a)) : NULL;
    if (a == NULL) return NULL;
    d->count++;
    ASSERT(consumer_len <= STREAM_CONSUMER_BYTES);
    a->arrived = settings->arrived;
    a->context = settings->context;
    a->messages_max = settings->messages_max;
    a->wait = settings->wait;
    a->home = w;
    a->id = (u64)(w->index + 1) << 48 | ++d->last_id;
    a->number = partition->number;
    a->host = partition->host;
    a->from = from;
    a->consumer_len = (u8)consumer_len;
    if (consumer_len > 0) memcpy(a->consumer, consumer, consumer_len);
    a->next_all = d->all;
    a->prev_all = &d->all;
    if (d->all != NULL) d->all->prev_all = &a->next_all;
    d->all = a;
    stream_ask_next(a);
    return a;
}

void stream_ask_next(stream_ask *a) {
    ASSERT(!a->away && !a->closed);
    // An idle reading keeps no large page.
    if (a->size > PAGE_KEPT_BYTES && a->used < PAGE_KEPT_BYTES) {
        free(a->page);
        a->page = NULL;
        a->size = 0;
    }
    a->away = true;
    a->done = a->acked;
    a->count = a->used = 0;
    ask_post(a);
}

void stream_ask_again(stream_ask *a) {
    ASSERT(!a->away && !a->closed);
    a->again = true;
    retry_queue(a->home->stream_desk, a);
}

void stream_ask_done(stream_ask *a) {
    if (!a->away || a->unsent) return; // it is told with the next ask
    worker *w = a->home;
    if (a->host == w->index) stream_feed_done(w->streams, a->id, a->acked);
    else (void)post(w, a->host, STREAM_DONE, (void *)(uintptr_t)a->acked, a->id); // full: the next tells as much
}

void stream_ask_close(stream_ask *a) {
    if (a == NULL || a->closed) return;
    a->closed = true;
    a->stop_due = true;
    if (a->unsent) a->unsent = a->away = false; // it has never left
    ask_post(a);
    ask_free_if_done(a);
}

static void ask_arrived(stream_ask *a) {
    a->away = false;
    if (a->closed) ask_free_if_done(a);
    else a->arrived(a);
}

bool stream_page_next(const stream_ask *a, u32 *at, stream_message *out) {
    if (*at >= a->used) return false;
    const u8 *from = a->page + *at;
    memcpy(&out->entry, from, sizeof(out->entry));
    out->topic = (const char *)from + sizeof(out->entry);
    out->props = (const u8 *)out->topic + out->entry.topic_len;
    out->payload = out->props + out->entry.props_len;
    *at += (u32)sizeof(out->entry) + out->entry.topic_len + out->entry.props_len + out->entry.payload_len;
    return true;
}

u32 stream_partitions(const worker *w, const char *name, u32 len, stream_partition *out, u32 max) {
    u32 count = 0;
    for (u32 i = 0; i < w->gw->worker_count; i++) {
        for (u32 nth = 0; count < max; nth++) {
            const stream_part *p = stream_part_named(w->gw->workers[i].streams, name, len, nth);
            if (p == NULL) break;
            const stream_counters *c = &p->counters;
            out[count++] = (stream_partition){
                .number = p->number, .host = (u16)i, .first = counter_get(&c->first), .next = counter_get(&c->next),
                .bytes = counter_get(&c->bytes), .first_ms = counter_get(&c->first_ms),
                .last_ms = counter_get(&c->last_ms)};
        }
    }
    return count;
}

static bool name_is_there(char names[][LIMIT_NAME_BYTES], u32 count, const char *name) {
    for (u32 i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

u32 stream_names(const worker *w, char names[][LIMIT_NAME_BYTES], u32 max) {
    u32 count = 0;
    for (u32 i = 0; i < w->gw->worker_count; i++) {
        const streams *s = w->gw->workers[i].streams;
        u32 parts = s == NULL ? 0 : __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);
        for (u32 k = 0; k < parts && count < max; k++) {
            if (name_is_there(names, count, s->parts[k]->name)) continue;
            memcpy(names[count++], s->parts[k]->name, LIMIT_NAME_BYTES);
        }
    }
    return count;
}

// --- the worker ---

static void retry_run(timer_node *node, void *context) {
    (void)context;
    stream_desk *d = CONTAINER_OF(node, stream_desk, retry_timer);
    stream_ask *a = d->retry, *next;
    d->retry = NULL;
    for (; a != NULL; a = next) {
        next = a->next_retry;
        a->retry_queued = false;
        bool again = a->again && !a->closed && !a->away;
        a->again = false;
        if (again) {
            a->arrived(a); // may close it
            continue;
        }
        if (a->stop_due || a->unsent) ask_post(a);
        ask_free_if_done(a);
    }
}

// Asks of this worker for itself, and answers to them. What they lead to comes in the next turn.
static void local_run(timer_node *node, void *context) {
    (void)context;
    stream_desk *d = CONTAINER_OF(node, stream_desk, local_timer);
    stream_ask *a = d->local, *next;
    d->local = NULL;
    d->local_end = &d->local;
    for (; a != NULL; a = next) {
        next = a->next_host;
        if (a->answered || a->closed) {
            a->answered = false;
            ask_arrived(a);
        } else {
            stream_feed_ask(d->owner->streams, a);
        }
    }
}

bool stream_desk_answer(worker *w, stream_ask *a) {
    if (a->home != w) return post(w, a->home->index, STREAM_ANSWER, a, 0);
    a->answered = true;
    local_queue(w->stream_desk, a);
    return true;
}

void stream_message_handle(worker *w, const spsc_message *message) {
    switch (message->arg) {
        case STREAM_ASK: stream_feed_ask(w->streams, message->ptr); return;
        case STREAM_ANSWER: ask_arrived(message->ptr); return;
        case STREAM_STOP: stream_feed_stop(w->streams, message->extra, (u64)(uintptr_t)message->ptr); return;
        case STREAM_DONE: stream_feed_done(w->streams, message->extra, (u64)(uintptr_t)message->ptr); return;
        default: ASSERT(false);
    }
}

stream_desk *stream_desk_create(worker *w) {
    stream_desk *d = calloc(1, sizeof(*d));
    if (d == NULL) return NULL;
    d->owner = w;
    d->local_end = &d->local;
    d->retry_timer.callback = retry_run;
    d->local_timer.callback = local_run;
    return d;
}

void stream_desk_destroy(stream_desk *d) {
    if (d == NULL) return;
    timer_cancel(d->owner->wheel, &d->retry_timer);
    timer_cancel(d->owner->wheel, &d->local_timer);
    while (d->all != NULL) ask_free(d->all);
    free(d);
}
