// SPDX-License-Identifier: Apache-2.0
// test_slab.c: objects keep their bytes, the budget holds to the byte, and memory comes back.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/slab.h"
#include "random.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 // as gcc says it
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#define CALM_NS (NS_PER_S + 50 * NS_PER_MS) // a little beyond what the slab asks for

static void sleep_ns(u64 ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    nanosleep(&t, NULL);
}

static u64 resident_bytes(void) {
    unsigned long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &total, &resident), 2);
    fclose(f);
    return resident * (u64)sysconf(_SC_PAGESIZE);
}

static bool is_filled(const u8 *bytes, size_t count, u8 value) {
    return bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Every object is filled with its own byte while it lives; any overlap or early reuse shows.
static void random_life(size_t object_bytes, u32 objects, u32 steps) {
    u64 seed = object_bytes;
    u8 **held = calloc(objects, sizeof(*held));
    slab *s = slab_create("life", object_bytes, 64u << 20);
    assert_non_null(held);
    assert_non_null(s);
    u64 used = 0;
    for (u32 step = 0; step < steps; step++) {
        u32 k = random_below(&seed, objects);
        // Swings between filling and draining, so that chunks fall empty and fill again.
        bool wanted = random_below(&seed, 100) < (step / 5000 % 2 == 0 ? 70u : 30u);
        if (held[k] != NULL && !wanted) {
            assert_true(is_filled(held[k], object_bytes, (u8)k));
            slab_free(s, held[k]);
            held[k] = NULL;
            used--;
        } else if (held[k] == NULL && wanted) {
            held[k] = slab_alloc(s);
            assert_non_null(held[k]);
            assert_int_equal((uintptr_t)held[k] % (object_bytes % 64 == 0 ? 64 : 16), 0);
            memset(held[k], (int)(u8)k, object_bytes);
            used++;
        }
        assert_int_equal(slab_usage_get(s).used, used);
    }
    for (u32 k = 0; k < objects; k++) {
        if (held[k] != NULL) slab_free(s, held[k]);
    }
    slab_usage usage = slab_usage_get(s);
    assert_int_equal(usage.used, 0);
    assert_true(usage.used_max > 0 && usage.used_max <= objects);
    assert_int_equal(usage.refused, 0);
    assert_int_equal(usage.object_bytes, object_bytes);
    assert_string_equal(usage.name, "life");
    slab_destroy(s);
    free(held);
}

static void test_objects_keep_their_bytes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 8, 17, 64, 100, 256, 1000, 1024, 4096};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) random_life(sizes[i], 2000, 40000);
    random_life(16384, 200, 10000);
    random_life(SLAB_OBJECT_BYTES_MAX, 50, 3000);
}

// Allocates until refused; the budget is a bound on mapped bytes and is used as far as whole chunks
// go.
static void budget_fill(size_t object_bytes, u64 budget) {
    slab *s = slab_create("budget", object_bytes, budget);
    assert_non_null(s);
    u64 count = 0;
    while (slab_alloc(s) != NULL) {
        count++;
        assert_true(slab_usage_get(s).mapped_bytes <= budget);
    }
    slab_usage usage = slab_usage_get(s);
    assert_int_equal(usage.used, count);
    assert_int_equal(usage.refused, 1);
    assert_true(usage.mapped_bytes + (256u << 10) > budget);
    assert_null(slab_alloc(s));
    assert_int_equal(slab_usage_get(s).refused, 2);
    slab_destroy(s); // with everything still handed out
}

static void test_budget(void **state) {
    (void)state;
    budget_fill(512, 1u << 20);
    budget_fill(512, (1u << 20) - 1);
    budget_fill(100, 300000);
    budget_fill(16384, 5u << 20);
    budget_fill(512, 8192); // below the usual chunk
    budget_fill(16384, 8192); // not even one object
    budget_fill(512, 0);
    slab *s = slab_create("small", 512, 8192);
    assert_non_null(s);
    assert_non_null(slab_alloc(s));
    slab_destroy(s);
    slab_destroy(NULL);
}

static void test_refused_then_freed(void **state) {
    (void)state;
    slab *s = slab_create("edge", 1024, 128u << 10);
    assert_non_null(s);
    void *last = NULL;
    for (void *object; (object = slab_alloc(s)) != NULL;) last = object;
    slab_free(s, last);
    assert_ptr_equal(slab_alloc(s), last); // the only free one
    assert_null(slab_alloc(s));
    slab_destroy(s);
}

#define CONNS 15000u

