// SPDX-License-Identifier: Apache-2.0
// sub.c: `sluice sub`: subscribes and prints. A message is acknowledged after it was printed; QoS 2
// is printed once, however often it comes.
//
// What came from a topic alias is printed under its topic: this client offers no alias maximum
// unless -D connect topic-alias-maximum asks for one.
#include "client/sub.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/topic.h"
#include "client/client.h"
#include "client/format.h"
#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"

#define LEAVE_MS 2000u
#define SUBSCRIBE_ID 1u
#define ALIASES_MAX 65536u

typedef enum sub_end { // why the loop is to end
    SUB_GOES_ON,
    SUB_DONE,
    SUB_FAILED,
} sub_end;

typedef struct subscriber {
    client_options options;
    client_conn conn;
    bool subscribed;
    sub_end end;
    u64 shown;
    u64 unreleased[65536 / 64]; // QoS 2 identifiers printed and not released
    char **aliases;             // topics by alias; NULL until an alias maximum is offered
    u32 alias_max;
} subscriber;

static volatile sig_atomic_t stop_asked;

static void on_stop_signal(int signal_number) {
    (void)signal_number;
    stop_asked = 1;
}

// --- what is shown ---

static bool level_equal(topic_level a, topic_level b) {
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

// 5.0 section 4.7: also that wildcards do not match a first level with '$'.
static bool filter_matches(const char *filter, mqtt_bytes topic) {
    static topic_level f[LIMIT_TOPIC_LEVELS], t[LIMIT_TOPIC_LEVELS];
    u32 fs = topic_split(filter, (u32)strlen(filter), f);
    u32 ts = topic_split((const char *)topic.data, topic.len, t);
    bool hidden = topic.len > 0 && topic.data[0] == '$';
    for (u32 i = 0; i < fs; i++) {
        bool hash = f[i].len == 1 && f[i].text[0] == '#';
        bool plus = f[i].len == 1 && f[i].text[0] == '+';
        if (hidden && i == 0 && (hash || plus)) return false;
        if (hash) return true;
        if (i >= ts) return false;
        if (!plus && !level_equal(f[i], t[i])) return false;
        if (i + 1 == ts && fs == ts + 1 && f[fs - 1].len == 1 && f[fs - 1].text[0] == '#') {
            return true; // "a/#" matches "a"
        }
    }
    return fs == ts;
}

static bool is_wanted(const client_options *o, const mqtt_publish *m) {
    if (m->retain ? o->no_retained : o->retained_only) return false;
    for (u32 i = 0; i < o->skip_count; i++) {
        if (filter_matches(o->skip[i], m->topic)) return false;
    }
    return true;
}

static int alias_resolve(subscriber *s, mqtt_publish *m) {
    if (m->topic_alias == 0) return 0;
    if (s->aliases == NULL || m->topic_alias > s->alias_max) {
        return client_fail(&s->conn, CLIENT_STATUS_FAILED,
                           "the broker used topic alias %u, the maximum is %u", m->topic_alias,
                           s->alias_max);
    }
    char **known = &s->aliases[m->topic_alias];
    if (m->topic.len > 0) {
        char *copy = malloc((size_t)m->topic.len + 1);
        if (copy == NULL) base_out_of_memory("a topic", m->topic.len);
        memcpy(copy, m->topic.data, m->topic.len);
        copy[m->topic.len] = 0;
        free(*known);
        *known = copy;
        return 0;
    }
    if (*known == NULL) {
        return client_fail(&s->conn, CLIENT_STATUS_FAILED,
                           "the broker used topic alias %u without having given it a topic",
                           m->topic_alias);
    }
    m->topic = client_text(*known);
    return 0;
}

static void message_show(subscriber *s, const mqtt_publish *m) {
    if (!is_wanted(&s->options, m)) return;
    client_message_print(stdout, &s->options, m, clock_real_ns());
    // A reader at the other end of a pipe sees each message when it comes.
    if (fflush(stdout) != 0) {
        s->end = SUB_FAILED;
        s->conn.status = CLIENT_STATUS_FAILED;
        snprintf(s->conn.why, sizeof(s->conn.why), "the output could not be written: %s",
                 errno_name(errno));
        return;
    }
    s->shown++;
    if (s->options.count > 0 && s->shown >= s->options.count) s->end = SUB_DONE;
}

// --- packets ---

static int ack_put(subscriber *s, mqtt_type type, u16 id) {
    mqtt_packet packet = {.type = (u8)type, .version = s->conn.codec.version};
    packet.ack.packet_id = id;
    return client_put(&s->conn, &packet);
}

static int publish_take(subscriber *s, const mqtt_packet *packet) {
    mqtt_publish m = packet->publish;
    // Neither shown nor acknowledged: the broker keeps what it owes.
    if (s->end != SUB_GOES_ON) return 1;
    if (alias_resolve(s, &m) != 0) return -EIO;
    if (m.qos < 2) {
        message_show(s, &m);
        return m.qos == 1 ? ack_put(s, MQTT_PUBACK, m.packet_id) : 0;
    }
    u64 bit = 1ull << m.packet_id % 64, *word = &s->unreleased[m.packet_id / 64];
    if ((*word & bit) == 0) message_show(s, &m);
    *word |= bit;
    return ack_put(s, MQTT_PUBREC, m.packet_id);
}

static int suback_take(subscriber *s, const mqtt_packet *packet) {
    const mqtt_suback *a = &packet->suback;
    const client_options *o = &s->options;
    if (s->subscribed || a->packet_id != SUBSCRIBE_ID || a->codes.len != o->topic_count) {
        return client_fail(&s->conn, CLIENT_STATUS_FAILED, "the broker sent an unexpected SUBACK");
    }
    s->subscribed = true;
    u32 refused = 0;
    for (u32 i = 0; i < a->codes.len; i++) {
        u8 code = a->codes.data[i];
        if (o->debug) fprintf(stderr, "SUBACK %s: %u\n", o->topics[i], code);
        if (code < 0x80) continue;
        refused++;
        if (o->quiet) continue;
        fprintf(stderr, "sluice sub: %s: refused by the broker: %s (0x%02x)\n", o->topics[i],
                packet->version == MQTT_5 ? mqtt_reason_name(code) : "failure", code);
    }
    if (refused == o->topic_count) {
        return client_fail(&s->conn, CLIENT_STATUS_REFUSED, "all subscriptions were refused");
    }
    if (o->exit_subscribed) s->end = SUB_DONE;
    return 0;
}

static int packet_handle(void *ctx, const mqtt_packet *packet) {
    subscriber *s = ctx;
    switch (packet->type) {
    case MQTT_PUBLISH: return publish_take(s, packet);
    case MQTT_PUBREL:
        s->unreleased[packet->ack.packet_id / 64] &= ~(1ull << packet->ack.packet_id % 64);
        return ack_put(s, MQTT_PUBCOMP, packet->ack.packet_id);
    case MQTT_SUBACK: return suback_take(s, packet);
    case MQTT_DISCONNECT:
        return client_fail(&s->conn, CLIENT_STATUS_REFUSED, "the broker disconnected: %s (0x%02x)",
                           mqtt_reason_name(packet->goodbye.reason), packet->goodbye.reason);
    default:
        return client_fail(&s->conn, CLIENT_STATUS_FAILED, "the broker sent an unexpected %s",
                           mqtt_type_name(packet->type));
    }
}

// --- the course ---

static int subscribe_put(subscriber *s) {
    const client_options *o = &s->options;
    u32 capacity = 0;
    for (u32 i = 0; i < o->topic_count; i++) capacity += (u32)strlen(o->topics[i]) + 3;
    u8 *list = malloc(capacity);
    if (list == NULL) base_out_of_memory("subscriptions", capacity);
    mqtt_packet packet = {.type = MQTT_SUBSCRIBE, .version = (u8)o->version};
    packet.subscribe = (mqtt_subscribe){
        .packet_id = SUBSCRIBE_ID,
        .props = mqtt_property_list_end(&o->props[PLACE_SUBSCRIBE]),
        .filters = {.options = true},
    };
    int rc = 0;
    for (u32 i = 0; i < o->topic_count && rc == 0; i++) {
        mqtt_filter filter = {.text = client_text(o->topics[i]),
                              .qos = o->qos,
                              .no_local = o->no_local,
                              .retain_as_published = o->retain_as_published,
                              .retain_handling = o->retain_handling};
        rc = mqtt_filter_put(&packet.subscribe.filters, list, capacity, &filter);
    }
    rc = rc == 0 ? client_put(&s->conn, &packet)
                 : client_fail(&s->conn, CLIENT_STATUS_FAILED, "SUBSCRIBE: %s", errno_name(rc));
    free(list);
    return rc;
}

static void session_begin(subscriber *s) {
    s->subscribed = false;
    if (!s->conn.session_present) memset(s->unreleased, 0, sizeof(s->unreleased));
    for (u32 i = 0; s->aliases != NULL && i <= s->alias_max; i++) {
        free(s->aliases[i]);
        s->aliases[i] = NULL;
    }
}

static bool may_go_on(const subscriber *s, u64 until_ns) {
    return s->end == SUB_GOES_ON && !stop_asked && clock_mono_ns() < until_ns;
}

// One connection. 0 when the loop ended by itself, -EIO when the connection was lost.
static int connection_run(subscriber *s, u64 until_ns) {
    if (client_dial(&s->conn, &s->options) != 0) return -EIO;
    session_begin(s);
    if (subscribe_put(s) != 0) return -EIO;
    while (may_go_on(s, until_ns)) {
        if (client_turn(&s->conn, until_ns, -1, packet_handle, s) == CLIENT_TURN_CLOSED) {
            return -EIO;
        }
    }
    mqtt_properties props = mqtt_property_list_end(&s->options.props[PLACE_DISCONNECT]);
    client_leave(&s->conn, 0, &props, LEAVE_MS);
    return 0;
}

// Grows to the maximum by doubling; a random half of it, so that many clients do not come at once.
static void reconnect_wait(u32 attempt, u64 until_ns) {
    u64 ms = CLIENT_RECONNECT_MS_MIN << MIN(attempt, 5u);
    ms = MIN(ms, CLIENT_RECONNECT_MS_MAX);
    ms = ms / 2 + (u64)random() % (ms / 2 + 1);
    u64 wake_ns = MIN(clock_mono_ns() + ms * NS_PER_MS, until_ns);
    while (!stop_asked && clock_mono_ns() < wake_ns) {
        struct timespec step = {.tv_nsec = 20 * 1000 * 1000};
        nanosleep(&step, NULL);
    }
}

static int subscriber_run(subscriber *s) {
    const client_options *o = &s->options;
    u64 begin_ns = clock_mono_ns();
    u64 until_ns = o->wait_ms > 0 ? begin_ns + o->wait_ms * NS_PER_MS : UINT64_MAX;
    u32 attempt = 0;
    srandom((unsigned)begin_ns);
    for (;;) {
        int rc = connection_run(s, until_ns);
        bool had = s->subscribed;
        bool again = rc != 0 && o->reconnect && may_go_on(s, until_ns) &&
                     s->conn.status == CLIENT_STATUS_FAILED;
        if (!again) {
            if (rc != 0 && !stop_asked && s->end != SUB_DONE) return s->conn.status;
            break;
        }
        if (!o->quiet) fprintf(stderr, "sluice sub: %s; connecting again\n", s->conn.why);
        attempt = had ? 0 : attempt + 1;
        reconnect_wait(attempt, until_ns);
    }
    if (s->end == SUB_FAILED) return s->conn.status;
    return s->end == SUB_GOES_ON && !stop_asked ? CLIENT_STATUS_TIMEOUT : CLIENT_STATUS_OK;
}

static void aliases_prepare(subscriber *s) {
    mqtt_properties props = mqtt_property_list_end(&s->options.props[PLACE_CONNECT]);
    s->alias_max = mqtt_property_number(&props, MQTT_TOPIC_ALIAS_MAX, 0);
    if (s->alias_max == 0) return;
    s->aliases = calloc(ALIASES_MAX, sizeof(*s->aliases));
    if (s->aliases == NULL) base_out_of_memory("topic aliases", ALIASES_MAX * sizeof(char *));
}

int client_sub_main(int argc, char **argv) {
    subscriber *s = calloc(1, sizeof(*s));
    if (s == NULL) base_out_of_memory("a subscriber", sizeof(*s));
    struct sigaction stop = {.sa_handler = on_stop_signal};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    s->conn.fd = -1;
    int rc = client_options_parse(&s->options, true, argc, argv);
    int status = rc >= 0 ? CLIENT_STATUS_OK : CLIENT_STATUS_USAGE;
    const char *wrong = rc == 0 && s->options.format != NULL
                            ? client_format_check(s->options.format)
                            : NULL;
    if (wrong != NULL) {
        fprintf(stderr, "sluice sub: -F: \"%s\" is not allowed; allowed: %s\n", s->options.format,
                wrong);
        status = CLIENT_STATUS_USAGE;
    } else if (rc == 0) {
        aliases_prepare(s);
        status = subscriber_run(s);
        bool failed = status == CLIENT_STATUS_FAILED || status == CLIENT_STATUS_REFUSED;
        if (failed && !s->options.quiet) fprintf(stderr, "sluice sub: %s\n", s->conn.why);
    }
    for (u32 i = 0; s->aliases != NULL && i < ALIASES_MAX; i++) free(s->aliases[i]);
    free(s->aliases);
    client_options_free(&s->options);
    free(s);
    return status;
}
