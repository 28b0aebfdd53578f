// SPDX-License-Identifier: Apache-2.0
// The clock's floor, the time client's packets and its judgement of several servers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "init/clock.h"
#include "init/sntp.h"
#include "init/sntp_packet.h"

#define BUILD 1796000000ll
#define NONCE 0x0123456789abcdefull
#define S(n) ((i64)(n) * (i64)NS_PER_S)

static void test_floor(void **state) {
    clock_source from;
    (void)state;
    assert_int_equal(clock_floor(0, 0, BUILD, 0, &from), BUILD); // no hardware clock: not 1970
    assert_int_equal(from, CLOCK_BUILD);
    assert_int_equal(clock_floor(100, 200, BUILD, 0, &from), BUILD);
    assert_int_equal(clock_floor(0, BUILD + 50, BUILD, BUILD + 20, &from), BUILD + 50);
    assert_int_equal(from, CLOCK_RTC);
    assert_int_equal(clock_floor(BUILD + 60, BUILD + 50, BUILD, BUILD + 20, &from), BUILD + 60);
    assert_int_equal(from, CLOCK_KERNEL);
    assert_int_equal(clock_floor(0, BUILD + 10, BUILD, BUILD + 20, &from), BUILD + 20); // saved time is ahead
    assert_int_equal(from, CLOCK_SAVED);
    // Damaged clocks: an empty battery that reads as 2099, a record from such a boot.
    i64 wild = BUILD + (i64)LIMIT_CLOCK_AHEAD_S + 1;
    assert_int_equal(clock_floor(wild, wild, BUILD, wild, &from), BUILD);
    assert_int_equal(clock_floor(0, -5, BUILD, INT64_MAX, &from), BUILD);
}

// A boot that began at the day of the build and ended within that second: the next one begins after it.
static void test_saved_time_is_not_behind(void **state) {
    clock_source from;
    (void)state;
    assert_int_equal(clock_to_save_s((u64)S(BUILD)), BUILD);
    assert_int_equal(clock_to_save_s((u64)S(BUILD) + 1), BUILD + 1);
    assert_int_equal(clock_to_save_s((u64)S(BUILD + 1) - 1), BUILD + 1);
    i64 saved_s = (i64)clock_to_save_s((u64)S(BUILD) + 976000000);
    assert_int_equal(clock_floor(0, 0, BUILD, saved_s, &from), BUILD + 1);
    assert_int_equal(from, CLOCK_SAVED);
}

static void test_parse(void **state) {
    (void)state;
    assert_int_equal(clock_parse("1970-01-02T00:00:01Z"), 86401);
    assert_int_equal(clock_parse("2026-11-30T00:53:20Z"), BUILD);
    assert_int_equal(clock_parse("2026-11-30"), 0);
    assert_int_equal(clock_parse(""), 0);
}

static void put_be(u8 *at, u64 value, u32 bytes) {
    for (u32 i = 0; i < bytes; i++) at[i] = (u8)(value >> 8 * (bytes - 1 - i));
}

static void put_time(u8 *at, i64 unix_ns) {
    u64 s = (u64)(unix_ns / S(1)) + 2208988800ull;
    u64 fraction = ((u64)(unix_ns % S(1)) << 32) / NS_PER_S;
    put_be(at, s << 32 | fraction, 8);
}

// An answer of a server that is `ahead` of us, 10 ms away in each direction, with 1 ms of its own.
static void answer_make(u8 out[SNTP_BYTES], sntp_times *times, i64 ahead_ns) {
    memset(out, 0, SNTP_BYTES);
    times->sent_ns = S(BUILD + 1000);
    times->received_ns = times->sent_ns + 21000000;
    out[0] = 4 << 3 | 4;
    out[1] = 2;
    put_be(out + 4, 655, 4);  // root delay 10 ms
    put_be(out + 8, 65, 4);   // root dispersion 1 ms
    put_be(out + 24, NONCE, 8);
    put_time(out + 32, times->sent_ns + ahead_ns + 10000000);
    put_time(out + 40, times->sent_ns + ahead_ns + 11000000);
}

