// SPDX-License-Identifier: Apache-2.0
// test_config_text.c: the language of the file: what is refused with which line, and that what is
// accepted is read as it was written. Several cases are texts that libucl alone reads as something
// else.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/config.h"

#define LISTENER "listener a { protocol = frame; bind = \"127.0.0.1:7000\" }\n"

static config *parsed;
static config_error error;

static int parse(const char *text) {
    return config_parse("t", text, strlen(text), parsed, &error);
}

static int setup(void **state) {
    (void)state;
    parsed = malloc(sizeof(*parsed));
    return parsed == NULL ? -1 : 0;
}

static int teardown(void **state) {
    (void)state;
    free(parsed);
    return 0;
}

// The text is refused, the first mistake stands in this line, and its message has this part.
static void refused(const char *text, u32 line, const char *part) {
    char at[32];
    assert_int_equal(parse(text), -EINVAL);
    snprintf(at, sizeof(at), "t:%u: ", line);
    if (strncmp(error.text, at, strlen(at)) != 0 || strstr(error.text, part) == NULL) {
        fail_msg("expected line %u, '%s'; got: %s", line, part, error.text);
    }
}

static void accepted(const char *text) {
    if (parse(text) != 0) fail_msg("refused: %s", error.text);
}

static void test_syntax_mistakes_have_their_line(void **state) {
    (void)state;
    refused("workers = 2\nlistener a {\n protocol = frame\n", 2,
            "the { opened here is never closed");
    refused("workers = 2\n}\n", 2, "a } that closes nothing");
    refused("listener a {\n bind = [\"x\"\n}\n", 3, "a } where the [ of line 2 is still open");
    refused("pin\nworkers = 2\n", 1, "pin: = VALUE is expected");
    refused("\n\npin =\nworkers = 2\n", 3, "pin: the value after the = is missing");
    refused("pin = ;\n", 1, "value after the = is missing");
    refused("workers 2;\n", 1, "= VALUE is expected");
    refused("workers = 2 pin = yes;\n", 1, "is a ; missing");
    refused("data_dir = \"/x\" pin = yes;\n", 1, "a ; is missing after the quoted text");
    refused("a b = 1\n", 1, "more than one word before the =");
    refused("listener a b {\n}\n", 1, "more than two words before the {");
    refused("listener a\n{\n}\n", 1, "on the same line");
    refused("{ workers = 2 }\n", 1, "a { needs the section's name");
    refused("log{ level = info }\n", 1, "put a space before the {");
    refused("= 5\n", 1, "a key or a section name is expected");
    refused("[ 1, 2 ]\n", 1, "a key or a section name is expected");
    refused("workers\n", 1, "= VALUE is expected");
    refused("workers =", 1, "value after the = is missing");
    refused("workers == 2\n", 1, "value after the = is missing");
    refused("listener a { protocol = frame; bind = [::]:7000 }\n", 1,
            "an IPv6 address needs quotes");
}

static void test_quotes(void **state) {
    (void)state;
    refused("data_dir = \"/x\n\"\n", 1, "must end on the line it began on");
    refused("data_dir = '/x\n'\n", 1, "must end on the line it began on");
    refused("data_dir = \"/x", 1, "must end on the line it began on");
    refused("data_dir = \"\\q\"\n", 1, "unknown escape");
    refused("data_dir = \"\\u12g4\"\n", 1, "four hexadecimal digits");
    refused("data_dir = \"\\u0000\"\n" LISTENER, 1, "a control character in the value");
    refused("data_dir = \"a\\nb\"\n" LISTENER, 1, "a control character in the value");
    refused("data_dir = '\\x'\n", 1, "backslash in '...'");
    refused("data_dir = /x\"y\"\n", 1, "whole value in double quotes");
    refused("data_dir = /x\\y\n", 1, "whole value in double quotes");
    refused("data_dir \"/x\"\n", 1, "= VALUE is expected");
    accepted("data_dir = \"/a b;c{d}#e=\\\"\\\\\\u00e4\"\n" LISTENER);
    assert_string_equal(parsed->data_dir, "/a b;c{d}#e=\"\\\xc3\xa4");
    accepted("data_dir = '/a b;{\"'\n" LISTENER);
    assert_string_equal(parsed->data_dir, "/a b;{\"");
    accepted("\"data_dir\" : \"/x\", \"workers\": \"3\"\n\"listener\" a { \"protocol\" = frame; "
             "bind = 127.0.0.1:1 }");
    assert_string_equal(parsed->data_dir, "/x");
    assert_int_equal(parsed->workers, 3);
}

