// SPDX-License-Identifier: Apache-2.0
// test_shared_rate.c: rates that workers use up together: exact for small limits on many workers, a line for those
// that wait, what is saved up and paid for; several threads at once; the table of addresses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "net/address_share.h"
#include "net/shared_rate.h"
#include "random.h"

#define START (100 * NS_PER_S)

static bool pass(shared_rate *r, u32 worker, rate_pair limit, u32 bytes, u64 now) {
    if (shared_rate_due(r, worker, limit, bytes, true, now) != 0) return false;
    shared_rate_charge(r, worker, limit, bytes);
    return true;
}

static void test_one_worker(void **state) {
    (void)state;
    shared_rate *r = shared_rate_create(1);
    rate_pair ten = {10, 0}, kilo = {0, 1000}, none = {0, 0};
    u32 passed = 0;
    assert_true(pass(r, 0, none, 1u << 30, START));
    shared_rate_free(r);
    r = shared_rate_create(1);
    while (pass(r, 0, ten, 5, START)) passed++;
    assert_int_equal(passed, 10); // a second's worth at once
    assert_false(pass(r, 0, ten, 5, START + NS_PER_S / 10 - 1));
    assert_true(pass(r, 0, ten, 5, START + NS_PER_S / 10));
    shared_rate_free(r);
    // A message larger than a second's worth passes, and is paid for.
    r = shared_rate_create(1);
    assert_true(pass(r, 0, kilo, 5000, START));
    assert_false(pass(r, 0, kilo, 1, START + 4 * NS_PER_S));
    assert_true(pass(r, 0, kilo, 1, START + 4 * NS_PER_S + NS_PER_MS));
    assert_int_equal(shared_rate_full_ns(r, 0), START + 5 * NS_PER_S + NS_PER_MS);
    shared_rate_free(r);
}

// Workers ask in a random order, some often, some seldom; what passes in any span stays within the rate.
static void whole_rate(u32 workers, u64 per_s, u32 seconds, u32 asks) {
    shared_rate *r = shared_rate_create(workers);
    rate_pair limit = {per_s, 0};
    u64 random = workers * 1000 + per_s, passed = 0, now = START, end = START + seconds * NS_PER_S;
    u64 step = (end - now) / asks;
    while (now < end) {
        now += 1 + random_next(&random) % (2 * step);
        u32 worker = (u32)(random_next(&random) % workers);
        if (random_next(&random) % 4 != 0) worker = worker % 2; // two are busy
        passed += pass(r, worker, limit, 0, now);
    }
    u64 most = per_s * (seconds + 1) + 8, least = per_s * seconds;
    if (passed > most || passed < least * 9 / 10) {
        fail_msg("%u workers, %llu/s, %u s: %llu passed", workers, (unsigned long long)per_s, seconds,
                 (unsigned long long)passed);
    }
    shared_rate_free(r);
}

static void test_many_workers(void **state) {
    (void)state;
    whole_rate(2, 1, 60, 60000);
    whole_rate(64, 1, 60, 60000);
    whole_rate(64, 3, 60, 60000);
    whole_rate(5, 1000, 20, 60000);
}

// A worker that was idle for long is not charged with what others have been allowed meanwhile.
static void test_idle_worker(void **state) {
    (void)state;
    shared_rate *r = shared_rate_create(2);
    rate_pair ten = {10, 0};
    assert_true(pass(r, 1, ten, 0, START));
    for (u32 i = 1; i <= 500; i++) assert_true(pass(r, 0, ten, 0, START + i * (NS_PER_S / 5)));
    u64 now = START + 101 * NS_PER_S;
    u32 passed = 0;
    while (pass(r, 1, ten, 0, now)) passed++;
    assert_int_equal(passed, 10);
    assert_false(pass(r, 0, ten, 0, now + NS_PER_MS)); // and what one has saved up, the other has not as well
    shared_rate_free(r);
}

// Another rate after a reload: what was used stays used, and is measured by the new rate from then on.
static void test_another_rate(void **state) {
    (void)state;
    shared_rate *r = shared_rate_create(2);
    rate_pair kilo = {1000, 0}, one = {1, 0};
    for (u32 i = 0; i < 5000; i++) (void)pass(r, i % 2, kilo, 0, START + i * NS_PER_MS);
    u32 passed = 0;
    u64 now = START + 10 * NS_PER_S;
    for (u32 i = 0; i < 100; i++) passed += pass(r, i % 2, one, 0, now + i * 100 * NS_PER_MS);
    assert_in_range(passed, 10, 12);
    passed = 0;
    now += 20 * NS_PER_S;
    for (u32 i = 0; i < 1000; i++) passed += pass(r, i % 2, kilo, 0, now + i * NS_PER_MS);
    assert_int_equal(passed, 1000);
    shared_rate_free(r);
}

