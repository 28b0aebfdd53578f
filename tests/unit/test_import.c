// SPDX-License-Identifier: Apache-2.0
// test_import.c: a mosquitto.conf as a configuration: what each option becomes, that the result is
// never more open, that texts can not leave their quotes, and that mistakes name their line.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "import/mosquitto.h"

static char *made;
static char said[8192]; // errors and notes, "LINE: text" each

static void option_take(import_model *m, import_place at, char *key, char *value, void *ctx) {
    (void)ctx;
    import_option_apply(m, at, key, value);
}

static void said_add(const import_note *notes, u32 count) {
    size_t used = strlen(said);
    for (u32 i = 0; i < count && used < sizeof(said); i++) {
        used += (size_t)snprintf(said + used, sizeof(said) - used, "%u: %s\n", notes[i].place.line,
                                 notes[i].text);
    }
}

// Number of mistakes; made and said are set.
static u32 convert(const char *text) {
    import_model m;
    size_t bytes;
    free(made);
    made = NULL;
    said[0] = 0;
    import_model_prepare(&m);
    import_text_read(&m, "m.conf", text, strlen(text), option_take, NULL);
    u32 errors = m.error_count;
    said_add(m.errors, m.error_count);
    if (errors == 0) {
        FILE *out = open_memstream(&made, &bytes);
        import_model_finish(&m);
        import_model_write(&m, "m.conf", out);
        fclose(out);
        said_add(m.notes, m.note_count);
    }
    import_model_free(&m);
    return errors;
}

static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("\"%s\" is not in:\n%s", part, text);
}
static void assert_lacks(const char *text, const char *part) {
    if (strstr(text, part) != NULL) fail_msg("\"%s\" is in:\n%s", part, text);
}

static void test_nothing_is_local_only(void **state) {
    (void)state;
    assert_int_equal(convert(""), 0);
    assert_has(made, "127.0.0.1:1883");
    assert_has(made, "anonymous = yes;");
}

static void test_a_listener_is_closed_by_default(void **state) {
    (void)state;
    assert_int_equal(convert("listener 1883\n"), 0);
    assert_has(made, "bind = \"[::]:1883\"");
    assert_has(made, "anonymous = no;");
    assert_lacks(made, "anonymous = yes");
    assert_int_equal(convert("listener 1883 0.0.0.0\nallow_anonymous true\n"), 0);
    assert_has(made, "anonymous = yes;");
}

static void test_per_listener(void **state) {
    (void)state;
    assert_int_equal(convert("per_listener_settings true\nlistener 1 127.0.0.1\nallow_anonymous "
                             "true\nlistener 2 127.0.0.1\n"), 0);
    const char *second = strstr(made, "mqtt-2");
    assert_non_null(second);
    assert_has(second, "anonymous = no;");
    assert_lacks(second, "anonymous = yes");
}

static void test_limits(void **state) {
    (void)state;
    assert_int_equal(convert("listener 1883 0.0.0.0\nmax_connections 500\nmax_packet_size 100000\n"
                             "persistence_location /var/lib/x\nmemory_limit 100000000\n"), 0);
    assert_has(made, "max_conns = 500;");
    assert_has(made, "max_packet = 100000;");
    assert_has(made, "data_dir = \"/var/lib/x\";");
    assert_has(made, "memory_max = 100000000;");
    assert_int_equal(convert("listener 1883\nmax_connections -1\n"), 0);
    assert_has(made, "max_conns = unlimited;");
}

static void test_log(void **state) {
    (void)state;
    assert_int_equal(convert("log_dest file /var/log/with blank.log\nlog_type warning\nlog_type "
                             "notice\nconnection_messages true\n"), 0);
    assert_has(made, "file = \"/var/log/with blank.log\";");
    assert_has(made, "level = info;");
    assert_has(made, "stderr = no;");
    assert_has(made, "connections = yes;");
}

