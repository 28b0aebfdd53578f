// SPDX-License-Identifier: Apache-2.0
// test_hello.c: the JSON of the first frame in publish mode: what is a hello and what is not.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/frame.h"

static frame_hello hello;

// From a malloc'd copy of exactly its size, so that a read beyond it is seen.
static int parse_bytes(const char *text, size_t len) {
    u8 *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    memset(&hello, 0xaa, sizeof(hello));
    int result = frame_hello_parse(copy, (u32)len, &hello);
    assert_memory_equal(copy, text, len);
    free(copy);
    return result;
}

static int parse(const char *text) {
    return parse_bytes(text, strlen(text));
}

static void test_accepts(void **state) {
    (void)state;
    assert_int_equal(parse("{\"id\": \"sensor-7\", \"token\": \"s3cret\"}"), 0);
    assert_string_equal(hello.id, "sensor-7");
    assert_int_equal(hello.id_len, 8);
    assert_string_equal(hello.token, "s3cret");
    assert_int_equal(hello.token_len, 6);
    for (u32 i = hello.token_len; i < sizeof(hello.token); i++) assert_int_equal(hello.token[i], 0);

    assert_int_equal(parse(" \r\n{\"token\":\"\",\"id\":\"x\"}\n\t "), 0);
    assert_int_equal(hello.token_len, 0);
    assert_int_equal(parse("{\"id\":\"x\"}"), 0); // without a token
    assert_int_equal(hello.token_len, 0);
    assert_int_equal(parse("{\"v\":[1,{\"id\":3}],\"id\":\"x\",\"more\":null,\"ID\":\"y\"}"), 0);
    assert_string_equal(hello.id, "x");
    // Escapes are resolved, in names too.
    assert_int_equal(parse("{\"\\u0069\\u0064\":\"\\u00e4\\ud83d\\ude00\"}"), 0);
    assert_string_equal(hello.id, "\xc3\xa4\xf0\x9f\x98\x80");
    assert_int_equal(parse("{\"id\":\"%i $SYS\"}"), 0);
}

static void test_refuses(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", " ", "{}", "[]", "null", "\"id\"", "7", "{\"token\":\"x\"}",
        "{\"id\":7}", "{\"id\":null}", "{\"id\":[\"x\"]}", "{\"id\":{}}", "{\"id\":\"\"}",
        "{\"id\":\"x\",\"token\":7}", "{\"id\":\"x\",\"token\":null}",
        "{\"id\":\"x\",\"id\":\"x\"}", "{\"id\":\"x\",\"token\":\"a\",\"token\":\"a\"}",
        "{\"id\":\"a/b\"}", "{\"id\":\"a+\"}", "{\"id\":\"#\"}", "{\"id\":\"a\\u0000\"}",
        "{\"id\":\"x\",\"token\":\"a\\u0000b\"}",
        "{\"id\":\"a\\u002fb\"}",                      // an escaped '/'
        "{\"id\":\"x\"", "{\"id\":\"x}", "{\"id\"}", "{\"id\":}", "{\"id\":\"x\",}", "{'id':'x'}",
        "{\"id\":\"x\"}{", "{\"id\":\"x\"} x", "{\"id\":\"x\"}{\"id\":\"y\"}",
        "{\"id\":\"\xff\"}", "{\"id\":\"\xed\xa0\x80\"}", "{\"id\":\"\\ud800\"}",
        "{\"id\":\"\xc3\"}",
        "{\"id\":\"x\",\"n\":NaN}", "{\"id\":\"x\" /* no */}", "\xef\xbb\xbf{\"id\":\"x\"}",
    };
    for (u32 i = 0; i < ARRAY_LEN(texts); i++) {
        if (parse(texts[i]) != -EINVAL) fail_msg("accepted: %s", texts[i]);
    }
    assert_int_equal(parse_bytes("{\"id\":\"x\"}\0", 11), -EINVAL);
}

static size_t with_id_of(char *out, u32 id_bytes, u32 token_bytes) {
    char *at = out + sprintf(out, "{\"id\":\"");
    memset(at, 'i', id_bytes);
    at += id_bytes;
    at += sprintf(at, "\",\"token\":\"");
    memset(at, 't', token_bytes);
    at += token_bytes;
    at += sprintf(at, "\"}");
    return (size_t)(at - out);
}

static void test_lengths(void **state) {
    (void)state;
    char text[2 * LIMIT_HELLO_BYTES];
    size_t len = with_id_of(text, LIMIT_CLIENT_ID_BYTES, LIMIT_TOKEN_BYTES);
    assert_int_equal(parse_bytes(text, len), 0);
    assert_int_equal(strlen(hello.id), LIMIT_CLIENT_ID_BYTES);
    assert_int_equal(strlen(hello.token), LIMIT_TOKEN_BYTES);
    assert_int_equal(parse_bytes(text, with_id_of(text, LIMIT_CLIENT_ID_BYTES + 1, 1)), -EINVAL);
    assert_int_equal(parse_bytes(text, with_id_of(text, 1, LIMIT_TOKEN_BYTES + 1)), -EINVAL);
    len = with_id_of(text, 3, 3);
    memset(text + len, ' ', LIMIT_HELLO_BYTES - len + 1);
    assert_int_equal(parse_bytes(text, LIMIT_HELLO_BYTES), 0);
    assert_int_equal(parse_bytes(text, LIMIT_HELLO_BYTES + 1), -EINVAL);
}

// What costs the reader most memory per byte: the pool holds it, nothing is refused for its shape.
static void test_worst_case_for_the_pool(void **state) {
    (void)state;
    char text[LIMIT_HELLO_BYTES + 1];
    size_t at = (size_t)sprintf(text, "{\"id\":\"x\",\"a\":[1");
    while (at < LIMIT_HELLO_BYTES - 4) at += (size_t)sprintf(text + at, ",1");
    at += (size_t)sprintf(text + at, "]}");
    assert_int_equal(parse_bytes(text, at), 0);
    memset(text, '[', LIMIT_HELLO_BYTES);
    assert_int_equal(parse_bytes(text, LIMIT_HELLO_BYTES), -EINVAL);
    at = (size_t)sprintf(text, "{\"id\":\"x\",\"a\":");
    size_t depth = (LIMIT_HELLO_BYTES - at - 1) / 2;
    memset(text + at, '[', depth);
    memset(text + at + depth, ']', depth);
    text[at + 2 * depth] = '}';
    assert_int_equal(parse_bytes(text, at + 2 * depth + 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_worst_case_for_the_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
