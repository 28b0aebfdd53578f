// SPDX-License-Identifier: Apache-2.0
// test_config.c: the meaning of a configuration: defaults, every setting, what is reported for a
// mistake, the rules between settings, and that the printed configuration reads back as the same
// one.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/bind.h"
#include "conf/config.h"
#include "conf/setting.h"

static config *parsed, *again;
static config_error error;
static char printed[CONFIG_PRINT_BYTES];

static int parse(const char *text) {
    return config_parse("t", text, strlen(text), parsed, &error);
}

static int setup(void **state) {
    (void)state;
    parsed = malloc(sizeof(*parsed));
    again = malloc(sizeof(*again));
    return parsed == NULL || again == NULL ? -1 : 0;
}

static int teardown(void **state) {
    (void)state;
    free(parsed);
    free(again);
    return 0;
}

static void accepted(const char *text) {
    if (parse(text) != 0) fail_msg("refused: %s", error.text);
}

// Refused with exactly these lines.
static void refused(const char *text, const char *message) {
    assert_int_equal(parse(text), -EINVAL);
    if (strcmp(error.text, message) != 0)
        fail_msg("expected: %s\ngot:      %s", message, error.text);
}

// Refused, and this stands in the report.
static void refused_with(const char *text, const char *part) {
    assert_int_equal(parse(text), -EINVAL);
    if (strstr(error.text, part) == NULL) fail_msg("expected: %s\ngot:      %s", part, error.text);
}

// A listener on loopback with these settings.
static const char *listener(const char *settings) {
    static char text[1024];
    snprintf(text, sizeof(text), "listener a { protocol = frame; bind = \"127.0.0.1:7000\"; %s }",
             settings);
    return text;
}

static void test_defaults(void **state) {
    (void)state;
    config_defaults(parsed);
    assert_string_equal(parsed->source, "(defaults)");
    assert_string_equal(parsed->data_dir, "./sluice-data");
    assert_string_equal(parsed->ctl_socket, "./sluice-data/ctl.sock");
    assert_int_equal(parsed->workers, 0);
    assert_true(parsed->engine_auto);
    assert_true(parsed->pin);
    assert_int_equal(parsed->drain_timeout_ms, 10000);
    assert_true(parsed->admin_enabled);
    assert_string_equal(parsed->admin_bind.text, "127.0.0.1:9600");
    assert_int_equal(parsed->log.level, LOG_INFO);
    assert_int_equal(parsed->log.ring_bytes, 8u << 20);
    assert_true(parsed->log.to_stderr);
    assert_int_equal(parsed->sys_interval_s, 10);
    assert_false(parsed->events);
    assert_int_equal(parsed->listener_count, 2);
    const listener_config *m = &parsed->listeners[0];
    assert_string_equal(m->name, "mqtt");
    assert_int_equal(m->protocol, PROTOCOL_MQTT);
    assert_string_equal(m->bind.text, "127.0.0.1:1883");
    assert_true(m->anonymous);
    assert_int_equal(m->max_packet, 1u << 20);
    assert_int_equal(m->receive_max, 64);
    assert_int_equal(m->session_expiry_max_s, 7 * 86400);
    assert_int_equal(m->max_qos, 2);
    assert_true(m->retain_available && m->wildcard_available && m->shared_available);
    assert_int_equal(m->out_bytes_max, (1u << 20) + (64u << 10));
    assert_int_equal(m->queue_policy, QUEUE_NEWEST);
    const listener_config *l = &parsed->listeners[1];
    assert_string_equal(l->name, "frame");
    assert_string_equal(l->bind.text, "127.0.0.1:7000");
    assert_int_equal(l->mode, FRAME_ACK);
    assert_int_equal(l->max_frame, 65536);
    assert_int_equal(l->rcvbuf, 32768);
    assert_int_equal(l->sndbuf, 0);
    assert_int_equal(l->idle_timeout_ms, 60000);
    assert_int_equal(l->keepalive_s, 60);
    assert_int_equal(l->user_timeout_ms, 60000);
    assert_int_equal(l->backlog, 4096);
    assert_int_equal(l->out_bytes_max, 256u << 10);
    assert_int_equal(l->out_bytes_high, 64u << 10);
    assert_string_equal(l->up_topic, "devices/%i/up");
    assert_true(l->anonymous);
}

