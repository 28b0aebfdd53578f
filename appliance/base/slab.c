// SPDX-License-Identifier: Apache-2.0
// slab.c: fixed-size objects in chunks that can be given back.
//
// A chunk is a power of two in size and aligned to it, so the chunk of an object is found by
// masking the object's address. Each chunk has its own free list, threaded through the freed
// objects, and a mark up to which its objects were ever used: pages beyond it have not been touched
// and cost nothing. Allocation takes from one current chunk until that is full, then from the
// fullest other chunk, so that the emptiest ones drain and can go (a broker that tripled its memory
// in a connection storm and never gave it back is what this is for). Chunks are kept in classes by
// quarters of fullness; an object freed changes its chunk's class only when a quarter's edge is
// crossed, so alloc and free are a few loads and stores.
//
// Invariants: current is in no class; a full chunk is in no class; every other chunk is in exactly
// one; an empty chunk (class 0) has an empty free list and mark 0. mapped never exceeds budget.
//
// Under the address sanitizer freed objects are poisoned and objects are set apart by a poisoned
// gap.
#include "base/slab.h"

#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define SLAB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLAB_ASAN 1
#endif
#endif
#ifdef SLAB_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#define SLAB_GAP_BYTES 64u
#define slab_poison(p, n) __asan_poison_memory_region(p, n)
#define slab_unpoison(p, n) __asan_unpoison_memory_region(p, n)
#define slab_is_poisoned(p) __asan_address_is_poisoned(p)
// Objects may hold the only pointers to allocated memory; the leak check must look into them.
#define slab_root_add(p, n) __lsan_register_root_region(p, n)
#define slab_root_remove(p, n) __lsan_unregister_root_region(p, n)
#else
#define SLAB_GAP_BYTES 0u
#define slab_poison(p, n) ((void)(p), (void)(n))
#define slab_unpoison(p, n) ((void)(p), (void)(n))
#define slab_is_poisoned(p) ((void)(p), 0)
#define slab_root_add(p, n) ((void)(p), (void)(n))
#define slab_root_remove(p, n) ((void)(p), (void)(n))
#endif

#define CHUNK_BYTES_MIN 4096u         // only under a budget that small
#define CHUNK_BYTES_USUAL (64u << 10)
#define CHUNK_BYTES_MAX (256u << 10)
#define CHUNK_OBJECTS_WANTED 32u      // larger chunks for larger objects, until CHUNK_BYTES_MAX
#define SLAB_CALM_NS NS_PER_S         // no chunk is unmapped sooner after the last growth

// Class 0 holds the empty chunks; 1..4 those filled up to a quarter, a half, three quarters, and
// above.
enum { CLASS_EMPTY, CLASS_FULLEST = 4, CLASSES, CLASS_NONE = CLASSES };
#define DOWN_NEVER UINT32_MAX

typedef struct chunk chunk;
struct chunk {
    slab *owner;
    void *free;              // freed objects, linked through their first word
    u32 used;                // handed out
    u32 fresh;               // objects from here on were never handed out since the chunk was empty
    u32 down_at;             // used count at which a free moves it to a lower class
    u32 class;               // CLASS_NONE while it is current or full
    chunk *next, *prev;      // in its class
    chunk *all_next, *all_prev;
};

struct slab {
    chunk *current;          // NULL only before the first chunk
    u32 capacity;            // objects of a chunk
    u32 stride;              // object and gap, rounded up to the alignment
    u64 chunk_mask;
    counter used, used_max, mapped, refused;
    u32 chunks, empty_chunks; // empty_chunks: in CLASS_EMPTY, without current
    u64 grown_ns;
    chunk *classes[CLASSES];
    chunk *all;
    u32 object_bytes, chunk_bytes;
    u32 open_bytes;          // of an object, not poisoned: room for the free list's link at least
    u64 budget;
    const char *name;
};

_Static_assert(sizeof(chunk) == CACHE_LINE, "objects start at the second line of a chunk");
_Static_assert(SLAB_OBJECT_BYTES_MAX + sizeof(chunk) + SLAB_GAP_BYTES <= CHUNK_BYTES_MAX,
               "the largest object fits the largest chunk");

