// SPDX-License-Identifier: Apache-2.0
// tls_admission.c: two queues and a list on each worker. ready: a record is there to be worked on. slots: wants to
// begin, and there is no place. active: who has a place, least recent progress first.
#include "net/tls_admission.h"

#include <stdlib.h>
#include <string.h>

#include "net/tls_layer.h"

typedef struct tls_list {
    tls_layer *head, *tail;
} tls_list;

typedef struct tls_worker {
    tls_list ready, slots;
    tls_layer *active_head, *active_tail;
    u32 active_count;
} tls_worker;

static worker *worker_of(const tls_layer *t) {
    return t->base.c->owner;
}

static tls_list *list_of(tls_worker *tw, u8 queue) {
    return queue == TLS_QUEUE_READY ? &tw->ready : &tw->slots;
}

static void queue_put(tls_worker *tw, tls_layer *t, u8 queue) {
    tls_list *list = list_of(tw, queue);
    t->queue = queue;
    t->next = NULL;
    t->prev = list->tail;
    if (list->tail != NULL) list->tail->next = t;
    else list->head = t;
    list->tail = t;
    if (queue == TLS_QUEUE_SLOTS) counter_add(&worker_of(t)->metrics.tls_waiting, 1);
}

static void queue_remove(tls_worker *tw, tls_layer *t) {
    if (t->queue == TLS_NOT_QUEUED) return;
    tls_list *list = list_of(tw, t->queue);
    if (t->prev != NULL) t->prev->next = t->next;
    else list->head = t->next;
    if (t->next != NULL) t->next->prev = t->prev;
    else list->tail = t->prev;
    if (t->queue == TLS_QUEUE_SLOTS) counter_sub(&worker_of(t)->metrics.tls_waiting, 1);
    t->queue = TLS_NOT_QUEUED;
    t->next = t->prev = NULL;
}

static void active_append(tls_worker *tw, tls_layer *t) {
    t->next_active = NULL;
    t->prev_active = tw->active_tail;
    if (tw->active_tail != NULL) tw->active_tail->next_active = t;
    else tw->active_head = t;
    tw->active_tail = t;
    t->progress_ns = worker_of(t)->now_ns;
}

static void active_remove(tls_worker *tw, tls_layer *t) {
    if (t->prev_active != NULL) t->prev_active->next_active = t->next_active;
    else tw->active_head = t->next_active;
    if (t->next_active != NULL) t->next_active->prev_active = t->prev_active;
    else tw->active_tail = t->prev_active;
    t->next_active = t->prev_active = NULL;
}

static u32 of_same_address(const tls_worker *tw, const tls_layer *t) {
    u32 count = 0;
    for (const tls_layer *other = tw->active_head; other != NULL; other = other->next_active) {
        if (memcmp(other->base.c->peer_addr, t->base.c->peer_addr, sizeof(other->base.c->peer_addr)) == 0) count++;
    }
    return count;
}

static bool may_begin(const tls_worker *tw, const tls_layer *t) {
    if (tw->active_count >= LIMIT_TLS_HANDSHAKES) return false;
    if (t->context == NULL || t->base.c->peer_family == 0) return true;
    return of_same_address(tw, t) < t->context->handshakes_per_address;
}

void tls_admission_enqueue(tls_layer *t) {
    worker *w = worker_of(t);
    if (t->queue != TLS_NOT_QUEUED) return;
    if (w->tls == NULL) w->tls = calloc(1, sizeof(*w->tls));
    if (w->tls == NULL) {
        tls_layer_fail(t, TLS_FAIL_NO_MEMORY, 0);
        return;
    }
    queue_put(w->tls, t, TLS_QUEUE_READY);
}

// Lends the memory of a handshake. False: it has failed, and is told.
static bool slot_take(tls_worker *tw, tls_layer *t) {
    worker *w = worker_of(t);
    t->hs = worker_buf_alloc(w, sizeof(*t->hs), &t->hs_size);
    if (t->hs == NULL) {
        tls_layer_fail(t, TLS_FAIL_NO_MEMORY, 0);
        return false;
    }
    tw->active_count++;
    counter_add(&w->metrics.tls_handshaking, 1);
    active_append(tw, t);
    return tls_layer_begin(t);
}

// The next of those that wait for a place, as far as their addresses allow.
static void slots_serve(tls_worker *tw) {
    u32 looked_at = 0;
    tls_layer *next;
    for (tls_layer *t = tw->slots.head; t != NULL && looked_at < LIMIT_TLS_HANDSHAKES; t = next, looked_at++) {
        next = t->next;
        if (!may_begin(tw, t)) continue;
        queue_remove(tw, t);
        queue_put(tw, t, TLS_QUEUE_READY);
        return;
    }
}

void tls_admission_leave(tls_layer *t) {
    worker *w = worker_of(t);
    tls_worker *tw = w->tls;
    if (tw == NULL) return;
    queue_remove(tw, t);
    if (t->hs == NULL) return;
    active_remove(tw, t);
    tw->active_count--;
    counter_sub(&w->metrics.tls_handshaking, 1);
    explicit_bzero(t->hs, t->hs_size);
    worker_buf_free(w, t->hs, t->hs_size);
    t->hs = NULL;
    slots_serve(tw);
}

// Who holds a place and does nothing with it gives way.
static void slow_give_way(tls_worker *tw, const worker *w) {
    while (tw->slots.head != NULL && tw->active_head != NULL) {
        tls_layer *slowest = tw->active_head;
        bool slow = w->now_ns - slowest->progress_ns >= LIMIT_TLS_SLOW_MS * NS_PER_MS;
        if (!slow || slowest->queue == TLS_QUEUE_READY || slowest->phase != TLS_IN_HANDSHAKE) return;
        tls_layer_fail(slowest, TLS_FAIL_SLOW, 0);
    }
}

static void run_one(tls_worker *tw, tls_layer *t) {
    queue_remove(tw, t);
    if (layer_is_ended(&t->base)) {
        tls_admission_leave(t);
        return;
    }
    if (t->hs == NULL && !may_begin(tw, t)) {
        queue_put(tw, t, TLS_QUEUE_SLOTS);
        return;
    }
    if (t->hs == NULL && !slot_take(tw, t)) return;
    active_remove(tw, t);
    active_append(tw, t);
    tls_layer_step(t);
}

void tls_admission_run(worker *w) {
    tls_worker *tw = w->tls;
    if (LIKELY(tw == NULL || (tw->ready.head == NULL && tw->slots.head == NULL))) return;
    u64 started_ns = clock_mono_ns();
    slow_give_way(tw, w);
    while (tw->ready.head != NULL) {
        run_one(tw, tw->ready.head);
        if (clock_mono_ns() - started_ns >= LIMIT_TLS_TURN_US * 1000ull) break;
    }
}

bool tls_admission_has_work(const worker *w) {
    return w->tls->ready.head != NULL;
}

void tls_admission_free(worker *w) {
    free(w->tls);
    w->tls = NULL;
}