// 15,000 idle connections cost little beyond their objects, and nothing once they have gone.
static void test_memory_comes_back(void **state) {
    (void)state;
    static void *held[CONNS];
    u64 before UNUSED = resident_bytes();
    slab *s = slab_create("conn", 512, 256u << 20);
    for (u32 i = 0; i < CONNS; i++) {
        held[i] = slab_alloc(s);
        assert_non_null(held[i]);
        memset(held[i], 1, 512);
    }
    u64 full = resident_bytes();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(full - before < CONNS * 512u * 103 / 100 + (256u << 10));
#endif
    u64 seed = 1; // in random order, as connections end
    for (u32 i = CONNS - 1; i > 0; i--) {
        u32 k = random_below(&seed, i + 1);
        void *swap = held[i];
        held[i] = held[k];
        held[k] = swap;
    }
    for (u32 i = 0; i < CONNS; i++) slab_free(s, held[i]);
    // The storm was short: the slab grew less than a second ago and keeps its chunks for now.
    assert_true(slab_usage_get(s).mapped_bytes > CONNS * 512u / 2);
    slab_trim(s);
    assert_true(slab_usage_get(s).mapped_bytes > CONNS * 512u / 2);
    sleep_ns(CALM_NS);
    slab_trim(s);
    assert_true(slab_usage_get(s).mapped_bytes <= 2 * (64u << 10));
    u64 after = resident_bytes();
    // A thread sanitizer's shadow stays: only what the objects took is asked back.
    assert_true(full - after > CONNS * 512u * 9 / 10);
    assert_non_null(slab_alloc(s));
    slab_destroy(s);
}

// When the growth is a second past, freeing alone gives chunks back, down to a quarter lying free.
static void test_freeing_gives_back(void **state) {
    (void)state;
    static void *held[CONNS];
    slab *s = slab_create("conn", 512, 256u << 20);
    for (u32 i = 0; i < CONNS; i++) held[i] = slab_alloc(s);
    u64 full = slab_usage_get(s).mapped_bytes;
    sleep_ns(CALM_NS);
    for (u32 i = 0; i < CONNS / 8; i++) slab_free(s, held[i]);
    assert_int_equal(slab_usage_get(s).mapped_bytes, full); // an eighth free: kept
    for (u32 i = CONNS / 8; i < CONNS / 2; i++) slab_free(s, held[i]);
    assert_true(slab_usage_get(s).mapped_bytes <= full * 7 / 10);
    for (u32 i = CONNS / 2; i < CONNS; i++) slab_free(s, held[i]);
    assert_true(slab_usage_get(s).mapped_bytes <= 2 * (64u << 10));
    slab_destroy(s);
}

// A load that swings every loop must not map and unmap all the time.
static void test_swinging_load_keeps_its_chunks(void **state) {
    (void)state;
    static void *held[256];
    slab *s = slab_create("segment", 16384, 64u << 20);
    u64 mapped = 0;
    for (u32 turn = 0; turn < 100; turn++) {
        for (u32 i = 0; i < ARRAY_LEN(held); i++) held[i] = slab_alloc(s);
        for (u32 i = 0; i < ARRAY_LEN(held); i++) slab_free(s, held[i]);
        if (turn == 0) mapped = slab_usage_get(s).mapped_bytes;
        assert_int_equal(slab_usage_get(s).mapped_bytes, mapped);
    }
    slab_destroy(s);
}

// New objects go to the fullest chunks, so that sparse ones drain: with one of ten objects left per
// chunk and churn among them, the slab shrinks to little more than it needs.
static void test_churn_compacts(void **state) {
    (void)state;
    static void *held[CONNS];
    u64 seed = 3;
    slab *s = slab_create("churn", 512, 256u << 20);
    for (u32 i = 0; i < CONNS; i++) held[i] = slab_alloc(s);
    for (u32 i = 0; i < CONNS; i++) {
        if (i % 10 == 0) continue;
        slab_free(s, held[i]);
        held[i] = NULL;
    }
    sleep_ns(CALM_NS);
    for (u32 turn = 0; turn < 40 * CONNS / 10; turn++) {
        u32 k = random_below(&seed, CONNS / 10) * 10;
        slab_free(s, held[k]);
        held[k] = slab_alloc(s);
    }
    slab_trim(s);
    assert_int_equal(slab_usage_get(s).used, CONNS / 10);
    assert_true(slab_usage_get(s).mapped_bytes < 4ull * (CONNS / 10) * 512);
    slab_destroy(s);
}

static void test_freed_memory_is_poisoned(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    slab *s = slab_create("poison", 100, 1u << 20);
    u8 *object = slab_alloc(s);
    assert_false(__asan_address_is_poisoned(object));
    assert_false(__asan_address_is_poisoned(object + 99));
    assert_true(__asan_address_is_poisoned(object + 100));
    slab_free(s, object);
    assert_true(__asan_address_is_poisoned(object));
    assert_true(__asan_address_is_poisoned(object + 99));
    slab_destroy(s);
#else
    skip(); // only the address sanitizer poisons memory
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_comes_back), // first: it measures the process
        cmocka_unit_test(test_objects_keep_their_bytes),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_refused_then_freed),
        cmocka_unit_test(test_freeing_gives_back),
        cmocka_unit_test(test_swinging_load_keeps_its_chunks),
        cmocka_unit_test(test_churn_compacts),
        cmocka_unit_test(test_freed_memory_is_poisoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