static sntp_verdict answer_read(const u8 *data, size_t len, const sntp_times *times, sntp_sample *out) {
    return sntp_answer_read(data, len, NONCE, BUILD, times, out);
}

static void test_answer(void **state) {
    static const i64 offsets[] = {0, 5000000, -5000000, S(3600), -S(900), S(86400 * 365)};
    u8 data[SNTP_BYTES];
    sntp_times times;
    sntp_sample sample;
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(offsets); i++) {
        answer_make(data, &times, offsets[i]);
        assert_int_equal(answer_read(data, sizeof(data), &times, &sample), SNTP_GOOD);
        assert_in_range(sample.offset_ns - offsets[i] + 100, 0, 200); // the format resolves a quarter of a ns
        assert_in_range(sample.delay_ns, 19999900, 20000100);
        assert_in_range(sample.distance_ns, 15900000, 16100000);
    }
    sntp_request_write(data, NONCE);
    assert_int_equal(data[0], 4 << 3 | 3);
    assert_int_equal(data[40], 0x01);
    assert_int_equal(data[47], 0xef);
}

static void test_our_clock_is_at_zero(void **state) {
    u8 data[SNTP_BYTES];
    sntp_times times;
    sntp_sample sample;
    (void)state;
    answer_make(data, &times, 0);
    times.sent_ns = 5;
    times.received_ns = 21000005;
    assert_int_equal(answer_read(data, sizeof(data), &times, &sample), SNTP_GOOD);
    assert_in_range(sample.offset_ns / S(1), BUILD + 999, BUILD + 1001);
}

// The 32 bits of seconds wrap in February 2036.
static void test_next_era(void **state) {
    u8 data[SNTP_BYTES];
    sntp_times times;
    sntp_sample sample;
    i64 build = 2085978496ll - 1000; // just before
    (void)state;
    answer_make(data, &times, 0);
    times.sent_ns = S(build + 2000);
    times.received_ns = times.sent_ns + 21000000;
    put_time(data + 32, times.sent_ns + 10000000);
    put_time(data + 40, times.sent_ns + 11000000);
    assert_int_equal(sntp_answer_read(data, sizeof(data), NONCE, build, &times, &sample), SNTP_GOOD);
    assert_in_range(sample.offset_ns + 100, 0, 200);
}

static void test_answers_refused(void **state) {
    u8 data[SNTP_BYTES];
    sntp_times times;
    sntp_sample sample;
    (void)state;
    answer_make(data, &times, 0);
    for (size_t len = 0; len < sizeof(data); len++) {
        assert_int_equal(answer_read(data, len, &times, &sample), SNTP_SHORT);
    }
#define REFUSED(verdict, change) \
    do { \
        answer_make(data, &times, 0); \
        change; \
        assert_int_equal(answer_read(data, sizeof(data), &times, &sample), verdict); \
    } while (0)
    REFUSED(SNTP_NOT_SERVER, data[0] = 4 << 3 | 3);
    REFUSED(SNTP_NOT_SERVER, data[0] = 4 << 3 | 5);
    REFUSED(SNTP_NOT_SERVER, data[0] = 2 << 3 | 4);
    REFUSED(SNTP_NOT_OURS, data[31] ^= 1);
    REFUSED(SNTP_UNSYNCED, data[0] |= 3 << 6);
    REFUSED(SNTP_UNSYNCED, data[1] = 16);
    REFUSED(SNTP_KISS_RATE, (data[1] = 0, memcpy(data + 12, "RATE", 4)));
    REFUSED(SNTP_KISS_DENY, (data[1] = 0, memcpy(data + 12, "DENY", 4)));
    REFUSED(SNTP_KISS_DENY, (data[1] = 0, memcpy(data + 12, "RSTR", 4)));
    REFUSED(SNTP_NOT_OURS, (data[1] = 0, memcpy(data + 12, "DENY", 4), data[24] ^= 1)); // a forged kiss
    REFUSED(SNTP_BAD_TIME, memset(data + 32, 0, 8));
    REFUSED(SNTP_BAD_TIME, memset(data + 40, 0, 8));
    REFUSED(SNTP_BAD_TIME, put_time(data + 40, times.sent_ns));           // sent before it was received
    REFUSED(SNTP_BAD_TIME, (put_time(data + 32, S(BUILD - 5)), put_time(data + 40, S(BUILD - 4)))); // before the build
    REFUSED(SNTP_BAD_TIME, times.received_ns = times.sent_ns - 1);
    REFUSED(SNTP_TOO_FAR, times.received_ns += S(4));
    REFUSED(SNTP_TOO_FAR, put_be(data + 8, 3 << 16, 4));
    REFUSED(SNTP_TOO_FAR, put_be(data + 4, 0xffffffff, 4));
}

