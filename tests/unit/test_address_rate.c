// SPDX-License-Identifier: Apache-2.0
// test_address_rate.c: how often an address may fail in a minute and connect in a second, for small limits too.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "net/address_rate.h"

#define MINUTE_NS (60 * NS_PER_S)

static u64 start_ns = 1000 * NS_PER_S;

// Each test has an address of its own.
static void address_make(u8 addr[16], u8 last) {
    memset(addr, 0, 16);
    addr[10] = addr[11] = 0xff;
    addr[12] = 10, addr[15] = last;
}

// Somebody who tries so often as he is let, for so long: how many wrong guesses are judged.
static u32 guesses_judged(const u8 addr[16], u32 per_minute, u64 for_ns) {
    u32 judged = 0;
    for (u64 now_ns = start_ns; now_ns < start_ns + for_ns; now_ns += NS_PER_S / 100) {
        if (address_rate_is_failing(addr, per_minute, now_ns)) continue;
        address_rate_failed(addr, per_minute, now_ns);
        judged++;
    }
    return judged;
}

static void test_failures_of_a_minute(void **state) {
    (void)state;
    static const u32 limits[] = {1, 3, 7, 60, 600};
    for (u32 i = 0; i < ARRAY_LEN(limits); i++) {
        u8 addr[16];
        address_make(addr, (u8)(1 + i));
        u32 judged = guesses_judged(addr, limits[i], 10 * MINUTE_NS); // a minute's at once, and ten minutes'
        assert_in_range(judged, 10 * limits[i], 11 * limits[i]);
    }
}

static void test_barred_until_one_is_allowed_again(void **state) {
    (void)state;
    u8 addr[16];
    address_make(addr, 50);
    for (u32 i = 0; i < 3; i++) { // over a second: none of them makes room for another one
        assert_false(address_rate_is_failing(addr, 3, start_ns + i * NS_PER_S / 2));
        address_rate_failed(addr, 3, start_ns + i * NS_PER_S / 2);
    }
    assert_true(address_rate_is_failing(addr, 3, start_ns + NS_PER_S));
    assert_true(address_rate_is_failing(addr, 3, start_ns + 19 * NS_PER_S));
    assert_false(address_rate_is_failing(addr, 3, start_ns + 20 * NS_PER_S));
    // A listener that allows more has its own part of the minute.
    assert_true(address_rate_is_failing(addr, 60, start_ns + NS_PER_S / 2));
    assert_false(address_rate_is_failing(addr, 60, start_ns + NS_PER_S));
}

static void test_guesses_made_at_once(void **state) {
    (void)state;
    u8 addr[16];
    address_make(addr, 51);
    for (u32 i = 0; i < 10; i++) address_rate_failed(addr, 3, start_ns); // all were judged before the first had failed
    assert_true(address_rate_is_failing(addr, 3, start_ns + 19 * NS_PER_S));
    assert_false(address_rate_is_failing(addr, 3, start_ns + 20 * NS_PER_S));
}

static void test_an_address_that_never_failed(void **state) {
    (void)state;
    u8 addr[16];
    address_make(addr, 52);
    assert_false(address_rate_is_failing(addr, 1, start_ns));
    address_make(addr, 53);
    assert_true(address_rate_connect(addr, 1, start_ns));
    assert_false(address_rate_is_failing(addr, 1, start_ns)); // connecting is no failure
    assert_false(address_rate_connect(addr, 1, start_ns + NS_PER_S / 2));
    assert_true(address_rate_connect(addr, 1, start_ns + NS_PER_S));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_of_a_minute),
        cmocka_unit_test(test_barred_until_one_is_allowed_again),
        cmocka_unit_test(test_guesses_made_at_once),
        cmocka_unit_test(test_an_address_that_never_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
