// SPDX-License-Identifier: Apache-2.0
// test_proxy_header.c: the PROXY header, versions 1 and 2: split at every byte, each form, each mistake; and the
// address ranges that decide who is believed.
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/cidr.h"
#include "proto/proxy_header.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define BEHIND "\x10\x00PROXY"

static proxy_parser p;
static proxy_fault fault;

// With bytes behind the header, which must be left alone.
static proxy_progress feed(const char *text, size_t len, size_t step, size_t *used_all) {
    proxy_progress progress = PROXY_NEED_MORE;
    memset(&p, 0, sizeof(p));
    *used_all = 0;
    for (size_t at = 0; at < len && progress == PROXY_NEED_MORE;) {
        u32 used, take = (u32)MIN(step, len - at);
        u8 *copy = malloc(take);
        assert_non_null(copy);
        memcpy(copy, text + at, take);
        progress = proxy_header_feed(&p, copy, take, &used, &fault);
        free(copy);
        assert_true(used <= take);
        if (progress == PROXY_NEED_MORE) assert_int_equal(used, take);
        at += used;
        *used_all = at;
    }
    return progress;
}

static void expect_address(const char *text, size_t len, int family, const char *addr, u16 port) {
    u8 wanted[16] = {0}, bytes[5000];
    memcpy(bytes, text, len);
    memcpy(bytes + len, BEHIND, sizeof(BEHIND) - 1);
    if (family == AF_INET) {
        wanted[10] = wanted[11] = 0xff;
        inet_pton(AF_INET, addr, wanted + 12);
    } else if (family == AF_INET6) {
        inet_pton(AF_INET6, addr, wanted);
    }
    for (size_t step = 1; step <= len + sizeof(BEHIND) - 1; step += step < 300 ? 1 : 997) {
        size_t used;
        if (feed((const char *)bytes, len + sizeof(BEHIND) - 1, step, &used) != PROXY_READY) {
            fail_msg("step %zu: %s: %s", step, proxy_fault_text(fault), text);
        }
        assert_int_equal(used, len);
        assert_int_equal(p.family, family);
        if (family != 0) assert_memory_equal(p.addr, wanted, 16);
        if (family != 0) assert_int_equal(p.port, port);
    }
}

static void expect_fault(const char *text, size_t len, proxy_fault wanted) {
    for (size_t step = 1; step <= len; step++) {
        size_t used;
        if (feed(text, len, step, &used) != PROXY_REFUSED || fault != wanted) {
            fail_msg("step %zu: %s, expected %s: %s", step, proxy_fault_text(fault), proxy_fault_text(wanted), text);
        }
    }
}

#define LINE(text, family, addr, port) expect_address(text, sizeof(text) - 1, family, addr, port)
#define BAD(text, wanted) expect_fault(text, sizeof(text) - 1, wanted)

static void test_lines(void **state) {
    (void)state;
    LINE("PROXY TCP4 192.0.2.1 198.51.100.7 56324 1883\r\n", AF_INET, "192.0.2.1", 56324);
    LINE("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", AF_INET, "255.255.255.255", 65535);
    LINE("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", AF_INET, "0.0.0.0", 0);
    LINE("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", AF_INET6, "2001:db8::1", 1);
    LINE("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
         AF_INET6, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535);
    LINE("PROXY UNKNOWN\r\n", 0, NULL, 0);
    LINE("PROXY UNKNOWN ffff::1 whatever 1 2\r\n", 0, NULL, 0);
}

static void test_bad_lines(void **state) {
    (void)state;
    BAD("\x10\x00\x00\x04MQTT", PROXY_NO_HEADER);
    BAD("PROXZ", PROXY_NO_HEADER);
    BAD("GET / HTTP/1.1\r\n", PROXY_NO_HEADER);
    BAD("PROXY \r\n", PROXY_LINE);
    BAD("PROXY TCP4\r\n", PROXY_LINE);
    BAD("PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n", PROXY_LINE);
    BAD("PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n", PROXY_LINE);
    BAD("PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n", PROXY_LINE);
    BAD("PROXY TCP4 2001:db8::1 ::1 1 2\r\n", PROXY_LINE);
    BAD("PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n", PROXY_LINE);
    BAD("PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n", PROXY_LINE);
    char text[120] = "PROXY UNKNOWN ";
    memset(text + 14, 'x', sizeof(text) - 14);
    expect_fault(text, sizeof(text), PROXY_LINE_LONG);
}

static size_t binary(char *out, u8 version_command, u8 family, const void *body, u16 body_len, u16 said_len) {
    memcpy(out, SIGNATURE, 12);
    out[12] = (char)version_command;
    out[13] = (char)family;
    out[14] = (char)(said_len >> 8);
    out[15] = (char)said_len;
    memset(out + 16, 'T', said_len); // extensions
    if (body_len > 0) memcpy(out + 16, body, body_len);
    return 16u + said_len;
}