static sntp_sample at_ms(i64 offset_ms, u64 distance_ms) {
    return (sntp_sample){.offset_ns = offset_ms * 1000000, .distance_ns = distance_ms * NS_PER_MS};
}

static void test_agreement(void **state) {
    (void)state;
    sntp_sample one_liar[] = {at_ms(3600000, 1), at_ms(5, 20), at_ms(8, 10)};
    assert_int_equal(sntp_agree(one_liar, 3), 2); // the nearer one of the two that agree
    sntp_sample all_differ[] = {at_ms(0, 1), at_ms(5000, 1), at_ms(-5000, 1)};
    assert_int_equal(sntp_agree(all_differ, 3), -1);
    sntp_sample two_against_two[] = {at_ms(0, 1), at_ms(1, 1), at_ms(9000, 1), at_ms(9001, 1)};
    assert_int_equal(sntp_agree(two_against_two, 4), -1);
    sntp_sample pair[] = {at_ms(0, 5), at_ms(50, 5)};
    assert_true(sntp_agree(pair, 2) >= 0);
    sntp_sample apart[] = {at_ms(0, 5), at_ms(500, 5)};
    assert_int_equal(sntp_agree(apart, 2), -1);
    sntp_sample alone[] = {at_ms(0, 5)};
    assert_int_equal(sntp_agree(alone, 1), -1);
    assert_int_equal(sntp_agree(alone, 0), -1);
}

static void test_server_names(void **state) {
    static const struct {
        const char *text, *host, *port;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1", "123"},          {"192.0.2.1:1123", "192.0.2.1", "1123"},
        {"[2001:db8::1]:1123", "2001:db8::1", "1123"}, {"[2001:db8::1]", "2001:db8::1", "123"},
        {"2001:db8::1", "2001:db8::1", "123"},      {"time.example", "time.example", "123"},
        {"time.example:55", "time.example", "55"},
    };
    static const char *const wrong[] = {
        "", ":123", "host:", "[::1", "[::1]x", "host:1234567890", "a-name-that-does-not-fit-into-it"};
    char host[24], port[8];
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(sntp_server_split(rows[i].text, host, sizeof(host), port, sizeof(port)));
        assert_string_equal(host, rows[i].host);
        assert_string_equal(port, rows[i].port);
    }
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(sntp_server_split(wrong[i], host, sizeof(host), port, sizeof(port)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floor),          cmocka_unit_test(test_parse),
        cmocka_unit_test(test_answer),         cmocka_unit_test(test_our_clock_is_at_zero),
        cmocka_unit_test(test_next_era),       cmocka_unit_test(test_answers_refused),
        cmocka_unit_test(test_agreement),      cmocka_unit_test(test_server_names),
        cmocka_unit_test(test_saved_time_is_not_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
