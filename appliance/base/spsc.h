// SPDX-License-Identifier: Apache-2.0
// spsc.h: a bounded single-producer single-consumer ring of fixed messages: the only way workers
// talk to each other. Producer and consumer index live in separate cache lines, each with a cached
// copy of the other's, so that an uncontended push or pop touches one shared line per wrap, not per
// message.
//
// The ring carries no wake-up: the producer rings the consumer's doorbell once per batch
// (worker_post_flush), and only when the consumer said it was about to sleep.
#ifndef SLUICE_BASE_SPSC_H
#define SLUICE_BASE_SPSC_H

#include "base/base.h"

typedef struct spsc_message {
    u32 kind;   // worker_message
    u32 arg;
    void *ptr;
    u64 extra;
} spsc_message;
_Static_assert(sizeof(spsc_message) == 24, "message layout");

typedef struct spsc {
    _Alignas(CACHE_LINE) u64 tail; // producer writes
    u64 head_cached;               // producer's copy of head
    _Alignas(CACHE_LINE) u64 head; // consumer writes
    u64 tail_cached;               // consumer's copy of tail
    _Alignas(CACHE_LINE) spsc_message *slots;
    u64 mask;
} spsc;

// slots: power of two. Returns 0 or -ENOMEM.
int spsc_init(spsc *ring, u32 slots);
void spsc_free(spsc *ring);
// Producer only. False when full.
bool spsc_push(spsc *ring, const spsc_message *message);
// Consumer only. False when empty.
bool spsc_pop(spsc *ring, spsc_message *message);
// Consumer only; whether a pop would succeed now.
bool spsc_is_empty(spsc *ring);
// Any thread; approximate.
u64 spsc_count(const spsc *ring);

#endif