static const char full[] =
    "workers = 2; engine = epoll-lt; pin = no; data_dir = \"/d\"; ctl_socket = \"/c.sock\"; "
    "ctl_allow = [\"uid:1000\", \"gid:4294967294\"]; "
    "max_conns = 5000; durable = no; log_max = 1g; commit_delay = 500us;\n"
    "memory_max = 512m; drain_timeout = 3s; recv_bufs = 1024; min_wait = 50us; sqpoll = yes;\n"
    "max_sessions = 10; sys_interval = off; events = yes; user = \"991:991\"; sandbox = debug;\n"
    "shared_strategy = sticky; retained_messages_max = 5; retained_bytes_max = 1m;\n"
    "admin { enabled = no; bind = \"[::1]:9700\"; token_file = \"/t\"; anonymous = yes }\n"
    "log { level = debug; ring = 1m; stderr = no; file = \"/l\"; file_max = 1g; file_keep = 9;\n"
    "  syslog = \"udp:10.0.0.1:514\"; connections = yes }\n"
    "listener one { protocol = frame; bind = \"0.0.0.0:7001\"; mode = publish; max_frame = 1k; rcvbuf = auto;\n"
    "  sndbuf = 16k; idle_timeout = never; packet_timeout = 5s; hello_timeout = 2s; send_timeout = "
    "7s; keepalive = off;\n"
    "  user_timeout = auto; backlog = 128; steer = cpu; defer_accept = yes; max_conns = 100; "
    "max_conns_per_address = 3;\n"
    "  accept_rate = 50; out_max = 8k; out_high = 2k; up_topic = \"u/%i\"; down_topic = "
    "\"d/%i/#\"; anonymous = yes }\n"
    "listener two { protocol = frame; bind = \"unix:/s\"; mode = echo; proxy_protocol = yes;\n"
    "  proxy_from = [\"10.0.0.0/8\", \"2001:db8::1\"] }\n"
    "listener three { protocol = mqtt; bind = \"unix:/m\"; max_packet = 4k; receive_max = 1; inflight_max = 2;\n"
    "  topic_alias_max = none; server_keepalive = 30s; max_keepalive = 1m; session_expiry_max = 1h; max_qos = 1;\n"
    "  retain_available = no; wildcard_available = no; shared_available = no; subscription_ids_available = no;\n"
    "  check_payload_format = yes; max_subscriptions = 3; max_queued_bytes = 8k; max_queued_messages = 7;\n"
    "  queue_policy = oldest; response_info = \"r/%i\"; deny_subscribe = [\"a/#\", \"+/b\"]; "
    "deny_publish = \"c\";\n"
    "  transport = websocket; ws_path = \"/p\"; ws_origins = [\"https://a.example\", \"*\"]; ws_max_frame = 2k;\n"
    "  password_file = \"/p\"; acl_file = \"/a\"; jwt_key_file = \"/j\"; jwt_issuer = i; jwt_audience = me;\n"
    "  auth_delay = 1s; auth_failures = 7; message_rate = 8; byte_rate = 9k; rate_policy = disconnect;\n"
    "  message_rate_per_address = 10; byte_rate_per_address = 11k; message_rate_all = 12; byte_rate_all = 13k;\n"
    "  jwt_leeway = 5s; connect_rate_per_address = 10; max_topic_levels = 11 }\n";