static void test_comments(void **state) {
    (void)state;
    accepted("# { \" ' /*\nworkers = 2 # } \"\n/* { \" don't **/ pin = no /* a /* nested\n */ { "
             "*/\n" LISTENER "#end");
    assert_int_equal(parsed->workers, 2);
    assert_false(parsed->pin);
    refused("workers = 2\n/* a\n /* b */\n", 2, "never closed");
    refused("data_dir = a#b\n", 1, "a comment needs a blank before it");
    refused("data_dir = a/*b*/\n", 1, "a comment needs a blank before it");
    refused("/* 1\n2\n3 */ oops = 1\n" LISTENER, 3, "unknown key 'oops'");
    refused("# \xc3\xa4 {\n\n\noops = 1\n" LISTENER, 4, "unknown key 'oops'");
    refused("// like this\nworkers = 2\n", 1, "= VALUE is expected");
}

static void test_nothing_is_included_or_expanded(void **state) {
    (void)state;
    refused(".include \"/etc/passwd\"\n", 1, "macros such as .include are not supported");
    refused("workers = 1\n  .includes \"http://127.0.0.1/x\"\n", 2, "macros");
    refused("log {\n .load { }\n}\n", 2, "macros");
    refused("data_dir = <<EOD\n/x\nEOD\n", 1, "several lines");
    accepted("data_dir = \"$CURDIR/${PID}\"\n" LISTENER);
    assert_string_equal(parsed->data_dir, "$CURDIR/${PID}");
    accepted("data_dir = /x/$ABI\n" LISTENER);
    assert_string_equal(parsed->data_dir, "/x/$ABI");
}

static void test_bytes_of_the_file(void **state) {
    (void)state;
    accepted("\xef\xbb\xbfworkers = 2\r\nlistener a {\r\n protocol = frame\r\n bind = "
             "127.0.0.1:0\r\n}\r\n");
    assert_int_equal(parsed->workers, 2);
    refused("workers = 2\n\xff\n", 2, "not UTF-8");
    refused("\n# \xed\xa0\x80\n", 2, "not UTF-8");
    refused("# \xc0\xaf\n", 1, "not UTF-8");
    refused("# \xf4\x90\x80\x80\n", 1, "not UTF-8");
    refused("# \xc3", 1, "not UTF-8");
    refused("workers = 2\n\x01\n", 2, "a control character");
    refused("workers = 2\rpin = no\n", 1, "a control character");
    assert_int_equal(config_parse("t", "a\0b", 3, parsed, &error), -EINVAL);
    assert_non_null(strstr(error.text, "t:1: a zero byte"));
    assert_int_equal(config_parse("t", NULL, 0, parsed, &error), -EINVAL);
    assert_string_equal(error.text,
                        "t: no listener; at least one is needed: "
                        "listener NAME { protocol = frame; bind = \"127.0.0.1:7000\"; }");
}

static void test_size_and_depth_are_bounded(void **state) {
    (void)state;
    size_t bytes = LIMIT_CONFIG_BYTES + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '\n', bytes);
    memcpy(text, LISTENER, strlen(LISTENER));
    assert_int_equal(config_parse("t", text, bytes, parsed, &error), -EINVAL);
    assert_string_equal(error.text, "t: longer than 1048576 bytes");
    assert_int_equal(config_parse("t", text, bytes - 1, parsed, &error), 0);

    refused("a {\na {\na {\na {\na {\na {\na {\na {\na {\n", 9, "nested too deep");
    refused("a = [[[[[[[[[", 1, "nested too deep");
    for (size_t i = 0; i + 4 <= bytes - 1; i += 4) memcpy(text + i, "a{}\n", 4);
    assert_int_equal(config_parse("t", text, bytes - 1, parsed, &error), -EINVAL);
    for (size_t i = 0; i + 6 <= bytes - 1; i += 6) memcpy(text + i, "a = 1\n", 6);
    assert_int_equal(config_parse("t", text, 600000, parsed, &error), -EINVAL);
    assert_non_null(strstr(error.text, "t:1: unknown key 'a'"));
    assert_non_null(strstr(error.text, "more mistakes not shown"));
    free(text);
}

