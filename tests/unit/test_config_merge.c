// SPDX-License-Identifier: Apache-2.0
// test_config_merge.c: several configurations made into one: which key stands, where it came from, and that a
// mistake is told with the file and line it was written in. Also what user data may look like.
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "init/config_merge.h"
#include "init/config_user_data.h"

static const char BAKED[] = "listener devices {\n  protocol = frame;\n  bind = \"0.0.0.0:7000\";\n  mode = echo;\n}\n"
                            "admin { bind = \"0.0.0.0:9600\"; anonymous = yes; }\nlog { level = info; }\n";

typedef struct rig {
    config_text list[CONFIG_SOURCES_MAX];
    u32 count;
    config_merged merged;
    config *c;
    config_error error;
    u32 bad;
} rig;

static rig *rig_make(void) {
    rig *r = calloc(1, sizeof(*r));
    r->c = calloc(1, sizeof(*r->c));
    return r;
}

static void rig_free(rig *r) {
    config_merged_free(&r->merged);
    free(r->c);
    free(r);
}

static void add(rig *r, const char *name, const char *text) {
    r->list[r->count++] = (config_text){.name = name, .text = text, .len = strlen(text),
                                        .is_default = strcmp(name, "default") == 0,
                                        .is_words = strcmp(name, "words") == 0};
}

static int merge(rig *r) {
    int rc = config_merge(r->list, r->count, &r->merged, &r->error, &r->bad);
    if (rc == 0) rc = config_merged_check(&r->merged, r->c, &r->error, &r->bad);
    return rc;
}

static void good(rig *r) {
    if (merge(r) != 0) fail_msg("%s", r->error.text);
}

static void bad(rig *r, const char *where, u32 source) {
    assert_int_equal(merge(r), -EINVAL);
    if (strstr(r->error.text, where) == NULL) fail_msg("%s: not in: %s", where, r->error.text);
    assert_int_equal(r->bad, source);
    rig_free(r);
}

static void origin_is(const rig *r, const char *section, const char *key, u32 source, u32 line) {
    config_origin o;
    assert_true(config_merged_origin(&r->merged, section, key, &o));
    assert_int_equal(o.source, source);
    assert_int_equal(o.line, line);
}

static void test_alone(void **state) {
    rig *r = rig_make();
    config_origin o;
    (void)state;
    add(r, "default", BAKED);
    good(r);
    assert_int_equal(r->c->listener_count, 1);
    origin_is(r, "listener/devices", "mode", 0, 4);
    origin_is(r, "log", "level", 0, 7);
    assert_false(config_merged_origin(&r->merged, "", "workers", &o));
    assert_false(config_merged_origin(&r->merged, "listener/none", "mode", &o));
    rig_free(r);
}

static void test_keys_stand_over_keys(void **state) {
    rig *r = rig_make();
    (void)state;
    add(r, "default", BAKED);
    add(r, "esp", "workers = 1\n\nlog {\n  level = warn\n}\n");
    add(r, "cidata", "log { level = debug; connections = yes }");
    add(r, "words", "log.stderr=no\nworkers=2\nlistener.devices.mode=ack\n");
    good(r);
    assert_int_equal(r->c->workers, 2);
    assert_int_equal(r->c->log.level, LOG_DEBUG);
    assert_true(r->c->log.connections);
    assert_false(r->c->log.to_stderr);
    assert_int_equal(r->c->listener_count, 1);
    assert_int_equal(r->c->listeners[0].mode, FRAME_ACK);
    origin_is(r, "log", "level", 2, 1);
    origin_is(r, "", "workers", 3, 0);
    origin_is(r, "listener/devices", "bind", 0, 3);
    rig_free(r);
}

static void test_listeners_replace_the_default_ones(void **state) {
    rig *r = rig_make();
    (void)state;
    add(r, "default", BAKED);
    add(r, "esp", "listener a { protocol = frame; bind = \"0.0.0.0:1\" }");
    add(r, "cidata", "listener b { protocol = frame; bind = \"0.0.0.0:2\" }\nlistener a { mode = echo }");
    good(r);
    assert_int_equal(r->c->listener_count, 2);
    assert_string_equal(r->c->listeners[0].name, "a");
    assert_int_equal(r->c->listeners[0].mode, FRAME_ECHO);
    assert_string_equal(r->c->listeners[1].name, "b");
    assert_true(r->c->admin_enabled); // sections without a name are merged
    assert_string_equal(r->c->admin_bind.text, "0.0.0.0:9600");
    rig_free(r);
}

static void test_values_survive(void **state) {
    rig *r = rig_make();
    (void)state;
    add(r, "default", BAKED);
    add(r, "esp", "data_dir = \"/a \\\"b\\\" \\\\c #d; e = f {\";\nlistener x { protocol = frame; bind = \"[::]:7\"; "
                  "mode = publish; token = 'p w'; up_topic = \"a/%i/\\u00e9\" }");
    good(r);
    assert_string_equal(r->c->data_dir, "/a \"b\" \\c #d; e = f {");
    assert_string_equal(r->c->listeners[0].token, "p w");
    assert_string_equal(r->c->listeners[0].up_topic, "a/%i/\xc3\xa9");
    rig_free(r);
}