static void test_line(void **state) {
    (void)state;
    shared_rate *r = shared_rate_create(1);
    rate_pair ten = {10, 0};
    for (u32 i = 0; i < 10; i++) assert_true(pass(r, 0, ten, 0, START));
    // Those that wait come back one by one, and nobody who comes later is let in before them.
    u64 last = START;
    for (u32 i = 1; i <= 5; i++) {
        u64 due = shared_rate_due(r, 0, ten, 0, false, START);
        assert_int_equal(due, START + i * (NS_PER_S / 10));
        last = due;
    }
    assert_true(shared_rate_due(r, 0, ten, 0, false, START + NS_PER_S / 10) > last);
    assert_int_equal(shared_rate_due(r, 0, ten, 0, true, START + NS_PER_S / 10), 0);
    // However many there are, each is told to come within about a second, and never all at once.
    u32 at_once = 0;
    u64 before = 0;
    for (u32 i = 0; i < 1000; i++) {
        u64 due = shared_rate_due(r, 0, ten, 0, false, START);
        assert_true(due > START && due <= START + 2 * NS_PER_S);
        at_once += due == before;
        before = due;
    }
    assert_int_equal(at_once, 0);
    shared_rate_free(r);
}

// --- threads ---

static shared_rate *shared;
static u64 clock_ns; // moved by the first thread

static void *worker_main(void *argument) {
    u32 worker = (u32)(uintptr_t)argument;
    static const rate_pair limit = {1000, 0};
    u64 passed = 0, now = 0;
    for (u32 i = 0; i < 20000; i++) {
        if (worker == 0) __atomic_fetch_add(&clock_ns, 100000, __ATOMIC_RELAXED);
        u64 seen = __atomic_load_n(&clock_ns, __ATOMIC_RELAXED);
        if (seen > now) now = seen;
        passed += pass(shared, worker, limit, 0, now);
    }
    return (void *)(uintptr_t)passed;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    u64 passed = 0;
    shared = shared_rate_create(4);
    clock_ns = START;
    for (u32 i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, (void *)(uintptr_t)i), 0);
    }
    for (u32 i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        passed += (uintptr_t)result;
    }
    assert_true(passed >= 1000); // at least what was saved up; who runs when is the scheduler's
    shared_rate_free(shared);
}

// --- addresses ---

static void address(u8 out[16], u32 n, u8 last) {
    memset(out, 0, 16);
    out[0] = 0x20;
    memcpy(out + 2, &n, 4);
    out[15] = last;
}

static void test_addresses(void **state) {
    (void)state;
    static const int one, other;
    rate_pair kilo = {0, 1000};
    u8 a[16], neighbour[16], b[16];
    address(a, 1, 1);
    address(neighbour, 1, 2);
    address(b, 2, 1);
    address_share *s = address_share_take(a, &one, 2, START);
    assert_non_null(s);
    assert_ptr_equal(address_share_take(neighbour, &one, 2, START), s); // a /64 is one
    address_share *t = address_share_take(b, &one, 2, START), *u = address_share_take(a, &other, 2, START);
    assert_true(t != s && u != s && t != u);
    assert_true(pass(address_share_rate(s), 1, kilo, 3000, START));
    address_share_give(s, 1);
    address_share_give(s, 1);
    // It is remembered while it says something: to come again gains nothing.
    assert_ptr_equal(address_share_take(a, &one, 2, START + NS_PER_S), s);
    assert_false(pass(address_share_rate(s), 0, kilo, 1, START + NS_PER_S));
    address_share_give(s, 0);
    address_share_give(t, 0);
    address_share_give(u, 0);
    // More addresses than there is room for are let in, and counted.
    static address_share *taken[70000];
    for (u32 i = 0; i < ARRAY_LEN(taken); i++) {
        address(a, i, 1);
        taken[i] = address_share_take(a, &one, 1, START + 60 * NS_PER_S);
    }
    assert_true(address_share_overflows() > 0);
    for (u32 i = 0; i < ARRAY_LEN(taken); i++) {
        if (taken[i] != NULL) address_share_give(taken[i], 0);
    }
    u64 overflows = address_share_overflows();
    address(a, 80000, 1);
    s = address_share_take(a, &one, 1, START + 120 * NS_PER_S); // their rows are free again
    assert_non_null(s);
    address_share_give(s, 0);
    assert_int_equal(address_share_overflows(), overflows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker), cmocka_unit_test(test_many_workers), cmocka_unit_test(test_idle_worker),
        cmocka_unit_test(test_line),       cmocka_unit_test(test_another_rate), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