static void test_every_setting(void **state) {
    (void)state;
    accepted(full);
    const listener_config *l = &parsed->listeners[0];
    assert_int_equal(parsed->workers, 2);
    assert_false(parsed->engine_auto);
    assert_int_equal(parsed->engine, IO_EPOLL_LT);
    assert_false(parsed->pin);
    assert_string_equal(parsed->ctl_socket, "/c.sock");
    assert_string_equal(parsed->ctl_allow, "uid:1000\ngid:4294967294\n");
    assert_int_equal(parsed->max_conns, 5000);
    assert_int_equal(parsed->memory_max, 512u << 20);
    assert_int_equal(parsed->recv_bufs, 1024);
    assert_int_equal(parsed->min_wait_us, 50);
    assert_true(parsed->sqpoll);
    assert_int_equal(parsed->shared_strategy, SHARED_STICKY);
    assert_int_equal(parsed->retained_messages_max, 5);
    assert_int_equal(parsed->retained_bytes_max, 1u << 20);
    assert_false(parsed->admin_enabled);
    assert_string_equal(parsed->admin_bind.text, "[::1]:9700");
    assert_int_equal(parsed->log.level, LOG_DEBUG);
    assert_int_equal(parsed->log.file_bytes_max, 1u << 30);
    assert_int_equal(parsed->log.file_keep, 9);
    assert_string_equal(parsed->log.syslog, "udp:10.0.0.1:514");
    assert_true(parsed->log.connections && !parsed->log.to_stderr);
    assert_int_equal(l->mode, FRAME_PUBLISH);
    assert_int_equal(l->idle_timeout_ms, 0);
    assert_int_equal(l->packet_timeout_ms, 5000);
    assert_int_equal(l->hello_timeout_ms, 2000);
    assert_int_equal(l->send_timeout_ms, 7000);
    assert_int_equal(l->keepalive_s, 0);
    assert_int_equal(l->user_timeout_ms, 0);
    assert_int_equal(l->steer, STEER_CPU);
    assert_int_equal(l->rcvbuf, 0);
    assert_int_equal(l->sndbuf, 16384);
    assert_true(l->defer_accept && l->anonymous);
    assert_int_equal(l->max_conns, 100);
    assert_int_equal(l->max_conns_per_address, 3);
    assert_int_equal(l->accept_rate, 50);
    assert_int_equal(l->out_bytes_max, 8192);
    assert_int_equal(l->out_bytes_high, 2048);
    assert_string_equal(l->up_topic, "u/%i");
    assert_string_equal(l->down_topic, "d/%i/#");
    assert_int_equal(parsed->listeners[1].mode, FRAME_ECHO);
    assert_true(parsed->listeners[1].proxy_protocol);
    assert_string_equal(parsed->listeners[1].proxy_from, "10.0.0.0/8\n2001:db8::1\n");
    assert_string_equal(parsed->user, "991:991");
    assert_int_equal(parsed->sandbox, SANDBOX_DEBUG);
    assert_int_equal(parsed->max_sessions, 10);
    assert_false(parsed->durable);
    assert_int_equal(parsed->log_max_bytes, 1u << 30);
    assert_int_equal(parsed->commit_delay_us, 500);
    assert_int_equal(parsed->sys_interval_s, 0);
    assert_true(parsed->events);
    const listener_config *m = &parsed->listeners[2];
    assert_int_equal(m->max_packet, 4096);
    assert_int_equal(m->receive_max, 1);
    assert_int_equal(m->inflight_max, 2);
    assert_int_equal(m->topic_alias_max, 0);
    assert_int_equal(m->server_keepalive_s, 30);
    assert_int_equal(m->max_keepalive_s, 60);
    assert_int_equal(m->session_expiry_max_s, 3600);
    assert_int_equal(m->max_qos, 1);
    assert_false(m->retain_available || m->wildcard_available || m->shared_available);
    assert_true(m->check_payload_format && !m->subscription_ids_available);
    assert_int_equal(m->max_subscriptions, 3);
    assert_int_equal(m->max_queued_bytes, 8192);
    assert_int_equal(m->max_queued_messages, 7);
    assert_int_equal(m->queue_policy, QUEUE_OLDEST);
    assert_string_equal(m->response_info, "r/%i");
    assert_string_equal(m->deny_subscribe, "a/#\n+/b\n");
    assert_string_equal(m->deny_publish, "c\n");
    assert_int_equal(m->transport, TRANSPORT_WEBSOCKET);
    assert_string_equal(m->ws_path, "/p");
    assert_string_equal(m->ws_origins, "https://a.example\n*\n");
    assert_int_equal(m->ws_max_frame, 2048);
    assert_string_equal(parsed->admin_token_file, "/t");
    assert_true(parsed->admin_anonymous && !m->anonymous); // m has accounts
    assert_true(m->password_file[1] == 'p' && m->acl_file[1] == 'a' && m->jwt_key_file[1] == 'j');
    assert_true(m->jwt_issuer[0] == 'i' && m->jwt_audience[0] == 'm' && m->jwt_leeway_s == 5);
    assert_true(m->auth_delay_ms == 1000 && m->auth_failures == 7);
    assert_true(m->message_rate_per_address == 10 && m->byte_rate_per_address == 11u << 10);
    assert_true(m->message_rate_all == 12 && m->byte_rate_all == 13u << 10);
    assert_true(m->message_rate == 8 && m->byte_rate == 9u << 10 && m->rate_policy == RATE_DISCONNECT);
    assert_true(m->connect_rate_per_address == 10 && m->max_topic_levels == 11);
    // The text above names every key of the gateway's own sections: a new one can not be forgotten here.
    for (u32 i = 0; i < schema_setting_count; i++) {
        section_kind k = schema_settings[i].section;
        bool own = k == SECTION_TOP || k == SECTION_ADMIN || k == SECTION_LOG || k == SECTION_LISTENER;
        if (own && strcmp(schema_settings[i].key, "token") != 0)
            assert_non_null(strstr(full, schema_settings[i].key));
    }
}

