// SPDX-License-Identifier: Apache-2.0
// test_topic.c: UTF-8, names, filters and levels at their edges (MQTT 5.0 sections 1.5.4 and 4.7).
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/topic.h"

#define UTF8(text) utf8_is_valid(text, sizeof(text) - 1)
#define NAME(text) topic_name_is_valid(text, sizeof(text) - 1)
#define FILTER(text) topic_filter_is_valid(text, sizeof(text) - 1)

static void test_utf8_accepts(void **state) {
    (void)state;
    assert_true(UTF8(""));
    assert_true(UTF8("plain text longer than a block of eight"));
    assert_true(UTF8("\x01\x7f"));
    assert_true(UTF8("\xc2\x80 \xdf\xbf"));                 // U+0080, U+07FF
    assert_true(UTF8("\xe0\xa0\x80 \xed\x9f\xbf"));         // U+0800, U+D7FF
    assert_true(UTF8("\xee\x80\x80 \xef\xbf\xbf"));         // U+E000, U+FFFF
    assert_true(UTF8("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf")); // U+10000, U+10FFFF
    assert_true(UTF8("1234567\xc3\xa4" "1234567\xe2\x82\xac"));
}

static void test_utf8_refuses(void **state) {
    (void)state;
    assert_false(UTF8("\0"));
    assert_false(UTF8("12345678\0"));
    assert_false(UTF8("1234\0" "5678"));
    assert_false(UTF8("\x80"));                 // continuation alone
    assert_false(UTF8("12345678\xbf"));
    assert_false(UTF8("\xc0\x80"));             // overlong NUL
    assert_false(UTF8("\xc1\xbf"));             // overlong
    assert_false(UTF8("\xe0\x9f\xbf"));         // overlong
    assert_false(UTF8("\xf0\x8f\xbf\xbf"));     // overlong
    assert_false(UTF8("\xed\xa0\x80"));         // surrogate U+D800
    assert_false(UTF8("\xed\xbf\xbf"));         // surrogate U+DFFF
    assert_false(UTF8("\xf4\x90\x80\x80"));     // above U+10FFFF
    assert_false(UTF8("\xf5\x80\x80\x80"));
    assert_false(UTF8("\xff"));
    assert_false(UTF8("\xc3"));                 // cut short
    assert_false(UTF8("\xe2\x82"));
    assert_false(UTF8("\xf0\x9f\x98"));
    assert_false(UTF8("\xc3" "a"));             // continuation missing
    assert_false(UTF8("\xe2\x82" "a"));
}

// Every two-byte and three-byte sequence against the definition: decode, then compare code point
// and length.
static void test_utf8_exhaustive(void **state) {
    (void)state;
    u32 valid2 = 0, valid3 = 0;
    for (u32 a = 0x80; a < 256; a++) {
        for (u32 b = 0; b < 256; b++) {
            char two[2] = {(char)a, (char)b};
            u32 point = (a & 0x1f) << 6 | (b & 0x3f);
            bool expect = (a & 0xe0) == 0xc0 && (b & 0xc0) == 0x80 && point >= 0x80;
            assert_int_equal(utf8_is_valid(two, 2), expect);
            valid2 += expect;
            for (u32 c = 0x7f; c < 0xc1; c++) {
                char three[3] = {(char)a, (char)b, (char)c};
                point = (a & 0xf) << 12 | (b & 0x3f) << 6 | (c & 0x3f);
                bool one = (a & 0xf0) == 0xe0 && (b & 0xc0) == 0x80 && (c & 0xc0) == 0x80 &&
                           point >= 0x800 && (point < 0xd800 || point > 0xdfff);
                bool pair = expect && c == 0x7f;
                assert_int_equal(utf8_is_valid(three, 3), one || pair);
                valid3 += one;
            }
        }
    }
    assert_int_equal(valid2, 0x800 - 0x80);
    assert_int_equal(valid3, 0x10000 - 0x800 - 0x800);
}

