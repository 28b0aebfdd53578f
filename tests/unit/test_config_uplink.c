// SPDX-License-Identifier: Apache-2.0
// test_config_uplink.c: `uplink NAME { ... }` blocks: what is read, and what is refused with which words.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/config.h"

#define LISTENER "listener l { protocol = mqtt; bind = \"127.0.0.1:0\"; }\n"
#define STREAM "stream s { topics = [\"t/#\"]; }\n"
#define MQTT "kind = mqtt; url = \"mqtt://b\"; streams = [s]; "
#define NATS "kind = nats; url = \"nats://b\"; streams = [s]; "

static int parse(const char *block, config *out, config_error *error) {
    char text[8192];
    snprintf(text, sizeof(text), LISTENER STREAM "%s", block);
    return config_parse("test.conf", text, strlen(text), out, error);
}

static void test_read_and_printed(void **state) {
    (void)state;
    config *c = calloc(1, sizeof(*c)), *again = calloc(1, sizeof(*again));
    config_error error = {{0}};
    int rc = parse("uplink cloud { kind = nats; url = [\"nats://a\", \"nats://b:1\"]; streams = [\"s\"];\n"
                   "prefix = \"x/\"; token = t;"
                   "down = [\"c/# -> d/#\", \"e\"]; order = newest;\n"
                   "inflight = 1000; rate_bytes = 1m; keepalive = 3s; }\n"
                   "uplink second { " MQTT "version = 3.1.1; status_topic = \"s/t\";"
                   "from = earliest; qos0_buffer = no; }",
                   c, &error);
    if (rc != 0) fail_msg("%s", error.text);
    assert_int_equal(c->uplink_count, 2);
    const uplink_config *u = &c->uplinks[0];
    assert_string_equal(u->name, "cloud");
    assert_int_equal(u->kind, UPLINK_NATS);
    assert_string_equal(u->url, "nats://a\nnats://b:1\n");
    assert_string_equal(u->down, "c/# -> d/#\ne\n");
    assert_string_equal(u->client_id, "sluice-%h-%n");
    assert_int_equal(u->order, UPLINK_NEWEST);
    assert_int_equal(u->inflight, 1000);
    assert_int_equal(u->rate, 0);
    assert_int_equal(u->rate_bytes, 1 << 20);
    assert_int_equal(u->keepalive_s, 3);
    assert_int_equal(u->ack_timeout_ms, 30000);
    assert_int_equal(c->uplinks[1].version, UPLINK_MQTT_3_1_1);
    assert_int_equal(c->uplinks[1].from, UPLINK_FROM_EARLIEST);
    assert_false(c->uplinks[1].qos0_buffer);
    char *text = malloc(CONFIG_PRINT_BYTES);
    ssize_t len = config_print(c, text, CONFIG_PRINT_BYTES);
    assert_true(len > 0);
    assert_null(strstr(text, "token = ")); // a secret
    rc = config_parse("printed", text, (size_t)len, again, &error);
    if (rc != 0) fail_msg("%s", error.text);
    memset(c->uplinks[0].token, 0, sizeof(c->uplinks[0].token));
    assert_memory_equal(c->uplinks, again->uplinks, sizeof(c->uplinks));
    free(text);
    free(c);
    free(again);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"uplink { " MQTT "}", "a name is expected"},
        {"uplink u { url = \"mqtt://b\"; streams = [s]; }", "kind is missing"},
        {"uplink u { kind = mqtt; streams = [s]; }", "url is missing"},
        {"uplink u { kind = mqtt; url = \"mqtt://b\"; }", "streams is missing"},
        {"uplink u { kind = kafka; url = \"mqtt://b\"; streams = [s]; }", "not known in this version"},
        {"uplink u { kind = mqtt; url = \"http://b\"; streams = [s]; }", "not mqtt://HOST"},
        {"uplink u { kind = mqtt; url = \"mqtt://u:p@b\"; streams = [s]; }", "do not stand in the URL"},
        {"uplink u { kind = mqtt; url = \"nats://b\"; streams = [s]; }", "goes with mqtt://"},
        {"uplink u { kind = mqtt; url = \"mqtts://b\"; streams = [s]; }", "needed for mqtts://"},
        {"uplink u { kind = nats; url = \"tls://b\"; streams = [s]; }", "needed for mqtts:// and tls://"},
        {"uplink u { kind = mqtt; url = []; streams = [s]; }", "no URL"},
        {"uplink u { kind = mqtt; url = \"mqtt://b\"; streams = []; }", "no stream"},
        {"uplink u { kind = mqtt; url = \"mqtt://b\"; streams = [other]; }", "there is no stream other { ... }"},
        {"uplink u { " MQTT "token = x; }", "is for kind = nats"},
        {"uplink u { " NATS "token = x; user = y; }", "one way to log in"},
        {"uplink u { " NATS "nkey = \"/n\"; user = y; }", "one way to log in"},
        {"uplink u { " NATS "nkey = \"/n\"; credentials = \"/c\"; }", "one way to log in"},
        {"uplink u { " MQTT "credentials = \"/c\"; }", "is for kind = nats"},
        {"uplink u { " MQTT "password = x; }", "goes with a user"},
        {"uplink u { " NATS "status_topic = x; }", "of no use with kind = nats"},
        {"uplink u { " MQTT "prefix = \"x\"; }", "a prefix ends with /"},
        {"uplink u { " MQTT "prefix = \"x+/\"; }", "not the beginning of a topic"},
        {"uplink u { " MQTT "client_id = \"a b\"; }", "blanks"},
        {"uplink u { " MQTT "client_id = \"%x\"; }", "behind %"},
        {"uplink u { " MQTT "remap = [\"a -> #\"]; }", "and none before it"},
        {"uplink u { " MQTT "inflight = 0; }", "below 1"},
        {"uplink u { " MQTT "backoff_min = 10s; backoff_max = 5s; }", "above backoff_max"},
        {"uplink u { " MQTT "version = 3.1.1; down = [\"x/#\"]; }", "needed for `down`"},
        {"uplink u { " MQTT "version = 3.1.1; prefix = \"a/b/\"; down = [\"a/+/c\"]; }", "covers the prefix"},
        {"uplink u { " MQTT "version = 3.1.1; prefix = \"a/b/\"; down = [\"a/#\"]; }", "covers the prefix"},
        {"uplink u { " MQTT "}\nuplink u { " MQTT "}", "used twice"},
        {"uplink u { " MQTT "colour = red; }", "unknown key"},
    };
    config *c = calloc(1, sizeof(*c));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        config_error error = {{0}};
        if (parse(rows[i][0], c, &error) == 0) fail_msg("%s was taken", rows[i][0]);
        if (strstr(error.text, rows[i][1]) == NULL) fail_msg("%s\nsays %s\nnot %s", rows[i][0], error.text, rows[i][1]);
    }
    config_error error = {{0}};
    int rc = parse("uplink u { " MQTT "version = 3.1.1; prefix = \"a/b/\"; down = [\"a/c/#\", \"a\", \"+/x/b\"]; }", c,
               &error);
    if (rc != 0) fail_msg("%s", error.text);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_and_printed), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