static void assert_prints_and_reads_back(void) {
    ssize_t n = config_print(parsed, printed, sizeof(printed));
    assert_true(n > 0 && (size_t)n == strlen(printed));
    if (config_parse(parsed->source, printed, (size_t)n, again, &error) != 0)
        fail_msg("%s", error.text);
    assert_memory_equal(parsed, again, sizeof(*parsed));
}

static void test_printed_configuration_reads_back(void **state) {
    (void)state;
    accepted(full);
    assert_prints_and_reads_back();
    config_defaults(parsed);
    assert_prints_and_reads_back();
    accepted("data_dir = \"/a \\\" \\\\ '\"\nlistener x { protocol = frame; bind = "
             "\"127.0.0.1:0\"; max_frame = 256m; mode = echo }");
    assert_prints_and_reads_back();
    assert_int_equal(config_print(parsed, printed, 100), -ENOSPC);
    assert_int_equal(config_print(parsed, printed, 0), -ENOSPC);
}

static void test_a_token_is_not_printed(void **state) {
    (void)state;
    accepted("listener a { protocol = frame; bind = \"0.0.0.0:0\"; mode = publish; token = "
             "\"s3cret\" }");
    assert_string_equal(parsed->listeners[0].token, "s3cret");
    assert_false(parsed->listeners[0].anonymous);
    assert_true(config_print(parsed, printed, sizeof(printed)) > 0);
    assert_null(strstr(printed, "s3cret"));
    assert_non_null(strstr(printed, "# token is set and not shown"));
}

static void test_largest_configuration_prints(void **state) {
    (void)state;
    char *text = malloc(256 * 1024), topic[256];
    size_t used = 0;
    assert_non_null(text);
    memset(topic, 0, sizeof(topic));
    for (size_t i = 0; i < 254; i += 2) memcpy(topic + i, "\\\"", 2);
    for (int i = 0; i < LIMIT_LISTENERS_MAX; i++) {
        used += (size_t)sprintf(
            text + used,
            "listener n%d { protocol = frame; bind = \"127.0.0.1:%d\"; mode = publish;"
            " up_topic = \"%s%s\"; down_topic = \"%s%s\" }\n",
            i, i + 1, topic, topic, topic, topic);
    }
    accepted(text);
    assert_int_equal(parsed->listener_count, LIMIT_LISTENERS_MAX);
    assert_prints_and_reads_back();
    sprintf(text + used, "listener more { protocol = frame; bind = \"127.0.0.1:0\" }\n"
                         "listener still { protocol = frame; bind = \"127.0.0.1:0\" }\n");
    refused(text, "t:65: listener: more than 64 listeners");
    free(text);
}