static void test_binary(void **state) {
    (void)state;
    static char out[70000];
    static const u8 inet[12] = {192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 0x04, 0x07, 0x5b};
    u8 inet6[36] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1, [32] = 0xdc, [33] = 0x04};
    expect_address(out, binary(out, 0x21, 0x11, inet, 12, 12), AF_INET, "192.0.2.1", 56324);
    expect_address(out, binary(out, 0x21, 0x11, inet, 12, 300), AF_INET, "192.0.2.1", 56324);
    expect_address(out, binary(out, 0x21, 0x11, inet, 12, PROXY_V2_BYTES_MAX), AF_INET, "192.0.2.1", 56324);
    expect_address(out, binary(out, 0x21, 0x21, inet6, 36, 36), AF_INET6, "2001:db8::1", 56324);
    expect_address(out, binary(out, 0x21, 0x21, inet6, 36, 84), AF_INET6, "2001:db8::1", 56324);
    expect_address(out, binary(out, 0x20, 0x00, NULL, 0, 0), 0, NULL, 0);
    expect_address(out, binary(out, 0x20, 0x11, inet, 12, 12), 0, NULL, 0);
    expect_address(out, binary(out, 0x20, 0xff, NULL, 0, 40), 0, NULL, 0);
    expect_address(out, binary(out, 0x21, 0x00, NULL, 0, 7), 0, NULL, 0);
    expect_address(out, binary(out, 0x21, 0x31, NULL, 0, 216), 0, NULL, 0);
}

static void test_bad_binary(void **state) {
    (void)state;
    static char out[70000];
    binary(out, 0x11, 0x11, NULL, 0, 12);
    expect_fault(out, 16, PROXY_VERSION);
    binary(out, 0x31, 0x11, NULL, 0, 12);
    expect_fault(out, 16, PROXY_VERSION);
    binary(out, 0x22, 0x11, NULL, 0, 12);
    expect_fault(out, 16, PROXY_COMMAND);
    binary(out, 0x21, 0x41, NULL, 0, 12);
    expect_fault(out, 16, PROXY_FAMILY);
    binary(out, 0x21, 0x12, NULL, 0, 12); // datagrams
    expect_fault(out, 16, PROXY_FAMILY);
    binary(out, 0x21, 0x10, NULL, 0, 12);
    expect_fault(out, 16, PROXY_FAMILY);
    binary(out, 0x21, 0x11, NULL, 0, 11);
    expect_fault(out, 16, PROXY_LENGTH);
    binary(out, 0x21, 0x21, NULL, 0, 35);
    expect_fault(out, 16, PROXY_LENGTH);
    binary(out, 0x21, 0x31, NULL, 0, 215);
    expect_fault(out, 16, PROXY_LENGTH);
    binary(out, 0x21, 0x11, NULL, 0, PROXY_V2_BYTES_MAX + 1);
    expect_fault(out, 16, PROXY_LENGTH);
    binary(out, 0x20, 0x00, NULL, 0, 65535);
    expect_fault(out, 16, PROXY_LENGTH);
    memcpy(out, SIGNATURE, 12);
    out[11] = 'x';
    expect_fault(out, 12, PROXY_NO_HEADER);
}

static void address(const char *text, u8 out[16]) {
    cidr one;
    assert_true(cidr_parse(text, strlen(text), &one));
    memcpy(out, one.addr, 16);
}

static void test_ranges(void **state) {
    (void)state;
    static const struct {
        const char *list, *addr;
        bool has;
    } rows[] = {
        {"10.0.0.0/8\n", "10.255.0.1", true},      {"10.0.0.0/8\n", "11.0.0.1", false},
        {"192.0.2.7\n", "192.0.2.7", true},        {"192.0.2.7\n", "192.0.2.6", false},
        {"0.0.0.0/0\n", "8.8.8.8", true},          {"0.0.0.0/0\n", "2001:db8::1", false},
        {"::/0\n", "8.8.8.8", true},               {"2001:db8::/33\n", "2001:db8:7fff::1", true},
        {"2001:db8::/33\n", "2001:db8:8000::", false}, {"10.0.0.0/8\n127.0.0.1\n", "127.0.0.1", true},
        {"", "127.0.0.1", false},                  {"192.0.2.128/25\n", "192.0.2.127", false},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        u8 addr[16];
        address(rows[i].addr, addr);
        if (cidr_list_has(rows[i].list, addr) != rows[i].has) fail_msg("row %u: %s", i, rows[i].addr);
    }
    static const char *const bad[] = {"",        "10.0.0.0/33",    "10.0.0.1/8", "10.0.0.0/",   "10.0.0.0/08", "10.0.0",
                                      "::1/129", "2001:db8::1/64", "host",       "10.0.0.0/-1", "1.2.3.4/32 "};
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        cidr range;
        if (cidr_parse(bad[i], strlen(bad[i]), &range)) fail_msg("accepted: %s", bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_bad_binary),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