static void test_bridge(void **state) {
    (void)state;
    assert_int_equal(convert("connection up\naddress b.example:8883 c.example\nbridge_cafile /x\n"
                             "topic s/# out 1\ntopic c/# in\ntopic x both 0 l/ r/\n"), 0);
    assert_has(made, "url = [\"mqtts://b.example:8883\", \"mqtts://c.example:1883\"];");
    assert_has(made, "topics = [\"s/#\", \"l/x\"];");
    assert_has(made, "remap = [\"l/x -> r/x\"];");
    assert_has(made, "down = [\"c/#\", \"r/x -> l/x\"];");
    assert_has(made, "tls_ca = \"/x\";");
    assert_has(said, "6: topic l/x: an uplink sends with QoS 1");
    assert_int_equal(convert("connection up\naddress [fd00::1]:1885\ntopic # out\n"), 0);
    assert_has(made, "mqtt://[fd00::1]:1885");
    assert_int_equal(convert("connection down\naddress a:1884\nbridge_capath /x\ntopic c/# in\n"), 0);
    assert_has(said, "3: bridge_capath: ");
    assert_has(said, "1: connection down: it sends nothing");
    assert_has(said, "1: connection down: the remote's authorities are not named");
    assert_int_equal(convert("connection up\naddress a b c d e f g h i\ntopic # out\n"), 0);
    assert_has(made, "\"mqtt://h:1883\"];");
    assert_has(said, "2: address i: an uplink has at most 8 addresses");
}

static void test_texts_stay_in_their_quotes(void **state) {
    (void)state;
    assert_int_equal(convert("persistence_location /a\"; engine = poll; x = \"b\\\n"
                             "connection a\"b\naddress h\"; } admin { bind = \"0.0.0.0:1\ntopic q\"w out\n"), 0);
    assert_has(made, "data_dir = \"/a\\\"; engine = poll; x = \\\"b\\\\\";");
    assert_has(made, "stream a-b {");
    assert_has(made, "\"q\\\"w\"");
    assert_lacks(made, "\n admin");
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"listner 1883\n", "1: unknown option listner; did you mean listener?"},
        {"\n# x\nport 99999\n", "3: port: \"99999\" is not allowed; allowed: 1 to 65535"},
        {"allow_anonymous perhaps\n", "1: allow_anonymous: \"perhaps\" is not allowed"},
        {"topic a\n", "1: topic: belongs behind a `connection`"},
        {"listener\n", "1: listener: a port is missing"},
        {"listener 0\n", "1: listener: port 0 needs the path of a unix socket"},
        {"port 1\x01\n", "1: a control character"},
        {"connection a\ntopic b sideways\n", "2: topic: \"sideways\" is not allowed"},
        {"log_dest nowhere\n", "1: log_dest: \"nowhere\" is not allowed"},
        {"persistent_client_expiration 3x\n", "1: persistent_client_expiration: \"3x\""},
        {"max_packet_size 1m\n", "1: max_packet_size: \"1m\" is not allowed"},
        {"certfile\n", "1: certfile: a file is missing"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(convert(rows[i].text), 1);
        assert_has(said, rows[i].says);
    }
}

static void test_accounts_and_tls_are_named(void **state) {
    (void)state;
    assert_int_equal(convert("listener 8883\ncertfile /c\nkeyfile /k\ncafile /ca\nrequire_certificate "
                             "true\npassword_file /p\nacl_file /a\n"), 0);
    assert_has(made, "tls { cert = \"/c\"; key = \"/k\"; client_ca = \"/ca\"; }");
    assert_has(made, "password_file = \"/p\";");
    assert_has(made, "acl_file = \"/a\";");
    assert_has(made, "anonymous = no;");
    assert_lacks(made, "to be set: the password");
    assert_int_equal(convert("per_listener_settings true\nlistener 1\npassword_file /p\nlistener 2\n"
                             "plugin /x.so\n"), 0);
    assert_has(said, "5: plugin /x.so: accounts of this kind are not available");
    assert_has(made, "password_file = \"/p\";");
    assert_has(strstr(made, "listener mqtt-2"), "to be set: the password");
    assert_int_equal(convert("acl_file\n"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_local_only),
        cmocka_unit_test(test_a_listener_is_closed_by_default),
        cmocka_unit_test(test_per_listener),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_bridge),
        cmocka_unit_test(test_texts_stay_in_their_quotes),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_accounts_and_tls_are_named),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(made);
    return rc;
}