static void test_mistakes_in_settings(void **state) {
    (void)state;
    refused(listener("max_frame = 0"), "t:1: listener a: max_frame: '0' is below 1; "
                                       "allowed: a size (bytes, or with k, m, g), 1 to 256m");
    refused(listener("max_frame = 257m"), "t:1: listener a: max_frame: '257m' is above 256m; "
                                          "allowed: a size (bytes, or with k, m, g), 1 to 256m");
    refused(
        listener("idle_timeout = 60"),
        "t:1: listener a: idle_timeout: '60' is not a time with its unit "
        "(ms, s, m, h, d); allowed: never, a time with its unit (ms, s, m, h, d), 100ms to 365d");
    refused(listener("keepalive = 1500ms"),
            "t:1: listener a: keepalive: '1500ms' is not whole seconds; "
            "allowed: off, a time in whole seconds with its unit (s, m, h, d), 1s to 32767s");
    refused(
        listener("mode = ech"),
        "t:1: listener a: mode: 'ech' is not known in this version; allowed: echo, ack, publish");
    refused("listener a { protocol = coap; bind = \"127.0.0.1:1883\" }",
            "t:1: listener a: protocol: 'coap' is not known in this version; allowed: frame, mqtt");
    refused_with("listener a { protocol = frame; bind = \"127.0.0.1:7000\"; deny_publish = [\"a\"] }",
            "t:1: listener a: deny_publish: is of no use with protocol = frame");
    refused_with("listener a { protocol = mqtt; bind = \"127.0.0.1:1883\"; ws_path = \"/x\" }",
            "t:1: listener a: ws_path: is of no use without transport = websocket");
    refused_with("listener a { protocol = mqtt; bind = \"127.0.0.1:1883\"; proxy_protocol = yes }",
            "t:1: listener a: proxy_protocol: needs proxy_from: the addresses of the proxies");
    refused_with("listener a { protocol = mqtt; bind = \"127.0.0.1:1883\"; proxy_from = [\"10.0.0.0/8\"] }",
            "t:1: listener a: proxy_from: is of no use without proxy_protocol = yes");
    refused_with("listener a { protocol = mqtt; bind = \"127.0.0.1:1883\"; mode = echo }",
            "t:1: listener a: mode: is of no use with protocol = mqtt");
    refused_with("listener a { protocol = mqtt; bind = \"127.0.0.1:1883\"; deny_publish = [\"a/#/b\"] }",
            "t:1: listener a: deny_publish: 'a/#/b' is not a topic filter; allowed: a list of topic "
            "filters, [\"a/#\", \"b/+/c\"]");
    refused_with("listener a { protocol = mqtt; bind = \"127.0.0.1:1883\"; deny_publish = [1] }",
            "t:1: listener a: deny_publish: an element is not a quoted text");
    refused_with("listener a { protocol = mqtt; bind = \"0.0.0.0:1883\" }",
            "t:1: listener a: bind: 0.0.0.0:1883 can be reached from other machines");
    refused(listener("\nrcvbuf = 1k\nrcvbuf = 4k"),
            "t:2: listener a: rcvbuf: '1k' is below 2k; allowed: auto, "
            "a size (bytes, or with k, m, g), 2k to 64m\nt:3: listener a: rcvbuf: given twice; the "
            "first stands in line 2");
    refused_with("engine = sim", "t:1: engine: 'sim' is not known in this version; allowed: auto, "
                                 "uring, epoll-et, epoll-lt, poll, select");
    refused_with("workers = 65", "t:1: workers: '65' is above 64; allowed: auto, a whole number, 0 to 64");
    refused_with("recv_bufs = 100", "t:1: recv_bufs: '100' is not a power of two");
    refused_with("log { ring = 3m }", "t:1: log: ring: '3m' is not a power of two");
    refused_with("log { syslog = \"udp:loghost:514\" }",
                 "unix:/path or udp:ADDRESS:PORT with an IP address is expected");
    refused_with("log { syslog = \"udp:1.2.3.4:0\" }",
                 "unix:/path or udp:ADDRESS:PORT with an IP address is expected");
    refused_with("log { file = \"/var/log/\" }", "a file is expected, not a directory");
    refused_with("data_dir = \"\"", "t:1: data_dir: '': a path is expected");
    refused_with("workers = [1, 2]",
                 "t:1: workers: one value is expected, not a list; allowed: auto, a whole number");
    refused_with("workers { a = 1 }", "t:1: workers: one value is expected, not a block");
    refused_with("admin { bind = localhost:9600 }",
                 "t:1: admin: bind: 'localhost:9600' is not an address to bind to");
    refused_with("admin { bind = \"1.1.1.1:65536\" }", "the port is above 65535");
}

static void test_unknown_keys_and_sections(void **state) {
    (void)state;
    refused_with("idle_timeot = 5s", "t:1: unknown key 'idle_timeot'; allowed: workers, engine,");
    refused_with("\nlistener a {\n idle_timeot = 5s }",
                 "t:3: listener a: unknown key 'idle_timeot'; did you mean 'idle_timeout'?; allowed: protocol,");
    refused_with("level = info", "t:1: unknown key 'level' (it belongs in log { ... }); allowed: workers,");
    refused_with(
        "log { workers = 2 }",
        "t:1: log: unknown key 'workers' (it stands at the top level, outside of sections)");
    refused_with("max_frame = 5", "unknown key 'max_frame' (it belongs in listener NAME { ... })");
    refused_with("\n\nlisteners a { }",
                 "t:3: unknown section 'listeners'; did you mean 'listener'?; "
                 "allowed in this version: admin, log, listener NAME, uplink NAME, network NAME, stream NAME");
    refused_with("stream telemetry { topic = [\"a/#\"] }",
                 "t:1: stream telemetry: unknown key 'topic'; did you mean 'topics'?");
    refused_with("stream telemetry { }", "t:1: stream telemetry: topics is missing; allowed: a list of topic filters");
    refused_with("stream telemetry { topics = [] }", "t:1: stream telemetry: topics is empty");
    refused_with("stream telemetry { topics = [\"a/#/b\"] }", "'a/#/b' is not a topic filter");
    refused_with("stream a { topics = [\"a\"]; max_bytes = 1k }", "t:1: stream a: max_bytes: '1k' is below 64k");
    refused_with("stream a { topics = [\"a\"]; sync = never }", "t:1: stream a: sync: 'never' is not known");
    refused_with("stream a { topics = [\"a\"] }\nstream b { topics = [\"a\"] }\nstream a { topics = [\"b\"] }",
                 "t:3: stream a: name: used twice; the first stands in line 1");
    refused_with("listener a { tls { cert = x; certs = y } }",
                 "t:1: listener a: tls: unknown key 'certs'; did you mean 'cert'?");
    refused_with("listener a { tls { key = x } }", "t:1: listener a: tls: cert is missing; allowed:");
    refused_with("listener a { tls = yes }", "t:1: listener a: tls: is a block: tls {");
    refused_with("tls { cert = x }", "t:1: unknown section 'tls'");
    refused_with("admin = \"127.0.0.1:9600\"", "t:1: admin: is a section: admin { ... }");
    refused_with("admin { }\nlog { }\nadmin { }", "t:3: admin: given twice; the first stands in line 1");
    refused_with("listener { protocol = frame }", "t:1: listener: a name is expected: listener NAME { ... }");
    refused_with("listener { }", "t:1: listener: a name is expected: listener NAME { ... }");
    refused_with("listener = a", "t:1: listener: is a section: listener NAME { ... }");
    refused_with("listener a/b { }",
                 "t:1: listener: 'a/b' is not a name; allowed: 1 to 63 of a-z A-Z 0-9 - _ .");
    refused("listener a { }",
            "t:1: listener a: protocol is missing; allowed: frame, mqtt\nt:1: listener a: bind is "
            "missing; allowed: \"ADDRESS:PORT\", \"[IPV6]:PORT\" or \"unix:/path\"; an IP address, not a name");
}

