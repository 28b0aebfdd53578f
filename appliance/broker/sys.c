// SPDX-License-Identifier: Apache-2.0
// sys.c: one table of topics. At each interval the counters of all workers are summed up, and each row whose
// text has changed is published (retained, QoS 0). A row that meets congestion is tried at the next interval.
//
// The load rows are moving averages per minute over 1, 5 and 15 minutes: new = old + (rate - old) *
// (1 - e^(-interval/window)).
#include "broker/sys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/message.h"
#include "proto/mqtt.h"
#include "version.h"
#include "worker.h"

#define OFF_LOOK_S 10u // how often a switched off interval is looked at again
#define TEXT_BYTES 48u

typedef struct sys_values {
    u64 uptime_s;
    u64 clients_total, clients_connected, clients_away, clients_max, clients_expired;
    u64 messages_in, messages_out, in_flight, queued, queued_bytes;
    u64 publish_in, publish_out, publish_dropped, publish_bytes_in, publish_bytes_out;
    u64 bytes_in, bytes_out, conns_opened, connects;
    u64 subscriptions, shared, retained, memory;
} sys_values;

typedef struct sys_row {
    const char *topic;
    size_t offset;
} sys_row;

#define ROW(name, member) {"$SYS/broker/" name, offsetof(sys_values, member)}
static const sys_row rows[] = {
    {"$SYS/broker/uptime", offsetof(sys_values, uptime_s)},
    ROW("clients/total", clients_total),
    ROW("clients/connected", clients_connected),
    ROW("clients/active", clients_connected),
    ROW("clients/disconnected", clients_away),
    ROW("clients/inactive", clients_away),
    ROW("clients/maximum", clients_max),
    ROW("clients/expired", clients_expired),
    ROW("messages/received", messages_in),
    ROW("messages/sent", messages_out),
    ROW("messages/inflight", in_flight),
    ROW("store/messages/count", queued),
    ROW("store/messages/bytes", queued_bytes),
    ROW("publish/messages/received", publish_in),
    ROW("publish/messages/sent", publish_out),
    ROW("publish/messages/dropped", publish_dropped),
    ROW("publish/bytes/received", publish_bytes_in),
    ROW("publish/bytes/sent", publish_bytes_out),
    ROW("bytes/received", bytes_in),
    ROW("bytes/sent", bytes_out),
    ROW("subscriptions/count", subscriptions),
    ROW("shared_subscriptions/count", shared),
    ROW("retained messages/count", retained),
    ROW("heap/current", memory),
};

#define LOAD(name, member) {"$SYS/broker/load/" name, offsetof(sys_values, member)}
static const sys_row loads[] = {
    LOAD("messages/received", messages_in),
    LOAD("messages/sent", messages_out),
    LOAD("publish/received", publish_in),
    LOAD("publish/sent", publish_out),
    LOAD("publish/dropped", publish_dropped),
    LOAD("bytes/received", bytes_in),
    LOAD("bytes/sent", bytes_out),
    LOAD("sockets", conns_opened),
    LOAD("connections", connects),
};
static const u32 windows_min[] = {1, 5, 15};
#define WINDOWS ARRAY_LEN(windows_min)

struct sys_topics {
    worker *owner;
    timer_node timer;
    u64 last_ns;
    sys_values last;
    bool told_version;
    char texts[ARRAY_LEN(rows)][TEXT_BYTES];
    char load_texts[ARRAY_LEN(loads)][WINDOWS][TEXT_BYTES];
    double averages[ARRAY_LEN(loads)][WINDOWS];
};

static u64 value_at(const sys_values *v, size_t offset) {
    u64 value;
    memcpy(&value, (const char *)v + offset, sizeof(value));
    return value;
}

static u64 sum(const counter *list, u32 count) {
    u64 total = 0;
    for (u32 i = 0; i < count; i++) total += counter_get(&list[i]);
    return total;
}

