// SPDX-License-Identifier: Apache-2.0
// test_client.c: addresses, command lines, properties and output formats of `sluice pub` and
// `sluice sub`. What they say on the wire is tested from outside.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/format.h"
#include "client/options.h"
#include "client/url.h"

static void test_urls(void **state) {
    (void)state;
    static const struct {
        const char *text, *host, *user, *password, *topic;
        u16 port;
    } good[] = {
        {"mqtt://h", "h", NULL, NULL, NULL, 1883},
        {"mqtt://h:1/", "h", NULL, NULL, NULL, 1},
        {"mqtt://u@h/a/b", "h", "u", NULL, "a/b", 1883},
        {"mqtt://u%40x:p%3a%2F@h:65535/%23", "h", "u@x", "p:/", "#", 65535},
        {"mqtt://[::1]:1884/t", "::1", NULL, NULL, "t", 1884},
        {"mqtt://[fe80::1]", "fe80::1", NULL, NULL, NULL, 1883},
        {"mqtt://u:@h", "h", "u", "", NULL, 1883},
        {"mqtts://h/t", "h", NULL, NULL, "t", 8883},
    };
    for (u32 i = 0; i < ARRAY_LEN(good); i++) {
        client_url url;
        assert_null(client_url_parse(good[i].text, &url));
        assert_string_equal(url.host, good[i].host);
        assert_int_equal(url.port, good[i].port);
        const char *const pairs[3][2] = {{url.user, good[i].user},
                                         {url.password, good[i].password},
                                         {url.topic, good[i].topic}};
        for (u32 k = 0; k < 3; k++) {
            if (pairs[k][1] == NULL) assert_null(pairs[k][0]);
            else assert_string_equal(pairs[k][0], pairs[k][1]);
        }
        free(url.memory);
    }
    static const char *const bad[] = {"h", "http://h", "mqttx://h", "mqtts://", "mqtt://", "mqtt://:1", "mqtt://h:0",
                                      "mqtt://h:65536", "mqtt://h:x", "mqtt://h/%2", "mqtt://h/%00",
                                      "mqtt://[::1", "mqtt://[::1]x", "mqtt://u:%zz@h"};
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        client_url url;
        assert_non_null(client_url_parse(bad[i], &url));
    }
}

// Words are split at '|'.
static int parse(client_options *o, bool subscribes, const char *words) {
    static char text[512];
    char *argv[64] = {(char[]){"x"}}, *save = NULL;
    int argc = 1;
    snprintf(text, sizeof(text), "%s", words);
    for (char *w = strtok_r(text, "|", &save); w != NULL; w = strtok_r(NULL, "|", &save)) {
        argv[argc++] = w;
    }
    return client_options_parse(o, subscribes, argc, argv);
}

static void test_command_lines(void **state) {
    (void)state;
    client_options o;
    assert_int_equal(parse(&o, false, "-t|a|-m|x|-q|2|-r|-h|h|-p|9|-D|publish|user-property|k|v|-D|"
                                      "publish|topic-alias|7"), 0);
    assert_true(o.version == MQTT_5 && o.qos == 2 && o.retain && o.port == 9);
    mqtt_properties p = mqtt_property_list_end(&o.props[PLACE_PUBLISH]);
    assert_int_equal(mqtt_property_number(&p, MQTT_TOPIC_ALIAS, 0), 7);
    assert_true(mqtt_property_present(&p, MQTT_USER_PROPERTY));
    client_options_free(&o);
    assert_int_equal(parse(&o, true, "-t|$share/g/a/#|-t|b/+|-T|b/c|-C|3|-W|1.5|-x|60|-i|id|-c"), 0);
    assert_true(o.topic_count == 2 && o.skip_count == 1 && o.count == 3 && o.wait_ms == 1500);
    client_options_free(&o);
    assert_int_equal(parse(&o, true, "-L|mqtt://u:p@h:1/a/#"), 0);
    assert_string_equal(o.topics[0], "a/#");
    assert_string_equal(o.user, "u");
    client_options_free(&o);
}