static u32 chunk_bytes_choose(u32 stride, u64 budget) {
    u64 wanted = sizeof(chunk) + (u64)stride * CHUNK_OBJECTS_WANTED;
    u64 bytes = CHUNK_BYTES_USUAL;
    while (bytes < wanted && bytes < CHUNK_BYTES_MAX) bytes *= 2;
    // A budget below the usual chunk still serves as many objects as it can hold.
    u64 least = MAX(CHUNK_BYTES_MIN, sizeof(chunk) + stride);
    while (bytes > budget && bytes / 2 >= least) bytes /= 2;
    return (u32)bytes;
}

slab *slab_create(const char *name, size_t object_bytes, u64 budget_bytes) {
    ASSERT(object_bytes > 0 && object_bytes <= SLAB_OBJECT_BYTES_MAX);
    slab *s = calloc(1, sizeof(*s));
    if (s == NULL) return NULL;
    u64 align = object_bytes % 64 == 0 ? 64 : 16;
    s->name = name;
    s->object_bytes = (u32)object_bytes;
    s->open_bytes = (u32)MAX(object_bytes, sizeof(void *));
    s->stride = (u32)align_up_u64(s->open_bytes + SLAB_GAP_BYTES, align);
    s->budget = budget_bytes;
    s->chunk_bytes = chunk_bytes_choose(s->stride, budget_bytes);
    s->chunk_mask = ~((u64)s->chunk_bytes - 1);
    s->capacity = (u32)((s->chunk_bytes - sizeof(chunk)) / s->stride);
    return s;
}

// --- classes ---

static void class_link(slab *s, chunk *c, u32 class) {
    c->class = class;
    c->prev = NULL;
    c->next = s->classes[class];
    if (c->next != NULL) c->next->prev = c;
    s->classes[class] = c;
    if (class == CLASS_EMPTY) s->empty_chunks++;
    // Largest used count of the class below: c belongs there when it reaches it.
    c->down_at = class == CLASS_EMPTY ? DOWN_NEVER : (class - 1) * s->capacity / CLASS_FULLEST;
}

static void class_unlink(slab *s, chunk *c) {
    if (c->prev != NULL) c->prev->next = c->next;
    else s->classes[c->class] = c->next;
    if (c->next != NULL) c->next->prev = c->prev;
    if (c->class == CLASS_EMPTY) s->empty_chunks--;
    c->class = CLASS_NONE;
}

// The class of a fill: rounded up, so that one object is class 1 and anything above 3/4 class 4.
static u32 class_of(const slab *s, u32 used) {
    return (used * CLASS_FULLEST + s->capacity - 1) / s->capacity;
}

// --- chunks ---

static void chunk_reset(slab *s, chunk *c) {
    c->free = NULL;
    c->fresh = 0;
    slab_poison(c + 1, s->chunk_bytes - sizeof(*c));
}

