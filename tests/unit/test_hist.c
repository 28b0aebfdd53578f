// SPDX-License-Identifier: Apache-2.0
// test_hist.c: the histogram against a sorted array, at its edges, and with a reader on another
// thread.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hist.h"

static u64 random_next(u64 *state) {
    *state += 0x9e3779b97f4a7c15ull;
    u64 z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static hist *hist_new(void) {
    hist *h = malloc(sizeof(*h));
    assert_non_null(h);
    hist_reset(h);
    return h;
}

static void test_empty(void **state) {
    (void)state;
    hist *h = hist_new();
    u32 cursor = 0;
    hist_bucket bucket;
    assert_int_equal(hist_count(h), 0);
    assert_int_equal(hist_min(h), 0);
    assert_int_equal(hist_max(h), 0);
    assert_int_equal(hist_percentile(h, 50), 0);
    assert_true(hist_mean(h) == 0.0);
    assert_false(hist_next(h, &cursor, &bucket));
    free(h);
}

// Every bucket edge: the index is monotonic, the buckets tile the range without gap or overlap, and
// none is wider than 1/64 of its lowest value.
static void test_buckets_tile_the_range(void **state) {
    (void)state;
    hist *h = hist_new();
    for (u32 top = 0; top < HIST_VALUE_BITS; top++) {
        for (u32 part = 0; part < 64; part++) {
            u64 v = (1ull << top) + (u64)part * MAX((1ull << top) / 64, 1);
            if (v <= HIST_VALUE_MAX) hist_record(h, v);
        }
    }
    hist_record(h, 0);
    hist_record(h, HIST_VALUE_MAX);
    u64 next_low = 0;
    u32 cursor = 0, seen = 0;
    hist_bucket b;
    while (hist_next(h, &cursor, &b)) {
        assert_true(b.low == next_low);
        assert_true(b.high >= b.low);
        assert_true(b.high - b.low <= b.low / 64);
        assert_int_equal(hist_bucket_index(b.low), seen);
        assert_int_equal(hist_bucket_index(b.high), seen);
        next_low = b.high + 1;
        seen++;
    }
    assert_int_equal(seen, HIST_BUCKETS);
    assert_true(next_low == HIST_VALUE_MAX + 1);
    free(h);
}

static int compare_u64(const void *a, const void *b) {
    u64 x = *(const u64 *)a, y = *(const u64 *)b;
    return x < y ? -1 : x > y;
}

static void test_percentiles_against_sorted(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    u64 *values = malloc(COUNT * sizeof(*values));
    hist *h = hist_new();
    u64 seed = 7, sum = 0;
    assert_non_null(values);
    for (u32 i = 0; i < COUNT; i++) {
        u32 bits = (u32)(random_next(&seed) % 40);
        values[i] = random_next(&seed) & ((1ull << (bits + 1)) - 1);
        sum += values[i];
        hist_record(h, values[i]);
    }
    qsort(values, COUNT, sizeof(*values), compare_u64);
    const double percents[] = {0, 1, 25, 50, 90, 99, 99.9, 99.99, 100};
    for (u32 i = 0; i < ARRAY_LEN(percents); i++) {
        u64 rank = (u64)(percents[i] / 100.0 * COUNT + 0.5);
        u64 exact = values[rank == 0 ? 0 : rank - 1];
        u64 got = hist_percentile(h, percents[i]);
        assert_true(got >= exact);
        assert_true(got - exact <= exact / 64);
    }
    assert_true(hist_min(h) == values[0]);
    assert_true(hist_max(h) == values[COUNT - 1]);
    assert_true(hist_percentile(h, 100) == values[COUNT - 1]);
    assert_int_equal(hist_count(h), COUNT);
    assert_true(hist_mean(h) == (double)sum / COUNT);
    free(values);
    free(h);
}

static void test_rank_is_not_rounded_up(void **state) {
    (void)state;
    hist *h = hist_new();
    for (u64 v = 1; v <= 100; v++) hist_record(h, v); // below 128 buckets are exact
    assert_int_equal(hist_percentile(h, 99), 99);
    assert_int_equal(hist_percentile(h, 99.9), 100);
    assert_int_equal(hist_percentile(h, 50), 50);
    assert_int_equal(hist_percentile(h, 0), 1);
    free(h);
}

static void test_too_large_is_counted_and_max_exact(void **state) {
    (void)state;
    hist *h = hist_new();
    hist_record(h, 5);
    hist_record(h, UINT64_MAX / 2);
    assert_int_equal(hist_count(h), 2);
    assert_true(hist_max(h) == UINT64_MAX / 2);
    assert_true(hist_percentile(h, 100) == UINT64_MAX / 2);
    u64 bound = UINT64_MAX, out = 0;
    hist_cumulative(h, &bound, 1, &out);
    assert_int_equal(out, 1); // the open last bucket belongs to +Inf only
    free(h);
}

static void test_merge_equals_recording_both(void **state) {
    (void)state;
    hist *a = hist_new(), *b = hist_new(), *both = hist_new();
    u64 seed = 3;
    for (u32 i = 0; i < 10000; i++) {
        u64 v = random_next(&seed) >> (24 + i % 30);
        hist_record(i % 3 ? a : b, v);
        hist_record(both, v);
    }
    hist_merge(a, b);
    assert_memory_equal(a, both, sizeof(*a));
    hist_snapshot(a, b);
    assert_memory_equal(b, both, sizeof(*b));
    free(a);
    free(b);
    free(both);
}

static void test_cumulative(void **state) {
    (void)state;
    hist *h = hist_new();
    for (u64 v = 0; v < 1000; v++) hist_record(h, v * 1000);
    const u64 bounds[] = {0, 63, 100000, 500000, 1000000};
    u64 out[ARRAY_LEN(bounds)];
    hist_cumulative(h, bounds, ARRAY_LEN(bounds), out);
    for (u32 i = 0; i < ARRAY_LEN(bounds); i++) {
        u64 exact = MIN(bounds[i] / 1000 + 1, 1000);
        u64 least = bounds[i] < 128 ? exact : MIN((bounds[i] - bounds[i] / 64) / 1000 + 1, 1000);
        assert_true(out[i] <= exact);
        assert_true(out[i] >= least);
    }
    free(h);
}

typedef struct shared {
    hist h;
    bool stop;
} shared;

static void *write_until_stopped(void *arg) {
    shared *s = arg;
    for (u64 v = 1; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); v++)
        hist_record(&s->h, v % 1000000);
    return NULL;
}

// Under the thread sanitizer this fails if record or snapshot were plain accesses.
static void test_snapshot_while_written(void **state) {
    (void)state;
    shared *s = calloc(1, sizeof(*s));
    hist *copy = hist_new();
    pthread_t writer;
    u64 last = 0;
    assert_non_null(s);
    hist_reset(&s->h);
    assert_int_equal(pthread_create(&writer, NULL, write_until_stopped, s), 0);
    for (u32 i = 0; i < 200; i++) {
        hist_snapshot(&s->h, copy);
        u64 count = hist_count(copy);
        assert_true(count >= last);
        last = count;
    }
    __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
    pthread_join(writer, NULL);
    free(copy);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_buckets_tile_the_range),
        cmocka_unit_test(test_percentiles_against_sorted),
        cmocka_unit_test(test_rank_is_not_rounded_up),
        cmocka_unit_test(test_too_large_is_counted_and_max_exact),
        cmocka_unit_test(test_merge_equals_recording_both),
        cmocka_unit_test(test_cumulative),
        cmocka_unit_test(test_snapshot_while_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