static void test_names(void **state) {
    (void)state;
    assert_true(NAME("a"));
    assert_true(NAME("/"));
    assert_true(NAME("//"));
    assert_true(NAME("/finance"));
    assert_true(NAME("devices/42/up"));
    assert_true(NAME("$SYS/broker"));
    assert_true(NAME("with space/\xc3\xa4"));
    assert_false(NAME(""));
    assert_false(NAME("+"));
    assert_false(NAME("a+b"));
    assert_false(NAME("a/#"));
    assert_false(NAME("a\0b"));
    assert_false(NAME("a/\xff"));
}

static void test_filters(void **state) {
    (void)state;
    assert_true(FILTER("#"));
    assert_true(FILTER("+"));
    assert_true(FILTER("/"));
    assert_true(FILTER("+/+"));
    assert_true(FILTER("/+"));
    assert_true(FILTER("+/"));
    assert_true(FILTER("a/+/b/#"));
    assert_true(FILTER("a//#"));
    assert_false(FILTER(""));
    assert_false(FILTER("a+"));
    assert_false(FILTER("+a"));
    assert_false(FILTER("a/b+/c"));
    assert_false(FILTER("a#"));
    assert_false(FILTER("#/"));
    assert_false(FILTER("#/a"));
    assert_false(FILTER("a/#/b"));
    assert_false(FILTER("++"));
    assert_false(FILTER("##"));
    assert_false(FILTER("a/\0/b"));
    assert_false(FILTER("a/\xed\xa0\x80"));
}

static void test_length_bound(void **state) {
    (void)state;
    char *text = malloc(LIMIT_TOPIC_BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', LIMIT_TOPIC_BYTES + 1);
    assert_true(topic_name_is_valid(text, LIMIT_TOPIC_BYTES));
    assert_false(topic_name_is_valid(text, LIMIT_TOPIC_BYTES + 1));
    assert_true(topic_filter_is_valid(text, LIMIT_TOPIC_BYTES));
    assert_false(topic_filter_is_valid(text, LIMIT_TOPIC_BYTES + 1));
    free(text);
}

static void test_level_bound(void **state) {
    (void)state;
    char text[LIMIT_TOPIC_LEVELS];
    memset(text, '/', sizeof(text));
    assert_true(topic_name_is_valid(text, LIMIT_TOPIC_LEVELS - 1));
    assert_false(topic_name_is_valid(text, LIMIT_TOPIC_LEVELS));
    assert_true(topic_filter_is_valid(text, LIMIT_TOPIC_LEVELS - 1));
    assert_false(topic_filter_is_valid(text, LIMIT_TOPIC_LEVELS));
    topic_level levels[LIMIT_TOPIC_LEVELS];
    assert_int_equal(topic_split(text, LIMIT_TOPIC_LEVELS - 1, levels), LIMIT_TOPIC_LEVELS);
    for (u32 i = 0; i < LIMIT_TOPIC_LEVELS; i++) assert_int_equal(levels[i].len, 0);
}

static void test_split(void **state) {
    (void)state;
    topic_level levels[LIMIT_TOPIC_LEVELS];
    const char *topic = "/ab//c";
    assert_int_equal(topic_split(topic, 6, levels), 4);
    assert_int_equal(levels[0].len, 0);
    assert_int_equal(levels[1].len, 2);
    assert_ptr_equal(levels[1].text, topic + 1);
    assert_int_equal(levels[2].len, 0);
    assert_int_equal(levels[3].len, 1);
    assert_ptr_equal(levels[3].text, topic + 5);
    assert_int_equal(topic_split("one", 3, levels), 1);
    assert_int_equal(levels[0].len, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_accepts), cmocka_unit_test(test_utf8_refuses),
        cmocka_unit_test(test_utf8_exhaustive), cmocka_unit_test(test_names),
        cmocka_unit_test(test_filters), cmocka_unit_test(test_length_bound),
        cmocka_unit_test(test_level_bound), cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