// Maps chunk_bytes aligned to chunk_bytes. Guess: right behind the newest chunk, which is aligned
// and mostly free, so that growing costs one system call; else map twice the size and cut.
static void *chunk_map(const slab *s) {
    size_t bytes = s->chunk_bytes;
    u64 hint = s->all == NULL ? 0 : (u64)(uintptr_t)s->all + bytes;
    u8 *memory = mmap((void *)(uintptr_t)hint, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (((u64)(uintptr_t)memory & ~s->chunk_mask) == 0) return memory;
    munmap(memory, bytes);
    memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    size_t before = (bytes - ((uintptr_t)memory & (bytes - 1))) & (bytes - 1);
    if (before > 0) munmap(memory, before);
    munmap(memory + before + bytes, bytes - before);
    return memory + before;
}

static chunk *chunk_grow(slab *s) {
    if (counter_get(&s->mapped) + s->chunk_bytes > s->budget) return NULL;
    chunk *c = chunk_map(s);
    if (c == NULL) return NULL;
    *c = (chunk){.owner = s, .down_at = DOWN_NEVER, .class = CLASS_NONE, .all_next = s->all};
    if (s->all != NULL) s->all->all_prev = c;
    s->all = c;
    s->chunks++;
    s->grown_ns = clock_mono_ns();
    counter_add(&s->mapped, s->chunk_bytes);
    chunk_reset(s, c);
    slab_root_add(c, s->chunk_bytes);
    return c;
}

static void chunk_unmap(slab *s, chunk *c) {
    if (c->all_prev != NULL) c->all_prev->all_next = c->all_next;
    else s->all = c->all_next;
    if (c->all_next != NULL) c->all_next->all_prev = c->all_prev;
    s->chunks--;
    counter_sub(&s->mapped, s->chunk_bytes);
    slab_root_remove(c, s->chunk_bytes);
    slab_unpoison(c, s->chunk_bytes);
    munmap(c, s->chunk_bytes);
}

void slab_destroy(slab *s) {
    if (s == NULL) return;
    while (s->all != NULL) chunk_unmap(s, s->all);
    free(s);
}

void slab_trim(slab *s) {
    bool current_empty = s->current != NULL && s->current->used == 0;
    u32 keep = current_empty ? 0 : 1;
    if (s->empty_chunks <= keep) return;
    if (clock_mono_ns() - s->grown_ns < SLAB_CALM_NS) return;
    while (s->empty_chunks > keep) {
        u64 total = (u64)s->chunks * s->capacity;
        if (total - counter_get(&s->used) <= total / 4) return;
        chunk *c = s->classes[CLASS_EMPTY];
        class_unlink(s, c);
        chunk_unmap(s, c);
    }
}

// --- objects ---

// The current chunk is full (or there is none): the fullest other one, an empty one, or a new one.
static chunk *current_replace(slab *s) {
    chunk *next = NULL;
    for (u32 class = CLASS_FULLEST + 1; class-- > 0 && next == NULL;) next = s->classes[class];
    if (next != NULL) class_unlink(s, next);
    else next = chunk_grow(s);
    if (next == NULL) {
        counter_add(&s->refused, 1);
        return NULL;
    }
    // A full chunk is in no class; the first free puts it into the highest.
    if (s->current != NULL) s->current->down_at = s->capacity - 1;
    next->down_at = DOWN_NEVER;
    s->current = next;
    return next;
}

void *slab_alloc(slab *s) {
    chunk *c = s->current;
    if (UNLIKELY(c == NULL || c->used == s->capacity)) {
        c = current_replace(s);
        if (c == NULL) return NULL;
    }
    void *object = c->free;
    if (object != NULL) {
        slab_unpoison(object, s->open_bytes);
        c->free = *(void **)object;
    } else {
        object = (u8 *)(c + 1) + (size_t)c->fresh++ * s->stride;
        slab_unpoison(object, s->open_bytes);
    }
    c->used++;
    u64 used = counter_get(&s->used) + 1;
    counter_set(&s->used, used);
    if (used > counter_get(&s->used_max)) counter_set(&s->used_max, used);
    return object;
}

// c reached the upper edge of a lower class (or was full and is no more).
static void chunk_lower(slab *s, chunk *c) {
    if (c->class != CLASS_NONE) class_unlink(s, c);
    if (c->used == 0) chunk_reset(s, c);
    class_link(s, c, class_of(s, c->used));
    if (c->used == 0) slab_trim(s);
}

void slab_free(slab *s, void *object) {
    chunk *c = (chunk *)((uintptr_t)object & s->chunk_mask);
    ASSERT(c->owner == s && c->used > 0);
    ASSERT(!slab_is_poisoned(object)); // freed twice
    *(void **)object = c->free;
    c->free = object;
    slab_poison(object, s->open_bytes);
    c->used--;
    counter_sub(&s->used, 1);
    if (UNLIKELY(c->used == c->down_at)) chunk_lower(s, c);
}

slab_usage slab_usage_get(const slab *s) {
    return (slab_usage){
        .name = s->name,
        .object_bytes = s->object_bytes,
        .used = counter_get(&s->used),
        .used_max = counter_get(&s->used_max),
        .mapped_bytes = counter_get(&s->mapped),
        .budget_bytes = s->budget,
        .refused = counter_get(&s->refused),
    };
}
