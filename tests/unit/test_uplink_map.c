// SPDX-License-Identifier: Apache-2.0
// test_uplink_map.c: rules from topic to topic, and between topics and NATS subjects.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "uplink/map.h"

static void expect_rule(const char *rule, const char *topic, const char *mapped) {
    char list[512], out[256];
    uplink_map map;
    snprintf(list, sizeof(list), "%s\n", rule);
    if (map_rule_check(rule) != NULL) fail_msg("%s: %s", rule, map_rule_check(rule));
    assert_int_equal(map_make(&map, list), 0);
    int len = map_apply(&map, topic, (u32)strlen(topic), out, sizeof(out) - 1);
    if (mapped == NULL) {
        if (len != 0) fail_msg("%s matches %s", rule, topic);
        return;
    }
    if (len < 0) fail_msg("%s on %s: %d", rule, topic, len);
    out[len] = '\0';
    assert_string_equal(out, mapped);
}

static void test_rules(void **state) {
    (void)state;
    expect_rule("a/# -> b/#", "a/x/y", "b/x/y");
    expect_rule("a/# -> b/#", "a", "b");
    expect_rule("a/# -> b/#", "a/", "b/");
    expect_rule("a/# -> b/#", "ab", NULL);
    expect_rule("a/# -> b", "a/x", "b");
    expect_rule("# -> all/#", "x/y", "all/x/y");
    expect_rule("# -> #", "x", "x");
    expect_rule("#", "x/y", "x/y");
    expect_rule("#", "$SYS/x", NULL);
    expect_rule("+/x -> y/+", "$a/x", NULL);
    expect_rule("$share/+ -> y/+", "$share/x", "y/x");
    expect_rule("s/+/t/+ -> +/s/+", "s/1/t/2", "1/s/2");
    expect_rule("s/+/t/+ -> +/s/+", "s/1/t", NULL);
    expect_rule("s/+/t/+ -> +/s/+", "s/1/t/2/3", NULL);
    expect_rule("s/+ -> t/+", "s/", "t/");
    expect_rule("+/+/# -> x/+/y/+/#", "a/b/c/d", "x/a/y/b/c/d");
    expect_rule("+/+/# -> x/+/y/+/#", "a/b", "x/a/y/b");
    expect_rule("exact", "exact", "exact");
    expect_rule("exact -> other/topic", "exact", "other/topic");
    expect_rule("exact -> other", "exac", NULL);
    expect_rule("/a -> /b", "/a", "/b");
}

static void test_rules_in_order(void **state) {
    (void)state;
    char out[64];
    uplink_map map;
    assert_int_equal(map_make(&map, "a/b -> first\na/# -> second/#\n"), 0);
    assert_int_equal(map_apply(&map, "a/b", 3, out, sizeof(out)), 5);
    assert_memory_equal(out, "first", 5);
    assert_int_equal(map_apply(&map, "a/c", 3, out, sizeof(out)), 8);
    assert_int_equal(map_apply(&map, "x", 1, out, sizeof(out)), 0);
    assert_int_equal(map_apply(&map, "a/c", 3, out, 7), -ENOSPC);
    assert_int_equal(map_apply(&map, "", 0, out, sizeof(out)), 0);
    char many[MAP_RULES_MAX * 2 + 3] = "";
    for (u32 i = 0; i <= MAP_RULES_MAX; i++) strcat(many, "x\n");
    assert_int_equal(map_make(&map, many), -E2BIG);
}

static void test_rules_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "", " -> a", "a -> ", "a/#/b", "a+ -> b", "a -> +", "a -> #", "+ -> +/+", "a -> b -> c#", "a -> b#",
        "+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        if (map_rule_check(wrong[i]) == NULL) fail_msg("%s was taken", wrong[i]);
    }
}

static void expect_subject(const char *topic, const char *subject) {
    char out[256];
    int len = map_subject_of_topic(topic, (u32)strlen(topic), out, sizeof(out) - 1);
    assert_true(len > 0);
    out[len] = '\0';
    assert_string_equal(out, subject);
    len = map_topic_of_subject(subject, (u32)strlen(subject), out, sizeof(out) - 1);
    assert_int_equal(len, strlen(topic));
    assert_memory_equal(out, topic, len);
}

static void test_subjects(void **state) {
    (void)state;
    expect_subject("a", "a");
    expect_subject("a/b/c", "a.b.c");
    expect_subject("a//b", "a.%.b");
    expect_subject("/a/", "%.a.%");
    expect_subject("a.b/c d", "a%2Eb.c%20d");
    expect_subject("100%/*>", "100%25.%2A%3E");
    expect_subject("grad \xc3\xa4", "grad%20\xc3\xa4");
    expect_subject("tab\t/cr\r\n", "tab%09.cr%0D%0A");
    // No device speaks to the server itself.
    expect_subject("$JS/API/STREAM/DELETE/x", "%24JS.API.STREAM.DELETE.x");
    expect_subject("$SYS/x", "%24SYS.x");
    expect_subject("_INBOX/x/y", "%5FINBOX.x.y");
    expect_subject("a/$b/_c", "a.$b._c");
    char out[64];
    assert_int_equal(map_subject_of_topic("a.b", 3, out, 4), -ENOSPC);
    static const char *const wrong[] = {"a.%zz", "a.%2", "a%", "a.%2F.b", "a%00b", "a.b/c", "a.+.b", "a.#", "x%2B"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int result = map_topic_of_subject(wrong[i], (u32)strlen(wrong[i]), out, sizeof(out));
        if (result != -EINVAL) fail_msg("%s was taken", wrong[i]);
    }
}

static void test_subject_filters(void **state) {
    (void)state;
    char out[64];
    assert_int_equal(map_subject_of_filter("a/+/#", 5, out, sizeof(out)), 5);
    assert_memory_equal(out, "a.*.>", 5);
    assert_int_equal(map_subject_of_filter("#", 1, out, sizeof(out)), 1);
    assert_memory_equal(out, ">", 1);
    assert_int_equal(map_subject_of_filter("a.b/+", 5, out, sizeof(out)), 7);
    assert_memory_equal(out, "a%2Eb.*", 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_in_order),
        cmocka_unit_test(test_rules_refused),
        cmocka_unit_test(test_subjects),
        cmocka_unit_test(test_subject_filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
