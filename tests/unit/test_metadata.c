// SPDX-License-Identifier: Apache-2.0
// test_metadata.c: which cloud it is, what is asked of it, and what its answers mean; HTTP answers in pieces,
// too large, cut and not HTTP at all.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "init/metadata_http.h"

static void test_detect(void **state) {
    (void)state;
    assert_int_equal(cloud_detect(&(cloud_dmi){.sys_vendor = "QEMU", .product_name = "Standard PC"}), CLOUD_NONE);
    assert_int_equal(cloud_detect(&(cloud_dmi){.sys_vendor = ""}), CLOUD_NONE);
    assert_int_equal(cloud_detect(&(cloud_dmi){.sys_vendor = "Amazon EC2"}), CLOUD_EC2);
    assert_int_equal(cloud_detect(&(cloud_dmi){.bios_version = "4.11.amazon", .product_uuid = "ec2e1916"}), CLOUD_EC2);
    assert_int_equal(cloud_detect(&(cloud_dmi){.product_uuid = "ec2e1916"}), CLOUD_NONE); // by chance
    assert_int_equal(cloud_detect(&(cloud_dmi){.product_name = "Google Compute Engine"}), CLOUD_GCP);
    assert_int_equal(cloud_detect(&(cloud_dmi){.product_name = "OpenStack Nova"}), CLOUD_OPENSTACK);
    assert_int_equal(cloud_detect(&(cloud_dmi){.chassis_asset_tag = "7783-7084-3265-9085-8269-3286-77"}), CLOUD_AZURE);
}

static metadata_answer answer(int status, const char *body) {
    return (metadata_answer){.status = status, .body = body, .body_len = strlen(body)};
}

static metadata_verdict say(metadata_step *s, int status, const char *body) {
    metadata_answer a = answer(status, body);
    return metadata_step_answer(s, &a);
}

static void test_ec2(void **state) {
    metadata_step s;
    (void)state;
    assert_int_equal(metadata_step_begin(&s, CLOUD_EC2), METADATA_ASK);
    assert_memory_equal(s.request, "PUT /latest/api/token HTTP/1.1\r\n", 32);
    assert_non_null(strstr(s.request, "X-aws-ec2-metadata-token-ttl-seconds: 300\r\n"));
    assert_int_equal(say(&s, 200, "AQAE=="), METADATA_ASK);
    assert_memory_equal(s.request, "GET /latest/user-data HTTP/1.1\r\n", 32);
    assert_non_null(strstr(s.request, "X-aws-ec2-metadata-token: AQAE==\r\n"));
    assert_int_equal(say(&s, 200, "workers = 1"), METADATA_DONE);
    assert_int_equal(say(&s, 404, ""), METADATA_EMPTY);
}

static void test_ec2_token_trouble(void **state) {
    metadata_step s;
    u32 asked = 0;
    (void)state;
    metadata_step_begin(&s, CLOUD_EC2);
    metadata_verdict v = say(&s, 200, "T");
    while (v != METADATA_FAILED) { // a service that refuses its own tokens
        assert_true(++asked < 20);
        v = say(&s, 401, "");
        if (v == METADATA_WAIT) {
            assert_int_equal(metadata_step_again(&s), METADATA_ASK);
            assert_memory_equal(s.request, "PUT ", 4);
            v = say(&s, 200, "T");
        }
    }
    assert_non_null(strstr(s.problem, "401"));
    static const char *const tokens[] = {"", "a b", "a\r\nX: y", "\x01"};
    for (u32 i = 0; i < ARRAY_LEN(tokens); i++) {
        metadata_step_begin(&s, CLOUD_EC2);
        assert_int_equal(say(&s, 200, tokens[i]), METADATA_WAIT);
    }
    char big[METADATA_TOKEN_BYTES + 1];
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    metadata_step_begin(&s, CLOUD_EC2);
    assert_int_equal(say(&s, 200, big), METADATA_WAIT);
    metadata_step_begin(&s, CLOUD_EC2);
    assert_int_equal(say(&s, 403, ""), METADATA_FAILED); // turned off by the owner
}

static void test_gcp(void **state) {
    metadata_step s;
    (void)state;
    metadata_step_begin(&s, CLOUD_GCP);
    assert_non_null(strstr(s.request, "/attributes/sluice-conf HTTP/1.1\r\nHost: metadata.google.internal\r\n"));
    assert_non_null(strstr(s.request, "Metadata-Flavor: Google\r\n"));
    assert_int_equal(say(&s, 200, "workers = 1"), METADATA_WAIT); // somebody else answered
    metadata_answer a = answer(404, "");
    a.flavor_google = true;
    assert_int_equal(metadata_step_answer(&s, &a), METADATA_ASK);
    assert_non_null(strstr(s.request, "/attributes/user-data "));
    assert_int_equal(metadata_step_answer(&s, &a), METADATA_EMPTY);
}