static void test_names_and_addresses_are_used_once(void **state) {
    (void)state;
    refused("listener a { protocol = frame; bind = 127.0.0.1:1 }\nlog { }\nlistener a { protocol = "
            "frame; bind = 127.0.0.1:2 }",
            "t:3: listener a: name: used twice; the first stands in line 1");
    refused("listener a { protocol = frame; bind = \"[::0]:1\" }\nlistener b { protocol = frame;\n "
            "bind = \"[::]:1\" }",
            "t:3: listener b: bind: listener a (line 1) has the same address, [::]:1");
    refused("listener a { protocol = frame; bind = 127.0.0.1:9600 }",
            "t:1: listener a: bind: admin has the same address, 127.0.0.1:9600");
    accepted("admin { enabled = no }\nlistener a { protocol = frame; bind = 127.0.0.1:9600 }");
    accepted("admin { bind = 127.0.0.1:0 }\nlistener a { protocol = frame; bind = 127.0.0.1:0 }\n"
             "listener b { protocol = frame; bind = 127.0.0.1:0 }");
    refused_with("ctl_socket = \"/c\"\nlistener a { protocol = frame; bind = \"unix:/c\" }",
                 "is the socket of sluice ctl");
    refused_with("ctl_socket = \"/c\"\nadmin { bind = \"unix:/c\" }\nlistener a { protocol = "
                 "frame; bind = 127.0.0.1:0 }",
                 "t:2: admin: bind: is the socket of sluice ctl");
}

static int parse_publish(const char *bind, const char *settings) {
    char text[512];
    snprintf(text, sizeof(text),
             "listener a { protocol = frame; mode = publish; bind = \"%s\"\n%s }", bind, settings);
    return parse(text);
}

