// SPDX-License-Identifier: Apache-2.0
// pool.c: size classes over slabs, and a list of the large objects beyond them.
//
// Classes grow by half and by a third in turn (32, 48, 64, 96 ...), so at most a third of an object
// is slack. Large objects carry a header with list links: a message of megabytes that is on its way
// to another worker when the process ends is found and freed.
#include "broker/pool.h"

#include <stdlib.h>

#include "base/slab.h"

#define POOL_CLASSES 15u
static const u32 class_bytes[POOL_CLASSES] = {32,  48,  64,   96,   128,  192,  256, 384,
                                              512, 768, 1024, 1536, 2048, 3072, 4096};

typedef struct large_object {
    struct large_object *next, *prev;
} large_object;
_Static_assert(sizeof(large_object) == 16, "objects behind the header stay aligned to 16 bytes");

struct pool {
    u64 budget_bytes;
    counter used_bytes;
    large_object large; // head of a ring
    slab *slabs[POOL_CLASSES];
};

pool *pool_create(u64 budget_bytes) {
    pool *p = calloc(1, sizeof(*p));
    if (p == NULL) return NULL;
    p->budget_bytes = budget_bytes;
    p->large.next = p->large.prev = &p->large;
    for (u32 i = 0; i < POOL_CLASSES; i++) {
        p->slabs[i] = slab_create("broker", class_bytes[i], budget_bytes);
        if (p->slabs[i] == NULL) {
            pool_destroy(p);
            return NULL;
        }
    }
    return p;
}

void pool_destroy(pool *p) {
    if (p == NULL) return;
    while (p->large.next != &p->large) {
        large_object *object = p->large.next;
        p->large.next = object->next;
        free(object);
    }
    for (u32 i = 0; i < POOL_CLASSES; i++) {
        if (p->slabs[i] != NULL) slab_destroy(p->slabs[i]);
    }
    free(p);
}

// The smallest class that holds bytes; POOL_CLASSES when none does.
static u32 class_of(size_t bytes) {
    if (bytes <= 32) return 0;
    if (bytes > class_bytes[POOL_CLASSES - 1]) return POOL_CLASSES;
    u32 top = 63u - (u32)__builtin_clzll(bytes - 1); // 2^top < bytes <= 2^(top + 1)
    u32 middle = 2 * (top - 5) + 1;                  // class of 1.5 * 2^top
    return bytes <= class_bytes[middle] ? middle : middle + 1;
}

static size_t charge_of(u32 class, size_t bytes) {
    return class < POOL_CLASSES ? class_bytes[class] : bytes + sizeof(large_object);
}

static void *large_alloc(pool *p, size_t bytes) {
    large_object *object = malloc(bytes + sizeof(*object));
    if (object == NULL) return NULL;
    object->next = &p->large;
    object->prev = p->large.prev;
    object->prev->next = object;
    p->large.prev = object;
    return object + 1;
}

static void large_free(void *memory) {
    large_object *object = (large_object *)memory - 1;
    object->prev->next = object->next;
    object->next->prev = object->prev;
    free(object);
}

void *pool_alloc(pool *p, size_t bytes) {
    u64 used = counter_get(&p->used_bytes);
    if (bytes > p->budget_bytes) return NULL; // also keeps the sums below from wrapping
    u32 class = class_of(bytes);
    size_t charge = charge_of(class, bytes);
    if (charge > p->budget_bytes - MIN(used, p->budget_bytes)) return NULL;
    void *object = class < POOL_CLASSES ? slab_alloc(p->slabs[class]) : large_alloc(p, bytes);
    if (object != NULL) counter_add(&p->used_bytes, charge);
    return object;
}

void pool_free(pool *p, void *object, size_t bytes) {
    if (object == NULL) return;
    u32 class = class_of(bytes);
    counter_sub(&p->used_bytes, charge_of(class, bytes));
    if (class < POOL_CLASSES) {
        slab_free(p->slabs[class], object);
    } else {
        large_free(object);
    }
}

void pool_trim(pool *p) {
    for (u32 i = 0; i < POOL_CLASSES; i++) slab_trim(p->slabs[i]);
}

u64 pool_used_bytes(const pool *p) {
    return counter_get(&p->used_bytes);
}