static void values_take(const sys_topics *s, sys_values *v) {
    const gateway *gw = s->owner->gw;
    memset(v, 0, sizeof(*v));
    v->uptime_s = (s->owner->now_ns - gw->started_mono_ns) / NS_PER_S;
    for (u32 i = 0; i < gw->worker_count; i++) {
        const worker_metrics *m = &gw->workers[i].metrics;
        broker_usage usage = broker_usage_get(gw->workers[i].broker);
        v->clients_total += counter_get(&m->mqtt_sessions);
        v->clients_connected += counter_get(&m->mqtt_online);
        v->clients_expired += counter_get(&m->mqtt_sessions_expired);
        v->messages_in += sum(m->mqtt_packets_in, ARRAY_LEN(m->mqtt_packets_in));
        v->messages_out += sum(m->mqtt_packets_out, ARRAY_LEN(m->mqtt_packets_out));
        v->in_flight += counter_get(&m->mqtt_in_flight);
        v->queued += counter_get(&m->mqtt_queued);
        v->queued_bytes += counter_get(&m->mqtt_queued_bytes);
        v->publish_in += sum(m->mqtt_publish_in, ARRAY_LEN(m->mqtt_publish_in));
        v->publish_out += sum(m->mqtt_publish_out, ARRAY_LEN(m->mqtt_publish_out));
        v->publish_dropped += sum(m->mqtt_drops, ARRAY_LEN(m->mqtt_drops));
        v->publish_bytes_in += counter_get(&m->mqtt_publish_bytes_in);
        v->publish_bytes_out += counter_get(&m->mqtt_publish_bytes_out);
        v->bytes_in += counter_get(&m->bytes_in);
        v->bytes_out += counter_get(&m->bytes_out);
        v->conns_opened += counter_get(&m->conns_opened);
        v->connects += counter_get(&m->mqtt_packets_in[MQTT_CONNECT]);
        v->subscriptions += usage.subscriptions;
        v->shared += usage.shared;
        v->retained += usage.retained;
        v->memory += usage.memory_bytes + counter_get(&m->memory_used);
    }
    v->clients_away = v->clients_total - MIN(v->clients_connected, v->clients_total);
    v->clients_max = MAX(s->last.clients_max, v->clients_connected);
}

static bool publish(const sys_topics *s, const char *topic, const char *text) {
    publication p = {
        .topic = topic,
        .topic_len = (u32)strlen(topic),
        .payload = (const u8 *)text,
        .payload_len = (u32)strlen(text),
        .retain = true,
    };
    return broker_publish(s->owner->broker, &p, NULL) == 0;
}

// Publishes what is new and remembers it.
static void publish_changed(const sys_topics *s, const char *topic, char *last, const char *text) {
    if (strcmp(last, text) == 0) return;
    if (publish(s, topic, text)) snprintf(last, TEXT_BYTES, "%s", text);
}

static void publish_loads(sys_topics *s, const sys_values *v, double seconds) {
    char topic[96], text[TEXT_BYTES];
    for (u32 i = 0; i < ARRAY_LEN(loads); i++) {
        u64 now = value_at(v, loads[i].offset), before = value_at(&s->last, loads[i].offset);
        double per_minute = (double)(now - MIN(before, now)) * 60.0 / seconds;
        for (u32 k = 0; k < WINDOWS; k++) {
            double weight = 1.0 - exp(-seconds / (60.0 * windows_min[k]));
            s->averages[i][k] += (per_minute - s->averages[i][k]) * weight;
            snprintf(topic, sizeof(topic), "%s/%umin", loads[i].topic, windows_min[k]);
            snprintf(text, sizeof(text), "%.2f", s->averages[i][k]);
            publish_changed(s, topic, s->load_texts[i][k], text);
        }
    }
}

static void sys_publish(sys_topics *s) {
    char text[TEXT_BYTES];
    sys_values v;
    values_take(s, &v);
    if (!s->told_version) s->told_version = publish(s, "$SYS/broker/version", "sluice version " SLUICE_VERSION);
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned long long value = value_at(&v, rows[i].offset);
        bool seconds = rows[i].offset == offsetof(sys_values, uptime_s);
        snprintf(text, sizeof(text), "%llu%s", value, seconds ? " seconds" : "");
        publish_changed(s, rows[i].topic, s->texts[i], text);
    }
    publish_loads(s, &v, (double)(s->owner->now_ns - s->last_ns) / (double)NS_PER_S);
    s->last = v;
    s->last_ns = s->owner->now_ns;
}

static void on_timer(timer_node *node, void *context) {
    worker *w = context;
    sys_topics *s = CONTAINER_OF(node, sys_topics, timer);
    u32 interval_s = w->conf->sys_interval_s;
    if (interval_s != 0 && w->now_ns > s->last_ns) sys_publish(s);
    timer_arm(w->wheel, node, w->now_ns + (interval_s != 0 ? interval_s : OFF_LOOK_S) * NS_PER_S);
}

sys_topics *sys_create(worker *w) {
    sys_topics *s = calloc(1, sizeof(*s));
    if (s == NULL) return NULL;
    s->owner = w;
    s->timer.callback = on_timer;
    s->last_ns = w->now_ns;
    u32 interval_s = w->conf->sys_interval_s;
    timer_arm(w->wheel, &s->timer, w->now_ns + (interval_s != 0 ? interval_s : OFF_LOOK_S) * NS_PER_S);
    return s;
}

void sys_destroy(sys_topics *s) {
    if (s == NULL) return;
    timer_cancel(s->owner->wheel, &s->timer);
    free(s);
}

bool sys_is_bridge_state(const char *topic, u32 len) {
    static const char front[] = "$SYS/broker/connection/", back[] = "/state";
    const u32 front_len = sizeof(front) - 1, back_len = sizeof(back) - 1;
    return len > front_len + back_len && memcmp(topic, front, front_len) == 0 &&
           memcmp(topic + len - back_len, back, back_len) == 0;
}