static void test_who_may_publish_is_decided(void **state) {
    (void)state;
    assert_int_equal(parse_publish("0.0.0.0:7000", ""), -EINVAL);
    assert_string_equal(
        error.text,
        "t:1: listener a: bind: 0.0.0.0:7000 can be reached from other machines and anybody "
        "could publish; set password_file, jwt_key_file or token, or anonymous = yes if that is what you want");
    assert_int_equal(parse_publish("[::ffff:10.1.1.1]:7000", ""), -EINVAL);
    assert_int_equal(parse_publish("0.0.0.0:7000", "password_file = \"/p\""), 0);
    assert_int_equal(parse_publish("0.0.0.0:7000", "acl_file = \"/a\""), -EINVAL); // says nothing about who it is
    accepted("admin { bind = \"0.0.0.0:1\"; anonymous = yes }\nlistener a { protocol = frame; bind = 127.0.0.1:0 }");
    assert_int_equal(parse_publish("0.0.0.0:7000", "anonymous = yes"), 0);
    assert_true(parsed->listeners[0].anonymous);
    assert_int_equal(parse_publish("0.0.0.0:7000", "token = x"), 0);
    assert_false(parsed->listeners[0].anonymous);
    static const char *const local[] = {"127.0.0.1:0", "127.3.2.1:0", "[::1]:0",
                                        "[::ffff:127.0.0.1]:0", "unix:/s"};
    for (size_t i = 0; i < ARRAY_LEN(local); i++) {
        assert_int_equal(parse_publish(local[i], ""), 0);
        assert_true(parsed->listeners[0].anonymous);
        assert_int_equal(parse_publish(local[i], "token = x"), 0);
        assert_false(parsed->listeners[0].anonymous);
    }
    assert_int_equal(parse_publish("127.0.0.1:0", "anonymous = no"), -EINVAL);
    assert_non_null(
        strstr(error.text, "t:2: listener a: anonymous: no, and nothing that proves who a client is: nobody"));
    assert_int_equal(parse_publish("127.0.0.1:0", "token = x; anonymous = yes"), -EINVAL);
    assert_non_null(strstr(error.text, "yes lets devices in without the token"));
    // Echo and ack carry no identity: nothing to decide, and nothing may look as if it were.
    accepted("listener a { protocol = frame; bind = 0.0.0.0:7000; mode = ack; anonymous = yes }");
    refused_with(listener("mode = ack; token = x"),
                 "token: is used in mode = publish only; this listener's mode is ack");
    refused_with(listener("mode = echo; anonymous = no"),
                 "anonymous: is used in mode = publish only; this listener's mode is echo");
    refused_with(listener("up_topic = x"), "up_topic: is used in mode = publish only");
}

static void test_topics(void **state) {
    (void)state;
    static const char *const bad_up[] = {"", "a/+", "a/#", "$SYS/x", "a/%d", "a%"};
    static const char *const bad_down[] = {"", "a+", "a/#/b", "+a", "#b", "$x", "%%"};
    static const char *const good_down[] = {"#", "+", "+/a/+", "a/#", "a/%i", "%i%i"};
    char settings[128];
    for (size_t i = 0; i < ARRAY_LEN(bad_up); i++) {
        snprintf(settings, sizeof(settings), "up_topic = \"%s\"", bad_up[i]);
        assert_int_equal(parse_publish("127.0.0.1:0", settings), -EINVAL);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_down); i++) {
        snprintf(settings, sizeof(settings), "down_topic = \"%s\"", bad_down[i]);
        assert_int_equal(parse_publish("127.0.0.1:0", settings), -EINVAL);
    }
    for (size_t i = 0; i < ARRAY_LEN(good_down); i++) {
        snprintf(settings, sizeof(settings), "down_topic = \"%s\"", good_down[i]);
        assert_int_equal(parse_publish("127.0.0.1:0", settings), 0);
    }
}

static void output(const char *settings, u32 max, u32 high) {
    accepted(listener(settings));
    assert_int_equal(parsed->listeners[0].out_bytes_max, max);
    assert_int_equal(parsed->listeners[0].out_bytes_high, high);
}

static void test_the_largest_reply_fits(void **state) {
    (void)state;
    output("mode = echo", 256u << 10, 64u << 10);
    output("mode = echo; max_frame = 192k", (256u << 10) + 4096, 64u << 10);
    output("mode = echo; max_frame = 196604", 256u << 10,
           64u << 10); // 192k with its header, to the byte
    output("mode = echo; max_frame = 256m", (256u << 20) + (64u << 10) + 4096, 64u << 10);
    output("mode = ack; max_frame = 256m", 256u << 10, 64u << 10);
    output("mode = echo; max_frame = 64k; out_max = 68k", 68u << 10, 4092);
    output("mode = echo; max_frame = 64k; out_max = 65541", 65541, 1);
    output("mode = echo; max_frame = 64k; out_high = 512k", (576u << 10) + 4096, 512u << 10);
    output("mode = ack; out_max = 1k", 1024, 1012);
    refused_with(listener("mode = echo; max_frame = 64k; out_max = 65540"),
                 "out_max: 65540 has no room for a frame of max_frame (64k) and its header; "
                 "allowed: auto, or more than 65540");
    refused_with(listener("mode = echo; max_frame = 64k; out_max = 128k; out_high = 64k"),
                 "out_high: 64k leaves no room for a frame of max_frame (64k) and its header below out_max (128k)");
    refused_with(listener("mode = ack; out_max = 1k; out_high = 1013"),
                 "out_high: 1013 leaves no room for an acknowledgement");
    refused_with("workers = 4; memory_max = 16m;\nlistener a { protocol = frame; bind = "
                 "127.0.0.1:0; max_frame = 5m }",
                 "t:2: listener a: max_frame: a frame of 5m does not fit a worker's share of memory_max (4m)");
    refused_with(
        "max_conns = 10;\nlistener a { protocol = frame; bind = 127.0.0.1:0; max_conns = 11 }",
        "t:2: listener a: max_conns: 11 is above the process's max_conns, 10");
}