static void test_silence(void **state) {
    metadata_step s;
    u64 waited = 0;
    u32 tries = 0;
    (void)state;
    metadata_step_begin(&s, CLOUD_OPENSTACK);
    for (metadata_verdict v = METADATA_WAIT; v != METADATA_FAILED; tries++) {
        metadata_answer a = {.why = "no answer within 2 s"};
        v = metadata_step_answer(&s, &a);
        if (v == METADATA_WAIT) waited += s.wait_ms;
        if (tries == 5) assert_int_equal(waited, 6000); // a second apart at first
    }
    assert_int_equal(tries, METADATA_FAST_TRIES + METADATA_SLOW_TRIES);
    assert_true(waited > 20 * 60000);
    assert_string_equal(s.problem, "no answer within 2 s");
    assert_int_equal(metadata_step_begin(&s, CLOUD_AZURE), METADATA_FAILED);
    metadata_step_begin(&s, CLOUD_OPENSTACK);
    assert_int_equal(say(&s, 500, "x"), METADATA_WAIT);
    assert_int_equal(say(&s, 302, ""), METADATA_WAIT); // redirects are not followed
    assert_int_equal(say(&s, 200, ""), METADATA_EMPTY);
}

static answer_progress feed(http_answer *a, const char *text) {
    return http_answer_feed(a, text, strlen(text));
}

static void test_http(void **state) {
    static const char whole[] = "HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 5\r\n\r\nhello";
    http_answer a;
    (void)state;
    for (size_t cut = 1; cut < sizeof(whole) - 1; cut++) {
        http_answer_init(&a);
        assert_int_equal(http_answer_feed(&a, whole, cut), ANSWER_MORE);
        assert_int_equal(http_answer_feed(&a, whole + cut, sizeof(whole) - 1 - cut), ANSWER_COMPLETE);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
        assert_true(a.flavor_google);
        http_answer_free(&a);
    }
    http_answer_init(&a); // until the end of the connection
    assert_int_equal(feed(&a, "HTTP/1.0 200 OK\r\n\r\nabc"), ANSWER_MORE);
    assert_int_equal(http_answer_end(&a), ANSWER_COMPLETE);
    assert_string_equal(a.body, "abc");
    assert_false(a.flavor_google);
    http_answer_free(&a);
    http_answer_init(&a);
    assert_int_equal(feed(&a, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
                     ANSWER_COMPLETE);
    assert_string_equal(a.body, "abc");
    http_answer_free(&a);
}

static void refused(const char *text, const char *why) {
    http_answer a;
    http_answer_init(&a);
    answer_progress p = feed(&a, text);
    if (p == ANSWER_MORE) p = http_answer_end(&a);
    assert_int_equal(p, ANSWER_BAD);
    if (strstr(a.why, why) == NULL) fail_msg("%s", a.why);
    assert_int_equal(feed(&a, "more"), ANSWER_BAD); // and stays so
    http_answer_free(&a);
}

static void test_http_that_is_not(void **state) {
    (void)state;
    refused("SSH-2.0-OpenSSH_9.6\r\n", "not HTTP");
    refused("", "without an answer");
    refused("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "in the middle");
    refused("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", "too large");
    char *big = malloc(METADATA_BODY_BYTES_MAX + 64);
    assert_non_null(big);
    int head = snprintf(big, 64, "HTTP/1.1 200 OK\r\n\r\n");
    memset(big + head, 'x', METADATA_BODY_BYTES_MAX + 1);
    big[(size_t)head + METADATA_BODY_BYTES_MAX + 1] = '\0';
    refused(big, "body is too large");
    head = snprintf(big, 64, "HTTP/1.1 200 OK\r\nX: ");
    memset(big + head, 'x', METADATA_HEADER_BYTES_MAX + 1);
    big[(size_t)head + METADATA_HEADER_BYTES_MAX + 1] = '\0';
    refused(big, "header is too large");
    free(big);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detect),  cmocka_unit_test(test_ec2),  cmocka_unit_test(test_ec2_token_trouble),
        cmocka_unit_test(test_gcp),     cmocka_unit_test(test_silence), cmocka_unit_test(test_http),
        cmocka_unit_test(test_http_that_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
