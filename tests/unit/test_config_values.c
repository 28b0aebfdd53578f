// SPDX-License-Identifier: Apache-2.0
// test_config_values.c: sizes, times and addresses: exact, both ways, and refused when they could
// be misread.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "conf/bind.h"
#include "conf/config.h"
#include "conf/suggest.h"
#include "conf/units.h"

static void test_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        u64 bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"64000", 64000},
        {"1k", 1024},
        {"64k", 65536},
        {"1m", 1048576},
        {"2g", 2147483648u},
        {"0k", 0},
        {"007", 7},
        {"18446744073709551615", UINT64_MAX},
        {"17179869183g", 17179869183ull << 30},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        u64 bytes = 99;
        assert_int_equal(config_parse_bytes(good[i].text, &bytes), 0);
        assert_true(bytes == good[i].bytes);
    }
    static const char *const bad[] = {"",   "k",    "64kb", "64K", "64 k",  " 64k", "64k ", "-1",
                                      "+1", "1.5k", "0x10", "1e3", "64kib", "1t",   "ten",  "6_4"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        u64 bytes = 99;
        assert_int_equal(config_parse_bytes(bad[i], &bytes), -EINVAL);
        assert_true(bytes == 99);
    }
    u64 bytes;
    assert_int_equal(config_parse_bytes("18446744073709551616", &bytes), -ERANGE);
    assert_int_equal(config_parse_bytes("17179869184g", &bytes), -ERANGE);
    assert_int_equal(config_parse_bytes("99999999999999999999k", &bytes), -ERANGE);
}