static void test_control_socket_path(void **state) {
    (void)state;
    char text[512], dir[300];
    memset(dir, 'd', sizeof(dir));
    snprintf(text, sizeof(text), "data_dir = \"%.98s\"\n%s", dir, listener(""));
    accepted(text);
    assert_int_equal(strlen(parsed->ctl_socket), 107);
    snprintf(text, sizeof(text), "\ndata_dir = \"%.99s\"\n%s", dir, listener(""));
    refused(text, "t:2: data_dir: too long for the control socket in it (108 bytes with /ctl.sock, "
                  "at most 107); set ctl_socket");
    snprintf(text, sizeof(text), "ctl_socket = \"/c\"\ndata_dir = \"%.255s\"\n%s", dir,
             listener(""));
    accepted(text);
    snprintf(text, sizeof(text), "data_dir = \"%.256s\"\n%s", dir, listener(""));
    refused_with(text, "data_dir: longer than 255 bytes");
}

static void test_mistakes_stand_in_the_order_of_lines(void **state) {
    (void)state;
    static const u32 lines[] = {1, 2, 3, 4, 5, 6, 6};
    u32 found = 0, line;
    assert_int_equal(parse("b = 1\nlog { c = 1 }\nlistener a { protocol = x; bind = 127.0.0.1:1 }\n"
                           "workers = y\nlog { }\nlistener z { }"),
                     -EINVAL);
    for (const char *p = error.text; p != NULL; p = strchr(p, '\n')) {
        if (*p == '\n') p++;
        assert_true(found < ARRAY_LEN(lines));
        assert_int_equal(sscanf(p, "t:%u: ", &line), 1);
        assert_int_equal(line, lines[found++]);
    }
    assert_int_equal(found, ARRAY_LEN(lines));
}

// Every mistake is counted; those without room are summed up in the last line.
static void test_all_mistakes_are_reported(void **state) {
    (void)state;
    char text[8192];
    size_t used = 0;
    for (int i = 0; i < 200; i++) used += (size_t)sprintf(text + used, "a%d = 1\n", i);
    assert_int_equal(parse(text), -EINVAL);
    u32 lines = 0, more = 0;
    const char *last = error.text;
    for (const char *p = error.text; p != NULL; p = strchr(p, '\n')) {
        last = p = p == error.text ? p : p + 1;
        lines++;
    }
    assert_int_equal(sscanf(last, "%u more mistakes not shown", &more), 1);
    assert_int_equal(lines - 1 + more, 200);
    assert_true(strlen(error.text) < sizeof(error.text));
}

static void test_load(void **state) {
    (void)state;
    char path[] = "sluice-test-XXXXXX", name[400];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, full, sizeof(full) - 1), (ssize_t)sizeof(full) - 1);
    assert_int_equal(config_load(path, parsed, &error), 0);
    assert_string_equal(parsed->source, path);
    assert_int_equal(ftruncate(fd, LIMIT_CONFIG_BYTES + 1), 0);
    assert_int_equal(config_load(path, parsed, &error), -EINVAL);
    assert_non_null(strstr(error.text, ": longer than 1048576 bytes"));
    close(fd);
    unlink(path);
    assert_int_equal(config_load(path, parsed, &error), -ENOENT);
    assert_non_null(strstr(error.text, ": can not open: No such file or directory (ENOENT)"));
    assert_int_equal(config_load("/", parsed, &error), -EISDIR);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(config_load(name, parsed, &error), -ENAMETOOLONG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_setting),
        cmocka_unit_test(test_printed_configuration_reads_back),
        cmocka_unit_test(test_a_token_is_not_printed),
        cmocka_unit_test(test_largest_configuration_prints),
        cmocka_unit_test(test_mistakes_in_settings),
        cmocka_unit_test(test_unknown_keys_and_sections),
        cmocka_unit_test(test_names_and_addresses_are_used_once),
        cmocka_unit_test(test_who_may_publish_is_decided),
        cmocka_unit_test(test_topics),
        cmocka_unit_test(test_the_largest_reply_fits),
        cmocka_unit_test(test_control_socket_path),
        cmocka_unit_test(test_mistakes_stand_in_the_order_of_lines),
        cmocka_unit_test(test_all_mistakes_are_reported),
        cmocka_unit_test(test_load),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
