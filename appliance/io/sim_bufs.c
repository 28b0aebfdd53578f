// SPDX-License-Identifier: Apache-2.0
// sim_bufs.c: poisoned receive buffers of the simulated engine; see sim_bufs.h.
//
// Invariant: every byte of a buffer that is not lent holds the pattern; it is checked when the buffer is
// taken, so a write through a kept pointer is found even without the address sanitizer.
#include "io/sim_bufs.h"

#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_BUFS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIM_BUFS_ASAN 1
#endif

#ifdef SIM_BUFS_ASAN
#include <sanitizer/asan_interface.h>
static void region_close(void *memory, size_t bytes) {
    __asan_poison_memory_region(memory, bytes);
}
static void region_open(void *memory, size_t bytes) {
    __asan_unpoison_memory_region(memory, bytes);
}
#else
static void region_close(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}
static void region_open(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}
#endif

static void *must_alloc(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) base_out_of_memory("simulated receive buffers", count * bytes);
    return memory;
}

void sim_bufs_init(sim_bufs *b, u32 count, u32 bytes, u32 scratch_bytes) {
    *b = (sim_bufs){.count = count, .free_count = count};
    b->memory = must_alloc(count + 1, sizeof(u8 *));
    b->bytes = must_alloc(count + 1, sizeof(u32));
    b->open_bytes = must_alloc(count + 1, sizeof(u32));
    b->busy = must_alloc(count + 1, sizeof(bool));
    for (u32 i = 0; i <= count; i++) {
        b->bytes[i] = i < count ? bytes : scratch_bytes;
        b->memory[i] = must_alloc(1, b->bytes[i]);
        memset(b->memory[i], SIM_POISON_BYTE, b->bytes[i]);
        region_close(b->memory[i], b->bytes[i]);
    }
}

void sim_bufs_fini(sim_bufs *b) {
    for (u32 i = 0; b->memory != NULL && i <= b->count; i++) {
        region_open(b->memory[i], b->bytes[i]);
        free(b->memory[i]);
    }
    free(b->memory);
    free(b->bytes);
    free(b->open_bytes);
    free(b->busy);
    *b = (sim_bufs){0};
}

int sim_bufs_take(sim_bufs *b) {
    if (b->free_count == 0) return -1;
    while (b->busy[b->next]) b->next = (b->next + 1) % b->count;
    u32 index = b->next;
    b->next = (b->next + 1) % b->count;
    b->busy[index] = true;
    b->free_count--;
    return (int)index;
}

static bool is_pattern(const u8 *memory, u32 bytes) {
    for (u32 i = 0; i < bytes; i++) {
        if (memory[i] != SIM_POISON_BYTE) return false;
    }
    return true;
}

void sim_bufs_open(sim_bufs *b, u32 index, u32 len) {
    ASSERT(index <= b->count && len <= b->bytes[index]);
    region_open(b->memory[index], len);
    // Else somebody wrote through a pointer that was kept after the loan had ended.
    ASSERT(is_pattern(b->memory[index], len));
    b->open_bytes[index] = len;
}

void sim_bufs_give(sim_bufs *b, u32 index) {
    ASSERT(index <= b->count);
    memset(b->memory[index], SIM_POISON_BYTE, b->open_bytes[index]);
    region_close(b->memory[index], b->bytes[index]);
    b->open_bytes[index] = 0;
    if (index == b->count) return;
    ASSERT(b->busy[index]);
    b->busy[index] = false;
    b->free_count++;
}
