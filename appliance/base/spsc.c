// SPDX-License-Identifier: Apache-2.0
// spsc.c: the single-producer single-consumer ring between two workers.
//
// Indices count messages since the start and never wrap in practice (2^64); the slot is index &
// mask. Ordering: the producer publishes a slot by a release store of tail, which the consumer's
// acquire load pairs with; the consumer gives a slot back by a release store of head. Each side
// looks at the other's index only when its cached copy says full (or empty), so while both run the
// two lines stay put.
//
// The slots are mapped, not allocated: the pages of a ring that is never used cost nothing, and
// with W workers there are W * (W + 1) rings.
#include "base/spsc.h"

#include <errno.h>
#include <sys/mman.h>

_Static_assert(offsetof(spsc, head) - offsetof(spsc, tail) == CACHE_LINE, "indices share no line");
_Static_assert(offsetof(spsc, slots) - offsetof(spsc, head) == CACHE_LINE, "constants apart");

static size_t spsc_bytes(u64 slots) {
    return (size_t)slots * sizeof(spsc_message);
}

int spsc_init(spsc *ring, u32 slots) {
    ASSERT(IS_POWER_OF_TWO(slots));
    void *memory = mmap(NULL, spsc_bytes(slots), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    *ring = (spsc){.slots = memory, .mask = (u64)slots - 1};
    return 0;
}

void spsc_free(spsc *ring) {
    if (ring->slots == NULL) return;
    munmap(ring->slots, spsc_bytes(ring->mask + 1));
    *ring = (spsc){0};
}

bool spsc_push(spsc *ring, const spsc_message *message) {
    u64 tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
    if (UNLIKELY(tail - ring->head_cached > ring->mask)) {
        ring->head_cached = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
        if (tail - ring->head_cached > ring->mask) return false;
    }
    ring->slots[tail & ring->mask] = *message;
    __atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
    return true;
}

bool spsc_pop(spsc *ring, spsc_message *message) {
    u64 head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    if (head == ring->tail_cached) {
        ring->tail_cached = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        if (head == ring->tail_cached) return false;
    }
    *message = ring->slots[head & ring->mask];
    __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
    return true;
}

// The load of tail is sequentially consistent because a consumer that is about to sleep stores its
// "sleeping" flag, then asks here; a producer pushes, then reads that flag. With weaker loads both
// could miss each other and a message would lie until the next timeout. Plain move on x86-64, ldar
// on arm64.
bool spsc_is_empty(spsc *ring) {
    u64 head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    if (head != ring->tail_cached) return false;
    ring->tail_cached = __atomic_load_n(&ring->tail, __ATOMIC_SEQ_CST);
    return head == ring->tail_cached;
}

u64 spsc_count(const spsc *ring) {
    // head first: it can only have grown by the time tail is read, so the difference is never
    // negative.
    u64 head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
    u64 tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
    return MIN(tail - head, ring->mask + 1);
}