static void test_bad_command_lines(void **state) {
    (void)state;
    static const struct {
        bool subscribes;
        const char *words;
    } bad[] = {
        {false, "-m|x"}, {false, "-t|a"}, {false, "-t|a/#|-m|x"}, {false, "-t|a|-t|b|-m|x"},
        {false, "-t|a|-m|x|-n"}, {false, "-t|a|-m"}, {false, "-t|a|-m|x|-q|3"}, {false, "-t|a|-m|x|-p|0"},
        {false, "-t|a|-m|x|-V|4"}, {false, "-t|a|-m|x|-V|311|-x|5"}, {false, "-t|a|-m|x|-P|p"},
        {false, "-t|a|-m|x|--will-payload|w"}, {false, "-t|a|-m|x|--will-topic|w/#"},
        {false, "-t|a|-l|--repeat|2"}, {false, "-t|a|-m|x|-i|a|-I|b"}, {false, "-t|a|-m|x|-c"},
        {false, "-t|a|-m|x|-D|publish|nonsense|1"}, {false, "-t|a|-m|x|-D|nowhere|content-type|1"},
        {false, "-t|a|-m|x|-D|publish|content-type"}, {false, "-t|a|-m|x|-D|publish|user-property|1"},
        {false, "-t|a|-m|x|-D|connect|session-expiry-interval|4294967296"},
        {false, "-t|a|-m|x|-D|publish|payload-format-indicator|2"},
        {false, "-t|a|-m|x|-D|publish|response-topic|a/#"}, {false, "-t|a|-m|x|-D|publish|subscription-identifier|1"},
        {false, "-t|a|-m|x|-D|publish|content-type|a|-D|publish|content-type|b"},
        {false, "-t|a|-m|x|-D|publish|content-type|\xff"}, {false, "-t|a|-m|x|--capath|x"},
        {true, "-t|a#"}, {true, "-t|a|-C|0"}, {true, "-t|a|-W|-1"}, {true, "-t|a|-v|-j"},
        {true, "-t|a|-R|--retained-only"},
        {true, "-t|a|--no-local"}, {true, "-t|a|--retain-handling|often|-V|5"}, {true, "-t|a|-m|x"}, {true, ""},
    };
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        client_options o;
        if (parse(&o, bad[i].subscribes, bad[i].words) >= 0) fail_msg("accepted: %s", bad[i].words);
        client_options_free(&o);
    }
}

static const char *print(const char *format, bool json, const mqtt_publish *m) {
    static char *text;
    static size_t bytes;
    free(text);
    client_options o = {.format = format, .json = json, .no_newline = true};
    FILE *f = open_memstream(&text, &bytes);
    client_message_print(f, &o, m, 1700000000123456789ull);
    fclose(f);
    return text;
}

static mqtt_bytes bytes_of(const char *text, u32 len) {
    return (mqtt_bytes){(const u8 *)text, len};
}

static void test_formats(void **state) {
    (void)state;
    u8 memory[256];
    mqtt_property_list list = {.data = memory, .capacity = sizeof(memory)};
    mqtt_property_put_bytes(&list, MQTT_CONTENT_TYPE, bytes_of("a/b", 3));
    mqtt_property_put_pair(&list, bytes_of("k", 1), bytes_of("v\"", 2));
    mqtt_property_put_pair(&list, bytes_of("k", 1), bytes_of("w", 1));
    mqtt_property_put_number(&list, MQTT_SUBSCRIPTION_ID, 3);
    mqtt_property_put_number(&list, MQTT_SUBSCRIPTION_ID, 4);
    mqtt_publish m = {.qos = 1, .retain = true, .packet_id = 9, .topic = bytes_of("t/1", 3),
                      .payload = bytes_of("p\n\0\"", 4), .props = mqtt_property_list_end(&list)};
    assert_string_equal(print("%t|%q|%r|%m|%l|%x|%X|%C|%P|%S|%E|%%|\\t", false, &m),
                        "t/1|1|1|9|4|700a0022|700A0022|a/b|k:v\" k:w|3 4||%|\t");
    assert_string_equal(print("%U %I", false, &m), "1700000000.123456789 2023-11-14T22:13:20.123456Z");
    assert_string_equal(
        print(NULL, true, &m),
        "{\"tst\":\"2023-11-14T22:13:20.123456Z\",\"topic\":\"t/1\",\"qos\":1,\"retain\":1,\"dup\":0,\"mid\":9,"
        "\"payloadlen\":4,\"properties\":{\"content_type\":\"a/b\",\"subscription_identifier\":[3,4],"
        "\"user_property\":[[\"k\",\"v\\\"\"],[\"k\",\"w\"]]},\"payload\":\"p\\n\\u0000\\\"\"}");
    m = (mqtt_publish){.topic = bytes_of("t", 1), .payload = bytes_of("\xff\x01", 2)};
    const char *json = print(NULL, true, &m);
    assert_non_null(strstr(json, "\"payload_hex\":\"ff01\"}"));
    assert_null(client_format_check("%t %p\\n\\0\\\\%%"));
    assert_non_null(client_format_check("%z"));
    assert_non_null(client_format_check("%"));
    assert_non_null(client_format_check("a\\"));
    assert_non_null(client_format_check("\\q"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_bad_command_lines),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