static void test_mistakes_name_their_source(void **state) {
    rig *r = rig_make();
    (void)state;
    add(r, "default", BAKED);
    add(r, "esp /sluice.conf", "workers = 1\n# a comment\nlog {\n  level = loud\n}\n");
    bad(r, "esp /sluice.conf:4: log: level: 'loud'", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "cidata", "workers = 1\nlog {\n");
    bad(r, "cidata:2:", 1); // not even readable
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "words", "worker=2\n");
    bad(r, "words: unknown key 'worker'", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "words", "log.level.deep=2\n");
    assert_int_equal(merge(r), -EINVAL);
    rig_free(r);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "esp", "network lan { address = \"192.0.2.5\" }\n");
    bad(r, "esp:1: network lan: address", 1);
    r = rig_make(); // two sources that do not go together: both are named, the higher one is at fault
    add(r, "default", BAKED);
    add(r, "esp", "listener a { protocol = frame; bind = \"0.0.0.0:7000\" }");
    add(r, "cidata", "\nlistener b { protocol = frame;\n bind = \"0.0.0.0:7000\" }");
    bad(r, "cidata:3: listener b: bind", 2);
}

static void test_what_is_wrong_in_one_file_stays_wrong(void **state) {
    rig *r = rig_make();
    (void)state;
    add(r, "default", BAKED);
    add(r, "esp", "workers = 1\nworkers = 2\n");
    bad(r, "esp:2: workers: given twice", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "esp", "log { level = warn }\nlog { stderr = no }\n");
    bad(r, "esp:2: log { } is given twice; the first stands in line 1", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "esp", "listener a { protocol = frame; bind = \"0.0.0.0:1\" }\nlistener a { mode = ack }");
    bad(r, "esp:2: a { } is given twice", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "esp", "listener { bind = \"0.0.0.0:1\" }\n");
    bad(r, "a name is expected", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "esp", "log = 3\n");
    bad(r, "esp:1: log is a section in default", 1);
    r = rig_make();
    add(r, "default", BAKED);
    add(r, "esp", "\"a workers\" = 3\n");
    bad(r, "is not a key", 1);
}

static void test_words(void **state) {
    static const char *const wrong[] = {"=1\n", "workers\n", "log.=1\n", ".level=1\n", "a..b=1\n", "a b=1\n",
                                        "a.b.c.d.e.f.g.h.i.j=1\n", "workers.x=1\nworkers=1\n"};
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) {
        rig *r = rig_make();
        add(r, "default", BAKED);
        add(r, "words", wrong[i]);
        if (merge(r) != -EINVAL) fail_msg("accepted: %s", wrong[i]);
        rig_free(r);
    }
    rig *r = rig_make();
    add(r, "default", BAKED);
    add(r, "words", "workers=1\nworkers=2\nnetwork.lan.match=name:eth*\n"); // the later word stands
    good(r);
    assert_int_equal(r->c->workers, 2);
    assert_int_equal(r->c->network_count, 1);
    rig_free(r);
}

static void test_nothing_at_all(void **state) {
    rig *r = rig_make();
    (void)state;
    assert_int_equal(merge(r), -EINVAL); // no listener
    assert_int_equal(r->bad, CONFIG_SOURCES_MAX);
    rig_free(r);
    r = rig_make();
    add(r, "esp", "");
    assert_int_equal(merge(r), -EINVAL);
    rig_free(r);
}

static void test_bounds(void **state) {
    rig *r = rig_make();
    char *many = malloc(CONFIG_SOURCE_BYTES_MAX + 2);
    size_t used = 0;
    (void)state;
    for (u32 i = 0; i < CONFIG_NODES_MAX + 1; i++) used += (size_t)sprintf(many + used, "k%u = 1\n", i);
    add(r, "esp", many);
    bad(r, "too many settings", 0);
    memset(many, '#', CONFIG_SOURCE_BYTES_MAX + 1);
    many[CONFIG_SOURCE_BYTES_MAX + 1] = '\0';
    r = rig_make();
    add(r, "esp", many);
    bad(r, "longer than", 0);
    free(many);
}

static int classify(const char *text, const char **why) {
    const char *start;
    size_t len;
    return config_user_data(text, strlen(text), &start, &len, why);
}

static void test_user_data(void **state) {
    const char *why;
    (void)state;
    assert_int_equal(classify("workers = 1\n", &why), 0);
    assert_int_equal(classify("#sluice-config\nworkers = 1\n", &why), 0);
    assert_int_equal(classify("# a comment\nworkers = 1\n", &why), 0);
    assert_int_equal(classify(" \n\t\r\n", &why), -ENODATA);
    assert_int_equal(classify("", &why), -ENODATA);
    static const struct {
        const char *text, *word;
    } rows[] = {{"#cloud-config\nusers: []\n", "cloud-init's YAML"}, {"\n#Cloud-Config\n", "cloud-init's YAML"},
                {"#!/bin/sh\n", "script"}, {"Content-Type: multipart/mixed; x\n", "MIME"}, {"\x1f\x8b\x08", "gzip"},
                {"{\"a\": 1}", "JSON"}, {"<html>", "page"}, {"---\na: b\n", "YAML"}, {"#include\nhttp://x", "URLs"}};
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(classify(rows[i].text, &why), -EINVAL);
        assert_non_null(strstr(why, rows[i].word));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_keys_stand_over_keys),
        cmocka_unit_test(test_listeners_replace_the_default_ones),
        cmocka_unit_test(test_values_survive),
        cmocka_unit_test(test_mistakes_name_their_source),
        cmocka_unit_test(test_what_is_wrong_in_one_file_stays_wrong),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_nothing_at_all),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_user_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