static void test_durations(void **state) {
    (void)state;
    static const struct {
        const char *text;
        u64 ms;
    } good[] = {
        {"0", 0},       {"250ms", 250},  {"60s", 60000},    {"1m", 60000},
        {"5m", 300000}, {"2h", 7200000}, {"7d", 604800000}, {"0s", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        u64 ms = 99;
        assert_int_equal(config_parse_duration_ms(good[i].text, &ms), 0);
        assert_true(ms == good[i].ms);
    }
    static const char *const bad[] = {"60", "1min", "1.5s", "60S",  "1w",   "1y",
                                      "s",  "-1s",  "60 s", "10us", "1h30m"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        u64 ms;
        assert_int_equal(config_parse_duration_ms(bad[i], &ms), -EINVAL);
    }
    u64 value;
    assert_int_equal(config_parse_duration_ms("213503982335d", &value), -ERANGE);
    assert_int_equal(units_parse_us("200us", &value), 0);
    assert_true(value == 200);
    assert_int_equal(units_parse_us("2ms", &value), 0);
    assert_true(value == 2000);
    assert_int_equal(units_parse_us("5", &value), -EINVAL);
}

// What is printed is read back as the same value.
static void test_printed_values_read_back(void **state) {
    (void)state;
    static const u64 values[] = {0,     1,     999,      1000,    1023,     1024,    1025,
                                 60000, 65536, 86400000, 1048576, 1u << 30, 3600001, UINT64_MAX};
    char text[UNITS_TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        u64 back;
        assert_int_equal(config_parse_bytes(units_print_bytes(values[i], text), &back), 0);
        assert_true(back == values[i]);
        assert_int_equal(config_parse_duration_ms(units_print_ms(values[i], text), &back), 0);
        assert_true(back == values[i]);
        assert_int_equal(units_parse_us(units_print_us(values[i], text), &back), 0);
        assert_true(back == values[i]);
    }
    assert_string_equal(units_print_bytes(65536, text), "64k");
    assert_string_equal(units_print_ms(1500, text), "1500ms");
    assert_string_equal(units_print_ms(3600000, text), "1h");
}

static void test_binds(void **state) {
    (void)state;
    static const struct {
        const char *text, *printed;
        int family;
        u16 port;
        bool local;
    } good[] = {
        {"0.0.0.0:7000", "0.0.0.0:7000", AF_INET, 7000, false},
        {"127.0.0.1:0", "127.0.0.1:0", AF_INET, 0, true},
        {"127.8.9.1:65535", "127.8.9.1:65535", AF_INET, 65535, true},
        {"[::]:7000", "[::]:7000", AF_INET6, 7000, false},
        {"[0:0:0::1]:80", "[::1]:80", AF_INET6, 80, true},
        {"[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", AF_INET6, 80, true},
        {"[::ffff:10.0.0.1]:80", "[::ffff:10.0.0.1]:80", AF_INET6, 80, false},
        {"[2001:DB8::5]:1", "[2001:db8::5]:1", AF_INET6, 1, false},
        {"unix:/run/sluice.sock", "unix:/run/sluice.sock", AF_UNIX, 0, true},
        {"unix:./ctl.sock", "unix:./ctl.sock", AF_UNIX, 0, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        bind_address b;
        assert_int_equal(config_parse_bind(good[i].text, &b), 0);
        assert_string_equal(b.text, good[i].printed);
        assert_int_equal(b.addr.ss_family, good[i].family);
        assert_int_equal(bind_port(&b), good[i].port);
        assert_int_equal(bind_is_local(&b), good[i].local);
        assert_true(b.addr_len > 0 && b.addr_len <= sizeof(b.addr));
    }
    static const char *const bad[] = {
        "",
        ":7000",
        "7000",
        "localhost:7000",
        "*:7000",
        "1.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:x",
        "1.2.3:80",
        "1.2.3.4:-1",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[::1:80",
        "::1]:80",
        "[]:80",
        "[1.2.3.4]:80",
        "[fe80::1%eth0]:80",
        "unix:",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:1",
        " 1.2.3.4:5",
        "1.2.3.4:5 ",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bind_address b;
        assert_int_equal(config_parse_bind(bad[i], &b), -EINVAL);
    }
    bind_address b;
    assert_int_equal(config_parse_bind("1.2.3.4:65536", &b), -ERANGE);
    assert_int_equal(config_parse_bind("1.2.3.4:99999999999999999999", &b), -ERANGE);
}

// sockaddr_un holds 107 bytes of path and a zero.
static void test_unix_path_length(void **state) {
    (void)state;
    char text[160] = "unix:/";
    bind_address b;
    memset(text + 6, 'a', 106);
    assert_int_equal(config_parse_bind(text, &b), 0);
    assert_int_equal(strlen(((struct sockaddr_un *)&b.addr)->sun_path), 107);
    assert_string_equal(b.text, text);
    text[112] = 'a';
    assert_int_equal(config_parse_bind(text, &b), -ERANGE);
}

static bool same(const char *x, const char *y) {
    bind_address a, b;
    assert_int_equal(config_parse_bind(x, &a), 0);
    assert_int_equal(config_parse_bind(y, &b), 0);
    return bind_is_same(&a, &b);
}

static void test_same_bind(void **state) {
    (void)state;
    assert_true(same("1.2.3.4:5", "1.2.3.4:5"));
    assert_true(same("[::0:1]:5", "[::1]:5"));
    assert_true(same("unix:/a", "unix:/a"));
    assert_false(same("1.2.3.4:5", "1.2.3.4:6"));
    assert_false(same("127.0.0.1:0", "127.0.0.1:0"));
    assert_false(same("0.0.0.0:5", "[::]:5"));
}

static const char *nearest(const char *word) {
    static const char *const names[] = {"max_frame", "max_conns", "mode", "token", "idle_timeout"};
    const char *found = NULL;
    u32 best = UINT32_MAX;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        suggest_offer(word, strlen(word), names[i], &best, &found);
    return found;
}

static void test_suggestions(void **state) {
    (void)state;
    assert_string_equal(nearest("maxframe"), "max_frame");
    assert_string_equal(nearest("max_frmae"), "max_frame");
    assert_string_equal(nearest("max_con"), "max_conns");
    assert_string_equal(nearest("idle_timeout_ms"), "idle_timeout");
    assert_string_equal(nearest("mod"), "mode");
    assert_null(nearest("certificate"));
    assert_null(nearest(""));
    assert_null(nearest("a_word_that_is_much_longer_than_any_name_of_a_setting_can_be"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_printed_values_read_back),
        cmocka_unit_test(test_binds),
        cmocka_unit_test(test_unix_path_length),
        cmocka_unit_test(test_same_bind),
        cmocka_unit_test(test_suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