// Each value is the text that was written: libucl alone reads 64k as 64000, 5m as 5000000 and 1ms
// as a float.
static void test_numbers_are_read_as_written(void **state) {
    (void)state;
    static const struct {
        const char *written;
        u32 bytes;
    } frames[] = {{"64k", 65536},   {"64k ", 65536}, {"\"64k\"", 65536}, {"'64k'", 65536},
                  {"5m", 5u << 20}, {"1000", 1000},  {"64k # c", 65536}};
    char text[256];
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        snprintf(text, sizeof(text),
                 "listener a { protocol = frame; bind = 127.0.0.1:0\n max_frame =\t%s\n}",
                 frames[i].written);
        accepted(text);
        assert_int_equal(parsed->listeners[0].max_frame, frames[i].bytes);
        snprintf(text, sizeof(text),
                 "listener a { protocol = frame; bind = 127.0.0.1:0; max_frame: %s\n}",
                 frames[i].written);
        accepted(text);
        assert_int_equal(parsed->listeners[0].max_frame, frames[i].bytes);
    }
    accepted("drain_timeout=250ms;min_wait=200us\n" LISTENER);
    assert_int_equal(parsed->drain_timeout_ms, 250);
    assert_int_equal(parsed->min_wait_us, 200);
    accepted(
        "listener a { protocol = frame; bind = 127.0.0.1:0; idle_timeout = 7d; keepalive = 2m }");
    assert_int_equal(parsed->listeners[0].idle_timeout_ms, 604800000);
    assert_int_equal(parsed->listeners[0].keepalive_s, 120);
    refused("listener a { protocol = frame; bind = 127.0.0.1:0; max_frame = 64kb }", 1,
            "'64kb' is not a size");
    refused("listener a { protocol = frame; bind = 127.0.0.1:0; max_frame = 0x10 }", 1,
            "'0x10' is not a size");
    refused("listener a { protocol = frame; bind = 127.0.0.1:0; max_frame = 1.5k }", 1,
            "'1.5k' is not a size");
    refused("listener a { protocol = frame; bind = 127.0.0.1:0; max_frame = -5 }", 1,
            "'-5' is not a size");
    refused("workers = 99999999999999999999\n" LISTENER, 1, "out of range");
    refused("workers = \"99999999999999999999\"\n" LISTENER, 1,
            "'99999999999999999999' is too large");
    refused("workers = null\n" LISTENER, 1, "'null' is not a whole number");
    refused("workers = nan\n" LISTENER, 1, "'nan' is not a whole number");
    refused("w\\u006frkers = 2\n", 1, "= VALUE is expected");
    refused("\"w\\u006frkers\" = 2\n" LISTENER, 1, "write the key without escapes");
}

static void test_switches(void **state) {
    (void)state;
    static const char *const yes[] = {"yes", "true", "on", "\"yes\""}, *const no[] = {"no", "false",
                                                                                      "off",
                                                                                      "'no'"};
    char text[128];
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        snprintf(text, sizeof(text), "sqpoll = %s\npin = %s\n" LISTENER, yes[i], no[i]);
        accepted(text);
        assert_true(parsed->sqpoll);
        assert_false(parsed->pin);
    }
    refused("pin = YES\n" LISTENER, 1, "pin: 'YES' is neither yes nor no");
    refused("pin = 1\n" LISTENER, 1, "pin: '1' is neither yes nor no");
    accepted("data_dir = yes\n" LISTENER); // a word is a text where a text is expected
    assert_string_equal(parsed->data_dir, "yes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax_mistakes_have_their_line),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_comments),
        cmocka_unit_test(test_nothing_is_included_or_expanded),
        cmocka_unit_test(test_bytes_of_the_file),
        cmocka_unit_test(test_size_and_depth_are_bounded),
        cmocka_unit_test(test_numbers_are_read_as_written),
        cmocka_unit_test(test_switches),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
